package transfer_test

import (
	"fmt"
	"math"
	"testing"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// onT4 is a run on n T4, as the target of Infer.
func onT4(n int) (transfer.CarryTarget, []resources.Allocation) {
	var at []resources.Allocation
	for k := 1; k <= n; k *= 2 {
		at = append(at, resources.Allocation{GPUs: k, CPUs: 8})
	}
	return transfer.CarryTarget{Reference: at[len(at)-1], Config: func(a resources.Allocation) history.Config {
		c := history.Config{GPUs: float64(a.GPUs), Nodes: 1, CPUs: float64(a.CPUs), Batch: math.NaN(), MemoryGiB: math.NaN()}
		if a.GPUs > 0 {
			c.GPU = "T4"
		}
		return c
	}}, at
}

func perGPU(a resources.Allocation) float64 { return 32 * float64(max(1, a.GPUs)) }

// TestInferHoldsTheMeasurement requires that the published step times of ResNet-50 on 1 and 4 T4 are inside the prior
// of a script of that family, in a fit of the performance model, and that nothing of it counts as measured.
func TestInferHoldsTheMeasurement(t *testing.T) {
	job := history.NewEntry(history.Run, "").Job
	job.ScriptSHA256, job.Family, job.Dataset, job.Framework = "abc", "resnet", "imagenet", "pytorch"
	target, at := onT4(4)
	got := transfer.Infer(nil, job, at, target, perGPU)
	if len(got.Speed) != len(at) || got.Basis == "" || got.Startup != (sla.Interval{}) || got.Memory != (sla.Interval{}) {
		t.Fatalf("%+v", got)
	}
	m, err := perf.Fit(got.Speed, perf.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Measured()); n != 0 {
		t.Errorf("%d allocations count as measured", n)
	}
	for gpus, rate := range map[int]float64{1: 150, 4: 500} { // about those of Pollux's table at 32 samples per GPU
		if v := m.UnitSeconds(resources.Allocation{GPUs: gpus, CPUs: 8}); 1/rate < v.P5 || 1/rate > v.P95 || v.P95 > 100*v.P5 {
			t.Errorf("%d GPUs: %.3g s per sample outside of %+v", gpus, 1/rate, v)
		}
	}
}

func TestInferWithoutBasis(t *testing.T) {
	target, at := onT4(2)
	cpus := target
	cpus.Reference = resources.Allocation{CPUs: 8}
	for name, c := range map[string]struct {
		family string
		target transfer.CarryTarget
	}{"no family": {"", target}, "an unknown family": {"weirdnet", target}, "published on GPUs only": {"resnet", cpus}} {
		job := history.NewEntry(history.Run, "").Job
		job.ScriptSHA256, job.Family, job.Params = "abc", c.family, 6e7
		if got := transfer.Infer(nil, job, at, c.target, perGPU); len(got.Speed) > 0 || got.Basis != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestStartupsOfTheFramework requires that start-ups are predicted from runs with the same framework only, and that
// the interval holds nine of ten scripts drawn around them.
func TestStartupsOfTheFramework(t *testing.T) {
	var entries []history.Entry
	for i := range 12 {
		e := history.NewEntry(history.Run, fmt.Sprint("r", i))
		e.Job.Script, e.Job.ScriptSHA256, e.Job.Framework = fmt.Sprint(i, ".py"), fmt.Sprint(i), "pytorch"
		e.Observed.GPUs, e.Observed.CPUs = 0, 4
		e.Startup = 6 * math.Exp(0.6*math.Sin(float64(i)*2.4))
		e.Restart = 2 * e.Startup
		entries = append(entries, e)
	}
	target, _ := onT4(1)
	target.Reference = resources.Allocation{CPUs: 4}
	job := history.NewEntry(history.Run, "").Job
	job.ScriptSHA256, job.Framework = "new", "pytorch"
	got := transfer.Infer(entries, job, nil, target, perGPU)
	held := 0
	for _, e := range entries {
		if e.Startup >= got.Startup.P5 && e.Startup <= got.Startup.P95 {
			held++
		}
	}
	if off(got.Startup.P50, 6) > 0.4 || off(got.Restart.P50, 12) > 0.4 || held < 10 || width(got.Startup) > math.Log(40) {
		t.Errorf("start-up %+v, restart %+v, %d of %d inside", got.Startup, got.Restart, held, len(entries))
	}
	if one := transfer.Infer(entries[:1], job, nil, target, perGPU).Startup; width(one) <= width(got.Startup) {
		t.Errorf("one run: %+v, twelve: %+v", one, got.Startup)
	}
	job.Framework = "tensorflow"
	if got := transfer.Infer(entries, job, nil, target, perGPU); got.Startup != (sla.Interval{}) {
		t.Errorf("another framework: %+v", got.Startup)
	}
}
