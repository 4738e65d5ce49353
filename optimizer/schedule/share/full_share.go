package share

import (
	"slices"

	"trainopt/optimizer/schedule"
)

// fullShare is a job, or a pair, with a full share of one device type.
type fullShare struct {
	a, b, device int // b is −1 for a single job
}

// freeDevices returns the number of devices by type and in total.
func freeDevices(s *schedule.Snapshot) (free []int, all int) {
	free = make([]int, len(s.Devices))
	for d := range s.Devices {
		free[d] = s.Devices[d].Count
		all += free[d]
	}
	return free, all
}

// fullShares returns the allocation of full shares.
func fullShares(s *schedule.Snapshot, placed []fullShare) schedule.Allocation {
	return shares(s, placed, func(x []float64, w fullShare) { x[w.device] = 1 })
}

// shares returns an allocation whose shares are set by a function.
func shares(s *schedule.Snapshot, who []fullShare, set func(x []float64, w fullShare)) schedule.Allocation {
	n := len(s.Devices)
	all := make([]float64, n*len(who))
	entries := make([]schedule.Entry, len(who))
	for i, w := range who {
		entries[i] = schedule.Entry{A: w.a, B: w.b, X: all[i*n : (i+1)*n : (i+1)*n]}
		set(entries[i].X, w)
	}
	return schedule.Allocation{Entries: entries}
}

// equalShares divides the cluster equally among jobs and pairs: N_j / (m s_c), scaled down where the shares of an
// entry exceed 1.
func equalShares(s *schedule.Snapshot, who []fullShare) schedule.Allocation {
	return shares(s, who, func(x []float64, w fullShare) {
		sum := 0.0
		for d := range x {
			x[d] = float64(s.Devices[d].Count) / float64(len(who)) / float64(s.Jobs[w.a].GPUs)
			sum += x[d]
		}
		for d := range x {
			x[d] /= max(sum, 1)
		}
	})
}

// withRestarts returns the snapshot with the rates of restRate.
func withRestarts(s *schedule.Snapshot) *schedule.Snapshot {
	if s.Preemption == (schedule.Preemption{}) {
		return s
	}
	out := *s
	out.Jobs = slices.Clone(s.Jobs)
	for i := range out.Jobs {
		j := &out.Jobs[i]
		if j.Held == 0 {
			continue
		}
		j.Rate = slices.Clone(j.Rate)
		for d, r := range j.Rate {
			j.Rate[d] = restRate(s, j, size{d, j.GPUs, r})
		}
	}
	return &out
}

// restRate returns the mean rate of a job over its remaining steps on devices of one type: on others than it holds, it
// restarts first.
func restRate(s *schedule.Snapshot, j *schedule.JobState, z size) float64 {
	if j.Held == 0 || z.Device == j.Device && z.GPUs == j.Held {
		return z.Rate
	}
	return afterRestart(s.Preemption.Of(j.Job), j.Remaining, z.Rate)
}

// afterRestart returns the mean rate over the remaining steps of a job that restarts first.
func afterRestart(p schedule.Preemption, remaining, rate float64) float64 {
	if rate == 0 || remaining <= 0 || p == (schedule.Preemption{}) {
		return rate
	}
	return remaining / (p.Seconds + (p.Steps+remaining)/rate)
}

// placeInOrder places jobs in order of arrival until one does not fit. next is the first job that was not considered,
// or the one that blocks the queue. Jobs that cannot run on any type with free devices are skipped.
func placeInOrder(s *schedule.Snapshot) (placed []fullShare, next int) {
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
			placed = append(placed, fullShare{i, -1, best})
			free[best] -= j.GPUs
			left -= j.GPUs
		}
	}
	return placed, len(s.Jobs)
}

// placeInto assigns each job in turn its fastest type among those with enough of the free devices, given by type and in
// total.
func placeInto(s *schedule.Snapshot, order, free []int, left int) []fullShare {
	var placed []fullShare
	for _, i := range order {
		if left == 0 {
			break
		}
		j := &s.Jobs[i]
		best, rate := -1, 0.0
		for d, n := range free {
			if n >= j.GPUs && j.Rate[d] > rate {
				best, rate = d, j.Rate[d]
			}
		}
		if best >= 0 {
			placed = append(placed, fullShare{i, -1, best})
			free[best] -= j.GPUs
			left -= j.GPUs
		}
	}
	return placed
}

// bestRate returns the highest rate of a job alone on a type with enough devices; 0 if it runs on no type.
func bestRate(s *schedule.Snapshot, j *schedule.JobState) float64 {
	most := 0.0
	for d, r := range j.Rate {
		if s.Devices[d].Count >= j.GPUs {
			most = max(most, r)
		}
	}
	return most
}
