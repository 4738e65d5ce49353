// Package problems has multi-objective test problems whose best returns are known: what an agent of package morl learns
// can be compared with what there is to learn.
//
// The problems are the benchmarks of the field with the maps and numbers of MO-Gymnasium (Felten et al. 2023, "A Toolkit
// for Reliable Benchmarking and Research in Multi-Objective Reinforcement Learning"), so that results can be placed
// beside published ones. What an agent sees differs: cells and nodes are one-hot, of order 1. No action is ever masked.
//
// It is not a collection of real decisions (see simulator/training), and it trains nothing.
//
// Example: the hypervolume a perfect agent reaches on deep-sea-treasure, and what a policy earns.
//
//	p := problems.DeepSeaTreasure(problems.Convex)
//	front, _ := p.KnownFront(0.99)
//	best := pareto.Hypervolume(front, p.Reference()) // 854.850
//	earned := p.Return(func(state []float32, _ []bool) int { return problems.Down }, 0.99) // [0.7 -1]
package problems

import (
	"fmt"

	"trainopt/morl"
)

// Policy chooses an action in a state as the environment encodes it; mask is as in morl.Observation. The state may be
// overwritten after the call.
type Policy = func(state []float32, mask []bool) int

// Problem is an environment with a known answer.
type Problem interface {
	morl.Environment

	// Name is its key in ByName.
	Name() string
	// Limit is the number of actions after which an episode is cut (Outcome.Cut), as MO-Gymnasium registers it. Agents
	// do not see the time, so the next state keeps its value.
	Limit() int
	// Reference is the customary reference point for the hypervolume, one number an objective.
	Reference() []float64
	// KnownFront lists the expected discounted returns of the Pareto-optimal deterministic stationary policies at
	// discount gamma in [0, 1], one row a point, sorted by the first objective, then the next ones; no two are equal.
	// exact is false where the points are an approximation, which agents may exceed. It panics on another gamma.
	KnownFront(gamma float64) (front [][]float64, exact bool)
	// Return is the exact expected discounted return of an episode under a deterministic policy that depends on the
	// state alone: Σ γ^t r_t over the at most Limit actions of the episode. It does not disturb an episode under way.
	// It asks the policy at most once a state where the states are finite. It panics on an action that is not there.
	Return(policy Policy, gamma float64) []float64
}

// ByName makes each problem, fresh, from its name.
var ByName = map[string]func() Problem{
	"deep-sea-treasure":         func() Problem { return DeepSeaTreasure(Convex) },
	"deep-sea-treasure-concave": func() Problem { return DeepSeaTreasure(Concave) },
	"fruit-tree-5":              func() Problem { return FruitTree(5) },
	"fruit-tree-6":              func() Problem { return FruitTree(6) },
	"minecart-deterministic":    func() Problem { return MinecartDeterministic() },
	"resource-gathering":        func() Problem { return ResourceGathering() },
}

// Actions of the problems on a grid.
const (
	Up = iota
	Down
	Left
	Right
)

// moves are the changes of row and column by Up, Down, Left, Right.
var moves = [4][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}

func checkGamma(name string, gamma float64) {
	if !(gamma >= 0 && gamma <= 1) {
		panic(fmt.Sprintf("problems: %s: discount %v is not in [0, 1]", name, gamma))
	}
}

func checkAction(name string, action, actions int) {
	if action < 0 || action >= actions {
		panic(fmt.Sprintf("problems: %s: action %d, want 0 to %d", name, action, actions-1))
	}
}
