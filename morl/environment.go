package morl

import "math/rand/v2"

// Shape says what an environment shows and takes.
type Shape struct {
	// State is the length of Observation.State, Actions the number of actions.
	State, Actions int
	// Objectives name the components of the reward, in order; more is better in each.
	Objectives []string
}

// Observation is what an agent sees before a decision.
type Observation struct {
	// State has Shape.State numbers, each of order 1. It may be overwritten by the next call of Reset or Step.
	State []float32
	// Mask has one entry an action, true where it is allowed; nil allows all. At least one is allowed unless the
	// episode is over. It may be overwritten by the next call of Reset or Step.
	Mask []bool
}

// Outcome is the result of an action.
type Outcome struct {
	Observation // of the next state; Mask may be nil when Done
	// Reward has one number an objective. It may be overwritten by the next call of Reset or Step.
	Reward []float32
	// Done is true when nothing follows: the value of the next state is 0.
	Done bool
	// Cut is true when the episode ends here only because of a limit on its length; the next state still has a value.
	Cut bool
	// Work is the amount of work that the action did: what follows is discounted by γ^Work. Most problems
	// do 1 an action; an action that only changes a plan does 0.
	Work float32
}

// Environment is a Markov decision process with finitely many actions and vector rewards. It is used by one goroutine at
// a time. All randomness comes from the generator given to Reset, which it keeps until the next Reset.
type Environment interface {
	Shape() Shape
	// Reset starts an episode.
	Reset(rng *rand.Rand) Observation
	// Step takes an action; it panics after the end of an episode and on a masked action.
	Step(action int) Outcome
}
