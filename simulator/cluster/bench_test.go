package cluster_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

var start = time.Now()

func clock() time.Duration { return time.Since(start) }

func benchmark(b *testing.B, c cluster.Config) {
	b.Helper()
	c.Compat = true
	benchmarkRun(b, c)
}

func benchmarkRun(b *testing.B, c cluster.Config) {
	b.Helper()
	c.Clock = clock
	for b.Loop() {
		r, err := cluster.Run(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Events)/float64(r.WallS), "events/s")
		b.ReportMetric(float64(r.PolicyS), "policy-s")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<30), "GiB")
}

var simulated = []schedule.DeviceType{
	{Name: "k80", Count: 36, PerServer: 1, USDHour: 0.135},
	{Name: "p100", Count: 36, PerServer: 1, USDHour: 0.43},
	{Name: "v100", Count: 36, PerServer: 1, USDHour: 0.74},
}

func arriving(perHour float64) *workload.Options {
	return &workload.Options{Lambda: workload.PerHour(perHour)}
}

// The original takes 58 s.
func BenchmarkFIFOPerf5000(b *testing.B) {
	benchmark(b, cluster.Config{Devices: simulated, Policy: "fifo_perf", Generate: arriving(4), Window: cluster.Window{Start: 4000, End: 5000}})
}

// The original takes 64 s.
func BenchmarkIsolated5000(b *testing.B) {
	benchmark(b, cluster.Config{Devices: simulated, Policy: "isolated", Generate: arriving(4), Window: cluster.Window{Start: 4000, End: 5000}})
}

// The original takes 88 s.
func BenchmarkAlloX5000(b *testing.B) {
	benchmark(b, cluster.Config{Devices: simulated, Policy: "allox", Generate: arriving(4), Window: cluster.Window{Start: 4000, End: 5000}})
}

// The original was stopped after nine minutes.
func BenchmarkGandiva5000(b *testing.B) {
	benchmark(b, cluster.Config{Devices: simulated, Policy: "gandiva", Generate: arriving(4), Window: cluster.Window{Start: 4000, End: 5000}})
}

// A million jobs, each of an hour on a V100, at two thirds of the capacity of the cluster.
func BenchmarkFIFOPerfMillion(b *testing.B) {
	g := arriving(40)
	g.Seconds = 3600
	benchmark(b, cluster.Config{Devices: simulated, Policy: "fifo_perf", Generate: g, Total: 1_000_000})
}

// A million jobs with the durations of Gavel's simulations.
func BenchmarkFIFOPerfMillionLong(b *testing.B) {
	benchmark(b, cluster.Config{Devices: simulated, Policy: "fifo_perf", Generate: arriving(4), Total: 1_000_000})
}

// The original takes 82 s.
func BenchmarkMaxMin5000(b *testing.B) {
	benchmark(b, cluster.Config{Devices: simulated, Policy: "max_min_fairness_perf", Generate: arriving(4), Window: cluster.Window{Start: 4000, End: 5000}})
}

// The same with the default mechanism, which decides five times as often.
func BenchmarkMaxMin5000Default(b *testing.B) {
	benchmarkRun(b, cluster.Config{Devices: simulated, Policy: "max_min_fairness_perf", Generate: arriving(4), Window: cluster.Window{Start: 4000, End: 5000}})
}
