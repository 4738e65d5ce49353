package share

import (
	"math"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// maxMinFairness maximizes the throughput of the job that is worst off, the time-shared form of least attained
// service (Gavel, section 4.1): it maximizes min_i s_i X_i / (w_i P_i). One program per decision.
type maxMinFairness struct {
	solver
	loss *float64 // of the last decision, see MaxLoss
}

func newMaxMinFairness(view throughputView) func(Options) schedule.Policy {
	return func(o Options) schedule.Policy {
		return maxMinFairness{solver{"MaxMinFairness", view, o.Compat}, new(float64)}
	}
}

// MaxLoss implements schedule.Certified. Where the original's solver is followed, it is unknown.
func (p maxMinFairness) MaxLoss() float64 { return *p.loss }

// Decide solves the program.
func (p maxMinFairness) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil {
		return schedule.Allocation{}, err
	}
	if p.compat {
		if sol, ok := g.ecos(func(s solve.Sharing) (solve.Solution, error) { return solve.ECOSMaxMin(s, weight) }); ok {
			*p.loss = math.NaN()
			return g.allocation(sol), nil
		}
	}
	sol, err := p.spread(g, weight)
	*p.loss = sol.Gap
	return g.allocation(sol), err
}
