package queue

import "trainopt/simulator/platform"

// homogeneous takes cores of equal speed for a job, since the slowest core determines its speed. It selects the speed
// with the earliest end, including the wait for such cores; jobs that fit no speed run on any cores. O(pools ×
// processors + running) per job.
type homogeneous struct {
	pooled
	pick pick
}

func newHomogeneous(tree *platform.Tree, _ Objective, _ uint64) placer {
	return &homogeneous{pooled: bySpeed(tree), pick: pick{key: packed}}
}

func (h *homogeneous) Weigh(s *state, job int32, pool int, at, _ float64) float64 {
	return at - s.Now + s.secondsAt(job, h.pooled[pool].Speed)
}

func (h *homogeneous) Take(s *state, job int32, pool int, into []int32) ([]int32, bool) {
	return h.pick.take(s, job, &h.pooled[pool], into)
}
