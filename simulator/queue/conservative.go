package queue

import (
	"cmp"
	"math"
	"slices"
)

// conservative gives every job, when it arrives, the earliest start that by the estimates delays none that has one already. When
// one ends early, the others move forward, each by itself and in the order of the queue, so that no start ever becomes later. Where a
// job runs for longer than its estimate, that is doubled, and all starts are planned anew; those may become later.
type conservative struct {
	profile profile
	planned []float64 // start, by task
}

func newConservative(m *machine) *conservative {
	m.track = true
	m.estimate = make([]float64, len(m.tasks))
	return &conservative{newProfile(0, m.free), make([]float64, len(m.tasks))}
}

func (c *conservative) pass(m *machine) {
	c.profile.advance(m.now)
	m.resort()
	n := len(m.expected)
	early, late := false, n > 0 && m.expected[n-1].at <= m.now
	for _, t := range m.ended {
		switch end := m.estimate[t]; {
		case end > m.now:
			c.profile.add(m.now, end, m.tasks[t].procs)
			early = true
		case end < m.now: // what was planned in between did not happen
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

// admit plans those that have just arrived, in the order of the queue.
func (c *conservative) admit(m *machine) {
	if len(m.fresh) > 1 {
		slices.SortFunc(m.fresh, func(a, b int32) int { return cmp.Or(cmp.Compare(m.score(a), m.score(b)), cmp.Compare(a, b)) })
	}
	for _, t := range m.fresh {
		c.plan(m, t)
	}
}

func (c *conservative) plan(m *machine, t int32) {
	k := &m.tasks[t]
	at := c.profile.earliest(k.procs, k.estimate)
	c.planned[t] = at
	c.profile.add(at, at+k.estimate, -k.procs)
}

// compress moves every job that waits to the earliest start that there is without it, again and again until none moves. Its own is
// one, so that none becomes later; and as each then starts when another ends, something happens whenever a plan is due.
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

// replan doubles the estimates that have passed and plans all that waits again, in the order of the starts that were planned.
func (c *conservative) replan(m *machine) {
	for n := len(m.expected) - 1; n >= 0 && m.expected[n].at <= m.now; n = len(m.expected) - 1 {
		t := m.expected[n].task
		m.expected = m.expected[:n]
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

// begin starts those whose time has come.
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
