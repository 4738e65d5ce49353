package rlscheduler

import (
	"fmt"
	"math/rand/v2"

	"trainopt/morl/gradient"
	"trainopt/optimizer/schedule/order"
)

// Agent decides in episodes by a policy learned in an AgentEnvironment of the same Sight. It is not safe for
// concurrent use.
type Agent struct {
	policy *gradient.Policy
	sight  Sight
	see    *observer
}

// NewAgent returns an agent for episodes of a trace.
func NewAgent(t *Trace, s Sight, p *gradient.Policy) (*Agent, error) {
	see, err := newObserver(t, s)
	if err != nil {
		return nil, err
	}
	return &Agent{policy: p, sight: s, see: see}, nil
}

// Play simulates an episode of length jobs that begins at job start of the trace: it starts the most probable job
// each time or, if rng is not nil, samples from the policy, as RLScheduler does in evaluations.
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

// Next returns the job that the agent starts now. Begin, BeginOver or Play must have begun the episode.
func (a *Agent) Next(e *Episode, rng *rand.Rand) int {
	o := a.see.observe(e)
	if rng == nil {
		return a.see.shown[a.policy.Greedy(o)]
	}
	action, _ := a.policy.Sample(o, rng)
	return a.see.shown[action]
}

// Scores appends the scores of all waiting jobs, in their order, and then of the jobs of later, as if they had
// arrived now; the lowest is next. Begin or BeginOver must have begun the episode. Sights other than WideSight append
// nothing.
func (a *Agent) Scores(scores []float64, e *Episode, later []order.Job) []float64 {
	if a.sight != WideSight {
		return scores
	}
	for _, v := range a.policy.Logits(a.see.all(e, later)) {
		scores = append(scores, -float64(v))
	}
	return scores
}

// Begin prepares for an episode of length jobs of the trace from start on, whose decisions are made by Next.
func (a *Agent) Begin(t *Trace, start, length int) { a.see.begin(t.Jobs[start : start+length]) }

// Evaluate returns the measures of the agent on the sequences of length jobs at starts.
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

// BeginOver prepares for any episode, given its jobs.
func (a *Agent) BeginOver(e *Episode, jobs []order.Job) {
	a.see.scale.procs = float64(e.nodes) * e.perNode
	a.see.begin(jobs)
}

// Backfills reports whether jobs may start before the selected one.
func (e *Episode) Backfills() bool { return e.backfill }
