// Package gradient learns policies by their gradient: REINFORCE, advantage actor-critic, and proximal policy optimisation, for
// scalar rewards, masked actions, and policies that score each of a number of rows by the same small network. Evolution changes
// the parameters of the same policies without a gradient, where only whole episodes can be judged.
//
// It knows nothing of jobs: what is decided on comes as an Environment. It is not for vector rewards, which package morl learns.
// The same seed gives the same parameters on any number of cores of one kind.
//
// Example, a policy for an environment of three actions:
//
//	l, err := gradient.New(gradient.Shape{Rows: 1, Features: 4, Actions: 3}, gradient.Config{Method: "ppo", Policy: "flat"}, 1)
//	for range 100 {
//		report, err := l.Update(func() gradient.Environment { return newMaze() })
//	}
//	action := l.Policy().Greedy(o)
package gradient

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Environment is what a policy learns in. An episode depends on the generator that Reset is given and on the actions alone, so
// that it does not matter which of several copies runs it.
type Environment interface {
	// Reset starts an episode. It may have no decision at all: then done is true and o is not looked at.
	Reset(rng *rand.Rand) (o Observation, done bool)
	// Step takes an action that the last observation allows. At the end of the episode next is not looked at, and a reward that is
	// NaN says that none came for the action, from which nothing is learned then.
	Step(action int) (next Observation, reward float64, done bool)
}

// Observation is what is seen before a decision. Both slices are valid until the next Step or Reset, and are only read.
type Observation struct {
	X    []float32 // rows × Shape.Features, row-major: at most Shape.Rows rows, at least one
	Mask []bool    // the actions that are allowed, at least one; nil is all: every row, or every action of the Shape
}

// Shape is the form of observations and actions.
type Shape struct {
	Rows     int `json:"rows"`     // most rows of an observation; 1 for a plain vector
	Features int `json:"features"` // numbers in a row
	// Actions is the number of actions; 0: an action is a row, the first is 0.
	Actions int `json:"actions,omitempty"`
	// Padding is what critics see in place of rows that an observation lacks, Features numbers; nil is zeros.
	Padding []float32 `json:"padding,omitempty"`
}

const (
	maxRows     = 1 << 14
	maxFeatures = 1 << 20
	maxActions  = 1 << 16
)

// Validate says what is wrong with the shape.
func (s Shape) Validate() error {
	var errs []error
	if s.Rows < 1 || s.Rows > maxRows {
		errs = append(errs, fmt.Errorf("shape of %d rows: want 1 to %d", s.Rows, maxRows))
	}
	if s.Features < 1 || s.Features > maxFeatures {
		errs = append(errs, fmt.Errorf("shape of %d features: want 1 to %d", s.Features, maxFeatures))
	}
	if s.Actions < 0 || s.Actions > maxActions {
		errs = append(errs, fmt.Errorf("shape of %d actions: want 0 to %d", s.Actions, maxActions))
	}
	if s.Padding != nil && len(s.Padding) != s.Features {
		errs = append(errs, fmt.Errorf("padding of %d numbers for rows of %d", len(s.Padding), s.Features))
	}
	return errors.Join(errs...)
}
