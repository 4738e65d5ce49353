package rounds

import (
	"cmp"
	"slices"
)

// themis offers devices to the jobs that are treated worst: the worst finish-time fairness first, ρ = (time since arrival + rest
// with the devices it gets) / (time alone on an equal part of the cluster), as Themis does (Mahajan et al., "Themis: Fair and efficient GPU
// cluster scheduling", NSDI 2020). It is simplified: the paper auctions devices among the worst share f of the jobs, which bid with ρ for
// every subset, and pays hidden truthfulness by payments; here the worst share f is served first, within it the job whose ρ
// falls most per device, and the others after them by ρ. It knows rates and the steps that are left.
type themis struct{ offered float64 }

var (
	_ Described = themis{}
	_ Restless  = themis{}
)

// themisOffered is the share of jobs to which devices are offered first: 1 − f with the paper's f = 0.8.
const themisOffered = 0.2

// themisLease is how long devices are held before they are offered anew, seconds.
const themisLease = 1200

func newThemis(PolicyOptions) Policy { return themis{themisOffered} }

// Traits say that who has no device waits.
func (themis) Traits() Traits { return Traits{Name: "Themis", FixedOrder: true, OnlyShares: true} }

// Every is the length of a lease.
func (themis) Every() float64 { return themisLease }

// Decide gives whole devices to the worst off.
func (p themis) Decide(s *Snapshot) (Allocation, error) {
	n := len(s.Jobs)
	order, waits, falls := make([]int, n), make([]float64, n), make([]float64, n)
	equal := 0.0
	for d := range s.Devices {
		equal += float64(s.Devices[d].Count)
	}
	equal /= float64(n)
	for i := range s.Jobs {
		order[i] = i
		j := &s.Jobs[i]
		best := j.best(s)
		if best == 0 {
			continue
		}
		alone := j.Steps / best / min(1, equal/float64(j.GPUs))
		age := s.Now - j.Arrival
		waits[i] = (age + j.Remaining/best) / alone
		falls[i] = themisLease / alone / float64(j.GPUs)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waits[b], waits[a]) })
	first := min(n, int(p.offered*float64(n))+1)
	slices.SortStableFunc(order[:first], func(a, b int) int { return cmp.Compare(falls[b], falls[a]) })
	return wholeShares(s, placeByOrder(s, order)), nil
}
