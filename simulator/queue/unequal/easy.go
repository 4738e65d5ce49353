package unequal

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// policy combines an order, a backfilling algorithm and a placement.
type policy struct {
	order    *order.Order
	placer   Placer
	backfill backfill
	depth    int
	ended    bool // a job ended since the last pass

	forecast forecast
	failed   []int       // pools
	claimed  []float64   // core seconds by pool, claimed in this pass by jobs that wait for the pool
	common   [][]float64 // by pair of pools: the share of the first pool's cores that the second contains
	where    []int32
}

// backfill starts jobs, and returns the time at which it must be called again even without events, +∞ for never.
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
	clear(p.claimed)
	again = p.backfill.pass(p, s, start)
	p.ended = false
	return again
}

// place takes cores of the best pool for a job, if that pool has room now and the hold permits it. Otherwise where is
// nil, and pool and at are the pool worth waiting for and the time at which it has room. With a hold, or with a
// single pool, at is not computed (+∞).
func (p *policy) place(s *State, job int32, h *hold) (where []int32, pool int, at float64) {
	pools := p.placer.Pools()
	p.where = p.where[:0]
	if len(pools) == 1 {
		if p.take(s, job, 0, h) {
			return p.where, 0, s.Now
		}
		return nil, 0, inf
	}
	ats := p.forecast.now(s, job, pools)
	p.failed = p.failed[:0]
	for {
		best, least := -1, inf
		for k, at := range ats {
			if at > s.Now || slices.Contains(p.failed, k) {
				continue
			}
			if w := p.placer.Weigh(s, job, k, at, least); w < least {
				best, least = k, w
			}
		}
		if best < 0 && h != nil {
			return nil, -1, inf // with a hold, the job may only start now
		}
		if best, at = p.better(s, job, best, least); best < 0 || at > s.Now {
			return nil, best, at
		}
		if p.take(s, job, best, h) {
			return p.where, best, s.Now
		}
		p.failed = append(p.failed, best)
	}
}

// better returns a pool that will have room later and is worth waiting for; otherwise it returns now, a pool that has
// room at present, or −1.
func (p *policy) better(s *State, job int32, now int, least float64) (pool int, at float64) {
	pool, at = now, s.Now
	until := inf
	if now >= 0 {
		until = p.placer.Until(s, job, least)
	} else {
		at = inf
	}
	pools := p.placer.Pools()
	p.claimed = grow(p.claimed, len(pools))
	for k, when := range p.forecast.later(s, job, pools, until) {
		if when > s.Now && !math.IsInf(when, 1) {
			if w := p.placer.Weigh(s, job, k, when+p.claimed[k]/float64(pools[k].Cores), least); w < least {
				pool, at, least = k, when, w
			}
		}
	}
	if at > s.Now && pool >= 0 {
		p.claim(s, job, pool)
	}
	return pool, at
}

// claim records the work of a job that waits for a pool, so that jobs behind it expect a correspondingly later start
// there in this pass.
func (p *policy) claim(s *State, job int32, pool int) {
	pools := p.placer.Pools()
	if p.common == nil {
		p.common = make([][]float64, len(pools))
		for i := range pools {
			for k := range pools {
				p.common[i] = append(p.common[i], common(s.Tree, &pools[i], &pools[k]))
			}
		}
	}
	area := s.seconds(job, s.fastest(job, pools[pool].Speed)) * float64(s.Jobs[job].Procs)
	for k := range p.claimed {
		p.claimed[k] += area * p.common[pool][k]
	}
}

// common returns the share of a's cores that b also contains.
func common(tree *platform.Tree, a, b *Pool) float64 {
	n := 0
	for _, p := range a.list {
		if b.of[p] {
			n += tree.Processors[p].Cores
		}
	}
	return float64(n) / float64(a.Cores)
}

// take takes cores of a pool. It returns false, with the machine unchanged, if there is no room or the hold forbids
// it.
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

// headOnly starts the head of the queue while it can be placed; no job overtakes it.
type headOnly struct{}

func (headOnly) pass(p *policy, s *State, start func(int32, []int32)) float64 {
	startFirst(p, s, start)
	return inf
}

// startFirst starts the head of the queue while it can be placed, and returns the pool and the time that the next
// head waits for.
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

// easy implements EASY (aggressive) backfilling: only the head of the queue has a reservation, of room in a pool at a
// time.
type easy struct {
	hold hold
}

// pass starts the head of the queue while it can be placed, then jobs behind it that leave its reservation intact.
// The reservation is computed when the first job needs to be compared with it.
func (e *easy) pass(p *policy, s *State, start func(int32, []int32)) float64 {
	if s.Machine.Free() == 0 {
		return inf
	}
	pool, at := startFirst(p, s, start)
	if len(s.waiting) < 2 || s.Machine.Free() == 0 || pool < 0 {
		return inf
	}
	last, reserved := len(s.waiting), false
	if depth := p.looks(); depth > 0 {
		last = min(last, depth+1)
	}
	kept := 1
	for i := 1; i < last; i++ {
		w := s.waiting[i]
		free := s.Machine.Free()
		if s.Jobs[w.job].Procs <= free && !reserved {
			e.reserve(p, s, pool, at)
			reserved = true
		}
		if s.Jobs[w.job].Procs <= free && e.hold.may(s, w.job, p.placer.Fastest()) {
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
func (e *easy) reserve(p *policy, s *State, pool int, at float64) {
	job, pools := s.waiting[0].job, p.placer.Pools()
	if math.IsInf(at, 1) {
		p.forecast.now(s, job, pools)
		at = p.forecast.later(s, job, pools, inf)[pool]
	}
	e.hold.reserve(s, job, &pools[pool], at)
}

// looks returns how many jobs behind the head a pass considers; 0 means all.
func (p *policy) looks() int {
	switch {
	case p.depth < 0 || p.depth == 0 && len(p.placer.Pools()) == 1:
		return 0
	case p.depth == 0:
		return 64
	}
	return p.depth
}

// hold is a reservation: room for a job in a pool at a time, with the state of the machine expected then.
type hold struct {
	job    *queue.Job
	at     float64
	pool   *Pool
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
func (h *hold) may(s *State, job int32, fastest float64) bool {
	return s.Jobs[job].Procs <= h.spare || s.Now+s.seconds(job, s.fastest(job, fastest)) <= h.at
}

// allows reports whether the reserved room remains if a job takes these cores, which the machine has already
// assigned. If so, the hold is updated. Running jobs that are slowed so that they end after the reserved time are
// included.
func (h *hold) allows(s *State, job int32, where []int32) bool {
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

// change adds cores and memory of a processor to the state at the reserved time.
func (h *hold) change(s *State, p, count int32, memory float64) {
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

// fastest returns the rate of a job on cores of the given speed, in units of work per second.
func (s *State) fastest(job int32, gflops float64) float64 {
	if s.Jobs[job].Ops == 0 {
		return 1
	}
	return gflops * 1e9
}
