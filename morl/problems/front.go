package problems

import (
	"slices"
)

// tie is the difference below which two returns are the same: rounding, not a better policy.
const tie = 1e-12

// KnownFront is exact, for deterministic policies that depend on the state alone.
func (t *table) KnownFront(gamma float64) (front [][]float64, exact bool) {
	for _, w := range t.knownWays(gamma) {
		front = append(front, w.earns)
	}
	return front, true
}

// way is a path without a repeated state, which is all there is to a deterministic stationary policy here, and the
// expected discounted return of following it.
type way struct {
	actions []int
	earns   []float64
}

// knownWays returns one way for each point of the front, sorted by what they earn. Where waiting pays (it puts off a
// punishment), policies that look at the clock can earn vectors that no stationary one can, so the sets of knownSets
// are only bounds, for a search over ways: a start is dropped as soon as nothing that could follow is better than what
// is known. Ways to points of the bound come first, which makes the second pass short. Exponential in the worst case,
// a few hundred steps on the problems here.
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

type search struct {
	t       *table
	gamma   float64
	bounds  [][][]float64 // by state
	only    [][]float64   // look for these points only; nil looks for all
	visited []bool        // by state: it is on the way
	actions []int         // the way so far
	found   []way         // none covers another
}

// walk looks for ways that go on from a state when earned is what the way so far earns, and weight what a reward counts
// from here: the discount times the probability of being alive.
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

// hopeful says whether something new could follow from a state.
func (s *search) hopeful(state int, earned []float64, weight float64) bool {
	return slices.ContainsFunc(s.bounds[state], func(v []float64) bool {
		bound := add(earned, weight, v)
		asked := s.only == nil || slices.ContainsFunc(s.only, func(q []float64) bool { return covers(bound, q) })
		return asked && !s.known(bound)
	})
}

func (s *search) known(earns []float64) bool {
	return slices.ContainsFunc(s.found, func(w way) bool { return covers(w.earns, earns) })
}

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
// non-dominated part of the union, over its actions, of r + γ·P·(the successor's set). Because at most one branch of an
// action goes on, no combinations of successors' vectors are needed. The policies may look at the clock. Those that
// never end are left out; in the problems here an ending policy dominates them. A set of k vectors costs
// O(k²·objectives) to filter; at most limit rounds, fewer when nothing changes any more.
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

// expect returns the expected reward of an action, the state where the episode goes on (over where it ends), and the
// probability that it does.
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
