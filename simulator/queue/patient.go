package queue

import (
	"cmp"
	"context"
	"slices"
)

// patient is the event loop of RLScheduler: a selected job remains the next to start until it fits. One event is
// processed at a time, submissions before ends, and jobs may start after each event. It follows the original line by
// line, including lists that are sorted in place, because their order breaks ties. Package rlscheduler contains a
// faster version.
type patient struct {
	m       *machine
	running []running
}

// running is a running task with its true and its estimated end, s.
type running struct {
	end, estimated float64
	task           int32
}

// runPatient simulates all jobs. With fill, while the selected job waits for processors, other jobs start before it,
// in order of submission, if their estimated end is before its estimated start, computed from the jobs running at its
// selection.
func runPatient(ctx context.Context, m *machine, fill bool) error {
	p := patient{m: m}
	for turn := 0; ; turn++ {
		if turn%4096 == 0 {
			if err := m.breathe(ctx); err != nil {
				return err
			}
		}
		m.resort()
		w := m.waiting()
		if len(w) == 0 {
			if !p.advance() {
				return nil
			}
			continue
		}
		chosen := w[0]
		if chosen.procs > m.free {
			p.wait(chosen, fill)
		}
		p.begin(slices.IndexFunc(m.waiting(), func(w waiter) bool { return w.task == chosen.task }))
	}
}

// begin starts the task at the given position of the queue.
func (p *patient) begin(place int) {
	m := p.m
	w := m.waiting()[place]
	k := &m.tasks[w.task]
	m.start(place)
	p.running = append(p.running, running{m.now + k.run, m.now + k.estimate, w.task})
}

// wait processes events until the selected task fits. With fill, it backfills after each event.
func (p *patient) wait(chosen waiter, fill bool) {
	m := p.m
	var order []int32 // of the queue, by submission
	var shadow float64
	if fill {
		shadow = p.shadow(chosen.procs)
		for _, w := range m.waiting() {
			order = append(order, w.task)
		}
	}
	for chosen.procs > m.free {
		if fill {
			slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(m.tasks[a].submit, m.tasks[b].submit) })
			order = slices.DeleteFunc(order, func(t int32) bool {
				if k := &m.tasks[t]; k.procs > m.free || m.now+k.estimate >= shadow {
					return false
				}
				p.begin(slices.IndexFunc(m.waiting(), func(w waiter) bool { return w.task == t }))
				return true
			})
		}
		before := m.arrived
		p.advance()
		if fill && m.arrived > before && int(m.tasks[before].procs) <= m.config.Procs {
			order = append(order, int32(before))
		}
	}
}

// shadow returns the time at which, by the estimates, the given number of processors is free.
func (p *patient) shadow(procs int32) float64 {
	slices.SortStableFunc(p.running, func(a, b running) int { return cmp.Compare(a.estimated, b.estimated) })
	free := p.m.free
	at := p.m.now
	for _, r := range p.running {
		free += p.m.tasks[r.task].procs
		at = r.estimated
		if free >= procs {
			break
		}
	}
	return at
}

// advance processes the next event; it returns false where no event remains.
func (p *patient) advance() bool {
	m := p.m
	slices.SortStableFunc(p.running, func(a, b running) int { return cmp.Compare(a.end, b.end) })
	if m.arrived < len(m.tasks) && (len(p.running) == 0 || m.tasks[m.arrived].submit <= p.running[0].end) {
		m.now = max(m.now, m.tasks[m.arrived].submit)
		m.arrive()
		return true
	}
	if len(p.running) == 0 {
		return false
	}
	r := p.running[0]
	p.running = slices.Delete(p.running, 0, 1)
	m.now = max(m.now, r.end)
	m.end(r.task)
	m.result.Jobs[m.tasks[r.task].job].End = r.end
	return true
}
