package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// maxCompared is the number of runs that can be compared: that of the colours of a chart.
const maxCompared = 8

// compared is a run in a comparison.
type compared struct {
	*runSummary
	Sign, Class string
	Light       page.Light
	Without     string // address of the comparison without this run
	rec         *journal.Record
	samples     map[string][]float64
	training    map[string][]float64
}

type compareBody struct {
	Runs         []compared
	Missing      []string
	Over         string // what the horizontal axes show: time or progress
	Overs        []link
	Charts       []page.Picture
	Parallel     *page.Picture
	Settings     *page.Table
	SameSettings *page.Table
	Results      *page.Table
	Why          string
}

// comparePage compares runs: curves, differing settings, results, and all of them on parallel axes.
func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	over := cmp.Or(values.Get("over"), "time")
	if over != "time" && over != "progress" {
		s.refuse(w, r, http.StatusBadRequest, fmt.Sprintf("over %q: want time or progress", over))
		return
	}
	var ids []string
	for _, id := range values["run"] {
		if id = strings.TrimSpace(id); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	body := compareBody{Over: over}
	switch {
	case len(ids) > maxCompared:
		s.refuse(w, r, http.StatusBadRequest, fmt.Sprintf("%d runs: at most %d can be compared", len(ids), maxCompared))
		return
	case len(ids) == 0:
		body.Why = "Select runs in the list, then compare them."
	}
	address := func(over string, without string) string {
		v := url.Values{}
		for _, id := range ids {
			if id != without {
				v.Add("run", id)
			}
		}
		if over != "time" {
			v.Set("over", over)
		}
		return "/compare?" + v.Encode()
	}
	for _, id := range ids {
		run, ok := s.index.run(id)
		var rec *journal.Record
		var err error
		if ok {
			rec, err = journal.ReadRecord(run.dir)
		}
		if !ok || err != nil {
			body.Missing = append(body.Missing, id)
			continue
		}
		c := compared{runSummary: run, Sign: page.Letter(len(body.Runs)), Class: page.Class(len(body.Runs)), Light: run.light, rec: rec, Without: address(over, id)}
		c.samples, c.training = tableOf(run, "samples.csv", sampleColumns), tableOf(run, "performance_metrics.csv", trainingColumns)
		body.Runs = append(body.Runs, c)
	}
	body.Overs = []link{{address("time", ""), "time"}, {address("progress", ""), "progress"}}
	if len(body.Runs) > 0 {
		body.fill()
	}
	writePage(w, http.StatusOK, "compare", s.shell(r, "Compare runs", "/", body))
}

func tableOf(run *runSummary, file string, names []string) map[string][]float64 {
	columns, _, err := columnsOf(filepath.Join(run.dir, file), names, maxPoints)
	out := map[string][]float64{}
	for i, name := range names {
		if err == nil && columns[i] != nil {
			out[name] = columns[i]
		}
	}
	return out
}

func (b *compareBody) fill() {
	for _, c := range []struct {
		id, title string
		axis      page.Axis
		values    func(c *compared) (x, y []float64)
	}{
		{"c-progress", "Progress", page.Axis{Name: "units of work", Zero: true}, func(c *compared) ([]float64, []float64) { return c.samples["time_s"], c.samples["units"] }},
		{"c-cost", "Cost", page.Axis{Name: "USD", Zero: true}, func(c *compared) ([]float64, []float64) { return c.overSamples(b.Over), c.samples["cost_usd"] }},
		{"c-loss", "Training loss", page.Axis{Name: "loss"}, func(c *compared) ([]float64, []float64) { return c.overTraining(b.Over), c.training["train_loss"] }},
		{"c-accuracy", "Test accuracy", page.Axis{Name: "as the script writes it"}, func(c *compared) ([]float64, []float64) { return c.overTraining(b.Over), c.training["test_accuracy"] }},
		{"c-throughput", "Throughput", page.Axis{Name: "samples/s", Zero: true}, func(c *compared) ([]float64, []float64) { return c.overTraining(b.Over), c.training["throughput"] }},
		{"c-utilisation", "CPU utilization", page.Axis{Name: "%", Zero: true, Top: 100}, func(c *compared) ([]float64, []float64) { return c.overSamples(b.Over), c.utilisation() }},
		{"c-memory", "Memory", page.Axis{Name: "GiB", Zero: true}, func(c *compared) ([]float64, []float64) { return c.overSamples(b.Over), c.samples["tree_memory_gib"] }},
	} {
		if c.id == "c-progress" && b.Over == "progress" {
			continue
		}
		picture := page.Chart{ID: c.id, Title: c.title, Y: c.axis, Why: "none of the runs recorded it"}
		if b.Over == "progress" {
			picture.X = page.Axis{Name: "work done"}
		}
		for i := range b.Runs {
			run := &b.Runs[i]
			x, y := c.values(run)
			line := page.Series{Name: run.Sign + " " + titleOf(run.runSummary), Class: run.Class, Sign: run.Sign, Dense: true, Dashed: i%2 == 1}
			for k := range min(len(x), len(y)) {
				if page.Known(x[k]) {
					line.Points = append(line.Points, page.Point{X: x[k], Y: y[k]})
				}
			}
			picture.Series = append(picture.Series, line)
		}
		if drawn := picture.Picture(); drawn.Empty == "" {
			b.Charts = append(b.Charts, drawn)
		}
	}
	b.Parallel = parallel(b.Runs)
	b.tables()
}

// overSamples returns the horizontal positions of the samples.
func (c *compared) overSamples(over string) []float64 {
	if over == "progress" {
		return c.samples["units"]
	}
	return c.samples["time_s"]
}

func (c *compared) overTraining(over string) []float64 {
	if over == "time" {
		return c.training["time_s"]
	}
	if slices.ContainsFunc(c.training["epoch"], page.Known) {
		return c.training["epoch"]
	}
	return c.training["step"]
}

// utilisation returns the use of the allocated CPUs in percent.
func (c *compared) utilisation() []float64 {
	used, cpus := c.samples["tree_cpu_percent"], c.samples["cpus"]
	out := make([]float64, min(len(used), len(cpus)))
	for i := range out {
		if out[i] = used[i] / cpus[i]; math.IsInf(out[i], 0) {
			out[i] = math.NaN()
		}
	}
	return out
}

// parallel draws the runs on parallel axes: what they had, then what came of it.
func parallel(runs []compared) *page.Picture {
	p := page.Parallel{ID: "parallel", Title: "Settings and results on parallel axes", Why: "too few runs or values"}
	unit := ""
	for _, r := range runs {
		if unit == "" && r.Throughput.Known() {
			unit = r.ThroughputUnit
		}
		p.Lines = append(p.Lines, page.Thread{Name: titleOf(r.runSummary), Class: r.Class, Sign: r.Sign})
	}
	for _, a := range []struct {
		name string
		one  func(float64) string
		of   func(r *compared) float64
	}{
		{"GPUs", page.Count, func(r *compared) float64 { return orUnknown(r.Allocation.GPUs) }},
		{"CPUs", page.Count, func(r *compared) float64 { return orUnknown(r.Allocation.CPUs) }},
		{"memory", page.GiB, func(r *compared) float64 { return float64(r.Allocation.MemoryGiB) }},
		{"batch", page.Count, func(r *compared) float64 { return orUnknown(r.Allocation.BatchSize) }},
		{"work", page.Count, func(r *compared) float64 { return float64(r.Units) }},
		{cmp.Or(unit, "throughput"), page.Significant, func(r *compared) float64 {
			if r.ThroughputUnit != unit {
				return math.NaN() // not comparable
			}
			return float64(r.Throughput)
		}},
		{"CPU use", page.Percent, func(r *compared) float64 { return float64(r.CPUUtil) }},
		{"peak memory", page.GiB, func(r *compared) float64 { return float64(r.PeakMemoryGiB) }},
		{"time", page.Duration, func(r *compared) float64 { return float64(r.Seconds) }},
		{"cost", page.USD, func(r *compared) float64 { return float64(r.CostUSD) }},
		{"loss", page.Significant, func(r *compared) float64 { return float64(r.rec.Training.TrainLoss) }},
		{"accuracy", page.Significant, func(r *compared) float64 { return float64(r.rec.Training.TestAccuracy) }},
	} {
		c := page.Coordinate{Name: a.name, One: a.one}
		for i := range runs {
			c.Values = append(c.Values, a.of(&runs[i]))
		}
		p.Axes = append(p.Axes, c)
	}
	picture := p.Picture()
	return &picture
}

// orUnknown returns a count, or an unknown number for 0, which is the value of what a run does not have.
func orUnknown(n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(n)
}

// property is a setting or a result of a run as text.
type property struct {
	name string
	of   func(rec *journal.Record) string
}

func text(p *string) string {
	if p == nil || *p == "" {
		return page.NoData
	}
	return *p
}

func words(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return page.NoData
	}
	return string(data)
}

// limitText formats a limit that may not be set.
func limitText(n journal.Number, one func(float64) string) string {
	if !n.Known() {
		return "none"
	}
	return one(float64(n))
}

func measured(n journal.Number, one func(float64) string) string { return one(float64(n)) }

var settings = []property{
	{"script", func(r *journal.Record) string { return cmp.Or(r.Script.Path, page.NoData) }},
	{"version of the script", func(r *journal.Record) string {
		return cmp.Or(r.Script.SHA256[:min(12, len(r.Script.SHA256))], page.NoData)
	}},
	{"command", func(r *journal.Record) string { return strings.Join(r.Command, " ") }},
	{"working directory", func(r *journal.Record) string { return r.Dir }},
	{"framework", func(r *journal.Record) string { return text(r.Script.Framework) }},
	{"model", func(r *journal.Record) string {
		return cmp.Or(strings.TrimSpace(text(r.Training.Model)), text(r.Script.Model))
	}},
	{"data set", func(r *journal.Record) string { return text(r.Training.Dataset) }},
	{"total work", func(r *journal.Record) string {
		return measured(r.Training.TotalUnits, page.Count) + " " + cmp.Or(r.Training.Unit, "unit") + "s"
	}},
	{"batch size", func(r *journal.Record) string { return measured(r.Training.BatchSize, page.Count) }},
	{"seed", func(r *journal.Record) string { return fmt.Sprint(r.Seed) }},
	{"deadline", func(r *journal.Record) string { return limitText(r.SLA.LimitOf(sla.Time), page.Duration) }},
	{"budget", func(r *journal.Record) string { return limitText(r.SLA.LimitOf(sla.Cost), page.USD) }},
	{"preference", func(r *journal.Record) string { return r.Preference.String() }},
	{"planner", func(r *journal.Record) string {
		if r.Plan == nil {
			return page.NoData
		}
		return r.Plan.Planner
	}},
	{"allocation", func(r *journal.Record) string {
		if r.Plan == nil {
			return page.NoData
		}
		return r.Plan.Allocation.String()
	}},
	{"baseline", func(r *journal.Record) string {
		if r.Baseline == nil {
			return page.NoData
		}
		return r.Baseline.Allocation.String()
	}},
	{"CPUs of the machine", func(r *journal.Record) string { return page.Count(r.Host.CPUs) }},
	{"memory of the machine", func(r *journal.Record) string { return page.GiB(float64(r.Host.Memory)) }},
	{"GPUs of the machine", func(r *journal.Record) string {
		var names []string
		for _, g := range r.Host.GPUs {
			names = append(names, g.Name)
		}
		return cmp.Or(strings.Join(names, ", "), "none")
	}},
	{"prices", func(r *journal.Record) string { return words(r.Prices) }},
}

var results = []property{
	{"SLA", func(r *journal.Record) string { text, _ := report.Compliance(r); return text }},
	{"time", func(r *journal.Record) string { return measured(r.Outcome.Seconds, page.Duration) }},
	{"cost", func(r *journal.Record) string { return measured(r.Outcome.CostUSD, page.USD) }},
	{"epochs", func(r *journal.Record) string { return measured(r.Outcome.Epochs, page.Count) }},
	{"steps", func(r *journal.Record) string { return measured(r.Outcome.Steps, page.Count) }},
	{"throughput", func(r *journal.Record) string {
		return measured(r.Outcome.Throughput, page.Rate(r.Outcome.ThroughputUnit))
	}},
	{"CPU utilization", func(r *journal.Record) string { return measured(r.Outcome.CPUUtil, page.Percent) }},
	{"GPU utilization", func(r *journal.Record) string { return measured(r.Outcome.GPUUtil, page.Percent) }},
	{"peak memory", func(r *journal.Record) string { return measured(r.Outcome.PeakMemoryGiB, page.GiB) }},
	{"restarts", func(r *journal.Record) string { return fmt.Sprint(r.Outcome.Restarts) }},
	{"cost of probes", func(r *journal.Record) string { return measured(r.Outcome.ProbeCostUSD, page.USD) }},
	{"training loss", func(r *journal.Record) string { return measured(r.Training.TrainLoss, page.Significant) }},
	{"test accuracy", func(r *journal.Record) string { return measured(r.Training.TestAccuracy, page.Significant) }},
	{"energy", func(r *journal.Record) string { return page.WithUnit(float64(r.Outcome.EnergyJoules), "J") }},
}

// tables builds the tables of differing settings, common settings, and results. Results without data in all runs are
// omitted.
func (b *compareBody) tables() {
	head := []string{"Setting"}
	for _, r := range b.Runs {
		head = append(head, r.Sign)
	}
	b.Settings = &page.Table{Caption: "Settings that differ", Columns: page.Left(head...), Named: true}
	b.SameSettings = &page.Table{Caption: "Settings that all runs share", Columns: page.Left("Setting", "Value"), Named: true}
	b.Results = &page.Table{Caption: "Results", Columns: append(page.Left("Result"), page.Right(head[1:]...)...), Named: true}
	for _, p := range settings {
		cells, differ, any := b.cells(p)
		switch {
		case differ:
			b.Settings.Rows = append(b.Settings.Rows, page.Row(cells...))
		case any:
			b.SameSettings.Rows = append(b.SameSettings.Rows, page.Row(cells[:2]...))
		}
	}
	for _, p := range results {
		if cells, _, any := b.cells(p); any {
			b.Results.Rows = append(b.Results.Rows, page.Row(cells...))
		}
	}
}

// cells returns a property of all runs after its name.
func (b *compareBody) cells(p property) (cells []string, differ, any bool) {
	cells = []string{p.name}
	for i, r := range b.Runs {
		text := p.of(r.rec)
		cells = append(cells, text)
		differ = differ || i > 0 && text != cells[1]
		any = any || text != page.NoData
	}
	return cells, differ, any
}
