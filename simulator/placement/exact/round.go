package exact

import (
	"context"
	"errors"
	"math"
	"slices"

	"trainopt/simulator/placement"
	"trainopt/simulator/placement/greedy"
)

// rounding makes placements of solutions in parts.
type rounding struct {
	ctx context.Context
	g   *program
	o   placement.Objective
	l   placement.Limits
}

// round takes the whole nodes of every pattern, places what is left by the greedy method and then divides anew the containers of two
// nodes at a time. nil: that does not keep the limits. The value is in the program's scale.
func (r *rounding) round(cols *columns, parts []fixed) (placement.Placement, float64, error) {
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
	if err != nil && !errors.Is(err, placement.ErrInfeasible) {
		return nil, none, err
	}
	s, err = greedy.Improve(r.ctx, r.g.p, r.o, r.l, s.Placement)
	if errors.Is(err, placement.ErrInfeasible) {
		return nil, none, nil
	}
	return s.Placement, s.Value / r.g.scale, err
}
