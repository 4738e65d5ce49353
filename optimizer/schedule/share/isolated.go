package share

import "trainopt/optimizer/schedule"

// isolated assigns every job an equal part of the cluster: y_ij = N_j / (m s_i), scaled down where the shares of a
// job exceed 1 (Gavel, section 4.1: the reference allocation for fairness). O(jobs · types).
type isolated struct{}

// Traits returns those of Gavel's Isolated.
func (isolated) Traits() schedule.Traits { return schedule.Traits{Name: "Isolated"} }

// Decide assigns equal parts.
func (isolated) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	alone := make([]fullShare, len(s.Jobs))
	for i := range alone {
		alone[i] = fullShare{a: i, b: -1}
	}
	return equalShares(s, alone), nil
}
