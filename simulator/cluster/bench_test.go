package cluster_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"
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

// BenchmarkGrowth reports the processor time of whole days of 1,000 jobs on 108 devices, ten times as many of both and, with
// -long, a hundred times, and the exponent of its growth from the size before: 1 is proportional to the number of jobs.
func BenchmarkGrowth(b *testing.B) {
	for _, policy := range []string{"srtf", "best_match", "max_min_fairness_perf", "sia"} {
		last := math.NaN()
		for _, n := range []int{1, 10, 100} {
			if n == 100 && !*long {
				continue
			}
			b.Run(fmt.Sprintf("%s/jobs=%d", policy, 1000*n), func(b *testing.B) {
				c := cluster.Config{Devices: slices.Clone(simulated), Policy: policy, Generate: arriving(4 * float64(n)), Window: cluster.Window{End: 1000 * n}}
				for d := range c.Devices {
					c.Devices[d].Count *= n
				}
				before := processorTime(b)
				for b.Loop() {
					if _, err := cluster.Run(context.Background(), c); err != nil {
						b.Fatal(err)
					}
				}
				seconds := (processorTime(b) - before) / float64(b.N)
				b.ReportMetric(seconds, "cpu-s")
				if !math.IsNaN(last) {
					b.ReportMetric(math.Log10(seconds/last), "exponent")
				}
				last = seconds
			})
		}
	}
}

// processorTime returns the seconds of processor time of this process.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
