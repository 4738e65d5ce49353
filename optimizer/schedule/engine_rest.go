package schedule

import (
	"encoding/binary"
	"math"
	"slices"
)

// rest assigns the devices that remain after the shares: to jobs without any, and to jobs that are faster there. Single
// jobs with equal rates and numbers of devices are a kind. The jobs of a kind differ only in the order in which they
// receive devices, so the next assignment is found among the first jobs of the kinds.
type rest struct {
	byRates map[string]*kind
	key     []byte
	waiting []*kind  // with jobs without devices
	slower  []*group // jobs that would be faster on another type
	round   int      // of the last collection
	listed  int      // length of Engine.list at that time
}

// kind is a set of single jobs with equal rates and numbers of devices.
type kind struct {
	rate    []float64
	best    float64
	gpus    int
	waiting Heap[waiter]
	groups  []group // by type and device held now, plus 1
}

// waiter is a job without devices and the sum of its deficits.
type waiter struct {
	debt     float64
	runnable *Runnable
}

func (a waiter) Before(b waiter) bool {
	return a.debt > b.debt || a.debt == b.debt && a.runnable.A.Number < b.runnable.A.Number
}

// group is the set of jobs of a kind that are assigned one type, want, and hold devices of one type.
type group struct {
	*kind
	want   int
	jobs   Heap[numbered]
	listed bool
}

// numbered orders jobs by number.
type numbered struct{ runnable *Runnable }

func (a numbered) Before(b numbered) bool { return a.runnable.A.Number < b.runnable.A.Number }

// kindOf returns the kind of a single job.
func (e *Engine) kindOf(r *Runnable) *kind {
	c := &e.rest
	c.key = binary.LittleEndian.AppendUint64(c.key[:0], uint64(r.GPUs))
	for _, v := range r.RateA {
		c.key = binary.LittleEndian.AppendUint64(c.key, math.Float64bits(v))
	}
	if k, ok := c.byRates[string(c.key)]; ok {
		return k
	}
	k := &kind{rate: r.RateA, best: r.best, gpus: r.GPUs, groups: make([]group, len(e.Devices)*(len(e.Devices)+1))}
	for i := range k.groups {
		k.groups[i] = group{kind: k, want: i / (len(e.Devices) + 1)}
	}
	c.byRates[string(c.key)] = k
	return k
}

// collect sorts the single jobs into those without devices and those that would be faster on another type. O(jobs).
func (e *Engine) collect() {
	for _, k := range e.waiting {
		k.waiting = k.waiting[:0]
	}
	for _, g := range e.slower {
		g.jobs, g.listed = g.jobs[:0], false
	}
	e.waiting, e.slower = e.waiting[:0], e.slower[:0]
	e.rest.round, e.listed = e.chooser.round, len(e.list)
	if e.byRates == nil || len(e.byRates) > 2*len(e.list)+64 { // forget kinds without jobs
		e.byRates = map[string]*kind{}
		for _, r := range e.list {
			r.kind = nil
		}
	}
	for _, r := range e.list {
		if r.B != nil || r.gone() {
			continue
		}
		if r.kind == nil {
			r.kind = e.kindOf(r)
		}
		switch {
		case r.pinned() && r.Device >= 0:
		case r.want >= 0:
			e.join(r)
		case !r.isChosen(e.chooser.round):
			e.await(r)
		}
	}
}

// await adds a job without devices to its kind.
func (e *Engine) await(r *Runnable) {
	debt := 0.0
	for d := range r.shares {
		debt += r.deficit[d]
	}
	if len(r.kind.waiting) == 0 {
		e.waiting = append(e.waiting, r.kind)
	}
	r.kind.waiting.Push(waiter{debt, r})
}

// assignReleased assigns devices that were released since the round began, and those that are left for jobs that
// arrived, without a new round. O(kinds · types) for each assignment.
func (e *Engine) assignReleased() {
	e.unassigned = false
	for d := range e.left {
		e.left[d] = e.types[d].free
	}
	if !e.anyLeft() {
		return
	}
	if e.rest.round != e.chooser.round {
		e.collect()
	}
	for _, r := range e.list[e.listed:] {
		if r.B == nil && !r.gone() {
			r.kind = e.kindOf(r)
			e.await(r)
		}
	}
	e.listed = len(e.list)
	e.chosen, e.moved = e.chosen[:0], e.moved[:0]
	for e.fill(); e.moveUp(); e.fill() {
	}
	for _, r := range e.moved {
		if r.Device >= 0 && r.want != r.Device {
			e.stop(r)
			e.running.remove(r)
			e.chosen = append(e.chosen, r)
		}
	}
	e.place(false)
}

// join adds a job with an assigned type to its group unless it is on its fastest type.
func (e *Engine) join(r *Runnable) {
	if r.RateA[r.want] >= r.best {
		return
	}
	held := 0
	if e.Preemption.Seconds > 0 {
		held = r.Device + 1
	}
	g := &r.kind.groups[r.want*(len(e.Devices)+1)+held]
	if !g.listed {
		g.listed = true
		e.slower = append(e.slower, g)
	}
	g.jobs.Push(numbered{r})
}

// fill assigns remaining devices to jobs without any, in descending order of their rate relative to that on their
// fastest type. O(kinds · types) for each job.
func (e *Engine) fill() {
	for e.anyLeft() {
		var most claim
		for _, k := range e.waiting {
			for len(k.waiting) > 0 && k.waiting[0].runnable.gone() {
				k.waiting.Pop()
			}
			if len(k.waiting) == 0 {
				continue
			}
			first := &k.waiting[0]
			for d, rate := range k.rate {
				if rate <= 0 || k.gpus > e.left[d] || e.refused && !e.fits(d, k.gpus) {
					continue
				}
				c := claim{first.runnable, d, rate / k.best, first.debt}
				if most.runnable == nil || c.compare(&most) < 0 {
					most = c
				}
			}
		}
		e.waiting = slices.DeleteFunc(e.waiting, func(k *kind) bool { return len(k.waiting) == 0 })
		r := most.runnable
		if r == nil {
			return
		}
		r.kind.waiting.Pop()
		e.give(r, most.device)
		e.join(r)
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
// exists. O(groups · types).
func (e *Engine) moveUp() bool {
	if !e.anyLeft() {
		return false
	}
	var most claim
	var from *group
	for _, g := range e.slower {
		for len(g.jobs) > 0 && g.jobs[0].runnable.gone() {
			g.jobs.Pop()
		}
		if len(g.jobs) == 0 {
			continue
		}
		first, here := g.jobs[0].runnable, g.rate[g.want]
		for d, rate := range g.rate {
			if g.gpus > e.left[d] || rate <= here {
				continue
			}
			c := claim{runnable: first, device: d, weight: (rate - here) / g.best}
			if c.weight > e.minGain(first, d) && (from == nil || c.compare(&most) < 0) {
				most, from = c, g
			}
		}
	}
	if from == nil {
		return false
	}
	from.jobs.Pop()
	e.left[from.want] += from.gpus
	e.left[most.device] -= from.gpus
	most.runnable.want = most.device
	e.moved = append(e.moved, most.runnable)
	e.join(most.runnable)
	return true
}

// minGain returns the minimum relative gain for a move: nearly 0, unless a move costs time.
func (e *Engine) minGain(r *Runnable, device int) float64 {
	if r.Device == device || r.Device < 0 {
		return 1e-9
	}
	return max(1e-9, 2*e.Preemption.Of(r.A.Job).Seconds/e.Interval)
}
