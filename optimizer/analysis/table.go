package analysis

import (
	"time"

	"trainopt/optimizer/report/page"
)

// column is one column of the table of runs and the CSV.
type column struct {
	name   string
	text   func(*run) string  // for text columns
	number func(*run) float64 // for numeric columns; NaN: unknown
}

// columns are the columns of the table of runs. Readers of the CSV rely on names and order: append only.
var columns = []column{
	{name: "id", text: func(r *run) string { return r.ID }},
	{name: "kind", text: func(r *run) string { return string(r.Kind) }},
	{name: "source", text: func(r *run) string { return r.Source }},
	{name: "started_at", text: func(r *run) string {
		if r.At.IsZero() {
			return ""
		}
		return r.At.UTC().Format(time.RFC3339)
	}},
	{name: "model", text: func(r *run) string { return r.Job.Model }},
	{name: "family", text: func(r *run) string { return r.Job.Family }},
	{name: "dataset", text: func(r *run) string { return r.Job.Dataset }},
	{name: "script", text: func(r *run) string { return r.Job.Script }},
	{name: "framework", text: func(r *run) string { return r.Job.Framework }},
	{name: "state", text: func(r *run) string { return r.State }},
	{name: "reason", text: func(r *run) string { return r.Reason }},
	{name: "gpu", text: func(r *run) string { return r.On.GPU }},
	{name: "gpus", number: func(r *run) float64 { return r.On.GPUs }},
	{name: "nodes", number: func(r *run) float64 { return positive(float64(r.On.Nodes)) }},
	{name: "cpus", number: func(r *run) float64 { return r.On.CPUs }},
	{name: "memory_gib", number: func(r *run) float64 { return r.On.MemoryGiB }},
	{name: "batch_size", number: func(r *run) float64 { return r.On.Batch }},
	{name: "machine", text: func(r *run) string { return r.On.Machine }},
	{name: "seconds", number: func(r *run) float64 { return r.Seconds }},
	{name: "unit", text: func(r *run) string { return r.Unit }},
	{name: "units", number: func(r *run) float64 { return r.Units }},
	{name: "seconds_per_unit", number: func(r *run) float64 { s, _ := r.unitSeconds(); return s }},
	{name: "samples_per_unit", number: func(r *run) float64 { return r.PerUnit }},
	{name: "throughput", number: func(r *run) float64 { return r.Speed }},
	{name: "cost_usd", number: func(r *run) float64 { return r.USD }},
	{name: "usd_per_unit", number: func(r *run) float64 { return r.unitUSD() }},
	{name: "usd_per_hour", number: func(r *run) float64 { return r.HourUSD }},
	{name: "price_source", text: func(r *run) string { return r.Price.Source }},
	{name: "price_dated", text: func(r *run) string { return r.Price.Dated }},
	{name: "peak_memory_gib", number: func(r *run) float64 { return r.PeakMemoryGiB }},
	{name: "gpu_memory_gib", number: func(r *run) float64 { return r.GPUMemoryGiB }},
	{name: "gpu_util", number: func(r *run) float64 { return r.GPUUtil }},
	{name: "cpu_util", number: func(r *run) float64 { return r.CPUUtil }},
	{name: "energy_joules", number: func(r *run) float64 { return r.EnergyJoules }},
	{name: "restarts", number: func(r *run) float64 { return float64(r.Restarts) }},
	{name: "rows", number: func(r *run) float64 { return float64(r.Rows) }},
	{name: "bad_rows", number: func(r *run) float64 { return float64(r.Bad) }},
	{name: "model_params", number: func(r *run) float64 { return r.Job.Params }},
}

// positive returns v if it is a finite number above 0, otherwise unknown.
func positive(v float64) float64 {
	if v > 0 && page.Known(v) {
		return v
	}
	return unknown()
}

// lines returns the names of the columns and one row per run or training of a log. Unknown cells are empty.
func (r *Report) lines() [][]string {
	out := make([][]string, len(r.runs)+1)
	for _, c := range columns {
		out[0] = append(out[0], c.name)
	}
	for k := range r.runs {
		for _, c := range columns {
			cell := ""
			if c.text != nil {
				cell = page.PlainBlanks(page.Clean(c.text(&r.runs[k])))
			} else {
				cell = plain(c.number(&r.runs[k]))
			}
			out[k+1] = append(out[k+1], cell)
		}
	}
	return out
}
