package plan

import (
	"math"

	"trainopt/resources"
)

const (
	// apart is how far, in doublings summed over GPUs, CPUs and batch, an allocation must be from all measured ones to be
	// worth measuring where nothing looks feasible.
	apart = 0.58
	// cheap is the share of the time and the money left that such a measurement may take.
	cheap = 0.10
)

// Rescue says where to measure, and why, when no allocation is even as likely as not to keep the agreement: staying is
// then a loss, and the model may be wrong where nothing was measured. It is the unmeasured allocation that comes nearest
// to keeping the agreement by the optimistic end of its interval, the preferred one of equals, of those that a tenth of
// the remaining time and money can measure. Nil when something is likely, the job cannot be moved, or nothing qualifies. O(candidates × draws).
func Rescue(s Snapshot) (*resources.Allocation, string) {
	if s.Model == nil || s.Current == nil || !s.Resumable || !(s.Total > 0) || moves(s) >= maxMoves-1 {
		return nil, ""
	}
	b := newBoard(s)
	for i := range b.outcomes {
		if finite(b.cs[i]) && b.outcomes[i].odds() >= likely {
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

// distant reports whether nothing was measured near an allocation.
func (b *board) distant(a resources.Allocation) bool {
	octaves := func(x, y int) float64 { return math.Abs(math.Log2(float64(max(x, 1)) / float64(max(y, 1)))) }
	for _, m := range b.forecast.s.Model.Measured() {
		if octaves(a.GPUs, m.GPUs)+octaves(a.CPUs, m.CPUs)+octaves(a.BatchSize, m.BatchSize) < apart && a.Threads == m.Threads {
			return false
		}
	}
	return true
}

// affordable reports whether a small share of the remaining time and money can measure at an allocation.
func (b *board) affordable(a resources.Allocation) bool {
	s := b.forecast.s
	unit := s.Model.UnitSeconds(a).P50
	seconds := s.Restart.P50 + probeUnits(unit)*unit
	usd := seconds / 3600 * float64(s.Rates.Hourly(a))
	timeLeft, costLeft := s.Spec.TimeMax.Seconds()-s.Elapsed.Seconds(), s.Spec.CostMaxUSD-float64(s.Spent)
	return (s.Spec.TimeMax <= 0 || seconds <= cheap*timeLeft) && (s.Spec.CostMaxUSD <= 0 || usd <= cheap*costLeft)
}
