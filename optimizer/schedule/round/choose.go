package round

import (
	"cmp"
	"slices"
)

// chooser assigns device types in a round.
type chooser struct {
	chosen []*Runnable
	left   []int // unassigned devices by type
	round  int
	owed   []claim
	gains  []claim
	order  []weighed
}

// weighed is the index of a claim and its weight.
type weighed struct {
	weight float64
	claim  int
}

// claim is a candidate assignment of a device type to a runnable with its sort keys.
type claim struct {
	runnable *Runnable
	device   int
	weight   float64
	debt     float64
}

// compare orders claims by descending strength. It is a total order.
func (a claim) compare(b claim) int {
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
	e.round++
	e.chosen, e.left = e.chosen[:0], e.left[:0]
	for d := range e.Devices {
		e.left = append(e.left, e.Devices[d].Count)
	}
	e.owed = e.owed[:0]
	for _, r := range e.list {
		r.want, r.counted = -1, -1
	}
	for _, r := range e.running {
		if r.pinned() && e.give(r, r.Device) {
			r.counted = r.Device
		}
	}
	for _, r := range e.list {
		e.claimShares(r)
	}
	for _, w := range e.sorted(e.owed) {
		c := &e.owed[w.claim]
		if e.give(c.runnable, c.device) {
			c.runnable.counted = c.device
		}
	}
	if !e.Traits.OnlyShares {
		for e.fill(); e.moveUp(); e.fill() {
		}
	}
}

// sorted returns the claims in descending order of strength. It sorts weights, which nearly always suffice.
func (c *chooser) sorted(claims []claim) []weighed {
	c.order = c.order[:0]
	for i := range claims {
		c.order = append(c.order, weighed{claims[i].weight, i})
	}
	slices.SortFunc(c.order, func(a, b weighed) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return claims[a.claim].compare(claims[b.claim])
	})
	return c.order
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
				debt += e.leaseSeconds()
			}
			e.owed = append(e.owed, claim{r, d, debt, x})
		}
	}
}

// leaseSeconds returns the advantage in time owed of the current holder of a device.
func (e *Engine) leaseSeconds() float64 { return e.Interval/2 + 20*e.Preemption.Seconds }

// give assigns a device type to a runnable if enough devices are left and its jobs have not been chosen.
func (e *Engine) give(r *Runnable, device int) bool {
	if r.GPUs > e.left[device] || r.isChosen(e.round) {
		return false
	}
	e.left[device] -= r.GPUs
	r.want = device
	r.choose(e.round)
	e.chosen = append(e.chosen, r)
	return true
}

// fill assigns remaining devices to jobs without any, in descending order of their rate relative to that on their
// fastest type.
func (e *Engine) fill() {
	if !e.anyLeft() {
		return
	}
	e.gains = e.gains[:0]
	for _, r := range e.list {
		if r.B != nil || r.gone() || r.isChosen(e.round) {
			continue
		}
		debt := 0.0
		for d := range r.shares {
			debt += r.deficit[d]
		}
		for d, rate := range r.RateA {
			if rate > 0 && r.GPUs <= e.left[d] {
				e.gains = append(e.gains, claim{r, d, rate / r.best, debt})
			}
		}
	}
	for _, w := range e.sorted(e.gains) {
		c := &e.gains[w.claim]
		e.give(c.runnable, c.device)
	}
}

func (e *Engine) anyLeft() bool {
	return slices.ContainsFunc(e.left, func(n int) bool { return n > 0 })
}

// bestRate returns the rate of a single job on its fastest type with enough devices.
func (e *Engine) bestRate(r *Runnable) float64 {
	most := 0.0
	for d, rate := range r.RateA {
		if r.GPUs <= e.Devices[d].Count {
			most = max(most, rate)
		}
	}
	return most
}

// moveUp moves the job with the largest gain to a better device type that would be idle. It returns false if none
// exists.
func (e *Engine) moveUp() bool {
	if !e.anyLeft() {
		return false
	}
	var most claim
	for _, r := range e.chosen {
		if r.B != nil || r.pinned() && r.Device >= 0 {
			continue
		}
		here := r.RateA[r.want]
		if here >= r.best {
			continue
		}
		for d, rate := range r.RateA {
			if r.GPUs > e.left[d] || rate <= here {
				continue
			}
			c := claim{runnable: r, device: d, weight: (rate - here) / r.best}
			if c.weight > e.minGain(r, d) && (most.runnable == nil || c.compare(most) < 0) {
				most = c
			}
		}
	}
	if most.runnable == nil {
		return false
	}
	e.left[most.runnable.want] += most.runnable.GPUs
	e.left[most.device] -= most.runnable.GPUs
	most.runnable.want = most.device
	return true
}

// minGain returns the minimum relative gain for a move: nearly 0, unless a move costs time.
func (e *Engine) minGain(r *Runnable, device int) float64 {
	if r.Device == device || r.Device < 0 {
		return 1e-9
	}
	return max(1e-9, 2*e.Preemption.Seconds/e.Interval)
}
