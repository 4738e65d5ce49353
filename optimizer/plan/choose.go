package plan

import (
	"math"
	"slices"
)

const (
	// leastRange is the smallest difference, relative to the best, that counts as a whole step of an objective: where all
	// candidates are within a few percent in time, time hardly matters.
	leastRange = 0.25
	// tie is the loss, relative, within which candidates count as equal and the tie-break decides.
	tie = 0.01
	// tieRegret is the same in units of regret, for mixed preferences.
	tieRegret = tie / leastRange
	// stickiness is the loss within which the current allocation is kept.
	stickiness = 0.02
)

// scale is the best of each objective and the step that counts as 1, over a set of candidates.
type scale struct{ best, step [3]float64 }

// scaleOf looks at the front of the candidates at the given positions.
func scaleOf(cs []Candidate, among []int) scale {
	var sc scale
	worst := [3]float64{math.Inf(-1), math.Inf(-1), math.Inf(-1)}
	sc.best = [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	for _, i := range among {
		for d, v := range objectives(cs[i]) {
			sc.best[d], worst[d] = min(sc.best[d], v), max(worst[d], v)
		}
	}
	for d := range sc.step {
		sc.step[d] = max(worst[d]-sc.best[d], leastRange*sc.best[d])
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

// choose selects among the candidates at the given positions: of their front the one with the least normalised regret
// (each objective scaled to 0…1 between the best and the worst on that front), ties by cost (by time when cost leads
// the preference). Regret is linear in each objective and finds the knee of a convex front, where products of
// powers would run to an end. The current allocation, at position current (-1: none), is kept when it is among them and
// nearly as good. It returns -1 when among is empty. O(n log n).
func choose(cs []Candidate, among []int, w Preference, current int) int {
	edge := frontAmong(cs, among)
	if len(edge) == 0 {
		return -1
	}
	sc := scaleOf(cs, edge)
	best := edge[0]
	for _, i := range edge {
		if sc.regret(objectives(cs[i]), w) < sc.regret(objectives(cs[best]), w) {
			best = i
		}
	}
	at := objectives(cs[best])
	chosen := best
	for _, i := range edge {
		x := objectives(cs[i])
		if loss(x, at, w) <= tie && sc.regret(x, w) <= sc.regret(at, w)+tieRegret && before(cs[i], cs[chosen], w) {
			chosen = i
		}
	}
	if current != chosen && slices.Contains(among, current) {
		x, y := objectives(cs[current]), objectives(cs[chosen])
		equal := Preference{Time: 1, Cost: 1, Resource: 1}
		if loss(x, y, w) <= stickiness && sc.regret(x, w) <= sc.regret(y, w)+stickiness/leastRange &&
			(!dominates(cs[chosen], cs[current]) || loss(x, y, equal) <= stickiness) {
			return current
		}
	}
	return chosen
}

// before orders candidates that tie in the preference.
func before(a, b Candidate, w Preference) bool {
	x, y := objectives(a), objectives(b)
	order := [3]int{1, 0, 2}
	if w.Cost >= w.Time && w.Cost >= w.Resource && w.Cost > 0 && (w.Cost > w.Time || w.Cost > w.Resource) {
		order = [3]int{0, 1, 2}
	}
	for _, d := range order {
		if x[d] != y[d] {
			return x[d] < y[d]
		}
	}
	if a.Allocation.GPUs != b.Allocation.GPUs {
		return a.Allocation.GPUs < b.Allocation.GPUs
	}
	if a.Allocation.CPUs != b.Allocation.CPUs {
		return a.Allocation.CPUs < b.Allocation.CPUs
	}
	return a.Allocation.BatchSize < b.Allocation.BatchSize
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
