package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/history"
	"trainopt/optimizer/report/page"
)

// schemaVersion is the version of the JSON format.
const schemaVersion = 1

// Report is the evaluation of finished trainings. Times are in seconds, money in USD, memory in GiB, utilization in
// percent.
type Report struct {
	Schema int `json:"schema"`
	// Runs counts trainings: supervised runs and imported logs, without probes and published measurements.
	Runs   int        `json:"runs"`
	Logs   int        `json:"logs"` // of Runs
	Probes int        `json:"probes"`
	From   *time.Time `json:"from"` // first and last known start
	To     *time.Time `json:"to"`
	Totals runTotals  `json:"totals"`
	// Models are the runs by model and data set, sorted by name.
	Models          []group                `json:"models"`
	Characteristics []modelCharacteristics `json:"characteristics"`
	// Findings are ordered by their cost, highest first; those without an amount are last.
	Findings  []finding     `json:"findings"`
	Agreement *limitSummary `json:"agreement"`
	Read      []readLog     `json:"logs_read"`
	Notes     []string      `json:"notes"`

	runs      []run // rows of the CSV
	trainings []training
}

// runTotals are sums over runs. Each sum covers the runs with a known value, whose number is in the corresponding count.
type runTotals struct {
	Runs    int `json:"runs"`
	Failed  int `json:"failed"`
	Stopped int `json:"stopped"`
	// EndUnknown counts the runs with an unknown final state, such as imported logs.
	EndUnknown int `json:"end_unknown"`
	// FailedShare is the share of failed runs among those with a known final state, 0…1.
	FailedShare page.Number `json:"failed_share"`

	Seconds       page.Number `json:"seconds"`
	MedianSeconds page.Number `json:"median_seconds"`
	Timed         int         `json:"timed"`
	CostUSD       page.Number `json:"cost_usd"`
	MedianUSD     page.Number `json:"median_usd"`
	Priced        int         `json:"priced"`
	Unpriced      int         `json:"unpriced"`
	// LostUSD is the cost of failed runs with a price; LostOf is their number.
	LostUSD      page.Number `json:"lost_usd"`
	LostOf       int         `json:"lost_of"`
	EnergyJoules page.Number `json:"energy_joules"`
	Metered      int         `json:"metered"` // runs with known energy
	Prices       []price     `json:"prices"`
}

// price is a price list with the number of runs priced by it.
type price struct {
	Words string      `json:"words"`
	Rates *cost.Rates `json:"rates"` // nil when the log contains the cost but no price
	Runs  int         `json:"runs"`
}

// group contains the runs of one model on one data set.
type group struct {
	Model   string    `json:"model"`
	Dataset string    `json:"dataset"` // "" when unknown
	Totals  runTotals `json:"totals"`

	Throughput    valueSummary `json:"throughput"` // samples/s in steady state, of each segment
	GPUUtil       valueSummary `json:"gpu_util"`
	CPUUtil       valueSummary `json:"cpu_util"`
	PeakMemoryGiB valueSummary `json:"peak_memory_gib"`
	GPUMemoryGiB  valueSummary `json:"gpu_memory_gib"`

	Work   workTotals   `json:"work"`
	Best   []bestConfig `json:"best"`
	Curves []curve      `json:"scaling"`

	comparable []measured
}

// name returns the display name of a group.
func (g *group) name() string {
	if g.Dataset == "" {
		return g.Model
	}
	return g.Model + " on " + g.Dataset
}

// Analyze evaluates everything that was added. It does not modify the analyzer, and the result does not depend on the
// order of additions. Planned and running entries are excluded and noted.
func (a *Analyzer) Analyze() *Report {
	r := &Report{Schema: schemaVersion, Models: []group{}, Findings: []finding{}, Read: append([]readLog{}, a.logs...), Notes: append([]string{}, a.notes...)}
	slices.SortStableFunc(r.Read, func(x, y readLog) int { return strings.Compare(x.Path, y.Path) })
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	all := a.runs([]history.Kind{history.Run, history.Log, history.Probe})
	var probes, whole []run
	unended := 0
	for _, run := range all {
		switch {
		case run.State == "planned" || run.State == "running":
			unended++
		case run.Kind == history.Probe:
			probes = append(probes, run)
		default:
			whole = append(whole, run)
		}
	}
	r.Probes = len(probes)
	r.trainings = trainings(whole)
	r.Runs = len(r.trainings)
	for _, t := range r.trainings {
		r.runs = append(r.runs, t.Whole)
		if t.Whole.Kind == history.Log {
			r.Logs++
		}
	}
	if from, to := span(r.trainings); !from.IsZero() {
		r.From, r.To = &from, &to
	}
	r.Totals = totals(r.trainings)
	r.Characteristics = append([]modelCharacteristics{}, characteristics(r.runs)...)
	r.groups(probes)
	r.Agreement = agreement(r.trainings, a.options.Limits)
	r.caveats(unended, len(a.runs([]history.Kind{history.Table})))
	return r
}

// groups sets Models and Findings. Probes contribute to the curves only. Comparisons use the segments of each
// training, totals the whole trainings.
func (r *Report) groups(probes []run) {
	byKey := map[string][]training{}
	pieces := map[string][]run{} // with the probes, for the curves
	for _, t := range r.trainings {
		key := groupKey(&t.Whole)
		byKey[key] = append(byKey[key], t)
		pieces[key] = append(pieces[key], t.Parts...)
	}
	for _, p := range probes {
		key := groupKey(&p)
		pieces[key] = append(pieces[key], p)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		list := byKey[key]
		g := group{Model: list[0].Whole.model, Dataset: page.Clean(list[0].Whole.Job.Dataset), Totals: totals(list)}
		var parts []run
		for _, t := range list {
			parts = append(parts, t.Parts...)
		}
		for _, s := range []struct {
			into *valueSummary
			of   func(*run) float64
		}{
			{&g.GPUUtil, func(r *run) float64 { return r.GPUUtil }},
			{&g.CPUUtil, func(r *run) float64 { return r.CPUUtil }}, {&g.PeakMemoryGiB, func(r *run) float64 { return r.PeakMemoryGiB }},
			{&g.GPUMemoryGiB, func(r *run) float64 { return r.GPUMemoryGiB }},
		} {
			var v []float64
			for i := range list {
				v = append(v, s.of(&list[i].Whole))
			}
			*s.into = summarize(v)
		}
		var speeds []float64
		for _, p := range parts {
			speeds = append(speeds, p.Speed)
		}
		g.Throughput = summarize(speeds)
		g.Work, g.comparable = commonWork(parts)
		g.Best = best(g.Work, g.comparable)
		g.Curves = curves(pieces[key])
		r.Models = append(r.Models, g)
		r.Findings = append(r.Findings, findings(&g, parts, pieces[key], list)...)
	}
	slices.SortStableFunc(r.Findings, func(x, y finding) int { return cmp.Compare(y.LostUSD, x.LostUSD) }) // unknown amounts last
}

// groupKey returns the key of a run's model and data set.
func groupKey(r *run) string { return r.model + "\x00" + page.Clean(r.Job.Dataset) }

// findings returns the findings of a group: unused GPUs, flat curves and failed runs.
func findings(g *group, parts, pieces []run, list []training) []finding {
	all := append(unused(g, parts), flatCurves(g, pieces)...)
	if g.Totals.Failed == 0 {
		return all
	}
	reasons := map[string]int{}
	f := finding{Model: g.Model, Dataset: g.Dataset, Cause: "failed", LostUSD: g.Totals.LostUSD,
		Advice: "read the last lines of their output (optimize logs ID); a training that saves checkpoints loses less"}
	for _, t := range list {
		if t.Whole.State == "failed" {
			f.RunIDs = append(f.RunIDs, t.Whole.ID)
			reasons[page.Clean(t.Whole.Reason)]++
		}
	}
	var words []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if reason != "" {
			words = append(words, fmt.Sprintf("%d× %s", reasons[reason], reason))
		}
	}
	f.Evidence = fmt.Sprintf("%d of %s failed", g.Totals.Failed, page.Plural(g.Totals.Runs-g.Totals.EndUnknown, "run"))
	if len(words) > 0 {
		f.Evidence += " (" + strings.Join(words, ", ") + ")"
	}
	switch {
	case g.Totals.LostOf == 0:
		f.Basis = "cannot be computed: they have no price"
	case g.Totals.LostOf < g.Totals.Failed:
		f.Basis = fmt.Sprintf("the cost of %d of them, the others have no price", g.Totals.LostOf)
	default:
		f.Basis = "all that they cost"
	}
	return append(all, f)
}

// totals sums over trainings. Prices are counted by description.
func totals(list []training) runTotals {
	t := runTotals{Runs: len(list)}
	var seconds, usd, lost, joules []float64
	priced := map[string]*price{}
	for _, one := range list {
		w := &one.Whole
		switch w.State {
		case "failed":
			t.Failed++
			lost = append(lost, w.USD)
		case "stopped":
			t.Stopped++
		case "":
			t.EndUnknown++
		}
		seconds, usd, joules = append(seconds, w.Seconds), append(usd, w.USD), append(joules, w.EnergyJoules)
		if page.Known(w.USD) {
			p := priceOf(w)
			if priced[p.Words] == nil {
				priced[p.Words] = &p
			}
			priced[p.Words].Runs++
		}
	}
	t.FailedShare = page.Number(float64(t.Failed) / float64(t.Runs-t.EndUnknown))
	t.Seconds, t.MedianSeconds, t.Timed = total(seconds), page.Number(stat.Median(knownOf(seconds))), len(knownOf(seconds))
	t.CostUSD, t.MedianUSD, t.Priced = total(usd), page.Number(stat.Median(knownOf(usd))), len(knownOf(usd))
	t.Unpriced = t.Runs - t.Priced
	t.LostUSD, t.LostOf = total(lost), len(knownOf(lost))
	t.EnergyJoules, t.Metered = total(joules), len(knownOf(joules))
	t.Prices = []price{}
	for _, words := range slices.Sorted(maps.Keys(priced)) {
		t.Prices = append(t.Prices, *priced[words])
	}
	return t
}

// priceOf returns the price behind a run's cost, with its description.
func priceOf(r *run) price {
	if r.Price == (cost.Rates{}) {
		return price{Words: "as recorded in the log, which does not contain the price"}
	}
	rates := r.Price
	p := price{Rates: &rates}
	var parts []string
	if r.Price.Instance > 0 {
		parts = append(parts, page.USD(float64(r.Price.Instance))+" per machine-hour")
	} else {
		for _, u := range []struct {
			usd  cost.USD
			what string
		}{{r.Price.GPUHour, "GPU"}, {r.Price.CPUHour, "CPU"}, {r.Price.GiBHour, "GiB"}} {
			if u.usd > 0 {
				parts = append(parts, page.USD(float64(u.usd))+" per "+u.what+"-hour")
			}
		}
		if len(parts) == 0 {
			parts = []string{"nothing"}
		}
	}
	p.Words = "at " + strings.Join(parts, ", ")
	if r.Price.Source != "" {
		p.Words += ", " + page.Clean(r.Price.Source)
	}
	if r.Price.Dated != "" {
		p.Words += " of " + page.Clean(r.Price.Dated)
	}
	return p
}

// caveats appends notes on omissions and assumptions.
func (r *Report) caveats(unended, published int) {
	add := func(n int, one, several string) {
		switch {
		case n == 1:
			r.Notes = append(r.Notes, one)
		case n > 1:
			r.Notes = append(r.Notes, fmt.Sprintf(several, n))
		}
	}
	add(unended, "1 run has not ended: left out", "%d runs have not ended: left out")
	add(published, "1 published measurement is not a run: left out", "%d published measurements are not runs: left out")
	add(r.Totals.Unpriced, "1 run has no price: --instance or --gpu-hour and --cpu-hour give one", "%d runs have no price: --instance or --gpu-hour and --cpu-hour give one")
	memory, bad, rows := 0, 0, 0
	for i := range r.runs {
		run := &r.runs[i]
		if run.computed && page.Known(run.USD) && run.Price.Instance == 0 && run.Price.GiBHour > 0 && !page.Known(run.On.MemoryGiB) {
			memory++
		}
		bad, rows = bad+run.Bad, rows+run.Rows
	}
	add(memory, "the memory of 1 run is not known and not in its price", "the memory of %d runs is not known and not in their price")
	if bad > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s of the training logs could not be read (%s %% of %s)", page.Plural(bad, "row"),
			page.Significant(100*float64(bad)/float64(bad+rows)), page.Thousands(float64(bad+rows))))
	}
	for _, t := range r.trainings {
		if w := t.Whole; w.Price.Assumed != "" {
			r.Notes = append(r.Notes, "price assumed: "+page.Clean(w.Price.Assumed))
		}
	}
	unnamed := 0
	for i := range r.Models {
		g := &r.Models[i]
		if strings.HasPrefix(g.Model, unknownModel+" in ") {
			unnamed++
		}
		if scripts, params := r.spread(g); scripts > 1 || params > 1.01 {
			words := page.Plural(max(1, scripts), "script")
			if params > 1.01 {
				words += " with parameters that differ by a factor of " + page.Significant(params)
			}
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s: not surely the same training", g.name(), words))
		}
	}
	if unnamed > 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("neither model nor data set nor script is known of what %d logs hold: they are not compared with each other (--model and --dataset name them)", unnamed))
	}
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
}

// spread returns the number of different scripts in a group and the ratio of the largest to the smallest number of
// parameters.
func (r *Report) spread(g *group) (scripts int, params float64) {
	seen := map[string]bool{}
	var sizes []float64
	for i := range r.runs {
		if run := &r.runs[i]; run.model == g.Model && page.Clean(run.Job.Dataset) == g.Dataset {
			j := run.Job
			if j.ScriptSHA256 != "" {
				seen[j.ScriptSHA256] = true
			}
			sizes = append(sizes, positive(j.Params))
		}
	}
	if sizes = knownOf(sizes); len(sizes) > 0 {
		params = sizes[len(sizes)-1] / sizes[0]
	}
	return len(seen), params
}
