package run

import (
	"context"
	"errors"
	"math"
	"time"

	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/chart"
	"trainopt/resources"
)

// measuredEnough reports whether the pace of a segment is measured: two timed blocks, or one long unit. For short
// steps, which are timed while libraries still warm up and before any periodic work, a few seconds are required.
func (r *run) measuredEnough(s *Segment) bool {
	if r.progress.Unit == "step" && len(s.Blocks) > 0 && s.Blocks[0] < 1 {
		return len(s.Blocks) >= settledBlocks && s.LastRowAt-s.FirstRowAt >= stepsShown
	}
	return len(s.Blocks) >= 2 || len(s.Blocks) == 1 && s.Blocks[0]*s.Units >= longUnit.Seconds()
}

// stepsShown is the time for which steps are timed before they count as measured.
const stepsShown = 5 * time.Second

// probeStep decides, during the probes, whether to measure another allocation or to plan.
func (r *run) probeStep(ctx context.Context) {
	if r.progress.Finished() {
		return // the job only writes its last output
	}
	seg := r.progress.Current()
	if !r.measuredEnough(seg) {
		r.giveUpSlowProbe(ctx, seg)
		return
	}
	r.closeProbe(seg)
	r.refit()
	if r.model == nil {
		return
	}
	if next, why := r.nextProbe(); next != nil {
		r.event(Info, "probing %s: %s", *next, why)
		r.leave(&leaving{Why: "restart", Next: next, Label: "probe"})
		return
	}
	r.settle(ctx)
}

// giveUpSlowProbe ends a probe that has used up the budget of all probes without measuring its pace; the plan is then
// made without it.
func (r *run) giveUpSlowProbe(ctx context.Context, seg *Segment) {
	if len(r.rec.Probes) == 0 || r.model == nil {
		return // the measurement of the baseline is never cut short
	}
	if budget, ok := r.probeBudget(); !ok || r.probesSpent()+r.spent()-seg.StartUSD < budget {
		return
	}
	r.event(Warning, "the probe at %s has not measured its pace within the probe budget: planning without it", seg.Allocation)
	r.closeProbe(seg)
	r.settle(ctx)
}

// closeProbe records the current segment as a probe.
func (r *run) closeProbe(seg *Segment) {
	seg.Spent = r.spent() - seg.StartUSD
	if seg.PeakGiB > 0 {
		r.learnMemory(seg.PeakGiB)
	}
	p := r.probeRecord(seg, r.elapsed())
	p.InJob = r.resumable || len(r.rec.Probes) == 0
	r.rec.Probes = append(r.rec.Probes, p)
	r.noteDisturbance(seg)
	per := median(seg.Blocks)
	if len(seg.Blocks) > 0 {
		r.event(Info, "measured %s: %.3g s per %s, peak memory %s", seg.Allocation, per, r.progress.Unit, chart.PlainBlanks(chart.GiB(seg.PeakGiB)))
	}
}

// noteDisturbance warns if other programs used so much of the machine during a measurement that the job cannot have
// had the CPUs of its allocation.
func (r *run) noteDisturbance(seg *Segment) {
	foreign := mean(seg.Foreign, seg.CPUN)
	if free := r.sampler.machineCPUs - foreign; free < float64(seg.Allocation.CPUs)-0.25 {
		r.event(Warning, "while %s was measured, other programs used %.1f of the machine's %g CPUs: predictions from it hold only under the same load",
			seg.Allocation, foreign, r.sampler.machineCPUs)
	}
}

// probesSpent returns the cost of the finished probes, USD, without the first: work at the baseline would have been
// done anyway.
func (r *run) probesSpent() float64 {
	sum := 0.0
	for i, p := range r.rec.Probes {
		if i > 0 {
			sum += float64(p.CostUSD)
		}
	}
	return sum
}

// probeBudget returns the money that probes may spend, USD: a share of the job's predicted cost at the best known
// allocation. ok is false if the job's length is unknown.
func (r *run) probeBudget() (float64, bool) {
	total := r.progress.Total
	if total <= 0 || r.model == nil {
		return 0, false
	}
	best := math.Inf(1)
	for _, o := range r.progress.Observations() {
		at := r.model.UnitSeconds(o.Allocation).P50 * total / 3600 * float64(r.rates.Hourly(r.withMemory(o.Allocation)))
		best = math.Min(best, at)
	}
	return best * r.Config.Ratio, !math.IsInf(best, 1)
}

func (r *run) withMemory(a resources.Allocation) resources.Allocation {
	if r.needMemory > 0 {
		a.Memory = r.needMemory
	}
	return a
}

// nextProbe returns the most informative allocation among those whose measurement is affordable, and the reason; nil
// if the run should be planned now. An allocation that plan.RescueProbe proposes has precedence.
func (r *run) nextProbe() (*resources.Allocation, string) {
	if to, why := plan.RescueProbe(r.snapshot()); to != nil {
		*to = r.withMemory(*to)
		return to, why
	}
	if len(r.rec.Probes) >= r.Config.Samples {
		return nil, ""
	}
	budget, ok := r.probeBudget()
	if !ok {
		if len(r.rec.Probes) == 1 {
			r.event(Info, "no further probes: the total amount of work is unknown (--epochs N or --steps N sets it)")
		}
		return nil, ""
	}
	rest := budget - r.probesSpent()
	var affordable []resources.Allocation
	for _, c := range plan.Allocations(r.snapshot()) {
		if r.probeCost(c) <= rest {
			affordable = append(affordable, c)
		}
	}
	next, why := plan.NextProbe(r.snapshot(), r.progress.Observations(), affordable)
	if next == nil && len(r.rec.Probes) == 1 && len(affordable) == 0 {
		r.event(Info, "no further probes: each would exceed the probe budget (%.0f %% of the predicted cost)", 100*r.Config.Ratio)
	}
	if next != nil {
		*next = r.withMemory(*next)
	}
	return next, why
}

// probeCost returns the predicted cost of measuring an allocation, USD: the restart, one unit of warm-up, and the
// units of two timed blocks.
func (r *run) probeCost(a resources.Allocation) float64 {
	unit := r.model.UnitSeconds(a).P50
	blocks := 2 * math.Max(1, math.Ceil(minBlock.Seconds()/unit))
	if unit >= longUnit.Seconds() {
		blocks = 1
	}
	seconds := r.restartCost().P50 + (1+blocks)*unit
	return seconds / 3600 * float64(r.rates.Hourly(r.withMemory(a)))
}

// settle makes the plan and moves the job to its allocation.
func (r *run) settle(ctx context.Context) {
	p, err := r.decide()
	var no *plan.Infeasible
	if errors.As(err, &no) {
		r.event(Problem, "%s", no.Why)
	}
	p = plan.StayUnlessWorth(r.snapshot(), p)
	r.adopt(p)
	r.event(Info, "plan: %s — %s", p.Allocation, p.Reason)
	if r.Config.Explain {
		r.View.Planned(r.rec)
	}
	r.moveTo(ctx, p)
}

// moveTo brings the job to the plan's allocation by the least intrusive way that is allowed: no change, a live
// change, or a restart. If none is allowed, the allocation is recommended only.
func (r *run) moveTo(ctx context.Context, p plan.Plan) {
	to, s := p.Allocation, r.snapshot()
	if to.SameShape(r.current) {
		if to.Memory != r.current.Memory && r.fitsMemory(to.Memory) {
			r.applyLive(to, "measured need with a margin of 25 %")
		} else {
			r.stay(p.Reason)
		}
		r.progress.Current().Label = "run"
		return
	}
	switch {
	case s.LiveWorkers && r.workersAlone(to):
		if r.observer.workers.id == 0 {
			r.moveWorkers(to, p.Reason)
		}
	case s.Resumable || s.Restartable:
		r.act(to, p.Reason, "restart")
		r.leave(&leaving{Why: "restart", Next: &to, Label: "run"})
	case s.LiveCPU && to.GPUs == r.current.GPUs && to.BatchSize == r.current.BatchSize && to.Threads == r.current.Threads && to.CPUs < r.current.CPUs:
		r.applyLive(to, p.Reason)
	default:
		r.advise(to, p.Reason+"; the job cannot be resumed, so it stays where it is")
	}
}

func (r *run) fitsMemory(g resources.GiB) bool {
	used := r.sampler.last.Tree.MemoryGiB
	return math.IsNaN(used) || used < float64(g)
}

func (r *run) advise(to resources.Allocation, why string) {
	if key := to.String(); !r.advised[key] {
		r.advised[key] = true
		r.act(to, why, "recommended")
	}
}

// probeAgain starts another probe during the work if that is worthwhile, and otherwise records the decision to stay.
func (r *run) probeAgain(ctx context.Context, why string) {
	var next *resources.Allocation
	var reason string
	if r.resumable && !errors.Is(ctx.Err(), context.Canceled) {
		r.think(func() { next, reason = r.nextProbe() })
	}
	if next == nil {
		r.stay(why)
		return
	}
	r.event(Info, "probing %s: %s", *next, reason)
	r.phase = probing
	r.leave(&leaving{Why: "restart", Next: next, Label: "probe"})
}

// adaptStep searches, every few units of work, for an allocation that is better for the remaining work. It refits the
// model, lets the planner decide, and moves the job if the gain is worth the move.
func (r *run) adaptStep(ctx context.Context) {
	if r.progress.Rewound && r.resumable {
		r.resumable = false
		r.event(Warning, "after the restart the log began again from %s %g: the job does not resume; it will not be restarted again", r.progress.Unit, r.progress.Done)
	}
	if r.progress.Done-r.adaptedAt < float64(r.Config.Every) || r.progress.Finished() || r.Config.Planner == "static" || r.retryAt > 0 {
		return
	}
	if !r.rested() {
		return
	}
	r.adaptedAt = r.progress.Done
	if seg := r.progress.Current(); seg.PeakGiB > 0 {
		r.learnMemory(seg.PeakGiB)
	}
	var p plan.Plan
	var err error
	r.think(func() {
		r.refit()
		r.checkAgent(ctx)
		if r.model != nil {
			p, err = r.decide()
		}
	})
	if r.model == nil {
		return
	}
	if to, why := plan.Revert(r.snapshot()); to != nil && r.measuredEnough(r.progress.Current()) {
		r.moveTo(ctx, plan.Plan{Allocation: r.withMemory(*to), Planner: p.Planner, Reason: why})
		return
	}
	var no *plan.Infeasible
	if errors.As(err, &no) {
		r.once(Warning, "infeasible", "%s", no.Why)
	}
	if p.Allocation.SameShape(r.current) {
		if p.Allocation.Memory > r.current.Memory {
			r.applyLive(p.Allocation, "measured need with a margin of 25 %")
		} else {
			r.probeAgain(ctx, "nothing allowed is better")
		}
		return
	}
	worth, why := plan.Worth(r.snapshot(), p)
	if !worth {
		r.probeAgain(ctx, why)
		return
	}
	p.Reason = why
	r.plan = p
	before := r.rec.Plan
	r.rec.Plan = r.planRecord(p, r.elapsed().Seconds())
	if before != nil && before.Prediction != nil { // the outcome is compared with the first prediction
		r.rec.Plan.Prediction = before.Prediction
	}
	r.writeFront(p)
	r.moveTo(ctx, p)
}
