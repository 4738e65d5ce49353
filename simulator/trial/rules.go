package trial

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// The rules below replicate those inside the agent (optimizer/run/probe.go and plan.go).
const (
	longUnit = float64(plan.LongUnit / time.Second) // s
	minBlock = 0.4                                  // s: the shortest timed stretch
)

// probeBudgetExhausted reports whether a probe other than the first has exhausted the budget of all probes.
func (r *runner) probeBudgetExhausted() bool {
	if r.probes == 0 || r.model == nil {
		return false
	}
	budget, ok := r.probeBudget()
	return ok && r.probesUSD+r.x.SpentUSD-r.probeFrom >= budget
}

// probeBudget returns the cost in USD at which probing ends; ok is false before the first measurement.
func (r *runner) probeBudget() (float64, bool) {
	if r.model == nil {
		return 0, false
	}
	best := math.Inf(1)
	for _, o := range r.progress.Observations() {
		best = min(best, r.model.UnitSeconds(o.Allocation).P50*r.s.Units/3600*r.hourly(o.Allocation))
	}
	return best * r.o.Ratio, !math.IsInf(best, 1)
}

// probeCost returns the predicted cost in USD of a probe at an allocation.
func (r *runner) probeCost(a resources.Allocation) float64 {
	unit := r.model.UnitSeconds(a).P50
	blocks := 2 * math.Max(1, math.Ceil(minBlock/unit))
	if unit >= longUnit {
		blocks = 1
	}
	return (r.restartCost().P50 + (1+blocks)*unit) / 3600 * r.hourly(a)
}

// restartCost returns the interval of the seconds of one more restart: as measured or, before the first, the start-up
// plus a checkpoint of up to the same duration.
func (r *runner) restartCost() sla.Interval {
	if all := r.progress.RestartSeconds(); len(all) > 0 {
		return plan.MeasuredInterval(all)
	}
	s := plan.MeasuredInterval(r.progress.StartupSeconds())
	return sla.Interval{P5: s.P5, P50: s.P50 * 1.5, P95: s.P95 * 3}
}

// refit fits the performance model to all measurements.
func (r *runner) refit() {
	obs := r.progress.Observations()
	if len(obs) == 0 {
		return
	}
	m, err := perf.Fit(obs, perf.FitOptions{GPUsPerNode: r.s.GPUsPerNode})
	if err != nil {
		r.out.Fallbacks = append(r.out.Fallbacks, err.Error())
		return
	}
	r.model = m
}

// snapshot returns the input of a planner at the present moment.
func (r *runner) snapshot() plan.Snapshot {
	s := plan.Snapshot{Host: r.host, Limits: r.s.Limits, Spec: r.s.Spec, Rates: r.s.Rates, Preference: r.prefer, Model: r.model,
		Done: r.x.Done, Total: r.s.Units, Baseline: r.s.Baseline, Resumable: true, Trials: r.progress.Trials(),
		Startup: plan.MeasuredInterval(r.progress.StartupSeconds()), Restart: r.restartCost(), Reserve: r.reserve(), GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN()}
	if len(r.s.Interruptions) > 0 { // on spot capacity
		s.Interruptions = cost.AssumedSpot(0, 0, true)
	}
	if !r.started {
		return s
	}
	s.ProbeTime = r.progress.ProbeTime(s.Restart.P50)
	s.Elapsed, s.Spent = seconds(r.x.Elapsed), cost.USD(r.x.SpentUSD)
	current := r.x.Current
	s.Current = &current
	s.GPUUtil = utilization(r.s.Workload, current)
	if seg := r.progress.Current(); len(seg.Blocks) > 0 && r.s.UnitSamples > 0 {
		s.Throughput = r.s.UnitSamples / stat.Median(seg.Blocks)
	}
	return s
}

// utilization substitutes for a measured GPU utilization in %: the efficiency of scaling from one GPU; NaN without
// GPUs or if the job cannot run on one GPU.
func utilization(w training.Workload, a resources.Allocation) float64 {
	if a.GPUs <= 0 {
		return math.NaN()
	}
	one := a
	one.GPUs, one.GPUIDs = 1, nil
	return min(100, 100*w.UnitSeconds(one)/(float64(a.GPUs)*w.UnitSeconds(a)))
}

// planned is the strategy of the agent: probes by plan.NextProbe, allocations by the planner.
type planned struct {
	r       *runner
	planner plan.Planner
}

func (p *planned) measures() bool { return p.planner.Name() != "static" }

// next refits the model and returns nextProbe.
func (p *planned) next() (*resources.Allocation, string) {
	p.r.refit()
	return p.nextProbe()
}

// nextProbe returns the next allocation to measure within the probe budget, nil to end probing. plan.RescueProbe has
// precedence: if no allocation is likely to meet the SLA, it may choose one even beyond the budget.
func (p *planned) nextProbe() (*resources.Allocation, string) {
	r := p.r
	if to, why := plan.RescueProbe(r.snapshot()); to != nil && !r.isRefused(*to) {
		return to, why
	}
	budget, ok := r.probeBudget()
	if !ok || r.probes >= r.o.Samples {
		return nil, ""
	}
	s := r.snapshot()
	rest := budget - r.probesUSD
	var affordable []resources.Allocation
	for _, c := range plan.Allocations(s) {
		if r.probeCost(c) <= rest && !r.isRefused(c) {
			affordable = append(affordable, c)
		}
	}
	return plan.NextProbe(s, r.progress.Observations(), affordable)
}

// isRefused reports whether the job was found not to run at an allocation.
func (r *runner) isRefused(a resources.Allocation) bool {
	return slices.ContainsFunc(r.refused, a.SameShape)
}

// settle returns the allocation of the planner's decision, adjusted by plan.StayUnlessWorth.
func (p *planned) settle() (resources.Allocation, string) {
	d, _ := p.decide()
	d = plan.StayUnlessWorth(p.r.snapshot(), d)
	return d.Allocation, d.Reason
}

// reevaluate returns the allocation to move to, nil to stay: a revert of a move after which the job runs slower, the planner's
// choice if the move is worthwhile, or another probe.
func (p *planned) reevaluate() (*resources.Allocation, string) {
	r := p.r
	if !p.measures() || !plan.MovesLeft(r.snapshot()) {
		return nil, ""
	}
	r.refit()
	if r.model == nil {
		return nil, ""
	}
	if to, why := plan.Revert(r.snapshot()); to != nil {
		return to, why
	}
	d, _ := p.decide()
	if d.Allocation.SameShape(r.x.Current) || r.isRefused(d.Allocation) {
		return p.probeAgain("nothing allowed is better")
	}
	worth, why := plan.Worth(r.snapshot(), d)
	if !worth {
		return p.probeAgain(why)
	}
	return &d.Allocation, why
}

// probeAgain returns another probe during the work if one is worthwhile.
func (p *planned) probeAgain(why string) (*resources.Allocation, string) {
	next, reason := p.nextProbe()
	if next == nil {
		return nil, why
	}
	p.r.working = false
	return next, reason
}

// decide calls the planner. If the planner fails or panics, the failure is recorded and the baseline used, as in the
// agent.
func (p *planned) decide() (d plan.Plan, err error) {
	r := p.r
	own := func(why any) (plan.Plan, error) {
		r.out.Fallbacks = append(r.out.Fallbacks, fmt.Sprintf("planner %s: %v", p.planner.Name(), why))
		return plan.Plan{Allocation: r.s.Baseline, Planner: "static", Reason: "the baseline, unchanged"}, nil
	}
	defer func() {
		if x := recover(); x != nil {
			d, err = own(x)
		}
	}()
	d, err = p.planner.Decide(r.snapshot())
	var no *plan.Infeasible
	switch {
	case errors.As(err, &no):
		d = no.Plan
		d.Reason = no.Why
	case err != nil:
		return own(err)
	}
	d.Allocation.GPUIDs = nil
	if bad := r.check(d.Allocation); bad != nil {
		return own(bad)
	}
	return d, err
}

// check validates an allocation. Memory is ignored for a job without memory limit.
func (r *runner) check(a resources.Allocation) error {
	limits, host := r.s.Limits, r.host
	if limits.MemoryMax <= 0 {
		limits.MemoryMin, limits.MemoryMax, host.Memory, a.Memory = 0, 1, 1, 1
	}
	return limits.Check(a, host)
}
