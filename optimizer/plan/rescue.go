package plan

import (
	"math"
	"slices"

	"trainopt/resources"
)

const (
	// apart is the minimum distance of an allocation from all measured ones, in doublings summed over GPUs, CPUs and
	// batch size, for a rescue measurement.
	apart = 0.58
	// cheap is the share of the remaining time and money that such a measurement may use.
	cheap = 0.10
)

// RescueProbe returns an allocation to measure, with the reason, when no allocation has a chance of at least 50 % of
// meeting the SLA: staying would miss it, and the model may be wrong far from the measurements. Among the unmeasured
// allocations that can be measured with a tenth of the remaining time and money, it selects the one with the least
// excess at the optimistic end of its interval; the preference breaks ties. RescueProbe returns nil when an allocation
// is likely to meet the SLA, the job cannot be resumed, or none qualifies. O(candidates × draws).
func RescueProbe(s Snapshot) (*resources.Allocation, string) {
	if s.Model == nil || s.Current == nil || !s.Resumable || !(s.Total > 0) || !MayProbe(s) {
		return nil, ""
	}
	b := newEvaluation(s)
	for i := range b.outcomes {
		if finite(b.cs[i]) && b.outcomes[i].odds() >= likelyChance {
			return nil, ""
		}
	}
	best, least := -1, math.Inf(1)
	for i, c := range b.cs {
		if !finite(c) || !b.distant(c.Allocation) || !b.affordable(c.Allocation) {
			continue
		}
		timeMax, costMax := s.Spec.TimeMax.Seconds(), s.Spec.CostMaxUSD
		over := excess(c.Seconds.P5, timeMax) + excess(c.CostUSD.P5, costMax)
		if over < least || over == least && loss(objectives(c), objectives(b.cs[best]), b.preference) < loss(objectives(b.cs[best]), objectives(c), b.preference) {
			best, least = i, over
		}
	}
	if best < 0 {
		return nil, ""
	}
	return &b.cs[best].Allocation, "no measured allocation meets the SLA, and measuring costs little compared with missing it"
}

// distant reports whether no measurement lies near an allocation.
func (b *evaluation) distant(a resources.Allocation) bool {
	octaves := func(x, y int) float64 { return math.Abs(math.Log2(float64(max(x, 1)) / float64(max(y, 1)))) }
	return !slices.ContainsFunc(b.forecast.s.Model.Measured(), func(m resources.Allocation) bool {
		return octaves(a.GPUs, m.GPUs)+octaves(a.CPUs, m.CPUs)+octaves(a.BatchSize, m.BatchSize) < apart && a.Threads == m.Threads
	})
}

// affordable reports whether a small share of the remaining time and money suffices to measure an allocation.
func (b *evaluation) affordable(a resources.Allocation) bool {
	s := b.forecast.s
	unit := s.Model.UnitSeconds(a).P50
	seconds := s.Restart.P50 + s.probeUnits(unit)*unit
	usd := seconds / 3600 * float64(s.Rates.Hourly(a))
	timeLeft, costLeft := s.Spec.TimeMax.Seconds()-s.Elapsed.Seconds(), s.Spec.CostMaxUSD-float64(s.Spent)
	return (s.Spec.TimeMax <= 0 || seconds <= cheap*timeLeft) && (s.Spec.CostMaxUSD <= 0 || usd <= cheap*costLeft)
}
