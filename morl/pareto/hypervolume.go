package pareto

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// Hypervolume returns the volume that the points dominate above the reference, exact up to rounding: the measure of
// all x with reference ≤ x ≤ p for some p. Points that do not exceed the reference in every objective contribute
// nothing, so the value of no points is 0; a point above the reference with a +Inf makes it +Inf. It is NaN if the
// reference has a NaN. The unit is the product of the objectives' units.
//
// One and two objectives are sorted, three are swept over a staircase (Beume, Fonseca, López-Ibáñez, Paquete,
// Vahrenhold 2009, "On the complexity of computing the hypervolume indicator"): O(n log n). More objectives are
// decomposed as in WFG (While, Bradstreet, Barone 2012, "A fast way of calculating exact hypervolumes"): the
// exclusive volume of each point relative to the limited set of its successors, sliced by the last objective down to
// three; exponential in the number of objectives in the worst case, milliseconds for 64 points with 6.
func Hypervolume(points [][]float64, reference []float64) float64 {
	m := len(reference)
	wantLength(points, m)
	if hasNaN(reference) {
		return math.NaN()
	}
	if m == 3 {
		w := sweeps.Get().(*sweep)
		defer sweeps.Put(w)
		return w.above(points, [3]float64(reference))
	}
	above := make([][]float64, 0, len(points))
	infinite := false
	for _, p := range points {
		if q := make([]float64, m); m > 0 && shift(q, p, reference) {
			above = append(above, q)
			infinite = infinite || math.IsInf(slices.Max(q), 1)
		}
	}
	if infinite {
		return math.Inf(1)
	}
	// A canonical order: rounding must not depend on the order of the input.
	slices.SortFunc(above, compare)
	above = slices.CompactFunc(above, func(a, b []float64) bool { return compare(a, b) == 0 })
	if len(above) == 0 {
		return 0
	}
	if m > 3 {
		kept := Front(above)
		for k, i := range kept {
			above[k] = above[i]
		}
		above = above[:len(kept)]
	}
	return newSlicer(m, len(above)).volume(above, m)
}

// shift writes p − reference to q and reports whether all components are above 0.
func shift(q, p, reference []float64) bool {
	for i, v := range p {
		if !(v > reference[i]) {
			return false
		}
		q[i] = v - reference[i]
	}
	return true
}

// slicer holds the buffers of one computation: a set of limited points for each number of objectives.
type slicer struct {
	limited [][][]float64 // by number of objectives
	sweep   sweep
}

func newSlicer(m, n int) *slicer {
	s := &slicer{limited: make([][][]float64, m)}
	for k := 3; k < m; k++ {
		flat := make([]float64, n*k)
		s.limited[k] = make([][]float64, n)
		for i := range n {
			s.limited[k][i] = flat[i*k : (i+1)*k]
		}
	}
	return s
}

// volume returns the hypervolume above 0 in the first m objectives; all components are positive. It reorders points.
func (s *slicer) volume(points [][]float64, m int) float64 {
	switch {
	case len(points) == 0:
		return 0
	case len(points) == 1:
		return product(points[0][:m])
	case m == 1:
		return slices.MaxFunc(points, func(a, b []float64) int { return cmp.Compare(a[0], b[0]) })[0]
	case m == 2:
		return area(points)
	case m == 3:
		return s.sweep.volume(points)
	}
	// In ascending order of the last objective, all successors of a point exceed it there: the exclusive volume is
	// the last objective times an exclusive volume with one objective fewer.
	last := m - 1
	slices.SortStableFunc(points, func(a, b []float64) int { return cmp.Compare(a[last], b[last]) })
	var sum float64
	for i, p := range points {
		rest := s.limit(p, points[i+1:], last)
		sum += p[last] * (product(p[:last]) - s.volume(rest, last))
	}
	return sum
}

// limit returns the part of the others inside p's box in the first m objectives, without points dominated within that
// set.
func (s *slicer) limit(p []float64, others [][]float64, m int) [][]float64 {
	set := s.limited[m]
	n := 0
	for _, q := range others {
		l := set[n]
		for k := range m {
			l[k] = min(p[k], q[k])
		}
		if m == 3 { // the sweep ignores dominated points itself
			n++
			continue
		}
		if slices.ContainsFunc(set[:n], func(x []float64) bool { return covers(x, l) }) {
			continue
		}
		kept := 0
		for i := range n {
			if !covers(l, set[i]) {
				set[kept], set[i] = set[i], set[kept]
				kept++
			}
		}
		set[kept], set[n] = l, set[kept]
		n = kept + 1
	}
	return set[:n]
}

func product(p []float64) float64 {
	v := 1.0
	for _, x := range p {
		v *= x
	}
	return v
}

// area returns the hypervolume of two objectives.
func area(points [][]float64) float64 {
	slices.SortStableFunc(points, func(a, b []float64) int { return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(b[1], a[1])) })
	var sum, y float64
	for _, p := range points {
		if p[1] > y {
			sum += p[0] * (p[1] - y)
			y = p[1]
		}
	}
	return sum
}

// sweep computes the volume of three objectives; its buffers are reused.
type sweep struct {
	stairs        staircase
	given, points [][3]float64 // as given, and in ascending order
	order, spare  []keyed
}

// sweeps holds the buffers of earlier calls of Hypervolume.
var sweeps = sync.Pool{New: func() any { return new(sweep) }}

// above returns the hypervolume of three objectives above a reference.
func (w *sweep) above(points [][]float64, reference [3]float64) float64 {
	w.given = w.given[:0]
	infinite := false
	for _, p := range points {
		var q [3]float64
		if shift(q[:], p, reference[:]) {
			w.given = append(w.given, q)
			infinite = infinite || math.IsInf(max(q[0], q[1], q[2]), 1)
		}
	}
	if infinite {
		return math.Inf(1)
	}
	return w.run()
}

// volume returns the hypervolume of the first three objectives above 0.
func (w *sweep) volume(points [][]float64) float64 {
	w.given = w.given[:0]
	for _, p := range points {
		w.given = append(w.given, [3]float64(p))
	}
	return w.run()
}

// run sweeps down the third objective; the area under the staircase of the first two grows with each point.
func (w *sweep) run() float64 {
	w.sort()
	w.order = w.order[:0]
	for i := len(w.points) - 1; i >= 0; i-- {
		w.order = append(w.order, keyed{^math.Float64bits(w.points[i][2]), i})
	}
	w.order, w.spare = radix(w.order, w.spare)
	w.stairs.reset(len(w.points))
	var sum, base float64
	for n, k := range w.order {
		base += w.grow(k.index)
		z := 0.0
		if n+1 < len(w.order) {
			z = w.points[w.order[n+1].index][2]
		}
		sum += base * (w.points[k.index][2] - z)
	}
	return sum
}

// sort sets points to the given ones in ascending order, which does not depend on the order in which they were given.
func (w *sweep) sort() {
	w.order = w.order[:0]
	for i := range w.given {
		w.order = append(w.order, keyed{math.Float64bits(w.given[i][0]), i})
	}
	w.order, w.spare = radix(w.order, w.spare)
	w.points = w.points[:0]
	for _, k := range w.order {
		w.points = append(w.points, w.given[k.index])
	}
	for from := 0; from < len(w.points); {
		to := from + 1
		for to < len(w.points) && w.points[to][0] == w.points[from][0] {
			to++
		}
		if to > from+1 {
			slices.SortFunc(w.points[from:to], func(a, b [3]float64) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2])) })
		}
		from = to
	}
}

// grow adds the point of this rank to the staircase and returns the area gained. It removes the steps that the point
// covers, adding the area of each on the way.
func (w *sweep) grow(rank int) float64 {
	s := &w.stairs
	x, y := w.points[rank][0], w.points[rank][1]
	below := 0.0
	if n := s.next(rank); n >= 0 {
		below = s.y[n]
	}
	if below >= y {
		return 0
	}
	gained := 0.0
	for q := s.previous(rank); ; q = s.previous(q) {
		left, height := 0.0, 0.0
		if q >= 0 {
			left, height = w.points[q][0], s.y[q]
		}
		gained += (x - left) * (y - below)
		if q < 0 || height > y {
			break
		}
		s.unset(q)
		x, below = left, height
	}
	s.y[rank] = y
	s.set(rank)
	return gained
}
