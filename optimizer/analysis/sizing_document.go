package analysis

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/report/page"
)

// sizingFormats is the registry of output formats, one line each.
var sizingFormats = page.Formats[*sizing]{
	"text":     page.TextOf((*sizing).document),
	"markdown": page.MarkdownOf((*sizing).document),
	"html":     page.HTMLOf((*sizing).document),
	"json":     page.JSONOf(func(r *sizing) *sizing { return r }),
	"csv":      page.CSVOf((*sizing).lines),
}

// Render writes a report as text, markdown, html, json or csv. The output depends on the report alone.
func (r *sizing) Render(w io.Writer, format string) error {
	return sizingFormats.Write(w, "use of batch jobs", r, format)
}

// document converts a report to a document.
func (r *sizing) document() page.Document {
	t := r.Total
	d := page.Document{Title: fmt.Sprintf("Batch jobs: requested and used, %s in %s", page.Plural(t.Jobs, "job"), page.Plural(len(r.Groups), "group")),
		Footer: "All figures are from the accounting of Slurm. What it does not record is “no data”. Memory is sampled, by default every 30 s."}
	if r.From != nil && r.To != nil {
		d.Subtitle = fmt.Sprintf("%s to %s", r.From.Format(time.DateOnly), r.To.Format(time.DateOnly))
	}
	d.Tiles = r.tiles()
	d.Sections = []page.Section{
		{ID: "use", Title: "Requested and used", Intro: "Jobs by user and name. Medians over runs; memory is that of one node, its peak the highest of all runs.",
			Blocks: []page.Block{{Table: r.useTable()}}},
		{ID: "cost", Title: "Hours and cost", Intro: "Unused is the measured part of the allocation without use, at its price. The columns overlap: they do not add up.",
			Blocks: []page.Block{{Table: r.costTable()}, {Notes: r.prices()}}},
		r.adviceSection(),
	}
	if len(r.Notes) > 0 {
		d.Sections = append(d.Sections, page.Section{ID: "notes", Title: "Notes", Blocks: []page.Block{{Notes: r.Notes}}})
	}
	return d
}

// tiles returns the headline figures with the number of runs behind each.
func (r *sizing) tiles() []page.Tile {
	t := r.Total
	of := func(n int) string { return "of " + page.Plural(n, "run") }
	return []page.Tile{
		tile("Jobs", page.Thousands(float64(t.Jobs)), of(t.Runs)),
		tile("Cost", page.USD(float64(t.CostUSD)), of(t.Runs-t.Unpriced)),
		tile("CPU efficiency", page.Share(float64(t.CPU.Value)), of(t.CPU.Of)),
		tile("Memory used, median", page.Share(float64(t.Memory.Median)), of(t.Memory.Of)),
		tile("GPU utilization", page.Share(float64(t.GPU.Value)), of(t.GPU.Of)),
		tile("GPU hours", page.Count(float64(t.Hours.GPU)), of(t.Runs-t.Unpriced)),
	}
}

// name returns the display name of a group.
func (g *jobGroup) name() string {
	return cmp.Or(g.Name, "unnamed") + " (" + cmp.Or(g.User, "user unknown") + ")"
}

// states formats the numbers of runs by state, most frequent first: "12 completed, 1 failed".
func (g *jobGroup) states() string {
	names := slices.SortedFunc(maps.Keys(g.States), func(a, b string) int { return cmp.Or(g.States[b]-g.States[a], strings.Compare(a, b)) })
	var parts []string
	for _, s := range names {
		parts = append(parts, fmt.Sprintf("%d %s", g.States[s], strings.ToLower(strings.ReplaceAll(page.Clean(s), "_", " "))))
	}
	for _, s := range []struct {
		n    int
		word string
	}{{g.Running, "running"}, {g.Waiting, "waiting"}} {
		if s.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.n, s.word))
		}
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

// both formats what was used and what was requested, "no data" if neither is known.
func both(a, b string) string {
	if a == page.NoData && b == page.NoData {
		return page.NoData
	}
	return a + " / " + b
}

// useTable compares requests and use.
func (r *sizing) useTable() *page.Table {
	g := &page.Table{Columns: append(page.Left("job", "runs"), page.Right("time / limit", "CPUs used / allocated", "memory used / allocated", "GPUs", "GPU use")...), Named: true}
	for _, x := range r.Groups {
		q := x.Request
		gpus := page.NoData
		if page.Known(float64(q.GPUs)) {
			if gpus = page.Count(float64(q.GPUs)); q.GPUType != "" && q.GPUs > 0 {
				gpus += " × " + page.Clean(q.GPUType)
			}
		}
		use := page.Share(float64(x.GPU.Value))
		if q.GPUs == 0 && x.GPU.Of == 0 {
			use = "–"
		}
		g.Rows = append(g.Rows, page.Row(x.name(), x.states(),
			both(page.Duration(float64(x.Elapsed.Median)), page.Duration(float64(q.LimitS))),
			both(page.Significant(float64(x.CPUs.Median)), page.Count(float64(q.CPUs))),
			both(page.GiB(float64(x.PeakGiB.Max)), page.GiB(float64(q.MemoryGiB))), gpus, use))
	}
	return g
}

// costTable returns the hours, the cost and its unused parts.
func (r *sizing) costTable() *page.Table {
	g := &page.Table{Columns: append(page.Left("job"), page.Right("CPU hours", "GPU hours", "cost", "unused CPUs", "unused memory", "unused GPUs", "failed", "timed out")...), Named: true}
	row := func(name string, x *jobGroup) {
		none := func(v page.Number) string { // "–" if no run failed
			if !page.Known(float64(v)) && page.Known(float64(x.CostUSD)) {
				return "–"
			}
			return page.USD(float64(v))
		}
		gpu := page.USD(float64(x.Waste.GPU))
		if x.Hours.GPU == 0 {
			gpu = "–"
		}
		g.Rows = append(g.Rows, page.Row(name, page.Count(float64(x.Hours.CPU)), page.Count(float64(x.Hours.GPU)), page.USD(float64(x.CostUSD)),
			page.USD(float64(x.Waste.CPU)), page.USD(float64(x.Waste.Memory)), gpu, none(x.Waste.Failed), none(x.Waste.TimedOut)))
	}
	for _, x := range r.Groups {
		row(x.name(), x)
	}
	if len(r.Groups) > 1 {
		row("all", r.Total)
	}
	return g
}

// prices describes the prices and the number of runs at each.
func (r *sizing) prices() []string {
	var out []string
	defaults := false
	for _, p := range r.Prices {
		var parts []string
		for _, u := range []struct {
			usd  float64
			what string
		}{{float64(p.Instance), "machine"}, {float64(p.GPUHour), "GPU"}, {float64(p.CPUHour), "CPU"}, {float64(p.GiBHour), "GiB"}} {
			if u.usd > 0 && (p.Instance == 0 || u.what == "machine") {
				parts = append(parts, page.USD(u.usd)+" per "+u.what+"-hour")
			}
		}
		words := fmt.Sprintf("%s at %s, %s, dated %s", page.Plural(p.Runs, "run"), strings.Join(parts, ", "), page.Clean(p.Source), page.Clean(p.Dated))
		out, defaults = append(out, words), defaults || p.Default
	}
	if defaults {
		out = append(out, "these are default prices, not those of the site: give its own with --rates, or --gpu-hour, --cpu-hour and --gib-hour")
	}
	return out
}

// adviceSection returns the recommended requests of each group.
func (r *sizing) adviceSection() page.Section {
	s := page.Section{ID: "requests", Title: "Recommended requests",
		Intro: fmt.Sprintf("From at least %d completed runs. Sufficient for those runs; a larger input may require more.", minRuns)}
	few := 0
	for _, g := range r.Groups {
		if len(g.of(func(l *life) float64 { return l.seconds })) < minRuns {
			few++
			continue
		}
		b := page.Block{Caption: g.name()}
		for _, l := range g.Advice.Lines {
			b.Fields = append(b.Fields, page.Field{Name: "#SBATCH " + l.Option, Value: l.Reason})
		}
		for _, w := range g.Advice.Withheld {
			b.Notes = append(b.Notes, "not recommended: "+w)
		}
		s.Blocks = append(s.Blocks, b)
	}
	if few > 0 {
		s.Blocks = append(s.Blocks, page.Block{Notes: []string{fmt.Sprintf("no recommendation for %s with fewer completed runs", page.Plural(few, "group"))}})
	}
	return s
}

// lines returns the names of the columns and one row per group. Unknown cells are empty. Readers of the CSV rely on
// names and order: append only.
func (r *sizing) lines() [][]string {
	head := []string{"user", "name", "jobs", "runs", "running", "waiting", "completed", "failed", "timed_out", "out_of_memory", "nodes", "cpus", "gpus", "gpu_type",
		"memory_gib_per_node", "limit_s", "elapsed_s_median", "elapsed_s_max", "wait_s_median", "cpu_efficiency", "cpus_used_median", "peak_memory_gib_per_node",
		"memory_efficiency_median", "gpu_utilization", "peak_gpu_memory_gib", "cpu_hours", "gpu_hours", "gib_hours", "cost_usd", "unused_cpu_usd", "unused_memory_usd",
		"unused_gpu_usd", "failed_usd", "timed_out_usd", "recommended"}
	rows := [][]string{head}
	cell := func(n page.Number) string { return page.CSVCell(float64(n), 9) }
	for _, g := range r.Groups {
		var options []string
		for _, l := range g.Advice.Lines {
			options = append(options, strings.TrimPrefix(l.Option, "--"))
		}
		q := g.Request
		nodes := math.NaN()
		if q.Nodes > 0 {
			nodes = float64(q.Nodes)
		}
		rows = append(rows, []string{g.User, g.Name, strconv.Itoa(g.Jobs), strconv.Itoa(g.Runs), strconv.Itoa(g.Running), strconv.Itoa(g.Waiting),
			strconv.Itoa(g.States["COMPLETED"]), strconv.Itoa(g.States["FAILED"]), strconv.Itoa(g.States["TIMEOUT"]), strconv.Itoa(g.States["OUT_OF_MEMORY"]),
			cell(page.Number(nodes)), cell(q.CPUs), cell(q.GPUs), page.Clean(q.GPUType), cell(q.MemoryGiB), cell(q.LimitS), cell(g.Elapsed.Median), cell(g.Elapsed.Max), cell(g.WaitS.Median),
			cell(g.CPU.Value), cell(g.CPUs.Median), cell(g.PeakGiB.Max), cell(g.Memory.Median), cell(g.GPU.Value), cell(g.GPUMemory.Max),
			cell(g.Hours.CPU), cell(g.Hours.GPU), cell(g.Hours.GiB), cell(g.CostUSD), cell(g.Waste.CPU), cell(g.Waste.Memory), cell(g.Waste.GPU),
			cell(g.Waste.Failed), cell(g.Waste.TimedOut), strings.Join(options, " ")})
	}
	return rows
}
