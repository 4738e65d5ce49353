package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// pictures returns all charts of a run.
func pictures(d *data) []page.Picture {
	marks := moments(d)
	list := []page.Picture{frontPicture(d)}
	for _, c := range []func(*data) *page.Chart{moneyChart, finishChart, throughputChart, utilisationChart, memoryChart, allocationChart} {
		over := c(d)
		over.Moments = marks
		list = append(list, over.Picture())
	}
	list = append(list, learningChart(d, "loss", "Loss", "train_loss", "test_loss", "loss", true).Picture(),
		learningChart(d, "accuracy", "Accuracy", "train_accuracy", "test_accuracy", "as the script writes it", false).Picture())
	if power := powerChart(d); !power.Empty() { // only machines with accelerators report power
		power.Moments = marks
		list = append(list, power.Picture())
	}
	return list
}

// moments returns the restarts, live changes and recommendations.
func moments(d *data) []page.Moment {
	var list []page.Moment
	t := d.allocations
	for i := range t.rows {
		if at := t.number(i, "time_s"); at > 0 && (i > 0 || t.text(i, "applied") != "launch") { // the first launch changes nothing
			what := fmt.Sprintf("%s: %s to %s CPU", page.Duration(at), t.text(i, "applied"), page.Count(t.number(i, "cpus")))
			if g := t.number(i, "gpus"); g > 0 {
				what += ", " + page.Count(g) + " GPU"
			}
			list = append(list, page.Moment{X: at, Class: momentClass(t.text(i, "applied")), Title: join(what, t.text(i, "reason"))})
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, a := range d.Record.Actions {
		if a.AtS.Known() {
			list = append(list, page.Moment{X: float64(a.AtS), Class: momentClass(a.Applied), Title: join(number(a.AtS, page.Duration)+": "+a.Description+" ("+a.Applied+")", a.Reason)})
		}
	}
	return list
}

func momentClass(applied string) string {
	switch strings.ToLower(applied) {
	case "live":
		return "live"
	case "recommended":
		return "recommended"
	}
	return "restart"
}

func limit(name string, n journal.Number) []page.Level {
	if !n.Known() {
		return nil
	}
	return []page.Level{{Name: name, Value: float64(n), Class: "limit"}}
}

// bands returns the projections of an objective over time with their 90 % intervals.
func bands(d *data, objective string) (line []page.Point, around []page.Band) {
	t := d.slaMetrics
	for i := range t.rows {
		if t.text(i, "objective") != objective {
			continue
		}
		x, p := t.number(i, "time_s"), t.number(i, "projected_p50")
		if !page.Known(x) || !page.Known(p) {
			continue
		}
		line = append(line, page.Point{X: x, Y: p})
		if lo, hi := t.number(i, "projected_p5"), t.number(i, "projected_p95"); page.Known(lo) && page.Known(hi) {
			around = append(around, page.Band{X: x, Lo: lo, Hi: hi})
		}
	}
	return line, around
}

// wholeWork reports whether the baseline, which is projected to the completed work, covers the whole job.
func wholeWork(r *journal.Record) bool { return r.State == journal.Done }

// compared reports whether the baseline can be shown beside the run.
func compared(r *journal.Record) bool {
	return wholeWork(r) && r.Comparison.Basis == journal.BasisThisRun
}

func moneyChart(d *data) *page.Chart {
	line, around := bands(d, "cost")
	if len(line) == 0 {
		line = d.samples.series("time_s", "projected_cost_usd")
	}
	c := &page.Chart{ID: "money", Title: "Cost: spent and projected", Y: page.Axis{Name: "USD", Zero: true}, Why: "no samples of this run",
		Series: []page.Series{
			{Name: "spent", Class: "s1", Points: d.samples.series("time_s", "cost_usd"), One: page.USD, Area: true, Keep: page.Last},
			{Name: "predicted at the end", Class: "s2", Points: line, One: page.USD, Dashed: true, Band: around},
		},
		Levels: limit("budget", d.Record.SLA.LimitOf(sla.Cost))}
	if b := d.Record.Baseline; b != nil && compared(d.Record) && predicted(b.CostUSD) {
		c.Levels = append(c.Levels, page.Level{Name: "baseline (predicted)", Value: b.CostUSD.P50, Class: "base"})
	}
	return c
}

func finishChart(d *data) *page.Chart {
	line, around := bands(d, "time")
	if len(line) == 0 {
		line = d.samples.series("time_s", "projected_s")
	}
	elapsed := d.samples.series("time_s", "time_s")
	c := &page.Chart{ID: "finish", Title: "Elapsed time and projected finish", Y: page.Axis{Time: true, Zero: true}, Why: "no samples of this run",
		Series: []page.Series{
			{Name: "passed", Class: "s1", Points: elapsed, One: page.Duration, Area: true, Keep: page.Last},
			{Name: "predicted finish", Class: "s2", Points: line, One: page.Duration, Dashed: true, Band: around},
		},
		Levels: limit("deadline", d.Record.SLA.LimitOf(sla.Time))}
	if b := d.Record.Baseline; b != nil && compared(d.Record) && predicted(b.Seconds) {
		c.Levels = append(c.Levels, page.Level{Name: "baseline (predicted)", Value: b.Seconds.P50, Class: "base"})
	}
	return c
}

func throughputChart(d *data) *page.Chart {
	c := &page.Chart{ID: "throughput", Title: "Throughput", Y: page.Axis{Name: "samples/s", Zero: true}, Why: "the training log had no rows with a throughput",
		Series: []page.Series{{Name: "measured", Class: "s1", Points: d.performance.series("time_s", "throughput"), One: throughput}},
		Levels: limit("minimum", d.Record.SLA.LimitOf(sla.Throughput))}
	if b := d.Record.Baseline; b != nil && predicted(b.Throughput) && d.Record.Comparison.Basis == journal.BasisThisRun &&
		rateUnit(d.Record.Outcome.ThroughputUnit) == journal.SamplesPerSecond {
		c.Levels = append(c.Levels, page.Level{Name: "baseline (predicted)", Value: b.Throughput.P50, Class: "base"})
	}
	return c
}

func utilisationChart(d *data) *page.Chart {
	t := d.samples
	var cpu []page.Point
	for i := range t.rows {
		if at := t.number(i, "time_s"); page.Known(at) {
			v := t.number(i, "tree_cpu_percent") / t.number(i, "cpus")
			if math.IsInf(v, 0) {
				v = math.NaN()
			}
			cpu = append(cpu, page.Point{X: at, Y: v})
		}
	}
	return &page.Chart{ID: "utilisation", Title: "Utilization of allocated resources", Y: page.Axis{Name: "%", Zero: true, Top: 100}, Why: "no samples of this run",
		Series: []page.Series{
			{Name: "CPU", Class: "s1", Points: cpu, One: page.Percent, Dense: true},
			{Name: "GPU", Class: "s3", Points: t.series("time_s", "gpu_util_percent"), One: page.Percent, Dense: true},
		},
		Levels: append(limit("SLA minimum, CPU", d.Record.SLA.LimitOf(sla.CPUUtil)), limit("SLA minimum, GPU", d.Record.SLA.LimitOf(sla.GPUUtil))...)}
}

func memoryChart(d *data) *page.Chart {
	t := d.samples
	return &page.Chart{ID: "memory", Title: "Memory", Y: page.Axis{Name: "GiB", Zero: true}, Why: "no samples of this run",
		Series: []page.Series{
			{Name: "host memory of the job", Class: "s1", Points: t.series("time_s", "tree_memory_gib"), One: page.GiB, Area: true, Keep: page.Largest},
			{Name: "GPU memory", Class: "s3", Points: t.series("time_s", "gpu_memory_gib"), One: page.GiB, Dense: true, Keep: page.Largest},
			{Name: "host memory allocated", Class: "s4", Points: t.series("time_s", "memory_gib"), One: page.GiB, Step: true},
		},
		Levels: limit("SLA maximum", d.Record.SLA.LimitOf(sla.Memory))}
}

// allocationChart shows the allocated processors, from the samples or, without samples, from the allocation history.
func allocationChart(d *data) *page.Chart {
	t := d.samples
	if t.len() == 0 {
		t = &table{columns: d.allocations.columns}
		for i, r := range d.allocations.rows {
			if momentClass(d.allocations.text(i, "applied")) != "recommended" {
				t.rows = append(t.rows, r)
			}
		}
	}
	c := &page.Chart{ID: "allocation", Title: "Allocated processors", Y: page.Axis{Name: "number", Zero: true, Whole: true}, Why: "no samples and no allocation history",
		Series: []page.Series{{Name: "CPUs", Class: "s1", Points: t.series("time_s", "cpus"), One: page.Count, Step: true}}}
	if gpus := t.series("time_s", "gpus"); slices.ContainsFunc(gpus, func(p page.Point) bool { return p.Y > 0 }) {
		c.Series = append(c.Series, page.Series{Name: "GPUs", Class: "s3", Points: gpus, One: page.Count, Step: true})
	}
	return c
}

func powerChart(d *data) *page.Chart {
	return &page.Chart{ID: "power", Title: "Power of the GPUs", Y: page.Axis{Name: "W", Zero: true},
		Series: []page.Series{{Name: "power", Class: "s3", Points: d.samples.series("time_s", "gpu_power_w"), One: func(v float64) string { return page.WithUnit(v, "W") }, Area: true}}}
}

// progressAxis returns the column that measures progress: epochs if present, otherwise steps, otherwise time.
func progressAxis(t *table) (column, name string) {
	for _, c := range []string{"epoch", "step"} {
		if slices.ContainsFunc(t.series(c, c), func(p page.Point) bool { return page.Known(p.Y) }) {
			return c, c
		}
	}
	return "time_s", ""
}

func learningChart(d *data, id, title, train, test, unit string, zero bool) *page.Chart {
	x, name := progressAxis(d.performance)
	return &page.Chart{ID: id, Title: title, X: page.Axis{Name: name}, Y: page.Axis{Name: unit, Zero: zero}, Why: "the training log had no such column",
		Series: []page.Series{
			{Name: "training", Class: "s1", Points: d.performance.series(x, train), One: page.Significant},
			{Name: "test", Class: "s2", Points: d.performance.series(x, test), One: page.Significant},
		}}
}
