package sweep

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"trainopt/internal/regular"
	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/queue"
)

// agent is the content of a policy file of either kind.
type agent struct {
	data  []byte
	queue *rlscheduler.Agent // nil for an agent of HDeepRM
}

// LoadAgent reads a policy file.
func LoadAgent(path string) (*agent, error) {
	data, err := regular.ReadFile(path, regular.Data)
	if err != nil {
		return nil, err
	}
	meta, _, err := network.ReadFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &agent{data: data}
	switch meta.Kind {
	case rlscheduler.AgentKind:
		if a.queue, err = rlscheduler.ReadAgent(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	case hdeeprm.AgentKind:
	default:
		return nil, fmt.Errorf("%s: a policy for %q, want one for %s or %s: %w", path, meta.Kind, rlscheduler.AgentKind, hdeeprm.AgentKind, network.ErrForeign)
	}
	return a, nil
}

// Platform reports whether the agent is one of HDeepRM's, for platforms.
func (a *agent) Platform() bool { return a.queue == nil }

// episode simulates the window as an episode of RLScheduler, by a heuristic, an agent or rollouts. The context is
// checked before every start; after its end, the result is partial.
func (r *Run) episode(ctx context.Context) error {
	t, err := r.Workload.trace()
	if err != nil {
		return err
	}
	next, err := r.player(t)
	if err != nil {
		return err
	}
	p := r.Window
	e := t.Episode(p.Start, p.Length, r.Method.Backfill == "rlscheduler")
	progress := func() {
		if r.Method.Progress != nil {
			r.Method.Progress(e.Started(), e.Len())
		}
	}
	err = e.Drive(next, func() error { progress(); return ctx.Err() })
	progress()
	if err != nil {
		err = fmt.Errorf("simulate a queue: stopped with %d of %d jobs started: %w", e.Started(), e.Len(), err)
	}
	r.Result = episodeResult(e, t.Jobs[p.Start:p.Start+p.Length], t.Procs)
	return err
}

// player returns the player of the method for the window.
func (r *Run) player(t *rlscheduler.Trace) (rlscheduler.Player, error) {
	m, p := &r.Method, r.Window
	switch {
	case m.Heuristic != nil:
		return m.Heuristic.Player(t.Jobs[p.Start : p.Start+p.Length]), nil
	case m.Agent != nil:
		return m.Agent.queue.Player(t, p.Start, p.Length)
	case m.Policy == learnedKind:
		a, err := rlscheduler.BuiltinAgent(m.Backfill)
		if err != nil {
			return nil, err
		}
		return a.Player(t, p.Start, p.Length)
	}
	s, err := rlscheduler.NewRollout(rlscheduler.RolloutOptions{Seed: m.Seed})
	if err != nil {
		return nil, err
	}
	return s.Player(t, p.Start), nil
}

// episodeResult converts a finished or interrupted episode to a result.
func episodeResult(e *rlscheduler.Episode, jobs []order.Job, procs int) *queue.Result {
	out := &queue.Result{Procs: procs, Energy: math.NaN(), Events: 2 * e.Started(), Jobs: make([]queue.Outcome, len(jobs))}
	for i, start := range e.Starts() {
		o := queue.Outcome{Job: &jobs[i], Start: start, End: start + jobs[i].Run, State: queue.Completed}
		if math.IsNaN(start) {
			o.State = queue.Waiting
			if jobs[i].Procs > procs {
				o.State = queue.Rejected
			}
		}
		out.Jobs[i] = o
	}
	return out
}

// order simulates an order with backfilling and placement on a platform.
func (r *Run) order(ctx context.Context) error {
	_, aim, err := ParseObjective(r.Method.Objective)
	if err != nil {
		return err
	}
	m, p := &r.Method, r.Window
	c := queue.CoresConfig{Tree: r.Tree, Jobs: r.Workload.Jobs[p.Start : p.Start+p.Length], Order: m.Policy, Backfill: m.Backfill,
		Placement: m.Placement, Objective: aim, Seed: m.Seed, Progress: m.Progress}
	if m.Policy == Rollout {
		c.Order, c.Rollout = "", true
	}
	r.Result, err = queue.RunCores(ctx, c)
	return err
}

// pair simulates one pair of policies on a platform.
func (r *Run) pair(ctx context.Context) error {
	pair, err := hdeeprm.ParsePair(r.Method.Policy)
	if err != nil {
		return err
	}
	env, err := r.environment(pair.Settings(0, false))
	if err != nil {
		return err
	}
	_, err = r.play(ctx, env, func([]float32) int { return 0 })
	return err
}

// environment returns the simulation of the window, with the seed and the compatibility mode of the method.
func (r *Run) environment(s hdeeprm.Settings) (*hdeeprm.Environment, error) {
	s.Seed, s.Compat = int64(uint32(r.Method.Seed)), r.Method.Compat
	p := r.Window
	return hdeeprm.NewEnvironment(r.Tree, r.Workload.Jobs[p.Start:p.Start+p.Length], r.Workload.Limits, s)
}

// play runs an environment to its end, stores the result, and returns the sum of the rewards.
func (r *Run) play(ctx context.Context, env *hdeeprm.Environment, choose func([]float32) int) (float64, error) {
	observation, done := env.Reset()
	short := 0
	for !done && ctx.Err() == nil {
		observation, _, done = env.Step(choose(observation))
		if c := env.Counts(); c.CoreBubbles+c.MemoryBubbles > short {
			short = c.CoreBubbles + c.MemoryBubbles
			r.Blocked = append(r.Blocked, env.Simulation().Now())
		}
		if r.Method.Progress != nil {
			n := len(r.Workload.Jobs)
			r.Method.Progress(n-env.Process().Waiting()-env.Process().Running()-env.Simulation().Arrivals(), n)
		}
	}
	r.Result = env.Result()
	c := env.Counts()
	r.Counts = &c
	err := env.Err()
	if ctx.Err() != nil {
		err = fmt.Errorf("simulate a queue: stopped at %.0f s of simulated time: %w", env.Simulation().Now(), ctx.Err())
	}
	return env.Return(), err
}

// agent simulates a policy file of HDeepRM, by its most probable actions.
func (r *Run) agent(ctx context.Context) error {
	env, err := r.environment(r.Workload.Options.Settings(r.Method.Compat))
	if err != nil {
		return err
	}
	a, err := hdeeprm.ReadLearningAgent(bytes.NewReader(r.Method.Agent.data), env.ObservationSize(), env.Actions())
	if err != nil {
		return err
	}
	_, err = r.play(ctx, env, a.Greedy)
	return err
}
