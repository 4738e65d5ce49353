package queue

import (
	"cmp"
	"context"
	"slices"
)

// patient is the loop of RLScheduler: the job that is chosen stays the next one until it fits. One event is handled at a time,
// submissions before ends, and something may start after each. It follows the original line by line, lists sorted in place
// included, for they decide between equals; package rlscheduler has the same made for speed.
type patient struct {
	m       *machine
	running []running
}

type running struct {
	end, estimated float64
	task           int32
}

// runPatient plays all jobs. With fill, a job that waits for processors lets those go before it, in the order of submission, that
// by their estimates end before it could start by the estimates of those that ran when it was chosen.
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

func (p *patient) begin(place int) {
	m := p.m
	w := m.waiting()[place]
	k := &m.tasks[w.task]
	m.start(place)
	p.running = append(p.running, running{m.now + k.run, m.now + k.estimate, w.task})
}

// wait lets time pass until the chosen one fits.
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

// shadow is when so many processors will be free by the estimates.
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

// advance goes to the next event; false when there is none.
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
