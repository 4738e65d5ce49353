package run

import (
	"math"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
)

// MeasuredEnough reports whether the pace of a segment is measured: two timed blocks, or one long unit. For short
// steps, which are timed while libraries still warm up and before any periodic work, a few seconds are required.
func (p *Progress) MeasuredEnough(s *Segment) bool {
	if p.Unit == "step" && len(s.Blocks) > 0 && s.Blocks[0] < 1 {
		return len(s.Blocks) >= settledBlocks && s.LastRowAt-s.FirstRowAt >= stepsShown
	}
	return len(s.Blocks) >= 2 || len(s.Blocks) == 1 && s.Blocks[0]*s.Units >= longUnit.Seconds()
}

// stepsShown is the time for which steps are timed before they count as measured.
const stepsShown = 5 * time.Second

// The baseline is measured until its pace has settled, because slow first units (compilation, caches being filled) are
// indistinguishable from a slow training until faster ones follow: for at least settlingLeast of the work, at most
// settlingMost of it or settlingTime.
const (
	settlingLeast = 0.08
	settlingMost  = 0.25
	settlingTime  = time.Minute
)

// settling reports whether a measured segment is still within its first units, and the bounds above permit waiting for
// more. Without a total nothing is predicted from the pace, and it is false.
func (p *Progress) settling(s *Segment) bool {
	work, done := p.Total-s.StartDone, p.Done-s.StartDone
	if p.Total <= 0 || done >= settlingMost*work || s.LastRowAt-s.FirstRowAt >= settlingTime || s.onlyFirstUnit() {
		return false
	}
	return done < settlingLeast*work || !s.settled() || s.quickens()
}

// onlyFirstUnit reports whether the only timed unit is the first one after the launch, which contains the warm-up.
func (s *Segment) onlyFirstUnit() bool { return len(s.Blocks) == 1 && s.FirstRowAt == s.LastRowAt }

// quickens reports whether the newest block is faster than the steady pace by more than warmUpFactor.
func (s *Segment) quickens() bool {
	return len(s.Blocks) > 0 && median(s.Blocks[s.warmUp():]) > warmUpFactor*s.Blocks[len(s.Blocks)-1]
}

// unsettled reports whether all that this run has measured may be slow first units.
func (p *Progress) unsettled() bool {
	s := p.Current()
	return s != nil && (s.onlyFirstUnit() || s.quickens()) && len(p.Observations()) == 1
}

// probeStep decides, during the probes, whether to measure another allocation or to plan.
func (r *run) probeStep() {
	if r.Progress.Finished() {
		return // the job only writes its last output
	}
	seg := r.Progress.Current()
	if !r.Progress.MeasuredEnough(seg) {
		r.abandonSlowProbe(seg)
		return
	}
	if len(r.rec.Probes) == 0 && r.Progress.settling(seg) {
		return
	}
	r.closeProbe(seg)
	r.refit()
	if r.model == nil {
		return
	}
	if next, why := r.nextProbe(); next != nil {
		r.event(Info, "probing %s: %s", *next, why)
		r.leaveFor(&pendingStop{Why: "restart", Next: next, Label: "probe"})
		return
	}
	r.settle()
}

// stopMeasured ends a run that only measures the pace of its first allocation. Nothing is saved.
func (r *run) stopMeasured() {
	if seg := r.Progress.Current(); r.Config.MeasureOnly && r.Pending == nil && r.Progress.MeasuredEnough(seg) {
		r.closeProbe(seg)
		r.Pending = &pendingStop{Why: "measured", AskedAt: r.elapsed(), Terminated: true}
		r.watchdog.kill()
	}
}

// abandonSlowProbe ends a probe that has used up the budget of all probes without measuring its pace; the plan is then
// made without it.
func (r *run) abandonSlowProbe(seg *Segment) {
	if len(r.rec.Probes) == 0 || r.model == nil {
		return // the measurement of the baseline is never cut short
	}
	if budget, ok := r.probeBudget(); !ok || r.probesSpent()+r.spent()-seg.StartUSD < budget {
		return
	}
	r.event(Warning, "the probe at %s has not measured its pace within the probe budget: planning without it", seg.Allocation)
	r.closeProbe(seg)
	r.settle()
}

// closeProbe records the current segment as a probe.
func (r *run) closeProbe(seg *Segment) {
	seg.Spent = r.spent() - seg.StartUSD
	if seg.PeakGiB > 0 {
		r.learnMemory(seg.PeakGiB)
	}
	p := r.probeRecord(seg, r.elapsed())
	p.InJob = r.Resumable || len(r.rec.Probes) == 0
	r.rec.Probes = append(r.rec.Probes, p)
	r.noteDisturbance(seg)
	if len(seg.Blocks) > 0 {
		r.event(Info, "measured %s: %s, peak memory %s", seg.Allocation, perUnit(median(seg.Blocks), r.Progress.Unit), page.PlainBlanks(page.GiB(seg.PeakGiB)))
	}
}

// probeRecord converts a segment to its form in run.json.
func (r *run) probeRecord(s *Segment, until time.Duration) journal.Probe {
	if s.EndedAt > 0 {
		until = s.EndedAt
	}
	p := journal.Probe{Allocation: s.Allocation, LiveCut: s.LiveCut, Rows: s.Rows, Seconds: journal.Number((until - s.LaunchedAt).Seconds()), Throughput: journal.Unknown(),
		CostUSD: journal.Number(s.Spent), PeakMemoryGiB: journal.Unknown(), UnitSeconds: []journal.Number{}, UnitSamples: journal.Unknown(),
		CPUUtil: journal.Number(mean(s.CPUSum, s.CPUN)), GPUUtil: journal.Number(mean(s.GPUSum, s.GPUN))}
	if s.PeakGiB > 0 {
		p.PeakMemoryGiB = journal.Number(s.PeakGiB)
	}
	from := max(0, len(s.Blocks)-50)
	for _, b := range s.Blocks[from:] {
		p.UnitSeconds = append(p.UnitSeconds, journal.Number(b))
	}
	if r.Progress.UnitSamples > 0 {
		p.UnitSamples = journal.Number(r.Progress.UnitSamples)
	}
	if len(s.Blocks) > 0 {
		per, unit := r.Progress.throughputUnit()
		p.Throughput, p.ThroughputUnit = journal.Number(per/median(s.Blocks)), unit
	}
	return p
}

// noteDisturbance warns if other programs used so much of the machine during a measurement that the job cannot have
// had the CPUs of its allocation.
func (r *run) noteDisturbance(seg *Segment) {
	foreign := mean(seg.Foreign, seg.CPUN)
	if free := r.sampler.machineCPUs - foreign; free < float64(seg.Allocation.CPUs)-foreignSlack {
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
	total := r.Progress.Total
	if total <= 0 || r.model == nil {
		return 0, false
	}
	best := math.Inf(1)
	for _, o := range r.Progress.Observations() {
		at := r.model.UnitSeconds(o.Allocation).P50 * total / 3600 * float64(r.Rates.Hourly(r.withMemory(o.Allocation)))
		best = math.Min(best, at)
	}
	return best * r.Config.Ratio, !math.IsInf(best, 1)
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
	rest := budget - r.probesSpent() - r.probesBesideUSD()
	var affordable []resources.Allocation
	for _, c := range plan.Allocations(r.snapshot()) {
		if r.probeCost(c) <= rest {
			affordable = append(affordable, c)
		}
	}
	next, why := plan.NextProbe(r.snapshot(), r.Progress.Observations(), affordable)
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
	return seconds / 3600 * float64(r.Rates.Hourly(r.withMemory(a)))
}
