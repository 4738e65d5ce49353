package plan

import (
	"cmp"
	"math"
	"slices"
)

const (
	// tie is the relative loss within which candidates count as equal and the tie-break decides.
	tie = 0.01
	// stickiness is the loss within which the current allocation is kept.
	stickiness = 0.02
)

// scale contains the best value of each objective over a set of candidates.
type scale [3]float64

// scaleOf returns the scale of the points at the positions edge.
func scaleOf(points [][3]float64, edge []int) scale {
	best := scale{math.Inf(1), math.Inf(1), math.Inf(1)}
	for _, i := range edge {
		for d, v := range points[i] {
			best[d] = min(best[d], v)
		}
	}
	return best
}

// regret returns the weighted relative distance from the best value of each objective; 0 is the best in every
// objective.
func (best scale) regret(x [3]float64, w Preference) float64 {
	var sum float64
	for d, weight := range w.weights() {
		if weight > 0 && best[d] > 0 {
			sum += weight * (x[d]/best[d] - 1)
		}
	}
	return sum
}

// loss returns the weighted relative loss of a against b; gains do not count.
func loss(a, b [3]float64, w Preference) float64 {
	var sum float64
	for d, weight := range w.weights() {
		if weight > 0 && a[d] > b[d] {
			sum += weight * (a[d]/max(b[d], math.SmallestNonzeroFloat64) - 1)
		}
	}
	return sum
}

// Select is the selection rule shared by plans, fronts of measured runs and predictions. Points are (seconds, USD,
// share of resources), lower is better; edge contains the positions of a Pareto front.
//
// Select minimises the weighted mean of the objectives, each relative to its best value on the front: with equal weights,
// one percent of the shortest time is worth one percent of the lowest cost, whatever the worst point of the front is.
// Among points within 1 % of the minimum it selects the cheapest, or the fastest when cost leads the preference; among
// equal points the first of edge. The mean is linear in each objective and finds the knee of a convex front, where a
// product of powers would select an extreme point.
//
// A zero preference is balanced. Points that are not finite are never selected. Select returns a position in points,
// −1 when no finite point exists. O(n).
func Select(points [][3]float64, edge []int, w Preference) int {
	edge = slices.DeleteFunc(slices.Clone(edge), func(i int) bool { // drop points that are not finite
		sum := points[i][0] + points[i][1] + points[i][2]
		return math.IsNaN(sum) || math.IsInf(sum, 0)
	})
	if len(edge) == 0 {
		return -1
	}
	if w == (Preference{}) {
		w = w.normalised()
	}
	sc := scaleOf(points, edge)
	best := edge[0]
	for _, i := range edge {
		if sc.regret(points[i], w) < sc.regret(points[best], w) {
			best = i
		}
	}
	at := points[best]
	chosen := best
	for _, i := range edge {
		if x := points[i]; loss(x, at, w) <= tie && sc.regret(x, w) <= sc.regret(at, w)+tie && sooner(x, points[chosen], w) < 0 {
			chosen = i
		}
	}
	return chosen
}

// choose applies Select to the candidates at the given positions; among equal points it selects the one with the
// least hardware. The current allocation, at position current (-1 without one), is kept when it is among them and
// within stickiness of the choice. It returns -1 when among is empty. O(n log n).
func choose(cs []Candidate, among []int, w Preference, current int) int {
	edge := frontAmong(cs, among)
	points := pointsOf(cs)
	chosen := Select(points, edge, w)
	if chosen < 0 {
		return -1
	}
	for _, i := range edge {
		if points[i] == points[chosen] && smaller(cs[i], cs[chosen]) {
			chosen = i
		}
	}
	if current != chosen && slices.Contains(among, current) {
		x, y, sc := objectives(cs[current]), points[chosen], scaleOf(points, edge)
		equal := Preference{Time: 1, Cost: 1, Resource: 1}
		if loss(x, y, w) <= stickiness && sc.regret(x, w) <= sc.regret(y, w)+stickiness &&
			(!dominates(cs[chosen], cs[current]) || loss(x, y, equal) <= stickiness) {
			return current
		}
	}
	return chosen
}

// sooner compares points that tie in the preference: by cost first, or by time first when cost leads.
func sooner(x, y [3]float64, w Preference) int {
	order := [3]int{1, 0, 2}
	if w.Cost >= w.Time && w.Cost >= w.Resource && w.Cost > 0 && (w.Cost > w.Time || w.Cost > w.Resource) {
		order = [3]int{0, 1, 2}
	}
	return cmp.Or(cmp.Compare(x[order[0]], y[order[0]]), cmp.Compare(x[order[1]], y[order[1]]), cmp.Compare(x[order[2]], y[order[2]]))
}

// smaller reports whether allocation a holds less hardware than b.
func smaller(a, b Candidate) bool {
	x, y := a.Allocation, b.Allocation
	return cmp.Or(cmp.Compare(x.GPUs, y.GPUs), cmp.Compare(x.CPUs, y.CPUs), cmp.Compare(x.BatchSize, y.BatchSize)) < 0
}

// pointsOf returns the objectives of the candidates.
func pointsOf(cs []Candidate) [][3]float64 {
	points := make([][3]float64, len(cs))
	for i, c := range cs {
		points[i] = objectives(c)
	}
	return points
}

// frontAmong returns the Pareto front of a subset, as positions in cs.
func frontAmong(cs []Candidate, among []int) []int {
	sub := make([]Candidate, len(among))
	for k, i := range among {
		sub[k] = cs[i]
	}
	out := front(sub)
	for k, i := range out {
		out[k] = among[i]
	}
	return out
}

// where returns the positions of the candidates that satisfy ok.
func where(cs []Candidate, ok func(Candidate) bool) []int {
	var out []int
	for i, c := range cs {
		if ok(c) {
			out = append(out, i)
		}
	}
	return out
}

func feasible(c Candidate) bool { return c.Feasible && finite(c) }
