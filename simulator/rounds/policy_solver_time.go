package rounds

import (
	"math"

	"trainopt/optimizer/schedule/solve"
)

// finishTimeFairness keeps the worst finish time small in proportion to what it would be with an equal part of the cluster, as
// Themis does (Mahajan et al., NSDI 2020; Gavel, section 4.2): it minimises max_i ρ_i, ρ_i = (A_i + R_i/X_i) / (C_i + R_i/I_i), where
// A_i is the time since arrival, R_i the steps that remain, I_i the rate of an equal part, and C_i the time that what is done would
// have taken with it. ρ is found by programs that ask whether it can be reached; a handful in each decision.
type finishTimeFairness struct {
	solver
	before map[int]fairShare // by job ID
	ratio  float64           // of the decision before; 0 none
}

// fairShare is what a job would have had of an equal part of the cluster.
type fairShare struct {
	remaining float64 // steps at the last decision
	rate      float64 // of an equal part, then
	seconds   float64 // that what was done until then would have taken
}

var _ Described = &finishTimeFairness{}

func newFinishTimeFairness(sees sight) func(PolicyOptions) Policy {
	return func(o PolicyOptions) Policy {
		return &finishTimeFairness{solver: solver{"FinishTimeFairness", sees, o.Compat}}
	}
}

// Decide finds the least ratio, then shares that reach it.
func (p *finishTimeFairness) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	terms, err := p.terms(g)
	if err != nil || len(g.jobs) == 0 {
		return Allocation{}, err
	}
	if best, ok := p.allBest(g); ok {
		return g.allocation(best), nil
	}
	p.ratio, err = terms.least(g, p.ratio)
	if err != nil {
		return Allocation{}, err
	}
	sol, err := p.spread(g, terms.weights(p.ratio))
	return g.allocation(sol), err
}

// finishTerms are, by job, what ρ is made of.
type finishTerms struct {
	work   []float64 // steps that remain
	waited []float64 // A, seconds
	fair   []float64 // C + R/I, seconds
	best   []float64 // steps/s, the most it can get
	equal  []float64 // steps/s of an equal part
}

// terms also remembers them for the next decision. Gavel's packed policy divides rates by priority weights.
func (p *finishTimeFairness) terms(g *program) (*finishTerms, error) {
	t := &finishTerms{}
	now := make(map[int]fairShare, len(g.jobs))
	for i := range g.jobs {
		j := g.job(i)
		w, err := priority(j.Job)
		if err != nil {
			return nil, err
		}
		if !p.compat || p.sees != paired {
			w = 1
		}
		f := fairShare{remaining: j.Remaining, rate: g.isolatedRate(i)}
		if last, ok := p.before[j.ID]; ok {
			f.seconds = last.seconds + (last.remaining-j.Remaining)/last.rate
		}
		now[j.ID] = f
		t.work = append(t.work, j.Remaining*w)
		t.waited = append(t.waited, g.snapshot.Now-j.Arrival)
		t.fair = append(t.fair, f.seconds+j.Remaining/f.rate)
		t.best = append(t.best, g.bestRate(i))
		t.equal = append(t.equal, f.rate)
	}
	p.before = now
	return t, nil
}

// weights are the inverse of the rates that a ratio asks for.
func (t *finishTerms) weights(ratio float64) []float64 {
	out := make([]float64, len(t.work))
	for i := range out {
		out[i] = (ratio*t.fair[i] - t.waited[i]) / t.work[i]
	}
	return out
}

// least is the smallest ratio that can be reached. It lies between that of a cluster for each job alone and that of equal parts.
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
		// Whoever gets factor times what the ratio asks for has ρ = waited/fair + (ratio − waited/fair) / factor.
		f := sol.Value
		a, b := ratio/f+(1-1/f)*offset.lo, ratio/f+(1-1/f)*offset.hi
		return probe{f, bounds{min(a, b), max(a, b)}}, nil
	})
}

// minTotalDuration lets all jobs that are there end as early as possible (makespan; Gavel, section 4.2): the smallest T for which
// X_i ≥ R_i / T can be met. One program in each decision. With compat T is only found to 5 %, as by Gavel's bisection.
type minTotalDuration struct{ solver }

var _ Described = minTotalDuration{}

func newMinTotalDuration(sees sight) func(PolicyOptions) Policy {
	return func(o PolicyOptions) Policy { return minTotalDuration{solver{"MinTotalDuration", sees, o.Compat}} }
}

// settled is how long shares of pairs stay when jobs only left, seconds: the end of all jobs hardly moves, and pairs of many jobs take
// a while to solve.
const settled = 1920

// Traits are those of Gavel; with pairs, what was decided holds for a while.
func (p minTotalDuration) Traits() Traits {
	t := p.solver.Traits()
	if p.sees == paired {
		t.Settled = settled
	}
	return t
}

// Decide solves the program.
func (p minTotalDuration) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	if len(g.jobs) == 0 {
		return Allocation{}, nil
	}
	weight := make([]float64, len(g.jobs))
	for i := range weight {
		weight[i] = 1 / g.job(i).Remaining
	}
	if !p.compat {
		sol, err := p.spread(g, weight)
		return g.allocation(sol), err
	}
	best, err := g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.MaxMin(s, weight, nil) })
	if err != nil {
		return Allocation{}, err
	}
	T := bisectSeconds(1 / best.Value)
	demand := weight
	for i := range demand {
		demand[i] = g.job(i).Remaining / T
	}
	if sol, ok := g.embedded(func(s solve.Sharing) (solve.Solution, error) { return solve.EmbeddedDemand(s, demand) }); ok {
		return g.allocation(sol), nil
	}
	sol, err := g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.Demand(s, demand) })
	return g.allocation(sol), err
}

// bisectSeconds is where Gavel's search for the smallest feasible time, of which all from least on are, ends.
func bisectSeconds(least float64) float64 {
	lo, hi := 100.0, 1e6
	for {
		last, found := hi, false
		for 1.05*lo < hi {
			if T := (lo + hi) / 2; T >= least {
				hi, found = T, true
			} else {
				lo = T
			}
		}
		if found {
			return hi
		}
		lo, hi = last, 10*last
	}
}
