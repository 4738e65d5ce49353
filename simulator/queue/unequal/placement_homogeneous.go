package unequal

import "trainopt/simulator/platform"

// homogeneous has all cores of a job of one speed: a slower one slows them all. Which speed is that by which the job would end
// first, the time that it waits for such cores included; jobs that fit none run anywhere. O(pools × processors + running) a job.
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
