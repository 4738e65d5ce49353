package problems

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// solved is a problem with a known front.
type solved interface {
	Problem
	// KnownFront returns the expected discounted returns of the Pareto-optimal deterministic stationary policies at
	// discount gamma in [0, 1], one row per point, sorted lexicographically, without duplicates. exact is false if
	// the points are an approximation, which agents may exceed. It panics for another gamma.
	KnownFront(gamma float64) (front [][]float64, exact bool)
}

// named returns a problem of ByName.
func named(name string) solved { return ByName[name]().(solved) }

// TestRecordedFronts checks the fronts that the tests of other packages read.
func TestRecordedFronts(t *testing.T) {
	data, err := os.ReadFile("testdata/fronts.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		Problem string
		Gamma   float64
		Front   [][]float64
	}
	if err := json.Unmarshal(data, &recorded); err != nil || len(recorded) == 0 {
		t.Fatalf("%d fronts, %v", len(recorded), err)
	}
	for _, r := range recorded {
		if front, exact := named(r.Problem).KnownFront(r.Gamma); !exact || !slices.EqualFunc(front, r.Front, slices.Equal[[]float64]) {
			t.Errorf("%s at %v: %v (exact: %t), recorded %v", r.Problem, r.Gamma, front, exact, r.Front)
		}
	}
}

// tie is the difference below which two returns are considered equal up to rounding.
const tie = 1e-12

// KnownFront returns the exact front of deterministic policies that depend on the state only. It discounts the n-th reward
// by γ^(n−1), as an episode does; the front of resource-gathering published with MO-Gymnasium uses γ^n, one factor too
// many (its issue 104).
func (t *table) KnownFront(gamma float64) (front [][]float64, exact bool) {
	for _, w := range t.knownWays(gamma) {
		front = append(front, w.earns)
	}
	return front, true
}

// way is a path without repeated states, which represents a deterministic stationary policy here, with the expected
// discounted return of following it.
type way struct {
	actions []int
	earns   []float64
}

// knownWays returns one way per point of the front, sorted by return. Where waiting pays (it delays a punishment),
// time-dependent policies can achieve vectors that no stationary policy can, so the sets of knownSets are only bounds
// for a search over ways: a prefix is pruned as soon as no bound on its continuations improves on the known ways. A
// first pass searches for the points of the bound only, which makes the second pass short. Exponential in the worst
// case, a few hundred steps on the problems of this package.
func (t *table) knownWays(gamma float64) []way {
	checkGamma(t.name, gamma)
	s := search{t: t, gamma: gamma, bounds: t.knownSets(gamma), visited: make([]bool, t.states)}
	nothing := make([]float64, len(t.objectives))
	s.only = s.bounds[t.start]
	s.walk(t.start, nothing, 1)
	s.only = nil
	s.walk(t.start, nothing, 1)
	slices.SortFunc(s.found, func(a, b way) int { return slices.Compare(a.earns, b.earns) })
	return s.found
}

// search is the state of knownWays.
type search struct {
	t       *table
	gamma   float64
	bounds  [][][]float64 // by state
	only    [][]float64   // search for these points only; nil: search for all
	visited []bool        // by state: it is part of the current way
	actions []int         // of the current way
	found   []way         // pairwise non-dominated
}

// walk extends the current way from a state; earned is its return so far and weight the factor of further rewards:
// the discount times the probability of survival.
func (s *search) walk(state int, earned []float64, weight float64) {
	if len(s.actions) == s.t.limit {
		return
	}
	s.visited[state] = true
	for a := range s.t.actions {
		reward, onward, probability := s.t.expect(state, a)
		sum := add(earned, weight, reward)
		s.actions = append(s.actions, a)
		if onward == over {
			s.keep(sum)
		} else if next := weight * s.gamma * probability; !s.visited[onward] && s.hopeful(onward, sum, next) {
			s.walk(onward, sum, next)
		}
		s.actions = s.actions[:len(s.actions)-1]
	}
	s.visited[state] = false
}

// hopeful reports whether a continuation from a state could improve on the known ways.
func (s *search) hopeful(state int, earned []float64, weight float64) bool {
	return slices.ContainsFunc(s.bounds[state], func(v []float64) bool {
		bound := add(earned, weight, v)
		asked := s.only == nil || slices.ContainsFunc(s.only, func(q []float64) bool { return covers(bound, q) })
		return asked && !s.known(bound)
	})
}

// known reports whether a known way is at least as good in all objectives.
func (s *search) known(earns []float64) bool {
	return slices.ContainsFunc(s.found, func(w way) bool { return covers(w.earns, earns) })
}

// keep records the current way unless a known way covers it.
func (s *search) keep(earns []float64) {
	if s.known(earns) {
		return
	}
	s.found = slices.DeleteFunc(s.found, func(w way) bool { return covers(earns, w.earns) })
	s.found = append(s.found, way{slices.Clone(s.actions), earns})
}

// add returns a + weight·b.
func add(a []float64, weight float64, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i := range sum {
		sum[i] = a[i] + weight*b[i]
	}
	return sum
}

// knownSets returns the non-dominated expected returns from each state by dynamic programming on sets of vectors
// (White 1982, "Multi-objective infinite-horizon discounted Markov decision processes"): the set of a state is the
// non-dominated part of the union, over its actions, of r + γ·P·(the successor's set). Since at most one branch of an
// action continues the episode, combinations of successors' vectors are not needed. The policies may depend on time.
// Policies that never end are excluded; in the problems of this package an ending policy dominates them. Filtering a
// set of k vectors costs O(k²·objectives); there are at most limit rounds, fewer if the sets converge.
func (t *table) knownSets(gamma float64) [][][]float64 {
	sets := make([][][]float64, t.states)
	for round := 0; round < t.limit; round++ {
		changed := false
		next := make([][][]float64, t.states)
		for s := range next {
			var candidates [][]float64
			for a := range t.actions {
				if t.outcomes[s*t.actions+a] == nil {
					continue
				}
				reward, onward, probability := t.expect(s, a)
				if onward == over {
					candidates = append(candidates, reward)
					continue
				}
				for _, v := range sets[onward] {
					candidates = append(candidates, add(reward, gamma*probability, v))
				}
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

// expect returns the expected reward of an action, the state in which the episode continues (over if it ends), and
// the probability that it continues.
func (t *table) expect(state, action int) (reward []float64, onward int, probability float64) {
	reward, onward = make([]float64, len(t.objectives)), over
	for _, b := range t.outcomes[state*t.actions+action] {
		for i, r := range b.reward {
			reward[i] += b.probability * r
		}
		if !b.done {
			onward, probability = b.next, b.probability
		}
	}
	return reward, onward, probability
}

// nonDominated returns, in order, the points that no other point covers; of equal ones the first.
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

// covers reports whether p is at least as good as q in every objective, up to rounding.
func covers(p, q []float64) bool {
	for i := range p {
		if p[i] < q[i]-tie {
			return false
		}
	}
	return true
}
