package queue

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// policy combines an order, a backfilling algorithm and a placement.
type policy struct {
	order    *order.Order
	placer   placer
	backfill backfill
	ended    bool // a job ended since the last pass

	forecast forecast
	failed   []int       // pools
	claimed  []float64   // core seconds by pool, claimed in this pass by jobs that wait for the pool
	common   [][]float64 // by pair of pools: the share of the first pool's cores that the second contains
	where    []int32
}

// backfill starts jobs, and returns the time at which it must be called again even without events, +∞ for never.
type backfill interface {
	pass(p *policy, s *state, start func(int32, []int32)) (again float64)
}

var backfills = map[string]func() backfill{
	"none":         func() backfill { return headOnly{} },
	"easy":         func() backfill { return &easy{} },
	"conservative": func() backfill { return &conservative{plans: map[int32]*plan{}} },
}

func (p *policy) pass(s *state, start func(int32, []int32)) (again float64) {
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
func (p *policy) place(s *state, job int32, h *hold) (where []int32, pool int, at float64) {
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
func (p *policy) better(s *state, job int32, now int, least float64) (pool int, at float64) {
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
func (p *policy) claim(s *state, job int32, pool int) {
	pools := p.placer.Pools()
	if p.common == nil {
		p.common = make([][]float64, len(pools))
		for i := range pools {
			for k := range pools {
				p.common[i] = append(p.common[i], common(s.Tree, &pools[i], &pools[k]))
			}
		}
	}
	area := s.secondsAt(job, pools[pool].Speed) * float64(s.Jobs[job].Procs)
	for k := range p.claimed {
		p.claimed[k] += area * p.common[pool][k]
	}
}

// common returns the share of a's cores that b also contains.
func common(tree *platform.Tree, a, b *pool) float64 {
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
func (p *policy) take(s *state, job int32, pool int, h *hold) bool {
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
