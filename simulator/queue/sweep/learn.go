package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"trainopt/internal/regular"
	"trainopt/simulator/ancestors/hdeeprm"
)

// Launch holds the settings of a run of the configured agent, as in hdeeprm-launch.
type Launch struct {
	Runs  int // number of consecutive simulations; 0 means 1
	Train bool
	// Input and Output are policy files; "" means none. If both are the same file, it need not exist: a new agent is
	// created.
	Input, Output string
	// Say is called after each run; nil means no reports. An error ends the launch.
	Say func(k int, run hdeeprm.AgentRun) error
}

// Launch runs one or several simulations with the agent of the workload's options: HDeepRM's classic agent or a
// learning one. It returns the last run, with the learning results of all runs.
func (w *Workload) Launch(ctx context.Context, m Method, l Launch) (*Run, error) {
	if w.Options == nil {
		return nil, errors.New("an agent of HDeepRM needs a platform")
	}
	p, err := w.Settle(Window{})
	if err != nil {
		return nil, err
	}
	r := &Run{Method: m, Window: p, Workload: w, Tree: w.Tree, Dropped: w.Dropped}
	r.Method.Backfill = "none"
	env, err := r.environment(w.Options.Settings(m.Compat))
	if err != nil {
		return nil, err
	}
	for _, a := range w.Options.Actions {
		r.Actions = append(r.Actions, a.String())
	}
	if len(r.Actions) == 0 {
		for _, a := range hdeeprm.Table() {
			r.Actions = append(r.Actions, a.String())
		}
	}
	if w.Options.Void {
		r.Actions = append(r.Actions, "void")
	}
	if !w.Options.Agent.Learning {
		r.Method.Policy = r.Actions[0]
		sum, err := r.play(ctx, env, func([]float32) int { return 0 })
		if r.Result != nil {
			s := r.Summary()
			r.Learned = []hdeeprm.AgentRun{{Reward: sum, Loss: math.NaN(), Makespan: s.Makespan, Result: r.Result}}
			if err == nil && l.Say != nil {
				err = l.Say(0, r.Learned[0])
			}
		}
		return r.finish(), err
	}
	r.Method.Policy = cmp.Or(w.Options.Agent.Method, "reinforce")
	return r.learn(ctx, env, l)
}

// finish sets the counts of dropped jobs; it returns nil if nothing was simulated.
func (r *Run) finish() *Run {
	if r.Result == nil {
		return nil
	}
	r.CountDropped()
	return r
}

// learn runs a learning agent for the configured number of simulations and stores it. After an error, of Say too, or
// cancellation, it stores the agent as far as it was trained.
func (r *Run) learn(ctx context.Context, env *hdeeprm.Environment, l Launch) (*Run, error) {
	agent, err := l.agent(env, r.Workload.Options)
	if err != nil {
		return nil, err
	}
	for k := range max(1, l.Runs) {
		run, err := agent.Run(cancellableEnvironment{env, ctx}, l.Train)
		if err == nil {
			err = ctx.Err()
		}
		if run.Result != nil {
			r.Result = run.Result
			c := env.Counts()
			r.Counts = &c
		}
		if err != nil {
			return r.finish(), errors.Join(fmt.Errorf("run %d of %d: %w", k+1, max(1, l.Runs), err), l.write(agent, k))
		}
		r.Learned = append(r.Learned, run)
		if l.Say != nil {
			if err := l.Say(k, run); err != nil {
				return r.finish(), errors.Join(err, l.write(agent, len(r.Learned)))
			}
		}
	}
	return r.finish(), l.write(agent, len(r.Learned))
}

// agent reads the agent of the input file, or creates one.
func (l *Launch) agent(env *hdeeprm.Environment, o *hdeeprm.Options) (*hdeeprm.LearningAgent, error) {
	if l.Input != "" {
		data, err := regular.ReadFile(l.Input, regular.Data)
		if err == nil {
			a, err := hdeeprm.ReadLearningAgent(bytes.NewReader(data), env.ObservationSize(), env.Actions())
			if err != nil {
				return nil, fmt.Errorf("read agent %s: %w", l.Input, err)
			}
			return a, nil
		}
		if !errors.Is(err, os.ErrNotExist) || l.Input != l.Output {
			return nil, fmt.Errorf("read agent: %w", err)
		}
	}
	return hdeeprm.NewLearningAgent(env.ObservationSize(), env.Actions(), o.Agent.AgentConfig, uint64(o.Seed))
}

// write stores the agent after the given number of runs; 0 leaves the output file unchanged.
func (l *Launch) write(a *hdeeprm.LearningAgent, runs int) error {
	if l.Output == "" || runs == 0 {
		return nil
	}
	err := regular.Replace(l.Output, 0o644, func(w io.Writer) error { return a.Write(w, map[string]string{"runs": fmt.Sprint(runs)}) })
	if err != nil {
		return fmt.Errorf("write agent %s: %w", l.Output, regular.Reason(err))
	}
	return nil
}

// cancellableEnvironment is an environment whose episode ends when the context is cancelled.
type cancellableEnvironment struct {
	*hdeeprm.Environment
	ctx context.Context
}

func (u cancellableEnvironment) Step(action int) ([]float32, float64, bool) {
	observation, reward, done := u.Environment.Step(action)
	return observation, reward, done || u.ctx.Err() != nil
}
