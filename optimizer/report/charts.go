package report

import (
	"fmt"
	"math"
	"strings"

	"trainopt/optimizer/journal"
)

// pictures draws everything there is to see of a run over its time.
func pictures(d *Data) []picture {
	marks := moments(d)
	list := []picture{frontPicture(d)}
	for _, c := range []func(*Data) *chart{moneyChart, finishChart, throughputChart, utilisationChart, memoryChart, allocationChart} {
		chart := c(d)
		chart.moments = marks
		list = append(list, chart.picture())
	}
	for _, c := range []func(*Data) *chart{lossChart, accuracyChart} {
		chart := c(d)
		list = append(list, chart.picture())
	}
	if power := powerChart(d); !power.empty() { // only a machine with accelerators has one
		power.moments = marks
		list = append(list, power.picture())
	}
	return list
}

// moments are the restarts, live changes and pieces of advice.
func moments(d *Data) []moment {
	var list []moment
	t := d.allocations
	for i := range t.rows {
		if at := t.number(i, "time_s"); at > 0 && (i > 0 || t.text(i, "applied") != "launch") { // the first launch changes nothing
			what := fmt.Sprintf("%s: %s to %s CPU", duration(at), t.text(i, "applied"), count(t.number(i, "cpus")))
			if g := t.number(i, "gpus"); g > 0 {
				what += ", " + count(g) + " GPU"
			}
			list = append(list, moment{at, momentClass(t.text(i, "applied")), join(what, t.text(i, "reason"))})
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, a := range d.Record.Actions {
		if a.AtS.Known() {
			list = append(list, moment{float64(a.AtS), momentClass(a.Applied), join(number(a.AtS, duration)+": "+a.Description+" ("+a.Applied+")", a.Reason)})
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

func limit(name string, n journal.Number) []level {
	if !n.Known() || n <= 0 {
		return nil
	}
	return []level{{name, float64(n), "limit"}}
}

// bands are the projections of an objective with their 90 % interval.
func bands(d *Data, objective string) (line []point, around []band) {
	t := d.slaMetrics
	for i := range t.rows {
		if t.text(i, "objective") != objective {
			continue
		}
		x, p := t.number(i, "time_s"), t.number(i, "projected_p50")
		if !known(x) || !known(p) {
			continue
		}
		line = append(line, point{x, p})
		if lo, hi := t.number(i, "projected_p5"), t.number(i, "projected_p95"); known(lo) && known(hi) {
			around = append(around, band{x, lo, hi})
		}
	}
	return line, around
}

// wholeWork reports whether the baseline, which is projected to the work that was done, stands for the whole job.
func wholeWork(r *journal.Record) bool { return r.State == journal.Done }

func moneyChart(d *Data) *chart {
	line, around := bands(d, "cost")
	if len(line) == 0 {
		line = d.samples.series("time_s", "projected_cost_usd")
	}
	c := &chart{ID: "money", Title: "Money spent and predicted", unit: "USD", zero: true, why: "no samples of this run",
		series: []series{
			{name: "spent", class: "s1", points: d.samples.series("time_s", "cost_usd"), one: usd, area: true, keep: last},
			{name: "predicted at the end", class: "s2", points: line, one: usd, dashed: true, band: around},
		},
		levels: limit("budget", d.Record.SLA.BudgetUSD)}
	if b := d.Record.Baseline; b != nil && wholeWork(d.Record) && predicted(b.CostUSD) {
		c.levels = append(c.levels, level{"yours (predicted)", b.CostUSD.P50, "base"})
	}
	return c
}

func finishChart(d *Data) *chart {
	line, around := bands(d, "time")
	if len(line) == 0 {
		line = d.samples.series("time_s", "projected_s")
	}
	elapsed := d.samples.series("time_s", "time_s")
	c := &chart{ID: "finish", Title: "Time passed and predicted finish", zero: true, timeY: true, why: "no samples of this run",
		series: []series{
			{name: "passed", class: "s1", points: elapsed, one: duration, area: true, keep: last},
			{name: "predicted finish", class: "s2", points: line, one: duration, dashed: true, band: around},
		},
		levels: limit("deadline", d.Record.SLA.DeadlineS)}
	if b := d.Record.Baseline; b != nil && wholeWork(d.Record) && predicted(b.Seconds) {
		c.levels = append(c.levels, level{"yours (predicted)", b.Seconds.P50, "base"})
	}
	c.unit = "time"
	return c
}

func throughputChart(d *Data) *chart {
	c := &chart{ID: "throughput", Title: "Throughput", unit: "samples/s", zero: true, why: "the training log had no rows with a throughput",
		series: []series{{name: "measured", class: "s1", points: d.performance.series("time_s", "throughput"), one: throughput}},
		levels: limit("agreed minimum", d.Record.SLA.MinThroughput)}
	if b := d.Record.Baseline; b != nil && predicted(b.Throughput) {
		c.levels = append(c.levels, level{"yours (predicted)", b.Throughput.P50, "base"})
	}
	return c
}

func utilisationChart(d *Data) *chart {
	t := d.samples
	var cpu []point
	for i := range t.rows {
		if at := t.number(i, "time_s"); known(at) {
			v := t.number(i, "tree_cpu_percent") / t.number(i, "cpus")
			if math.IsInf(v, 0) {
				v = math.NaN()
			}
			cpu = append(cpu, point{at, v})
		}
	}
	return &chart{ID: "utilisation", Title: "Utilisation of what was given", unit: "%", zero: true, top: 100, why: "no samples of this run",
		series: []series{
			{name: "CPU", class: "s1", points: cpu, one: percent, dense: true},
			{name: "GPU", class: "s3", points: t.series("time_s", "gpu_util_percent"), one: percent, dense: true},
		},
		levels: append(limit("agreed minimum, CPU", d.Record.SLA.MinCPUUtil), limit("agreed minimum, GPU", d.Record.SLA.MinGPUUtil)...)}
}

func memoryChart(d *Data) *chart {
	t := d.samples
	return &chart{ID: "memory", Title: "Memory", unit: "GiB", zero: true, why: "no samples of this run",
		series: []series{
			{name: "host memory of the job", class: "s1", points: t.series("time_s", "tree_memory_gib"), one: gib, area: true, keep: largest},
			{name: "GPU memory", class: "s3", points: t.series("time_s", "gpu_memory_gib"), one: gib, dense: true, keep: largest},
			{name: "host memory given", class: "s4", points: t.series("time_s", "memory_gib"), one: gib, step: true},
		},
		levels: limit("agreed maximum", d.Record.SLA.MaxMemoryGiB)}
}

// allocationChart shows what was given, from the samples, or from the history when there are none.
func allocationChart(d *Data) *chart {
	t := d.samples
	if t.len() == 0 {
		t = &table{columns: d.allocations.columns}
		for i, r := range d.allocations.rows {
			if momentClass(d.allocations.text(i, "applied")) != "recommended" {
				t.rows = append(t.rows, r)
			}
		}
	}
	c := &chart{ID: "allocation", Title: "Processors given", unit: "number", zero: true, whole: true, why: "no samples and no allocation history",
		series: []series{{name: "CPUs", class: "s1", points: t.series("time_s", "cpus"), one: count, step: true}}}
	gpus := t.series("time_s", "gpus")
	for _, p := range gpus {
		if p.y > 0 {
			c.series = append(c.series, series{name: "GPUs", class: "s3", points: gpus, one: count, step: true})
			break
		}
	}
	return c
}

func powerChart(d *Data) *chart {
	return &chart{ID: "power", Title: "Power of the GPUs", unit: "W", zero: true,
		series: []series{{name: "power", class: "s3", points: d.samples.series("time_s", "gpu_power_w"), one: func(v float64) string { return withUnit(v, "W") }, area: true}}}
}

// progressAxis is the column that counts the work: epochs, else steps, else time.
func progressAxis(t *table) (column, name string) {
	for _, c := range []string{"epoch", "step"} {
		if hasValue(t.series(c, c)) {
			return c, c
		}
	}
	return "time_s", ""
}

func learningChart(d *Data, id, title, train, test, unit string, zero bool) *chart {
	x, name := progressAxis(d.performance)
	return &chart{ID: id, Title: title, unit: unit, xName: name, zero: zero, why: "the training log had no such column",
		series: []series{
			{name: "training", class: "s1", points: d.performance.series(x, train), one: significant},
			{name: "test", class: "s2", points: d.performance.series(x, test), one: significant},
		}}
}

func lossChart(d *Data) *chart {
	return learningChart(d, "loss", "Loss", "train_loss", "test_loss", "loss", true)
}

func accuracyChart(d *Data) *chart {
	return learningChart(d, "accuracy", "Accuracy", "train_accuracy", "test_accuracy", "as the script writes it", false)
}
