package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// runSection lists the general data of the run: command, end, times, cost, utilization, prices and seed.
func runSection(d *data) page.Section {
	r := d.Record
	o := r.Outcome
	s := page.Section{ID: "run", Title: "Run"}
	f := page.Fields("command", orNoData(strings.Join(quoted(r.Command), " ")), "directory", orNoData(r.Dir))
	if b := r.Batch; b != nil {
		words := join(b.String(), b.Words())
		if !b.End.IsZero() {
			words += ", until " + b.End.Format("2006-01-02 15:04:05 MST")
		}
		f = append(f, page.Fields("allocation", words)...)
	}
	if r.Exit != nil {
		f = append(f, page.Fields("end of training", exitWords(r))...)
	}
	if r.ExitCode != nil {
		f = append(f, page.Fields("exit code of optimize", fmt.Sprint(*r.ExitCode))...)
	}
	if !r.StartedAt.IsZero() {
		f = append(f, page.Fields("started", r.StartedAt.Format("2006-01-02 15:04:05 MST"))...)
	}
	if r.FinishedAt != nil {
		f = append(f, page.Fields("finished", r.FinishedAt.Format("2006-01-02 15:04:05 MST"))...)
	}
	f = append(f, page.Fields(
		"wall time", number(o.Seconds, page.Duration),
		"job running", number(o.ActiveSeconds, page.Duration),
		"restarts", restarts(o),
		"cost", number(o.CostUSD, page.USD),
		"cost of probes", number(o.ProbeCostUSD, page.USD),
		"throughput", number(o.Throughput, rate(r)),
		"CPU utilization (allocated)", number(o.CPUUtil, page.Percent),
		"GPU utilization", number(o.GPUUtil, page.Percent),
		"peak memory", number(o.PeakMemoryGiB, page.GiB),
		"energy", number(o.EnergyJoules, energy),
		"start-up", spread(r.Overheads.StartupSeconds),
		"time per restart", spread(r.Overheads.RestartSeconds),
		"prices", prices(r.Prices.Rates, r.StartedAt),
		"seed", fmt.Sprint(r.Seed),
	)...)
	if o.Contended() {
		f = append(f, page.Fields("allocated CPUs used by other programs", page.Significant(o.TakenCPUs))...)
	}
	if o.CPUEnergyJoules != nil {
		f = append(f, page.Fields("energy of the machine's CPUs", number(journal.Number(*o.CPUEnergyJoules), energy)+" (other programs included)")...)
	}
	if r.Power != nil {
		f = append(f, page.Fields("power limit", powerWords(r.Power))...)
	}
	if o.QueueSeconds != nil {
		f = append(f, page.Fields("waited for places", number(journal.Number(*o.QueueSeconds), page.Duration)+" (not charged)")...)
	}
	if len(r.Starts) > 0 && len(r.Stretches) > 0 && !r.Stretches[0].Started.IsZero() {
		f = append(f, page.Fields("first start", startOutcome(r.Starts[0], r.Stretches[0]))...)
	}
	s.Blocks = []page.Block{{Fields: f}}
	if r.Power != nil && len(r.Power.Measured) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Power limits", Table: powerTable(r.Power.Measured)})
	}
	if r.Spot != nil {
		s.Blocks = append(s.Blocks, spotBlock(r.Spot))
	}
	if len(r.Stretches) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Jobs of the engine", Table: stretchTable(r.Stretches)})
	}
	if len(r.SiteProbes) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Other kinds of nodes", Table: siteProbeTable(r.SiteProbes)})
	}
	return s
}

// startOutcome compares the predicted start of the first job of the engine with its start.
func startOutcome(p journal.Start, s engine.Stretch) string {
	waited := max(0, s.Started.Sub(s.Submitted).Seconds())
	verdict := "inside"
	if waited < p.Wait.P5-1 || waited > p.Wait.P95+1 { // the engine's times are whole seconds
		verdict = "outside"
	}
	return fmt.Sprintf("predicted after %s (%s to %s), was after %s: %s the 90 %% interval", number(journal.Number(p.Wait.P50), page.Duration),
		number(journal.Number(p.Wait.P5), page.Duration), number(journal.Number(p.Wait.P95), page.Duration), number(journal.Number(waited), page.Duration), verdict)
}

// powerWords describes the power limit of a run in one line.
func powerWords(p *journal.Power) string {
	if p.SetW == nil {
		return "not changed: " + cmp.Or(p.Reason, "the job used no GPU")
	}
	words := fmt.Sprintf("%d W", *p.SetW)
	if p.OwnW != nil {
		words += fmt.Sprintf(", before the run %d W", *p.OwnW)
	}
	if p.Restored != nil {
		words += map[bool]string{true: ", restored", false: ", NOT restored"}[*p.Restored]
	}
	if p.Reason != "" {
		words += ": " + p.Reason
	}
	return words
}

// powerTable lists the measurements at power limits.
func powerTable(list []journal.PowerSample) *page.Table {
	g := &page.Table{Columns: page.Right("Limit", "Time per unit", "Power", "Energy per unit")}
	for _, p := range list {
		g.Rows = append(g.Rows, page.Row(fmt.Sprintf("%d W", p.LimitW), number(journal.Number(p.SecondsPerUnit), page.Duration)+" a "+p.Unit,
			page.WithUnit(p.Watts, "W"), energy(p.JoulesPerUnit)))
	}
	return g
}

// restarts returns the number of restarts and, if measured, the time that they took.
func restarts(o journal.Outcome) string {
	switch {
	case o.Restarts == 0:
		return "none"
	case !o.OverheadSeconds.Known() || o.OverheadSeconds <= 0:
		return page.Count(float64(o.Restarts)) + " (time not measured)"
	}
	return page.Count(float64(o.Restarts)) + " (" + number(o.OverheadSeconds, page.Duration) + ")"
}

// quoted returns the arguments quoted for a shell.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`&|;<>()*?[]{}!#~") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out[i] = a
	}
	return out
}

func orNoData(s string) string {
	if strings.TrimSpace(s) == "" {
		return page.NoData
	}
	return s
}

func energy(j float64) string {
	if j >= 36000 {
		return page.WithUnit(j/3.6e6, "kWh")
	}
	return page.WithUnit(j, "J")
}

// knownNumbers returns the known values of a list.
func knownNumbers(list []journal.Number) []float64 {
	var out []float64
	for _, n := range list {
		if n.Known() {
			out = append(out, float64(n))
		}
	}
	return out
}

func spread(n []journal.Number) string {
	v := knownNumbers(n)
	switch len(v) {
	case 0:
		return page.NoData
	case 1:
		return page.Duration(v[0])
	}
	return fmt.Sprintf("%s to %s (%d measured)", page.Duration(slices.Min(v)), page.Duration(slices.Max(v)), len(v))
}

func prices(p cost.Rates, on time.Time) string {
	var parts []string
	if p.Instance > 0 {
		parts = append(parts, page.USD(float64(p.Instance))+" per hour for the whole machine")
	} else {
		for _, u := range []struct {
			price cost.USD
			what  string
		}{{p.GPUHour, "GPU"}, {p.CPUHour, "CPU"}, {p.GiBHour, "GiB"}} {
			if page.Known(float64(u.price)) {
				parts = append(parts, page.USD(float64(u.price))+" per "+u.what+"-hour")
			}
		}
	}
	if len(parts) == 0 {
		return page.NoData
	}
	text := strings.Join(parts, ", ")
	if p.Source != "" {
		text += "; " + p.Source
	}
	if p.Dated != "" {
		text += ", " + p.Dated + cost.AgeWords(p.Dated, on)
	}
	return text
}

func baselineSection(d *data) page.Section {
	s := page.Section{ID: "baseline", Title: "Baseline configuration"}
	b := d.Record.Baseline
	if b == nil {
		s.Intro = "Not measured."
		return s
	}
	f := page.Fields("allocation", allocationText(b.Allocation), "throughput", interval(b.Throughput, rate(d.Record)))
	if d.Record.Comparison.Basis == journal.BasisThisRun {
		f = append(f, page.Fields("time for the same work (predicted)", interval(b.Seconds, page.Duration),
			"cost of the same work (predicted)", interval(b.CostUSD, page.USD), "limits met (predicted)", number(b.Compliance, page.Share))...)
	}
	s.Blocks = []page.Block{{Fields: f}}
	return s
}

func probeSection(d *data) page.Section {
	s := page.Section{ID: "probes", Title: "Probes and measured segments"}
	r := d.Record
	if len(r.Probes) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: page.Plural(len(r.Probes), "probe") + ", " + number(r.Outcome.ProbeCostUSD, page.USD), Table: probeTable(r, r.Probes)})
	}
	if len(r.Measured) > len(r.Probes) {
		s.Blocks = append(s.Blocks, page.Block{Caption: "All timed segments, one allocation each, probes included", Table: probeTable(r, r.Measured)})
	}
	if len(s.Blocks) == 0 {
		s.Intro = "No segment was timed."
	}
	return s
}

// probeTable returns a table of timed segments. If the work of any probe was discarded, a column shows whether the work
// of each segment was kept.
func probeTable(r *journal.Record, list []journal.Probe) *page.Table {
	discarded := slices.ContainsFunc(r.Probes, func(p journal.Probe) bool { return !p.InJob })
	g := &page.Table{Columns: append(page.Left("Allocation"), page.Right("Units", "Took", "Per unit", "Throughput", "Peak memory", "CPU", "GPU", "Cost")...), Long: len(list) > 12}
	if discarded {
		g.Columns = append(g.Columns, page.Left("Work")...)
	}
	for _, p := range list {
		at := allocationText(p.Allocation)
		if p.LiveCut {
			at += ", cut live"
		}
		units := page.NoData
		if p.Units > 0 {
			units = page.Count(p.Units)
		}
		cells := []string{at, units, number(p.Seconds, page.Duration), unitSeconds(p.UnitSeconds), number(p.Throughput, page.Rate(p.ThroughputUnit)),
			number(p.PeakMemoryGiB, page.GiB), number(p.CPUUtil, page.Percent), number(p.GPUUtil, page.Percent), number(p.CostUSD, page.USD)}
		if discarded {
			cells = append(cells, workWords(r, p))
		}
		g.Rows = append(g.Rows, page.Row(cells...))
	}
	return g
}

// workWords returns "kept" or "discarded" for the work of a segment, according to the record of its probe; segments
// that were no probes are kept.
func workWords(r *journal.Record, p journal.Probe) string {
	for _, probe := range r.Probes {
		if probe.Allocation.Same(p.Allocation) && slices.Equal(probe.UnitSeconds, p.UnitSeconds) {
			return map[bool]string{true: "kept", false: "discarded"}[probe.InJob]
		}
	}
	return "kept"
}

// unitSeconds formats the median duration of a unit.
func unitSeconds(n []journal.Number) string { return page.Duration(stat.Median(knownNumbers(n))) }

// modelSection shows the form and parameters of the performance model, its prior, and the leave-one-out check.
func modelSection(d *data) page.Section {
	s := page.Section{ID: "model", Title: "Performance model"}
	m := d.Record.Model
	if m == nil {
		s.Intro = "No model: too few measurements."
		return s
	}
	s.Intro = m.Basis
	f := page.Fields("form", orNoData(m.Form))
	for _, name := range slices.Sorted(maps.Keys(m.Params)) {
		f = append(f, page.Fields(name, number(m.Params[name], page.Significant))...)
	}
	if len(m.Ignored) > 0 {
		f = append(f, page.Fields("without measured effect", strings.Join(m.Ignored, ", "))...)
	}
	if p := d.Record.Prior; p != nil {
		f = append(f, page.Fields("prior", p.Words)...)
		for _, dropped := range p.Dropped {
			f = append(f, page.Fields("prior dropped", dropped)...)
		}
	}
	s.Blocks = []page.Block{{Fields: f}}
	if len(m.Checks) == 0 {
		s.Blocks = append(s.Blocks, page.Block{Notes: []string{"No leave-one-out check: it requires at least two measured allocations."}})
		return s
	}
	g := &page.Table{Columns: slices.Concat(page.Left("Left out"), page.Right("Predicted from the others", "Measured", "Error"), page.Left("In the 90 % interval"))}
	inside, of := 0, 0
	for _, c := range m.Checks {
		off, held, l := "–", page.NoData, page.Muted
		if predicted(c.Predicted) && c.Measured.Known() {
			of++
			off, held, l = change(100*(float64(c.Measured)/c.Predicted.P50-1)), "no", page.Bad
			if x := float64(c.Measured); x >= c.Predicted.P5 && x <= c.Predicted.P95 {
				inside++
				held, l = "yes", page.Good
			}
		}
		g.Rows = append(g.Rows, with(page.Row(allocationText(c.Allocation), interval(c.Predicted, page.Duration), number(c.Measured, page.Duration), off, held), l))
	}
	s.Blocks = append(s.Blocks, page.Block{Caption: fmt.Sprintf("Leave-one-out check, per unit of work: %d of %d in the 90 %% interval", inside, of), Table: g})
	return s
}

// trainingSection lists the properties of the script with their evidence, the results of the training, and its log with
// the first invalid rows. Values reported by the training take precedence over those found in the script.
func trainingSection(d *data) page.Section {
	r := d.Record
	t, sc := r.Training, r.Script
	model, dataset := cmp.Or(t.Model, sc.Model), cmp.Or(t.Dataset, sc.Dataset)
	found := func(name, value string) string {
		if e := sc.Evidence[name]; e != "" && value != page.NoData {
			return value + "  (" + e + ")"
		}
		return value
	}
	f := page.Fields("script", orNoData(sc.Path), "SHA-256", orNoData(sc.SHA256),
		"framework", found("framework", optional(sc.Framework)), "model", found("model", optional(model)),
		"parameters", number(t.ModelParams, page.Count), "layers", number(t.ModelLayers, page.Count),
		"dataset", found("dataset", optional(dataset)), "samples per epoch", number(t.DataCount, page.Count), "dataset size", page.WithUnit(float64(t.DataSizeMB), "MB"),
		"batch size", number(t.BatchSize, page.Count), "uses a GPU", found("uses_gpu", yesNo(sc.UsesGPU)), "resumable", found("resumable", yesNo(sc.Resumable)),
		"total work", wholeJob(t),
		"train loss", number(t.TrainLoss, page.Significant), "train accuracy", number(t.TrainAccuracy, page.Significant),
		"test loss", number(t.TestLoss, page.Significant), "test accuracy", number(t.TestAccuracy, page.Significant))
	log := orNoData(r.Log.Path)
	if r.Log.Path != "" {
		log += fmt.Sprintf(" (%s, %s", r.Log.Format, page.Plural(r.Log.Rows, "row"))
		if r.Log.BadRows > 0 {
			log += ", " + page.Plural(r.Log.BadRows, "invalid row") + " skipped"
		}
		log += ")"
	}
	f = append(f, page.Fields("training log", log)...)
	if s := t.StepShares; s != nil {
		share := func(n journal.Number) string { return page.Percent(100 * float64(n)) }
		f = append(f, page.Fields("step time", fmt.Sprintf("%s waiting for data, %s in the optimizer, %s saving", share(s.DataWait), share(s.Optimizer), share(s.Saving)))...)
	}
	s := page.Section{ID: "training", Title: "Training details", Blocks: []page.Block{{Fields: f}}}
	if len(r.Log.Bad) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Invalid rows of the log", Notes: r.Log.Bad})
	}
	return s
}

func wholeJob(t journal.Training) string {
	if !t.TotalUnits.Known() || t.TotalUnits <= 0 {
		return page.NoData
	}
	return counted(t.TotalUnits, cmp.Or(t.Unit, "unit"))
}

// machineSection lists the resources of the machine, what could not be detected, and how the allocation was enforced.
func machineSection(d *data) page.Section {
	r := d.Record
	h := r.Host
	cpus := page.NoData
	if h.CPUs > 0 {
		cpus = page.Count(h.CPUs)
	}
	f := page.Fields("CPUs", cpus, "memory", page.GiB(float64(h.Memory)))
	if h.Described != "" {
		f = append(page.Fields("not this machine", "described by "+h.Described), f...)
	}
	if len(h.GPUs) == 0 {
		f = append(f, page.Fields("GPUs", "none detected")...)
	}
	for i, g := range h.GPUs {
		f = append(f, page.Fields(fmt.Sprintf("GPU %d", i), g.Name+", "+page.GiB(float64(g.Memory))+", "+g.UUID)...)
	}
	s := page.Section{ID: "machine", Title: "Machine and enforcement", Blocks: []page.Block{{Fields: f}}}
	if len(h.Notes) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Not detected", Notes: h.Notes})
	}
	enforced := r.Enforced
	if len(enforced) == 0 {
		enforced = []string{"No data."}
	}
	s.Blocks = append(s.Blocks, page.Block{Caption: "Enforcement", Notes: enforced})
	return s
}

// distinct returns the texts without repetitions, in order.
func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func warningSection(d *data) page.Section {
	s := page.Section{ID: "warnings", Title: "Warnings"}
	if len(d.Record.Warnings) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Notes: distinct(d.Record.Warnings)})
	}
	if len(d.Missing) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Missing or damaged in the run directory", Notes: d.Missing})
	}
	if len(s.Blocks) == 0 {
		s.Intro = "None."
	}
	return s
}
