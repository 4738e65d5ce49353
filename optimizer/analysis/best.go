package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/history"
	"trainopt/optimizer/report/page"
)

// bestConfig is the best configuration for the same work, by one measure.
type bestConfig struct {
	By string `json:"by"` // "time", "cost", "throughput_per_dollar"
	// Config is the configuration as text, On its fields.
	Config string       `json:"config"`
	On     configRecord `json:"on"`
	Value  estimated    `json:"value"`
	Unit   string       `json:"unit"` // "s per epoch", "USD per epoch", "samples per USD"
	RunIDs []string     `json:"run_ids"`
	// Configs is the number of comparable configurations, including this one.
	Configs int `json:"configs"`
	// ThanMedianPct and ThanSecondPct are the advantage over the median and over the second best, in percent of
	// those; unknown when only one configuration is comparable.
	ThanMedianPct page.Number `json:"better_than_median_pct"`
	ThanSecondPct page.Number `json:"better_than_second_pct"`
	Second        string      `json:"second"`
	// Distinct reports whether the 90 % interval of the ratio to the second excludes 1; nil unless both consist of
	// several runs.
	Distinct *bool `json:"distinct"`
}

// configRecord is the JSON format of a configuration.
type configRecord struct {
	GPU       string      `json:"gpu"`
	GPUs      page.Number `json:"gpus"`
	Nodes     page.Number `json:"nodes"`
	CPUs      page.Number `json:"cpus"`
	MemoryGiB page.Number `json:"memory_gib"`
	BatchSize page.Number `json:"batch_size"`
	Machine   string      `json:"machine"`
}

func recordOf(c history.Config) configRecord {
	return configRecord{c.GPU, page.Number(c.GPUs), page.Number(positive(float64(c.Nodes))), page.Number(c.CPUs), page.Number(c.MemoryGiB), page.Number(c.Batch), c.Machine}
}

// criterion is a measure of the best configuration.
type criterion struct {
	name   string
	unit   func(work string, samples bool) string
	of     func(measured) float64
	better float64 // 1: higher is better, −1: lower is better
}

// criteria are the measures, in the order of the report.
var criteria = []criterion{
	{"time", func(work string, _ bool) string { return "s per " + work }, func(m measured) float64 { return m.seconds }, -1},
	{"cost", func(work string, _ bool) string { return "USD per " + work }, func(m measured) float64 { return m.usd }, -1},
	{"throughput_per_dollar", func(work string, samples bool) string {
		if samples {
			return "samples per USD"
		}
		return plural(work) + " per USD"
	}, func(m measured) float64 { return m.perUSD }, 1},
}

func plural(unit string) string {
	if strings.HasSuffix(unit, "s") {
		return unit
	}
	return unit + "s"
}

// arm is a configuration with the measurements of its runs.
type arm struct {
	on    history.Config
	value estimated
	ids   []string
}

// best returns the best configuration by each measure with data. Failed runs are excluded. The value of a
// configuration is the geometric mean over its runs. O(n log n).
func best(work workTotals, runs []measured) []bestConfig {
	samples := !slices.ContainsFunc(runs, func(m measured) bool { return !page.Known(m.Speed) })
	if !samples { // use one measure for all runs
		runs = slices.Clone(runs)
		for i := range runs {
			runs[i].perUSD = positive(3600 / (runs[i].seconds * runs[i].HourUSD))
		}
	}
	list := []bestConfig{}
	for _, c := range criteria {
		if arms := armsOf(runs, c); len(arms) > 0 {
			b := winner(arms, c.better)
			b.By, b.Unit = c.name, c.unit(work.Unit, samples)
			list = append(list, b)
		}
	}
	return list
}

// armsOf groups runs by configuration, best first; equal ones are ordered by configuration.
func armsOf(runs []measured, c criterion) []arm {
	byKey := map[string][]measured{}
	for _, m := range runs {
		if v := c.of(m); m.State != "failed" && page.Known(v) && v > 0 {
			byKey[configKey(m.On)] = append(byKey[configKey(m.On)], m)
		}
	}
	var arms []arm
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		a := arm{on: byKey[key][0].On}
		var values []float64
		for _, m := range byKey[key] {
			values, a.ids = append(values, c.of(m)), append(a.ids, m.ID)
		}
		a.value = estimate(values)
		arms = append(arms, a)
	}
	slices.SortStableFunc(arms, func(a, b arm) int { return cmp.Compare(float64(b.value.Mean)*c.better, float64(a.value.Mean)*c.better) })
	return arms
}

// winner returns the first configuration with its advantage over the median and the second one.
func winner(arms []arm, better float64) bestConfig {
	first := arms[0]
	b := bestConfig{Config: configWords(first.on), On: recordOf(first.on), Value: first.value, RunIDs: first.ids, Configs: len(arms),
		ThanMedianPct: none, ThanSecondPct: none}
	if len(arms) < 2 {
		return b
	}
	var values []float64
	for _, a := range arms {
		values = append(values, float64(a.value.Mean))
	}
	than := func(v float64) page.Number { return page.Number(100 * better * (float64(first.value.Mean)/v - 1)) }
	second := arms[1]
	b.ThanMedianPct, b.ThanSecondPct, b.Second = than(stat.Median(knownOf(values))), than(float64(second.value.Mean)), configWords(second.on)
	if r := first.value.over(second.value); r.Lo.Known() {
		distinct := r.Hi < 1 || r.Lo > 1
		b.Distinct = &distinct
	}
	return b
}
