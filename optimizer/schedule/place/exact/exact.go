// Package exact places containers as well as can be, and proves how far from the best that is.
//
// Nodes that are alike and hold the same are worth the same, so that a placement is how many nodes of each kind get each pattern of
// containers: a configuration (cutting-stock) program, with one row an app, one a limit and one a group of like nodes. Its linear
// relaxation is solved by the simplex method, which prices every pattern of the throughput tables, so that the bound holds for all of
// them; rounding, the greedy method and branch and bound find whole numbers. Where rounding does not keep the limits, one of them at
// a time is made the objective until it is kept. What runs already and does not move, several node types, any mix of objectives and
// any limits are in it.
//
// It places what is there now. It does not look ahead at what comes later: greedy.Stream is for containers that come and go.
//
//	s, err := exact.Solve(ctx, &problem, place.Objective{}, place.Limits{}, exact.Settings{})
//	w, err := problem.Evaluate(s.Placement) // s.Value is its mean RPS, within s.Gap of what any placement can have
package exact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// Settings say how far to go. The zero value takes 3 to 11 ms for what Metis measured on 81 nodes.
type Settings struct {
	// Gap is how far below the bound a placement is good enough, relative to it; 0 is 0.001, negative is none: on to the optimum or
	// the last branch. On 81 nodes 0.0001 takes 5 to 30 times as long and finds 0.002 to 0.04 % more; on 729 nodes it takes as long.
	Gap      float64
	Branches int // of a search; 0 is 2,000, negative is none
	Columns  int // patterns that a search looks at; 0 is 2,000. Those that cannot be part of a better placement do not count
}

func (s Settings) orDefault() Settings {
	if s.Gap == 0 {
		s.Gap = 1e-3
	}
	if s.Branches == 0 {
		s.Branches = 2000
	}
	if s.Columns == 0 {
		s.Columns = 2000
	}
	return s
}

// Solve finds a placement that keeps the limits and proves a bound of the objective: Solution.Bound holds for every placement, to the
// rounding of floating-point numbers, also when the search ends early. The error wraps place.ErrInfeasible when no placement keeps
// the limits, or none was found that does (the message says which), or it is the context's.
//
// Time goes into the relaxation, O(patterns × (apps + limits)) for each look at all patterns and O((apps + limits)³) a step, and into
// branches, each some steps on the columns that still count.
func Solve(ctx context.Context, p *place.Problem, o place.Objective, l place.Limits, set Settings) (place.Solution, error) {
	if err := errors.Join(p.Validate(), o.Validate(), l.Validate()); err != nil {
		return place.Solution{}, err
	}
	return solveUntil(ctx, p, o, l, set.orDefault(), math.Inf(1))
}

// solveUntil is Solve that ends at a placement of a value that is enough.
func solveUntil(ctx context.Context, p *place.Problem, o place.Objective, l place.Limits, set Settings, enough float64) (place.Solution, error) {
	g, err := newProgram(p, o, l)
	if err != nil {
		return place.Solution{}, err
	}
	r := newRelaxation(g)
	if err := r.run(ctx); err != nil {
		return place.Solution{}, err
	}
	round := &rounding{ctx, g, o, l}
	at, value, err := round.round(r.cols, r.basis.parts())
	if err == nil && at == nil {
		at, value, err = round.withoutLimit(set)
	}
	if err != nil {
		return place.Solution{}, err
	}
	s := r.search(set, round, value)
	s.best, s.target = at, (enough-1e-9*math.Abs(enough))/g.scale
	if err := s.run(ctx); err != nil {
		return place.Solution{}, err
	}
	if s.best == nil {
		return place.Solution{}, s.nothing()
	}
	w, err := p.Evaluate(s.best)
	if err != nil {
		return place.Solution{}, fmt.Errorf("exact placement: %w", err)
	}
	sol := place.Solution{Placement: s.best, Value: o.Value(w, p.Nodes())}
	sol.Bound = max(floor(min(max(s.bound(), s.others), r.bound)*g.scale, g.step), sol.Value)
	if sol.Bound-sol.Value <= 1e-12*math.Abs(sol.Bound) {
		sol.Bound = sol.Value
	}
	sol.Gap = gap(sol.Bound, sol.Value)
	sol.Notes = append(sol.Notes, fmt.Sprintf("linear relaxation at most %.9g after %d steps and %d looks at all patterns; %d columns, %d branches",
		r.bound*g.scale, r.pivots, r.looks, s.cols.len(), s.branches))
	return sol, l.Check(w)
}

// nothing is the error of a search that found no placement.
func (s *search) nothing() error {
	if len(s.open) > 0 || !math.IsInf(max(s.left, s.others), -1) {
		return fmt.Errorf("%w: none was found in %d branches, and there may be one", place.ErrInfeasible, s.branches)
	}
	return fmt.Errorf("%w: the search is complete", place.ErrInfeasible)
}

// gap is how far a value is from its bound, relative to the bound.
func gap(bound, value float64) float64 {
	if d := bound - value; d != 0 {
		return d / math.Abs(bound)
	}
	return 0
}

// placement gives patterns to nodes; nodes that get none keep what they have.
func (g *program) placement(cols *columns, list []fixed) place.Placement {
	at := make(place.Placement, g.p.Nodes())
	next := make([]int, len(g.groups))
	slices.SortFunc(list, func(a, b fixed) int { return int(cols.pattern[b.col]) - int(cols.pattern[a.col]) })
	for _, f := range list {
		n := cols.group[f.col]
		gr := &g.groups[n]
		for range int(f.x) {
			at[gr.nodes[next[n]]] = slices.Clone(g.kinds[gr.kind].table.Counts(int(cols.pattern[f.col])))
			next[n]++
		}
	}
	for i := range g.groups {
		gr := &g.groups[i]
		for _, n := range gr.nodes[next[i]:] {
			at[n] = slices.Clone(g.kinds[gr.kind].table.Counts(gr.floor))
		}
	}
	return at
}
