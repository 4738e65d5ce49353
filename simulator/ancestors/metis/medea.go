package metis

// Medea places containers with minimal violation of affinity constraints: the integer program of Medea
// (Garefalakis et al., EuroSys 2018) as formulated by Metis for its comparison (Wang et al., SC 2020), solved to
// optimality.
//
// The program ignores throughput: many placements have the minimal violation, and their throughputs vary widely. A
// comparison with Medea must therefore state which one it used (Tie). To optimise throughput itself, see package
// exact.
//
// The published program has a variable per container and node, and one per constraint, container and node: 100,000
// rows for 200 containers on 81 nodes, for which MATLAB takes 65 minutes (median), and more than 10 hours on 729
// nodes. Since the containers of an app are identical, the violation on a node depends only on its pattern, and
// choosing the number of nodes per pattern is an equivalent program of eight rows.
//
//	solution, report, err := placeByMedea(ctx, problem, medeaOptions{Tie: bestRPS})

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// medeaTie selects among the placements of minimal violation.
type medeaTie int

const (
	anyOptimum medeaTie = iota // the first found by the search; deterministic
	bestRPS                    // one of the highest mean throughput found; Solution.Gap bounds its distance from the highest
	worstRPS                   // one of the lowest, likewise
)

// medeaOptions are the settings; the zero value returns any optimum.
type medeaOptions struct {
	Tie medeaTie
	// Throughput are the settings of the search for bestRPS and WorstRPS. A Gap of 0 means the exact optimum.
	Throughput place.ExactSettings
}

// medeaReport holds the metrics of Medea and of Metis's comparison with it.
type medeaReport struct {
	// Magnitude is the objective, the weighted sum of violations.
	Magnitude float64
	// Least is a lower bound on Magnitude of all placements; it equals Magnitude if the search completed.
	Least float64
	// Slacks is the number of slack variables of the published program, one per (constraint, container of its app,
	// node): 468 for the paper's example of six nodes.
	Slacks int
}

// placeByMedea solves the program. Value, Bound and Gap of the solution refer to −Magnitude with Any, to the mean throughput
// among placements of minimal violation with bestRPS, and to its negative with WorstRPS. The error wraps
// place.ErrInfeasible if the batch does not fit, or is the context's.
func placeByMedea(ctx context.Context, p *place.Problem, o medeaOptions) (*place.Solution, medeaReport, error) {
	o.Throughput.Gap = cmp.Or(o.Throughput.Gap, -1)
	s, err := place.Exact(ctx, p, place.Objective{Missed: 1}, place.Limits{}, place.ExactSettings{Gap: -1})
	if err != nil {
		return nil, medeaReport{}, fmt.Errorf("medea: %w", err)
	}
	r, err := report(p, s)
	if err != nil {
		return nil, medeaReport{}, err
	}
	if r.Least = max(0, -s.Bound); r.Magnitude-r.Least <= 1e-9*r.Magnitude {
		r.Least = r.Magnitude // equal up to rounding
	}
	if o.Tie == anyOptimum {
		return &s, r, nil
	}
	tied, err := settle(ctx, p, s, r.Magnitude, o)
	if err != nil {
		return nil, medeaReport{}, fmt.Errorf("medea: among placements that miss %v: %w", r.Magnitude, err)
	}
	least := r.Least
	r, err = report(p, tied)
	r.Least = least
	return &tied, r, err
}

// settle finds a placement with the violation of s, at most missed, and the highest or lowest throughput.
func settle(ctx context.Context, p *place.Problem, s place.Solution, missed float64, o medeaOptions) (place.Solution, error) {
	objective, limits := place.Objective{RPS: 1}, place.Limits{MaxViolation: &missed}
	if o.Tie == worstRPS {
		objective.RPS = -1
	}
	tied, err := place.Exact(ctx, p, objective, limits, o.Throughput)
	if errors.Is(err, place.ErrInfeasible) { // the search stopped before it reached the minimal violation
		tied, err = place.Improve(ctx, p, objective, limits, s.Placement)
	}
	tied.Notes = append(slices.Clone(s.Notes), tied.Notes...)
	return tied, err
}

// report computes the metrics of a placement.
func report(p *place.Problem, s place.Solution) (medeaReport, error) {
	w, err := p.Evaluate(s.Placement)
	if err != nil {
		return medeaReport{}, fmt.Errorf("medea: %w", err)
	}
	containers := make([]int, p.Apps())
	for _, counts := range s.Placement {
		for a, k := range counts {
			containers[a] += int(k)
		}
	}
	r := medeaReport{Magnitude: w.Magnitude}
	for _, c := range p.Constraints {
		r.Slacks += containers[c.App] * p.Nodes()
	}
	return r, nil
}
