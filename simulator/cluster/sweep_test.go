package cluster

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// gavelDevices returns the given numbers of K80, P100 and V100, each in a server of its own, at the prices of Gavel's
// simulator. Types with a count of 0 are omitted.
func gavelDevices(k80, p100, v100 int) []schedule.DeviceType {
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

// atLoads returns a small sweep over arrival rates.
func atLoads(workers int, perHour ...float64) *Sweep {
	s := &Sweep{Title: "small", XName: "jobs/h", Policies: []string{"fifo_perf", "gandiva"}, Seeds: []uint64{0, 1}, Fairness: true, Workers: workers}
	for _, x := range perHour {
		s.Scenarios = append(s.Scenarios, Scenario{Name: short(x) + " jobs/h", X: x, Config: Config{Devices: gavelDevices(2, 0, 2),
			Generate: &workload.Options{Lambda: workload.PerHour(x)}, Window: Window{Start: 5, End: 25}}})
	}
	return s
}

func outcome(t *testing.T, s *Sweep) *Outcome {
	t.Helper()
	o, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// written returns an outcome in all output formats.
func written(t *testing.T, o *Outcome) string {
	t.Helper()
	var b bytes.Buffer
	for _, format := range []string{"csv", "html", "json", "text"} {
		if err := o.Comparison.Render(&b, format); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.WriteJobs(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The outcome of one or several scenarios does not depend on the number of workers.
func TestSameBytesWithAnyWorkers(t *testing.T) {
	for name, loads := range map[string][]float64{"one load": {0.3}, "three loads": {0.1, 0.3, 0.5}} {
		one := written(t, outcome(t, atLoads(1, loads...)))
		if many := written(t, outcome(t, atLoads(5, loads...))); one != many {
			t.Errorf("%s: other bytes with more workers", name)
		}
		if !strings.Contains(one, "Utilization over time") || !strings.Contains(one, "Finish-time fairness") {
			t.Errorf("%s: charts are missing", name)
		}
	}
}

// A run that reached its limit counts as unknown, and higher loads are skipped.
func TestStoppedRunsHaveNoFigures(t *testing.T) {
	s := atLoads(2, 0.1, 0.3, 0.5)
	s.Scenarios[1].Config.Limit = 10
	o := outcome(t, s)
	for k, want := range []string{"", "stopped at the limit of simulated time", "not run: stopped at 0.3 jobs/h"} {
		if got := o.Cells[1][k][0].Reason; got != want {
			t.Errorf("load %d: %q, want %q", k, got, want)
		}
		mean := o.Mean(1, k, func(r *Result) float64 { return float64(r.MeanJCTS) })
		if math.IsNaN(mean) != (want != "") {
			t.Errorf("load %d: mean %v", k, mean)
		}
		if r, ok := o.At(k).Row("gandiva", "mean_jct_s"); want != "" && ok && r.N != 0 {
			t.Errorf("load %d: %d runs in the mean, want none", k, r.N)
		}
	}
	if lines := o.At(1).Charts[len(o.At(1).Charts)-1].Series; len(lines) != 0 {
		t.Errorf("%d lines of utilization of runs that were stopped", len(lines))
	}
	if notes := strings.Join(o.Comparison.Notes, "\n"); !strings.Contains(notes, "gandiva, from 0.3 jobs/h, seed 0: stopped at the limit") {
		t.Errorf("notes do not say where lines end: %s", notes)
	}
}

// The error is that of the first failed policy; the others have figures.
func TestFailureKeepsTheRest(t *testing.T) {
	s := atLoads(3, 0.2)
	s.Policies = []string{"nobody", "fifo"}
	o, err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "policy nobody") || !strings.Contains(err.Error(), "seed 0") {
		t.Errorf("the error is %v", err)
	}
	if r, ok := o.Comparison.Row("fifo", "mean_jct_s"); !ok || r.N != 2 {
		t.Errorf("the other policy has %+v", r)
	}
}

func TestTimeout(t *testing.T) {
	s := atLoads(1, 0.2)
	s.Timeout = time.Nanosecond
	if got := outcome(t, s).Cells[0][0][0].Reason; got != "stopped after 1ns of real time" {
		t.Errorf("%q", got)
	}
}

// Each job of each run is a line with its fairness, which is 1 under isolated.
func TestJobs(t *testing.T) {
	s := atLoads(2, 0.2)
	s.Policies = []string{"isolated", "fifo"}
	var b bytes.Buffer
	if err := outcome(t, s).WriteJobs(&b); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(lines) != 1+2*2*20 {
		t.Fatalf("%d lines, want 81: %v", len(lines), err)
	}
	if first := lines[1]; first[1] != "isolated" || first[3] != "1" || first[4] != "5" {
		t.Errorf("%v", first)
	}
}

func TestFits(t *testing.T) {
	multi := &workload.Options{MultiGPU: true}
	for name, c := range map[string]struct {
		Config
		want string
	}{
		"one device each":           {Config{Devices: gavelDevices(1, 0, 0), Generate: &workload.Options{}}, ""},
		"drawn without end":         {Config{Devices: gavelDevices(4, 6, 0), Generate: multi}, "at most 6 (p100)"},
		"as large as any":           {Config{Devices: gavelDevices(0, 0, 8), Generate: multi}, ""},
		"a list with one too large": {Config{Devices: gavelDevices(2, 2, 2), Jobs: []workload.Job{{ID: 3, GPUs: 2}, {ID: 7, GPUs: 4}}}, "job 7 asks for 4"},
		"drawn up to a total":       {Config{Devices: gavelDevices(2, 0, 0), Generate: multi, Total: 500}, "asks for"},
	} {
		err := c.Config.CheckSizes()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// With several loads, charts contain a line for each policy with a point for each load.
func TestLoadCharts(t *testing.T) {
	o := outcome(t, atLoads(2, 0.1, 0.3))
	chart := o.Comparison.Charts[0]
	if len(chart.Series) != 2 || len(chart.Series[0].Points) != 2 || chart.Series[1].Name != "gandiva" {
		t.Fatalf("%+v", chart.Series)
	}
	r, _ := o.At(1).Row("gandiva", "mean_jct_s")
	if got := chart.Series[1].Points[1]; got.X != 0.3 || math.Abs(got.Y*3600-float64(r.Mean)) > 1e-6 {
		t.Errorf("the point is %v, the mean %v s", got, r.Mean)
	}
}
