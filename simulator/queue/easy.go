package queue

import "slices"

// headOnly starts the head of the queue while it fits; no job overtakes it.
type headOnly struct{}

func (headOnly) pass(m *machine) {
	if m.free == 0 {
		return
	}
	m.resort()
	for w := m.waiting(); len(w) > 0 && w[0].procs <= m.free; w = m.waiting() {
		m.start(0)
	}
}

// easy implements EASY (aggressive) backfilling: only the head of the queue has a reservation.
type easy struct {
	// shadow is the reserved start of the head by the estimates, s; extra is the number of processors that remain
	// free at that time. Both stay valid until a task ends or the head changes.
	valid  bool
	shadow float64
	extra  int32
}

func newEasy(m *machine) *easy {
	m.track = true
	m.estimate = make([]float64, len(m.tasks))
	return new(easy)
}

// pass starts the head of the queue while it fits, then backfills. When only one task arrived and the reservation is
// still valid, it considers that task alone.
func (e *easy) pass(m *machine) {
	if len(m.ended) > 0 {
		e.valid = false
	}
	if m.free == 0 {
		return
	}
	if e.valid && e.shadow > m.now && len(m.fresh) <= 1 && !m.order.Aging && e.newcomer(m) {
		return
	}
	m.resort()
	e.valid = false
	for w := m.waiting(); len(w) > 0 && w[0].procs <= m.free; w = m.waiting() {
		m.start(0)
	}
	if m.free == 0 || len(m.waiting()) == 0 {
		return
	}
	e.reserve(m)
	e.fill(m)
}

// newcomer handles a pass in which no task ended: the tasks that could not start before cannot start now, so only the
// arrival is considered. It returns false when the arrival is the head of the queue, which requires a full pass.
func (e *easy) newcomer(m *machine) bool {
	if len(m.fresh) == 0 {
		return true
	}
	t := m.fresh[0]
	k := &m.tasks[t]
	w := m.waiting()
	if w[0].task == t {
		return false
	}
	if !e.may(m, k.procs, k.estimate) {
		return true
	}
	at := len(w) - 1
	if w[at].task != t {
		at, _ = slices.BinarySearchFunc(w, waiter{score: m.score(t), task: t}, waiter.compare)
	}
	m.start(at)
	return true
}

// may reports whether a task can start without delaying the reservation; if so, it deducts the processors used from
// extra.
func (e *easy) may(m *machine, procs int32, estimate float64) bool {
	if procs > m.free {
		return false
	}
	if m.now+estimate <= e.shadow {
		return true
	}
	if procs > e.extra {
		return false
	}
	e.extra -= procs
	return true
}

// reserve computes shadow and extra. A task that has exceeded its estimate is assumed to end immediately.
func (e *easy) reserve(m *machine) {
	need := m.waiting()[0].procs
	free := m.free
	i := len(m.expected) - 1
	for ; free < need; i-- {
		free += m.expected[i].procs
		e.shadow = max(m.expected[i].at, m.now)
	}
	for ; i >= 0 && m.expected[i].at <= e.shadow; i-- {
		free += m.expected[i].procs
	}
	e.extra = free - need
	e.valid = true
}

// fill backfills: it starts tasks that do not delay the head, in queue order.
func (e *easy) fill(m *machine) {
	w := m.waiting()
	kept := 1
	for i := 1; i < len(w); i++ {
		if e.may(m, w[i].procs, w[i].estimate) {
			m.begin(w[i])
			if m.free == 0 {
				kept += copy(w[kept:], w[i+1:])
				break
			}
			continue
		}
		w[kept] = w[i]
		kept++
	}
	m.queue = m.queue[:m.first+kept]
}
