package share

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule"
)

// themis offers devices to the jobs with the worst finish-time fairness ρ = (time since arrival + remaining time with
// the requested devices) / (time alone on an equal part of the cluster) (Mahajan et al., "Themis: Fair and efficient
// GPU cluster scheduling", NSDI 2020). Devices are leased for 20 minutes; only devices that are free or whose lease
// has expired are offered.
//
// Simplification: the paper auctions the devices among the worst fraction 1 − f of the jobs, which bid with their ρ
// for every subset of devices. It selects the winners by the largest product of gains (partial allocation), withholds
// a part as payment so that false bids do not pay, and distributes the remaining devices at random. Here that
// fraction is served first, in descending order of the reduction of ρ per device, with all requested devices or none;
// the other jobs follow in descending order of ρ. Reported rates are truthful. The distance between devices is
// ignored. A lease that expires between two decisions ends at the next one, at most 5 minutes later. It uses
// throughputs and remaining steps. O(n log n).
type themis struct {
	offered float64
	leases  map[int]themisHeld // by job ID
}

// themisHeld is the lease of a job. Types are known by their names: a live cluster leaves out those that are held by jobs
// which cannot be interrupted.
type themisHeld struct {
	Device string
	Until  float64
}

const (
	// themisOffered is the fraction of jobs to which devices are offered first: 1 − f with the paper's f = 0.8.
	themisOffered = 0.2
	themisLease   = 1200 // lease duration in seconds
	themisPeriod  = 300  // decision interval in seconds, by which a lease may overrun
)

func newThemis(Options) schedule.Policy { return &themis{themisOffered, map[int]themisHeld{}} }

// Traits sets OnlyShares: jobs without devices wait.
func (*themis) Traits() schedule.Traits {
	return schedule.Traits{Name: "Themis", FixedOrder: true, OnlyShares: true, Period: themisPeriod}
}

// Decide leases whole devices to the jobs that are worst off.
func (p *themis) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	free, left := freeDevices(s)
	leases := make(map[int]themisHeld, len(s.Jobs))
	var placed []fullShare
	var bidders []int
	for i := range s.Jobs {
		j := &s.Jobs[i]
		h, ok := p.leases[j.ID]
		device := slices.IndexFunc(s.Devices, func(d schedule.DeviceType) bool { return d.Name == h.Device })
		if !ok || h.Until <= s.Now || device < 0 || free[device] < j.GPUs || j.Rate[device] == 0 {
			bidders = append(bidders, i)
			continue
		}
		free[device] -= j.GPUs
		left -= j.GPUs
		placed, leases[j.ID] = append(placed, fullShare{i, -1, device}), h
	}
	for _, w := range placeInto(withRestarts(s), p.order(s, bidders), free, left) {
		placed, leases[s.Jobs[w.a].ID] = append(placed, w), themisHeld{s.Devices[w.device].Name, s.Now + themisLease}
	}
	keepAbsent(s, leases, p.leases)
	p.leases = leases
	return fullShares(s, placed), nil
}

// State implements schedule.Stateful.
func (p *themis) State() []any { return []any{&p.leases} }

// order sorts the jobs in place by the order in which they are offered devices.
func (p *themis) order(s *schedule.Snapshot, jobs []int) []int {
	waits, falls := make([]float64, len(s.Jobs)), make([]float64, len(s.Jobs))
	for _, i := range jobs {
		waits[i], falls[i] = finishTimeRatio(s, i)
	}
	slices.SortStableFunc(jobs, func(a, b int) int { return cmp.Compare(waits[b], waits[a]) })
	first := min(len(jobs), int(p.offered*float64(len(jobs)))+1)
	slices.SortStableFunc(jobs[:first], func(a, b int) int { return cmp.Compare(falls[b], falls[a]) })
	return jobs
}

// finishTimeRatio returns ρ of a job that runs from now on, and the increase of ρ per device if it waits for one
// lease instead; 0, 0 if the job runs on no type.
func finishTimeRatio(s *schedule.Snapshot, i int) (ratio, falls float64) {
	j := &s.Jobs[i]
	best := bestRate(s, j)
	if best == 0 {
		return 0, 0
	}
	equal := 0.0
	for d := range s.Devices {
		equal += float64(s.Devices[d].Count)
	}
	equal /= float64(len(s.Jobs))
	alone := j.Steps / best / min(1, equal/float64(j.GPUs))
	return (s.Now - j.Arrival + j.Remaining/best) / alone, themisLease / alone / float64(j.GPUs)
}
