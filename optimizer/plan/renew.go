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

// Renewal is the result of an attempt to replace the critics of an agent by critics trained on the run's own
// measurements.
type Renewal struct {
	// Before and After are the mean absolute errors of the old and the new critics on held-out jobs similar to this
	// one, relative to the whole run at the baseline.
	Before, After float64
	Swapped       bool
}

const (
	renewSteps = 800 // training decisions of the new critics
	renewJobs  = 24  // held-out jobs
)

// errNoModel is returned when no measurements exist.
var errNoModel = errors.New("nothing is measured yet")

// Simulate returns an environment of simulated jobs that resemble the job of an outlook. It has 27 actions with
// memory, otherwise 9. The state and the objectives are those of package perf.
type Simulate func(o perf.Outlook, withMemory bool) morl.Environment

// Renew trains a new agent of the same kind in an environment calibrated from the run's own measurements. It returns
// the new agent when its critics have a smaller error on held-out jobs, and the old one otherwise. Renew takes a few
// seconds of one CPU, during which the run keeps the old agent; it stops when the context is cancelled.
func (a *Agent) Renew(ctx context.Context, s Snapshot, simulate Simulate, seed uint64) (*Agent, Renewal, error) {
	if s.Model == nil || !(s.Total > 0) {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", errNoModel)
	}
	c := a.Meta.Config
	c.Buffer, c.Warmup, c.Every, c.ExploreSteps, c.Anneal, c.Resets = renewSteps, 150, 1, renewSteps/2, renewSteps, morl.Resets{}
	fresh, err := morl.New(a.Meta.Agent, a.Meta.Shape, c, seed)
	if err != nil {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", err)
	}
	critics, ok := fresh.(morl.Valuer)
	if !ok {
		return a, Renewal{}, fmt.Errorf("renew the agent: %w", errForeignAgent)
	}
	env := func() morl.Environment { return simulate(*outlook(s), a.Meta.Shape.Actions == 27) }
	w := a.weights(s, Plan{Chosen: Candidate{Chance: 1}}, "")
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

// criticError returns the mean absolute difference, over held-out episodes, between the values of the critics and the
// return of the "no change" action at the start of an episode.
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
