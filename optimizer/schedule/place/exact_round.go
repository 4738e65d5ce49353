package place

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// rounding converts fractional solutions into placements.
type rounding struct {
	ctx context.Context
	g   *program
	o   Objective
	l   Limits
}

// round rounds the number of nodes of each pattern down, places the remaining containers by the greedy method and
// improves the result pairwise. It returns nil if the result violates the limits. The value is in the scale of the
// program.
func (r *rounding) round(cols *columns, parts []fixed) (Placement, float64, error) {
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
	s, err := Greedy(r.ctx, &q, r.o, r.l, GreedySettings{})
	if err != nil && !errors.Is(err, ErrInfeasible) {
		return nil, none, err
	}
	s, err = Improve(r.ctx, r.g.p, r.o, r.l, s.Placement)
	if errors.Is(err, ErrInfeasible) {
		return nil, none, nil
	}
	return s.Placement, s.Value / r.g.scale, err
}

// withoutLimit finds a placement where rounding violates the limits: it drops one limit and makes the bounded
// quantity the objective until the limit is satisfied, then improves the placement pairwise with the original
// objective. It returns nil if nothing was found. The error wraps place.ErrInfeasible if infeasibility is proven.
func (r *rounding) withoutLimit(set ExactSettings) (Placement, float64, error) {
	none := math.Inf(-1)
	p, l := r.g.p, r.l
	var o Objective
	var enough float64
	switch {
	case l.MaxViolation != nil:
		o.Missed, enough, l.MaxViolation = 1, -*l.MaxViolation, nil
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
		return nil, none, fmt.Errorf("%w: %+v is at most %v without the limit, which is %v", ErrInfeasible, o, s.Bound, enough)
	}
	if err == nil {
		s, err = Improve(r.ctx, p, r.o, r.l, s.Placement)
	}
	if errors.Is(err, ErrInfeasible) {
		return nil, none, nil
	}
	return s.Placement, s.Value / r.g.scale, err
}
