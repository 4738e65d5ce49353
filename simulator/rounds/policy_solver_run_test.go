package rounds_test

import (
	"testing"

	"trainopt/simulator/rounds"
	"trainopt/simulator/workload"
)

// Mean times to completion are within 2 % of those of the original, whose solver ends at other points of equal value.
func TestMeanTimesAreThoseOfTheOriginal(t *testing.T) {
	static := workload.Options{}
	four := workload.Options{Lambda: workload.PerHour(4)}
	half := workload.Options{Lambda: workload.PerHour(0.5)}
	multi := workload.Options{Lambda: workload.PerHour(2), MultiGPU: true}
	window := func(start, end int) rounds.Window { return rounds.Window{Start: start, End: end} }
	for name, c := range map[string]struct {
		policy, cluster string
		jobs            workload.Options
		total           int
		window          rounds.Window
		hours           float64
	}{
		"static":                    {"max_min_fairness", "36:36:36", static, 100, rounds.Window{}, 20.786},
		"static, perf":              {"max_min_fairness_perf", "36:36:36", static, 100, rounds.Window{}, 16.014},
		"static, finish times":      {"finish_time_fairness_perf", "36:36:36", static, 100, rounds.Window{}, 16.046},
		"static, water filling":     {"max_min_fairness_water_filling_perf", "36:36:36", static, 100, rounds.Window{}, 16.036},
		"static, sum":               {"max_sum_throughput_perf", "36:36:36", static, 100, rounds.Window{}, 16.080},
		"4 an hour":                 {"max_min_fairness", "36:36:36", four, 0, window(400, 500), 18.312},
		"4 an hour, perf":           {"max_min_fairness_perf", "36:36:36", four, 0, window(400, 500), 12.583},
		"small cluster, perf":       {"max_min_fairness_perf", "4:4:4", half, 0, window(100, 200), 15.365},
		"small cluster, packed":     {"max_min_fairness_packed", "4:4:4", half, 0, window(100, 200), 14.955},
		"small cluster, finish":     {"finish_time_fairness_perf", "4:4:4", half, 0, window(100, 200), 15.660},
		"multi-GPU, 2 an hour":      {"max_min_fairness", "36:36:36", multi, 0, window(400, 500), 23.713},
		"multi-GPU, finish, 2 an h": {"finish_time_fairness_perf", "36:36:36", multi, 0, window(400, 500), 17.481},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, rounds.Config{
				Devices: cluster(t, c.cluster), Policy: c.policy, Generate: &c.jobs, Total: c.total, Window: c.window, Compat: true,
			})
			near(t, "mean time to completion, h", float64(r.MeanJCTS)/3600, c.hours, 0.02*c.hours)
		})
	}
}
