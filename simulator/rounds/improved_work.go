package rounds

import (
	"math"
	"slices"
)

// jobs are the job of a tenant, or both.
func (t *tenant) jobs() []*job {
	if t.b != nil {
		return []*job{t.a, t.b}
	}
	return []*job{t.a}
}

// settle books what a tenant did with its devices until now.
func (m *improved) settle(t *tenant) {
	seconds := m.now - t.since
	if t.device < 0 || seconds <= 0 {
		return
	}
	m.charge(&t.entry, t.device, t.since, seconds, 1)
	worked := m.now - max(t.since, t.resumes)
	t.since = m.now
	if worked <= 0 {
		return
	}
	t.a.work(worked, t.pace)
	if t.b != nil {
		t.b.work(worked, t.paceB)
	}
}

// work adds what is done in a time. Whoever has less than a millionth of a second left is done: sums of times are rounded.
func (j *job) work(seconds, pace float64) {
	j.done += float64(seconds * pace)
	if j.remaining() <= pace*1e-6 {
		j.done = j.Steps
	}
}

// move takes devices from all who are not to keep them, and gives them to those who are to have them.
func (m *improved) move() {
	kept := 0
	for _, t := range slices.Clone(m.running) {
		m.lease.chances++
		if t.want != t.device {
			m.settle(t)
			m.leave(t)
			continue
		}
		kept++
	}
	m.lease.extended += kept
	for _, t := range m.chosen {
		if t.device < 0 {
			m.enter(t)
		}
	}
}

// leave frees the devices of a tenant.
func (m *improved) leave(t *tenant) {
	m.floor.free(t)
	t.generation++
	for _, j := range t.jobs() {
		j.last, j.stopped = spot{t.device, append(j.last.where[:0], t.where...)}, m.now
	}
	t.device, t.where = -1, t.where[:0]
	m.running = slices.DeleteFunc(m.running, func(r *tenant) bool { return r == t })
}

// enter gives a tenant devices of the type that it is to have, and works out when the first of its jobs ends.
func (m *improved) enter(t *tenant) {
	t.device = t.want
	last := t.a.last
	if t.b != nil && (t.a.stopped < m.now || last.device != t.device) { // whoever is there need not move
		last = t.b.last
	}
	t.where, t.spread = m.floor.take(t.device, t.gpus, t.where[:0], last)
	t.pace, t.paceB = m.paces(t)
	t.since, t.resumes = m.now, m.now+m.resume(t)
	m.running = append(m.running, t)
	seconds := t.a.remaining() / t.pace
	if t.b != nil {
		seconds = min(seconds, t.b.remaining()/t.paceB)
	}
	if !math.IsInf(seconds, 1) {
		m.ends.Push(t.resumes+seconds, ending{t, t.generation})
	}
}

// resume charges jobs that go on after a pause or elsewhere, and returns the seconds that it takes.
func (m *improved) resume(t *tenant) float64 {
	delay := 0.0
	for _, j := range t.jobs() {
		if j.started && (j.stopped < m.now || j.last.device != t.device || !slices.Equal(j.last.where, t.where)) {
			m.paused.count++
			delay = m.Preemption.Seconds
			m.paused.seconds += float64(delay * float64(t.gpus))
			j.done = max(0, j.done-m.Preemption.Steps)
		}
		j.started = true
	}
	return delay
}

// paces are steps/s on the devices that a tenant has. Where a table has jobs a little faster on more servers, that is taken for the
// noise of its measurements.
func (m *improved) paces(t *tenant) (a, b float64) {
	a, b = m.pace(&t.entry, t.device)
	if t.b != nil {
		return a, b
	}
	if t.spread {
		slow := m.Devices[t.device].Name + "_unconsolidated"
		if m.Throughputs.Measured(slow, t.a.Type, t.gpus) {
			if r := m.Throughputs.Alone(slow, t.a.Type, t.gpus); r > 0 {
				a = min(a, r)
			}
		}
	}
	return a, 0
}
