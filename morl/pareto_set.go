package morl

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"trainopt/morl/pareto"
)

// paretoSet learns the whole Pareto set of an environment with finitely many states, also where the front is concave
// and no linear preference selects its points: Pareto Q-learning (Van Moffaert, Nowé 2014, JMLR 15) with a learned
// model. It counts the outcomes of each action in each state, and keeps for each state the set of non-dominated vectors
//
//	V(s) = ND ∪ₐ ( r̄(s, a) + γ Σ p(s'|s, a) V(s') ),
//
// where the sum of sets contains every combination. Changes are propagated to the predecessors, a bounded number per
// transition, and completely before the sets are read. While learning, it takes the action that was tried least, or
// goes to the nearest state with one.
//
// For a preference, Act follows the vector of the largest weighted sum; Policies returns a policy per vector of the
// start. Sets are limited to maxSet vectors. All settings except Gamma are ignored. The number of states is not
// limited: with states that do not recur, nothing is learned, and memory grows with the steps.
type paretoSet struct {
	shape Shape
	gamma float64
	seed  uint64
	steps int
	sets  int // computed so far
	// settled is the number of steps at the last settle; −1: none.
	settled int
	rng     *rand.Rand
	states  []*tableState
	index   map[string]int
	start   int // state of the first transition of the last episode; −1: none

	fresh    bool  // the next transition is the first of an episode
	level    int   // actions tried less often are sought
	distance []int // to the nearest such action, by state; nil: to be computed
	queue    []int // states whose set is to be computed again
	queued   []bool
}

// tableState is a visited state.
type tableState struct {
	Key     []float32     `json:"key"`
	Mask    []bool        `json:"mask,omitempty"`
	Actions []tableAction `json:"actions"`
	before  []int         // states that lead here
	set     []tableVector
}

// tableAction holds the counts of an action in a state.
type tableAction struct {
	N      int            `json:"n"`
	Reward []float64      `json:"reward"` // sum
	Work   float64        `json:"work"`   // sum
	Next   []tableOutcome `json:"next,omitempty"`
}

// tableOutcome counts how often a state followed; episodes that ended are not counted.
type tableOutcome struct {
	State int `json:"state"`
	N     int `json:"n"`
}

// tableVector is an expected return of a state.
type tableVector struct {
	value  []float64
	action int
	next   []int // vector of each following state, in the order of tableAction.Next
}

const (
	maxSet       = 128  // vectors of a state
	propagations = 32   // sets computed per transition
	changed      = 1e-4 // change of a value, relative to the values of its set, that is propagated while learning
)

var _ Agent = (*paretoSet)(nil)

// newParetoSet returns an untrained agent.
func newParetoSet(s Shape, c Config, seed uint64) *paretoSet {
	return &paretoSet{shape: s, gamma: c.withDefaults().Gamma, seed: seed, rng: stream(seed, 1), index: map[string]int{}, settled: -1, start: -1, fresh: true, level: 1}
}

// Name implements Agent.
func (a *paretoSet) Name() string { return "pareto" }

// Shape implements Agent.
func (a *paretoSet) Shape() Shape { return a.shape }

// Stats implements Agent. Updates counts computed sets; there is no loss.
func (a *paretoSet) Stats() stats { return stats{Steps: a.steps, Updates: a.sets, Loss: math.NaN()} }

// Act implements Agent.
func (a *paretoSet) Act(o Observation, w []float32, explore bool) int {
	s, ok := a.index[key(o.State)]
	if !ok {
		return a.any(o.Mask)
	}
	if explore {
		return a.explore(s)
	}
	a.settle()
	best, most := -1, math.Inf(-1)
	for _, v := range a.states[s].set {
		u := 0.0
		for i, x := range w {
			u += float64(x) * v.value[i]
		}
		if u > most {
			best, most = v.action, u
		}
	}
	if best < 0 {
		return a.any(o.Mask)
	}
	return best
}

// any returns the first allowed action.
func (a *paretoSet) any(mask []bool) int { return max(0, slices.Index(mask, true)) }

// explore returns the action in a state that leads to the nearest one that was tried less than level times.
func (a *paretoSet) explore(s int) int {
	for {
		if a.distance == nil {
			a.measureDistances()
		}
		if a.distance[s] < math.MaxInt {
			break
		}
		if a.start < 0 || a.distance[a.start] < math.MaxInt { // nothing is left in this episode
			return a.random(s)
		}
		a.level *= 2
		a.distance = nil
	}
	state := a.states[s]
	best, nearest := -1, math.MaxInt
	for i := range state.Actions {
		if state.Mask != nil && !state.Mask[i] {
			continue
		}
		far := math.MaxInt
		if x := &state.Actions[i]; x.N < a.level {
			far = 0
		} else {
			for _, next := range x.Next {
				far = min(far, a.distance[next.State])
			}
		}
		if far < nearest || far == nearest && best >= 0 && state.Actions[i].N < state.Actions[best].N {
			best, nearest = i, far
		}
	}
	return best
}

func (a *paretoSet) random(s int) int {
	for {
		if i := a.rng.IntN(a.shape.Actions); a.states[s].Mask == nil || a.states[s].Mask[i] {
			return i
		}
	}
}

// measureDistances computes the number of actions from each state to the nearest one tried less than level times.
func (a *paretoSet) measureDistances() {
	a.distance = make([]int, len(a.states))
	var queue []int
	for s, state := range a.states {
		a.distance[s] = math.MaxInt
		for i := range state.Actions {
			if state.Actions[i].N < a.level && (state.Mask == nil || state.Mask[i]) {
				a.distance[s] = 0
				queue = append(queue, s)
				break
			}
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, s := range a.states[queue[0]].before {
			if a.distance[s] == math.MaxInt {
				a.distance[s] = a.distance[queue[0]] + 1
				queue = append(queue, s)
			}
		}
	}
}

// key identifies a state.
func key(state []float32) string {
	b := make([]byte, 0, 4*len(state))
	for _, v := range state {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return string(b)
}

// visit returns the number of a state, which it creates if necessary.
func (a *paretoSet) visit(state []float32, mask []bool) int {
	k := key(state)
	s, ok := a.index[k]
	if !ok {
		s = len(a.states)
		a.index[k] = s
		a.states = append(a.states, &tableState{Key: slices.Clone(state), Mask: slices.Clone(mask), Actions: make([]tableAction, a.shape.Actions)})
		a.queued = append(a.queued, false)
		a.distance = nil
	}
	return s
}

// Observe implements Agent. The preference is ignored.
func (a *paretoSet) Observe(t transition, _ []float32) {
	a.steps++
	s := a.visit(t.State, t.Mask)
	if a.fresh {
		a.start = s
	}
	a.fresh = t.Done || t.Cut
	x := &a.states[s].Actions[t.Action]
	if x.Reward == nil {
		x.Reward = make([]float64, len(t.Reward))
	}
	x.N++
	if x.N == a.level {
		a.distance = nil
	}
	x.Work += float64(t.Work)
	for i, r := range t.Reward {
		x.Reward[i] += float64(r)
	}
	if !t.Done {
		next := a.visit(t.Next, t.NextMask)
		at := sort.Search(len(x.Next), func(i int) bool { return x.Next[i].State >= next })
		if at == len(x.Next) || x.Next[at].State != next {
			x.Next = slices.Insert(x.Next, at, tableOutcome{State: next})
			if b := &a.states[next].before; !slices.Contains(*b, s) {
				*b = append(*b, s)
			}
			a.distance = nil
		}
		x.Next[at].N++
	}
	a.enqueue(s)
	for range propagations {
		if !a.propagate(changed) {
			break
		}
	}
}

func (a *paretoSet) enqueue(s int) {
	if !a.queued[s] {
		a.queued[s] = true
		a.queue = append(a.queue, s)
	}
}

// propagate computes the set of the first state of the queue, and queues its predecessors if the set has changed by
// more than a tolerance. It returns false if the queue is empty.
func (a *paretoSet) propagate(tolerance float64) bool {
	if len(a.queue) == 0 {
		return false
	}
	s := a.queue[0]
	a.queue = a.queue[1:]
	a.queued[s] = false
	a.sets++
	state := a.states[s]
	set := a.compute(state)
	if !alike(set, state.set, tolerance) {
		for _, b := range state.before {
			a.enqueue(b)
		}
	}
	state.set = set
	return true
}

// mostSettling bounds the number of sets computed by settle, per state.
const mostSettling = 2000

// settle computes the sets until they do not change any more, if anything was learned since the last time.
func (a *paretoSet) settle() {
	if a.settled == a.steps {
		return
	}
	a.settled = a.steps
	for s := range a.states {
		a.enqueue(s)
	}
	for range mostSettling * len(a.states) {
		if !a.propagate(1e-9) {
			return
		}
	}
	a.queue = a.queue[:0]
	clear(a.queued)
}

// compute returns the non-dominated vectors of a state.
func (a *paretoSet) compute(state *tableState) []tableVector {
	var all []tableVector
	for i := range state.Actions {
		x := &state.Actions[i]
		if x.N == 0 {
			continue
		}
		base := make([]float64, len(x.Reward))
		for k, r := range x.Reward {
			base[k] = r / float64(x.N)
		}
		sums := []tableVector{{value: base, action: i}}
		discount := math.Pow(a.gamma, x.Work/float64(x.N))
		for _, next := range x.Next {
			sums = combine(sums, a.states[next.State].set, discount*float64(next.N)/float64(x.N))
		}
		all = append(all, sums...)
	}
	return nonDominatedVectors(all)
}

// combine returns every sum of a vector and a weighted vector of a following state, or the vectors themselves if nothing is
// known of that state.
func combine(sums, next []tableVector, weight float64) []tableVector {
	if len(next) == 0 {
		for i := range sums {
			sums[i].next = append(sums[i].next, -1)
		}
		return sums
	}
	out := make([]tableVector, 0, len(sums)*len(next))
	for _, x := range sums {
		for j, y := range next {
			v := tableVector{value: slices.Clone(x.value), action: x.action, next: append(slices.Clone(x.next), j)}
			for k, z := range y.value {
				v.value[k] += weight * z
			}
			out = append(out, v)
		}
	}
	if len(out) > maxSet {
		out = nonDominatedVectors(out)
	}
	return out
}

// nonDominatedVectors returns at most maxSet of the non-dominated vectors, in ascending order: evenly spaced ones if there
// are more. Of vectors that differ by rounding only, one is kept.
func nonDominatedVectors(all []tableVector) []tableVector {
	points := make([][]float64, len(all))
	for i := range all {
		points[i] = make([]float64, len(all[i].value))
		for k, v := range all[i].value {
			points[i][k] = math.Round(v*1e9) / 1e9
		}
	}
	kept := pareto.Front(points)
	slices.SortFunc(kept, func(i, j int) int { return slices.Compare(points[i], points[j]) })
	kept = slices.CompactFunc(kept, func(i, j int) bool { return slices.Equal(points[i], points[j]) })
	n := min(len(kept), maxSet)
	out := make([]tableVector, n)
	for i := range n {
		at := i
		if n < len(kept) {
			at = i * (len(kept) - 1) / (n - 1)
		}
		out[i] = all[kept[at]]
	}
	return out
}

// alike reports whether two sets are equal up to a tolerance relative to their largest value.
func alike(a, b []tableVector, tolerance float64) bool {
	if len(a) != len(b) {
		return false
	}
	most, apart := 0.0, 0.0
	for i := range a {
		for k, v := range a[i].value {
			most, apart = max(most, math.Abs(v)), max(apart, math.Abs(v-b[i].value[k]))
		}
	}
	return apart <= tolerance*max(most, 1e-9)
}

// Policies returns a stationary policy for each non-dominated vector of the start of the last episode, in ascending order
// of the vectors; none before the first episode. A state that several paths of a policy reach has one action. States
// that a policy does not lead to have the first allowed action. The policies remain valid until the agent learns.
func (a *paretoSet) Policies() []func(state []float32, mask []bool) int {
	if a.start < 0 {
		return nil
	}
	a.settle()
	var out []func(state []float32, mask []bool) int
	for i := range a.states[a.start].set {
		actions := map[int]int{}
		a.follow(a.start, i, actions)
		out = append(out, func(state []float32, mask []bool) int {
			if s, ok := a.index[key(state)]; ok {
				if action, ok := actions[s]; ok {
					return action
				}
			}
			return a.any(mask)
		})
	}
	return out
}

// follow sets the actions of the policy that earns a vector of a state.
func (a *paretoSet) follow(s, vector int, actions map[int]int) {
	if _, ok := actions[s]; ok || vector < 0 || vector >= len(a.states[s].set) {
		return
	}
	v := &a.states[s].set[vector]
	actions[s] = v.action
	for i, next := range a.states[s].Actions[v.action].Next {
		if i < len(v.next) {
			a.follow(next.State, v.next[i], actions)
		}
	}
}
