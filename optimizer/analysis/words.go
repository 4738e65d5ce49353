package analysis

import (
	"fmt"
	"strings"

	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
)

// moneyTable returns time and cost of each model.
func (r *Report) moneyTable() *page.Table {
	g := &page.Table{Columns: append(page.Left("model"), page.Right("runs", "failed", "time", "median", "cost", "median", "in failed")...)}
	for i := range r.Models {
		m := &r.Models[i]
		g.Rows = append(g.Rows, m.Totals.row(m.name()))
	}
	if len(r.Models) > 1 {
		all := r.Totals.row("all")
		all[4].Text, all[6].Text = "", "" // no median over different models
		g.Rows = append(g.Rows, all)
	}
	return g
}

// row returns the cells of the money table for one model.
func (t *runTotals) row(name string) []page.Cell {
	failed := page.NoData
	if t.FailedShare.Known() {
		failed = fmt.Sprintf("%d (%s)", t.Failed, page.Share(float64(t.FailedShare)))
	}
	lost := page.USD(float64(t.LostUSD))
	if t.Failed == 0 && t.FailedShare.Known() {
		lost = "–"
	}
	return page.Row(name, page.Thousands(float64(t.Runs)), failed, page.Duration(float64(t.Seconds)), page.Duration(float64(t.MedianSeconds)),
		page.USD(float64(t.CostUSD)), page.USD(float64(t.MedianUSD)), lost)
}

// useTable returns the use of resources by each model.
func (r *Report) useTable() *page.Table {
	g := &page.Table{Columns: append(page.Left("model"), page.Right("samples/s", "GPU", "CPU", "memory", "GPU memory", "energy")...)}
	for i := range r.Models {
		m := &r.Models[i]
		g.Rows = append(g.Rows, page.Row(m.name(), ranged(m.Throughput), page.Percent(float64(m.GPUUtil.Median)), page.Percent(float64(m.CPUUtil.Median)),
			page.GiB(float64(m.PeakMemoryGiB.Max)), page.GiB(float64(m.GPUMemoryGiB.Max)), energy(float64(m.Totals.EnergyJoules))))
	}
	return g
}

// ranged formats a summary as "1,234 (980 to 1,400)".
func ranged(s valueSummary) string {
	text, lo, hi := page.Significant(float64(s.Median)), page.Significant(float64(s.Min)), page.Significant(float64(s.Max))
	if lo != hi {
		text += " (" + lo + " to " + hi + ")"
	}
	return text
}

func energy(joules float64) string {
	switch {
	case !page.Known(joules):
		return page.NoData
	case joules >= 3.6e6:
		return page.WithUnit(joules/3.6e6, "kWh")
	}
	return page.WithUnit(joules/1000, "kJ")
}

// measures are the labels of the criteria.
var measures = map[string]string{"time": "fastest", "cost": "cheapest", "throughput_per_dollar": "most for a dollar"}

// value formats the value of a best configuration.
func (b bestConfig) value() string { return b.number(float64(b.Value.Mean)) + b.per() }

func (b bestConfig) number(v float64) string {
	switch b.By {
	case "time":
		return page.Duration(v)
	case "cost":
		return page.USD(v)
	}
	return page.Significant(v)
}

func (b bestConfig) per() string {
	if i := strings.Index(b.Unit, " per "); i >= 0 && b.By != "throughput_per_dollar" {
		return b.Unit[i:]
	}
	return " " + b.Unit
}

// support describes the evidence for a best configuration and the compared ones.
func (b bestConfig) support() string {
	parts := []string{page.Plural(b.Value.Runs, "run")}
	if lo, hi := b.number(float64(b.Value.Lo)), b.number(float64(b.Value.Hi)); b.Value.Lo.Known() && lo != hi {
		parts[0] += ", 90 % interval " + lo + " to " + hi
	}
	if b.Configs < 2 {
		return strings.Join(append(parts, "the only configuration that can be compared"), "; ")
	}
	word := map[bool]string{true: "more", false: "less"}[b.By == "throughput_per_dollar"]
	parts = append(parts, fmt.Sprintf("%s %s than the median of %d configurations", pct(b.ThanMedianPct), word, b.Configs))
	second := fmt.Sprintf("%s %s than the second (%s)", pct(b.ThanSecondPct), word, b.Second)
	switch {
	case b.Distinct == nil:
		second += ", too few runs to say whether that is chance"
	case *b.Distinct:
		second += ", beyond chance"
	default:
		second += ", which may be chance"
	}
	return strings.Join(append(parts, second), "; ")
}

func pct(n page.Number) string {
	if !n.Known() {
		return page.NoData
	}
	return fmt.Sprintf("%.1f %%", float64(n))
}

// table returns the table of a scaling curve.
func (c *curve) table() *page.Table {
	g := &page.Table{Columns: page.Right(knobNames[c.Knob], "runs", c.Unit, "90 % interval", "speed-up", "efficiency"), Folded: true}
	for _, p := range c.Points {
		efficiency := "–"
		if p.Efficiency.Mean.Known() {
			efficiency = page.Share(float64(p.Efficiency.Mean))
		}
		g.Rows = append(g.Rows, page.Row(page.Count(p.At), fmt.Sprint(p.Speed.Runs), page.Significant(float64(p.Speed.Mean)), p.Speed.between(), page.Significant(float64(p.Speedup.Mean))+"×", efficiency))
	}
	return g
}

func (e estimated) between() string {
	if !e.Lo.Known() {
		return "–"
	}
	return page.Significant(float64(e.Lo)) + " to " + page.Significant(float64(e.Hi))
}

// title describes a curve.
func (c *curve) title() string {
	s := "Speed over " + knobNames[c.Knob]
	var held []string
	if c.GPU != "" {
		held = append(held, page.Clean(c.GPU))
	}
	if c.Held != "" {
		held = append(held, c.Held)
	}
	if len(held) > 0 {
		s += ", at " + strings.Join(held, ", ")
	}
	if len(c.Notes) > 0 {
		s += " (" + strings.Join(c.Notes, ", ") + ")"
	}
	return s
}

// causes are the labels of findings.
var causes = map[string]string{
	"input-bound": "GPUs wait for input", "idle": "GPUs paid for and idle", "not-on-gpu": "model not on the GPU", "no-device": "no GPU visible",
	"count-mismatch": "GPUs paid for and not used", "columns-absent": "GPU use not measured", "failed": "failed runs",
	"flat-gpus": "speed does not rise with GPUs", "flat-cpus": "speed does not rise with CPUs", "flat-batch": "speed does not rise with the batch",
}

// lost formats the amount of a finding.
func (f finding) lost() string {
	switch {
	case f.LostUSD.Known():
		return page.USD(float64(f.LostUSD)) + ": " + f.Basis
	case f.Basis != "":
		return f.Basis
	}
	return ""
}

// termTable returns the number of runs that meet each limit.
func (a *limitSummary) termTable() *page.Table {
	g := &page.Table{Columns: append(page.Left("limit"), page.Right("met", "missed", "unknown", "share missed")...)}
	for _, t := range a.Terms {
		name, one := report.Objective(t.Objective)
		g.Rows = append(g.Rows, page.Row(name+" "+one(float64(t.Limit)), fmt.Sprint(t.Met), fmt.Sprint(t.Violated), fmt.Sprint(t.Unknown), page.Share(float64(t.Share))))
	}
	return g
}

// brokenTable returns the violations by run and limit.
func (a *limitSummary) brokenTable() *page.Table {
	g := &page.Table{Columns: append(page.Left("run", "model", "limit"), page.Right("value", "excess")...), Long: len(a.Broken) > 12}
	for _, v := range a.Broken {
		name, one := report.Objective(v.Objective)
		g.Rows = append(g.Rows, page.Row(v.Name, v.Model, name+" "+one(float64(v.Limit)), one(float64(v.Value)), pct(v.OverPct)))
	}
	return g
}

// headline returns the first line of every format.
func (r *Report) headline() string {
	if r.Runs == 0 {
		return "No finished run to analyze"
	}
	s := page.Plural(r.Runs, "run")
	if r.Logs == r.Runs {
		s = page.Plural(r.Runs, "training log")
	} else if r.Logs > 0 {
		s += fmt.Sprintf(" (%s)", page.Plural(r.Logs, "imported log"))
	}
	models, unnamed := map[string]bool{}, false
	for _, g := range r.Models {
		if strings.HasPrefix(g.Model, unknownModel) {
			unnamed = true
		} else {
			models[g.Model] = true
		}
	}
	switch {
	case len(models) == 0:
		return s + " of unknown models"
	case unnamed:
		return s + " of " + page.Plural(len(models), "model") + " and of unknown ones"
	}
	return s + " of " + page.Plural(len(models), "model")
}

// subtitle returns period, total time and total cost.
func (r *Report) subtitle() string {
	var parts []string
	if r.From != nil {
		from, to := r.From.UTC().Format("2006-01-02"), r.To.UTC().Format("2006-01-02")
		if from != to {
			from += " to " + to
		}
		parts = append(parts, from)
	}
	parts = append(parts, "time "+page.Duration(float64(r.Totals.Seconds)), "cost "+page.USD(float64(r.Totals.CostUSD)))
	if r.Totals.Priced > 0 && r.Totals.Unpriced > 0 {
		parts[len(parts)-1] += fmt.Sprintf(" (%d without a price)", r.Totals.Unpriced)
	}
	if r.Totals.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", r.Totals.Failed))
	}
	if r.Probes > 0 {
		parts = append(parts, page.Plural(r.Probes, "probe"))
	}
	return strings.Join(parts, " · ")
}
