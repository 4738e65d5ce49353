package morl

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// Transition is one decision with its consequence, from one visit of the environment: stored whole or not at all.
type Transition struct {
	State  []float32
	Mask   []bool // allowed in State; nil: all
	Action int
	Reward []float32 // one number an objective
	Next   []float32
	// NextMask is what is allowed in Next; nil: all.
	NextMask []bool
	// Done: nothing follows, the value of Next is 0. Cut: the episode was cut here, Next still has a value.
	Done, Cut bool
	// Work is how much work the action did: what follows counts γ^Work.
	Work float32
}

// Agent chooses actions for a preference and learns from what follows. It is used by one goroutine at a time.
type Agent interface {
	// Name is the name in Agents.
	Name() string
	Shape() Shape
	// Act chooses an allowed action for the preference w (weights ≥ 0 that sum to 1, one an objective). With explore,
	// the action may deviate from the best known one; without, the same agent gives the same answer.
	Act(o Observation, w []float32, explore bool) int
	// Observe takes a transition in, decided under preference w, and trains when training is due.
	Observe(t Transition, w []float32)
	// Stats describes learning so far.
	Stats() Stats
	// Save writes everything that is needed to act; Load of an agent made with the same Shape and Config restores it.
	Save(w io.Writer) error
	Load(r io.Reader) error
}

// Stats describes how an agent's learning goes.
type Stats struct {
	Steps   int     // transitions observed
	Updates int     // gradient steps
	Loss    float64 // moving average of the critic's loss, NaN before the first update
	Resets  int     // critics replaced
}

// Config are the settings of an agent. The zero value is useful; the defaults are those of SLA-MORL's RLConfig where
// it has them (arXiv 2508.03509 and its code).
type Config struct {
	Hidden  []int   // hidden layers, default 256, 256
	Gamma   float64 // discount per unit of work, default 0.99; 1 is written as 1
	Tau     float64 // rate of the target networks, default 0.005
	Rate    float64 // learning rate of actor and critic, default 3e-4
	Batch   int     // default 64
	Buffer  int     // transitions kept, default 100,000
	Every   int     // transitions between gradient steps, default 10
	Updates int     // gradient steps when due, default 1
	Warmup  int     // transitions before the first, default 10 batches
	Dropout float64 // of hidden units, default 0.1 in SimplePolicy and MultiPolicy, 0 elsewhere; negative: none

	// Exploration is the share of random actions: from 1 falling linearly to Exploration over ExploreSteps transitions.
	Exploration  float64 // default 0.05
	ExploreSteps int     // default 10,000
	// Anneal is the number of transitions over which the learning rate falls to a hundredth (cosine); 0: constant.
	Anneal int

	// Scale divides each objective inside the networks; nil: the largest return seen in the warm-up.
	Scale []float64

	// Critics is the size of the ensemble of critics where an agent has one, default 2.
	Critics int
	// Resets say when a critic is replaced; zero: never.
	Resets Resets
}

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

// Validate reports every setting that makes no sense.
func (c Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, h := range c.Hidden {
		bad(h < 1, "hidden layer of %d units, want at least 1", h)
	}
	bad(c.Gamma < 0 || c.Gamma > 1, "discount γ = %g, want 0…1", c.Gamma)
	bad(c.Tau < 0 || c.Tau > 1, "target update rate τ = %g, want 0…1", c.Tau)
	bad(c.Rate < 0, "learning rate %g, want more than 0", c.Rate)
	bad(c.Dropout >= 1, "dropout %g, want less than 1", c.Dropout)
	bad(c.Exploration < 0 || c.Exploration > 1, "exploration %g, want 0…1", c.Exploration)
	for _, n := range []struct {
		name string
		v    int
	}{{"batch", c.Batch}, {"buffer", c.Buffer}, {"every", c.Every}, {"updates", c.Updates}, {"warmup", c.Warmup},
		{"exploration steps", c.ExploreSteps}, {"annealing steps", c.Anneal}, {"critics", c.Critics}} {
		bad(n.v < 0, "%s %d, want at least 0", n.name, n.v)
	}
	errs = append(errs, c.Resets.Validate())
	return errors.Join(errs...)
}

// Agents makes an agent by name: one file and one line here for each kind.
var Agents = map[string]func(s Shape, c Config, seed uint64) Agent{
	"envelope":    func(s Shape, c Config, seed uint64) Agent { return NewEnvelope(s, c, seed) },
	"conditioned": func(s Shape, c Config, seed uint64) Agent { return NewConditioned(s, c, seed) },
	"simple":      func(s Shape, c Config, seed uint64) Agent { return NewSimple(s, c, seed) },
	"multi":       func(s Shape, c Config, seed uint64) Agent { return NewMulti(s, c, seed) },
}

// New makes an agent by its name in Agents.
func New(name string, s Shape, c Config, seed uint64) (Agent, error) {
	make, ok := Agents[name]
	if !ok {
		return nil, fmt.Errorf("agent %q: unknown, want one of %s", name, strings.Join(names(), ", "))
	}
	if s.State < 1 || s.Actions < 1 || len(s.Objectives) < 1 {
		return nil, fmt.Errorf("agent %s: a shape of %d state numbers, %d actions, %d objectives", name, s.State, s.Actions, len(s.Objectives))
	}
	if err := c.Validate(); err != nil {
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

// stream is a generator of its own for each purpose, so that more draws for one do not change another.
func stream(seed uint64, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }
