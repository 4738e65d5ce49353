package rounds

import (
	"errors"
	"math"

	"trainopt/simulator/solve"
	"trainopt/simulator/workload"
)

// waterFilling is max-min fairness that goes on above the worst: jobs that cannot get more keep what they have, the others rise
// (Gavel, section 4.3 "Weighted fairness"). One program for each step.
type waterFilling struct{ solver }

var _ Described = waterFilling{}

func newWaterFilling(sees sight) func(PolicyOptions) Policy {
	return func(o PolicyOptions) Policy {
		return waterFilling{solver{"MaxMinFairnessWaterFilling", sees, o.Compat}}
	}
}

// Decide solves the programs.
func (p waterFilling) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return Allocation{}, err
	}
	if best, ok := p.allBest(g); ok {
		return g.allocation(best), nil
	}
	f := newFilling(g, weight)
	for i := range f.lowest {
		if w, _ := priority(g.job(i).Job); p.compat {
			f.lowest[i] = 0.1 * g.Scale[i] / w
		}
	}
	sol, err := f.run(evenParts)
	return g.allocation(sol), err
}

// evenParts raise all jobs that are not full alike.
func evenParts(full []bool) []float64 {
	part := make([]float64, len(full))
	for i := range part {
		if !full[i] {
			part[i] = 1
		}
	}
	return part
}

// Hierarchy is a cluster that is divided among entities, such as the teams of a company, and what an entity gets among its jobs
// (Gavel, section 4.3 "Hierarchical scheduling policies").
type Hierarchy struct {
	// Of names the entity of a job; nil is its Queue, or its User where it has none.
	Of func(*workload.Job) string
	// Weight is that of an entity; those that are not there have 1.
	Weight map[string]float64
	// FIFO are the entities that give all they have to the first of their jobs that can use it. The others divide by the weights
	// of jobs.
	FIFO map[string]bool
	// AllFIFO: all entities are like that.
	AllFIFO bool
}

// hierarchical fills like waterFilling, with weights that change: what jobs that are full can no longer use goes to their own
// entity first.
type hierarchical struct {
	solver
	Hierarchy
}

var _ Described = hierarchical{}

// NewHierarchical is a policy for Config.Custom that sees how fast jobs are on each device type.
func NewHierarchical(h Hierarchy) Policy {
	return hierarchical{solver{"Hierarchical", measured, false}, h}
}

func newHierarchical(sees sight, fifo bool) func(PolicyOptions) Policy {
	return func(PolicyOptions) Policy {
		return hierarchical{solver{"Hierarchical", sees, false}, Hierarchy{AllFIFO: fifo}}
	}
}

// Decide fills until no job can get more: at most as many steps as there are jobs.
func (p hierarchical) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return Allocation{}, err
	}
	entity := make([]string, len(g.jobs))
	for i := range entity {
		j := g.job(i).Job
		w, _ := priority(j)
		weight[i] *= w
		entity[i] = p.of(j)
	}
	f := newFilling(g, weight)
	sol, err := f.run(func(full []bool) []float64 { return p.parts(g, entity, full) })
	return g.allocation(sol), err
}

func (p hierarchical) of(j *workload.Job) string {
	switch {
	case p.Of != nil:
		return p.Of(j)
	case j.Queue != "":
		return j.Queue
	}
	return j.User
}

// parts are the weights of jobs that are not full: those of their entities, divided.
func (p hierarchical) parts(g *program, entity []string, full []bool) []float64 {
	sum := map[string]float64{}
	out := make([]float64, len(entity))
	for i, e := range entity {
		if full[i] || sum[e] > 0 && (p.AllFIFO || p.FIFO[e]) {
			continue
		}
		out[i], _ = priority(g.job(i).Job)
		sum[e] += out[i]
	}
	for i, e := range entity {
		if out[i] > 0 {
			w, named := p.Weight[e]
			if !named {
				w = 1
			}
			out[i] *= w / sum[e]
		}
	}
	return out
}

// filling raises all jobs that are not full, each in proportion to its part, as far as all can go; then finds out who is full.
type filling struct {
	g      *program
	weight []float64 // what a rate is multiplied by before it is compared
	level  []float64 // rate of each job so far, times weight
	full   []bool
	// Gavel's test of who is full has no answer when someone who is full is below lowest, and is then taken to say that all are.
	lowest []float64
}

// fullAt is the relative distance to its level at which a job is full. In the analytic centre of a polytope no slack is smaller
// than the largest it can have by more than the number of rows, so that who could rise by 1e-4 is seen among hundreds of jobs.
const fullAt = 1e-6

func newFilling(g *program, weight []float64) *filling {
	n := len(g.jobs)
	return &filling{g: g, weight: weight, level: make([]float64, n), full: make([]bool, n), lowest: make([]float64, n)}
}

// run ends when all are full, after at most as many steps as there are jobs. parts tells how fast each job rises that is not
// full; 0 is not at all. Where there is so little room that a program cannot be solved, nobody rises.
func (f *filling) run(parts func(full []bool) []float64) (best solve.Solution, err error) {
	for more := true; more; {
		part := parts(f.full)
		sol, err := f.rise(part)
		switch {
		case err == nil:
			best = sol
			more = f.findFull(part, f.g.done(sol))
		case errors.Is(err, solve.ErrUnfinished) && best.X != nil:
			more = f.markFull(part)
		default:
			return best, err
		}
	}
	return best, nil
}

// rise raises those that have a part, as far as all of them can go. The shares are in the middle of all that are as good.
func (f *filling) rise(part []float64) (sol solve.Solution, err error) {
	floor := make([]float64, len(part))
	for i, v := range part {
		if v == 0 {
			floor[i] = f.level[i] / f.weight[i]
		}
	}
	by, err := threshold(bounds{0, math.Inf(1)}, 1, func(by float64) (probe, error) {
		sol, err = above(floor, func(floor []float64) (solve.Solution, error) {
			return solve.Central(f.g.Sharing, f.raised(part, by), floor)
		})
		at := bounds{math.Inf(1), 0}
		for i, v := range part {
			if v > 0 {
				// Where a job has factor times what is asked, it has risen by so much.
				risen := sol.Value*by + (sol.Value-1)*f.level[i]/v
				at = bounds{min(at.lo, risen), max(at.hi, risen)}
			}
		}
		return probe{sol.Value, at}, err
	})
	if err != nil {
		return sol, err
	}
	rate := f.g.done(sol)
	for i, v := range part {
		f.level[i] = min(f.level[i]+by*v, f.weight[i]*rate[i]*(1+margins[0]))
	}
	return sol, nil
}

// raised are the inverse rates of those that have a part, when they have risen by so much; of the others, 0.
func (f *filling) raised(part []float64, by float64) []float64 {
	out := make([]float64, len(part))
	for i, v := range part {
		if v > 0 {
			out[i] = f.weight[i] / (f.level[i] + by*v)
		}
	}
	return out
}

// findFull marks those that have no more than their level in the middle of all shares that are as good, and says whether any
// job is left that is not marked.
func (f *filling) findFull(part, rate []float64) (more bool) {
	least, blind := math.Inf(1), false
	over := func(i int) float64 { return f.weight[i] * rate[i] / f.level[i] }
	for i, v := range part {
		if v > 0 {
			least = min(least, over(i))
		}
	}
	stuck := make([]float64, len(part))
	for i, v := range part {
		if v > 0 && over(i) <= max(1+fullAt, least) {
			stuck[i] = v
			blind = blind || f.level[i] < f.lowest[i]
		}
	}
	if blind {
		stuck = part
	}
	return f.markFull(stuck)
}

// markFull marks those that have a part, and says whether any job is left that is not marked.
func (f *filling) markFull(part []float64) (more bool) {
	for i, v := range part {
		f.full[i] = f.full[i] || v > 0
		more = more || !f.full[i]
	}
	return more
}
