package queue

import (
	"cmp"
	"math"
	"slices"
)

// conservative gives every job, when it arrives, the earliest start that by the estimates delays none that has one already. When
// one ends early, the others move forward, each by itself in the order of the queue, so that no start ever becomes later. Where a
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
	early := false
	for _, t := range m.ended {
		if end := m.estimate[t]; end > m.now {
			c.profile.add(m.now, end, m.tasks[t].procs)
			early = true
		}
	}
	switch n := len(m.expected); {
	case n > 0 && m.expected[n-1].at <= m.now:
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

// compress moves every job that waits to the earliest start that there is without it; its own is one.
func (c *conservative) compress(m *machine) {
	for _, w := range m.waiting() {
		if at := c.planned[w.task]; !slices.Contains(m.fresh, w.task) {
			c.profile.add(at, at+w.estimate, w.procs)
			c.plan(m, w.task)
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
