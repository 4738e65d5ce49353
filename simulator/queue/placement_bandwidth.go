package queue

import "trainopt/simulator/platform"

// bandwidthAware takes no more cores of a processor than its bandwidth supports; where too few cores remain, it slows
// as few jobs as possible. Its pools contain all processors of at least a given speed.
type bandwidthAware struct {
	pooled
	safe, rest pick
	where      []int32
}

func newBandwidthAware(tree *platform.Tree, _ Objective, _ uint64) placer {
	return &bandwidthAware{pooled: cumulativePools(tree, slowness), safe: pick{key: packed, safe: true}, rest: pick{key: fewestSlowed}}
}

// Weigh returns the time until the job ends, slowdown included, plus the time lost by the jobs that it slows.
func (b *bandwidthAware) Weigh(s *state, job int32, pool int, at, least float64) float64 {
	d := s.secondsAt(job, b.pooled[pool].Speed)
	if at > s.Now || d >= least {
		return at - s.Now + d
	}
	where, ok := b.Take(s, job, pool, b.where[:0])
	b.where = where
	if !ok {
		return inf
	}
	v := s.seconds(job, s.rate(job, where)) + s.harm(Finish, job)
	s.undo(job, where)
	return v
}

// Take first tries cores whose bandwidth suffices.
func (b *bandwidthAware) Take(s *state, job int32, pool int, into []int32) ([]int32, bool) {
	if where, ok := b.safe.take(s, job, &b.pooled[pool], into); ok {
		return where, true
	}
	s.dirty = s.dirty[:0]
	return b.rest.take(s, job, &b.pooled[pool], into)
}
