package unequal

import "trainopt/simulator/platform"

// homogeneous takes cores of equal speed for a job, since the slowest core determines its speed. It selects the speed
// with the earliest end, including the wait for such cores; jobs that fit no speed run on any cores. O(pools ×
// processors + running) per job.
type homogeneous struct {
	pools   []Pool
	fastest float64
	pick    pick
}

func newHomogeneous(tree *platform.Tree, _ Objective, _ uint64) Placer {
	return &homogeneous{pools: bySpeed(tree), fastest: fastest(tree), pick: pick{key: packed}}
}

func (h *homogeneous) Pools() []Pool    { return h.pools }
func (h *homogeneous) Fastest() float64 { return h.fastest }

func (h *homogeneous) Weigh(s *State, job int32, pool int, at, _ float64) float64 {
	return at - s.Now + s.seconds(job, s.fastest(job, h.pools[pool].Speed))
}

func (h *homogeneous) Until(s *State, job int32, weight float64) float64 {
	return until(s, job, h.fastest, weight)
}

func (h *homogeneous) Take(s *State, job int32, pool int, into []int32) ([]int32, bool) {
	return h.pick.take(s, job, &h.pools[pool], into)
}
