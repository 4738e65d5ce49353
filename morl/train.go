package morl

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// TrainOptions controls Train.
type TrainOptions struct {
	Steps int    // total number of decisions, including those in Agent.Stats: training of a loaded agent continues
	Seed  uint64 // seed of the environment and of the preferences
	// Preferences draws the preference of an episode into w; nil: uniform on the simplex, half of them near a focus
	// if set.
	Preferences func(w []float32, rng *rand.Rand)
	// Report is called after every Every decisions and at the end; Every = 0 means a hundred times in total. It may
	// inspect the agent and change the focus.
	Every  int
	Report func(p Progress) error
}

// Progress is the state of a training.
type Progress struct {
	Steps, Episodes int
	// Return is the mean return of the episodes completed since the last report, one value per objective,
	// undiscounted, with exploration and random preferences; nil if none was completed.
	Return []float64
	Focus  func([][]float32) // sets the focus of the episodes and, if supported, of the agent
}

// Trainable returns the reason why this build cannot train an agent: it has no gradient of its networks. Every build
// evaluates them.
func Trainable(a Agent) error {
	if l, ok := a.(interface{ trainable() error }); ok {
		if err := l.trainable(); err != nil {
			return fmt.Errorf("train %s: %w", a.Name(), err)
		}
	}
	return nil
}

// focuser is implemented by agents that can train more for some preferences than for others.
type focuser interface{ Focus([][]float32) }

// Train runs an agent in an environment and trains it until o.Steps is reached or ctx is done; in the latter case it
// returns the error of ctx, and the agent remains usable. If the environment has a method Err() error, an error of it
// after the end of an episode is returned. It is deterministic for a given agent, environment and
// options.
func Train(ctx context.Context, a Agent, env Environment, o TrainOptions) error {
	s := env.Shape()
	if got := a.Shape(); got.State != s.State || got.Actions != s.Actions || len(got.Objectives) != len(s.Objectives) {
		return fmt.Errorf("train %s: the agent is for %d state numbers, %d actions, %d objectives; the environment has %d, %d, %d",
			a.Name(), got.State, got.Actions, len(got.Objectives), s.State, s.Actions, len(s.Objectives))
	}
	if err := Trainable(a); err != nil {
		return err
	}
	if o.Every == 0 {
		o.Every = max(1, o.Steps/100)
	}
	t := trainee{agent: a, env: env, options: o, rng: stream(o.Seed, 0x7ea1), w: make([]float32, len(s.Objectives)),
		state: make([]float32, s.State), sum: make([]float64, len(s.Objectives))}
	// A loaded agent gets other episodes than before.
	t.world = stream(o.Seed, 0xe0+uint64(a.Stats().Steps)<<8)
	for t.steps = a.Stats().Steps; t.steps < o.Steps; {
		if err := t.episode(ctx); err != nil {
			return err
		}
	}
	return t.report()
}

// failing is implemented by environments that may fail. After a failure they return it, and end every episode.
type failing interface{ Err() error }

// failure returns the failure of an environment, or the error of ctx, which may have caused it.
func failure(ctx context.Context, env Environment) error {
	f, ok := env.(failing)
	if !ok || f.Err() == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.Err()
}

// trainee is the state of Train.
type trainee struct {
	agent   Agent
	env     Environment
	options TrainOptions
	rng     *rand.Rand // preferences
	world   *rand.Rand
	focus   [][]float32
	w       []float32
	state   []float32
	mask    []bool

	steps, episodes, ended int
	sum                    []float64
}

// episode runs one episode, or the part of it that the limit on steps permits. It checks ctx every 128 decisions.
func (t *trainee) episode(ctx context.Context) error {
	if t.options.Preferences != nil {
		t.options.Preferences(t.w, t.rng)
	} else {
		drawPreference(t.w, t.focus, t.rng)
	}
	gain := make([]float64, len(t.w))
	o := t.env.Reset(t.world)
	if err := failure(ctx, t.env); err != nil {
		return err
	}
	for over := false; !over && t.steps < t.options.Steps; {
		copy(t.state, o.State)
		t.mask = append(t.mask[:0], o.Mask...)
		here := Observation{State: t.state}
		if o.Mask != nil {
			here.Mask = t.mask
		}
		action := t.agent.Act(here, t.w, true)
		out := t.env.Step(action)
		if out.Done {
			if err := failure(ctx, t.env); err != nil {
				return err
			}
		}
		t.agent.Observe(transition{State: t.state, Mask: here.Mask, Action: action, Reward: out.Reward, Next: out.State,
			NextMask: out.Mask, Done: out.Done, Cut: out.Cut, Work: out.Work}, t.w)
		for i, r := range out.Reward {
			gain[i] += float64(r)
		}
		o, over = out.Observation, out.Done || out.Cut
		t.steps++
		if over {
			t.episodes++
			t.ended++
			for i, g := range gain {
				t.sum[i] += g
			}
		}
		if t.steps%t.options.Every == 0 && t.steps < t.options.Steps {
			if err := t.report(); err != nil {
				return err
			}
		}
		if t.steps&127 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// report calls Report with the progress since the last call.
func (t *trainee) report() error {
	if t.options.Report == nil {
		return nil
	}
	p := Progress{Steps: t.steps, Episodes: t.episodes, Focus: func(f [][]float32) {
		t.focus = f
		if a, ok := t.agent.(focuser); ok {
			a.Focus(f)
		}
	}}
	if t.ended > 0 {
		for _, v := range t.sum {
			p.Return = append(p.Return, v/float64(t.ended))
		}
	}
	clear(t.sum)
	t.ended = 0
	return t.options.Report(p)
}
