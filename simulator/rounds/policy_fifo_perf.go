package rounds

// fifoPerf assigns whole devices to jobs in order of arrival, each on its fastest type among those with enough free
// devices (Gavel, section 4.4 "FIFO"). The first job that fits on no type blocks those behind it. O(jobs · types).
type fifoPerf struct{}

var _ Described = fifoPerf{}

func newFIFOPerf(PolicyOptions) Policy { return fifoPerf{} }

// Traits returns those of Gavel's FIFO_Perf.
func (fifoPerf) Traits() Traits {
	return Traits{Name: "FIFO_Perf", FixedOrder: true, OnlyShares: true}
}

// Decide assigns one device type at full share to every job that fits.
func (fifoPerf) Decide(s *Snapshot) (Allocation, error) {
	placed, _ := placeInOrder(s)
	return wholeShares(s, placed), nil
}

// whole is a job, or a pair, with a full share of one device type.
type whole struct {
	a, b, device int // b is −1 for a single job
}

// placeInOrder places jobs in order of arrival until one does not fit. next is the first job that was not considered,
// or the one that blocks the queue. Jobs that cannot run on any type with free devices are skipped.
func placeInOrder(s *Snapshot) (placed []whole, next int) {
	free, left := freeDevices(s)
	for i := range s.Jobs {
		if left == 0 {
			return placed, i
		}
		j := &s.Jobs[i]
		best, rate := -1, -1.0
		for d, n := range free {
			if n >= j.GPUs && n > 0 && j.Rate[d] > rate {
				best, rate = d, j.Rate[d]
			}
		}
		if best < 0 {
			return placed, i
		}
		if rate > 0 {
			placed = append(placed, whole{i, -1, best})
			free[best] -= j.GPUs
			left -= j.GPUs
		}
	}
	return placed, len(s.Jobs)
}

// freeDevices returns the number of devices by type and in total.
func freeDevices(s *Snapshot) (free []int, all int) {
	free = make([]int, len(s.Devices))
	for d := range s.Devices {
		free[d] = s.Devices[d].Count
		all += free[d]
	}
	return free, all
}

// wholeShares returns the allocation of full shares.
func wholeShares(s *Snapshot, placed []whole) Allocation {
	n := len(s.Devices)
	shares := make([]float64, n*len(placed))
	entries := make([]Entry, len(placed))
	for i, w := range placed {
		x := shares[i*n : (i+1)*n : (i+1)*n]
		x[w.device] = 1
		entries[i] = Entry{w.a, w.b, x}
	}
	return Allocation{entries}
}
