package run

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/history"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report"
	"trainopt/resources"
	"trainopt/sla"
)

// newRecord returns the part of run.json that is known before the start. Each limit has a verdict, initially unknown.
func (r *run) newRecord() *journal.Record {
	rec := journal.NewRecord()
	rec.Name, rec.Command, rec.Dir, rec.State = r.Config.Name, launch.Redact(r.argv), r.Config.Dir, journal.Planned
	rec.Script = scriptRecord(r.ins, r.resumable)
	rec.Host = journal.Host{Host: r.host}
	if r.host.Described != "" {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the machine is described (%s), not this one: nothing here was measured on it", r.host.Described))
	}
	rec.SLA = slaRecord(r.Config.SLA)
	rec.Handed = journal.Handed{Epochs: r.Config.Epochs, Dataset: launch.RedactText(r.Config.Dataset)}
	rec.Prices, rec.Preference, rec.Seed = journal.Prices{Rates: r.rates}, r.Config.Preference, r.Config.Seed
	rec.Warnings = append(rec.Warnings, r.ins.Warnings...)
	rec.StartedAt = r.Clock.Now().UTC()
	return rec
}

// slaRecord returns the SLA before anything is measured.
func slaRecord(s sla.Spec) journal.SLA {
	return journal.SLA{Spec: s, Hash: s.Hash(), Verdicts: sla.Evaluate(s, nil), Compliance: journal.Unknown()}
}

// scriptRecord converts the findings of inspection to their form in run.json; findings without a value are null.
func scriptRecord(ins inspect.Inspection, resumable bool) journal.Script {
	s := journal.Script{Path: ins.Path, SHA256: ins.SHA256, Resumable: &resumable, Evidence: map[string]string{}, Likeness: ins.Likeness}
	text := func(name string, f inspect.Finding) *string {
		if f.Value == "" {
			return nil
		}
		if f.Line > 0 {
			s.Evidence[name] = fmt.Sprintf("line %d: %s", f.Line, f.Text)
		}
		return &f.Value
	}
	s.Framework, s.Model, s.Dataset = text("framework", ins.Framework), text("model", ins.Model), text("dataset", ins.Dataset)
	if gpu := text("uses_gpu", ins.GPU); gpu != nil {
		yes := *gpu == "yes"
		s.UsesGPU = &yes
	}
	text("resumable", ins.Resumable)
	return s
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
	if r.progress.UnitSamples > 0 {
		p.UnitSamples = journal.Number(r.progress.UnitSamples)
	}
	if len(s.Blocks) > 0 {
		per, unit := r.progress.throughputUnit()
		p.Throughput, p.ThroughputUnit = journal.Number(per/median(s.Blocks)), unit
	}
	return p
}

// refresh updates the derived parts of run.json.
func (r *run) refresh(final bool) {
	now := r.elapsed()
	rec := r.rec
	rec.Measured = []journal.Probe{}
	active, overhead := 0.0, 0.0
	for _, s := range r.progress.Segments {
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
	rec.Overheads = journal.Overheads{StartupSeconds: numbers(r.progress.StartupSeconds()), RestartSeconds: numbers(r.progress.RestartSeconds())}
	for _, v := range r.progress.RestartSeconds() {
		overhead += v
	}
	o := &rec.Outcome
	o.Seconds, o.ActiveSeconds, o.OverheadSeconds = journal.Number(now.Seconds()), journal.Number(active), journal.Number(overhead)
	o.CostUSD, o.Rows, o.Restarts = journal.Number(r.spent()), r.progress.Rows, max(0, r.launches()-1)
	o.ProbeCostUSD = journal.Number(r.probesSpent())
	o.Epochs, o.Steps = journal.Unknown(), journal.Unknown()
	switch r.progress.Unit {
	case "epoch":
		o.Epochs = journal.Number(r.progress.Done)
	case "step":
		o.Steps = journal.Number(r.progress.Done)
	}
	m := r.measures(final)
	o.GPUUtil, o.CPUUtil = journal.Number(m[sla.GPUUtil].Value), journal.Number(m[sla.CPUUtil].Value)
	rate, unit := r.progress.throughput()
	o.Throughput, o.ThroughputUnit = journal.Number(rate), unit
	o.PeakMemoryGiB, o.EnergyJoules = journal.Number(m[sla.Memory].Value), journal.Unknown()
	if r.sampler.haveJ {
		o.EnergyJoules = journal.Number(r.sampler.joules)
	}
	if total := r.progress.knownTotal(r.recalledUnit); total > 0 {
		rec.Training.TotalUnits = journal.Number(total)
	}
	rec.Training.Unit = r.progress.Unit
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
	r.compareWithBaseline()
	r.countWaste(overhead)
	rec.Settle()
}

func numbers(v []float64) []journal.Number {
	out := []journal.Number{}
	for _, x := range v {
		out = append(out, journal.Number(x))
	}
	return out
}

// launches returns the number of launches of the run so far.
func (r *run) launches() int {
	n := 0
	for _, s := range r.progress.Segments {
		if s.Launch {
			n++
		}
	}
	return n
}

// countWaste attributes spend without benefit to its causes, as far as they were measured. Idle CPUs and unused
// memory count only if resources are priced by unit.
func (r *run) countWaste(overheadSeconds float64) {
	w := &r.rec.Waste
	w.Restarts = journal.Number(overheadSeconds / 3600 * r.meanRate())
	w.Idle, w.InputBound, w.OverProvisioned, w.Failed = journal.Unknown(), journal.Unknown(), journal.Unknown(), r.lostMoney()
	var over, idle, input float64
	var haveOver, haveIdle, haveInput bool
	for _, s := range r.progress.Segments {
		hours := s.Spent / math.Max(1e-12, float64(r.rates.Hourly(s.Allocation)))
		if s.PeakGiB > 0 && r.rates.Instance == 0 {
			spare := math.Max(0, float64(s.Allocation.Memory-roundMemory(memoryMargin*resources.GiB(s.PeakGiB))))
			over += spare * float64(r.rates.GiBHour) * hours
			haveOver = true
		}
		if s.CPUN > 0 && s.Allocation.GPUs == 0 && r.rates.Instance == 0 {
			idle += math.Max(0, 1-mean(s.CPUSum, s.CPUN)/100) * float64(s.Allocation.CPUs) * float64(r.rates.CPUHour) * hours
			haveIdle = true
		}
		if s.GPUN > 0 {
			unused := math.Max(0, 1-mean(s.GPUSum, s.GPUN)/100)
			lost := unused * float64(s.Allocation.GPUs) * float64(r.rates.GPUHour) * hours
			if r.rates.Instance > 0 { // the machine is rented for its GPUs
				lost = unused * s.Spent
			}
			if s.CPUN > 0 && mean(s.CPUSum, s.CPUN) > 80 {
				input, haveInput = input+lost, true
			} else {
				idle, haveIdle = idle+lost, true
			}
		}
	}
	if haveOver {
		w.OverProvisioned = journal.Number(over)
	}
	if haveIdle {
		w.Idle = journal.Number(idle)
	}
	if haveInput {
		w.InputBound = journal.Number(input)
	}
}

// meanRate returns the average cost of an hour of this run, USD.
func (r *run) meanRate() float64 {
	if hours := r.elapsed().Hours(); hours > 0 {
		return r.spent() / hours
	}
	return 0
}

// lostMoney returns the cost of work that was not kept: of launches abandoned for another allocation, and of the
// whole run if it ended early without a checkpoint. It is unknown for work that a resumable job lost since its last
// checkpoint.
func (r *run) lostMoney() journal.Number {
	if e := r.ended; e != nil && e.state != journal.Done {
		saved := e.exit != nil && r.leaving != nil && r.leaving.savedBy(*e.exit)
		switch {
		case !r.resumable:
			return journal.Number(r.spent())
		case !saved:
			return journal.Unknown()
		}
	}
	if r.failures > 0 {
		return journal.Unknown()
	}
	lost := 0.0
	for _, s := range r.progress.Segments {
		lost += s.Lost
	}
	return journal.Number(lost)
}

// finish closes the last segment, evaluates the SLA, and writes the final record, tables and reports.
func (r *run) finish() Result {
	e := r.ended
	now := r.elapsed()
	r.readLastRows()
	r.closeSegment(now)
	r.meter.Stop(now)
	if r.model == nil || r.progress.Rows > r.modelRows {
		r.refit()
	}
	if r.model != nil {
		r.rec.Model = modelRecord(r.model)
	}
	r.projected = projection{}
	done := e.state == journal.Done
	r.verdicts = sla.Evaluate(r.Config.SLA, r.measures(true))
	rec := r.rec
	finished := r.Clock.Now().UTC()
	rec.State, rec.FinishedAt = e.state, &finished
	rec.Exit = &journal.Exit{Reason: e.reason, Detail: e.detail}
	if e.exit != nil {
		if e.exit.Signal != "" {
			rec.Exit.Signal = &e.exit.Signal
		} else if e.exit.Code >= 0 && e.reason != "start-failed" {
			rec.Exit.Code = &e.exit.Code
		}
	}
	code := e.code
	if done {
		code = CodeDone
		for _, v := range r.verdicts {
			if v.Status == sla.Violated {
				code = CodeMissed
			}
		}
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
	r.saveState()
	if err == nil { // they are rendered from the record
		r.writeReports()
	}
	for _, note := range history.SyncStateDir(r.Config.StateDir, time.Second) {
		r.View.Event(Warning, note)
	}
	r.View.Finished(rec, r.dir.Dir())
	return Result{Record: rec, Dir: r.dir.Dir(), Code: code, Err: e.err}
}

// finalTables writes the table with one row per run and flushes all tables.
func (r *run) finalTables() {
	rec := r.rec
	line := monitor.Values{"run_id": rec.RunID, "planner": r.Config.Planner, "preference_time": rec.Preference.Time,
		"preference_cost": rec.Preference.Cost, "preference_resource": rec.Preference.Resource, "gpus": r.current.GPUs, "cpus": r.current.CPUs,
		"memory_gib": float64(r.current.Memory), "seconds": float64(rec.Outcome.Seconds), "cost_usd": float64(rec.Outcome.CostUSD),
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
			r.saidOnce(err)
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
		if err := report.Render(&b, data, format); err == nil {
			err = r.dir.WriteFile(file, b.Bytes())
			if err != nil {
				r.View.Event(Warning, err.Error())
			}
		} else {
			r.View.Event(Warning, fmt.Sprintf("report %s: %v", file, err))
		}
	}
}
