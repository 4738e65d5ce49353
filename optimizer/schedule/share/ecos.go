package share

import "trainopt/optimizer/schedule/solve"

// ecos solves a program like Gavel's solver, which selects the same solution among the many optimal ones (see
// solve.ECOSMaxMin). ok is false if the method does not converge; callers then use any optimal solution.
func (g *program) ecos(with func(solve.Sharing) (solve.Solution, error)) (sol solve.Solution, ok bool) {
	if len(g.jobs) == 0 {
		return sol, true
	}
	all := g.Sharing
	if g.snapshot.Pair != nil && len(g.Pairs) > 0 {
		all.Pairs = g.withIdlePairs()
	}
	sol, err := with(all)
	if err != nil {
		return sol, false
	}
	sol.Pairs = sol.Pairs[:len(g.Pairs)]
	return sol, true
}

// withIdlePairs returns the pairs, followed by those without throughput. Gavel's programs contain shares for the
// latter as well, which affect the centre of the optimal face.
func (g *program) withIdlePairs() []solve.Pair {
	known := make(map[[2]int]bool, len(g.Pairs))
	for i := range g.Pairs {
		known[[2]int{g.Pairs[i].A, g.Pairs[i].B}] = true
	}
	pairs := append([]solve.Pair(nil), g.Pairs...)
	nothing := make([]float64, len(g.Devices))
	for b := range g.jobs {
		for a := range b {
			if g.Scale[a] == g.Scale[b] && !known[[2]int{a, b}] {
				pairs = append(pairs, solve.Pair{A: a, B: b, RateA: nothing, RateB: nothing})
			}
		}
	}
	return pairs
}
