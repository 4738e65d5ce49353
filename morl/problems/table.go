package problems

import (
	"fmt"
	"math/rand/v2"

	"trainopt/morl"
)

// over is the terminal state of problems without a state of their own for it; it is encoded as all zeros.
const over = -1

// branch is one possible outcome of an action.
type branch struct {
	probability float64
	next        int
	reward      []float64 // deterministic given the branch
	done        bool
}

// table is a problem with finitely many states, encoded as one-hot vectors, and all its transitions. At most one
// branch of an action continues the episode (done is false), which knownSets relies on.
type table struct {
	name       string
	objectives []string
	states     int
	actions    int
	start      int
	limit      int
	reference  []float64
	// outcomes has the branches of action a in state s at [s*actions+a]; nil in terminal states.
	outcomes [][]branch

	rng     *rand.Rand
	state   int
	steps   int
	ended   bool
	seen    []float32 // buffer of the last observation
	rewards []float32 // buffer of the last reward
}

var _ Problem = (*table)(nil)

func (t *table) Name() string { return t.name }
func (t *table) Limit() int   { return t.limit }

func (t *table) Reference() []float64 { return append([]float64(nil), t.reference...) }

func (t *table) Shape() morl.Shape {
	return morl.Shape{State: t.states, Actions: t.actions, Objectives: append([]string(nil), t.objectives...)}
}

// Reset starts an episode; rng may be nil if the problem is deterministic.
func (t *table) Reset(rng *rand.Rand) morl.Observation {
	if t.seen == nil {
		t.seen = make([]float32, t.states)
		t.rewards = make([]float32, len(t.objectives))
	}
	t.rng, t.state, t.steps, t.ended = rng, t.start, 0, false
	return morl.Observation{State: encode(t.seen, t.state)}
}

// Step implements morl.Environment.
func (t *table) Step(action int) morl.Outcome {
	if t.seen == nil || t.ended {
		panic(fmt.Sprintf("problems: %s: Step without Reset or after the end", t.name))
	}
	checkAction(t.name, action, t.actions)
	b := t.draw(t.outcomes[t.state*t.actions+action])
	t.state = b.next
	t.steps++
	for i, r := range b.reward {
		t.rewards[i] = float32(r)
	}
	cut := !b.done && t.steps >= t.limit
	t.ended = b.done || cut
	return morl.Outcome{
		Observation: morl.Observation{State: encode(t.seen, t.state)},
		Reward:      t.rewards, Done: b.done, Cut: cut, Work: 1,
	}
}

// draw returns a random branch; a single branch consumes no random number.
func (t *table) draw(branches []branch) branch {
	if len(branches) == 1 {
		return branches[0]
	}
	u := t.rng.Float64()
	for _, b := range branches[:len(branches)-1] {
		if u < b.probability {
			return b
		}
		u -= b.probability
	}
	return branches[len(branches)-1]
}

// encode overwrites into with the one-hot vector of a state.
func encode(into []float32, state int) []float32 {
	clear(into)
	if state != over {
		into[state] = 1
	}
	return into
}

// Return propagates the probabilities of the states, action by action: O(limit · states).
func (t *table) Return(policy tablePolicy, gamma float64) []float64 {
	checkGamma(t.name, gamma)
	chosen := make([]int, t.states)
	for s := range chosen {
		chosen[s] = -1
	}
	shown := make([]float32, t.states)
	total := make([]float64, len(t.objectives))
	now, after := make([]float64, t.states), make([]float64, t.states)
	now[t.start] = 1
	discount := 1.0
	for step := 0; step < t.limit && discount > 0; step++ {
		clear(after)
		for s, mass := range now {
			if mass == 0 {
				continue
			}
			if chosen[s] < 0 {
				a := policy(encode(shown, s), nil)
				checkAction(t.name, a, t.actions)
				chosen[s] = a
			}
			for _, b := range t.outcomes[s*t.actions+chosen[s]] {
				for i, r := range b.reward {
					total[i] += mass * discount * b.probability * r
				}
				if !b.done {
					after[b.next] += mass * b.probability
				}
			}
		}
		now, after = after, now
		discount *= gamma
	}
	return total
}
