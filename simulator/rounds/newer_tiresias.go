package rounds

import (
	"slices"
)

// tiresias serves the jobs that have had least first: two-dimensional least attained service in discrete queues (Gu et al., "Tiresias:
// A GPU cluster manager for distributed deep learning", NSDI 2019, section 3.2). What a job has had is its device-seconds; when that
// reaches the bound of a queue it goes to the end of the next one. Queues are served in order; within a queue those who run come
// first, so that nobody is stopped for another of the same queue, then those who wait in the order in which they were stopped or
// came. Who does not fit is passed over. Bounds and order are those of the published simulator (SymbioticLab/Tiresias, jobs.py and
// run_sim.py with the schedule dlas-gpu, commit b0ef844), which leaves it switched off, as here, that jobs that have starved for long
// are promoted. It further differs in this: a job that passes a bound between two decisions goes on until the next one, at most 6 minutes
// later; and of the types with room, which the paper does not have, a job takes the one where it is fastest.
//
// It knows neither durations nor, but for that, rates.
type tiresias struct {
	bounds []float64 // device-seconds at which each queue but the last ends
	queues [][]int   // IDs of jobs
}

var (
	_ Described = (*tiresias)(nil)
	_ Restless  = (*tiresias)(nil)
)

// tiresiasBounds are those of three queues in the published simulator.
var tiresiasBounds = []float64{3250, 7200}

func newTiresias(PolicyOptions) Policy {
	return &tiresias{tiresiasBounds, make([][]int, len(tiresiasBounds)+1)}
}

// Traits say that who has no device waits.
func (*tiresias) Traits() Traits {
	return Traits{Name: "Tiresias", FixedOrder: true, OnlyShares: true}
}

// Every is how long a job may go on after it has passed a bound.
func (*tiresias) Every() float64 { return defaultInterval }

// Decide gives whole devices in the order of queues.
func (p *tiresias) Decide(s *Snapshot) (Allocation, error) {
	index := make(map[int]int, len(s.Jobs))
	for i := range s.Jobs {
		index[s.Jobs[i].ID] = i
	}
	p.update(s, index)
	var order []int
	for _, queue := range p.queues {
		for _, id := range queue {
			order = append(order, index[id])
		}
	}
	placed := placeByOrder(s, order)
	runs := make(map[int]bool, len(placed))
	for _, w := range placed {
		runs[s.Jobs[w.a].ID] = true
	}
	for _, queue := range p.queues {
		slices.SortStableFunc(queue, func(a, b int) int {
			switch {
			case runs[a] == runs[b]:
				return 0
			case runs[a]:
				return -1
			}
			return 1
		})
	}
	return wholeShares(s, placed), nil
}

// update drops jobs that have gone from the queues, takes in new ones and moves on those that have passed a bound.
func (p *tiresias) update(s *Snapshot, index map[int]int) {
	known := make(map[int]bool, len(index))
	var passed []int
	for q, queue := range p.queues {
		kept := queue[:0]
		var next []int
		for _, id := range append(slices.Clone(queue), passed...) {
			i, here := index[id]
			switch {
			case !here:
			case q < len(p.bounds) && s.Jobs[i].Attained >= p.bounds[q]*(1-1e-9):
				next = append(next, id)
			default:
				kept = append(kept, id)
				known[id] = true
			}
		}
		p.queues[q], passed = kept, next
	}
	for i := range s.Jobs {
		if id := s.Jobs[i].ID; !known[id] {
			p.queues[0] = append(p.queues[0], id)
		}
	}
}

// placeByOrder gives each job in turn, if there is room, the type with room where it is fastest.
func placeByOrder(s *Snapshot, order []int) []whole {
	free, left := freeDevices(s)
	return placeInto(s, order, free, left)
}

// placeInto is placeByOrder with the devices that are free by type, and how many that are.
func placeInto(s *Snapshot, order, free []int, left int) []whole {
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
