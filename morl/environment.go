package morl

import (
	"fmt"
	"math/rand/v2"
)

// Shape holds the dimensions of an environment.
type Shape struct {
	// State is the length of Observation.State, Actions the number of actions.
	State, Actions int
	// Objectives names the components of the reward, in order; all are maximised.
	Objectives []string
}

// validate bounds what an agent can be made for, and read from a file.
func (s Shape) validate() error {
	if s.State < 1 || s.State > 1<<16 || s.Actions < 1 || s.Actions > 1<<12 || len(s.Objectives) < 1 || len(s.Objectives) > 64 {
		return fmt.Errorf("%d state numbers, %d actions, %d objectives: want 1 to %d, %d, 64", s.State, s.Actions, len(s.Objectives), 1<<16, 1<<12)
	}
	return nil
}

// Observation is the input of a decision.
type Observation struct {
	// State has Shape.State numbers, each of order 1. The next call of Reset or Step may overwrite it.
	State []float32
	// Mask has one entry per action, true if it is allowed; nil allows all. At least one action is allowed unless the
	// episode is over. The next call of Reset or Step may overwrite it.
	Mask []bool
}

// Outcome is the result of an action.
type Outcome struct {
	Observation // of the next state; Mask may be nil if Done
	// Reward has one value per objective. The next call of Reset or Step may overwrite it.
	Reward []float32
	// Done reports that the episode is over: the value of the next state is 0.
	Done bool
	// Cut reports that the episode ends here only because of a limit on its length; the next state still has a value.
	Cut bool
	// Work is the amount of work of the action: later rewards are discounted by γ^Work. In most problems each action
	// has work 1; an action that only changes a plan has work 0.
	Work float32
}

// Environment is a Markov decision process with finitely many actions and vector rewards. It is not safe for
// concurrent use. All randomness comes from the generator passed to Reset, which it retains until the next Reset.
type Environment interface {
	// Shape returns the dimensions; they never change.
	Shape() Shape
	// Reset starts an episode.
	Reset(rng *rand.Rand) Observation
	// Step executes an action. It panics after the end of an episode and on a masked action.
	Step(action int) Outcome
}
