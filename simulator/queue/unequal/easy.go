package unequal

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// policy is what decides: which job is next, what may overtake it, and where each runs.
type policy struct {
	order    *order.Order
	placer   Placer
	backfill backfill
	depth    int
	ended    bool // something ended since the last pass

	forecast forecast
	failed   []int       // pools
	claimed  []float64   // of each pool: core seconds for which jobs wait that were looked at in this pass
	common   [][]float64 // of each pair of pools: the share of the first that is in the second
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
	clear(p.claimed)
	again = p.backfill.pass(p, s, start)
	p.ended = false
	return again
}

// place takes cores for a job where they are best, if that is now and the hold allows it; else it returns the pool and the time
// that are worth waiting for; with a hold, or where there is one pool, the time is not found.
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
			return nil, -1, inf // it may start only now
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

// better is a pool that will have room and is worth waiting for, else the one that is given, which has it now or is −1.
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

// claim notes that a job waits for a pool, so that those behind it, in this pass, do not think it was theirs.
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

// common is the share of the cores of a pool that another has too.
func common(tree *platform.Tree, a, b *Pool) float64 {
	n := 0
	for _, p := range a.list {
		if b.of[p] {
			n += tree.Processors[p].Cores
		}
	}
	return float64(n) / float64(a.Cores)
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

// reserve holds room for the first of the queue, at a time that is still to be found where it is +∞.
func (e *easy) reserve(p *policy, s *State, pool int, at float64) {
	job, pools := s.waiting[0].job, p.placer.Pools()
	if math.IsInf(at, 1) {
		p.forecast.now(s, job, pools)
		at = p.forecast.later(s, job, pools, inf)[pool]
	}
	e.hold.reserve(s, job, &pools[pool], at)
}

// looks is how many jobs a pass looks at behind the first, 0 all.
func (p *policy) looks() int {
	switch {
	case p.depth < 0 || p.depth == 0 && len(p.placer.Pools()) == 1:
		return 0
	case p.depth == 0:
		return 64
	}
	return p.depth
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
	spare  int // cores that are free outside the pool now, and in it at the time beyond those that are held
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

// may is false when a job surely cannot overtake: it is longer at the highest speed than the time that is left, and there are too few
// cores beside those that are held.
func (h *hold) may(s *State, job int32, fastest float64) bool {
	return s.Jobs[job].Procs <= h.spare || s.Now+s.seconds(job, s.fastest(job, fastest)) <= h.at
}

// allows is whether the room is still there at the time when a job takes these cores, which the machine has taken already. If so it
// remembers what is left. Jobs that are slowed so that they end later than the time count too.
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
	h.spare += int(count)
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
