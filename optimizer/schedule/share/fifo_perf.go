package share

import "trainopt/optimizer/schedule"

// fifoPerf assigns whole devices to jobs in order of arrival, each on its fastest type among those with enough free
// devices (Gavel, section 4.4 "FIFO"). The first job that fits on no type blocks those behind it. O(jobs · types).
type fifoPerf struct{}

func newFIFOPerf(Options) schedule.Policy { return fifoPerf{} }

// Traits returns those of Gavel's FIFO_Perf.
func (fifoPerf) Traits() schedule.Traits {
	return schedule.Traits{Name: "FIFO_Perf", FixedOrder: true, OnlyShares: true}
}

// Decide assigns one device type at full share to every job that fits.
func (fifoPerf) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	placed, _ := placeInOrder(s)
	return fullShares(s, placed), nil
}
