package pareto

import (
	"cmp"
	"slices"
)

// Front returns the indices of the non-dominated points, ascending. Of equal points only the first is included. It
// returns nil if there are no points, or all are rejected. O(n log n) with up to three objectives (Kung, Luccio,
// Preparata 1975), else pairwise against the front: O(n·f·m) for f points on it.
func Front(points [][]float64) []int {
	if len(points) == 0 {
		return nil
	}
	wantLength(points, len(points[0]))
	order := make([]int, 0, len(points))
	for i, p := range points {
		if len(p) > 0 && !hasNaN(p) {
			order = append(order, i)
		}
	}
	// Best first: no point is dominated by a later one, and of equal points the first one precedes.
	slices.SortStableFunc(order, func(i, j int) int { return compare(points[j], points[i]) })
	var out []int
	switch len(points[0]) {
	case 1:
		out = append(out, order[:min(1, len(order))]...)
	case 2:
		for _, i := range order {
			if len(out) == 0 || points[i][1] > points[out[len(out)-1]][1] {
				out = append(out, i)
			}
		}
	case 3:
		out = front3(points, order)
	default:
		out = frontPairwise(points, order)
	}
	slices.Sort(out)
	return out
}

// front3 sweeps down the first objective over the staircase of the other two. A point is dominated if the staircase
// of the points before it covers its other two objectives.
func front3(points [][]float64, order []int) []int {
	byRank := slices.Clone(order)
	slices.SortStableFunc(byRank, func(i, j int) int {
		return cmp.Or(cmp.Compare(points[i][1], points[j][1]), cmp.Compare(points[i][2], points[j][2]), cmp.Compare(i, j))
	})
	rank := make([]int, len(points))
	for r, i := range byRank {
		rank[i] = r
	}
	var stairs staircase
	stairs.reset(len(order))
	var out []int
	for n, i := range order {
		r, y := rank[i], points[i][2]
		if n > 0 && compare(points[i], points[order[n-1]]) == 0 || stairs.covered(r, y) {
			continue
		}
		// A point with equal (x, y) and lower rank covers it too.
		if q := stairs.previous(r); q >= 0 && stairs.y[q] >= y && points[byRank[q]][1] == points[i][1] {
			continue
		}
		out = append(out, i)
		for q := stairs.previous(r); q >= 0 && stairs.y[q] <= y; q = stairs.previous(q) {
			stairs.unset(q)
		}
		stairs.y[r] = y
		stairs.set(r)
	}
	return out
}

// frontPairwise compares each point, best first, with the front so far.
func frontPairwise(points [][]float64, order []int) []int {
	var out []int
next:
	for _, i := range order {
		for _, j := range out {
			if covers(points[j], points[i]) {
				continue next
			}
		}
		out = append(out, i)
	}
	return out
}
