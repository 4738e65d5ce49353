package rounds

import (
	"errors"
	"math"
	"slices"

	"trainopt/optimizer/schedule/solve"
	"trainopt/simulator/workload"
)

// waterFilling is max-min fairness that goes on above the worst: jobs that cannot get more keep what they have, the others rise
// (Gavel, section 4.3 "Weighted fairness"). Its cost is that of solve.WaterFill; with compat one program for each step.
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
	var sol solve.Solution
	if p.compat {
		sol, err = g.fillAsGavel(weight)
	} else {
		sol, err = p.filled(g, weight)(solve.WaterFill(g.Sharing, weight))
	}
	return g.allocation(sol), err
}

// filled takes, where rounding has kept filling from its end, shares that are only best for the worst job.
func (p solver) filled(g *program, weight []float64) func(solve.Solution, error) (solve.Solution, error) {
	return func(sol solve.Solution, err error) (solve.Solution, error) {
		if errors.Is(err, solve.ErrUnfinished) && sol.X == nil {
			return p.spread(g, weight)
		}
		return usable(sol, err)
	}
}

// fullAt is the relative distance to its level at which a job is full. In the analytic centre of a polytope no slack is smaller
// than the largest it can have by more than the number of rows, so that who could rise by 1e-4 is seen among hundreds of jobs.
const fullAt = 1e-6

// fillAsGavel raises jobs in the steps of Gavel: all that are not full rise as far as they can, and those that cannot get more in
// any shares that are as good are full. Gavel's test for that has no answer when a job is full whose share of proportional
// rates is below 0.1, and is then taken to say that all are. The shares of the last step stand, in the middle of all that
// are as good.
func (g *program) fillAsGavel(weight []float64) (best solve.Solution, err error) {
	rising := slices.Clone(weight)
	floor := make([]float64, len(weight))
	for left := len(weight); left > 0; {
		sol, err := g.above(floor, func(s solve.Sharing, floor []float64) (solve.Solution, error) {
			return solve.Central(s, rising, floor)
		})
		switch {
		case err != nil && best.X != nil:
			return best, nil
		case err != nil:
			return best, err
		}
		best = sol
		var full []int
		rate, least := g.done(sol), math.Inf(1)
		for i, w := range rising {
			if w > 0 {
				least = min(least, w*rate[i])
			}
		}
		for i, w := range rising {
			if w > 0 && w*rate[i] <= least*(1+fullAt) {
				w, _ := priority(g.job(i).Job)
				if least < 0.1*g.Scale[i]/w {
					return best, nil
				}
				full = append(full, i)
			}
		}
		for _, i := range full {
			floor[i], rising[i] = rate[i], 0
		}
		left -= len(full)
	}
	return best, nil
}

// Hierarchy is a cluster that is divided among entities, such as the teams of a company, and what an entity gets among its jobs
// (Gavel, section 4.3 "Hierarchical scheduling policies").
type Hierarchy struct {
	// Of names the entity of a job; nil is its Queue, or its User where it has none.
	Of func(*workload.Job) string
	// Weight is that of an entity, above 0; those that are not there have 1.
	Weight map[string]float64
	// FIFO are the entities that give all they have to the first of their jobs that can use it. The others divide by the weights
	// of jobs.
	FIFO map[string]bool
	// AllFIFO: all entities are like that.
	AllFIFO bool
}

// hierarchical fills like waterFilling, by entities: what jobs that are full can no longer use goes to their own entity first.
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

// Decide fills until no job can get more.
func (p hierarchical) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return Allocation{}, err
	}
	if best, ok := p.allBest(g); ok {
		return g.allocation(best), nil
	}
	number := map[string]int{}
	var entities []solve.Entity
	for i := range g.jobs {
		j := g.job(i).Job
		name := p.of(j)
		k, ok := number[name]
		if !ok {
			k = len(entities)
			number[name] = k
			entities = append(entities, p.entity(name))
		}
		w, _ := priority(j)
		weight[i] *= w // it counts inside the entity
		e := &entities[k]
		e.Jobs, e.Part = append(e.Jobs, i), append(e.Part, w)
	}
	sol, err := p.filled(g, weight)(solve.WaterFillEntities(g.Sharing, weight, entities))
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

func (p hierarchical) entity(name string) solve.Entity {
	w, named := p.Weight[name]
	if !named {
		w = 1
	}
	return solve.Entity{Weight: w, FIFO: p.AllFIFO || p.FIFO[name]}
}
