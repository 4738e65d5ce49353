package rounds

import (
	"cmp"
	"math"
	"slices"
)

// tiresias serves the jobs that have had least first: two-dimensional least attained service in discrete queues (Gu et al., "Tiresias:
// A GPU cluster manager for distributed deep learning", NSDI 2019, section 3.2). What a job has had is its device-seconds; when that
// passes the bound of a queue it goes to the next one. Queues are served in order, each by arrival. It knows neither durations nor
// rates; of the types with room a job takes the one where it is fastest. Of the paper's choices that of promoting jobs which
// have starved for long is left out, as in its own evaluation of simulations.
type tiresias struct {
	bounds []float64 // device-seconds at which each queue but the last ends
}

var (
	_ Described = tiresias{}
	_ Restless  = tiresias{}
)

// tiresiasBounds are one hour and ten of one device.
var tiresiasBounds = []float64{3600, 36000}

func newTiresias(PolicyOptions) Policy { return tiresias{tiresiasBounds} }

// Traits say that who has no device waits.
func (tiresias) Traits() Traits { return Traits{Name: "Tiresias", FixedOrder: true, OnlyShares: true} }

// Every is how long a job may go on after it has passed a bound.
func (tiresias) Every() float64 { return defaultInterval }

// Decide gives whole devices in the order of queues.
func (p tiresias) Decide(s *Snapshot) (Allocation, error) {
	order := make([]int, len(s.Jobs))
	queue := make([]int, len(s.Jobs))
	for i := range order {
		order[i] = i
		queue[i], _ = slices.BinarySearch(p.bounds, math.Nextafter(s.Jobs[i].Attained, math.Inf(1)))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(queue[a], queue[b]) })
	return wholeShares(s, placeByOrder(s, order)), nil
}

// placeByOrder gives each job in turn, if there is room, the type with room where it is fastest.
func placeByOrder(s *Snapshot, order []int) []whole {
	free, left := freeDevices(s)
	var placed []whole
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
			placed = append(placed, whole{i, -1, best})
			free[best] -= j.GPUs
			left -= j.GPUs
		}
	}
	return placed
}
