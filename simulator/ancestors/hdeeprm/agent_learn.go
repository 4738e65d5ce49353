package hdeeprm

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"trainopt/morl/gradient"
	"trainopt/morl/network"
	"trainopt/simulator/queue"
)

// AgentKind is the kind of policy files of these agents.
const AgentKind = "hdeeprm"

// AgentConfig are the settings of a learning agent, as options files have them. Zeros have the meaning that is noted.
type AgentConfig struct {
	Method string  // reinforce or a2c; "" is reinforce
	Hidden int     // width of the layers; 0: 128
	Rate   float64 // of Adam; 0: 1e-3
	Gamma  float64 // discount; 0: 0.99
	// Baseline, with reinforce, subtracts from every return the mean of this many runs before, 0 none. HDeepRM has none, and where
	// a run is a single decision, whose return it does not normalise, what was tried first may stay preferred.
	Baseline int
}

// World is what an agent lives in: an Environment.
type World interface {
	Reset() (observation []float32, done bool)
	Step(action int) (observation []float32, reward float64, done bool)
	Actions() int
	ObservationSize() int
	Result() *queue.Result
	Err() error
}

// LearningAgent is an agent of HDeepRM that learns: REINFORCE with five layers, or an actor-critic that shares the first, both with
// leaky ReLU, and one step of Adam for every simulation. The original of the second does not run; this is what it evidently means.
// One goroutine at a time.
type LearningAgent struct {
	l        *gradient.Learner
	baseline int
	returns  []float64 // of the last runs
	runs     uint64
}

// NewLearningAgent makes an agent for observations of so many numbers and so many actions.
func NewLearningAgent(observation, actions int, c AgentConfig, seed uint64) (*LearningAgent, error) {
	if c.Hidden == 0 {
		c.Hidden = 128
	}
	if c.Rate == 0 {
		c.Rate = 1e-3
	}
	if c.Gamma == 0 {
		c.Gamma = 0.99
	}
	if c.Method == "" {
		c.Method = "reinforce"
	}
	policy := map[string]string{"reinforce": "flat", "a2c": "shared"}[c.Method]
	var errs []error
	if policy == "" {
		errs = append(errs, fmt.Errorf("learning method %q: want reinforce or a2c", c.Method))
		policy = "flat"
		c.Method = "reinforce"
	}
	if c.Baseline < 0 || c.Baseline > 1<<20 {
		errs = append(errs, fmt.Errorf("a baseline of %d runs: want 0 or more", c.Baseline))
	}
	l, err := gradient.New(gradient.Shape{Rows: 1, Features: observation, Actions: actions}, gradient.Config{
		Method: c.Method, Policy: policy, Hidden: []int{c.Hidden, c.Hidden, c.Hidden, c.Hidden}, Activation: network.LeakyReLU,
		Rate: float32(c.Rate), Gamma: c.Gamma,
	}, seed)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("learning agent: %w", err)
	}
	return &LearningAgent{l: l, baseline: c.Baseline}, nil
}

// AgentRun is what one simulation was for the agent.
type AgentRun struct {
	Reward   float64   // sum of the rewards
	Loss     float64   // of the step that was made; NaN in tests
	Makespan float64   // s, the last end
	Actions  []int     // of every decision
	First    []float64 // the distribution of the first decision; nil without one
	Result   *queue.Result
}

// Run is one simulation, by draws from the policy, and when train is set a step of learning after it. The error is the world's, or
// gradient.ErrDiverged.
func (a *LearningAgent) Run(w World, train bool) (AgentRun, error) {
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
		report, err := a.l.Update(func() gradient.Environment { return r })
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

// Greedy is the most probable action.
func (a *LearningAgent) Greedy(observation []float32) int {
	return a.l.Policy().Greedy(gradient.Observation{X: observation})
}

// Decide is Greedy: a LearningAgent is a Decider.
func (a *LearningAgent) Decide(observation []float32, _ int) int { return a.Greedy(observation) }

var _ Decider = (*LearningAgent)(nil)

// recorder is a world as package gradient knows it, and writes down what happens.
type recorder struct {
	world    World
	policy   *gradient.Policy
	run      AgentRun
	baseline float64
}

func (r *recorder) Reset(*rand.Rand) (gradient.Observation, bool) {
	o, done := r.world.Reset()
	if !done {
		r.run.First = append([]float64(nil), r.policy.Probabilities(gradient.Observation{X: o})...)
	}
	return gradient.Observation{X: o}, done
}

func (r *recorder) Step(action int) (gradient.Observation, float64, bool) {
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
	return gradient.Observation{X: o}, reward, done
}

// Write stores the agent as a policy file. Notes are facts about where it comes from.
func (a *LearningAgent) Write(w io.Writer, notes map[string]string) error {
	return gradient.WriteFile(w, gradient.Meta{Kind: AgentKind, Notes: notes}, a.l)
}

// ReadLearningAgent reads an agent that Write stored, for observations of so many numbers and so many actions.
func ReadLearningAgent(r io.Reader, observation, actions int) (*LearningAgent, error) {
	m, l, err := gradient.ReadFile(r)
	if err != nil {
		return nil, err
	}
	if m.Kind != AgentKind {
		return nil, fmt.Errorf("policy for %q, want one for %s: %w", m.Kind, AgentKind, gradient.ErrForeign)
	}
	if m.Shape.Features != observation || m.Shape.Actions != actions {
		return nil, fmt.Errorf("%w for these options and this machine: it is for %d numbers and %d actions, want %d and %d",
			gradient.ErrForeign, m.Shape.Features, m.Shape.Actions, observation, actions)
	}
	return &LearningAgent{l: l}, nil
}
