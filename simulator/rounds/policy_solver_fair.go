package rounds

import (
	"trainopt/optimizer/schedule/solve"
)

// maxMinFairness makes the job that is worst off as well off as can be, as least attained service does over time (Gavel, section
// 4.1): it maximises min_i s_i X_i / (w_i P_i). One program in each decision.
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
