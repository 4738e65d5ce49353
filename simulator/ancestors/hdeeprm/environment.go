package hdeeprm

import (
	"fmt"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

// Decider chooses an action, 0…actions−1, from an observation, which it may keep until its next decision only.
type Decider interface {
	Decide(observation []float32, actions int) int
}

// Always is the agent that takes the same action each time.
type Always int

// Decide is that action.
func (a Always) Decide([]float32, int) int { return int(a) }

// Environment is a whole simulation as an agent lives in it: one episode is one run of the workload.
//
//	observation, done := environment.Reset()
//	for !done {
//		observation, reward, done = environment.Step(choose(observation))
//	}
//	result, err := environment.Result(), environment.Err()
//
// Resetting costs O(cores + jobs) and allocates next to nothing. It is not safe for use by several goroutines.
type Environment struct {
	simulation *cores.Simulation
	process    *Process
	jobs       []queue.Job
	total      float64
	again      bool // the process asks once more at the same instant
	done       bool
	err        error
}

// NewEnvironment is an environment of these jobs on this machine, before its first Reset. Zero limits are LimitsOf(jobs).
func NewEnvironment(tree *platform.Tree, jobs []queue.Job, limits Limits, settings Settings) (*Environment, error) {
	if limits == (Limits{}) {
		limits = LimitsOf(jobs)
	}
	simulation, err := cores.NewSimulation(tree, jobs)
	if err != nil {
		return nil, err
	}
	if settings.Compat {
		simulation.RoundPower()
	}
	process, err := NewProcess(tree, limits, settings)
	if err != nil {
		return nil, err
	}
	return &Environment{simulation: simulation, process: process, jobs: jobs, done: true}, nil
}

// Actions is the number of actions.
func (e *Environment) Actions() int { return e.process.Actions() }

// ObservationSize is the number of values of an observation.
func (e *Environment) ObservationSize() int { return e.process.ObservationSize() }

// Seed is of the random policies from the next Reset on.
func (e *Environment) Seed(seed int64) { e.process.settings.Seed = seed }

// Reset begins an episode: the first observation, which the next step overwrites; done, without one, when no decision is needed.
func (e *Environment) Reset() (observation []float32, done bool) {
	e.simulation.Reset()
	e.process.Reset(e.jobs, e.simulation)
	e.total, e.again, e.done, e.err = 0, false, false, nil
	return e.toDecision()
}

// Step does an action, and goes on to where the agent has to decide again: what it sees there, what the action was worth, and
// whether the episode is over instead. An episode that ends in an error is over too: see Err.
func (e *Environment) Step(action int) (observation []float32, reward float64, done bool) {
	if e.done {
		return nil, 0, true
	}
	_, before := e.process.Rewarded()
	e.process.Act(action)
	e.again = e.process.Close()
	observation, done = e.toDecision()
	if last, count := e.process.Rewarded(); count > before {
		reward = last
		e.total += last
	}
	return observation, reward, done
}

// toDecision goes on until the agent has to decide.
func (e *Environment) toDecision() ([]float32, bool) {
	for {
		if !e.again {
			if e.process.Err() != nil || !e.simulation.Next() {
				break
			}
			e.process.Take(e.simulation.Now(), e.simulation.Events(), e.simulation.Arrivals())
		}
		if e.process.Due() {
			return e.process.Observe(), false
		}
		e.again = e.process.Close()
	}
	e.done = true
	if e.err = e.simulation.Err(); e.err == nil {
		e.err = e.process.Finish()
	}
	return nil, true
}

// Return is the sum of the rewards of the episode until now.
func (e *Environment) Return() float64 { return e.total }

// Counts are what the decisions came to.
func (e *Environment) Counts() Counts { return e.process.Counts() }

// Err is why the episode ended before its time; nil when it did not.
func (e *Environment) Err() error { return e.err }

// Result is what has become of the jobs until now; it stays as it is after Reset.
func (e *Environment) Result() *queue.Result { return e.simulation.Result() }

// Process is the process that decides, and Simulation what obeys it; both are to be read only.
func (e *Environment) Process() *Process { return e.process }

// Simulation is what obeys the decisions.
func (e *Environment) Simulation() *cores.Simulation { return e.simulation }

// Run runs one episode. The result is complete when the error is nil; else it is as far as it went.
func (e *Environment) Run(agent Decider) (*queue.Result, error) {
	observation, done := e.Reset()
	for !done {
		observation, _, done = e.Step(agent.Decide(observation, e.Actions()))
	}
	if e.err != nil {
		return e.Result(), fmt.Errorf("simulate %d jobs on %d cores: %w", len(e.jobs), e.simulation.Result().Procs, e.err)
	}
	return e.Result(), nil
}

// RunPair runs one episode under one pair of policies; seed is of the random ones, compat as in Settings. Nothing is observed.
func RunPair(tree *platform.Tree, jobs []queue.Job, pair Pair, seed int64, compat bool) (*queue.Result, Counts, error) {
	e, err := NewEnvironment(tree, jobs, Limits{}, Settings{Actions: []Pair{pair}, Void: true, View: Minimal, Objective: Completion, Seed: seed, Compat: compat})
	if err != nil {
		return nil, Counts{}, err
	}
	e.process.blind = true
	result, err := e.Run(Always(0))
	return result, e.Counts(), err
}
