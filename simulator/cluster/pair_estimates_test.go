package cluster_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// estimating simulates a small cluster with arrivals, as in Gavel's evaluation of its estimator (figure 14).
func estimating(t *testing.T, policy string, seed int64, compat bool, p cluster.Profiling) *cluster.Result {
	t.Helper()
	return run(t, cluster.Config{
		Devices: devicesOf(t, "4:4:4"), Policy: policy, Seed: seed, Compat: compat, Profiling: p, Window: cluster.Window{Start: 20, End: 40},
		Generate: &workload.Options{Seed: seed, Lambda: workload.PerHour(0.6)},
	})
}

// bytesOf returns the encoded result of a few jobs that share one device of each type.
func bytesOf(t *testing.T, compat bool, p cluster.Profiling) string {
	t.Helper()
	out, err := json.Marshal(run(t, cluster.Config{
		Devices: devicesOf(t, "1:1:1"), Policy: "max_min_fairness_packed", Compat: compat, Profiling: p, Total: 8, Generate: &workload.Options{},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// In the mean over seeds, a packing policy with estimated rates is worse than one with known rates and better than
// one without packing. With -long (see long) also under the mechanism of Gavel.
func TestEstimatesCostLessThanPackingGains(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, compat := range []bool{false, true} {
		if compat && !*long {
			continue
		}
		var alone, known, guessed float64
		for seed := range int64(2) {
			alone += float64(estimating(t, "max_min_fairness_perf", seed, compat, cluster.Profiling{}).MeanJCTS) / 2 / 3600
			known += float64(estimating(t, "max_min_fairness_packed", seed, compat, cluster.Profiling{}).MeanJCTS) / 2 / 3600
			guessed += float64(estimating(t, "max_min_fairness_packed", seed, compat, cluster.Profiling{Share: 0.2, References: 16}).MeanJCTS) / 2 / 3600
		}
		t.Logf("compat %v: mean JCT %.2f h without packing, %.2f h with estimates, %.2f h with the truth", compat, alone, guessed, known)
		if !(known <= guessed && guessed < alone) {
			t.Errorf("compat %v: mean JCT %v h with the truth, %v h with estimates, %v h without packing", compat, known, guessed, alone)
		}
	}
}

func TestEstimatesAreTheSameAgainAndTheTruthWhenAllIsMeasured(t *testing.T) {
	for _, compat := range []bool{false, true} {
		known := bytesOf(t, compat, cluster.Profiling{})
		for _, p := range []cluster.Profiling{{Share: 1}, {References: 26}, {Share: 1, References: 26}} {
			if got := bytesOf(t, compat, p); got != known {
				t.Errorf("compat %v, %+v: another result than with all known", compat, p)
			}
		}
		p := cluster.Profiling{Share: 0.1, References: 8}
		once, again := bytesOf(t, compat, p), bytesOf(t, compat, p)
		if once != again {
			t.Errorf("compat %v: the same seed gives another result", compat)
		}
		if once == known {
			t.Errorf("compat %v: estimates change nothing", compat)
		}
	}
}

// pairing co-locates the first two jobs if their estimated rates are positive, and otherwise assigns everything to
// the first.
type pairing struct{ asked, believed int }

func (p *pairing) Traits() schedule.Traits {
	return schedule.Traits{Name: "pairing", Packs: true, FixedOrder: true}
}

func (p *pairing) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	e := schedule.Entry{A: 0, B: -1, X: []float64{1}}
	if len(s.Jobs) > 1 {
		p.asked++
		a, b := s.Pair(1, 0, 0)
		if x, y := s.Pair(0, 1, 0); x != b || y != a {
			panic("a pair has other rates the other way round")
		} else if x > 0 && y > 0 {
			p.believed++
			e.B = 1
		}
	}
	return schedule.Allocation{Entries: []schedule.Entry{e}}, nil
}

// Pairs that do not fit are co-located once because of their estimates, make no progress, and are not tried again.
func TestPairsThatDoNotFit(t *testing.T) {
	small, large := "small", "large"
	table, err := workload.NewThroughputs([]workload.Rate{
		{Device: "v100", Job: small, GPUs: 1, PerSecond: 1},
		{Device: "v100", Job: large, GPUs: 1, PerSecond: 1},
		{Device: "v100", Job: small, GPUs: 1, Other: small, PerSecond: 0.8, OtherRate: 0.8},
		{Device: "v100", Job: large, GPUs: 1, Other: large},
		{Device: "v100", Job: large, GPUs: 1, Other: small},
	})
	if err != nil {
		t.Fatal(err)
	}
	job := func(id int) workload.Job {
		return workload.Job{ID: id, Type: large, GPUs: 1, Steps: 1000, Seconds: 1000, Weight: 1, SLO: math.NaN(), Deadline: math.NaN()}
	}
	for _, compat := range []bool{false, true} {
		tried := 0
		for seed := range int64(8) { // half of the seeds draw the small job as the only reference
			p := &pairing{}
			got := run(t, cluster.Config{
				Devices: []schedule.DeviceType{{Name: "v100", Count: 1, PerServer: 1}}, Jobs: []workload.Job{job(0), job(1)}, Custom: p, Policy: "pairing",
				Throughputs: table, Seed: seed, Compat: compat, Profiling: cluster.Profiling{Share: 1e-9, References: 1}, MinRecompute: -1,
			})
			if p.believed > 1 {
				t.Errorf("compat %v, seed %d: believed %d times", compat, seed, p.believed)
			}
			if tried += p.believed; !(got.MakespanS >= 2000 && got.MakespanS <= 2000+360*2) {
				t.Errorf("compat %v, seed %d: makespan %v s", compat, seed, got.MakespanS)
			}
		}
		if tried == 0 {
			t.Errorf("compat %v: the pair was never believed to fit", compat)
		}
	}
}

func TestProfilingRefusals(t *testing.T) {
	good := cluster.Config{
		Devices: devicesOf(t, "4:4:4"), Policy: "fifo_packed", Window: cluster.Window{End: 1},
		Generate: &workload.Options{Lambda: workload.PerHour(1)}, Profiling: cluster.Profiling{Share: 0.5},
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*cluster.Config){
		"a share of -1 ":      func(c *cluster.Config) { c.Profiling.Share = -1 },
		"40 reference models": func(c *cluster.Config) { c.Profiling.References = 40 },
		"without rounds":      func(c *cluster.Config) { c.Ideal = true },
		"only jobs on one device each can be profiled": func(c *cluster.Config) { c.Generate = &workload.Options{MultiGPU: true} },
		"job 7 asks for 2 devices": func(c *cluster.Config) {
			c.Generate, c.Window = nil, cluster.Window{}
			c.Jobs = []workload.Job{{ID: 7, Type: "ResNet-18 (batch size 64)", GPUs: 2, Steps: 1}}
		},
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
