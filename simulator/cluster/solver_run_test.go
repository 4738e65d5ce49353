package cluster_test

import (
	"fmt"
	"testing"

	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// Mean completion times equal those of the original. Where a policy's program is linear, our solution is that of its
// solver and the times usually agree to the printed digits, or to half a percent where rounding resolves ties between
// jobs. Finish-time, water-filling and sum policies have other optimal solutions and agree within 2 %.
func TestMeanTimesAreThoseOfTheOriginal(t *testing.T) {
	static := workload.Options{}
	four := workload.Options{Lambda: workload.PerHour(4)}
	half := workload.Options{Lambda: workload.PerHour(0.5)}
	multi := workload.Options{Lambda: workload.PerHour(2), MultiGPU: true}
	window := func(start, end int) cluster.Window { return cluster.Window{Start: start, End: end} }
	for name, c := range map[string]struct {
		policy, cluster string
		jobs            workload.Options
		total           int
		window          cluster.Window
		hours           float64
		slack           float64
	}{
		"static":                     {"max_min_fairness", "36:36:36", static, 100, cluster.Window{}, 20.786, 1e-3},
		"static, perf":               {"max_min_fairness_perf", "36:36:36", static, 100, cluster.Window{}, 16.014, 1e-3},
		"static, finish times":       {"finish_time_fairness_perf", "36:36:36", static, 100, cluster.Window{}, 16.046, 0.02},
		"static, water filling":      {"max_min_fairness_water_filling_perf", "36:36:36", static, 100, cluster.Window{}, 16.036, 0.02},
		"static, sum":                {"max_sum_throughput_perf", "36:36:36", static, 100, cluster.Window{}, 16.080, 0.02},
		"4 an hour":                  {"max_min_fairness", "36:36:36", four, 0, window(400, 500), 18.312, 1e-3},
		"4 an hour, perf":            {"max_min_fairness_perf", "36:36:36", four, 0, window(400, 500), 12.583, 1e-3},
		"small cluster, perf":        {"max_min_fairness_perf", "4:4:4", half, 0, window(100, 200), 15.365, 1e-3},
		"small cluster, packed":      {"max_min_fairness_packed", "4:4:4", half, 0, window(100, 200), 14.955, 1e-3},
		"small cluster, finish":      {"finish_time_fairness_perf", "4:4:4", half, 0, window(100, 200), 15.660, 0.02},
		"multi-GPU, 2 an hour":       {"max_min_fairness", "36:36:36", multi, 0, window(400, 500), 23.713, 5e-3},
		"multi-GPU, perf, 2 an hour": {"max_min_fairness_perf", "36:36:36", multi, 0, window(400, 500), 17.252, 1e-3},
		"makespan, static":           {"min_total_duration_perf", "36:36:36", static, 100, cluster.Window{}, 16.993, 5e-5},
		"multi-GPU, finish, 2 an h":  {"finish_time_fairness_perf", "36:36:36", multi, 0, window(400, 500), 17.481, 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, cluster.Config{
				Devices: devicesOf(t, c.cluster), Policy: c.policy, Generate: &c.jobs, Total: c.total, Window: c.window, Compat: true,
			})
			near(t, "mean time to completion, h", float64(r.MeanJCTS)/3600, c.hours, c.slack*c.hours)
		})
	}
}

// The traces of Gavel's physical cluster under the makespan and the fairness policy.
func TestTracesEndAsInTheOriginal(t *testing.T) {
	for name, c := range map[string]struct {
		policy, trace   string
		hours, makespan float64 // 0: unknown
	}{
		"makespan":             {"min_total_duration_perf", "minimize_makespan.trace", 17.72, 17.98},
		"makespan, continuous": {"min_total_duration_perf", "max_min_fairness.trace", 6.38, 0},
		"fairness":             {"max_min_fairness_perf", "minimize_makespan.trace", 9.91, 19.03},
		"fairness, continuous": {"max_min_fairness_perf", "max_min_fairness.trace", 4.06, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, cluster.Config{Devices: devicesOf(t, "8:16:24"), Policy: c.policy, Jobs: trace(t, c.trace), Compat: true})
			near(t, "mean time to completion, h", float64(r.MeanJCTS)/3600, c.hours, 1e-3*c.hours+0.005)
			if c.makespan > 0 {
				near(t, "makespan, h", float64(r.MakespanS)/3600, c.makespan, 2e-3*c.makespan)
			}
		})
	}
}

// Deadlines count from the end of the round in which a job arrived: completion times of Gavel (commit c4fa4009, ECOS 2.0.14).
func TestDeadlinesCountFromTheRoundAsInGavel(t *testing.T) {
	r := run(t, cluster.Config{
		Devices: devicesOf(t, "5:2:7"), Policy: "max_sum_throughput_normalized_by_cost_perf_SLOs", Compat: true, GlobalQueue: true, Interval: 600,
		Seed: 859, Generate: &workload.Options{Seed: 859, Lambda: workload.PerHour(1.191), SLOs: true}, Window: cluster.Window{Start: 15, End: 22},
	})
	want := map[int]float64{15: 6370.987984, 16: 18406.645854, 17: 39505.940125, 18: 4862.147860, 19: 58665.326413, 20: 18406.171367, 21: 42859.436416}
	for _, j := range r.Jobs {
		near(t, fmt.Sprintf("time of job %d, s", j.ID), float64(j.JCTS), want[j.ID], 1e-3)
	}
}

// Jobs after those that fill the cluster have the arrivals drawn first: completion times of Gavel (commit c4fa4009).
func TestFilledClusterAsInGavel(t *testing.T) {
	r := run(t, cluster.Config{
		Devices: devicesOf(t, "1:1:1"), Policy: "fifo_perf", Compat: true, Seed: 63, Filled: true, Window: cluster.Window{Start: 3, End: 7},
		Generate: &workload.Options{Seed: 63, Lambda: workload.PerHour(0.284), Seconds: 100000},
	})
	want := map[int]float64{3: 236946.882409, 4: 262044.611430, 5: 311693.053093, 6: 354937.573776}
	for _, j := range r.Jobs {
		near(t, fmt.Sprintf("time of job %d, s", j.ID), float64(j.JCTS), want[j.ID], 1e-3)
	}
}
