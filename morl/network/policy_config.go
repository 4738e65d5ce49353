package network

import (
	"errors"
	"maps"
	"slices"

	"trainopt/internal/wording"
)

// PolicyConfig holds the settings of a Learner. Zero values mean the documented defaults.
type PolicyConfig struct {
	Method string `json:"method"` // key in Methods: reinforce, a2c, ppo; "" means ppo
	Policy string `json:"policy"` // key in Policies: kernel, flat, shared; "" means flat

	Hidden     []int      `json:"hidden"`               // hidden layers of the policy (and its critic); nil: 32, 16, 8
	HeadHidden []int      `json:"head_hidden"`          // of kernel's critic over the values of the rows; nil: 64, 32, 8
	Activation Activation `json:"activation,omitempty"` // of all hidden units

	Rate      float32 `json:"rate,omitempty"`       // learning rate of Adam; 0: 3e-4
	ValueRate float32 `json:"value_rate,omitempty"` // learning rate of the critic in ppo; 0: 1e-3
	ClipNorm  float32 `json:"clip_norm,omitempty"`  // maximum norm of a network's gradient; 0: no limit
	Gamma     float64 `json:"gamma,omitempty"`      // discount per step; 0: 1
	Entropy   float64 `json:"entropy,omitempty"`    // weight of the entropy bonus in the objective

	// AcrossEpisodes makes reinforce and a2c normalise returns over all episodes of an update instead of within each,
	// so that differences between episodes are preserved.
	AcrossEpisodes bool `json:"across_episodes,omitempty"`
	// Episodes is the number of episodes per update; 0: 1, for ppo 16.
	Episodes int `json:"episodes,omitempty"`

	// The remaining settings are for ppo.
	Lambda          float64 `json:"lambda,omitempty"`           // of the generalised advantage; 0: 0.97
	Clip            float64 `json:"clip,omitempty"`             // limit of the ratio; 0: 0.2
	Iterations      int     `json:"iterations,omitempty"`       // passes over the batch for the policy; 0: 80
	ValueIterations int     `json:"value_iterations,omitempty"` // passes for the critic; 0: 80
	TargetKL        float64 `json:"target_kl,omitempty"`        // iterations stop beyond 1.5 times this divergence; 0: 0.01
	Minibatch       int     `json:"minibatch,omitempty"`        // steps per minibatch; 0: the whole batch
	// ScaleReturns standardises the critic's targets by mean and deviation of the first update, for returns far from
	// 1.
	ScaleReturns bool `json:"scale_returns,omitempty"`

	Workers int `json:"-"` // number of goroutines; 0: 1. Results do not depend on it.
}

// WithDefaults returns the configuration with zeros replaced by the defaults.
func (c PolicyConfig) WithDefaults() PolicyConfig {
	setDefault(&c.Method, "ppo")
	setDefault(&c.Policy, "flat")
	if c.Hidden == nil {
		c.Hidden = []int{32, 16, 8}
	}
	if c.HeadHidden == nil {
		c.HeadHidden = []int{64, 32, 8}
	}
	setDefault(&c.Rate, 3e-4)
	setDefault(&c.ValueRate, 1e-3)
	setDefault(&c.Gamma, 1)
	setDefault(&c.Lambda, 0.97)
	setDefault(&c.Clip, 0.2)
	setDefault(&c.Iterations, 80)
	setDefault(&c.ValueIterations, 80)
	setDefault(&c.TargetKL, 0.01)
	if c.Method == "ppo" {
		setDefault(&c.Episodes, 16)
	}
	setDefault(&c.Episodes, 1)
	setDefault(&c.Workers, 1)
	return c
}

// setDefault sets v to d if it is zero.
func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate reports all invalid settings, after filling in defaults.
func (c PolicyConfig) Validate() error {
	c = c.WithDefaults()
	var errs wording.Problems
	errs.If(methods[c.Method] == nil, "learning method %q: want one of %v", c.Method, methodNames())
	errs.If(models[c.Policy] == nil, "policy %q: want one of %v", c.Policy, slices.Sorted(maps.Keys(models)))
	errs.If(c.Method == "ppo" && c.Policy == "shared", "ppo learns policy and critic at their own rates: a shared policy has one network for both")
	for _, h := range slices.Concat(c.Hidden, c.HeadHidden) {
		errs.If(h < 1 || h > 1<<12, "a hidden layer of %d units: want 1 to 4096", h)
	}
	errs.If(len(c.Hidden) > 16 || len(c.HeadHidden) > 16, "%d and %d hidden layers: at most 16", len(c.Hidden), len(c.HeadHidden))
	errs.If(c.Policy == "shared" && len(c.Hidden) == 0, "a shared policy without hidden layers: the first one is what is shared")
	for _, v := range []struct {
		name       string
		is, lo, hi float64
	}{
		{"rate", float64(c.Rate), 0, 10}, {"value rate", float64(c.ValueRate), 0, 10}, {"norm", float64(c.ClipNorm), 0, 1e30},
		{"discount", c.Gamma, 0, 1}, {"entropy", c.Entropy, -1e6, 1e6}, {"lambda", c.Lambda, 0, 1}, {"clip", c.Clip, 0, 1e6},
		{"target divergence", c.TargetKL, 0, 1e6}, {"episodes", float64(c.Episodes), 1, 1 << 20},
		{"iterations", float64(c.Iterations), 1, 1 << 20}, {"value iterations", float64(c.ValueIterations), 1, 1 << 20},
		{"minibatch", float64(c.Minibatch), 0, 1 << 30}, {"workers", float64(c.Workers), 1, 1 << 12},
		{"activation", float64(c.Activation), 0, float64(LeakyReLU)},
	} {
		errs.If(!(v.is >= v.lo && v.is <= v.hi), "%s %v: want %v to %v", v.name, v.is, v.lo, v.hi)
	}
	return errors.Join(errs...)
}

// methodNames returns the names of the learning methods, sorted.
func methodNames() []string { return slices.Sorted(maps.Keys(methods)) }

// methods maps names to the update from a batch of episodes.
var methods = map[string]func(*Learner, *batch) (Report, error){
	"reinforce": (*Learner).reinforce,
	"a2c":       (*Learner).actorCritic,
	"ppo":       (*Learner).proximal,
}

// models maps names to the layout of the networks.
var models = map[string]func(Shape, PolicyConfig) layout{
	"kernel": kernelLayout,
	"flat":   flatLayout,
	"shared": sharedLayout,
}
