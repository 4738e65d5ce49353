package cluster

import (
	"bytes"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/workload"
)

var update = flag.Bool("update", false, "write the golden file")

func simulated(t *testing.T, policy string) *RunView {
	t.Helper()
	r, err := Run(t.Context(), Config{Devices: devices(2, 2, 2), Policy: policy, Total: 20,
		Generate: &workload.Options{Lambda: workload.PerHour(2), SLOs: true}, Preemption: schedule.Preemption{Seconds: 30}})
	if err != nil {
		t.Fatal(err)
	}
	return &RunView{Result: r, What: "20 jobs, 2 an hour", Interval: 360, Notes: []string{"prices are those of an example"}}
}

func writtenRun(t *testing.T, r *RunView, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	const golden = "testdata/fifo_perf.txt"
	got := writtenRun(t, simulated(t, "fifo_perf"), "text")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("-want\n%s\n+got\n%s", want, got)
	}
}

// Two runs of the same simulation, including pairs, yield identical output in every format.
func TestSameBytes(t *testing.T) {
	for _, format := range RunFormats() {
		if a, b := writtenRun(t, simulated(t, "gandiva"), format), writtenRun(t, simulated(t, "gandiva"), format); a != b {
			t.Errorf("%s differs from run to run:\n%s\n%s", format, a, b)
		}
	}
	if err := simulated(t, "fifo").Write(&bytes.Buffer{}, "xml"); err == nil || !strings.Contains(err.Error(), "csv, html, json, text") {
		t.Errorf("an unknown format: %v", err)
	}
}

func TestPage(t *testing.T) {
	got := writtenRun(t, simulated(t, "fifo_perf"), "html")
	for _, want := range []string{"Completion times", "Utilization over time", "The slowest jobs", "k80", "prices are those of an example"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

// The time-weighted mean of the points of a line equals the utilization, for any number of steps.
func TestUtilizationLine(t *testing.T) {
	for name, used := range map[string][]page.Exact{
		"one part of a step": {5},
		"few steps":          {10, 0, 20, 20, 5},
		"more than points":   slices.Repeat([]page.Exact{4, 12, 20}, 150),
	} {
		end := 10*float64(len(used)) - 5
		sum, got := 0.0, 0.0
		for _, v := range used {
			sum += float64(v)
		}
		r := &Result{Cluster: map[string]int{"v100": 2, "k80": 2}, MakespanS: page.Exact(end),
			Timeline: &timeline{StepS: 10, UsedS: map[string][]page.Exact{"v100": used, "k80": make([]page.Exact, len(used))}}}
		l := utilizationLine("", r)
		from := 0.0
		for _, p := range l.Points {
			half := p.X*3600 - from
			got += p.Y * 4 * 2 * half
			from += 2 * half
		}
		if math.Abs(got-sum) > 1e-6*sum || math.Abs(from-end) > 1e-6*end || len(l.Points) > shownSteps {
			t.Errorf("%s: %d points over %v of %v s make %v device-seconds of %v", name, len(l.Points), from, end, got, sum)
		}
		if one := utilizationLine("", r, "v100"); math.Abs(one.Points[0].Y-2*l.Points[0].Y) > 1e-12 {
			t.Errorf("%s: %v of the only type in use, %v of both", name, one.Points[0].Y, l.Points[0].Y)
		}
	}
}

// All existing policies, and no others, are described completely.
func TestPoliciesAreDescribed(t *testing.T) {
	for _, n := range share.Names() {
		if d := described[n]; d.does == "" || d.needs == "" || d.from == "" {
			t.Errorf("policy %s: %+v, want what it does, must know, and is from", n, d)
		}
	}
	for n := range described {
		if _, ok := share.Policies[n]; !ok {
			t.Errorf("%s is described and is no policy", n)
		}
	}
	for _, line := range strings.Split(PolicyList().Text(), "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("wider than 100: %s", line)
		}
	}
}

// A run that ended early states the reason and the jobs that its figures cover.
func TestNotes(t *testing.T) {
	r := &RunView{Result: &Result{Stopped: "limit of 5 s", Warnings: []string{"1 job left out"}}, Notes: []string{"last"}}
	got := r.notes()
	if len(got) != 4 || got[0] != "ended early: limit of 5 s" || !strings.Contains(got[1], "jobs that ended before") || got[3] != "last" {
		t.Errorf("%q", got)
	}
	r.NotStable = &unstable{}
	if got := r.notes(); !strings.HasPrefix(got[0], "not stable") {
		t.Errorf("%q", got)
	}
}

// devices returns the given numbers of K80, P100 and V100, each in a server of its own, at the prices of Gavel's
// simulator. Types with a count of 0 are omitted.
func devices(k80, p100, v100 int) []schedule.DeviceType {
	var out []schedule.DeviceType
	for _, d := range []schedule.DeviceType{
		{Name: "k80", Count: k80, PerServer: 1, USDHour: 0.135, Watts: 300},
		{Name: "p100", Count: p100, PerServer: 1, USDHour: 0.43, Watts: 250},
		{Name: "v100", Count: v100, PerServer: 1, USDHour: 0.74, Watts: 300},
	} {
		if d.Count > 0 {
			out = append(out, d)
		}
	}
	return out
}
