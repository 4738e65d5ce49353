package rlscheduler

import (
	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
)

// decider makes the choices of an agent in episodes, one at a time. It is not safe for concurrent use.
type decider struct {
	policy *network.Policy
	sight  observationKind
	see    *observer
}

// newDecider returns a decider for episodes of a trace.
func newDecider(t *Trace, s observationKind, p *network.Policy) (*decider, error) {
	see, err := newObserver(t, s)
	if err != nil {
		return nil, err
	}
	return &decider{policy: p, sight: s, see: see}, nil
}

// begin prepares for an episode of the given jobs of the trace.
func (d *decider) begin(jobs []order.Job) { d.see.begin(jobs) }

// beginOver prepares for any episode, given its jobs.
func (d *decider) beginOver(e *Episode, jobs []order.Job) {
	d.see.scale.procs = float64(e.nodes) * e.perNode
	d.see.begin(jobs)
}

// next returns the most probable job. The episode must have begun.
func (d *decider) next(e *Episode) int { return d.see.shown[d.policy.Greedy(d.see.observe(e))] }

// scores appends the scores of all waiting jobs, in their order, and then of the jobs of later, as if they had
// arrived now; the lowest is next. The episode must have begun. Sights other than wideSight append nothing.
func (d *decider) scores(scores []float64, e *Episode, later []order.Job) []float64 {
	if d.sight != wideSight {
		return scores
	}
	for _, v := range d.policy.Logits(d.see.all(e, later)) {
		scores = append(scores, -float64(v))
	}
	return scores
}
