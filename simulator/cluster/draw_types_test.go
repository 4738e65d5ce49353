package cluster_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

func unknownJob(id, gpus int, seconds float64) workload.Job {
	return workload.Job{ID: id, GPUs: gpus, Seconds: seconds, Steps: math.NaN(), Weight: 1, SLO: math.NaN(), Deadline: math.NaN()}
}

func TestTypesAreDrawn(t *testing.T) {
	known := unknownJob(0, 1, 3600)
	known.Type = "ResNet-18 (batch size 64)"
	jobs := []workload.Job{known}
	for i := range 60 {
		jobs = append(jobs, unknownJob(i+1, []int{1, 2, 3, 8, 64}[i%5], 1000+float64(i)))
	}
	before := slices.Clone(jobs)
	table := workload.GavelTable()
	out, note, err := cluster.DrawTypes(jobs, table, "v100", 7)
	if err != nil {
		t.Fatal(err)
	}
	if jobs[1].Type != before[1].Type || jobs[3].GPUs != 3 {
		t.Error("the list that was passed in has changed")
	}
	if out[0].Type != known.Type || out[0].Seconds != 3600 {
		t.Errorf("a job that the table has became %+v", out[0])
	}
	types := map[string]bool{}
	for i, j := range out[1:] {
		if want := []int{1, 2, 4, 8, 8}[i%5]; j.GPUs != want {
			t.Errorf("job %d has %d devices, want %d", j.ID, j.GPUs, want)
		}
		if got := j.Steps / table.Alone("v100", j.Type, j.GPUs); math.Abs(got-before[i+1].Seconds) > 1e-6 || j.Seconds != before[i+1].Seconds {
			t.Errorf("job %d takes %v s, want %v", j.ID, got, before[i+1].Seconds)
		}
		types[j.Type] = true
	}
	if len(types) < 10 {
		t.Errorf("%d types among 60 jobs", len(types))
	}
	for _, part := range []string{"60 of 61", "seed 7", "24 of them"} {
		if !strings.Contains(note, part) {
			t.Errorf("note %q has no %q", note, part)
		}
	}
	again, _, _ := cluster.DrawTypes(jobs, table, "v100", 7)
	other, _, _ := cluster.DrawTypes(jobs, table, "v100", 8)
	same := func(a, b []workload.Job) bool {
		return slices.EqualFunc(a, b, func(x, y workload.Job) bool { return x.Type == y.Type })
	}
	if !same(out, again) || same(out, other) {
		t.Error("types do not depend on the seed alone")
	}
	run(t, cluster.Config{Devices: devicesOf(t, "8:8:8"), Jobs: out, Policy: "fifo_perf"})
}

func TestTypesThatCannotBeDrawn(t *testing.T) {
	if _, _, err := cluster.DrawTypes([]workload.Job{unknownJob(3, 1, math.NaN())}, workload.GavelTable(), "v100", 0); err == nil || !strings.Contains(err.Error(), "job 3") {
		t.Errorf("a job without duration: %v", err)
	}
	if _, _, err := cluster.DrawTypes(nil, workload.GavelTable(), "tpu", 0); err == nil {
		t.Error("a device that the table does not have: no error")
	}
}

// Real traces without Gavel's job types can be simulated.
func TestTracesWithDrawnTypesRun(t *testing.T) {
	var files []string
	for _, pattern := range []string{"gavel/traces/msr/seed0/103959.trace.gz", "philly/philly.csv.gz", "philly-slo/*SLO.csv.gz", "elasticflow/philly_*.csv.gz"} {
		found, _ := filepath.Glob("../../../shared/data/" + pattern)
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skip("the traces are not here")
	}
	for _, file := range files {
		tr, err := workload.LoadTrace(file, "")
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		jobs, note, err := cluster.DrawTypes(tr.Jobs[:min(200, len(tr.Jobs))], workload.GavelTable(), "v100", 0)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		r := run(t, cluster.Config{Devices: devicesOf(t, "36:36:36"), Jobs: jobs, Policy: "fifo_perf"})
		if len(r.Jobs) != len(jobs) || !(r.MeanJCTS > 0) {
			t.Errorf("%s: %d of %d jobs ended", filepath.Base(file), len(r.Jobs), len(jobs))
		}
		t.Logf("%s, %s: %s; mean time to completion %.2f h", filepath.Base(file), tr.Format, note, float64(r.MeanJCTS)/3600)
	}
}

// The jobs that fill each type arrive at time 0, and the others at the arrivals drawn first, as in Gavel.
func TestFilled(t *testing.T) {
	o := &workload.Options{Lambda: workload.PerHour(4), SLOs: true, MultiGPU: true}
	c := cluster.Config{Devices: devicesOf(t, "10:6:4"), Policy: "fifo_perf", Generate: o, Total: 60, Filled: true}
	plain := c
	plain.Filled = false
	g, err := workload.NewGenerator(*o, workload.GavelTable())
	if err != nil {
		t.Fatal(err)
	}
	want := g.Take(60)
	first := 0
	for _, devices := range []int{4, 6, 10} {
		for left := devices; left > 0; first++ {
			left -= want[first].GPUs
		}
	}
	full := run(t, c)
	for _, j := range full.Jobs {
		at := 0.0
		if j.ID >= first {
			at = want[j.ID-first].Arrival
		}
		if math.Abs(float64(j.ArrivalS)-at) > 1e-6 {
			t.Errorf("job %d of %d that fill the cluster came at %v, want %v", j.ID, first, j.ArrivalS, at)
		}
	}
	if a, b := run(t, plain), full; a.MakespanS <= b.MakespanS {
		t.Errorf("the cluster that begins full ends after %v s, the empty one after %v s", b.MakespanS, a.MakespanS)
	}
	for name, bad := range map[string]cluster.Config{
		"static": {Devices: c.Devices, Policy: c.Policy, Generate: &workload.Options{}, Total: 3, Filled: true},
		"a list": {Devices: c.Devices, Policy: c.Policy, Jobs: want, Filled: true},
	} {
		if bad.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
