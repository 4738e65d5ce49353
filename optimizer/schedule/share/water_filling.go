package share

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// waterFilling extends max-min fairness beyond the worst job: jobs that cannot improve keep their level while the
// others rise (Gavel, section 4.3 "Weighted fairness"). Its cost is that of solve.WaterFill; in compat mode, one
// program per step.
type waterFilling struct{ solver }

func newWaterFilling(view throughputView) func(Options) schedule.Policy {
	return func(o Options) schedule.Policy {
		return waterFilling{solver{"MaxMinFairnessWaterFilling", view, o.Compat}}
	}
}

// Decide solves the programs.
func (p waterFilling) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return schedule.Allocation{}, err
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

// filled falls back to max-min shares if rounding prevented water filling from completing.
func (p solver) filled(g *program, weight []float64) func(solve.Solution, error) (solve.Solution, error) {
	return func(sol solve.Solution, err error) (solve.Solution, error) {
		if errors.Is(err, solve.ErrUnfinished) && sol.X == nil {
			return p.spread(g, weight)
		}
		return usable(sol, err)
	}
}

// fullAt is the relative distance from its level at which a job is full. At the analytic centre of a polytope, each
// slack is at least its maximum divided by the number of rows, so a job that could rise by 1e-4 is recognized among
// hundreds of jobs.
const fullAt = 1e-6

// fillAsGavel raises the levels in the steps of Gavel: all jobs that are not full rise as far as possible, and those
// that cannot exceed their level in any optimal solution become full. Gavel's test for this has no answer when a full
// job has less than 0.1 of its proportional throughput, which is then interpreted as all jobs being full. The result
// is the solution of the last step, at the centre of its optimal face.
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

// hierarchical divides a cluster equally among entities, such as the teams of a company, and each part among the entity's
// jobs (Gavel, section 4.3 "Hierarchical scheduling policies"). It is water filling by entities: what full jobs cannot use
// goes to their own entity first.
type hierarchical struct {
	solver
	fifo bool // an entity's part goes to the first of its jobs that can use it, not to all by their weights
}

func newHierarchical(view throughputView, fifo bool) func(Options) schedule.Policy {
	return func(Options) schedule.Policy {
		return hierarchical{solver{"Hierarchical", view, false}, fifo}
	}
}

// Decide fills until no job can rise.
func (p hierarchical) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return schedule.Allocation{}, err
	}
	if best, ok := p.allBest(g); ok {
		return g.allocation(best), nil
	}
	// Entities in order of their first job.
	number := map[string]int{}
	var entities []solve.Entity
	for i := range g.jobs {
		j := g.job(i).Job
		name := cmp.Or(j.Queue, j.User)
		k, ok := number[name]
		if !ok {
			k = len(entities)
			number[name] = k
			entities = append(entities, solve.Entity{Weight: 1, FIFO: p.fifo})
		}
		w, _ := priority(j)
		weight[i] *= w // counts within the entity
		e := &entities[k]
		e.Jobs, e.Part = append(e.Jobs, i), append(e.Part, w)
	}
	sol, err := p.filled(g, weight)(solve.WaterFillEntities(g.Sharing, weight, entities))
	return g.allocation(sol), err
}
