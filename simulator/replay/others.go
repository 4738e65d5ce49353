package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
)

// drawn is a scenario with drawn rates and move costs, and samples of its jobs.
type drawn struct {
	*scenario
	day, isolated *cluster.Outcome // isolated is nil if that policy fails
	samples       [][]*job
}

// draw draws the scenarios, and simulates the day in each; none if no job can be simulated.
func (a *auditor) draw(ctx context.Context) error {
	a.worlds = make([]drawn, a.o.Draws)
	for k := range a.worlds {
		random := rand.New(rand.NewPCG(a.o.Seed, uint64(k)))
		w := &a.worlds[k]
		if w.scenario = a.scenario(random); len(w.jobs) == 0 {
			a.worlds = nil
			return nil
		}
		if k == 0 {
			for _, j := range w.jobs {
				if j.ended() {
					a.same = append(a.same, j.job)
				}
				if j.ended() || !j.State.Ended() {
					a.all = append(a.all, j.job)
				}
			}
		}
		var err error
		if w.day, err = w.simulate(ctx, nil); err != nil {
			return fmt.Errorf("simulate the day under %s: %w", a.policyWords(), err)
		}
		if w.isolated, err = w.simulate(ctx, []cluster.Span{{From: a.day.From, Policy: "isolated"}}); err != nil && ctx.Err() != nil {
			return err
		}
		for range resamples {
			jobs := make([]*job, len(a.all))
			for i := range jobs {
				jobs[i] = a.all[random.IntN(len(a.all))]
			}
			w.samples = append(w.samples, jobs)
		}
	}
	return nil
}

// others simulates the day under every policy, and under the same draws each.
func (a *auditor) others(ctx context.Context) error {
	for i, policy := range a.o.Policies {
		if len(a.worlds) == 0 {
			return nil
		}
		if a.o.Progress != nil {
			a.o.Progress(i, len(a.o.Policies))
		}
		p, err := a.other(ctx, policy)
		if err != nil {
			return err
		}
		a.Others = append(a.Others, p)
	}
	slices.SortStableFunc(a.Others, func(x, y policyAudit) int {
		bx, by := float64(x.MeanJCTS.Value), float64(y.MeanJCTS.Value)
		return cmp.Or(boolean(math.IsNaN(bx))-boolean(math.IsNaN(by)), cmp.Compare(bx, by), boolean(y.InForce)-boolean(x.InForce))
	})
	return nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// other simulates one policy. Samples of jobs and draws are the same for all policies, so that differences between them
// have narrower intervals than the policies themselves.
func (a *auditor) other(ctx context.Context, policy string) (policyAudit, error) {
	p := policyAudit{Policy: policy, InForce: slices.Contains(a.Policies, policy)}
	unknown := jobEstimate{page.Exact(math.NaN()), page.Exact(math.NaN()), page.Exact(math.NaN())}
	const makespan, worst = 3, 6
	p.OneDay = unknown
	columns := []*jobEstimate{&p.MeanJCTS, &p.Change, &p.Saved, &p.MakespanS, &p.CostUSD, &p.Fairness, &p.WorstFairness, &p.DeadlinesKept}
	for _, c := range columns {
		*c = unknown
	}
	if len(a.all) == 0 {
		return p, nil
	}
	all, means := make([][]float64, len(columns)), make([]float64, len(columns))
	n := float64(len(a.worlds))
	var days []float64
	for k := range a.worlds {
		w := &a.worlds[k]
		out, err := w.simulate(ctx, []cluster.Span{{From: a.day.From, Policy: policy}})
		if err != nil {
			if ctx.Err() != nil {
				return p, err
			}
			p.Failed = err.Error()
			return p, nil
		}
		p.Moves += page.Exact(float64(out.Moves) / n)
		whole := a.values(out, w, a.all)
		days = append(days, whole[0])
		for c, v := range whole {
			means[c] += v / n
		}
		for _, jobs := range w.samples {
			sample := a.values(out, w, jobs)
			sample[makespan], sample[worst] = whole[makespan], whole[worst] // maxima of a sample are biased
			for c, v := range sample {
				if !math.IsNaN(v) {
					all[c] = append(all[c], v)
				}
			}
		}
	}
	p.OneDay = oneDay(days)
	for c, v := range means {
		columns[c].Value = page.Exact(v)
	}
	for c, v := range all {
		if len(v) > 1 {
			slices.Sort(v)
			columns[c].Lo, columns[c].Hi = page.Exact(stat.Quantile(v, 0.025)), page.Exact(stat.Quantile(v, 0.975))
		}
	}
	return p, nil
}

// values returns the columns of a policy over jobs, which may be listed several times.
func (a *auditor) values(out *cluster.Outcome, w *drawn, jobs []*job) []float64 {
	f, base := figuresOf(out, w.isolated, jobs), figuresOf(w.day, nil, jobs)
	return []float64{f.mean, f.mean/base.mean - 1, base.sum - f.sum, f.makespan - a.day.From, f.cost * a.price, f.fair, f.worst, f.kept}
}

// returned simulates the day without the return of unused devices.
func (a *auditor) returned(ctx context.Context) error {
	var r returned
	for _, j := range a.day.Jobs {
		for _, k := range j.Shrinks {
			if math.IsNaN(k.Gain) {
				r.Undone++
				continue
			}
			r.Shrinks++
			r.PredictedS += page.Exact(k.Gain)
		}
	}
	if r.Shrinks == 0 || len(a.all) == 0 {
		return nil
	}
	r.Shrinks -= r.Undone
	changes := make([]float64, 0, len(a.worlds)*resamples)
	for k := range a.worlds {
		w := a.worlds[k]
		whole := *w.scenario
		whole.whole = true
		out, err := whole.simulate(ctx, nil)
		if err != nil {
			return fmt.Errorf("simulate the day without the return of unused devices: %w", err)
		}
		f, day := figuresOf(out, nil, a.all), figuresOf(w.day, nil, a.all)
		r.WithoutS += page.Exact(f.mean / float64(len(a.worlds)))
		r.Change.Value += page.Exact((day.mean/f.mean - 1) / float64(len(a.worlds)))
		for _, jobs := range w.samples {
			changes = append(changes, figuresOf(w.day, nil, jobs).mean/figuresOf(out, nil, jobs).mean-1)
		}
	}
	slices.Sort(changes)
	r.Change.Lo, r.Change.Hi = page.Exact(stat.Quantile(changes, 0.025)), page.Exact(stat.Quantile(changes, 0.975))
	a.Returned = &r
	return nil
}
