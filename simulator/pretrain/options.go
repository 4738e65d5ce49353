package pretrain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"trainopt/morl"
	"trainopt/simulator/training/profile"
)

// Options say what is trained, where, and how. Env and Agent are needed, unless Resume has them; everything else may be zero.
type Options struct {
	Env   string // one of Environments
	Agent string // one of Agents
	// Steps is the number of decisions in all, those of a resumed agent included; 0: that of the recipe, or what the resumed
	// training was meant to do.
	Steps int
	Seed  uint64 // of the agent, the environment and the preferences; a resumed training keeps its own
	// Config: every field that is not zero takes the place of the recipe's, or of the resumed agent's.
	Config morl.Config
	// NoResets takes resets out of the recipe's or the resumed agent's configuration.
	NoResets bool
	// Measure is the number of decisions between two measurements, 0: that of the recipe.
	Measure int
	// KeepLast keeps the agent of the last step, not the one that measured best.
	KeepLast bool
	Jobs     JobOptions // for the environment "training"

	// Resume is an agent file to go on from. Checkpoint is what Save was given as present with it: the networks at the
	// moment of the interruption, and the curve; nil: the training goes on from Resume. Replay is in neither: it starts
	// empty and is filled before learning goes on.
	Resume, Checkpoint []byte

	// Now is the time since some fixed moment; nil: no times are told. It has no influence on the agent.
	Now func() time.Duration
	// Progress is told often how far it is; Point is the last measurement, nil before the first.
	Progress func(p Progress)
	// Save is given, at every measurement, the agent file so far and the present state; an error ends the training.
	Save func(agent, present []byte) error
}

// JobOptions configure the environment "training".
type JobOptions struct {
	// Kinds are what jobs are drawn from, nil: profile.Embedded; Data says in a word what they are.
	Kinds []profile.Kind
	Data  string
	// Set is the part of the kinds to train on; empty: profile.Train.
	Set profile.Set
	// Actions is 9 or, with memory, 27; 0: 9, or those of the resumed agent.
	Actions int
	// Count is the number of jobs that an agent is measured on, default 30.
	Count int
}

// Progress is how far a training is.
type Progress struct {
	Steps, Of, Episodes int
	Loss                float64 // moving average, NaN before the first gradient step
	Point               *Point
}

// Environments lists what Options.Env may be.
func Environments() []string { return slices.Sorted(maps.Keys(worlds)) }

// Agents lists what Options.Agent may be.
func Agents() []string { return slices.Sorted(maps.Keys(morl.Agents)) }

// Validate reports everything in the options that makes no sense, but for the files to resume from.
func (o Options) Validate() error {
	var errs []error
	if _, ok := worlds[o.Env]; !ok && !(o.Env == "" && o.Resume != nil) {
		errs = append(errs, fmt.Errorf("environment %q: unknown, want one of %s", o.Env, strings.Join(Environments(), ", ")))
	}
	if _, ok := morl.Agents[o.Agent]; !ok && !(o.Agent == "" && o.Resume != nil) {
		errs = append(errs, fmt.Errorf("agent %q: unknown, want one of %s", o.Agent, strings.Join(Agents(), ", ")))
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
	if len(o.Config.Hidden) > 8 || slices.ContainsFunc(o.Config.Hidden, func(h int) bool { return h > 1<<13 }) || o.Config.Batch > 1<<16 {
		errs = append(errs, fmt.Errorf("%v hidden units, batch %d: want at most 8 layers of 8192, batch 65536", o.Config.Hidden, o.Config.Batch))
	}
	errs = append(errs, o.Config.Validate())
	return errors.Join(errs...)
}

// maxSteps bounds what can be asked for: months of computing.
const maxSteps = 1 << 40

// merge puts every field of given that is not zero in the place of base's.
func merge(base, given morl.Config) morl.Config {
	for _, f := range []struct{ into, from *float64 }{{&base.Gamma, &given.Gamma}, {&base.Tau, &given.Tau}, {&base.Rate, &given.Rate},
		{&base.Dropout, &given.Dropout}, {&base.Exploration, &given.Exploration}} {
		if *f.from != 0 {
			*f.into = *f.from
		}
	}
	for _, f := range []struct{ into, from *int }{{&base.Batch, &given.Batch}, {&base.Buffer, &given.Buffer}, {&base.Every, &given.Every},
		{&base.Updates, &given.Updates}, {&base.Warmup, &given.Warmup}, {&base.ExploreSteps, &given.ExploreSteps}, {&base.Anneal, &given.Anneal},
		{&base.Critics, &given.Critics}} {
		if *f.from != 0 {
			*f.into = *f.from
		}
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
