package plan

import (
	"cmp"
	"math"
	"slices"
)

const (
	// LeastRange is the smallest difference, relative to the best, that counts as a whole step of an objective: where all
	// candidates are within a few percent in time, time hardly matters.
	LeastRange = 0.25
	// tie is the loss, relative, within which candidates count as equal and the tie-break decides.
	tie = 0.01
	// tieRegret is the same in units of regret, for mixed preferences.
	tieRegret = tie / LeastRange
	// stickiness is the loss within which the current allocation is kept.
	stickiness = 0.02
)

// scale is the best of each objective and the step that counts as 1, over a set of candidates.
type scale struct{ best, step [3]float64 }

// scaleOf looks at the points of a front.
func scaleOf(points [][3]float64, edge []int) scale {
	var sc scale
	worst := [3]float64{math.Inf(-1), math.Inf(-1), math.Inf(-1)}
	sc.best = [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	for _, i := range edge {
		for d, v := range points[i] {
			sc.best[d], worst[d] = min(sc.best[d], v), max(worst[d], v)
		}
	}
	for d := range sc.step {
		sc.step[d] = max(worst[d]-sc.best[d], LeastRange*sc.best[d])
	}
	return sc
}

// regret is the weighted distance to the best of each objective, in steps: 0 is the best in everything.
func (sc scale) regret(x [3]float64, w Preference) float64 {
	var sum float64
	for d, weight := range w.weights() {
		if weight > 0 && sc.step[d] > 0 {
			sum += weight * (x[d] - sc.best[d]) / sc.step[d]
		}
	}
	return sum
}

// loss is the weighted relative loss of a against b; what a gains does not count.
func loss(a, b [3]float64, w Preference) float64 {
	var sum float64
	for d, weight := range w.weights() {
		if weight > 0 && a[d] > b[d] {
			sum += weight * (a[d]/max(b[d], math.SmallestNonzeroFloat64) - 1)
		}
	}
	return sum
}

// Select is the rule of choice, the one for plans, fronts of measured runs and predictions, so that they choose alike: of points
// (seconds, USD, share of resources; less is better) at the positions edge, which are a front, the one with the least
// normalised regret (each objective scaled to 0…1 between the best and the worst on that front, over at least a quarter of the
// best); within 1 % of it the cheapest, the fastest when cost leads the preference; of equal ones the first of edge. Regret is
// linear in each objective and finds the knee of a convex front, where products of powers would run to an end. A zero
// preference is balanced. Points that are not finite are never selected. It returns a position in points, −1 when none is left. O(n).
func Select(points [][3]float64, edge []int, w Preference) int {
	edge = slices.DeleteFunc(slices.Clone(edge), func(i int) bool { // what is not finite is never chosen
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
		if x := points[i]; loss(x, at, w) <= tie && sc.regret(x, w) <= sc.regret(at, w)+tieRegret && sooner(x, points[chosen], w) < 0 {
			chosen = i
		}
	}
	return chosen
}

// choose selects among the candidates at the given positions by Select; of equal ones the one with the least hardware. The
// current allocation, at position current (-1: none), is kept when it is among them and nearly as good. It returns -1 when
// among is empty. O(n log n).
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
		if loss(x, y, w) <= stickiness && sc.regret(x, w) <= sc.regret(y, w)+stickiness/LeastRange &&
			(!dominates(cs[chosen], cs[current]) || loss(x, y, equal) <= stickiness) {
			return current
		}
	}
	return chosen
}

// sooner orders points that tie in the preference: by cost, by time when cost leads.
func sooner(x, y [3]float64, w Preference) int {
	order := [3]int{1, 0, 2}
	if w.Cost >= w.Time && w.Cost >= w.Resource && w.Cost > 0 && (w.Cost > w.Time || w.Cost > w.Resource) {
		order = [3]int{0, 1, 2}
	}
	return cmp.Or(cmp.Compare(x[order[0]], y[order[0]]), cmp.Compare(x[order[1]], y[order[1]]), cmp.Compare(x[order[2]], y[order[2]]))
}

// smaller says that an allocation holds less.
func smaller(a, b Candidate) bool {
	x, y := a.Allocation, b.Allocation
	return cmp.Or(cmp.Compare(x.GPUs, y.GPUs), cmp.Compare(x.CPUs, y.CPUs), cmp.Compare(x.BatchSize, y.BatchSize)) < 0
}

// pointsOf are the objectives of candidates.
func pointsOf(cs []Candidate) [][3]float64 {
	points := make([][3]float64, len(cs))
	for i, c := range cs {
		points[i] = objectives(c)
	}
	return points
}

// frontAmong is the front of a subset, as positions in cs.
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

// where lists the positions that satisfy a condition.
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
