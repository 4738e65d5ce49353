package report

import (
	"cmp"
	"fmt"
	"strconv"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// fact is one line of the CSV format. An empty value means "no data".
type fact struct {
	section, name string
	value         string
	p5, p95       string
	unit          string
	kind          string // agreed, measured, predicted, derived, given
}

// lines returns one fact per line: section, name, value, p5, p95, unit, kind. Numbers are plain, in the units of
// run.json; a number that was neither measured nor predicted is an empty field.
func lines(d *data) [][]string {
	out := [][]string{{"section", "name", "value", "p5", "p95", "unit", "kind"}}
	for _, f := range facts(d) {
		out = append(out, []string{f.section, f.name, f.value, f.p5, f.p95, f.unit, f.kind})
	}
	return out
}

type ledger struct {
	section string
	list    []fact
}

func (l *ledger) text(name, value string) {
	l.add(name, page.PlainBlanks(page.Clean(value)), "", "given")
}
func (l *ledger) number(name string, n journal.Number, unit, kind string) {
	l.add(name, plain(float64(n)), unit, kind)
}
func (l *ledger) add(name, value, unit, kind string) {
	l.list = append(l.list, fact{section: l.section, name: name, value: value, unit: unit, kind: kind})
}
func (l *ledger) interval(name string, i sla.Interval, unit string) {
	f := fact{section: l.section, name: name, unit: unit, kind: "predicted"}
	if predicted(i) {
		f.value, f.p5, f.p95 = plain(i.P50), plain(i.P5), plain(i.P95)
	}
	l.list = append(l.list, f)
}

func (l *ledger) allocation(prefix string, a resources.Allocation) {
	l.add(prefix+"gpus", strconv.Itoa(a.GPUs), "", "given")
	l.add(prefix+"cpus", strconv.Itoa(a.CPUs), "", "given")
	l.add(prefix+"memory", plain(float64(a.Memory)), "GiB", "given")
	if a.BatchSize > 0 {
		l.add(prefix+"batch_size", strconv.Itoa(a.BatchSize), "samples", "given")
	}
}

func rateUnit(unit string) string { return cmp.Or(unit, journal.SamplesPerSecond) }

// plain formats a number for programs; an unknown number is "".
func plain(v float64) string { return page.CSVCell(v, 9) }

// facts lists the whole report as facts, section by section in the order of the other formats.
func facts(d *data) []fact {
	r := d.Record
	state, _ := stateOf(d)
	l := &ledger{section: "run"}
	l.text("run_id", r.RunID)
	l.text("name", r.Name)
	l.text("state", state)
	l.text("end", answers(d)[0].Text)
	o := r.Outcome
	l.number("seconds", o.Seconds, "s", "measured")
	l.number("active_seconds", o.ActiveSeconds, "s", "measured")
	l.number("overhead_seconds", o.OverheadSeconds, "s", "measured")
	l.number("cost", o.CostUSD, "USD", "measured")
	l.number("probe_cost", o.ProbeCostUSD, "USD", "measured")
	l.number("throughput", o.Throughput, rateUnit(o.ThroughputUnit), "measured")
	l.number("gpu_util", o.GPUUtil, "%", "measured")
	l.number("cpu_util", o.CPUUtil, "%", "measured")
	if o.TakenCPUs > 0 {
		l.number("taken_cpus", journal.Number(o.TakenCPUs), "CPUs", "measured")
	}
	l.number("peak_memory", o.PeakMemoryGiB, "GiB", "measured")
	l.number("energy", o.EnergyJoules, "J", "measured")
	if o.CPUEnergyJoules != nil {
		l.number("cpu_energy", journal.Number(*o.CPUEnergyJoules), "J", "measured")
	}
	l.add("restarts", strconv.Itoa(o.Restarts), "", "measured")
	l.add("rows", strconv.Itoa(o.Rows), "", "measured")

	l.section = "agreement"
	for _, v := range r.SLA.Verdicts {
		name := string(v.Objective)
		l.add(name+" limit", plain(v.Limit), v.Unit, "agreed")
		if v.Value != nil {
			l.add(name, plain(*v.Value), v.Unit, "measured")
		} else {
			l.add(name, "", v.Unit, "measured")
		}
		if v.Projected != nil && !r.Over() {
			l.interval(name+" at the end", *v.Projected, v.Unit)
		}
		l.add(name+" status", string(v.Status), "", "derived")
	}
	l.number("compliance", r.SLA.Compliance, "", "derived")
	planFacts(l, r)

	l.section = "comparison"
	if b := r.Baseline; b != nil {
		l.allocation("baseline ", b.Allocation)
		l.interval("baseline seconds", b.Seconds, "s")
		l.interval("baseline cost", b.CostUSD, "USD")
		l.interval("baseline throughput", b.Throughput, rateUnit(o.ThroughputUnit))
	}
	c := r.Comparison
	if c.Basis != "" {
		l.text("basis", c.Basis)
	}
	l.change("seconds_change", c.SecondsChangePct, c.SecondsChange)
	l.change("cost_change", c.CostChangePct, c.CostChange)
	l.change("throughput_change", c.ThroughputChangePct, nil)
	l.change("compliance_change", c.ComplianceChangePct, nil)

	l.section = "waste"
	w := r.Waste
	for _, n := range []struct {
		name  string
		money journal.Number
	}{{"idle", w.Idle}, {"input_bound", w.InputBound}, {"over_provisioned", w.OverProvisioned}, {"restarts", w.Restarts}, {"failed", w.Failed}} {
		l.number(n.name, n.money, "USD", "derived")
	}
	detailFacts(l, d)
	return l.list
}

func (l *ledger) change(name string, n journal.Number, i *sla.Interval) {
	f := fact{section: l.section, name: name, value: plain(float64(n)), unit: "%", kind: "derived"}
	if i != nil && n.Known() {
		f.p5, f.p95 = plain(i.P5), plain(i.P95)
	}
	l.list = append(l.list, f)
}

// planFacts adds the plan, its prediction, whether the outcomes lie inside their intervals, and the choices of other
// preferences.
func planFacts(l *ledger, r *journal.Record) {
	p := r.Plan
	if p == nil {
		return
	}
	l.section = "plan"
	l.text("planner", p.Planner)
	l.text("reason", p.Reason)
	l.text("binding", p.Binding)
	l.allocation("", p.Allocation)
	if p.Prediction != nil {
		l.interval("seconds", p.Prediction.Seconds, "s")
		l.interval("cost", p.Prediction.CostUSD, "USD")
		l.interval("throughput", p.Prediction.Throughput, rateUnit(r.Outcome.ThroughputUnit))
	}
	for _, c := range realised(r) {
		held := ""
		if c.comparable {
			held = strconv.FormatBool(c.inside)
		}
		l.add(c.name+" inside 90 % interval", held, "", "derived")
	}
	l.section = "options"
	for _, option := range p.Options {
		l.candidate(option.Prefer+" ", option.Candidate)
	}
}

func (l *ledger) candidate(prefix string, c plan.Candidate) {
	l.allocation(prefix, c.Allocation)
	l.interval(prefix+"seconds", c.Seconds, "s")
	l.interval(prefix+"cost", c.CostUSD, "USD")
	l.add(prefix+"resource", plain(c.Resource), "", "given")
	l.add(prefix+"feasible", strconv.FormatBool(c.Feasible), "", "predicted")
}

// detailFacts adds actions, probes, training results, recommendations, warnings and missing tables.
func detailFacts(l *ledger, d *data) {
	r := d.Record
	l.section = "actions"
	for _, a := range r.Actions {
		l.add(fmt.Sprintf("at %s s", plain(float64(a.AtS))), page.Clean(a.Applied+": "+a.Description+" ("+a.Reason+")"), "", "given")
	}
	l.section = "probes"
	for i, p := range r.Probes {
		name := fmt.Sprintf("%d ", i+1)
		l.allocation(name, p.Allocation)
		l.number(name+"seconds", p.Seconds, "s", "measured")
		l.number(name+"throughput", p.Throughput, rateUnit(p.ThroughputUnit), "measured")
		l.number(name+"peak_memory", p.PeakMemoryGiB, "GiB", "measured")
		l.number(name+"cost", p.CostUSD, "USD", "measured")
	}
	l.section = "training"
	t := r.Training
	l.number("train_loss", t.TrainLoss, "", "measured")
	l.number("train_accuracy", t.TrainAccuracy, "", "measured")
	l.number("test_loss", t.TestLoss, "", "measured")
	l.number("test_accuracy", t.TestAccuracy, "", "measured")
	l.number("model_params", t.ModelParams, "", "given")
	l.number("batch_size", t.BatchSize, "samples", "given")
	l.section = "recommendation"
	for _, rec := range recommend(r) {
		l.text(rec.Flag, rec.Why)
	}
	l.section = "warnings"
	for i, warning := range r.Warnings {
		l.text(strconv.Itoa(i+1), warning)
	}
	for i, m := range d.Missing {
		l.text("missing "+strconv.Itoa(i+1), m)
	}
}
