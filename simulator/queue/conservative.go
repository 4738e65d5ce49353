package queue

import (
	"cmp"
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// conservative implements conservative backfilling: every waiting job has a plan of a start and cores, and an
// overtaking job delays none of the existing plans. When a job ends, each plan moves forward where possible, in queue
// order. Where the expected ends of running jobs contradict the plans, because a job exceeded its request or was
// slowed, all jobs are planned again in the order of their starts.
//
// A start costs O(waiting × pools × steps² × processors), which is suitable for hundreds of waiting jobs.
type conservative struct {
	plans   map[int32]*plan
	profile profile
	pools   []pool // pools considered for plans
	scratch []part
}

// plan is the reservation of a job: processors, with core counts, over an interval.
type plan struct {
	start, end float64
	of         []part
}

// pass updates the plans, starts the jobs that are due, and returns the time of the next planned start, +∞ if none.
func (c *conservative) pass(p *policy, s *state, start func(int32, []int32)) float64 {
	if c.pools == nil {
		if c.pools = p.placer.Pools(); len(c.pools) == 1 { // the placer does not distinguish speeds
			c.pools = cumulativePools(s.Tree, slowness)
		}
	}
	waiting := s.waiting
	c.profile.reset(s)
	late := false
	for _, w := range waiting {
		if k := c.plans[w.job]; k != nil {
			c.profile.add(max(k.start, s.Now), max(k.end, s.Now), k.of, &s.Jobs[w.job], -1)
			late = late || k.start < s.Now
		}
	}
	switch {
	case late || !c.profile.sound():
		c.replan(p, s, waiting)
	case p.ended:
		c.compress(p, s, waiting)
	}
	for _, w := range waiting {
		if c.plans[w.job] == nil {
			c.plan(p, s, w.job, math.Inf(1))
		}
	}
	return c.begin(p, s, len(waiting), start)
}

// replan discards all plans and plans the jobs again in the order of their planned starts.
func (c *conservative) replan(p *policy, s *state, waiting []waiter) {
	order := slices.DeleteFunc(slices.Clone(waiting), func(w waiter) bool { return c.plans[w.job] == nil })
	slices.SortStableFunc(order, func(a, b waiter) int { return cmp.Compare(c.plans[a.job].start, c.plans[b.job].start) })
	c.profile.reset(s)
	for _, w := range order {
		delete(c.plans, w.job)
		c.plan(p, s, w.job, math.Inf(1))
	}
}

// compress moves plans forward where an earlier start is possible, in queue order.
func (c *conservative) compress(p *policy, s *state, waiting []waiter) {
	for _, w := range waiting {
		k := c.plans[w.job]
		if k == nil || k.start <= s.Now {
			continue
		}
		c.profile.add(k.start, k.end, k.of, &s.Jobs[w.job], 1)
		if !c.plan(p, s, w.job, k.start) {
			c.profile.add(k.start, k.end, k.of, &s.Jobs[w.job], -1)
		}
	}
}

// plan reserves the best start of a job among the pools, not later than latest. It returns false, and reserves
// nothing, if no such start exists.
func (c *conservative) plan(p *policy, s *state, job int32, latest float64) bool {
	var best plan
	least := math.Inf(1)
	alone := len(p.placer.Pools()) == 1
	for k := range c.pools {
		at, end, of := c.profile.earliest(s, job, &c.pools[k], latest, c.scratch)
		if of == nil {
			continue
		}
		c.scratch = of
		weight := end
		if !alone {
			weight = p.placer.Weigh(s, job, k, max(at, math.Nextafter(s.Now, inf)), least)
		}
		if weight < least {
			least = weight
			best = plan{at, end, slices.Clone(of)}
		}
	}
	if best.of == nil {
		return false
	}
	c.profile.add(best.start, best.end, best.of, &s.Jobs[job], -1)
	c.plans[job] = &best
	return true
}

// begin starts the jobs that are due, on the placer's choice of cores where that delays no plan, otherwise on the
// planned processors. It returns the time of the next planned start, +∞ if none.
func (c *conservative) begin(p *policy, s *state, looked int, start func(int32, []int32)) float64 {
	kept, due := 0, math.Inf(1)
	for i, w := range s.waiting {
		k := c.plans[w.job]
		if i >= looked || k == nil || k.start > s.Now || !c.take(p, s, w.job, k) {
			if k != nil && k.start > s.Now {
				due = min(due, k.start)
			}
			s.waiting[kept] = w
			kept++
			continue
		}
		delete(c.plans, w.job)
		s.start(w.job, p.where)
		start(w.job, p.where)
	}
	s.waiting = s.waiting[:kept]
	return due
}

// take takes cores for a job whose plan is due: first by the placer, provided that no other plan is delayed, then on
// the planned processors. It returns false, and keeps the plan, if the cores are not free yet.
func (c *conservative) take(p *policy, s *state, job int32, k *plan) bool {
	j := &s.Jobs[job]
	pool, ok := c.poolOf(p, k), false
	c.profile.add(k.start, k.end, k.of, j, 1)
	if p.where, ok = p.placer.Take(s, job, pool, p.where[:0]); ok {
		c.scratch = parts(s.Tree, p.where, c.scratch[:0])
		if c.profile.fits(s.Now, s.Now+s.seconds(job, s.rate(job, p.where)), c.scratch, j) {
			return true
		}
		s.Machine.Undo(j, p.where)
	}
	s.dirty = s.dirty[:0]
	var fit fit
	p.where, fit = s.Machine.TryPlace(job, j, &planned{of: k.of}, p.where[:0])
	if fit != Fits {
		s.dirty = s.dirty[:0]
	}
	c.profile.add(k.start, k.end, k.of, j, -1)
	return fit == Fits
}

// poolOf returns a pool of the placer that contains the planned processors.
func (c *conservative) poolOf(p *policy, k *plan) int {
	pools := p.placer.Pools()
	return max(0, slices.IndexFunc(pools, func(q pool) bool {
		return !slices.ContainsFunc(k.of, func(x part) bool { return !q.of[x.processor] })
	}))
}

// planned is a chooser that takes the planned processors.
type planned struct {
	of   []part
	next int
}

// Start implements Chooser.
func (c *planned) Start(*Machine, *order.Job) { c.next = 0 }

// Next returns cores of the next planned processor.
func (c *planned) Next(m *Machine, _ *order.Job, want int) (int32, int) {
	if c.next == len(c.of) {
		return -1, 0
	}
	x := c.of[c.next]
	c.next++
	return m.FreeCore(x.processor, 0), min(int(x.count), want)
}
