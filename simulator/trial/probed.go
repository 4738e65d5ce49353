package trial

import (
	"math"

	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// probed measures as the planner model does and then settles with perfect information. Its regret is the cost of
// measuring, including restarts and limits put out of reach by measuring; the remaining regret of model is due to its
// choices.
type probed struct {
	planned
	truth *jobTruth
}

// runProbed runs a job with the strategy probed.
func runProbed(job Job, t *jobTruth, o Options) (*outcome, error) {
	return runJob(job, o, func(r *runner) strategy { return &probed{planned{r: r, planner: plan.Model{}}, t} })
}

// reevaluate returns nil: a settled job stays.
func (*probed) reevaluate() (*resources.Allocation, string) { return nil, "" }

// settle returns the allocation with the lowest utility for the rest of the run, without noise, among those that meet
// the SLA, or the one with the smallest excess if none does. O(allocations).
func (p *probed) settle() (resources.Allocation, string) {
	r, x := p.r, p.r.x
	best, least, over := x.Current, math.Inf(1), math.Inf(1)
	for i := range p.truth.Statics {
		a := p.truth.Statics[i].Allocation
		seconds := (r.s.Units - x.Done) * r.s.Workload.UnitSeconds(a)
		if !a.SameShape(x.Current) {
			seconds += r.s.Restart
		}
		total, usd := x.Elapsed+seconds, x.SpentUSD+seconds/3600*r.hourly(a)
		held := x.Elapsed*perf.ResourceShare(x.Current, r.s.Limits) + seconds*perf.ResourceShare(a, r.s.Limits)
		excess := max(0, beyond(total+r.reserve().Seconds(), r.s.Spec.TimeMax.Seconds()),
			beyond(usd+r.reserve().Hours()*r.hourly(a), r.s.Spec.CostMaxUSD))
		u := p.truth.Utility(r.prefer, [3]float64{total, usd, held / total})
		if excess < over || excess == over && u < least {
			best, least, over = a, u, excess
		}
	}
	return best, "the best for the rest in hindsight"
}

// beyond returns the relative excess of a value over a limit, negative below it; 0 without a limit.
func beyond(value, limit float64) float64 {
	if limit <= 0 {
		return 0
	}
	return value/limit - 1
}
