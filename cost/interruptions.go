package cost

import "math"

// Interruptions describes the interruptions of a job on spot capacity: their rate and the work lost by each. The zero
// value means no interruptions. Negative or NaN numbers count as 0.
type Interruptions struct {
	PerHour      float64 // expected number per hour of running
	RestartHours float64 // start, load and warm-up; can itself be interrupted
	LostHours    float64 // mean work since the last checkpoint: half the checkpoint interval
	AwayHours    float64 // until capacity returns: costs time but no money
	Resumable    bool    // false: the whole job is repeated

	// PerHourLow to PerHourHigh and AwayLow to AwayHigh are the ranges of PerHour and AwayHours; 0: no range.
	PerHourLow, PerHourHigh float64
	AwayLow, AwayHigh       float64
	// Assumed states in one sentence the basis of a rate that was not measured on this capacity; empty if it was.
	Assumed string
}

// Time to interruption and unavailability of spot machines in hours: 10 % and 90 % quantiles over 26 traces of AWS
// spot capacity (V100, K80 and 64-CPU machines, 2022-10 to 2023-08) of the mean of each trace. The figures are from
// the data of "Can't Be Late" (Wu et al., NSDI 2024); package profile of the simulator draws from the same ranges and
// repeats the calculation in a test.
const (
	spotUpLow, spotUpHigh     = 4030.0 / 3600, 22000.0 / 3600
	spotAwayLow, spotAwayHigh = 1720.0 / 3600, 11500.0 / 3600
)

// AssumedSpot returns the expected interruptions of spot capacity without measurements: the geometric mean of the
// range measured on AWS in 2022 and 2023, and that range. It is an assumption rather than a property of a machine
// type, which Assumed states. restart and lost are in hours and belong to the job, see [Interruptions].
func AssumedSpot(restart, lost float64, resumable bool) Interruptions {
	return Interruptions{
		PerHour: 1 / math.Sqrt(spotUpLow*spotUpHigh), PerHourLow: 1 / spotUpHigh, PerHourHigh: 1 / spotUpLow,
		AwayHours: math.Sqrt(spotAwayLow * spotAwayHigh), AwayLow: spotAwayLow, AwayHigh: spotAwayHigh,
		RestartHours: restart, LostHours: lost, Resumable: resumable,
		Assumed: "spot capacity is assumed to be reclaimed every 1.1 to 6.1 hours and to be back after 0.5 to 3.2, as measured on AWS in 2022 and 2023; nothing is known of this type",
	}
}

// Expected returns the expected paid hours and wall-clock hours of a job that takes the given hours without
// interruptions. Interruptions form a Poisson process in running time, restarts included. A stretch of τ hours
// between two checkpoints (for a job that is not resumable, the whole job) with a restart of R hours takes
// e^{λR}(e^{λτ} − 1)/λ on average (Daly, FGCS 2006, equation 20, without the time to write a checkpoint); each of the
// λ·paid interruptions waits AwayHours. The results are +Inf on overflow and NaN for hours below 0 or NaN.
func (i Interruptions) Expected(hours float64) (paid, wall float64) {
	i = i.sound()
	if !(hours >= 0) {
		return math.NaN(), math.NaN()
	}
	if i.PerHour == 0 || hours == 0 {
		return hours, hours
	}
	stretch, whole, rest := i.stretches(hours)
	if stretch == 0 { // continuous checkpoints
		paid = hours * math.Exp(i.PerHour*i.RestartHours)
	} else {
		paid = whole*i.mean(stretch) + i.mean(rest)
	}
	if paid = max(paid, hours); math.IsInf(paid, 1) {
		return paid, paid
	}
	return paid, paid + i.PerHour*paid*i.AwayHours
}

// Deviation returns the standard deviations of the results of Expected. Waiting times are exponential. The deviation
// of the wall clock is an upper bound, a few percent high, because it assumes that paid hours and the number of
// interruptions are fully correlated.
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
	count := i.PerHour * mean // expected number of interruptions
	counts, variance := count, hours*i.PerHour*i.RestartHours*i.RestartHours
	if stretch > 0 {
		counts = whole*i.countVariance(stretch) + i.countVariance(rest)
		variance = whole*i.variance(stretch) + i.variance(rest)
	}
	paid = math.Sqrt(variance)
	return paid, math.Hypot(paid+i.AwayHours*math.Sqrt(counts), i.AwayHours*math.Sqrt(count))
}

// sound returns i with negative and NaN numbers replaced by 0.
func (i Interruptions) sound() Interruptions {
	for _, v := range []*float64{&i.PerHour, &i.RestartHours, &i.LostHours, &i.AwayHours} {
		if !(*v > 0) {
			*v = 0
		}
	}
	return i
}

// stretches divides the hours at the checkpoints into a number of whole stretches and a rest.
func (i Interruptions) stretches(hours float64) (stretch, whole, rest float64) {
	stretch = hours
	if i.Resumable {
		stretch = min(2*i.LostHours, hours)
	}
	if stretch < 1e-9 { // microseconds: treated as zero to avoid numerical problems near 0
		return 0, 0, 0
	}
	whole = math.Floor(hours / stretch)
	return stretch, whole, max(0, hours-whole*stretch)
}

// mean returns the expected duration of a stretch.
func (i Interruptions) mean(stretch float64) float64 {
	if x := i.PerHour * stretch; x > 1e-9 {
		stretch = math.Expm1(x) / i.PerHour
	}
	return math.Exp(i.PerHour*i.RestartHours) * stretch
}

// variance returns the variance of the duration of a stretch. The first attempt lasts τ, each further one R + τ, and
// V, the time of those attempts until one succeeds, has E[V] = (e^{λc} − 1)/λ and Var[V] = (e^{2λc} − 1 −
// 2λc·e^{λc})/λ² with c = R + τ.
func (i Interruptions) variance(stretch float64) float64 {
	if stretch == 0 {
		return 0
	}
	l, r := i.PerHour, i.RestartHours
	c := r + stretch
	if l*c < 1e-3 { // at most one interruption, at a uniform time: the closed form would suffer from cancellation
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

// countVariance returns the variance of the number of interruptions in a stretch: 0 with probability e^{−λτ},
// otherwise 1 plus a geometrically distributed number.
func (i Interruptions) countVariance(stretch float64) float64 {
	fails := -math.Expm1(-i.PerHour * stretch)
	succeeds := math.Exp(-i.PerHour * (i.RestartHours + stretch))
	mean := fails / succeeds
	return max(0, fails*(2-succeeds)/(succeeds*succeeds)-mean*mean)
}
