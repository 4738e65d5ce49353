// Package medea places containers so that wishes about neighbours are missed as little as can be: the integer program of Medea
// (Garefalakis et al., EuroSys 2018) as Metis wrote it down to compare with (Wang et al., SC 2020), solved to the optimum.
//
// It looks at no throughput: many placements miss as little, and their throughput is anywhere in a range (Tie), so that a comparison
// with Medea must say which it took. For throughput itself see package exact.
//
// The published program has a variable for every container on every node, and one for every wish of every container on every node:
// 100,000 rows for 200 containers on 81 nodes, of which MATLAB takes 65 minutes (median), and more than 10 hours on 729 nodes.
// Containers of an app are alike, so what is missed on a node depends on its pattern alone, and how many nodes get each pattern is
// the same program in eight rows.
//
//	solution, report, err := medea.Place(ctx, problem, medea.Options{Tie: medea.BestRPS})
package medea

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"trainopt/optimizer/schedule/place"
	"trainopt/optimizer/schedule/place/exact"
	"trainopt/optimizer/schedule/place/greedy"
)

// Tie says which of the placements that miss as little is taken.
type Tie int

const (
	Any      Tie = iota // the one that the search meets first; the same every time
	BestRPS             // one with the highest mean throughput that was found; Solution.Gap says how far that may be from the highest
	WorstRPS            // one with the lowest
)

// Options say how; the zero value takes any optimum.
type Options struct {
	Tie Tie
	// Missed is how far the search for the least that is missed goes. Its Gap 0 is none here: the optimum.
	Missed exact.Settings
	// Throughput is how far the search for BestRPS and WorstRPS goes. Its Gap 0 is none, too.
	Throughput exact.Settings
}

// Report is what Medea and its comparison count.
type Report struct {
	// Magnitude is the objective of the program, by how much wishes are missed in all, weighted; Instances the number of (wish,
	// container) that are missed.
	Magnitude float64
	Instances int
	// Least is what no placement can miss less than; it is Magnitude when the search got to its end.
	Least float64
	// Slacks is the number of variables for what is missed in the published program, (wish, container of its app, node): 468 for the
	// paper's example of six nodes. Ratio is Magnitude / Slacks, 0 when there are none.
	Slacks int
	Ratio  float64
}

// Place solves the program. Value, Bound and Gap of the solution are of −Magnitude, for BestRPS of the mean throughput among
// placements that miss as little, and for WorstRPS of its negative. The error wraps place.ErrInfeasible when the batch fits
// nowhere, or is the context's.
func Place(ctx context.Context, p *place.Problem, o Options) (*place.Solution, Report, error) {
	if o.Missed.Gap == 0 {
		o.Missed.Gap = -1
	}
	if o.Throughput.Gap == 0 {
		o.Throughput.Gap = -1
	}
	s, err := exact.Solve(ctx, p, place.Objective{Missed: 1}, place.Limits{}, o.Missed)
	if err != nil {
		return nil, Report{}, fmt.Errorf("medea: %w", err)
	}
	r, err := report(p, s)
	if err != nil {
		return nil, Report{}, err
	}
	if r.Least = max(0, -s.Bound); r.Magnitude-r.Least <= 1e-9*r.Magnitude {
		r.Least = r.Magnitude // but for rounding
	}
	if o.Tie == Any {
		return &s, r, nil
	}
	tied, err := settle(ctx, p, s, r.Magnitude, o)
	if err != nil {
		return nil, Report{}, fmt.Errorf("medea: among placements that miss %v: %w", r.Magnitude, err)
	}
	least := r.Least
	r, err = report(p, tied)
	r.Least = least
	return &tied, r, err
}

// settle finds a placement that misses as little as one that is there, with the highest or lowest throughput.
func settle(ctx context.Context, p *place.Problem, s place.Solution, missed float64, o Options) (place.Solution, error) {
	objective, limits := place.Objective{RPS: 1}, place.Limits{Missed: &missed}
	if o.Tie == WorstRPS {
		objective.RPS = -1
	}
	tied, err := exact.Solve(ctx, p, objective, limits, o.Throughput)
	if errors.Is(err, place.ErrInfeasible) { // it went less far than the search for what can be missed at least
		tied, err = greedy.Improve(ctx, p, objective, limits, s.Placement)
	}
	tied.Notes = append(slices.Clone(s.Notes), tied.Notes...)
	return tied, err
}

// report counts what a placement misses.
func report(p *place.Problem, s place.Solution) (Report, error) {
	w, err := p.Evaluate(s.Placement)
	if err != nil {
		return Report{}, fmt.Errorf("medea: %w", err)
	}
	containers := make([]int, p.Apps())
	for _, counts := range s.Placement {
		for a, k := range counts {
			containers[a] += int(k)
		}
	}
	r := Report{Magnitude: w.Magnitude, Instances: w.Instances}
	for _, c := range p.Constraints {
		r.Slacks += containers[c.App] * p.Nodes()
	}
	if r.Slacks > 0 {
		r.Ratio = r.Magnitude / float64(r.Slacks)
	}
	return r, nil
}
