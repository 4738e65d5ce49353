package rounds

import (
	"trainopt/optimizer/schedule/solve"
)

// embedded solves a program as Gavel's solver does, so that of the many shares that are best those are taken that it takes (see
// solve.EmbeddedMaxMin). ok is false where that does not end; then any best shares have to do.
func (g *program) embedded(with func(solve.Sharing) (solve.Solution, error)) (sol solve.Solution, ok bool) {
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

// withIdlePairs are the pairs, and after them those that get nothing done: Gavel's programs have shares for them too, which move
// the middle of what is best.
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
