package share

import (
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// minTotalDuration minimizes the completion time of all active jobs (makespan; Gavel, section 4.2): the smallest T
// for which X_i ≥ R_i / T is feasible. One program per decision. In compat mode T is only found to 5 %, as by Gavel's
// bisection.
type minTotalDuration struct{ solver }

func newMinTotalDuration(view throughputView) func(Options) schedule.Policy {
	return func(o Options) schedule.Policy { return minTotalDuration{solver{"MinTotalDuration", view, o.Compat}} }
}

// packedReplanInterval is the time in seconds for which shares with pairs are kept after completions: the makespan hardly changes,
// and programs with pairs of many jobs are expensive.
const packedReplanInterval = 1920

// Traits returns those of Gavel; with pairs, decisions are kept for a while (MinReplanInterval).
func (p minTotalDuration) Traits() schedule.Traits {
	t := p.solver.Traits()
	if p.view == packedView {
		t.MinReplanInterval = packedReplanInterval
	}
	return t
}

// Decide solves the program.
func (p minTotalDuration) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	if len(g.jobs) == 0 {
		return schedule.Allocation{}, nil
	}
	weight := make([]float64, len(g.jobs))
	for i := range weight {
		weight[i] = 1 / g.job(i).Remaining
	}
	if !p.compat {
		sol, err := p.spread(g, weight)
		return g.allocation(sol), err
	}
	// As in Gavel: bisect T, then solve the feasibility problem at T.
	best, err := g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.MaxMin(s, weight, nil) })
	if err != nil {
		return schedule.Allocation{}, err
	}
	T := bisectSeconds(1 / best.Value)
	demand := weight
	for i := range demand {
		demand[i] = g.job(i).Remaining / T
	}
	if sol, ok := g.ecos(func(s solve.Sharing) (solve.Solution, error) { return solve.ECOSDemand(s, demand) }); ok {
		return g.allocation(sol), nil
	}
	sol, err := g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.Demand(s, demand) })
	return g.allocation(sol), err
}

// bisectSeconds returns the result of Gavel's bisection for the smallest feasible time when all times from least on
// are feasible.
func bisectSeconds(least float64) float64 {
	lo, hi := 100.0, 1e6
	for {
		last, found := hi, false
		for 1.05*lo < hi {
			if T := (lo + hi) / 2; T >= least {
				hi, found = T, true
			} else {
				lo = T
			}
		}
		if found {
			return hi
		}
		lo, hi = last, 10*last
	}
}
