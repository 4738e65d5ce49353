package schedule

import (
	"cmp"
)

// chooser assigns device types in a round.
type chooser struct {
	chosen []*Runnable
	moved  []*Runnable // to better types after they were chosen
	left   []int       // unassigned devices by type
	round  int
	// refused is true once a chosen runnable has not started, since it would have been spread over servers.
	refused bool
	owed    []claim
	sorter
	rest
}

// claim is a candidate assignment of a device type to a runnable with its sort keys.
type claim struct {
	runnable *Runnable
	device   int
	weight   float64
	debt     float64
}

// compare orders claims by descending strength. It is a total order.
func (a *claim) compare(b *claim) int {
	switch {
	case a.weight != b.weight:
		return cmp.Compare(b.weight, a.weight)
	case a.debt != b.debt:
		return cmp.Compare(b.debt, a.debt)
	case a.runnable.A.Number != b.runnable.A.Number:
		return a.runnable.A.Number - b.runnable.A.Number
	case a.runnable.B != b.runnable.B:
		return numberOf(a.runnable.B) - numberOf(b.runnable.B)
	}
	return b.device - a.device
}

// choose assigns device types for this round: first to runnables with a full share, then in descending order of time
// owed and, unless the policy forbids it, the remaining devices in descending order of gain.
func (e *Engine) choose() {
	e.chooser.round++
	e.chosen, e.moved, e.left = e.chosen[:0], e.moved[:0], e.left[:0]
	for d := range e.Devices {
		e.left = append(e.left, e.Devices[d].Count)
	}
	e.owed = e.owed[:0]
	for _, r := range e.list {
		r.want, r.counted = -1, -1
	}
	for _, r := range e.running.all() {
		if r.pinned() && e.give(r, r.Device) {
			r.counted = r.Device
		}
	}
	for _, r := range e.list {
		e.claimShares(r)
	}
	for _, k := range e.sorted(e.owed) {
		c := &e.owed[k.claim]
		if e.give(c.runnable, c.device) {
			c.runnable.counted = c.device
		}
	}
	if !e.Traits.OnlyShares && e.anyLeft() {
		e.collect()
		for e.fill(); e.moveUp(); e.fill() {
		}
	}
}

// claimShares assigns the type of a full share, or else lists the runnable's claims on each type.
func (e *Engine) claimShares(r *Runnable) {
	for d, x := range r.shares {
		switch {
		case x <= minShare || r.gone() || !r.runsOn(d):
		case x >= fullShare && e.give(r, d):
			r.counted = d
			return
		default:
			debt := r.deficit[d] + float64(x*e.Interval)
			if r.Device == d {
				debt += e.Interval/2 + 20*min(e.Preemption.Of(r.A.Job).Seconds, max(e.Interval/2, e.Preemption.Seconds)) // advantage of the current holder of a device
			}
			e.owed = append(e.owed, claim{r, d, debt, x})
		}
	}
}

// give assigns a device type to a runnable if enough devices are left and its jobs have not been chosen.
func (e *Engine) give(r *Runnable, device int) bool {
	if r.GPUs > e.left[device] || r.isChosen(e.chooser.round) {
		return false
	}
	e.left[device] -= r.GPUs
	r.want = device
	r.choose(e.chooser.round)
	e.chosen = append(e.chosen, r)
	return true
}
