package pareto

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Archive holds the non-dominated of the points added so far, each with a payload. The zero value is an empty archive
// without a limit. It is used by one goroutine at a time.
type Archive[T any] struct {
	// Tolerance refuses a point that does not improve on a kept one by more than this in any objective, so every point
	// ever added is within Tolerance of one that is kept or better (ε-dominance; Laumanns et al. 2002, without its grid).
	// 0 refuses only what is dominated or equal: of equal points the first is kept.
	Tolerance float64
	// Capacity is the most points kept; 0 is no limit. Beyond it the point in the densest place goes (least crowding
	// distance, Deb et al. 2002, section III-B; of equally crowded ones the last in order), never the best of an
	// objective while there is another.
	Capacity int

	items []item[T] // ascending in compare
}

type item[T any] struct {
	point   []float64
	payload T
}

// Add offers a point and reports whether it was kept; the dominated ones leave. The point is copied. False for a point
// with a NaN, one dominated by or equal to a kept one (see Tolerance), or one that Capacity drops at once. O(n·m).
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

// within reports whether p is no better than q by more than the tolerance anywhere.
func (a *Archive[T]) within(q, p []float64) bool {
	for i, v := range p {
		if v > q[i] && !(v-q[i] <= a.Tolerance) {
			return false
		}
	}
	return true
}

// Len is the number of points kept: the cardinality of the front.
func (a *Archive[T]) Len() int { return len(a.items) }

// Points are the kept points, ascending by the first objective, then the second, and so on. They belong to the
// archive: do not change them.
func (a *Archive[T]) Points() [][]float64 {
	out := make([][]float64, len(a.items))
	for i, it := range a.items {
		out[i] = it.point
	}
	return out
}

// Payload is what came with Points()[i].
func (a *Archive[T]) Payload(i int) T { return a.items[i].payload }

// All goes over points and payloads in the order of Points.
func (a *Archive[T]) All() iter.Seq2[[]float64, T] {
	return func(yield func([]float64, T) bool) {
		for _, it := range a.items {
			if !yield(it.point, it.payload) {
				return
			}
		}
	}
}

// crowded is the position of the point with the least crowding distance, the last of equals; O(m·n log n).
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
