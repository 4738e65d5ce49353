package order

import (
	"cmp"
	"math"
	"slices"
)

// conservative gives every job, at submission, the earliest start that by the estimates delays no earlier reservation. When a job ends
// early, reservations move forward one by one in queue order, so none becomes later. When a job outlasts its estimate, the estimate is
// doubled and all reservations are made again; those may become later.
type conservative struct {
	timeline timeline
	reserved []float64 // start, by job number; of running jobs the real one
}

func newConservative(procs int32) *conservative {
	return &conservative{timeline: newTimeline(0, procs)}
}

func (c *conservative) pass(s *Scheduler) {
	for len(c.reserved) < len(s.entries) {
		c.reserved = append(c.reserved, 0)
	}
	c.timeline.advance(s.now)
	s.resort()
	n := len(s.running)
	early, late := false, n > 0 && s.running[n-1].At <= s.now
	for _, id := range s.ended {
		k := &s.entries[id]
		switch {
		case k.end > s.now:
			c.timeline.add(s.now, k.end, k.procs)
			early = true
		case k.end < s.now: // reservations between the estimate and now were not kept
			late = true
		}
	}
	switch {
	case late:
		c.replan(s)
	case early:
		c.compress(s)
	}
	if len(s.submitted) > 0 {
		c.admit(s)
	}
	c.start(s)
}

// admit reserves for the submitted jobs, in queue order.
func (c *conservative) admit(s *Scheduler) {
	if len(s.submitted) > 1 {
		slices.SortFunc(s.submitted, func(a, b int32) int { return cmp.Or(cmp.Compare(s.score(a), s.score(b)), cmp.Compare(a, b)) })
	}
	for _, id := range s.submitted {
		c.reserve(s, id)
	}
}

func (c *conservative) reserve(s *Scheduler, id int32) {
	k := &s.entries[id]
	estimate := k.job.Estimate()
	at := c.timeline.earliest(k.procs, estimate)
	c.reserved[id] = at
	c.timeline.add(at, at+estimate, -k.procs)
}

// compress moves each waiting job to the earliest start that is possible without its own reservation, until none moves. A job's present
// start is always possible, so none becomes later; and since each start then coincides with an end, a decision is due at every
// reserved start.
func (c *conservative) compress(s *Scheduler) {
	for moved := true; moved; {
		moved = false
		for _, w := range s.waiting() {
			before := c.reserved[w.id]
			if slices.Contains(s.submitted, w.id) {
				continue
			}
			if at := c.timeline.earlier(w.procs, before, w.estimate); at < before {
				c.timeline.add(before, before+w.estimate, w.procs)
				c.timeline.add(at, at+w.estimate, -w.procs)
				c.reserved[w.id] = at
				moved = true
			}
		}
	}
}

// replan doubles the estimates that have passed and reserves for all waiting jobs again, in the order of their reserved starts.
func (c *conservative) replan(s *Scheduler) {
	for n := len(s.running) - 1; n >= 0 && s.running[n].At <= s.now; n = len(s.running) - 1 {
		id := s.running[n].Job
		s.running = s.running[:n]
		elapsed := s.now - c.reserved[id]
		s.trackEnd(id, max(s.now+max(elapsed, 1), math.Nextafter(s.now, math.Inf(1))))
	}
	c.timeline = newTimeline(s.now, s.procs)
	for _, r := range s.running {
		c.timeline.add(s.now, r.At, -r.Procs)
	}
	waiting := slices.DeleteFunc(slices.Clone(s.waiting()), func(w waiter) bool { return slices.Contains(s.submitted, w.id) })
	slices.SortStableFunc(waiting, func(a, b waiter) int { return cmp.Compare(c.reserved[a.id], c.reserved[b.id]) })
	for _, w := range waiting {
		c.reserve(s, w.id)
	}
}

// start starts the jobs whose reservation is due.
func (c *conservative) start(s *Scheduler) {
	w := s.waiting()
	kept := 0
	for i := range w {
		if c.reserved[w[i].id] <= s.now && w[i].procs <= s.free {
			c.reserved[w[i].id] = s.now
			s.start(w[i])
			continue
		}
		w[kept] = w[i]
		kept++
	}
	s.queue = s.queue[:s.first+kept]
}
