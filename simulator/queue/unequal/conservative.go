package unequal

import (
	"cmp"
	"math"
	"slices"

	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

// conservative gives every job that waits a start and cores, so that what overtakes delays none that has one already. When something
// ends, each in the order of the queue moves forward where it can. Where what is believed of those that run no longer agrees with
// the plans, be it that one outlasts what was asked or that it was slowed, all is planned anew in the order of the starts.
//
// A start costs O(waiting × pools × steps² × processors), which is for hundreds of waiting jobs.
type conservative struct {
	plans   map[int32]*plan
	profile profile
	pools   []Pool // in which is planned
	scratch []part
}

type plan struct {
	start, end float64
	of         []part
}

// pass plans and starts, and returns when a plan is due.
func (c *conservative) pass(p *policy, s *State, start func(int32, []int32)) float64 {
	if c.pools == nil {
		if c.pools = p.placer.Pools(); len(c.pools) == 1 { // the placer does not know what is fast
			c.pools = upTo(s.Tree, slowness)
		}
	}
	waiting := s.waiting
	if p.depth > 0 { // a promise is a promise: by default all have one
		waiting = waiting[:min(len(waiting), p.depth+1)]
	}
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

// replan plans all anew.
func (c *conservative) replan(p *policy, s *State, waiting []waiter) {
	order := slices.DeleteFunc(slices.Clone(waiting), func(w waiter) bool { return c.plans[w.job] == nil })
	slices.SortStableFunc(order, func(a, b waiter) int { return cmp.Compare(c.plans[a.job].start, c.plans[b.job].start) })
	c.profile.reset(s)
	for _, w := range order {
		delete(c.plans, w.job)
		c.plan(p, s, w.job, math.Inf(1))
	}
}

// compress moves plans forward.
func (c *conservative) compress(p *policy, s *State, waiting []waiter) {
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

// plan finds the best start of a job that is not later than a time; false where there is none.
func (c *conservative) plan(p *policy, s *State, job int32, latest float64) bool {
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

// begin starts those whose time has come, where the placer wants to when that is in nobody's way, else where it was planned.
func (c *conservative) begin(p *policy, s *State, looked int, start func(int32, []int32)) float64 {
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

func (c *conservative) take(p *policy, s *State, job int32, k *plan) bool {
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
	var fit cores.Fit
	p.where, fit = s.Machine.TryPlace(job, j, &planned{of: k.of}, p.where[:0])
	if fit != cores.Fits {
		s.dirty = s.dirty[:0]
	}
	c.profile.add(k.start, k.end, k.of, j, -1)
	return fit == cores.Fits
}

// poolOf is a pool of the placer that has what was planned.
func (c *conservative) poolOf(p *policy, k *plan) int {
	pools := p.placer.Pools()
	return max(0, slices.IndexFunc(pools, func(q Pool) bool {
		return !slices.ContainsFunc(k.of, func(x part) bool { return !q.of[x.processor] })
	}))
}

// planned is a chooser that takes what was planned.
type planned struct {
	of   []part
	next int
}

// Start begins with the first part.
func (c *planned) Start(*cores.Machine, *queue.Job) { c.next = 0 }

// Next is the next part.
func (c *planned) Next(m *cores.Machine, _ *queue.Job, want int) (int32, int) {
	if c.next == len(c.of) {
		return -1, 0
	}
	x := c.of[c.next]
	c.next++
	return m.FreeCore(x.processor, 0), min(int(x.count), want)
}
