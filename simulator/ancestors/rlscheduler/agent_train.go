package rlscheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl/network"
)

// TrainOptions are the settings of a training. Zero values have the meaning noted.
type TrainOptions struct {
	// Method is ppo, as in RLScheduler, or evolution, which scores policies by whole episodes of their most probable
	// actions; "" means evolution.
	Method string          `json:"method"`
	Sight  observationKind `json:"sight"`  // "" means wide with evolution, published with ppo
	Hidden []int           `json:"hidden"` // layers of the policy; nil means none with evolution, 32, 16, 8 with ppo
	Seed   uint64          `json:"seed"`

	Metric   metric `json:"metric,omitempty"`
	Relative bool   `json:"relative,omitempty"` // see agentSettings
	// Logarithm: see agentSettings.
	Logarithm bool     `json:"logarithm,omitempty"`
	Sequence  Sequence `json:"sequence"`

	Updates  int `json:"updates"`  // updates of ppo, or generations of evolution; 0 means 50
	Episodes int `json:"episodes"` // episodes per update, or per candidate; 0 means 100 with ppo, 16 with evolution

	// PPO and Evolution are the remaining settings of each method; the fields above take precedence.
	PPO       network.PolicyConfig `json:"ppo"`
	Evolution network.Evolution    `json:"evolution"`

	// Validation is the number of sequences, drawn once from Sequence, that the policy plays greedily after every
	// Every updates (0 means 10); the best parameters are kept. 0 means no validation: the last parameters are kept.
	Validation int `json:"validation,omitempty"`
	Every      int `json:"every,omitempty"`

	Workers int `json:"-"` // goroutines; 0 means 1
}

// WithDefaults replaces zero values by their defaults.
func (o TrainOptions) WithDefaults() TrainOptions {
	o.Method = cmp.Or(o.Method, "evolution")
	hidden, sight, episodes := []int{}, wideSight, 16
	if o.Method == "ppo" {
		hidden, sight, episodes = []int{32, 16, 8}, publishedSight, 100
	}
	if o.Hidden == nil {
		o.Hidden = hidden
	}
	o.Sight = cmp.Or(o.Sight, sight)
	o.Episodes = cmp.Or(o.Episodes, episodes)
	o.Updates = cmp.Or(o.Updates, 50)
	o.Every = cmp.Or(o.Every, 10)
	o.Sequence.Length = cmp.Or(o.Sequence.Length, 256)
	return o
}

// Validate returns all problems of the options joined.
func (o TrainOptions) Validate() error {
	o = o.WithDefaults()
	var errs []error
	if o.Method != "ppo" && o.Method != "evolution" {
		errs = append(errs, fmt.Errorf("training method %q: want ppo or evolution", o.Method))
	}
	if o.Updates < 0 || o.Every < 0 || o.Episodes < 0 || o.Validation < 0 {
		errs = append(errs, fmt.Errorf("%d updates of %d episodes, judged by %d every %d: want 0 or more", o.Updates, o.Episodes, o.Validation, o.Every))
	}
	errs = append(errs, o.settings().Validate(), o.gradient().Validate(), o.Evolution.Validate())
	return errors.Join(errs...)
}

func (o TrainOptions) settings() agentSettings {
	return agentSettings{Sight: o.Sight, Metric: o.Metric, Relative: o.Relative, Logarithm: o.Logarithm}
}

func (o TrainOptions) gradient() network.PolicyConfig {
	c := o.PPO
	c.Method, c.Policy, c.Hidden, c.Episodes, c.Workers = "ppo", "kernel", o.Hidden, o.Episodes, o.Workers
	if o.Method == "evolution" {
		c.HeadHidden = []int{1} // evolution requires no critic
	}
	return c
}

// TrainProgress is reported after each update.
type TrainProgress struct {
	Update int
	Return float64 // mean over the episodes, or return of the best candidate
	// Validation is the mean return of the validation sequences, NaN for updates without validation.
	Validation float64
	Report     network.Report // of ppo only
}

// Train trains an agent on a trace. If from is not nil, training continues from that agent, which must have the same
// method, sight and layers. When ctx is cancelled, Train returns the agent trained so far without an error. Equal
// options produce equal agents for any number of workers. say, if not nil, is called after every update.
func Train(ctx context.Context, t *Trace, o TrainOptions, from *Agent, say func(TrainProgress)) (*Agent, error) {
	o = o.WithDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("train an agent: %w", err)
	}
	shape, err := o.Sight.Shape()
	if err != nil {
		return nil, err
	}
	l, err := network.NewLearner(shape, o.gradient(), o.Seed)
	if err != nil {
		return nil, fmt.Errorf("train an agent: %w", err)
	}
	a := &Agent{Options: o, learner: l}
	if from != nil {
		if err := a.copyNetworks(from); err != nil {
			return nil, err
		}
	} else if o.Method == "evolution" {
		a.initialise(t)
	}
	if _, err := newAgentEnvironment(t, o.Sequence, o.settings()); err != nil {
		return nil, fmt.Errorf("train an agent: %w", err)
	}
	update, err := a.updates(t)
	if err != nil {
		return nil, err
	}
	return a, a.train(ctx, t, update, say)
}

// initialise sets a policy of evolution with the rule "smallest area first", provided that the hidden layers are
// wide enough to pass all features on. Features are not negative, so ReLU units transmit them unchanged.
func (a *Agent) initialise(t *Trace) {
	request, procs := 0, 1
	ratio := math.Log(float64(max(2, t.Procs))) / 12 // ratio of weights for equal steps of the two logarithms
	if a.Options.Sight == publishedSight {
		request, procs, ratio = 1, 2, 1
	}
	// Hidden layers become the identity on the features; the output layer weights request and processors by −1 and
	// −ratio.
	n := a.learner.Networks()[0]
	in, params := n.Inputs, n.Params()
	for _, out := range n.Hidden {
		if out < n.Inputs {
			return
		}
		for i := range in {
			for j := range n.Inputs {
				params[i*out+j] = 0
				if i == j {
					params[i*out+j] = 1
				}
			}
		}
		params, in = params[(in+1)*out:], out
	}
	clear(params)
	params[request], params[procs] = -1, -float32(ratio)
}

// copyNetworks copies the networks of another agent. It returns an error where method, sight or layers differ.
func (a *Agent) copyNetworks(from *Agent) error {
	if from.Options.Sight != a.Options.Sight || !slices.Equal(from.Options.Hidden, a.Options.Hidden) || from.Options.Method != a.Options.Method {
		return fmt.Errorf("train on: the agent was trained by %s, sees %s, and has layers %v: want %s, %s and %v", from.Options.Method,
			from.Options.Sight, from.Options.Hidden, a.Options.Method, a.Options.Sight, a.Options.Hidden)
	}
	for i, n := range a.learner.Networks() {
		other := from.learner.Networks()[i]
		if len(other.Params()) != len(n.Params()) {
			return fmt.Errorf("train on: network %d is %v, want %v", i, other.Config, n.Config)
		}
		copy(n.Params(), other.Params())
	}
	return nil
}

// updates returns the function that performs one update of the configured method: an update of PPO, or one generation
// of evolution. Environments are created for each worker.
func (a *Agent) updates(t *Trace) (func(*TrainProgress) error, error) {
	env := func() network.Environment {
		e, err := newAgentEnvironment(t, a.Options.Sequence, a.Options.settings())
		if err != nil {
			panic(err) // the same environment was created before without an error
		}
		return e
	}
	if a.Options.Method == "ppo" {
		return func(p *TrainProgress) (err error) {
			p.Report, err = a.learner.Update(env)
			for _, r := range p.Report.Returns {
				p.Return += r / float64(len(p.Report.Returns))
			}
			return err
		}, nil
	}
	c := a.Options.Evolution
	c.Episodes, c.Workers = a.Options.Episodes, a.Options.Workers
	e, err := network.NewEvolver(a.learner, c)
	return func(p *TrainProgress) error {
		returns, err := e.Generation(env)
		if err == nil {
			p.Return = returns[0]
		}
		return err
	}, err
}

// train performs the updates until the context ends, reports each, and finally restores the parameters that were best
// in validation.
func (a *Agent) train(ctx context.Context, t *Trace, update func(*TrainProgress) error, say func(TrainProgress)) error {
	best, kept := math.Inf(-1), [][]float32(nil)
	for i := 1; i <= a.Options.Updates && ctx.Err() == nil; i++ {
		p := TrainProgress{Update: i, Validation: math.NaN()}
		if err := update(&p); err != nil {
			return err
		}
		if a.Options.Validation > 0 && (i%a.Options.Every == 0 || i == a.Options.Updates) {
			var err error
			if p.Validation, err = a.validate(t); err != nil {
				return err
			}
			if p.Validation > best {
				best, kept = p.Validation, kept[:0]
				for _, n := range a.learner.Networks() {
					kept = append(kept, slices.Clone(n.Params()))
				}
			}
		}
		if say != nil {
			say(p)
		}
	}
	for i, n := range kept {
		copy(a.learner.Networks()[i].Params(), n)
	}
	return nil
}

// validate returns the mean return of the validation sequences, played greedily.
func (a *Agent) validate(t *Trace) (float64, error) {
	env, err := newAgentEnvironment(t, a.Options.Sequence, a.Options.settings())
	if err != nil {
		return 0, err
	}
	sum, policy := 0.0, a.learner.Policy()
	for i := range a.Options.Validation {
		o, done := env.Reset(rand.New(rand.NewPCG(a.Options.Seed, uint64(i))))
		for !done {
			var reward float64
			o, reward, done = env.Step(policy.Greedy(o))
			sum += reward
		}
	}
	return sum / float64(a.Options.Validation), nil
}
