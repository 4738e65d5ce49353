package order

import "slices"

// headOnly starts jobs strictly in order.
type headOnly struct{}

func (headOnly) pass(s *Scheduler) {
	if s.free == 0 {
		return
	}
	s.resort()
	s.startHead()
}

// easy is EASY (aggressive) backfilling: only the first of the queue has a reservation.
type easy struct {
	// The reservation of the first: its shadow time, at which it can start by the estimates, and the extra processors that remain free
	// then. Valid until a job ends or another job becomes first.
	valid  bool
	shadow float64
	extra  int32
}

func (e *easy) pass(s *Scheduler) {
	if len(s.ended) > 0 {
		e.valid = false
	}
	if s.free == 0 {
		return
	}
	if e.valid && e.shadow > s.now && len(s.submitted) <= 1 && !s.order.Aging && e.consider(s) {
		return
	}
	s.resort()
	e.valid = false
	s.startHead()
	if s.free == 0 || len(s.waiting()) == 0 {
		return
	}
	e.reserve(s)
	e.fill(s)
}

// consider is a pass after which no job has ended: waiting jobs that could not start before cannot start now, so only the submitted
// one is considered. It returns false where that job became first, which requires a whole pass.
func (e *easy) consider(s *Scheduler) bool {
	if len(s.submitted) == 0 {
		return true
	}
	id := s.submitted[0]
	w := s.waiting()
	if w[0].id == id {
		return false
	}
	at := len(w) - 1
	if w[at].id != id {
		at, _ = slices.BinarySearchFunc(w, waiter{score: s.score(id), id: id}, waiter.compare)
	}
	if e.admit(s, w[at].procs, w[at].estimate) {
		s.startAt(at)
	}
	return true
}

// admit reports whether a job can start without delaying the reservation, and takes the extra processors that it uses beyond the
// shadow time.
func (e *easy) admit(s *Scheduler, procs int32, estimate float64) bool {
	if procs > s.free {
		return false
	}
	if s.now+estimate <= e.shadow {
		return true
	}
	if procs > e.extra {
		return false
	}
	e.extra -= procs
	return true
}

// reserve computes the reservation of the first of the queue. A job that outlasts its estimate is expected to end immediately.
func (e *easy) reserve(s *Scheduler) {
	need := s.waiting()[0].procs
	free := s.free
	i := len(s.running) - 1
	for ; free < need; i-- {
		free += s.running[i].Procs
		e.shadow = max(s.running[i].At, s.now)
	}
	for ; i >= 0 && s.running[i].At <= e.shadow; i-- {
		free += s.running[i].Procs
	}
	e.extra = free - need
	e.valid = true
}

// fill starts every job behind the first that the reservation admits, in queue order.
func (e *easy) fill(s *Scheduler) {
	w := s.waiting()
	kept := 1
	for i := 1; i < len(w); i++ {
		if e.admit(s, w[i].procs, w[i].estimate) {
			s.start(w[i])
			if s.free == 0 {
				kept += copy(w[kept:], w[i+1:])
				break
			}
			continue
		}
		w[kept] = w[i]
		kept++
	}
	s.queue = s.queue[:s.first+kept]
}
