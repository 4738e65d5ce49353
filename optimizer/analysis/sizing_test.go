package analysis

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"trainopt/cost"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/report/page"
)

// example returns the jobs of the documented example.
func example(t testing.TB) []slurm.Job {
	t.Helper()
	f, err := os.Open("../../examples/sacct.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, err := slurm.ReadAccounting(f)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func rendered(t testing.TB, r *sizing, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Render(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSizingGolden compares the rendered example with reviewed files.
func TestSizingGolden(t *testing.T) {
	for format, file := range map[string]string{"text": "report.txt", "markdown": "report.md", "json": "report.json", "csv": "report.csv"} {
		got, path := rendered(t, NewSizing(example(t), SizingOptions{}), format), filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (go test -update writes it again):\n%s", format, path, got)
		}
	}
}

// minutes is a run of a job of user ada with the given state, length and peak memory, on 8 CPUs of which 2 are in use
// and 16 GiB.
func minutes(n int, state string, length int, peakGiB float64, change func(*slurm.Job)) slurm.Job {
	elapsed, limit := time.Duration(length)*time.Minute, 10*time.Hour
	start := time.Date(2026, 5, 1, n%24, 0, 0, 0, time.UTC)
	cpu := 2 * elapsed.Seconds()
	j := slurm.Job{ID: fmt.Sprint(n), RawID: fmt.Sprint(n), Name: "train", User: "ada", State: state, Eligible: start.Add(-time.Minute), Start: start, End: start.Add(elapsed),
		Elapsed: &elapsed, Limit: &limit, NodeCount: 1, AllocTRES: map[string]float64{"cpu": 8, "mem": 16},
		Steps: []slurm.Step{{Name: "batch", Start: start, End: start.Add(elapsed), Tasks: 1, NodeCount: 1, MaxRSSGiB: &peakGiB, CPUSecs: &cpu}}}
	if change != nil {
		change(&j)
	}
	return j
}

// completed returns n completed runs of 100 minutes with peaks of 4 GiB.
func completed(n int, change func(*slurm.Job)) (jobs []slurm.Job) {
	for i := range n {
		jobs = append(jobs, minutes(i+1, "COMPLETED", 100, 4, change))
	}
	return jobs
}

func options(g *jobGroup) string {
	var out []string
	for _, l := range g.Advice.Lines {
		out = append(out, l.Option)
	}
	return strings.Join(out, " ")
}

func TestRecommendation(t *testing.T) {
	unmeasured := func(j *slurm.Job) { j.Steps[0].MaxRSSGiB, j.Steps[0].CPUSecs = nil, nil }
	for name, c := range map[string]struct {
		jobs     []slurm.Job
		options  string
		withheld string
	}{
		"five runs":     {completed(5, nil), "--mem=5G --cpus-per-task=3 --time=02:05:00", ""},
		"four runs":     {completed(4, nil), "", "4 completed runs, at least 5"},
		"nothing known": {completed(5, unmeasured), "--time=02:05:00", "memory: 0 completed runs with a recorded peak"},
		"one larger peak, of a failed run": {append(completed(5, nil), minutes(6, "FAILED", 10, 9.5, nil)),
			"--mem=12G --cpus-per-task=3 --time=02:05:00", ""},
		"out of memory": {append(completed(5, nil), minutes(6, "OUT_OF_MEMORY", 10, 15.9, nil)),
			"--mem=20G --cpus-per-task=3 --time=02:05:00", ""},
		"time limit reached": {append(completed(5, nil), minutes(6, "TIMEOUT", 600, 4, nil)),
			"--mem=5G --cpus-per-task=3", "time: 1 of 6 runs reached the time limit"},
		"one of many reached it": {append(completed(20, nil), minutes(21, "TIMEOUT", 600, 4, nil)),
			"--mem=5G --cpus-per-task=3 --time=02:05:00", ""},
		"all CPUs in use": {completed(5, func(j *slurm.Job) { *j.Steps[0].CPUSecs = 7.9 * j.Elapsed.Seconds() }),
			"--mem=5G --cpus-per-task=8 --time=02:05:00", ""},
		"four tasks": {completed(5, func(j *slurm.Job) { j.Steps[0].Tasks = 4 }), "--mem=20G --cpus-per-task=1 --time=02:05:00", ""},
		"two nodes": {completed(5, func(j *slurm.Job) { j.NodeCount, j.Steps[0].NodeCount, j.Steps[0].Tasks = 2, 2, 2 }),
			"--mem=5G --cpus-per-task=2 --time=02:05:00", ""},
	} {
		r := NewSizing(c.jobs, SizingOptions{})
		if len(r.Groups) != 1 {
			t.Fatalf("%s: %d groups", name, len(r.Groups))
		}
		g := r.Groups[0]
		if got := options(g); got != c.options {
			t.Errorf("%s: %q, want %q", name, got, c.options)
		}
		withheld := strings.Join(g.Advice.Withheld, "; ")
		if c.withheld == "" && withheld != "" || !strings.Contains(withheld, c.withheld) {
			t.Errorf("%s: withheld %q, want %q", name, withheld, c.withheld)
		}
	}
}

// TestNoDataIsNotZero: without a record there is neither an efficiency nor a waste, and 0 of both GPU counters is none.
func TestNoDataIsNotZero(t *testing.T) {
	jobs := completed(5, func(j *slurm.Job) {
		j.AllocTRES["gres/gpu"] = 2
		j.Steps[0].MaxRSSGiB, j.Steps[0].CPUSecs = nil, nil
		j.Steps[0].UsageTot = map[string]float64{"gres/gpuutil": 0, "gres/gpumem": 0}
	})
	r := NewSizing(jobs, SizingOptions{})
	g := r.Groups[0]
	for name, v := range map[string]page.Number{"CPU": g.CPU.Value, "memory": g.Memory.Median, "GPU": g.GPU.Value, "unused CPUs": g.Waste.CPU, "unused memory": g.Waste.Memory,
		"unused GPUs": g.Waste.GPU, "failed": g.Waste.Failed, "peak": g.PeakGiB.Max} {
		if page.Known(float64(v)) {
			t.Errorf("%s: %g", name, float64(v))
		}
	}
	if !page.Known(float64(g.CostUSD)) || g.Hours.GPU != page.Number(5*2*100./60) {
		t.Errorf("cost %g, %g GPU hours", float64(g.CostUSD), float64(g.Hours.GPU))
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"5 runs recorded 0 as both", "no GPU utilization is recorded of 5", "no memory is recorded of 5"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in:\n%s", want, notes)
		}
	}
	// Without an allocation, or with the number of CPUs alone, nothing has a price.
	for _, tres := range []map[string]float64{nil, {"cpu": 4}} {
		g = NewSizing(completed(2, func(j *slurm.Job) { j.AllocTRES = tres }), SizingOptions{}).Groups[0]
		if page.Known(float64(g.CostUSD)) || g.Unpriced != 2 || page.Known(float64(g.Request.GPUs)) {
			t.Errorf("cost %g, %d unpriced", float64(g.CostUSD), g.Unpriced)
		}
	}
}

// TestMoney: hours, cost and its unused parts, by hand.
func TestMoney(t *testing.T) {
	rates := cost.Rates{GPUHour: 2, CPUHour: .1, GiBHour: .01, Source: "a price list", Dated: "2026-03-01"}
	jobs := completed(3, func(j *slurm.Job) {
		j.AllocTRES["gres/gpu"], j.AllocTRES["gres/gpu:a100"] = 4, 4
		j.Steps[0].UsageTot = map[string]float64{"gres/gpuutil": 100, "gres/gpumem": 30}
	})
	jobs = append(jobs, minutes(4, "FAILED", 60, 4, nil), minutes(5, "RUNNING", 60, 4, func(j *slurm.Job) { j.End, j.Steps = time.Time{}, nil }))
	r := NewSizing(jobs, SizingOptions{Rates: &rates})
	g := r.Groups[0]
	hours := 5. // three of 100 minutes
	for name, c := range map[string]struct{ got, want page.Number }{
		"CPU hours": {g.Hours.CPU, page.Number(8 * (hours + 2))}, "GPU hours": {g.Hours.GPU, page.Number(4 * hours)}, "GiB hours": {g.Hours.GiB, page.Number(16 * (hours + 2))},
		"cost":          {g.CostUSD, page.Number(hours*(4*2+8*.1+16*.01) + 2*(8*.1+16*.01))},
		"unused CPUs":   {g.Waste.CPU, page.Number((hours + 1) * .8 * .75)},
		"unused memory": {g.Waste.Memory, page.Number((hours + 1) * .16 * .75)},
		"unused GPUs":   {g.Waste.GPU, page.Number(hours * 8 * .75)},
		"failed":        {g.Waste.Failed, page.Number(.8 + .16)},
		"CPU":           {g.CPU.Value, .25}, "GPU": {g.GPU.Value, .25}, "memory": {g.Memory.Median, .25},
	} {
		if math.Abs(float64(c.got-c.want)) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, float64(c.got), float64(c.want))
		}
	}
	if page.Known(float64(g.Waste.TimedOut)) || g.Running != 1 || g.Runs != 5 || g.States["COMPLETED"] != 3 || len(r.Prices) != 1 || r.Prices[0].Default {
		t.Errorf("%+v %+v", g, r.Prices)
	}
	// A machine is paid as a whole.
	rates.Instance = 12
	if g := NewSizing(completed(1, nil), SizingOptions{Rates: &rates}).Groups[0]; math.Abs(float64(g.CostUSD)-20) > 1e-9 {
		t.Errorf("100 minutes of a machine at $12 cost %g", float64(g.CostUSD))
	}
}

// TestDefaultPrices: GPU types of Slurm have default prices, with their source; slices of a GPU cost their part.
func TestDefaultPrices(t *testing.T) {
	whole := defaultRates(1, "nvidia_a100-sxm4-80gb")
	if whole.GPUHour != cost.Default("A100 80GB").GPUHour || whole.Assumed != "" {
		t.Errorf("%+v", whole)
	}
	if slice := defaultRates(1, "a100_3g.20gb"); math.Abs(float64(slice.GPUHour-cost.Default("a100").GPUHour*3/7)) > 1e-4 {
		t.Errorf("%+v", slice)
	}
	if none := defaultRates(0, ""); none.GPUHour != 0 || none.CPUHour == 0 {
		t.Errorf("%+v", none)
	}
	if unknown := defaultRates(1, ""); unknown.Assumed == "" {
		t.Errorf("%+v", unknown)
	}
	r := NewSizing(completed(1, nil), SizingOptions{})
	if len(r.Prices) != 1 || !r.Prices[0].Default || !strings.Contains(rendered(t, r, "text"), "default prices") {
		t.Errorf("%+v", r.Prices)
	}
}

// TestNodePeak: steps that run at the same time add up, one after the other they do not.
func TestNodePeak(t *testing.T) {
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	step := func(from, to, tasks, nodes int, gib float64) slurm.Step {
		return slurm.Step{Start: day.Add(time.Duration(from) * time.Minute), End: day.Add(time.Duration(to) * time.Minute), Tasks: tasks, NodeCount: nodes, MaxRSSGiB: &gib}
	}
	unrecorded := slurm.Step{Start: day, End: day.Add(time.Hour)}
	for name, c := range map[string]struct {
		steps []slurm.Step
		want  float64
	}{
		"none":                 {nil, math.NaN()},
		"unrecorded":           {[]slurm.Step{unrecorded}, math.NaN()},
		"one":                  {[]slurm.Step{step(0, 60, 1, 1, 3), unrecorded}, 3},
		"one after the other":  {[]slurm.Step{step(0, 60, 1, 1, .5), step(0, 30, 1, 1, 3), step(30, 60, 1, 1, 4)}, 4.5},
		"at the same time":     {[]slurm.Step{step(0, 40, 1, 1, 3), step(30, 60, 1, 1, 4)}, 7},
		"tasks on two nodes":   {[]slurm.Step{step(0, 40, 3, 2, 2)}, 4},
		"shorter than seconds": {[]slurm.Step{step(5, 5, 1, 1, 2)}, 2},
		"without times":        {[]slurm.Step{{MaxRSSGiB: new(float64)}}, 0},
	} {
		got, _ := nodePeak(&slurm.Job{Start: day, End: day.Add(time.Hour), Steps: c.steps})
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

// TestRepeatedLines: a run that two files contain counts once, in its later state; lives and waiting tasks remain
// distinct.
func TestRepeatedLines(t *testing.T) {
	running := minutes(1, "RUNNING", 10, 4, func(j *slurm.Job) { j.End = time.Time{} })
	again := minutes(2, "COMPLETED", 20, 4, func(j *slurm.Job) { j.ID, j.RawID = "1", "1" })
	waiting := slurm.Job{ID: "1_[2-9]", RawID: "1", State: "PENDING", User: "ada", Name: "train", Submit: time.Unix(1, 0)}
	r := NewSizing([]slurm.Job{running, again, waiting, minutes(1, "COMPLETED", 100, 4, nil)}, SizingOptions{})
	g := r.Groups[0]
	if g.Runs != 2 || g.Jobs != 1 || g.Waiting != 1 || g.Running != 0 || g.States["COMPLETED"] != 2 || !strings.Contains(strings.Join(r.Notes, " "), "1 run listed more than once") {
		t.Errorf("%+v %v", g, r.Notes)
	}
	if g := NewSizing([]slurm.Job{running}, SizingOptions{User: "grace"}); len(g.Groups) != 0 {
		t.Errorf("jobs of another user: %+v", g.Groups)
	}
}

func TestRounding(t *testing.T) {
	for gib, want := range map[float64]string{.01: "--mem=64M", .9: "--mem=960M", 1: "--mem=1G", 1.1: "--mem=1280M", 3.99: "--mem=4G", 12.0000000001: "--mem=12G", 12.1: "--mem=13G", 400: "--mem=400G"} {
		if got, rounded := memoryOption(gib); got != want || rounded < gib-1e-6 {
			t.Errorf("%g GiB: %s, %g", gib, got, rounded)
		}
	}
	for seconds, want := range map[float64]string{1: "00:05:00", 300: "00:05:00", 301: "00:10:00", 6.1 * 3600: "06:30:00", 24 * 3600: "1-00:00:00", 49.5 * 3600: "2-02:00:00", 30 * 86400: "30-00:00:00"} {
		if got := slurmTime(roundTime(seconds)); got != want {
			t.Errorf("%g s: %s, want %s", seconds, got, want)
		}
	}
}

// TestFormats: every format of a hostile and of an empty accounting is well-formed.
func TestFormats(t *testing.T) {
	hostile := completed(5, func(j *slurm.Job) {
		j.Name, j.User = "=cmd|'x'\x1b[31m<script>"+strings.Repeat("long", 30), "\u202eeve"
		j.AllocTRES["gres/gpu:<b>"] = 1
	})
	for name, jobs := range map[string][]slurm.Job{"hostile": hostile, "empty": nil, "waiting": {{ID: "1", State: "PENDING"}}} {
		r := NewSizing(jobs, SizingOptions{})
		var v struct{ Schema int }
		if err := json.Unmarshal([]byte(rendered(t, r, "json")), &v); err != nil || v.Schema != schema {
			t.Errorf("%s: %v", name, err)
		}
		rows, err := csv.NewReader(strings.NewReader(rendered(t, r, "csv"))).ReadAll()
		if err != nil || len(rows) != len(r.Groups)+1 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
		text := rendered(t, r, "text")
		for _, line := range strings.Split(text, "\n") {
			if twwidth.Width(line) > 96 {
				t.Errorf("%s: %d columns: %s", name, twwidth.Width(line), line)
			}
		}
		for _, format := range []string{"text", "markdown", "html"} {
			if out := rendered(t, r, format); strings.ContainsAny(out, "\x1b\u202e") || strings.Contains(out, "NaN") || format == "html" && strings.Contains(out, "<script>l") {
				t.Errorf("%s as %s: %.300q", name, format, out)
			}
		}
	}
}
