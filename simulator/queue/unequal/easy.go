package unequal

import (
	"math"

	"trainopt/simulator/queue"
)

// policy is what decides: which job is next, what may overtake it, and where each runs.
type policy struct {
	order    *queue.Order
	placer   Placer
	backfill backfill
	depth    int
	ended    bool // something ended since the last pass

	forecast forecast
	weights  []float64
	where    []int32
}

// backfill starts what may be started, and returns when it wants to be asked again although nothing happens, +∞ never.
type backfill interface {
	pass(p *policy, s *State, start func(int32, []int32)) (again float64)
}

var backfills = map[string]func() backfill{
	"none":         func() backfill { return headOnly{} },
	"easy":         func() backfill { return &easy{} },
	"conservative": func() backfill { return &conservative{plans: map[int32]*plan{}} },
}

func (p *policy) pass(s *State, start func(int32, []int32)) (again float64) {
	if p.order.Aging {
		s.sort(p.order)
	}
	again = p.backfill.pass(p, s, start)
	p.ended = false
	return again

}

// place takes cores for a job where they are best, if that is now and the hold allows it; else it returns the pool and the time
// that are worth waiting for. Without a hold the time is found even when nothing can start now.
func (p *policy) place(s *State, job int32, h *hold) (where []int32, pool int, at float64) {
	pools := p.placer.Pools()
	p.where = p.where[:0]
	if len(pools) == 1 {
		if p.take(s, job, 0, h) {
			return p.where, 0, s.Now
		}
		if h != nil {
			return nil, 0, math.Inf(1)
		}
		return nil, 0, p.forecast.of(s, job, pools, math.Inf(1))[0]
	}
	ats := p.forecast.of(s, job, pools, math.Inf(1))
	p.weights = grow(p.weights, len(pools))
	for k, at := range ats {
		p.weights[k] = math.Inf(1)
		if !math.IsInf(at, 1) {
			p.weights[k] = p.placer.Weigh(s, job, k, at)
		}
	}
	for {
		best := -1
		for k, w := range p.weights {
			if !math.IsInf(w, 1) && (best < 0 || w < p.weights[best]) {
				best = k
			}
		}
		if best < 0 {
			return nil, -1, math.Inf(1)
		}
		if ats[best] > s.Now {
			return nil, best, ats[best]
		}
		if p.take(s, job, best, h) {
			return p.where, best, s.Now
		}
		p.weights[best] = math.Inf(1)
	}
}

// take takes cores of a pool when there is room, and when the hold allows it.
func (p *policy) take(s *State, job int32, pool int, h *hold) bool {
	var ok bool
	p.where, ok = p.placer.Take(s, job, pool, p.where[:0])
	if !ok {
		s.dirty = s.dirty[:0]
		return false
	}
	if h != nil && !h.allows(s, job, p.where) {
		s.Machine.Undo(&s.Jobs[job], p.where)
		s.dirty = s.dirty[:0]
		return false
	}
	return true
}

// headOnly starts the first of the queue as long as it finds its place.
type headOnly struct{}

func (headOnly) pass(p *policy, s *State, start func(int32, []int32)) float64 {
	startFirst(p, s, start)
	return inf
}

// startFirst starts the first of the queue as long as it finds its place, and returns what the next one waits for.
func startFirst(p *policy, s *State, start func(int32, []int32)) (pool int, at float64) {
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

// easy is aggressive backfilling: only the first of the queue has a reservation, of room in a pool at a time.
type easy struct {
	hold hold
}

func (e *easy) pass(p *policy, s *State, start func(int32, []int32)) float64 {
	if s.Machine.Free() == 0 {
		return inf
	}
	pool, at := startFirst(p, s, start)
	if len(s.waiting) < 2 || s.Machine.Free() == 0 || pool < 0 {
		return inf
	}
	e.hold.reserve(s, s.waiting[0].job, &p.placer.Pools()[pool], at)
	last := len(s.waiting)
	if p.depth > 0 {
		last = min(last, p.depth+1)
	}
	kept := 1
	for i := 1; i < last; i++ {
		w := s.waiting[i]
		if free := s.Machine.Free(); s.Jobs[w.job].Procs <= free && e.hold.may(s, w.job, p.placer.Fastest()) {
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

// hold is room for a job in a pool at a time, in the machine as it will be then.
type hold struct {
	job    *queue.Job
	at     float64
	pool   *Pool
	free   []int32   // of each processor
	memory []float64 // of each node
	within []int32   // of each node: free in the pool
	room   int
	undo   []change
}

type change struct {
	processor, count int32
	memory           float64
}

func (h *hold) reserve(s *State, job int32, pool *Pool, at float64) {
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
	h.room = 0
	for n, free := range h.within {
		if free > 0 {
			h.room += room(free, h.memory[n], h.job)
		}
	}
}

// may is false when a job surely cannot overtake: it is longer at the highest speed than the time that is left, and there is no room
// beside the one that holds.
func (h *hold) may(s *State, job int32, fastest float64) bool {
	return s.Now+s.seconds(job, s.fastest(job, fastest)) <= h.at || h.room-h.job.Procs >= s.Jobs[job].Procs || !h.whole(s)
}

// whole says that the pool is the whole machine.
func (h *hold) whole(s *State) bool { return len(h.pool.list) == len(s.Tree.Processors) }

// allows is whether the room is still there at the time when a job takes these cores, which the machine has taken already. If so it
// remembers what is left. Jobs that are slowed so that they end later than the time count too.
func (h *hold) allows(s *State, job int32, where []int32) bool {
	h.undo = h.undo[:0]
	if s.Now+s.seconds(job, s.rate(job, where)) > h.at {
		h.occupy(s, job, where)
	}
	for i, other := range s.dirty {
		r := &s.running[s.slot[other]]
		if r.end > h.at || contains(s.dirty[:i], other) {
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

func contains(of []int32, x int32) bool {
	for _, y := range of {
		if x == y {
			return true
		}
	}
	return false
}

// occupy takes cores out of what is free at the time.
func (h *hold) occupy(s *State, job int32, where []int32) {
	memory := s.Jobs[job].Memory
	for i := 0; i < len(where); {
		p, count := s.Tree.ProcessorOf[where[i]], int32(0)
		for ; i < len(where) && s.Tree.ProcessorOf[where[i]] == p; i++ {
			count++
		}
		h.change(s, p, -count, -memory*float64(count))
		h.undo = append(h.undo, change{p, count, memory * float64(count)})
	}
}

func (h *hold) change(s *State, p, count int32, memory float64) {
	n := s.Tree.Processors[p].Node
	h.room -= room(h.within[n], h.memory[n], h.job)
	h.free[p] += count
	if h.pool.of[p] {
		h.within[n] += count
	}
	h.memory[n] += memory
	h.room += room(h.within[n], h.memory[n], h.job)
}

// fastest is the speed of a job on the fastest cores, in work a second.
func (s *State) fastest(job int32, gflops float64) float64 {
	if s.Jobs[job].Ops == 0 {
		return 1
	}
	return gflops * 1e9
}
