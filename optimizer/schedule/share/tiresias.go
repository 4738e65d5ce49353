package share

import (
	"slices"

	"trainopt/optimizer/schedule"
)

// tiresias serves the jobs with the least service first: two-dimensional least attained service with discrete queues
// (Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019, section 3.2). The attained
// service of a job is its device-seconds; at the bound of a queue, the job moves to the end of the next one. Queues
// are served in order. Within a queue, running jobs come first, so that no job is preempted by another of the same
// queue, followed by waiting jobs in the order in which they were stopped or arrived. Jobs that do not fit are
// skipped. Bounds and order are those of the published simulator (SymbioticLab/Tiresias, jobs.py and run_sim.py with
// the schedule dlas-gpu, commit b0ef844); the promotion of starving jobs is disabled there and here. Differences: a
// job that passes a bound between two decisions continues until the next one, at most 6 minutes later; and of several
// device types with free devices, which the paper does not consider, a job uses its fastest.
//
// It uses no durations, and rates only for the choice of type.
type tiresias struct {
	bounds []float64 // device-seconds at which each queue except the last ends
	queues [][]int   // job IDs
}

// tiresiasPeriod is the decision interval in seconds, the maximum time by which a job may exceed a bound.
const tiresiasPeriod = 360

// tiresiasBounds are the bounds of the three queues of the published simulator.
var tiresiasBounds = []float64{3250, 7200}

func newTiresias(Options) schedule.Policy {
	return &tiresias{tiresiasBounds, make([][]int, len(tiresiasBounds)+1)}
}

// Traits sets OnlyShares: jobs without devices wait.
func (*tiresias) Traits() schedule.Traits {
	return schedule.Traits{Name: "Tiresias", FixedOrder: true, OnlyShares: true, Period: tiresiasPeriod}
}

// Decide assigns whole devices in the order of the queues.
func (p *tiresias) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	index := make(map[int]int, len(s.Jobs))
	for i := range s.Jobs {
		index[s.Jobs[i].ID] = i
	}
	runs := make(map[int]bool, len(index))
	for i := range s.Absent {
		runs[s.Absent[i].ID] = s.Absent[i].Held > 0
	}
	p.update(s, index, runs)
	var order []int
	for _, queue := range p.queues {
		for _, id := range queue {
			if i, here := index[id]; here {
				order = append(order, i)
			}
		}
	}
	free, left := freeDevices(s)
	placed := placeInto(withRestarts(s), order, free, left)
	for _, w := range placed {
		runs[s.Jobs[w.a].ID] = true
	}
	// Running jobs move to the front of their queue, waiting ones keep their order.
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
	return fullShares(s, placed), nil
}

// State implements schedule.Stateful.
func (p *tiresias) State() []any { return []any{&p.queues} }

// update removes ended jobs from the queues, appends new ones and moves jobs that have passed a bound. Absent ones keep their
// places.
func (p *tiresias) update(s *schedule.Snapshot, index map[int]int, absent map[int]bool) {
	known := make(map[int]bool, len(index))
	var passed []int
	for q, queue := range p.queues {
		kept := queue[:0]
		var next []int
		for _, id := range append(slices.Clone(queue), passed...) {
			i, here := index[id]
			_, away := absent[id]
			switch {
			case away:
				kept = append(kept, id)
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
