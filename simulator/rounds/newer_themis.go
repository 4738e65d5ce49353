package rounds

import (
	"cmp"
	"slices"
)

// themis offers devices to the jobs that are treated worst: the worst finish-time fairness first, ρ = (time since arrival + rest
// with the devices it asks for) / (time alone on an equal part of the cluster), as Themis does (Mahajan et al., "Themis: Fair and efficient
// GPU cluster scheduling", NSDI 2020). Devices are leased for 20 minutes; only those are offered that are free or whose lease has ended.
// It is simplified: the paper auctions the devices among the worst share 1 − f of the jobs, which bid with ρ for every subset of them, takes
// the winners by the largest product of gains (partial allocation), holds back a part as payment, so that false bids gain nothing, and
// gives what is left to others at random. Here that share is served first, within it the job whose ρ falls most for each device, by
// all devices that it asks for or none; then the others by ρ. Nobody lies here. How far apart devices stand is not looked at. A
// lease that ends between two decisions is noticed at the next one, at most 5 minutes later. It knows rates and the steps that are left.
// O(n log n).
type themis struct {
	offered float64
	leases  map[int]themisHeld // by job ID
}

// themisHeld is what a job has leased.
type themisHeld struct {
	device int
	until  float64
}

var (
	_ Described = (*themis)(nil)
	_ Restless  = (*themis)(nil)
)

const (
	// themisOffered is the share of jobs to which devices are offered first: 1 − f with the paper's f = 0.8.
	themisOffered = 0.2
	themisLease   = 1200 // seconds
	themisLook    = 300  // seconds
)

func newThemis(PolicyOptions) Policy { return &themis{themisOffered, map[int]themisHeld{}} }

// Traits say that who has no device waits.
func (*themis) Traits() Traits { return Traits{Name: "Themis", FixedOrder: true, OnlyShares: true} }

// Every is how long a lease may go on after its end.
func (*themis) Every() float64 { return themisLook }

// Decide leases whole devices to the worst off.
func (p *themis) Decide(s *Snapshot) (Allocation, error) {
	free, left := freeDevices(s)
	leases := make(map[int]themisHeld, len(s.Jobs))
	var placed []whole
	var bidders []int
	for i := range s.Jobs {
		j := &s.Jobs[i]
		h, ok := p.leases[j.ID]
		if !ok || h.until <= s.Now {
			bidders = append(bidders, i)
			continue
		}
		free[h.device] -= j.GPUs
		left -= j.GPUs
		placed, leases[j.ID] = append(placed, whole{i, -1, h.device}), h
	}
	for _, w := range placeInto(s, p.order(s, bidders), free, left) {
		placed, leases[s.Jobs[w.a].ID] = append(placed, w), themisHeld{w.device, s.Now + themisLease}
	}
	p.leases = leases
	return wholeShares(s, placed), nil
}

// order are the jobs in the order in which they are offered devices.
func (p *themis) order(s *Snapshot, jobs []int) []int {
	waits, falls := make([]float64, len(s.Jobs)), make([]float64, len(s.Jobs))
	for _, i := range jobs {
		waits[i], falls[i] = finishTimeRatio(s, i)
	}
	slices.SortStableFunc(jobs, func(a, b int) int { return cmp.Compare(waits[b], waits[a]) })
	first := min(len(jobs), int(p.offered*float64(len(jobs)))+1)
	slices.SortStableFunc(jobs[:first], func(a, b int) int { return cmp.Compare(falls[b], falls[a]) })
	return jobs
}

// finishTimeRatio is ρ of a job that runs from now on, and how much more it would be after a lease of waiting, for each device. 0 when the job runs nowhere.
func finishTimeRatio(s *Snapshot, i int) (ratio, falls float64) {
	j := &s.Jobs[i]
	best := j.best(s)
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
