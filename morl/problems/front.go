package problems

import (
	"slices"
)

// tie is the difference below which two returns are the same: rounding, not a better policy.
const tie = 1e-12

// KnownFront is exact: see knownSets.
func (t *table) KnownFront(gamma float64) (front [][]float64, exact bool) {
	checkGamma(t.name, gamma)
	start := t.knownSets(gamma)[t.start]
	for _, p := range start {
		front = append(front, append([]float64(nil), p...))
	}
	slices.SortFunc(front, slices.Compare[[]float64])
	return front, true
}

// knownSets returns the non-dominated expected returns from each state by dynamic programming on sets of vectors
// (White 1982, "Multi-objective infinite-horizon discounted Markov decision processes"): the set of a state is the
// non-dominated part of the union, over its actions, of r + γ·P·(the successor's set). Because at most one branch of an
// action goes on, no combinations of successors' vectors are needed. Policies that never end are left out; in the
// problems here an ending policy dominates them. A set of k vectors costs O(k²·objectives) to filter; at most limit
// rounds, fewer when nothing changes any more.
func (t *table) knownSets(gamma float64) [][][]float64 {
	sets := make([][][]float64, t.states)
	for round := 0; round < t.limit; round++ {
		changed := false
		next := make([][][]float64, t.states)
		for s := range next {
			var candidates [][]float64
			for a := range t.actions {
				candidates = append(candidates, t.backUp(s, a, gamma, sets)...)
			}
			next[s] = nonDominated(candidates)
			changed = changed || !slices.EqualFunc(next[s], sets[s], slices.Equal[[]float64])
		}
		sets = next
		if !changed {
			break
		}
	}
	return sets
}

// backUp returns the returns that action a in state s makes possible, given those of the next states.
func (t *table) backUp(s, a int, gamma float64, sets [][][]float64) [][]float64 {
	reward := make([]float64, len(t.objectives))
	onward, probability := over, 0.0
	for _, b := range t.outcomes[s*t.actions+a] {
		for i, r := range b.reward {
			reward[i] += b.probability * r
		}
		if !b.done {
			onward, probability = b.next, b.probability
		}
	}
	switch {
	case t.outcomes[s*t.actions+a] == nil:
		return nil
	case onward == over:
		return [][]float64{reward}
	}
	var returns [][]float64
	for _, v := range sets[onward] {
		sum := make([]float64, len(reward))
		for i := range sum {
			sum[i] = reward[i] + gamma*probability*v[i]
		}
		returns = append(returns, sum)
	}
	return returns
}

// nonDominated keeps, in order, the points that no other is at least as good as in every objective; of equal ones the
// first.
func nonDominated(points [][]float64) [][]float64 {
	var kept [][]float64
	for _, p := range points {
		if slices.ContainsFunc(kept, func(q []float64) bool { return covers(q, p) }) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(q []float64) bool { return covers(p, q) })
		kept = append(kept, p)
	}
	return kept
}

// covers says whether p is at least as good as q in every objective.
func covers(p, q []float64) bool {
	for i := range p {
		if p[i] < q[i]-tie {
			return false
		}
	}
	return true
}
