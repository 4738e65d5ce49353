package rounds

// fifoPerf gives whole devices to jobs in the order in which they arrived, each on the type where it is fastest among those that
// have room (Gavel, section 4.4 "FIFO"). The first job for which no type has room blocks those behind it. O(jobs · types).
type fifoPerf struct{}

var _ Described = fifoPerf{}

func newFIFOPerf(PolicyOptions) Policy { return fifoPerf{} }

// Traits are those of Gavel's FIFO_Perf.
func (fifoPerf) Traits() Traits {
	return Traits{Name: "FIFO_Perf", FixedOrder: true, OnlyShares: true}
}

// Decide gives every job that fits one device type for all its time.
func (fifoPerf) Decide(s *Snapshot) (Allocation, error) {
	placed, _ := placeInOrder(s)
	return wholeShares(s, placed), nil
}

// whole is a job, or a pair, that has all the time of the devices it asks for.
type whole struct {
	a, b, device int // b is −1 for a job alone
}

// placeInOrder places jobs by arrival until one finds no room. next is the first job that was not looked at, or the one that
// blocks the rest. A job that cannot run on any type with room is passed over.
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

func freeDevices(s *Snapshot) (free []int, all int) {
	free = make([]int, len(s.Devices))
	for d := range s.Devices {
		free[d] = s.Devices[d].Count
		all += free[d]
	}
	return free, all
}

// wholeShares is the allocation in which each has its device type for all its time.
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
