// Package problems contains multi-objective test problems with known optimal returns, against which the agents of
// package morl are evaluated.
//
// The problems are standard benchmarks with the maps and constants of MO-Gymnasium (Felten et al. 2023, "A Toolkit
// for Reliable Benchmarking and Research in Multi-Objective Reinforcement Learning"), so that results are comparable
// with published ones. The observations differ: cells and nodes are one-hot, of order 1. No action is ever masked.
//
// It contains no real decision problems (see simulator/training), and trains no agents.
//
// Example: the hypervolume of a perfect agent on deep-sea-treasure, and the return of a policy.
//
//	p := problems.DeepSeaTreasure(problems.Convex)
//	best := pareto.Hypervolume(front, p.Reference()) // 854.850 for its front in testdata/fronts.json
//	earned := p.Return(func(state []float32, _ []bool) int { return problems.Down }, 0.99) // [0.7 -1]
package problems

import (
	"fmt"

	"trainopt/morl"
)

// tablePolicy returns an action for a state as encoded by the environment; mask is as in morl.Observation. The state may
// be overwritten after the call.
type tablePolicy = func(state []float32, mask []bool) int

// Problem is an environment with a known solution.
type Problem interface {
	morl.Environment

	// Name returns its key in ByName.
	Name() string
	// Limit returns the number of actions after which an episode is cut (Outcome.Cut), as registered by MO-Gymnasium.
	// Time is not part of the observation, so the next state keeps its value.
	Limit() int
	// Reference returns the customary reference point for the hypervolume, one value per objective.
	Reference() []float64
	// Return computes the exact expected discounted return of an episode under a deterministic policy that depends on
	// the state only: Σ γ^t r_t over the at most Limit actions of the episode. It does not affect the current
	// episode. With finitely many states it calls the policy at most once per state. It panics on an invalid action.
	Return(policy tablePolicy, gamma float64) []float64
}

// ByName maps names to constructors of new problems.
var ByName = map[string]func() Problem{
	"deep-sea-treasure":         func() Problem { return DeepSeaTreasure(Convex) },
	"deep-sea-treasure-concave": func() Problem { return DeepSeaTreasure(Concave) },
	"fruit-tree-5":              func() Problem { return fruitTree(5) },
	"fruit-tree-6":              func() Problem { return fruitTree(6) },
	"minecart-deterministic":    func() Problem { return minecartDeterministic() },
	"resource-gathering":        func() Problem { return resourceGathering() },
}

// Actions of the grid problems.
const (
	up = iota
	Down
	left
	right
)

// moves are the changes of row and column by Up, Down, Left, Right.
var moves = [4][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}

// checkGamma panics unless gamma is in [0, 1].
func checkGamma(name string, gamma float64) {
	if !(gamma >= 0 && gamma <= 1) {
		panic(fmt.Sprintf("problems: %s: discount %v is not in [0, 1]", name, gamma))
	}
}

// checkAction panics unless the action exists.
func checkAction(name string, action, actions int) {
	if action < 0 || action >= actions {
		panic(fmt.Sprintf("problems: %s: action %d, want 0 to %d", name, action, actions-1))
	}
}
