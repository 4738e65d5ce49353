package rlscheduler

import (
	"fmt"
	"math/rand/v2"

	"trainopt/morl/gradient"
	"trainopt/optimizer/schedule/order"
)

// Agent decides in episodes by a policy that was learned in an AgentEnvironment of the same Sight. One goroutine at a time.
type Agent struct {
	policy *gradient.Policy
	sight  Sight
	see    *observer
}

// NewAgent makes a policy decide in episodes of a trace.
func NewAgent(t *Trace, s Sight, p *gradient.Policy) (*Agent, error) {
	see, err := newObserver(t, s)
	if err != nil {
		return nil, err
	}
	return &Agent{policy: p, sight: s, see: see}, nil
}

// Play runs a whole episode of the trace that begins at a job number, with so many jobs: by the most probable start each time, or
// by draws from rng when it is not nil, as RLScheduler evaluates.
func (a *Agent) Play(t *Trace, start, length int, backfill bool, rng *rand.Rand) (*Episode, error) {
	if start < 0 || length < 1 || start+length > len(t.Jobs) {
		return nil, fmt.Errorf("a sequence of %d jobs from %d on: the trace has %d", length, start, len(t.Jobs))
	}
	e := t.Episode(start, length, backfill)
	a.see.begin(t.Jobs[start : start+length])
	for len(e.Waiting()) > 0 {
		e.Start(a.Next(e, rng))
	}
	return e, nil
}

// Next is the job that the agent starts now. Play must have begun the episode, or Begin.
func (a *Agent) Next(e *Episode, rng *rand.Rand) int {
	o := a.see.observe(e)
	if rng == nil {
		return a.see.shown[a.policy.Greedy(o)]
	}
	action, _ := a.policy.Sample(o, rng)
	return a.see.shown[action]
}

// Scores appends what the agent makes of all jobs that wait, in their order, and then of those of later, as if they had come now:
// the lowest would be next. Begin must have begun the episode, and the agent's Sight must be WideSight: else there is nothing.
func (a *Agent) Scores(scores []float64, e *Episode, later []order.Job) []float64 {
	if a.sight != WideSight {
		return scores
	}
	for _, v := range a.policy.Logits(a.see.all(e, later)) {
		scores = append(scores, -float64(v))
	}
	return scores
}

// Begin prepares for an episode over length jobs of the trace from start on, decided on by Next.
func (a *Agent) Begin(t *Trace, start, length int) { a.see.begin(t.Jobs[start : start+length]) }

// Evaluate is what the agent reaches on the sequences of length jobs that begin at starts, one after the other.
func (a *Agent) Evaluate(t *Trace, starts []int, length int, backfill bool, rng *rand.Rand) ([]Measures, error) {
	var all []Measures
	for _, s := range starts {
		e, err := a.Play(t, s, length, backfill, rng)
		if err != nil {
			return nil, err
		}
		all = append(all, Measure(e))
	}
	return all, nil
}

// BeginOver is Begin for any episode, and the jobs that it is over.
func (a *Agent) BeginOver(e *Episode, jobs []order.Job) {
	a.see.scale.procs = float64(e.nodes) * e.perNode
	a.see.begin(jobs)
}

// Backfills is whether jobs may start before the one that was named.
func (e *Episode) Backfills() bool { return e.backfill }
