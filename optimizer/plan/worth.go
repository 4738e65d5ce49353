package plan

import (
	"fmt"
	"math"

	"trainopt/resources"
	"trainopt/simulator/training"
)

const (
	restartWeight = 1.5  // a move must win back this many times what it costs
	leastGain     = 0.02 // and this much of what remains, in regret
	improvement   = 0.9  // with this probability
	chanceGain    = 0.10 // or raise the chance of meeting the limits by this much
)

// Worth reports whether moving the running job from Current to the plan's allocation is worth the restart, and why, in
// words. The test is on paired draws over the remaining work, in the preference's own regret: better with probability
// at least 0.9 and on average also when the restart cost 1.5 times as much, by at least 2 % of a step; or the chance of
// meeting the limits rises by 10 points from below 95 %. A move that endangers limits which hold is never worth it, nor
// is one whose restart cost is not measured or whose remaining work is unknown: those can only be recommended.
func Worth(s Snapshot, p Plan) (bool, string) {
	switch {
	case s.Current == nil:
		return true, "nothing runs yet"
	case sameShape(*s.Current, p.Allocation):
		return false, "it runs there already"
	case s.Model == nil:
		return false, "nothing is measured yet"
	case !(s.Total > 0):
		return false, "the job does not say how much work remains, so the gain cannot be weighed against a restart"
	}
	f := newForecast(s)
	if f.moveTo(p.Allocation) == restart && s.Restart.P50 <= 0 && s.Startup.P50 <= 0 {
		return false, "what a restart costs is not measured yet"
	}
	if f.moveTo(p.Allocation) == again && s.Startup.P50 <= 0 {
		return false, "what a start costs is not measured yet"
	}
	here, there := f.outcome(*s.Current), f.outcome(p.Allocation)
	if !finite(there.Candidate) {
		return false, "it cannot be predicted"
	}
	if here.Chance < sure && there.Chance >= here.Chance+chanceGain {
		return true, fmt.Sprintf("the chance of meeting the agreement rises from %.0f %% to %.0f %% at %s", 100*here.Chance, 100*there.Chance, p.Allocation)
	}
	if there.Chance < min(sure, here.Chance) || here.Feasible && !there.Feasible {
		return false, fmt.Sprintf("the chance of meeting the agreement would be %.0f %%, now %.0f %%", 100*there.Chance, 100*here.Chance)
	}
	return f.gain(s, p, here, there)
}

// gain compares the remaining work at two allocations draw by draw.
func (f *forecast) gain(s Snapshot, p Plan, here, there outcome) (bool, string) {
	w := s.Preference.normalised()
	cs := append([]Candidate{here.Candidate, there.Candidate}, p.Candidates...)
	sc := scaleOf(cs, frontAmong(cs, where(cs, feasible)))
	if math.IsInf(sc.best[0], 0) {
		sc = scaleOf(cs, []int{0, 1})
	}
	slowSeconds, slowUSD := f.spend(p.Allocation, s.Model.Draws(p.Allocation), restartWeight)
	better, mean := 0, 0.0
	n := len(here.seconds)
	for k := range n {
		now := sc.regret([3]float64{here.seconds[k], here.usd[k], here.Resource}, w)
		if sc.regret([3]float64{there.seconds[k], there.usd[k], there.Resource}, w) < now {
			better++
		}
		mean += (now - sc.regret([3]float64{slowSeconds[k], slowUSD[k], there.Resource}, w)) / float64(n)
	}
	share := float64(better) / float64(n)
	words := fmt.Sprintf("%s instead of %s: %s and %s less for the rest, restart included (%.0f %% sure)", p.Allocation, *s.Current,
		signedDuration(here.Seconds.P50-there.Seconds.P50), signedUSD(here.CostUSD.P50-there.CostUSD.P50), 100*share)
	switch {
	case share < improvement:
		return false, "not sure enough: " + words
	case mean < leastGain:
		return false, "the gain does not pay the restart: " + words
	}
	return true, words
}

func signedDuration(s float64) string {
	if s < 0 {
		return "-" + duration(-s)
	}
	return duration(s)
}

func signedUSD(v float64) string {
	if v < 0 {
		return "-" + usd(-v)
	}
	return usd(v)
}

// NextProbe says which of the affordable allocations to measure next, and why; nil when nothing is worth measuring. A
// probe must be expected to improve the choice, in the preference's regret and with missed limits counted, by more
// than it costs itself (two restarts and three units of work).
func NextProbe(s Snapshot, measured []training.Observation, affordable []resources.Allocation) (*resources.Allocation, string) {
	if s.Model == nil || len(affordable) == 0 {
		return nil, ""
	}
	b := newBoard(s)
	among := where(b.cs, feasible)
	if len(among) == 0 {
		among = where(b.cs, finite)
	}
	if len(among) == 0 {
		return nil, ""
	}
	sc := scaleOf(b.cs, frontAmong(b.cs, among))
	options := training.ProbeOptions{MinGain: max(0.005, b.probeRegret(sc)), Loss: b.expectedLoss(sc), Choices: Allocations(s)}
	var at []resources.Allocation
	for _, o := range measured {
		at = append(at, o.Allocation)
	}
	probe := training.NextProbe(s.Model, affordable, at, options)
	if probe == nil {
		return nil, ""
	}
	return &probe.Allocation, probe.Reason
}

// expectedLoss is the regret of a run at given seconds per unit, with three times the relative excess over its limits.
func (b *board) expectedLoss(sc scale) func(resources.Allocation, float64) float64 {
	s := b.forecast.s
	return func(a resources.Allocation, unit float64) float64 {
		seconds, money := unit, unit/3600*float64(hourlyRate(s.Rates, a))
		over := 0.0
		if !b.forecast.perUnit {
			left := max(0, s.Total-s.Done)
			seconds, money = s.Elapsed.Seconds()+left*seconds, float64(s.Spent)+left*money
			over = excess(seconds, s.Spec.TimeMax.Seconds()) + excess(money, s.Spec.CostMaxUSD)
		}
		return sc.regret([3]float64{seconds, money, training.ResourceShare(a, s.Limits)}, b.preference) + 3*over
	}
}

// probeRegret is what a probe costs, in regret.
func (b *board) probeRegret(sc scale) float64 {
	s := b.forecast.s
	if b.forecast.perUnit {
		return 0
	}
	unit := s.Model.UnitSeconds(s.Baseline).P50
	seconds := 2*s.Restart.P50 + 3*unit
	x := sc.best
	x[0] += seconds
	x[1] += seconds / 3600 * float64(hourlyRate(s.Rates, s.Baseline))
	return sc.regret(x, b.preference)
}
