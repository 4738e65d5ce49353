package share

import (
	"math"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// finishTimeFairness minimizes the worst ratio of the finish time to that under an equal part of the cluster, as
// Themis does (Mahajan et al., NSDI 2020; Gavel, section 4.2). It minimizes max_i ρ_i, ρ_i = (A_i + R_i/X_i) / (C_i +
// R_i/I_i), where A_i is the time since arrival, R_i the remaining steps, I_i the throughput under an equal part, and
// C_i the time that the completed steps would have taken with it. ρ is found by feasibility programs, a handful per
// decision.
type finishTimeFairness struct {
	solver
	before map[int]fairShare // by job ID
	ratio  float64           // of the previous decision; 0: none
}

// fairShare is the hypothetical progress of a job with an equal part of the cluster.
type fairShare struct {
	Remaining float64 // remaining steps at the last decision
	Rate      float64 // throughput with an equal part at that time
	Seconds   float64 // time that the steps completed until then would have taken
}

func newFinishTimeFairness(view throughputView) func(Options) schedule.Policy {
	return func(o Options) schedule.Policy {
		return &finishTimeFairness{solver: solver{"FinishTimeFairness", view, o.Compat}}
	}
}

// Decide finds the minimum ratio, then shares that attain it.
func (p *finishTimeFairness) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	terms, err := p.terms(g)
	if err != nil || len(g.jobs) == 0 {
		return schedule.Allocation{}, err
	}
	if best, ok := p.allBest(g); ok {
		return g.allocation(best), nil
	}
	p.ratio, err = terms.least(g, p.ratio)
	if err != nil {
		return schedule.Allocation{}, err
	}
	sol, err := p.spread(g, terms.weights(p.ratio))
	return g.allocation(sol), err
}

// State implements schedule.Stateful.
func (p *finishTimeFairness) State() []any { return []any{&p.before, &p.ratio} }

// finishTerms contains the terms of ρ by job.
type finishTerms struct {
	work   []float64 // remaining steps
	waited []float64 // A, seconds
	fair   []float64 // C + R/I, seconds
	best   []float64 // steps/s, maximum throughput
	equal  []float64 // steps/s with an equal part
}

// terms computes the terms and stores the equal parts for the next decision. As in Gavel's packed policy, rates are
// divided by priority weights in compat mode with pairs.
func (p *finishTimeFairness) terms(g *program) (*finishTerms, error) {
	t := &finishTerms{}
	now := make(map[int]fairShare, len(g.jobs))
	for i := range g.jobs {
		j := g.job(i)
		w, err := priority(j.Job)
		if err != nil {
			return nil, err
		}
		if !p.compat || p.view != packedView {
			w = 1
		}
		f := fairShare{Remaining: j.Remaining, Rate: g.isolatedRate(i)}
		if last, ok := p.before[j.ID]; ok {
			f.Seconds = last.Seconds + max(0, last.Remaining-j.Remaining)/last.Rate // a live estimate of the total may have grown
		}
		now[j.ID] = f
		t.work = append(t.work, j.Remaining*w)
		t.waited = append(t.waited, g.snapshot.Now-j.Arrival)
		t.fair = append(t.fair, f.Seconds+j.Remaining/f.Rate)
		t.best = append(t.best, g.bestRate(i))
		t.equal = append(t.equal, f.Rate)
	}
	keepAbsent(g.snapshot, now, p.before)
	p.before = now
	return t, nil
}

// weights returns the reciprocals of the throughputs required for a ratio.
func (t *finishTerms) weights(ratio float64) []float64 {
	out := make([]float64, len(t.work))
	for i := range out {
		out[i] = (ratio*t.fair[i] - t.waited[i]) / t.work[i]
	}
	return out
}

// least returns the smallest attainable ratio. It lies between the ratio with a dedicated cluster for each job and
// that of equal parts.
func (t *finishTerms) least(g *program, guess float64) (float64, error) {
	within := bounds{}
	offset := bounds{lo: math.Inf(1)}
	for i := range t.work {
		within.lo = max(within.lo, (t.waited[i]+t.work[i]/t.best[i])/t.fair[i])
		within.hi = max(within.hi, (t.waited[i]+t.work[i]/t.equal[i])/t.fair[i])
		offset.lo = min(offset.lo, t.waited[i]/t.fair[i])
		offset.hi = max(offset.hi, t.waited[i]/t.fair[i])
	}
	if !(guess > within.lo && guess < within.hi) {
		guess = within.lo
	}
	return threshold(within, guess, func(ratio float64) (probe, error) {
		weight := t.weights(ratio)
		sol, err := g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.MaxMin(s, weight, nil) })
		if err != nil {
			return probe{}, err
		}
		// With factor times the throughput required for the ratio, ρ = waited/fair + (ratio − waited/fair) / factor.
		f := sol.Value
		a, b := ratio/f+(1-1/f)*offset.lo, ratio/f+(1-1/f)*offset.hi
		return probe{f, bounds{min(a, b), max(a, b)}}, nil
	})
}
