package rounds

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// cheapest runs every job on the type of device where the rest of it costs least, by price and rate, and pays more only as far as
// deadlines ask for it. Dear devices stay idle while nobody needs them. It plans all jobs that are there, each without
// interruption, in the order of deadlines: the cheapest type on which a job ends in time, given those before it. When one cannot
// be in time, it and those before it are planned where they end first instead; if it still cannot, the longest of them is given up, so that as many as can be are in time (Moore, "An n job, one
// machine sequencing algorithm for minimizing the number of late jobs", 1968; with several types of devices that is a heuristic).
// Jobs without a deadline, or given up, follow on their cheapest type, the shortest first. What the plan starts now is decided;
// everybody is planned anew at the next decision.
//
// It knows prices, deadlines and the steps that are left. O(n² · types) for n jobs, times those given up.
type cheapest struct{}

var _ Described = cheapest{}

func newCheapest(PolicyOptions) Policy { return cheapest{} }

// Traits say that devices may stay idle.
func (cheapest) Traits() Traits { return Traits{Name: "Cheapest", FixedOrder: true, OnlyShares: true} }

// Decide plans, and gives devices to those who start now.
func (cheapest) Decide(s *Snapshot) (Allocation, error) {
	for d := range s.Devices {
		if math.IsNaN(s.Devices[d].USDHour) {
			return Allocation{}, fmt.Errorf("the price of device type %s is not known", s.Devices[d].Name)
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
	var now []whole
	for i := range p.jobs {
		if j := &p.jobs[i]; j.device >= 0 && j.start <= s.Now {
			now = append(now, whole{j.index, -1, j.device})
		}
	}
	return wholeShares(s, now), nil
}

// costPlan is when and where jobs are to run.
type costPlan struct {
	*Snapshot
	hurried int         // how many of the first jobs run where they end first
	jobs    []costJob   // by deadline
	free    [][]float64 // by type: when each device becomes free, ascending
}

type costJob struct {
	index    int
	deadline float64
	shortest float64 // seconds, where it is fastest
	types    []int   // on which it runs, the cheapest first
	late     bool
	device   int // −1 not planned
	start    float64
}

func newCostPlan(s *Snapshot) *costPlan {
	p := &costPlan{Snapshot: s, free: make([][]float64, len(s.Devices))}
	for d := range s.Devices {
		p.free[d] = make([]float64, s.Devices[d].Count)
	}
	for i := range s.Jobs {
		if best := s.Jobs[i].best(s); best > 0 {
			j := costJob{index: i, deadline: s.Jobs[i].Deadline, shortest: s.Jobs[i].Remaining / best, device: -1}
			j.types = p.byCost(i)
			j.late = !(s.Now+j.shortest <= j.deadline)
			p.jobs = append(p.jobs, j)
		}
	}
	slices.SortStableFunc(p.jobs, func(a, b costJob) int { return cmp.Compare(a.deadline, b.deadline) })
	return p
}

// byCost are the types on which a job runs, by what the rest of it costs, then by speed.
func (p *costPlan) byCost(i int) []int {
	j := &p.Jobs[i]
	var types []int
	for d, r := range j.Rate {
		if r > 0 && p.Devices[d].Count >= j.GPUs {
			types = append(types, d)
		}
	}
	slices.SortStableFunc(types, func(a, b int) int {
		if c := cmp.Compare(p.Devices[a].USDHour/j.Rate[a], p.Devices[b].USDHour/j.Rate[b]); c != 0 {
			return c
		}
		return cmp.Compare(j.Rate[b], j.Rate[a])
	})
	return types
}

// run plans the jobs that are to be in time, and returns the first that cannot be, −1 when all are.
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

// inTime is the cheapest type, or with first the one where it ends first, on which a job ends in time; −1 none.
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

func (p *costPlan) seconds(j *costJob, device int) float64 {
	return p.Jobs[j.index].Remaining / p.Jobs[j.index].Rate[device]
}

// starts is when enough devices of a type are free.
func (p *costPlan) starts(j *costJob, device int) float64 {
	return p.free[device][p.Jobs[j.index].GPUs-1]
}

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

// giveUp drops the longest of the jobs up to one that cannot be in time.
func (p *costPlan) giveUp(last int) {
	longest := last
	for i := range last {
		if j := &p.jobs[i]; !j.late && j.shortest > p.jobs[longest].shortest {
			longest = i
		}
	}
	p.jobs[longest].late, p.jobs[longest].device = true, -1
}

// runLate plans the jobs that cannot be in time, or need not be, on their cheapest types.
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
