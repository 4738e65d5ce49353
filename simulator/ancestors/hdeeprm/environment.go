package hdeeprm

import (
	"fmt"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// Environment is a simulation as the environment of an agent: an episode is one run of the workload.
//
//	observation, done := environment.Reset()
//	for !done {
//		observation, reward, done = environment.Step(choose(observation))
//	}
//	result, err := environment.Result(), environment.Err()
//
// Reset costs O(cores + jobs) and allocates almost nothing. An Environment is not safe for concurrent use.
type Environment struct {
	simulation *queue.Simulation
	process    *Process
	jobs       []order.Job
	total      float64
	again      bool // the process requires another decision at this instant
	done       bool
	err        error
}

// NewEnvironment returns an environment of the jobs on the machine, before its first Reset. Zero limits mean
// LimitsOf(jobs).
func NewEnvironment(tree *platform.Tree, jobs []order.Job, limits Limits, settings Settings) (*Environment, error) {
	if limits == (Limits{}) {
		limits = LimitsOf(jobs)
	}
	simulation, err := queue.NewSimulation(tree, jobs)
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

// Actions returns the number of actions.
func (e *Environment) Actions() int { return e.process.Actions() }

// ObservationSize returns the number of values of an observation.
func (e *Environment) ObservationSize() int { return e.process.ObservationSize() }

// Reset begins an episode and returns the first observation, valid until the next step; done is true, without an
// observation, if no decision is required.
func (e *Environment) Reset() (observation []float32, done bool) {
	e.simulation.Reset()
	e.process.Reset(e.jobs, e.simulation)
	e.total, e.again, e.done, e.err = 0, false, false, nil
	return e.toDecision()
}

// Step executes an action and advances to the next decision. It returns the observation there, the reward of the
// action, and whether the episode has ended instead. An error ends the episode: see Err.
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

// toDecision advances the simulation to the next decision or to its end.
func (e *Environment) toDecision() ([]float32, bool) {
	for {
		if !e.again {
			if e.process.Err() != nil || !e.simulation.Next() {
				break
			}
			e.process.HandleEvents(e.simulation.Now(), e.simulation.Events(), e.simulation.Arrivals())
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

// Return returns the sum of the rewards of the episode so far.
func (e *Environment) Return() float64 { return e.total }

// Counts returns the counts of the episode.
func (e *Environment) Counts() Counts { return e.process.Counts() }

// Err returns the error that ended the episode early, or nil.
func (e *Environment) Err() error { return e.err }

// Result returns the present outcomes of the jobs. Reset does not affect it.
func (e *Environment) Result() *queue.Result { return e.simulation.Result() }

// Process returns the decision process, which must not be modified.
func (e *Environment) Process() *Process { return e.process }

// Simulation returns the simulation that executes the decisions, which must not be modified.
func (e *Environment) Simulation() *queue.Simulation { return e.simulation }

// Run runs one episode with the actions that choose returns for observations, which are valid until the next one. With
// an error, the result is partial.
func (e *Environment) Run(choose func(observation []float32) int) (*queue.Result, error) {
	observation, done := e.Reset()
	for !done {
		observation, _, done = e.Step(choose(observation))
	}
	if e.err != nil {
		return e.Result(), fmt.Errorf("simulate %d jobs on %d cores: %w", len(e.jobs), e.simulation.Result().Procs, e.err)
	}
	return e.Result(), nil
}

// Run runs one episode under the pair. seed is that of the random policies, compat as in Settings.
func (p Pair) Run(tree *platform.Tree, jobs []order.Job, seed int64, compat bool) (*queue.Result, Counts, error) {
	e, err := NewEnvironment(tree, jobs, Limits{}, p.Settings(seed, compat))
	if err != nil {
		return nil, Counts{}, err
	}
	r, err := e.Run(func([]float32) int { return 0 })
	return r, e.Counts(), err
}
