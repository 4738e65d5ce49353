package queue

import (
	"cmp"
	"math"
	"slices"
)

// conservative implements conservative backfilling. An arriving job is reserved the earliest start that, by the
// estimates, delays no existing reservation. When a job ends early, the reservations are compressed: each moves
// forward separately, in queue order, so that no start becomes later. When a job exceeds its estimate, the estimate
// is doubled and all reservations are planned again; these may become later.
type conservative struct {
	profile profile
	planned []float64 // planned start, by task
}

func newConservative(m *machine) *conservative {
	m.track = true
	m.estimate = make([]float64, len(m.tasks))
	return &conservative{newProfile(0, m.free), make([]float64, len(m.tasks))}
}

// pass updates the profile for the tasks that ended, plans the tasks that arrived, and starts those that are due.
func (c *conservative) pass(m *machine) {
	c.profile.advance(m.now)
	m.resort()
	// early: a task ended before its estimate. late: a running task has reached its estimate, or one ended after it.
	n := len(m.expected)
	early, late := false, n > 0 && m.expected[n-1].at <= m.now
	for _, t := range m.ended {
		switch end := m.estimate[t]; {
		case end > m.now:
			c.profile.add(m.now, end, m.tasks[t].procs)
			early = true
		case end < m.now: // the reservations between end and now assumed free processors
			late = true
		}
	}
	switch {
	case late:
		c.replan(m)
	case early:
		c.compress(m)
	}
	if len(m.fresh) > 0 {
		c.admit(m)
	}
	c.begin(m)
}

// admit reserves a start for each newly arrived task, in queue order.
func (c *conservative) admit(m *machine) {
	if len(m.fresh) > 1 {
		slices.SortFunc(m.fresh, func(a, b int32) int { return cmp.Or(cmp.Compare(m.score(a), m.score(b)), cmp.Compare(a, b)) })
	}
	for _, t := range m.fresh {
		c.plan(m, t)
	}
}

// plan reserves the earliest feasible start for task t.
func (c *conservative) plan(m *machine, t int32) {
	k := &m.tasks[t]
	at := c.profile.earliest(k.procs, k.estimate)
	c.planned[t] = at
	c.profile.add(at, at+k.estimate, -k.procs)
}

// compress moves each waiting task to its earliest feasible start, computed without its own reservation, and repeats
// until no task moves. The present start is always feasible, so none becomes later. After compression every start
// coincides with the end of another task, so that an event occurs whenever a start is due.
func (c *conservative) compress(m *machine) {
	for moved := true; moved; {
		moved = false
		for _, w := range m.waiting() {
			before := c.planned[w.task]
			if slices.Contains(m.fresh, w.task) {
				continue
			}
			if at := c.profile.sooner(w.procs, before, w.estimate); at < before {
				c.profile.add(before, before+w.estimate, w.procs)
				c.profile.add(at, at+w.estimate, -w.procs)
				c.planned[w.task] = at
				moved = true
			}
		}
	}
}

// replan doubles the estimates that have been exceeded and plans all waiting tasks again, in the order of their
// planned starts.
func (c *conservative) replan(m *machine) {
	for n := len(m.expected) - 1; n >= 0 && m.expected[n].at <= m.now; n = len(m.expected) - 1 {
		t := m.expected[n].task
		m.expected = m.expected[:n]
		// The new end must be after now even if the elapsed time is lost to rounding.
		elapsed := m.now - m.result.Jobs[m.tasks[t].job].Start
		m.estimate[t] = max(m.now+max(elapsed, 1), math.Nextafter(m.now, math.Inf(1)))
		m.expect(t)
	}
	c.profile = newProfile(m.now, int32(m.config.Procs))
	for _, d := range m.expected {
		c.profile.add(m.now, d.at, -d.procs)
	}
	waiting := slices.DeleteFunc(slices.Clone(m.waiting()), func(w waiter) bool { return slices.Contains(m.fresh, w.task) })
	slices.SortStableFunc(waiting, func(a, b waiter) int { return cmp.Compare(c.planned[a.task], c.planned[b.task]) })
	for _, w := range waiting {
		c.plan(m, w.task)
	}
}

// begin starts the tasks whose planned start has been reached.
func (c *conservative) begin(m *machine) {
	w := m.waiting()
	kept := 0
	for i := range w {
		if c.planned[w[i].task] <= m.now && w[i].procs <= m.free {
			m.begin(w[i])
			continue
		}
		w[kept] = w[i]
		kept++
	}
	m.queue = m.queue[:m.first+kept]
}
