package unequal

import "trainopt/simulator/platform"

// bandwidthAware takes of each processor no more cores than it has bandwidth for; where that is too few, it slows the fewest jobs. It
// prefers speeds as homogeneous does, of cores not slower than.
type bandwidthAware struct {
	pools      []Pool
	fastest    float64
	safe, rest pick
}

func newBandwidthAware(tree *platform.Tree, _ Objective, _ uint64) Placer {
	return &bandwidthAware{pools: upTo(tree, slowness), fastest: fastest(tree), safe: pick{key: packed, safe: true}, rest: pick{key: careless}}
}

func (b *bandwidthAware) Pools() []Pool    { return b.pools }
func (b *bandwidthAware) Fastest() float64 { return b.fastest }

// Weigh counts a slowed job's time, and the time that it costs those that it slows.
func (b *bandwidthAware) Weigh(s *State, job int32, pool int, at float64) float64 {
	d := s.seconds(job, s.fastest(job, b.pools[pool].Speed))
	if at > s.Now {
		return at - s.Now + d
	}
	where, ok := b.Take(s, job, pool, nil)
	if !ok {
		return inf
	}
	v := s.seconds(job, s.rate(job, where)) + s.harm(Finish, job)
	s.undo(job, where)
	return v
}

func (b *bandwidthAware) Take(s *State, job int32, pool int, into []int32) ([]int32, bool) {
	if where, ok := b.safe.take(s, job, &b.pools[pool], into); ok {
		return where, true
	}
	s.dirty = s.dirty[:0]
	return b.rest.take(s, job, &b.pools[pool], into)
}
