package cost

import "math"

// Interruptions says what spot capacity costs a job: how often it is taken away and what that loses. The zero value is
// capacity that stays. Numbers that are negative or NaN count as 0.
type Interruptions struct {
	PerHour      float64 // expected number an hour of running
	RestartHours float64 // start, load, warm up; can itself be interrupted
	LostHours    float64 // work since the last checkpoint, on average: half the time between two checkpoints
	AwayHours    float64 // until capacity is back: time, but no money
	Resumable    bool    // false: everything is done again

	// PerHourLow to PerHourHigh and AwayLow to AwayHigh are what PerHour and AwayHours may as well be; 0: as they are.
	PerHourLow, PerHourHigh float64
	AwayLow, AwayHigh       float64
	// Assumed says in one sentence on what the rate stands when it was not measured on this capacity; empty when it was.
	Assumed string
}

// How long a spot machine stays and how long it is away, hours: 10 % and 90 % quantiles over 26 traces of AWS spot capacity (V100, K80
// and 64-CPU machines, 2022-10 to 2023-08) of each trace's means. Figures from the data of "Can't Be Late" (Wu et al., NSDI 2024);
// package profile of the simulator draws from the same ranges and repeats the calculation in a test.
const (
	spotUpLow, spotUpHigh     = 4030.0 / 3600, 22000.0 / 3600
	spotAwayLow, spotAwayHigh = 1720.0 / 3600, 11500.0 / 3600
)

// AssumedSpot is what may be expected of spot capacity of which nothing is known: the geometric middle of what was measured on
// AWS in 2022 and 2023, and the range around it. It is an assumption, no property of any cloud's machine type, and says so
// in Assumed. restart and lost are the job's own hours, see [Interruptions].
func AssumedSpot(restart, lost float64, resumable bool) Interruptions {
	return Interruptions{
		PerHour: 1 / math.Sqrt(spotUpLow*spotUpHigh), PerHourLow: 1 / spotUpHigh, PerHourHigh: 1 / spotUpLow,
		AwayHours: math.Sqrt(spotAwayLow * spotAwayHigh), AwayLow: spotAwayLow, AwayHigh: spotAwayHigh,
		RestartHours: restart, LostHours: lost, Resumable: resumable,
		Assumed: "spot capacity is assumed to be taken away every 1.1 to 6.1 hours and to be back after 0.5 to 3.2, as measured on AWS in 2022 and 2023; nothing is known of this type",
	}
}

// Expected is what a job of so many undisturbed hours comes to: hours that are paid for, and hours until it is done, both as
// expectations. Interruptions come as a Poisson process of running time, in the restart as in the work. A stretch of
// τ hours between two checkpoints (for a job that is not resumable, the whole job) with a restart of R hours takes
// e^{λR}(e^{λτ} − 1)/λ on average (Daly, FGCS 2006, equation 20, without the time to write a checkpoint); each of the λ·paid interruptions
// waits AwayHours. +Inf when it is beyond all numbers; NaN for hours below 0 or NaN.
func (i Interruptions) Expected(hours float64) (paid, wall float64) {
	i = i.sound()
	if !(hours >= 0) {
		return math.NaN(), math.NaN()
	}
	if i.PerHour == 0 || hours == 0 {
		return hours, hours
	}
	stretch, whole, rest := i.stretches(hours)
	if stretch == 0 { // a checkpoint at every moment
		paid = hours * math.Exp(i.PerHour*i.RestartHours)
	} else {
		paid = whole*i.mean(stretch) + i.mean(rest)
	}
	if paid = max(paid, hours); math.IsInf(paid, 1) {
		return paid, paid
	}
	return paid, paid + i.PerHour*paid*i.AwayHours
}

// Deviation are the standard deviations of what Expected gives the means of. The waits are exponential. That of the wall clock is an
// upper bound, a few percent high: it takes the hours paid and the number of interruptions to go up and down together.
func (i Interruptions) Deviation(hours float64) (paid, wall float64) {
	i = i.sound()
	if !(hours >= 0) {
		return math.NaN(), math.NaN()
	}
	if i.PerHour == 0 || hours == 0 {
		return 0, 0
	}
	stretch, whole, rest := i.stretches(hours)
	mean, _ := i.Expected(hours)
	if math.IsInf(mean, 1) {
		return mean, mean
	}
	count := i.PerHour * mean // of interruptions, expected
	counts, variance := count, hours*i.PerHour*i.RestartHours*i.RestartHours
	if stretch > 0 {
		counts = whole*i.countVariance(stretch) + i.countVariance(rest)
		variance = whole*i.variance(stretch) + i.variance(rest)
	}
	paid = math.Sqrt(variance)
	return paid, math.Hypot(paid+i.AwayHours*math.Sqrt(counts), i.AwayHours*math.Sqrt(count))
}

func (i Interruptions) sound() Interruptions {
	for _, v := range []*float64{&i.PerHour, &i.RestartHours, &i.LostHours, &i.AwayHours} {
		if !(*v > 0) {
			*v = 0
		}
	}
	return i
}

// stretches cuts the hours at the checkpoints: so many whole ones, and the rest.
func (i Interruptions) stretches(hours float64) (stretch, whole, rest float64) {
	stretch = hours
	if i.Resumable {
		stretch = min(2*i.LostHours, hours)
	}
	if stretch < 1e-9 { // microseconds: no stretch at all, and no trouble with numbers near 0
		return 0, 0, 0
	}
	whole = math.Floor(hours / stretch)
	return stretch, whole, max(0, hours-whole*stretch)
}

// mean is the expected time of a stretch.
func (i Interruptions) mean(stretch float64) float64 {
	if x := i.PerHour * stretch; x > 1e-9 {
		stretch = math.Expm1(x) / i.PerHour
	}
	return math.Exp(i.PerHour*i.RestartHours) * stretch
}

// variance is that of the time of a stretch. The first attempt lasts τ; each further one R + τ, and V, the time of those
// attempts until one succeeds, has E[V] = (e^{λc} − 1)/λ and Var[V] = (e^{2λc} − 1 − 2λc·e^{λc})/λ² with c = R + τ.
func (i Interruptions) variance(stretch float64) float64 {
	if stretch == 0 {
		return 0
	}
	l, r := i.PerHour, i.RestartHours
	c := r + stretch
	if l*c < 1e-3 { // one interruption at most, at any moment: the closed form would lose its digits
		return l * stretch * (stretch*stretch/3 + stretch*r + r*r)
	}
	q := math.Exp(-l * stretch) // the first attempt succeeds
	first := (1 - q*(1+l*stretch)) / l
	first2 := 2/(l*l) - q*(stretch*stretch+2*stretch/l+2/(l*l))
	v := math.Expm1(l*c) / l
	v2 := (math.Expm1(2*l*c)-2*l*c*math.Exp(l*c))/(l*l) + v*v
	mean := i.mean(stretch)
	return max(0, stretch*stretch*q+first2+2*first*v+(1-q)*v2-mean*mean)
}

// countVariance is that of the number of interruptions in a stretch: none with probability e^{−λτ}, else one and a geometric number of further ones.
func (i Interruptions) countVariance(stretch float64) float64 {
	fails := -math.Expm1(-i.PerHour * stretch)
	succeeds := math.Exp(-i.PerHour * (i.RestartHours + stretch))
	mean := fails / succeeds
	return max(0, fails*(2-succeeds)/(succeeds*succeeds)-mean*mean)
}
