package pretrain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"trainopt/morl"
	"trainopt/morl/network"
)

// Options configure a training. Env and Agent are required unless Resume contains them; every other field may be zero.
type Options struct {
	Env   string // one of Environments, or ProcessPrefix and a command of the shell
	Agent string // one of Agents
	// Steps is the total number of decisions, including those of a resumed agent; 0 means that of the recipe or the
	// planned total of the resumed training.
	Steps int
	Seed  uint64 // of the agent, the environment and the preferences; a resumed training uses its own
	// Non-zero fields of Config override those of the recipe or of the resumed agent.
	Config morl.Config
	// Backend computes the gradients: Kernels, the default, or Gorgonia in builds that have it; "" is that of a resumed agent.
	Backend string
	// NoResets removes resets from the configuration of the recipe or the resumed agent.
	NoResets bool
	// Measure is the number of decisions between two measurements; 0 means that of the recipe.
	Measure int
	// KeepLast keeps the agent of the last step instead of the one with the best measurement.
	KeepLast bool
	Jobs     JobOptions   // for the environment "training"
	Process  morl.Options // for an environment in another process

	// Resume is an agent file to continue from. Checkpoint is the matching second argument of Save: the networks at
	// the time of the interruption, and the curve; if nil, the training continues from Resume. Neither contains the
	// replay: it starts empty and is filled before learning continues.
	Resume, Checkpoint []byte

	// Now returns the time since a fixed moment; if nil, no times are reported. It has no influence on the agent.
	Now func() time.Duration
	// Progress is called frequently with the progress; Point is the last measurement, nil before the first.
	Progress func(p Progress)
	// Save is called at every measurement with the agent file kept so far and the checkpoint; an error ends the
	// training.
	Save func(agent, present []byte) error
}

// Backends.
const (
	Kernels  = "kernels"
	Gorgonia = "gorgonia"
)

// backend sets the source of the gradients of a configuration, and returns an error if this build has none.
func (o Options) backend(c *morl.Config) error {
	if o.Backend != "" {
		c.Graph = o.Backend == Gorgonia
	}
	if c.Graph && !network.Graphs {
		return fmt.Errorf("backend %s: not part of this build; make one with: make gorgonia (or go build -tags gorgonia ./cmd/optimize)", Gorgonia)
	}
	return nil
}

// JobOptions configure the environment "training".
type JobOptions struct {
	// Kinds are the kinds from which jobs are drawn, nil: profile.Embedded. Data is a one-word description of them.
	Kinds []Kind
	Data  string
	// Set is the part of the kinds to train on; empty: trainingSet.
	Set Set
	// Actions is 9 or, with memory, 27; 0 means 9 or the number of the resumed agent.
	Actions int
	// Count is the number of jobs on which an agent is measured, default 30.
	Count int
}

// Progress is the progress of a training.
type Progress struct {
	Steps, Of, Episodes int
	Loss                float64 // moving average, NaN before the first gradient step
	Point               *point
}

// Environments lists the valid values of Options.Env.
func Environments() []string { return slices.Sorted(maps.Keys(worlds)) }

// continuous contains the environments whose states hardly recur.
var continuous = map[string]bool{"cluster": true, "training": true, "problem:minecart-deterministic": true}

// Agents lists the valid values of Options.Agent.
func Agents() []string { return slices.Sorted(maps.Keys(morl.Agents)) }

// Validate returns all problems of the options, except those of the files to resume from.
func (o Options) Validate() error {
	var errs []error
	if _, ok := worldOf(o.Env); !ok && !(o.Env == "" && o.Resume != nil) {
		errs = append(errs, fmt.Errorf("environment %q: unknown, want one of %s or %sCOMMAND", o.Env, strings.Join(Environments(), ", "), ProcessPrefix))
	}
	if _, ok := morl.Agents[o.Agent]; !ok && !(o.Agent == "" && o.Resume != nil) {
		errs = append(errs, fmt.Errorf("agent %q: unknown, want one of %s", o.Agent, strings.Join(Agents(), ", ")))
	}
	if o.Agent == "pareto" && continuous[o.Env] {
		errs = append(errs, fmt.Errorf("agent pareto requires states that recur: those of %s hardly do", o.Env))
	}
	if o.Steps < 0 || o.Steps > maxSteps {
		errs = append(errs, fmt.Errorf("%d steps: want 1 to %d", o.Steps, maxSteps))
	}
	if o.Measure < 0 {
		errs = append(errs, fmt.Errorf("a measurement every %d steps: want 1 or more", o.Measure))
	}
	if o.Jobs.Count < 0 {
		errs = append(errs, fmt.Errorf("measured on %d jobs: want 1 or more", o.Jobs.Count))
	}
	if a := o.Jobs.Actions; a != 0 && a != 9 && a != 27 {
		errs = append(errs, fmt.Errorf("%d actions: want 9 or 27", a))
	}
	if o.Config.History > 1 && o.Env == "training" {
		errs = append(errs, errors.New("history: the planner that uses an agent for training jobs decides on one observation"))
	}
	if o.Backend != "" && o.Backend != Kernels && o.Backend != Gorgonia {
		errs = append(errs, fmt.Errorf("backend %q: want %s or %s", o.Backend, Kernels, Gorgonia))
	}
	config := o.Config
	if o.Resume != nil { // has the history
		config.Recurrent = 0
	}
	errs = append(errs, config.Validate())
	return errors.Join(errs...)
}

// maxSteps is the upper bound of Options.Steps: months of computation.
const maxSteps = 1 << 40

// merge overrides base by every field of given that is not zero.
func merge(base, given morl.Config) morl.Config {
	for _, f := range []struct{ into, from *float64 }{{&base.Gamma, &given.Gamma}, {&base.Tau, &given.Tau}, {&base.Rate, &given.Rate},
		{&base.Dropout, &given.Dropout}, {&base.Exploration, &given.Exploration}} {
		if *f.from != 0 {
			*f.into = *f.from
		}
	}
	for _, f := range []struct{ into, from *int }{{&base.Batch, &given.Batch}, {&base.Buffer, &given.Buffer}, {&base.Every, &given.Every},
		{&base.Updates, &given.Updates}, {&base.Warmup, &given.Warmup}, {&base.ExploreSteps, &given.ExploreSteps}, {&base.Anneal, &given.Anneal},
		{&base.Critics, &given.Critics}, {&base.History, &given.History}, {&base.Recurrent, &given.Recurrent}} {
		if *f.from != 0 {
			*f.into = *f.from
		}
	}
	if given.Activation != "" {
		base.Activation = given.Activation
	}
	if given.Policies != "" {
		base.Policies = given.Policies
	}
	if given.Hidden != nil {
		base.Hidden = given.Hidden
	}
	if given.Scale != nil {
		base.Scale = given.Scale
	}
	if given.Resets != (morl.Resets{}) {
		base.Resets = given.Resets
	}
	return base
}
