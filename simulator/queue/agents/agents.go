// Package agents trains, stores and loads agents for batch queues: policies that say which waiting job is next, in RLScheduler's
// episodes. It ties package gradient, which learns, to package rlscheduler, which simulates; HDeepRM's agents, which choose pairs
// of policies, are in package hdeeprm.
//
//	trace, err := rlscheduler.Load("trace.swf.gz")
//	agent, err := agents.Train(ctx, trace, agents.Options{Updates: 50}, nil, nil)
//	err = agent.Write(file)
//	…
//	agent, err := agents.Load(file)
//	results, err := agent.Evaluate(trace, rlscheduler.Starts1024, 1024, agents.Play{Backfill: true})
//
// Two policies come with the program (Builtin): of ten weights each, by evolution, from the rule that the smallest area is first.
// They saw workloads drawn by swf.Lublin for 256 processors only, of loads from 0.7 to 1.4, and none of a recorded or published
// trace; that without backfilling also some with over-estimates. Of several runs those were taken that did best on further drawn
// workloads. This makes and judges them again, in some minutes of a core each:
//
//	go test -run Make -timeout 1h ./simulator/queue/agents -agents.make 2 -agents.make-out DIR
//	go test -run Make -timeout 1h ./simulator/queue/agents -agents.make 1 -agents.make-first 21 -agents.make-from DIR/false-1.policy \
//		-agents.make-sigma 0.25 -agents.make-updates 20 -agents.make-over 8 -agents.make-backfill no -agents.make-out DIR
//	go test -run Make -timeout 1h ./simulator/queue/agents -agents.make 1 -agents.make-first 11 -agents.make-from DIR/true-2.policy \
//		-agents.make-sigma 0.12 -agents.make-updates 30 -agents.make-length 800 -agents.make-episodes 64 -agents.make-high 1.3 \
//		-agents.make-backfill yes -agents.make-out DIR
//	go test -run Judge ./simulator/queue/agents -agents.make-judge 'DIR/*.policy' -agents.make-episodes 120
package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"

	"trainopt/morl/gradient"
	"trainopt/simulator/ancestors/rlscheduler"
)

// Kind is the kind of policy files of these agents.
const Kind = "rlscheduler"

// Agent is a policy for queues, with where it comes from.
type Agent struct {
	Options Options // it was trained with, defaults filled in
	learner *gradient.Learner
}

// Write stores the agent as a policy file.
func (a *Agent) Write(w io.Writer) error {
	o, err := json.Marshal(a.Options)
	if err != nil {
		return err
	}
	return gradient.WriteFile(w, gradient.Meta{Kind: Kind, Notes: map[string]string{"options": string(o)}}, a.learner)
}

// Load reads an agent that Write stored. The error wraps one of package gradient's when the file is to blame.
func Load(r io.Reader) (*Agent, error) {
	m, l, err := gradient.ReadFile(r)
	if err != nil {
		return nil, err
	}
	if m.Kind != Kind {
		return nil, fmt.Errorf("read policy file: a policy for %q, want one for %s: %w", m.Kind, Kind, gradient.ErrForeign)
	}
	a := &Agent{learner: l}
	if err := json.Unmarshal([]byte(m.Notes["options"]), &a.Options); err != nil {
		return nil, fmt.Errorf("read policy file: options: %v: %w", err, gradient.ErrCorrupt)
	}
	if err := a.Options.Validate(); err != nil {
		return nil, fmt.Errorf("read policy file: %v: %w", err, gradient.ErrCorrupt)
	}
	shape, err := a.Options.Sight.Shape()
	if err != nil || shape.Features != l.Shape().Features || shape.Rows != l.Shape().Rows {
		return nil, fmt.Errorf("read policy file: a policy for rows of %d numbers, the observation has %d: %w",
			l.Shape().Features, shape.Features, gradient.ErrCorrupt)
	}
	return a, nil
}

// Decider makes the agent decide in episodes of a trace; one goroutine at a time.
func (a *Agent) Decider(t *rlscheduler.Trace) (*rlscheduler.Agent, error) {
	return rlscheduler.NewAgent(t, a.Options.Sight, a.learner.Policy())
}

// Play says how an agent is evaluated.
type Play struct {
	Backfill bool
	// Sample draws from the policy instead of taking its most probable job, as RLScheduler does, with generators of this seed.
	Sample bool
	Seed   uint64
}

// Evaluate is what the agent reaches on the sequences of so many jobs that begin at starts.
func (a *Agent) Evaluate(t *rlscheduler.Trace, starts []int, length int, p Play) ([]rlscheduler.Measures, error) {
	d, err := a.Decider(t)
	if err != nil {
		return nil, err
	}
	var rng *rand.Rand
	if p.Sample {
		rng = rand.New(rand.NewPCG(p.Seed, 1))
	}
	return d.Evaluate(t, starts, length, p.Backfill, rng)
}

// Mean is the mean bounded slowdown.
func Mean(all []rlscheduler.Measures) float64 {
	sum := 0.0
	for _, m := range all {
		sum += m.BoundedSlowdown
	}
	return sum / float64(len(all))
}
