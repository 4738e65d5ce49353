package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/monitor"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/resources"
	"trainopt/sla"
)

// outcome is how a run ended.
type outcome struct {
	ended        *ending       // nil while it continues
	endedAt      time.Duration // elapsed time at the end
	userCode     Code          // of the user's first signal; 0 if none
	progressLost bool          // a part of the log could not be read, so that the final progress is unknown
}

// ending is the reason for the end of a run.
type ending struct {
	state  journal.State
	reason string // Exit.Reason of run.json
	detail string
	exit   *launch.Exit
	code   Code
	err    error
}

// end records the first ending of the run and its elapsed time; later ones are ignored.
func (r *run) end(e *ending) {
	if r.ended == nil {
		r.endedAt = r.elapsed()
		if e.exit != nil && r.exitAt > 0 {
			r.endedAt = r.exitAt
		}
		r.ended = e
	}
}

// finish closes the last segment, evaluates the SLA, and writes the final record, tables and reports.
func (r *run) finish() Result {
	r.settleEngine()
	r.releasePower()
	e := r.ended
	now := r.elapsed()
	if slices.ContainsFunc(r.Progress.Segments, func(s *Segment) bool { return !r.atBaseline(s) }) {
		r.measureSpeed()()
	}
	r.readLastRows()
	if r.log.named != "" && !r.log.elsewhere {
		if _, err := os.Stat(r.log.named); os.IsNotExist(err) {
			r.event(Warning, "read training log %s: no such file: the training has not written it", r.log.named)
		}
	}
	r.observe()
	r.scanCheckpoints(true)
	r.closeSegment(now)
	r.meter.Stop(now)
	if r.model == nil || r.Progress.Rows > r.modelRows || r.Progress.unsettled() { // no faster units follow
		r.refit()
	}
	if r.model != nil {
		r.rec.Model = modelRecord(r.model)
	}
	r.projected = projection{}
	r.verdicts = sla.Evaluate(r.Config.SLA, r.measures(true))
	rec := r.rec
	finished := r.Clock.Now().UTC()
	rec.State, rec.FinishedAt = e.state, &finished
	rec.Exit = exitRecord(e.reason, e.detail, e.exit)
	code := e.code
	if e.state == journal.Done {
		code = CodeDone
		for _, v := range r.verdicts {
			if v.Status == sla.Violated {
				code = CodeMissed
			}
		}
	}
	r.recordStretches()
	r.noteCheckpoint()
	if e.state != journal.Done && rec.Script.Resumable != nil && !r.resumes() { // its checkpoints were removed, or are not loaded
		rec.Script.Resumable, rec.Checkpoint = new(bool), nil
	}
	n := int(code)
	rec.ExitCode = &n
	r.refresh(true)
	r.verdicts = rec.SLA.Verdicts
	r.writeVerdicts(now)
	r.finalTables()
	err := r.dir.WriteRecord(rec)
	if err != nil {
		r.View.Event(Problem, err.Error())
	}
	queues := e.reason == byAllocation && r.Config.Requeue // it may continue by itself
	if !queues && e.reason != byLease {
		r.tellEnd()
	}
	r.saveState()
	if err == nil { // they are rendered from the record
		r.writeReports()
	}
	for _, note := range history.SyncStateDir(r.Config.StateDir, 3*time.Second) {
		r.View.Event(Warning, note)
	}
	if !r.requeue(context.Background()) && queues {
		r.tellEnd()
	}
	r.closeNotices()
	r.View.Finished(rec, r.dir.Dir())
	return Result{Record: rec, Dir: r.dir.Dir(), Code: code, Err: e.err, Unsaved: e.reason == byLease && !r.hasSaved() && !r.savedAtEnd()}
}

// exitRecord converts the end of a run to its form in run.json; exit is nil if no job ended.
func exitRecord(reason, detail string, exit *launch.Exit) *journal.Exit {
	e := &journal.Exit{Reason: reason, Detail: detail}
	switch {
	case exit == nil:
	case exit.Signal != "":
		e.Signal = &exit.Signal
	case exit.Code >= 0 && reason != "start-failed":
		e.Code = &exit.Code
	}
	return e
}

// refresh updates the derived parts of run.json.
func (r *run) refresh(final bool) {
	now := r.elapsed()
	rec := r.rec
	rec.Measured = []journal.Probe{}
	active := 0.0
	for _, s := range r.Progress.Segments {
		end := s.EndedAt
		if end == 0 {
			end = now
		}
		if s.EndedAt == 0 {
			s.Spent = r.spent() - s.StartUSD
		}
		active += (end - s.LaunchedAt).Seconds()
		if len(s.Blocks) > 0 {
			rec.Measured = append(rec.Measured, r.probeRecord(s, now))
		}
	}
	rec.Overheads = journal.Overheads{StartupSeconds: numbers(r.Progress.StartupSeconds()), RestartSeconds: numbers(r.Progress.RestartSeconds()), ClosingSeconds: r.closing()}
	overheadS, overheadUSD := r.Progress.overhead(now)
	o := &rec.Outcome
	o.Seconds, o.ActiveSeconds, o.OverheadSeconds = journal.Number(now.Seconds()), journal.Number(active), journal.Number(overheadS)
	o.CostUSD, o.Rows, o.Restarts = journal.Number(r.spent()), r.Progress.Rows, max(0, r.Progress.launches()-1)
	if r.Config.elsewhere() || r.QueuedS > 0 {
		o.QueueSeconds = &r.QueuedS
	}
	o.ProbeCostUSD = journal.Number(r.probesSpent() + r.besideUSD(r.Clock.Now()) - r.CorrectedUSD)
	r.recordSiteProbes()
	o.Epochs, o.Steps, o.FromUnits = journal.Unknown(), journal.Unknown(), 0
	if !r.progressLost {
		o.FromUnits = math.Min(r.Progress.From, r.Progress.Done)
	}
	switch {
	case r.progressLost:
	case r.Progress.Unit == "epoch":
		o.Epochs = journal.Number(r.Progress.Done)
	case r.Progress.Unit == "step":
		o.Steps = journal.Number(r.Progress.Done)
	}
	m := r.measures(final)
	o.GPUUtil, o.CPUUtil = journal.Number(m[sla.GPUUtil].Value), journal.Number(m[sla.CPUUtil].Value)
	var all Segment
	for _, s := range r.Progress.Segments {
		all.Taken, all.CPUN = all.Taken+s.Taken, all.CPUN+s.CPUN
		o.GrantedCPUs = s.GrantedCPUs
	}
	o.TakenCPUs = all.taken()
	rate, unit := r.Progress.throughput()
	o.Throughput, o.ThroughputUnit = journal.Number(rate), unit
	peak, _ := r.Progress.peakMemory()
	o.PeakMemoryGiB, o.EnergyJoules = journal.Number(peak), journal.Unknown()
	if r.sampler.haveJ {
		o.EnergyJoules = journal.Number(r.Joules)
	}
	o.CPUEnergyJoules = r.CPUJoules
	rec.Training.TotalUnits = journal.Unknown() // an expected total may have been for another unit
	if total := r.total(); total > 0 {
		rec.Training.TotalUnits = journal.Number(total)
	}
	rec.Training.Unit = r.Progress.Unit
	if o := r.observer; o != nil && o.facts.Stepping > 0 {
		f := &o.facts
		rec.Training.StepShares = &journal.StepShares{DataWait: journal.Number(f.DataWait), Optimizer: journal.Number(f.Optimizer), Saving: journal.Number(f.Saving)}
	}
	st := r.log.Stats()
	rec.Log = journal.Log{Path: st.Path, Format: st.Format, Rows: st.Rows, BadRows: st.Bad}
	for _, b := range st.FirstBad {
		rec.Log.Bad = append(rec.Log.Bad, b.String())
	}
	rec.SLA.Verdicts = r.verdicts
	if rec.SLA.Verdicts == nil {
		rec.SLA.Verdicts = []sla.Verdict{}
	}
	if share, ok := sla.Compliance(r.verdicts); ok {
		rec.SLA.Compliance = journal.Number(share)
	}
	if r.Config.Spot == nil { // otherwise the price of the baseline is not one
		r.compareWithBaseline()
	}
	r.recordSpot()
	r.countWaste(overheadUSD)
	rec.Settle()
}

func numbers(v []float64) []journal.Number {
	out := []journal.Number{}
	for _, x := range v {
		out = append(out, journal.Number(x))
	}
	return out
}

// countWaste attributes spend without benefit to its causes, as far as they were measured. Idle CPUs and unused
// memory count only if resources are priced by unit. Idle GPUs waited for data for the share of the step time that the
// observer measured; without an observer, busy CPUs are the sign of it.
func (r *run) countWaste(restartsUSD float64) {
	w := &r.rec.Waste
	w.Restarts = journal.Number(restartsUSD)
	w.Idle, w.InputBound, w.OverProvisioned, w.Failed = journal.Unknown(), journal.Unknown(), journal.Unknown(), r.lostMoney()
	add := func(to *journal.Number, usd float64) {
		if math.IsNaN(float64(*to)) {
			*to = 0
		}
		*to += journal.Number(usd)
	}
	for _, s := range r.Progress.Segments {
		hours := s.Spent / math.Max(1e-12, float64(r.Rates.Hourly(s.Allocation)))
		if s.PeakGiB > 0 && r.Rates.Instance == 0 {
			spare := math.Max(0, float64(s.Allocation.Memory-roundMemory(memoryMargin*resources.GiB(s.PeakGiB))))
			add(&w.OverProvisioned, spare*float64(r.Rates.GiBHour)*hours)
		}
		if s.CPUN > 0 && s.Allocation.GPUs == 0 && r.Rates.Instance == 0 {
			idle := s.cpus()*(1-mean(s.CPUSum, s.CPUN)/100) - s.taken()
			add(&w.Idle, math.Max(0, idle)*float64(r.Rates.CPUHour)*hours)
		}
		if s.GPUN > 0 {
			spent := float64(s.Allocation.GPUs) * float64(r.Rates.GPUHour) * hours
			if r.Rates.Instance > 0 { // the machine is rented for its GPUs
				spent = s.Spent
			}
			lost := spent * math.Max(0, 1-mean(s.GPUSum, s.GPUN)/100)
			switch o := r.observer; {
			case o != nil && o.facts.Stepping > 0:
				waited := math.Min(lost, o.facts.DataWait*spent)
				add(&w.InputBound, waited)
				add(&w.Idle, lost-waited)
			case s.CPUN > 0 && mean(s.CPUSum, s.CPUN) > 80:
				add(&w.InputBound, lost)
			default:
				add(&w.Idle, lost)
			}
		}
	}
}

// lostMoney returns the cost of work that was lost: that a later launch repeated, and, if the run ended early, that no
// checkpoint contains. It is unknown if the position is at which a restarted job continued, or of what a job saved by itself
// in files that are not recognised.
func (r *run) lostMoney() journal.Number {
	p := &r.Progress
	lost := func(last func(*Segment) float64) (sum journal.Number) {
		for _, s := range p.Segments {
			sum += journal.Number(math.Max(s.Lost, last(s)))
		}
		return sum
	}
	e, saves := r.ended, len(r.checkpoints.times)
	saved := e == nil || e.state == journal.Done || r.savedAtEnd()
	switch {
	case !saved && (!r.keepsWork() || saves == 0 && r.canResume()):
		return journal.Number(r.spent())
	case p.anyPosition && !p.sawResume:
		return journal.Unknown()
	case saved:
		return lost(spentSince(math.MaxInt64))
	case saves == 0:
		return journal.Unknown()
	case page.Known(r.checkpoints.done):
		return lost(spentAbove(r.checkpoints.done))
	}
	return lost(spentSince(r.endedAt - r.atRisk()))
}

// finalTables writes the table with one row per run and flushes all tables.
func (r *run) finalTables() {
	rec := r.rec
	line := monitor.Values{"run_id": rec.RunID, "planner": r.Config.Planner, "preference_time": rec.Preference.Time,
		"preference_cost": rec.Preference.Cost, "preference_resource": rec.Preference.Resource, "gpus": r.Current.GPUs, "cpus": r.Current.CPUs,
		"memory_gib": float64(r.Current.Memory), "seconds": float64(rec.Outcome.Seconds), "cost_usd": float64(rec.Outcome.CostUSD),
		"throughput": float64(rec.Outcome.Throughput), "probe_cost_usd": float64(rec.Outcome.ProbeCostUSD), "restarts": rec.Outcome.Restarts,
		"seconds_change_pct": float64(rec.Comparison.SecondsChangePct), "cost_change_pct": float64(rec.Comparison.CostChangePct),
		"throughput_change_pct": float64(rec.Comparison.ThroughputChangePct), "compliance": float64(rec.SLA.Compliance)}
	if b := rec.Baseline; b != nil {
		line["baseline_gpus"], line["baseline_cpus"], line["baseline_memory_gib"] = b.Allocation.GPUs, b.Allocation.CPUs, float64(b.Allocation.Memory)
		line["baseline_seconds"], line["baseline_cost_usd"], line["baseline_throughput"] = b.Seconds.P50, b.CostUSD.P50, b.Throughput.P50
		line["baseline_compliance"] = float64(b.Compliance)
	}
	r.append(r.tables.Optimization, line)
	for _, t := range r.tables.All() {
		if err := t.Flush(); err != nil {
			r.warnDiskOnce(err)
		}
	}
	if err := monitor.WriteExtended(r.dir.Dir()); err != nil && !errors.Is(err, monitor.ErrNoData) {
		r.warn(err.Error())
	}
}

// writeReports renders report.html and report.md. Failures are warnings: the record is already written.
func (r *run) writeReports() {
	data, err := report.Load(r.dir.Dir())
	if err != nil {
		r.View.Event(Warning, fmt.Sprintf("report: %v", err))
		return
	}
	for file, format := range map[string]string{"report.html": "html", "report.md": "markdown"} {
		var b bytes.Buffer
		if err := data.Render(&b, format); err == nil {
			err = r.dir.WriteFile(file, b.Bytes())
			if err != nil {
				r.View.Event(Warning, err.Error())
			}
		} else {
			r.View.Event(Warning, fmt.Sprintf("report %s: %v", file, err))
		}
	}
}

// recordSpot completes the part of the record about machines and prices.
func (r *run) recordSpot() {
	if r.Config.Spot == nil || r.meter == nil {
		return
	}
	s := journal.Blank[journal.Spot]()
	s.Taken, s.CorrectedUSD = r.Market.Taken, journal.Number(r.CorrectedUSD)
	for _, seg := range r.meter.Segments(r.elapsed()) {
		c := r.pricedAs(seg.Rates)
		next := journal.SpotStretch{Machine: c.Machine.String(), Offer: r.offer(c).Name, FromS: journal.Number(seg.From.Seconds()),
			ToS: journal.Number(seg.To.Seconds()), USDHour: journal.Number(seg.Rates.Instance), CostUSD: journal.Number(seg.Cost)}
		if n := len(s.Stretches); n > 0 && s.Stretches[n-1].Offer == next.Offer && s.Stretches[n-1].ToS == next.FromS {
			s.Stretches[n-1].ToS, s.Stretches[n-1].CostUSD = next.ToS, s.Stretches[n-1].CostUSD+next.CostUSD
			continue
		}
		s.Stretches = append(s.Stretches, next)
	}
	s.ChangeoverS = journal.Number(r.measuredChangeover())
	unit := r.unitSeconds(r.Config.elsewhere()) // another node may have another pace
	startup := r.Progress.StartupSeconds()
	spot := slices.ContainsFunc(s.Stretches, func(x journal.SpotStretch) bool { return x.Machine == capacity.Spot.String() })
	if spot && r.Progress.Finished() && !math.IsNaN(unit) && len(startup) > 0 { // on demand throughout nothing was saved
		price := r.Config.Spot.OnDemand.Rates.Times(r.Host.Nodes).Instance
		s.AloneUSD = journal.Number(r.inOneLaunch(stat.Median(startup), unit) / 3600 * float64(price))
		s.SavingPct = 100 * (1 - journal.Number(r.spent())/s.AloneUSD)
	}
	if r.Market.AloneUSD > 0 {
		s.ExpectedSavingPct = journal.Number(100 * (1 - r.Market.ExpectedUSD/r.Market.AloneUSD))
	}
	r.rec.Spot = &s
}

// pricedAs returns the choice of which the rates are.
func (r *run) pricedAs(rates cost.Rates) capacity.Choice {
	for z, o := range r.Config.Spot.Zones {
		if o.Rates.Times(r.Host.Nodes) == rates {
			return capacity.Choice{Machine: capacity.Spot, Zone: z}
		}
	}
	return capacity.Choice{Machine: capacity.OnDemand}
}
