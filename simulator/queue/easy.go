package queue

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// headOnly starts the head of the queue while it can be placed; no job overtakes it.
type headOnly struct{}

func (headOnly) pass(p *policy, s *state, start func(int32, []int32)) float64 {
	startFirst(p, s, start)
	return inf
}

// startFirst starts the head of the queue while it can be placed, and returns the pool and the time that the next
// head waits for.
func startFirst(p *policy, s *state, start func(int32, []int32)) (pool int, at float64) {
	n := 0
	for ; n < len(s.waiting); n++ {
		job := s.waiting[n].job
		where, k, when := p.place(s, job, nil)
		if where == nil {
			pool, at = k, when
			break
		}
		s.start(job, where)
		start(job, where)
	}
	s.waiting = s.waiting[:copy(s.waiting, s.waiting[n:])]
	return pool, at
}

// easy implements EASY (aggressive) backfilling: only the head of the queue has a reservation, of room in a pool at a
// time.
type easy struct {
	hold hold
}

// pass starts the head of the queue while it can be placed, then jobs behind it that leave its reservation intact.
// The reservation is computed when the first job needs to be compared with it.
func (e *easy) pass(p *policy, s *state, start func(int32, []int32)) float64 {
	if s.Machine.Free() == 0 {
		return inf
	}
	pool, at := startFirst(p, s, start)
	if len(s.waiting) < 2 || s.Machine.Free() == 0 || pool < 0 {
		return inf
	}
	last, reserved := len(s.waiting), false
	if len(p.placer.Pools()) > 1 {
		last = min(last, poolsDepth+1)
	}
	kept := 1
	for i := 1; i < last; i++ {
		w := s.waiting[i]
		free := s.Machine.Free()
		if s.Jobs[w.job].Procs <= free && !reserved {
			e.reserve(p, s, pool, at)
			reserved = true
		}
		if s.Jobs[w.job].Procs <= free && e.hold.mayFit(s, w.job) {
			if where, _, _ := p.place(s, w.job, &e.hold); where != nil {
				s.start(w.job, where)
				start(w.job, where)
				continue
			}
		} else if free == 0 {
			kept += copy(s.waiting[kept:], s.waiting[i:last])
			break
		}
		s.waiting[kept] = w
		kept++
	}
	s.waiting = s.waiting[:kept+copy(s.waiting[kept:], s.waiting[last:])]
	return inf
}

// reserve computes the hold of the head of the queue; an at of +∞ is first replaced by a forecast.
func (e *easy) reserve(p *policy, s *state, pool int, at float64) {
	job, pools := s.waiting[0].job, p.placer.Pools()
	if math.IsInf(at, 1) {
		p.forecast.now(s, job, pools)
		at = p.forecast.later(s, job, pools, inf)[pool]
	}
	e.hold.reserve(s, job, &pools[pool], at)
}

// poolsDepth is the number of jobs behind the head that a pass considers with several pools, each of which is costly to
// evaluate. With one pool it considers all.
const poolsDepth = 64

// hold is a reservation: room for a job in a pool at a time, with the state of the machine expected then.
type hold struct {
	job    *order.Job
	at     float64
	pool   *pool
	free   []int32   // by processor
	memory []float64 // by node
	within []int32   // free cores in the pool, by node
	room   int
	spare  int // cores that are free outside the pool now, and free in it at the reserved time beyond those held
	undo   []change
}

// change is an amount of cores and memory deducted from a processor, for reverting.
type change struct {
	processor, count int32
	memory           float64
}

// reserve computes the state expected at a time, from the jobs expected to end by then. O(running cores +
// processors).
func (h *hold) reserve(s *state, job int32, pool *pool, at float64) {
	h.job, h.at, h.pool = &s.Jobs[job], at, pool
	h.free, h.memory, h.within = grow(h.free, len(s.Tree.Processors)), grow(h.memory, len(s.Tree.Nodes)), grow(h.within, len(s.Tree.Nodes))
	for p := range h.free {
		h.free[p] = int32(s.Machine.FreeOf(int32(p)))
	}
	for n := range h.memory {
		h.memory[n] = s.Machine.Memory(int32(n))
	}
	for i := range s.running {
		if r := &s.running[i]; r.end <= at {
			for _, c := range r.cores {
				p := s.Tree.ProcessorOf[c]
				h.free[p]++
				h.memory[s.Tree.Processors[p].Node] += s.Jobs[r.job].Memory
			}
		}
	}
	clear(h.within)
	for _, p := range pool.list {
		h.within[s.Tree.Processors[p].Node] += h.free[p]
	}
	h.room, h.spare = 0, s.Machine.Free()-h.job.Procs
	for _, p := range pool.list {
		h.spare += int(h.free[p]) - s.Machine.FreeOf(p)
	}
	for n, free := range h.within {
		if free > 0 {
			h.room += room(free, h.memory[n], h.job)
		}
	}
}

// may returns false if a job certainly cannot overtake: even at the highest speed it ends after the reserved time,
// and there are too few cores besides those held.
func (h *hold) mayFit(s *state, job int32) bool {
	return s.Jobs[job].Procs <= h.spare || s.Now+s.secondsAt(job, s.fastest) <= h.at
}

// allows reports whether the reserved room remains if a job takes these cores, which the machine has already
// assigned. If so, the hold is updated. Running jobs that are slowed so that they end after the reserved time are
// included.
func (h *hold) allows(s *state, job int32, where []int32) bool {
	h.undo = h.undo[:0]
	if s.Now+s.seconds(job, s.rate(job, where)) > h.at {
		h.occupy(s, job, where)
	}
	for i, other := range s.dirty {
		r := &s.running[s.slot[other]]
		if r.end > h.at || slices.Contains(s.dirty[:i], other) {
			continue
		}
		left := r.left - r.rate*(s.Now-r.last)
		if s.Now+left/s.rate(other, r.cores) > h.at {
			h.occupy(s, other, r.cores)
		}
	}
	if h.room >= h.job.Procs {
		return true
	}
	for _, c := range h.undo {
		h.change(s, c.processor, c.count, c.memory)
	}
	return false
}

// occupy deducts the cores of a job from the state at the reserved time.
func (h *hold) occupy(s *state, job int32, where []int32) {
	memory := s.Jobs[job].Memory
	for p, count := range byProcessor(s.Tree, where) {
		h.change(s, p, -count, -memory*float64(count))
		h.undo = append(h.undo, change{p, count, memory * float64(count)})
	}
}

// change adds cores and memory of a processor to the state at the reserved time.
func (h *hold) change(s *state, p, count int32, memory float64) {
	n := s.Tree.Processors[p].Node
	h.room -= room(h.within[n], h.memory[n], h.job)
	h.free[p] += count
	h.spare += int(count)
	if h.pool.of[p] {
		h.within[n] += count
	}
	h.memory[n] += memory
	h.room += room(h.within[n], h.memory[n], h.job)
}
