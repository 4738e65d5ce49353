package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// Renewal tells of an attempt to replace an agent's critics by ones that learned from the run's own measurements.
type Renewal struct {
	// Before and After are the mean absolute errors of the old and the new critics on jobs like this one that neither
	// learned from, relative to the whole run at the user's own configuration.
	Before, After float64
	Swapped       bool
}

const (
	renewSteps = 800 // decisions that fresh critics learn from
	renewJobs  = 24  // held out
)

// ErrNoModel says that nothing is measured to learn from.
var ErrNoModel = errors.New("nothing is measured yet")

// Simulate returns an environment of simulated jobs that resemble the job of an outlook; with memory it has 27 actions,
// else 9. The state and the objectives are those of package perf.
type Simulate func(o perf.Outlook, withMemory bool) morl.Environment

// Renew trains a fresh agent of the same kind in an environment calibrated from the run's own measurements, and returns it
// when its critics err less than the old ones there on jobs held out; else the old one. The run goes on meanwhile with
// the old one. It takes a few seconds of one CPU, and stops with the context.
func (a *Agent) Renew(ctx context.Context, s Snapshot, simulate Simulate, seed uint64) (*Agent, Renewal, error) {
	if s.Model == nil || !(s.Total > 0) {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", ErrNoModel)
	}
	c := a.Meta.Config
	c.Buffer, c.Warmup, c.Every, c.ExploreSteps, c.Anneal, c.Resets = renewSteps, 150, 1, renewSteps/2, renewSteps, morl.Resets{}
	fresh, err := morl.New(a.Meta.Agent, a.Meta.Shape, c, seed)
	if err != nil {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", err)
	}
	critics, ok := fresh.(morl.Valuer)
	if !ok {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", ErrNoJudge)
	}
	env := func() morl.Environment { return simulate(*outlook(s), a.Meta.Shape.Actions == 27) }
	w := a.weights(s, Plan{Chosen: Candidate{Chance: 1}})
	prefer := func(dst []float32, _ *rand.Rand) {
		for i, v := range w {
			dst[i] = float32(v)
		}
	}
	if err := morl.Train(ctx, fresh, env(), morl.TrainOptions{Steps: renewSteps, Seed: seed, Preferences: prefer}); err != nil {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", err)
	}
	r := Renewal{Before: criticError(a.critics, env(), w, seed+1), After: criticError(critics, env(), w, seed+1)}
	if !(r.After < r.Before) {
		return a, r, nil
	}
	r.Swapped = true
	meta := a.Meta
	meta.Config, meta.Seed, meta.Stats = c, seed, fresh.Stats()
	return &Agent{Meta: meta, critics: critics, multiplier: a.multiplier}, r, nil
}

// criticError is how far critics are from what going on where an episode begins brings, over held-out episodes.
func criticError(v morl.Valuer, env morl.Environment, preference [4]float64, seed uint64) float64 {
	stay := resources.ActionSpace{WithMemory: env.Shape().Actions == 27}.Stay()
	rng := rand.New(rand.NewPCG(seed, 0x0e14))
	w := make([]float32, len(preference))
	for i, x := range preference {
		w[i] = float32(x)
	}
	sum := 0.0
	for range renewJobs {
		o := env.Reset(rng)
		members := v.Values(o, w)
		if !o.Mask[stay] {
			continue
		}
		out := env.Step(stay)
		for i, r := range out.Reward {
			mean := 0.0
			for _, q := range members {
				mean += float64(q[stay*len(w)+i]) / float64(len(members))
			}
			sum += preference[i] * math.Abs(mean-float64(r)) / renewJobs
		}
	}
	return sum
}
