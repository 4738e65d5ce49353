package solve

import (
	"fmt"
	"math"
)

// ECOSMaxMin returns the solution of MaxMin, without floors and with positive weights, at which ECOS terminates,
// the solver used by Gavel's policies (see ecosSolver). Among the many optimal allocations it reproduces that of ECOS
// to about 1e-6. Pairs must be given as a list. The value is optimal to about 1e-8. ErrUnfinished reports that the
// method did not converge, which occasionally happens. A step costs O(n) for three device types without pairs, else
// O(n³ + pairs).
func ECOSMaxMin(s Sharing, weight []float64) (Solution, error) {
	const what = "embedded max-min"
	if err := s.check(what, weight); err != nil {
		return Solution{}, err
	}
	for i := range s.Rate {
		if weight != nil && weight[i] == 0 {
			return Solution{}, fmt.Errorf("%s: weight 0 of job %d, want more", what, i)
		}
	}
	return embed(what, &s, weight, nil)
}

// ECOSDemand is Demand at the point where ECOS terminates for the feasibility problem of giving each job at least
// its demanded throughput. It returns ErrInfeasible when no allocation meets the demands. The value is that of
// Demand.
func ECOSDemand(s Sharing, asked []float64) (Solution, error) {
	const what = "embedded demand"
	if err := s.check(what, asked); err != nil {
		return Solution{}, err
	}
	if len(asked) != len(s.Rate) {
		return Solution{}, fmt.Errorf("%s: %d demands for %d jobs", what, len(asked), len(s.Rate))
	}
	return embed(what, &s, nil, asked)
}

// embed implements both. It builds the program in a pooled solver, runs it, divides the solution by τ and computes
// the value from the resulting shares.
func embed(what string, s *Sharing, weight, floor []float64) (Solution, error) {
	if s.PairRates != nil {
		return Solution{}, fmt.Errorf("%s: pairs by class, want a list", what)
	}
	sol := Solution{X: zeros(len(s.Rate), len(s.Devices)), Pairs: zeros(len(s.Pairs), len(s.Devices))}
	e := ecosSolvers.Get().(*ecosSolver)
	defer ecosSolvers.Put(e)
	e.build(s, weight, floor)
	groupOf, kinds := e.layout.groupOf, e.layout.kinds
	if len(e.groups) == 0 {
		return sol, nil
	}
	switch err := e.run(); err {
	case nil:
	case ErrInfeasible:
		return Solution{}, fmt.Errorf("%s: %w", what, err)
	default:
		return Solution{}, fmt.Errorf("%s: %w", what, ErrUnfinished)
	}
	for i, g := range groupOf {
		if g >= 0 {
			for c, j := range kinds {
				sol.X[i][j] = max(0, e.x[g*len(kinds)+c]/e.tau)
			}
		}
	}
	alone := len(e.groups) * len(kinds)
	for q := range s.Pairs {
		for c, j := range kinds {
			sol.Pairs[q][j] = max(0, e.x[alone+q*len(kinds)+c]/e.tau)
		}
	}
	sol.fitInto(s)
	sol.Value = math.Inf(1)
	for i, v := range sol.done(s) {
		switch {
		case groupOf[i] < 0:
		case weight != nil:
			sol.Value = min(sol.Value, weight[i]*v)
		case floor != nil && floor[i] > 0:
			sol.Value = min(sol.Value, v/floor[i])
		case floor == nil:
			sol.Value = min(sol.Value, v)
		}
	}
	if math.IsInf(sol.Value, 1) {
		sol.Value = 0
	}
	return sol, nil
}
