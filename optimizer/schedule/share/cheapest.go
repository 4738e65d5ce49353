package share

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// cheapest runs every job on the device type with the lowest cost of its remaining work, by price and throughput, and
// pays more only as far as deadlines require. Expensive devices stay idle unless needed. It plans all active jobs
// without preemption in order of deadlines, each on the cheapest type on which it completes in time, given the jobs
// before it. If a job cannot meet its deadline, that job and those before it are planned for the earliest completion
// instead. If it still cannot, the longest of them is abandoned, so that as many deadlines as possible are met
// (Moore, "An n job, one machine sequencing algorithm for minimizing the number of late jobs", 1968; a heuristic with
// several device types). Jobs without deadline and abandoned jobs follow on their cheapest type, the shortest first.
// Jobs that the plan starts now receive devices; all jobs are planned again at the next decision.
//
// It uses prices, deadlines and remaining steps. O(n² · types) for n jobs, times the number of abandoned jobs.
type cheapest struct{}

// Traits sets OnlyShares: devices may stay idle.
func (cheapest) Traits() schedule.Traits {
	return schedule.Traits{Name: "Cheapest", FixedOrder: true, OnlyShares: true}
}

// Decide computes the plan and assigns devices to the jobs that start now.
func (cheapest) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	for d := range s.Devices {
		if math.IsNaN(s.Devices[d].USDHour) {
			return schedule.Allocation{}, fmt.Errorf("the price of device type %s is not known", s.Devices[d].Name)
		}
	}
	p := newCostPlan(s)
	for late := p.run(); late >= 0; late = p.run() {
		if p.hurried > late {
			p.giveUp(late)
		}
		p.hurried = max(p.hurried, late+1)
	}
	p.runLate()
	var now []fullShare
	for i := range p.jobs {
		if j := &p.jobs[i]; j.device >= 0 && j.start <= s.Now {
			now = append(now, fullShare{j.index, -1, j.device})
		}
	}
	return fullShares(s, now), nil
}

// costPlan contains the planned start and device type of each job.
type costPlan struct {
	*schedule.Snapshot
	hurried int         // number of first jobs that are planned for the earliest completion
	jobs    []costJob   // in order of deadlines
	free    [][]float64 // by type: time at which each device becomes free, ascending
}

// costJob is a job of the plan.
type costJob struct {
	index    int
	deadline float64
	shortest float64 // seconds on its fastest type
	types    []int   // types on which it runs, the cheapest first
	late     bool
	device   int // −1: not planned
	start    float64
}

// newCostPlan sorts the jobs that can run by deadline. Jobs whose deadline cannot be met even if they start now on
// their fastest type are late from the start.
func newCostPlan(s *schedule.Snapshot) *costPlan {
	p := &costPlan{Snapshot: s, free: make([][]float64, len(s.Devices))}
	for d := range s.Devices {
		p.free[d] = make([]float64, s.Devices[d].Count)
	}
	for i := range s.Jobs {
		if best := bestRate(s, &s.Jobs[i]); best > 0 {
			j := costJob{index: i, deadline: s.Jobs[i].Deadline, shortest: s.Jobs[i].Remaining / best, device: -1}
			j.types = p.byCost(i)
			j.late = !(s.Now+j.shortest <= j.deadline)
			p.jobs = append(p.jobs, j)
		}
	}
	slices.SortStableFunc(p.jobs, func(a, b costJob) int { return cmp.Compare(a.deadline, b.deadline) })
	return p
}

// byCost returns the types on which a job runs, by cost of its remaining work and then by speed.
func (p *costPlan) byCost(i int) []int {
	j := &p.Jobs[i]
	var types []int
	for d, r := range j.Rate {
		if r > 0 && p.Devices[d].Count >= j.GPUs {
			types = append(types, d)
		}
	}
	slices.SortStableFunc(types, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Devices[a].USDHour/j.Rate[a], p.Devices[b].USDHour/j.Rate[b]), cmp.Compare(j.Rate[b], j.Rate[a]))
	})
	return types
}

// run plans the jobs with deadlines that are to be met, and returns the first that cannot meet its own; −1: all can.
func (p *costPlan) run() int {
	for d := range p.free {
		for g := range p.free[d] {
			p.free[d][g] = p.Now
		}
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		if j.late {
			continue
		}
		if j.device = p.inTime(j, i < p.hurried); j.device < 0 {
			return i
		}
		p.put(j, j.device)
	}
	return -1
}

// inTime returns the cheapest type on which a job completes in time or, with first, the type with the earliest
// completion; −1: none.
func (p *costPlan) inTime(j *costJob, first bool) int {
	best, end := -1, math.Inf(1)
	for _, d := range j.types {
		at := p.starts(j, d) + p.seconds(j, d)
		if at <= j.deadline && at < end {
			best, end = d, at
			if !first {
				break
			}
		}
	}
	return best
}

// seconds returns the remaining run time of a job on a type.
func (p *costPlan) seconds(j *costJob, device int) float64 {
	return p.Jobs[j.index].Remaining / p.Jobs[j.index].Rate[device]
}

// starts returns the time at which enough devices of a type are free.
func (p *costPlan) starts(j *costJob, device int) float64 {
	return p.free[device][p.Jobs[j.index].GPUs-1]
}

// put schedules a job on a type and updates the times at which its devices become free.
func (p *costPlan) put(j *costJob, device int) {
	j.device, j.start = device, p.starts(j, device)
	end := j.start + p.seconds(j, device)
	free := p.free[device]
	gpus := p.Jobs[j.index].GPUs
	at, _ := slices.BinarySearch(free, end)
	at = max(at, gpus)
	copy(free, free[gpus:at])
	for g := at - gpus; g < at; g++ {
		free[g] = end
	}
}

// giveUp abandons the longest job up to one that cannot meet its deadline.
func (p *costPlan) giveUp(last int) {
	longest := last
	for i := range last {
		if j := &p.jobs[i]; !j.late && j.shortest > p.jobs[longest].shortest {
			longest = i
		}
	}
	p.jobs[longest].late, p.jobs[longest].device = true, -1
}

// runLate plans the jobs without deadline and the abandoned jobs on their cheapest types.
func (p *costPlan) runLate() {
	var late []*costJob
	for i := range p.jobs {
		if p.jobs[i].late {
			late = append(late, &p.jobs[i])
		}
	}
	slices.SortStableFunc(late, func(a, b *costJob) int { return cmp.Compare(a.shortest, b.shortest) })
	for _, j := range late {
		p.put(j, j.types[0])
	}
}
