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

// fewPairs is the number of pairs up to which equal jobs are not grouped at first: rounding decides between them in the
// original, and job by job it more often decides the same here (the end of 57 instead of 34 of 100 jobs in the packed case
// of TestMeanTimesAreThoseOfTheOriginal). Of larger programs rounding leaves half unsolved that way.
const fewPairs = 100

// embed implements both. It builds the program in a pooled solver, runs it, divides the solution by τ and computes
// the value from the resulting shares.
func embed(what string, s *Sharing, weight, floor []float64) (Solution, error) {
	sol := Solution{X: zeros(len(s.Rate), len(s.Devices)), Pairs: zeros(len(s.Pairs), len(s.Devices))}
	e := ecosSolvers.Get().(*ecosSolver)
	defer ecosSolvers.Put(e)
	e.single = len(s.Pairs) > 0 && len(s.Pairs) <= fewPairs
	err := e.solveSharing(s, weight, floor)
	if e.single && err == errECOS {
		e.single = false
		err = e.solveSharing(s, weight, floor)
	}
	switch {
	case err == errECOS:
		return Solution{}, fmt.Errorf("%s: %w", what, ErrUnfinished)
	case err != nil:
		return Solution{}, fmt.Errorf("%s: %w", what, err)
	case len(e.groups) == 0:
		return sol, nil
	}
	groupOf, kinds := e.layout.groupOf, e.layout.kinds
	for i, g := range groupOf {
		if g >= 0 {
			for c, j := range kinds {
				sol.X[i][j] = max(0, e.x[g*len(kinds)+c]/e.tau)
			}
		}
	}
	for q, at := range e.beside {
		for c, j := range kinds {
			sol.Pairs[q][j] = max(0, e.x[at+c]/e.tau)
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
