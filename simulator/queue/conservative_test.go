package queue

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// watched checks every plan: a job starts when its planned start is reached, the profile equals the running and
// planned jobs, and no plan becomes later while no job exceeds its estimate.
type watched struct {
	*conservative
	t    *rapid.T
	late bool
}

func (w watched) pass(m *machine) {
	before := slices.Clone(w.planned)
	fresh := slices.Clone(m.fresh)
	w.conservative.pass(m)
	for t := range m.arrived {
		o := &m.result.Jobs[m.tasks[t].job]
		if o.State == Rejected || slices.Contains(fresh, int32(t)) {
			continue
		}
		if w.planned[t] > before[t] && !w.late {
			w.t.Fatalf("at %v s the plan of task %d went from %v to %v s", m.now, t, before[t], w.planned[t])
		}
		if o.State != Waiting && o.Start != w.planned[t] {
			w.t.Fatalf("task %d was planned for %v and started at %v", t, w.planned[t], o.Start)
		}
	}
	steps := w.profile.steps
	for i, s := range steps {
		free := int32(m.config.Procs)
		for _, d := range m.expected {
			if d.at > s.at {
				free -= d.procs
			}
		}
		for _, q := range m.waiting() {
			if at := w.planned[q.task]; at <= s.at && s.at < at+q.estimate {
				free -= q.procs
			}
		}
		if free != s.free || free < 0 || i > 0 && (steps[i-1].at >= s.at || steps[i-1].free == s.free) {
			w.t.Fatalf("at %v s the profile says %v, want %d free in step %d", m.now, steps, free, i)
		}
	}
}

func TestPlansAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Procs: rapid.IntRange(1, 8).Draw(t, "procs"), Order: rapid.SampledFrom(OrderNames()).Draw(t, "order")}
		at, late := 0, rapid.Bool().Draw(t, "late")
		for i := range rapid.IntRange(1, 25).Draw(t, "jobs") {
			at += rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "gap")
			took := rapid.IntRange(1, 12).Draw(t, "run")
			c.Jobs = append(c.Jobs, Job{
				ID: i, Submit: float64(at), Procs: rapid.IntRange(1, c.Procs+1).Draw(t, "size"), Run: float64(took),
				Request: float64(took + rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "more")), Deadline: math.NaN(),
			})
			if late && took > 1 {
				c.Jobs[i].Request = float64(rapid.IntRange(1, took-1).Draw(t, "too little"))
			}
		}
		m := newMachine(&c)
		if err := m.run(context.Background(), watched{newConservative(m), t, late}); err != nil {
			t.Fatal(err)
		}
	})
}
