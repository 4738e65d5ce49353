package rounds

import (
	"trainopt/optimizer/schedule/solve"
)

// maxMinFairness maximizes the throughput of the job that is worst off, the time-shared form of least attained
// service (Gavel, section 4.1): it maximizes min_i s_i X_i / (w_i P_i). One program per decision.
type maxMinFairness struct{ solver }

var _ Described = maxMinFairness{}

func newMaxMinFairness(sees sight) func(PolicyOptions) Policy {
	return func(o PolicyOptions) Policy { return maxMinFairness{solver{"MaxMinFairness", sees, o.Compat}} }
}

// Decide solves the program.
func (p maxMinFairness) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil {
		return Allocation{}, err
	}
	if p.compat {
		if sol, ok := g.embedded(func(s solve.Sharing) (solve.Solution, error) { return solve.EmbeddedMaxMin(s, weight) }); ok {
			return g.allocation(sol), nil
		}
	}
	sol, err := p.spread(g, weight)
	return g.allocation(sol), err
}
