package unequal

import "trainopt/simulator/platform"

// bandwidthAware takes of each processor no more cores than it has bandwidth for; where that is too few, it slows the fewest jobs. It
// prefers speeds as homogeneous does, of cores not slower than.
type bandwidthAware struct {
	pools      []Pool
	fastest    float64
	safe, rest pick
	where      []int32
}

func newBandwidthAware(tree *platform.Tree, _ Objective, _ uint64) Placer {
	return &bandwidthAware{pools: upTo(tree, slowness), fastest: fastest(tree), safe: pick{key: packed, safe: true}, rest: pick{key: careless}}
}

func (b *bandwidthAware) Pools() []Pool    { return b.pools }
func (b *bandwidthAware) Fastest() float64 { return b.fastest }

// Weigh counts a slowed job's time, and the time that it costs those that it slows.
func (b *bandwidthAware) Weigh(s *State, job int32, pool int, at, least float64) float64 {
	d := s.seconds(job, s.fastest(job, b.pools[pool].Speed))
	if at > s.Now || d >= least {
		return at - s.Now + d
	}
	var ok bool
	where := b.where
	where, ok = b.Take(s, job, pool, where[:0])
	b.where = where
	if !ok {
		return inf
	}
	v := s.seconds(job, s.rate(job, where)) + s.harm(Finish, job)
	s.undo(job, where)
	return v
}

func (b *bandwidthAware) Until(s *State, job int32, weight float64) float64 {
	return until(s, job, b.fastest, weight)
}

func (b *bandwidthAware) Take(s *State, job int32, pool int, into []int32) ([]int32, bool) {
	if where, ok := b.safe.take(s, job, &b.pools[pool], into); ok {
		return where, true
	}
	s.dirty = s.dirty[:0]
	return b.rest.take(s, job, &b.pools[pool], into)
}
