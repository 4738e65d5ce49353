package morl

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/internal/wording"
	"trainopt/morl/network"
)

// transition is one decision and its result, from one step of the environment.
type transition struct {
	State  []float32
	Mask   []bool // allowed actions in State; nil means all
	Action int
	Reward []float32 // one value per objective
	Next   []float32
	// NextMask are the allowed actions in Next; nil means all.
	NextMask []bool
	// Done: the episode is over and the value of Next is 0. Cut: the episode was truncated, and Next still has a
	// value.
	Done, Cut bool
	// Work is the amount of work of the action: later rewards are discounted by γ^Work.
	Work float32
}

// Agent chooses actions for a preference and learns from the results. It is not safe for concurrent use.
type Agent interface {
	// Name returns the key of the agent in Agents.
	Name() string
	// Shape returns the shape of the environment that the agent was created for.
	Shape() Shape
	// Act returns an allowed action for the preference w (weights ≥ 0 that sum to 1, one per objective). With
	// explore, the action may deviate from the best known one; without, it is deterministic.
	Act(o Observation, w []float32, explore bool) int
	// Observe records a transition that was decided under preference w, and trains when due.
	Observe(t transition, w []float32)
	// Stats returns counters of the training so far.
	Stats() stats
	// Save writes the state that Act requires; Load restores it in an agent created with the same Shape and Config.
	Save(w io.Writer) error
	Load(r io.Reader) error
}

// stats holds counters of an agent's training.
type stats struct {
	Steps   int     // transitions observed
	Updates int     // gradient steps so far
	Loss    float64 // moving average of the critic's loss; NaN before the first update
	Resets  int     // number of replaced critics
}

// Config holds the settings of an agent. The zero value is useful; the defaults are those of RLConfig in SLA-MORL
// where it has them (arXiv 2508.03509 and its code).
type Config struct {
	Hidden  []int   // hidden layers of 1 to 2048 units, at most 8; default 256, 256
	Gamma   float64 // discount per unit of work; default 0.99, 1 for none
	Tau     float64 // update rate of the target networks; default 0.005
	Rate    float64 // learning rate of actor and critic; default 3e-4
	Batch   int     // rows per gradient step; default 64
	Buffer  int     // capacity of the replay buffer in transitions, at most 2²⁸ state numbers; default 100,000
	Every   int     // transitions between gradient steps; default 10
	Updates int     // gradient steps when due; default 1
	Warmup  int     // transitions before the first gradient step; default 10 batches
	Dropout float64 // dropout of hidden units; default 0.1 in simplePolicy and multiPolicy, else 0; negative: none

	// Exploration is the final share of random actions: it decreases linearly from 1 over ExploreSteps transitions.
	Exploration  float64 // default 0.05
	ExploreSteps int     // default 10,000
	// Anneal is the number of transitions over which the learning rate decreases to a hundredth (cosine); 0:
	// constant.
	Anneal int

	// Activation of the hidden units, one of network.Activations; default relu.
	Activation string `json:",omitempty"`
	// History is the number of observations in a state (see Remember), 0 means 1, and Recurrent the units of a recurrent
	// layer over them, 0: none.
	History   int `json:",omitempty"`
	Recurrent int `json:",omitempty"`
	// Graph computes gradients by Gorgonia graphs in builds that have them (network.Graphs).
	Graph bool `json:",omitempty"`

	// Policies are those of multiPolicy, one of multiLayouts: "" has one for each of defaultPreferences, "one" a balanced
	// one, and in "unweighted", as in SLA-MORL's code, the preferences select a policy, but all learn the balanced one.
	Policies string `json:",omitempty"`

	// Scale divides each objective inside the networks; nil: the largest absolute return during the warm-up.
	Scale []float64

	// Critics is the size of an ensemble of critics; default 2.
	Critics int
	// Resets controls the replacement of critics; the zero value disables it.
	Resets Resets
}

// withDefaults returns the settings with zeros replaced by the documented defaults. Dropout 0 remains 0; agents with
// another default set it themselves.
func (c Config) withDefaults() Config {
	if c.Hidden == nil {
		c.Hidden = []int{256, 256}
	}
	def := func(p *float64, v float64) {
		if *p == 0 {
			*p = v
		}
	}
	count := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Gamma, 0.99)
	def(&c.Tau, 0.005)
	def(&c.Rate, 3e-4)
	def(&c.Exploration, 0.05)
	count(&c.Batch, 64)
	count(&c.Buffer, 100_000)
	count(&c.Every, 10)
	count(&c.Updates, 1)
	count(&c.Warmup, 10*c.Batch)
	count(&c.ExploreSteps, 10_000)
	count(&c.Critics, 2)
	c.Dropout = max(0, c.Dropout)
	return c
}

// Validate reports all invalid settings.
func (c Config) Validate() error {
	var errs wording.Problems
	for _, h := range c.Hidden {
		errs.If(h < 1 || h > 1<<11, "hidden layer of %d units, want 1 to %d", h, 1<<11)
	}
	errs.If(len(c.Hidden) > 8, "%d hidden layers, want at most 8", len(c.Hidden))
	errs.If(c.Activation != "" && !slices.Contains(network.Activations, c.Activation), "activation %q, want one of %s", c.Activation, strings.Join(network.Activations, ", "))
	errs.If(!slices.Contains(multiLayouts, c.Policies), "policies %q, want one of %q", c.Policies, multiLayouts)
	errs.If(c.History > 1<<10, "history of %d observations, want at most %d", c.History, 1<<10)
	errs.If(c.Recurrent > 1<<11, "recurrent layer of %d units, want at most %d", c.Recurrent, 1<<11)
	errs.If(c.Recurrent > 0 && c.History < 2, "recurrent layer of %d units: want a history of 2 observations or more", c.Recurrent)
	errs.If(c.Batch > 1<<14, "batch %d, want at most %d", c.Batch, 1<<14)
	errs.If(c.Buffer > 1<<24, "buffer %d, want at most %d", c.Buffer, 1<<24)
	errs.If(c.Critics > 64, "critics %d, want at most 64", c.Critics)
	errs.If(c.Gamma < 0 || c.Gamma > 1, "discount γ = %g, want 0…1", c.Gamma)
	errs.If(c.Tau < 0 || c.Tau > 1, "target update rate τ = %g, want 0…1", c.Tau)
	errs.If(c.Rate < 0, "learning rate %g, want more than 0", c.Rate)
	errs.If(c.Dropout >= 1, "dropout %g, want less than 1", c.Dropout)
	errs.If(c.Exploration < 0 || c.Exploration > 1, "exploration %g, want 0…1", c.Exploration)
	for _, n := range []struct {
		name string
		v    int
	}{{"batch", c.Batch}, {"buffer", c.Buffer}, {"every", c.Every}, {"updates", c.Updates}, {"warmup", c.Warmup},
		{"exploration steps", c.ExploreSteps}, {"annealing steps", c.Anneal}, {"critics", c.Critics},
		{"history", c.History}, {"recurrent layer", c.Recurrent}} {
		errs.If(n.v < 0, "%s %d, want at least 0", n.name, n.v)
	}
	errs = append(errs, c.Resets.Validate())
	return errors.Join(errs...)
}

// network returns the description of a network whose first inputs are a state.
func (c Config) network(s Shape, inputs, outputs int) network.Config {
	n := network.Config{Inputs: inputs, Hidden: c.Hidden, Outputs: outputs, Dropout: float32(c.Dropout), Graph: c.Graph,
		Activation: network.Activation(max(0, slices.Index(network.Activations, c.Activation)))}
	if c.Recurrent > 0 {
		n.Recurrent = network.Recurrent{Units: c.Recurrent, Steps: c.History, Width: s.State / c.History}
	}
	return n
}

// Agents maps names to constructors. Each kind of agent is one file and one line here.
var Agents = map[string]func(s Shape, c Config, seed uint64) Agent{
	"envelope":    func(s Shape, c Config, seed uint64) Agent { return newEnvelope(s, c, seed) },
	"conditioned": func(s Shape, c Config, seed uint64) Agent { return newConditioned(s, c, seed) },
	"simple":      func(s Shape, c Config, seed uint64) Agent { return newSimple(s, c, seed) },
	"pareto":      func(s Shape, c Config, seed uint64) Agent { return newParetoSet(s, c, seed) },
	"pcn":         func(s Shape, c Config, seed uint64) Agent { return newParetoConditioned(s, c, seed) },
	"multi":       func(s Shape, c Config, seed uint64) Agent { return newMulti(s, c, seed) },
}

// New creates an untrained agent by its name in Agents.
func New(name string, s Shape, c Config, seed uint64) (Agent, error) {
	make, ok := Agents[name]
	if !ok {
		return nil, fmt.Errorf("agent %q: unknown, want one of %s", name, strings.Join(names(), ", "))
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, err)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, err)
	}
	if c.History > 1 && s.State%c.History != 0 {
		return nil, fmt.Errorf("agent %s: %d state numbers are not %d observations", name, s.State, c.History)
	}
	if err := c.withDefaults().network(s, s.State, s.Actions*len(s.Objectives)).Validate(); err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, err)
	}
	if c.Resets.Mode != "" && c.Resets.Debt >= len(s.Objectives) {
		return nil, fmt.Errorf("agent %s: resets look at objective %d of %d", name, c.Resets.Debt, len(s.Objectives))
	}
	return make(s, c, seed), nil
}

func names() []string {
	var out []string
	for n := range Agents {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// stream returns an independent generator per purpose, so that additional draws for one purpose do not affect
// another.
func stream(seed uint64, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }
