package pareto

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Archive holds the non-dominated points among those added, each with a payload. The zero value is an empty archive
// without a limit. It is not safe for concurrent use.
type Archive[T any] struct {
	// Tolerance rejects a point that does not exceed a kept one by more than this in any objective, so every point
	// ever added is within Tolerance of, or worse than, a kept one (ε-dominance; Laumanns et al. 2002, without its
	// grid). 0 rejects only dominated and equal points: of equal points the first is kept.
	Tolerance float64
	// Capacity is the maximum number of points; 0 means no limit. Beyond it the point in the densest region is
	// removed (smallest crowding distance, Deb et al. 2002, section III-B; of equally crowded ones the last in
	// order), but never the best of an objective while another point exists.
	Capacity int

	items []item[T] // ascending in compare
}

type item[T any] struct {
	point   []float64
	payload T
}

// Add adds a point and reports whether it was kept; it removes the points that it dominates. The point is copied. Add
// returns false for a point with a NaN, a point dominated by or equal to a kept one (see Tolerance), or one that
// Capacity removes immediately. O(n·m).
func (a *Archive[T]) Add(point []float64, payload T) (kept bool) {
	if len(a.items) > 0 && len(point) != len(a.items[0].point) {
		panic(fmt.Sprintf("pareto: point with %d objectives added to an archive of %d", len(point), len(a.items[0].point)))
	}
	if len(point) == 0 || refused(point) {
		return false
	}
	for _, it := range a.items {
		if a.within(it.point, point) {
			return false
		}
	}
	a.items = slices.DeleteFunc(a.items, func(it item[T]) bool { return dominates(point, it.point) })
	at, _ := slices.BinarySearchFunc(a.items, point, func(it item[T], p []float64) int { return compare(it.point, p) })
	a.items = slices.Insert(a.items, at, item[T]{slices.Clone(point), payload})
	if a.Capacity > 0 && len(a.items) > a.Capacity {
		drop := crowded(a.Points())
		a.items = slices.Delete(a.items, drop, drop+1)
		return drop != at
	}
	return true
}

// within reports whether p exceeds q by no more than the tolerance in every objective.
func (a *Archive[T]) within(q, p []float64) bool {
	for i, v := range p {
		if v > q[i] && !(v-q[i] <= a.Tolerance) {
			return false
		}
	}
	return true
}

// Len returns the number of points kept, the cardinality of the front.
func (a *Archive[T]) Len() int { return len(a.items) }

// Points returns the kept points, ascending by the first objective, then the second, and so on. The slices belong to
// the archive and must not be modified.
func (a *Archive[T]) Points() [][]float64 {
	out := make([][]float64, len(a.items))
	for i, it := range a.items {
		out[i] = it.point
	}
	return out
}

// Payload returns the payload of Points()[i].
func (a *Archive[T]) Payload(i int) T { return a.items[i].payload }

// All iterates over points and payloads in the order of Points.
func (a *Archive[T]) All() iter.Seq2[[]float64, T] {
	return func(yield func([]float64, T) bool) {
		for _, it := range a.items {
			if !yield(it.point, it.payload) {
				return
			}
		}
	}
}

// crowded returns the index of the point with the smallest crowding distance, the last of equals; O(m·n log n).
func crowded(points [][]float64) int {
	distance := make([]float64, len(points))
	order := make([]int, len(points))
	for k := range points[0] {
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(points[i][k], points[j][k]) })
		first, last := order[0], order[len(order)-1]
		span := points[last][k] - points[first][k]
		distance[last] = math.Inf(1)
		if !(span > 0) || math.IsInf(span, 0) {
			continue
		}
		distance[first] += 2 * (points[order[1]][k] - points[first][k]) / span
		for n := 1; n+1 < len(order); n++ {
			distance[order[n]] += (points[order[n+1]][k] - points[order[n-1]][k]) / span
		}
	}
	worst := 0
	for i, d := range distance {
		if d <= distance[worst] {
			worst = i
		}
	}
	return worst
}
