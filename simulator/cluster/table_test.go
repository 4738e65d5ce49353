package cluster_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// row is a run with the mean completion time or makespan of the original, to two or three decimals.
type row struct {
	cluster       string
	jobs          string // a trace, or "single" or "multi"
	rate          float64
	start, end    int
	policy        string
	jct, makespan float64 // hours; 0: not given
	cost          float64 // USD; 0: not given
}

var table = []row{
	{"36:36:36", "single", 4, 400, 500, "fifo", 13.432, 0, 0},
	{"36:36:36", "single", 4, 400, 500, "fifo_perf", 12.276, 0, 0},
	{"36:36:36", "single", 4, 400, 500, "isolated", 18.308, 0, 0},
	{"36:36:36", "single", 4, 400, 500, "allox", 12.402, 0, 0},
	{"36:36:36", "single", 4, 4000, 5000, "fifo", 26.272, 0, 0},
	{"36:36:36", "single", 4, 4000, 5000, "fifo_perf", 17.331, 0, 0},
	{"36:36:36", "single", 4, 4000, 5000, "isolated", 23.756, 0, 0},
	{"36:36:36", "single", 4, 4000, 5000, "allox", 18.017, 0, 0},
	{"36:36:36", "multi", 2, 400, 500, "fifo_perf", 15.724, 0, 0},
	{"36:36:36", "multi", 2, 400, 500, "isolated", 23.828, 0, 0},
	{"36:36:36", "multi", 2, 4000, 5000, "fifo_perf", 22.121, 0, 0},
	{"4:4:4", "single", 0.5, 100, 200, "fifo_packed", 15.283, 0, 0},
	{"4:4:4", "single", 0.5, 100, 200, "isolated", 21.221, 0, 0},
	{"4:4:4", "single", 0.5, 100, 200, "gandiva", 17.242, 0, 0},
	{"4:4:4", "single", 0.5, 100, 200, "allox", 15.759, 0, 0},
	{"36:36:36", "single", 0, 0, 100, "fifo", 31.161, 702.99, 0},
	{"36:36:36", "single", 0, 0, 100, "fifo_perf", 14.282, 123.86, 0},
	{"36:36:36", "single", 0, 0, 100, "isolated", 20.782, 206.87, 0},
	{"36:36:36", "single", 0, 0, 100, "gandiva", 16.660, 138.62, 0},
	{"36:36:36", "single", 0, 0, 100, "allox", 16.254, 137.40, 0},
	{"36:36:36", "multi", 0, 0, 100, "fifo", 0, 660.82, 0},
	{"36:36:36", "multi", 0, 0, 100, "fifo_perf", 0, 180.36, 0},
	{"36:36:36", "multi", 0, 0, 100, "isolated", 0, 287.40, 0},
	{"36:36:36", "multi", 0, 0, 100, "gandiva", 0, 168.90, 0},
	{"8:16:24", "minimize_makespan.trace", 0, 0, 0, "fifo", 58.76, 76.17, 0},
	{"8:16:24", "minimize_makespan.trace", 0, 0, 0, "fifo_perf", 11.18, 25.19, 0},
	{"8:16:24", "minimize_makespan.trace", 0, 0, 0, "isolated", 10.44, 23.04, 0},
	{"8:16:24", "minimize_makespan.trace", 0, 0, 0, "gandiva", 9.74, 21.11, 0},
	{"8:16:24", "max_min_fairness.trace", 0, 0, 0, "fifo", 9.97, 0, 0},
	{"8:16:24", "max_min_fairness.trace", 0, 0, 0, "fifo_perf", 5.42, 0, 0},
	{"8:16:24", "max_min_fairness.trace", 0, 0, 0, "isolated", 5.52, 0, 0},
	{"8:16:24", "max_min_fairness.trace", 0, 0, 0, "gandiva", 4.83, 0, 0},
	{"2:0:4", "artifact_evaluation.trace", 0, 0, 0, "fifo", 0, 3.28, 0},
	{"2:0:4", "artifact_evaluation.trace", 0, 0, 0, "fifo_perf", 0, 3.61, 0},
	{"2:0:4", "artifact_evaluation.trace", 0, 0, 0, "isolated", 0, 2.96, 0},
	{"16:16:16", "single", 0, 0, 100, "fifo_perf", 0, 0, 890},
	{"16:16:16", "single", 0, 0, 100, "isolated", 0, 0, 898},
}

func (r row) String() string {
	return fmt.Sprintf("%s %s %v per h %d-%d %s", r.cluster, r.jobs, r.rate, r.start, r.end, r.policy)
}

func TestTheRunsOfTheOriginal(t *testing.T) {
	for _, r := range table {
		t.Run(r.String(), func(t *testing.T) {
			if testing.Short() && r.end == 5000 {
				t.Skip("takes up to a second")
			}
			c := cluster.Config{Devices: devicesOf(t, r.cluster), Policy: r.policy, Compat: true, Window: cluster.Window{Start: r.start, End: r.end}}
			switch r.jobs {
			case "single", "multi":
				c.Generate = &workload.Options{MultiGPU: r.jobs == "multi"}
				if r.rate > 0 {
					c.Generate.Lambda = workload.PerHour(r.rate)
				} else {
					c.Window, c.Total = cluster.Window{}, r.end
				}
			default:
				c.Jobs = trace(t, r.jobs)
			}
			began := time.Now()
			got := run(t, c)
			t.Logf("mean JCT %.3f h, makespan %.2f h, utilization %.6f, %.0f USD, %d decisions, %d events, %.2f s", got.MeanJCTS/3600, got.MakespanS/3600, got.Utilization, got.CostUSD, got.Allocations, got.Events, time.Since(began).Seconds())
			printed(t, "mean JCT, h", float64(got.MeanJCTS)/3600, r.jct)
			printed(t, "makespan, h", float64(got.MakespanS)/3600, r.makespan)
			printed(t, "cost, USD", float64(got.CostUSD), r.cost)
		})
	}
}

// printed compares with a value that was printed with two or three decimals, or none for large values.
func printed(t *testing.T, what string, got, want float64) {
	t.Helper()
	if want == 0 {
		return
	}
	unit := 0.5
	for _, digits := range []float64{1, 100, 1000} {
		if scaled := want * digits; math.Abs(scaled-math.Round(scaled)) < 1e-6 {
			unit = 0.5 / digits
			break
		}
	}
	if !(math.Abs(got-want) <= unit*1.0001) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The sample runs of Gavel's EXPERIMENTS.md, to the printed digit: AlloX, jobs 4000 to 5000.
func TestSampleRunsOfExperiments(t *testing.T) {
	for _, r := range []struct {
		rate             float64
		seed             int64
		jct, utilization float64
	}{
		{0.8, 42, 59770.441018, 0.121262},
		{0.8, 1234, 64695.450528, 0.123312},
		{0.8, 15, 55072.401336, 0.121365},
		{0.4, 42, 59492.106756, 0.060797},
		{0.4, 1234, 64494.582453, 0.061878},
		{0.4, 15, 54834.129989, 0.060839},
	} {
		t.Run(fmt.Sprintf("%v per h, seed %d", r.rate, r.seed), func(t *testing.T) {
			if !*long && r.seed != 42 {
				t.Skip("other seeds with -long, see long")
			}
			got := run(t, cluster.Config{
				Devices: devicesOf(t, "36:36:36"), Policy: "allox", Seed: r.seed, Compat: true, Window: cluster.Window{Start: 4000, End: 5000},
				Generate: &workload.Options{Seed: r.seed, Lambda: workload.PerHour(r.rate)},
			})
			near(t, "mean JCT, s", float64(got.MeanJCTS), r.jct, 5e-7)
			near(t, "utilization", float64(got.Utilization), r.utilization, 5e-7)
		})
	}
}
