package exact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/place"
	"trainopt/optimizer/schedule/place/greedy"
)

// rounding makes placements of solutions in parts.
type rounding struct {
	ctx context.Context
	g   *program
	o   place.Objective
	l   place.Limits
}

// round takes the whole nodes of every pattern, places what is left by the greedy method and then divides anew the containers of two
// nodes at a time. nil: that does not keep the limits. The value is in the program's scale.
func (r *rounding) round(cols *columns, parts []fixed) (place.Placement, float64, error) {
	none := math.Inf(-1)
	var list []fixed
	for _, f := range parts {
		if f.x = math.Floor(f.x + 1e-6); f.x > 0 && cols.group[f.col] >= 0 {
			list = append(list, f)
		}
	}
	q := *r.g.p
	q.Existing = r.g.placement(cols, list)
	q.Batch = slices.Clone(q.Batch)
	for a := range q.Batch {
		q.Batch[a] = int(r.g.rhs[a])
		for _, node := range q.Existing {
			q.Batch[a] -= int(node[a])
		}
	}
	s, err := greedy.Place(r.ctx, &q, r.o, r.l, greedy.Settings{})
	if err != nil && !errors.Is(err, place.ErrInfeasible) {
		return nil, none, err
	}
	s, err = greedy.Improve(r.ctx, r.g.p, r.o, r.l, s.Placement)
	if errors.Is(err, place.ErrInfeasible) {
		return nil, none, nil
	}
	return s.Placement, s.Value / r.g.scale, err
}

// withoutLimit finds a placement where rounding keeps no limits: one limit is left out, and what it bounds is the objective, until the
// bound is kept; then the containers of two nodes at a time are divided anew by the objective that was asked for. nil: nothing was
// found. The error wraps place.ErrInfeasible when that is proven infeasible.
func (r *rounding) withoutLimit(set Settings) (place.Placement, float64, error) {
	none := math.Inf(-1)
	p, l := r.g.p, r.l
	var o place.Objective
	var enough float64
	switch {
	case l.Missed != nil:
		o.Missed, enough, l.Missed = 1, -*l.Missed, nil
	case l.SLOShare > 0:
		o.SLO, enough, l.SLOShare = 1, l.SLOShare, 0
	case l.Cost > 0:
		o.Cost, enough, l.Cost = 1, -l.Cost, 0
	case l.Nodes > 0:
		o.Vacant, enough, l.Nodes = 1, 1-float64(l.Nodes)/float64(p.Nodes()), 0
	default:
		return nil, none, nil
	}
	set.Gap = -1
	s, err := solveUntil(r.ctx, p, o, l, set, enough)
	if err == nil && s.Bound < enough-1e-6*max(1, math.Abs(enough)) {
		return nil, none, fmt.Errorf("%w: %+v is at most %v without the limit, which is %v", place.ErrInfeasible, o, s.Bound, enough)
	}
	if err == nil {
		s, err = greedy.Improve(r.ctx, p, r.o, r.l, s.Placement)
	}
	if errors.Is(err, place.ErrInfeasible) {
		return nil, none, nil
	}
	return s.Placement, s.Value / r.g.scale, err
}
