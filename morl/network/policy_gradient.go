package network

// Learner trains policies by their gradient: REINFORCE, advantage actor-critic, and proximal policy
// optimisation, for scalar rewards, masked actions, and policies that score each of several rows by the same small
// network. Evolver optimises the same policies without a gradient, where only whole episodes can be evaluated.
//
// It is independent of jobs: decision problems implement Environment. Vector rewards are the subject of package morl.
// The same seed yields the same parameters on any number of cores of one kind.
//
// Example, a policy for an environment with three actions:
//
//	l, err := network.NewLearner(network.Shape{Rows: 1, Features: 4, Actions: 3}, network.PolicyConfig{Method: "ppo", Policy: "flat"}, 1)
//	for range 100 {
//		report, err := l.Update(func() network.Environment { return newMaze() })
//	}
//	action := l.Policy().Greedy(o)

import (
	"errors"
	"math/rand/v2"

	"trainopt/internal/wording"
)

// Environment is a decision process in which a policy is trained. An episode depends only on the generator passed to
// Reset and on the actions, so any of several copies of the environment can run it.
type Environment interface {
	// Reset starts an episode. An episode may contain no decision: then done is true and o is ignored.
	Reset(rng *rand.Rand) (o Observation, done bool)
	// Step executes an action that the last observation allows. At the end of the episode next is ignored, and a NaN
	// reward means that the last action has no reward and is excluded from training.
	Step(action int) (next Observation, reward float64, done bool)
}

// Observation is the input of a decision. Both slices are valid until the next Step or Reset, and are read-only.
type Observation struct {
	X    []float32 // rows × Shape.Features, row-major: at most Shape.Rows rows, at least one
	Mask []bool    // allowed actions, at least one; nil means all: every row, or every action of the Shape
}

// Shape holds the dimensions of observations and actions.
type Shape struct {
	Rows     int `json:"rows"`     // maximum number of rows per observation; 1 for a plain vector
	Features int `json:"features"` // numbers per row
	// Actions is the number of actions; 0: each row is an action, starting at 0.
	Actions int `json:"actions,omitempty"`
	// Padding is the input of critics for missing rows, Features numbers; nil means zeros.
	Padding []float32 `json:"padding,omitempty"`
}

const (
	maxRows     = 1 << 14
	maxFeatures = 1 << 20
	maxActions  = 1 << 16
)

// Validate reports all invalid dimensions.
func (s Shape) Validate() error {
	var errs wording.Problems
	errs.If(s.Rows < 1 || s.Rows > maxRows, "shape of %d rows: want 1 to %d", s.Rows, maxRows)
	errs.If(s.Features < 1 || s.Features > maxFeatures, "shape of %d features: want 1 to %d", s.Features, maxFeatures)
	errs.If(s.Actions < 0 || s.Actions > maxActions, "shape of %d actions: want 0 to %d", s.Actions, maxActions)
	errs.If(s.Padding != nil && len(s.Padding) != s.Features, "padding of %d numbers for rows of %d", len(s.Padding), s.Features)
	return errors.Join(errs...)
}
