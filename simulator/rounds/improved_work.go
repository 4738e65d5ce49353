package rounds

import (
	"math"
	"slices"
)

// jobs returns the jobs of a tenant.
func (t *tenant) jobs() []*job {
	if t.b != nil {
		return []*job{t.a, t.b}
	}
	return []*job{t.a}
}

// settle accounts the work of a tenant up to now.
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

// work adds the progress during a time. A job with less than a microsecond of work left is complete, since sums of
// times are rounded.
func (j *job) work(seconds, pace float64) {
	j.done += float64(seconds * pace)
	if j.remaining() <= pace*1e-6 {
		j.done = j.Steps
	}
}

// move revokes the devices of tenants that lose them and assigns devices to the chosen tenants.
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

// leave releases the devices of a tenant.
func (m *improved) leave(t *tenant) {
	m.floor.free(t)
	t.generation++
	for _, j := range t.jobs() {
		j.last, j.stopped = spot{t.device, append(j.last.where[:0], t.where...)}, m.now
	}
	t.device, t.where = -1, t.where[:0]
	m.running = slices.DeleteFunc(m.running, func(r *tenant) bool { return r == t })
}

// enter allocates devices of the assigned type to a tenant and schedules the end of the first of its jobs.
func (m *improved) enter(t *tenant) {
	t.device = t.want
	last := t.a.last
	if t.b != nil && (t.a.stopped < m.now || last.device != t.device) { // the job already running there keeps its devices
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

// resume charges the preemption loss of jobs that continue after a pause or elsewhere, and returns the delay in
// seconds.
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

// paces returns the throughput in steps/s on the devices of a tenant. Where a table has slightly higher rates on more
// servers, the difference is attributed to measurement noise and ignored.
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
