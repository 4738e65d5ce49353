package exact

import (
	"context"
	"errors"
	"math"
	"slices"

	"trainopt/simulator/placement"
	"trainopt/simulator/placement/greedy"
)

// rounded makes a placement of the relaxation: the whole nodes of every pattern, then what is left by the greedy method, then two
// nodes at a time. nil: it keeps no limits.
func (r *relaxation) rounded(ctx context.Context, o placement.Objective, l placement.Limits) (placement.Placement, float64, error) {
	g := r.g
	var list []fixed
	take := func(j int32, x float64) {
		if x = math.Floor(x + 1e-6); x > 0 && r.cols.group[j] >= 0 {
			list = append(list, fixed{j, x})
		}
	}
	r.basis.factor()
	r.basis.solve(nil)
	for i, j := range r.basis.work {
		take(j, r.basis.xw[i])
	}
	for n, j := range r.basis.key {
		take(j, r.basis.xk[n])
	}
	q := *g.p
	q.Existing = g.placement(r.cols, list)
	q.Batch = slices.Clone(g.p.Batch)
	for a := range q.Batch {
		q.Batch[a] = int(g.rhs[a])
		for _, node := range q.Existing {
			q.Batch[a] -= int(node[a])
		}
	}
	s, err := greedy.Place(ctx, &q, o, l, greedy.Settings{InOrder: true})
	if err != nil && !errors.Is(err, placement.ErrInfeasible) {
		return nil, math.Inf(-1), err
	}
	s, err = greedy.Improve(ctx, g.p, o, l, s.Placement)
	if errors.Is(err, placement.ErrInfeasible) {
		return nil, math.Inf(-1), nil
	}
	return s.Placement, s.Value, err
}
