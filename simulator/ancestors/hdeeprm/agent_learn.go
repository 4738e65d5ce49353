package hdeeprm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"trainopt/morl/network"
	"trainopt/simulator/queue"
)

// AgentKind identifies these agents in policy files.
const AgentKind = "hdeeprm"

// AgentConfig holds the settings of a learning agent, as in options files. Zero values have the meaning noted.
type AgentConfig struct {
	Method string  // reinforce or a2c; "" means reinforce
	Hidden int     // width of the layers; 0 means 128
	Rate   float64 // learning rate of Adam; 0 means 1e-3
	Gamma  float64 // discount; 0 means 0.99
	// Baseline, used with reinforce, is the number of preceding runs whose mean return is subtracted from every
	// return; 0 means no baseline, as in HDeepRM. Without it, a run of a single decision, whose return is not
	// normalised, may reinforce the action tried first.
	Baseline int
}

// maxBaseline is the largest AgentConfig.Baseline.
const maxBaseline = 1 << 20

// world is the environment of an agent, implemented by Environment.
type world interface {
	Reset() (observation []float32, done bool)
	Step(action int) (observation []float32, reward float64, done bool)
	Actions() int
	ObservationSize() int
	Result() *queue.Result
	Err() error
}

// LearningAgent is a learning agent of HDeepRM: REINFORCE with five layers, or an actor-critic that shares the first
// layers; both use leaky ReLU and one step of Adam per simulation. HDeepRM's code of the actor-critic does not run;
// this is its evident intention. A LearningAgent is not safe for concurrent use.
type LearningAgent struct {
	l        *network.Learner
	baseline int
	returns  []float64 // returns of the last runs
	runs     uint64
}

// NewLearningAgent returns an agent for observations of the given size and the given number of actions.
func NewLearningAgent(observation, actions int, c AgentConfig, seed uint64) (*LearningAgent, error) {
	c.Hidden = cmp.Or(c.Hidden, 128)
	c.Rate = cmp.Or(c.Rate, 1e-3)
	c.Gamma = cmp.Or(c.Gamma, 0.99)
	c.Method = cmp.Or(c.Method, "reinforce")
	policy := map[string]string{"reinforce": "flat", "a2c": "shared"}[c.Method]
	var errs []error
	if policy == "" {
		errs = append(errs, fmt.Errorf("learning method %q: want reinforce or a2c", c.Method))
		policy = "flat"
		c.Method = "reinforce"
	}
	if c.Baseline < 0 || c.Baseline > maxBaseline {
		errs = append(errs, fmt.Errorf("a baseline of %d runs: want 0 or more", c.Baseline))
	}
	l, err := network.NewLearner(network.Shape{Rows: 1, Features: observation, Actions: actions}, network.PolicyConfig{
		Method: c.Method, Policy: policy, Hidden: []int{c.Hidden, c.Hidden, c.Hidden, c.Hidden}, Activation: network.LeakyReLU,
		Rate: float32(c.Rate), Gamma: c.Gamma,
	}, seed)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("learning agent: %w", err)
	}
	return &LearningAgent{l: l, baseline: c.Baseline}, nil
}

// AgentRun is the agent's view of one simulation.
type AgentRun struct {
	Reward   float64   // sum of the rewards
	Loss     float64   // loss of the update; NaN without training
	Makespan float64   // time of the last end, s
	Actions  []int     // by decision
	First    []float64 // action probabilities at the first decision; nil if none was due
	Result   *queue.Result
}

// Run runs one simulation, sampling actions from the policy, and if train is set, one update after it. The error is
// that of the world, or that of a learner that diverged.
func (a *LearningAgent) Run(w world, train bool) (AgentRun, error) {
	r := &recorder{world: w, policy: a.l.Policy()}
	if a.baseline > 0 && len(a.returns) > 0 {
		for _, v := range a.returns {
			r.baseline += v / float64(len(a.returns))
		}
	}
	run := &r.run
	run.Loss = math.NaN()
	a.runs++
	if train {
		report, err := a.l.Update(func() network.Environment { return r })
		if err != nil {
			return *run, err
		}
		run.Loss = report.PolicyLoss
		if !math.IsNaN(report.ValueLoss) {
			run.Loss += report.ValueLoss
		}
	} else {
		rng := rand.New(rand.NewPCG(a.l.Seed(), a.runs))
		o, done := r.Reset(nil)
		for !done {
			action, _ := r.policy.Sample(o, rng)
			o, _, done = r.Step(action)
		}
	}
	if a.returns = append(a.returns, run.Reward); len(a.returns) > a.baseline {
		a.returns = a.returns[1:]
	}
	run.Result = w.Result()
	for i := range run.Result.Jobs {
		if end := run.Result.Jobs[i].End; end > run.Makespan {
			run.Makespan = end
		}
	}
	return *run, w.Err()
}

// Greedy returns the most probable action.
func (a *LearningAgent) Greedy(observation []float32) int {
	return a.l.Policy().Greedy(network.Observation{X: observation})
}

// recorder adapts a World to network.Environment and records the run.
type recorder struct {
	world    world
	policy   *network.Policy
	run      AgentRun
	baseline float64
}

func (r *recorder) Reset(*rand.Rand) (network.Observation, bool) {
	o, done := r.world.Reset()
	if !done {
		r.run.First = append([]float64(nil), r.policy.Probabilities(network.Observation{X: o})...)
	}
	return network.Observation{X: o}, done
}

// Step subtracts the baseline from the reward. A final action that the process did not reward yields NaN.
func (r *recorder) Step(action int) (network.Observation, float64, bool) {
	counter, counts := r.world.(interface{ Process() *Process })
	before := 0
	if counts {
		_, before = counter.Process().Rewarded()
	}
	o, reward, done := r.world.Step(action)
	r.run.Actions = append(r.run.Actions, action)
	r.run.Reward += reward
	reward -= r.baseline
	if done && counts {
		if _, after := counter.Process().Rewarded(); after == before {
			reward = math.NaN()
		}
	}
	return network.Observation{X: o}, reward, done
}

// agentState is the state of an agent beyond its networks, as stored in a policy file.
type agentState struct {
	Baseline int       `json:"baseline"`
	Returns  []float64 `json:"returns"` // of the last runs, at most maxStoredReturns
	Runs     uint64    `json:"runs"`
}

// maxStoredReturns bounds the returns in a policy file, whose description has a limited size.
const maxStoredReturns = 1 << 14

// Write stores the agent as a policy file. Notes describe its origin.
func (a *LearningAgent) Write(w io.Writer, notes map[string]string) error {
	state, err := json.Marshal(agentState{a.baseline, a.returns[max(0, len(a.returns)-maxStoredReturns):], a.runs})
	if err != nil {
		return fmt.Errorf("write agent: %w", err)
	}
	return network.WriteFile(w, network.Meta{Kind: AgentKind, Notes: notes, State: state}, a.l)
}

// ReadLearningAgent reads an agent stored by Write; it continues with the baseline and the runs of the stored one. Its
// sizes of observation and action space must equal the given ones. A file without a state yields an agent without a
// baseline.
func ReadLearningAgent(r io.Reader, observation, actions int) (*LearningAgent, error) {
	m, l, err := network.ReadFile(r)
	if err != nil {
		return nil, err
	}
	if m.Kind != AgentKind {
		return nil, fmt.Errorf("policy for %q, want one for %s: %w", m.Kind, AgentKind, network.ErrForeign)
	}
	if m.Shape.Features != observation || m.Shape.Actions != actions {
		return nil, fmt.Errorf("%w for these options and this machine: it is for %d numbers and %d actions, want %d and %d",
			network.ErrForeign, m.Shape.Features, m.Shape.Actions, observation, actions)
	}
	var s agentState
	if len(m.State) > 0 {
		err = json.Unmarshal(m.State, &s)
	}
	if err != nil || s.Baseline < 0 || s.Baseline > maxBaseline || len(s.Returns) > s.Baseline {
		return nil, fmt.Errorf("read agent: baseline of %d runs, %d returns (%v): %w", s.Baseline, len(s.Returns), err, network.ErrCorrupt)
	}
	return &LearningAgent{l: l, baseline: s.Baseline, returns: s.Returns, runs: s.Runs}, nil
}
