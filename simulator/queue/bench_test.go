package queue_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

// A comparable simulator in Python (RLScheduler's) starts 4,100 jobs/s without and 14,800 with backfilling; Batsim's
// authors report at best thousands of jobs per second with an external scheduler.
func BenchmarkQueue(b *testing.B) {
	const million = 1_000_000
	synthetic, err := swf.Lublin{Jobs: million, Procs: 256, Seed: 1, Load: 0.7, Overestimate: 3}.Generate()
	if err != nil {
		b.Fatal(err)
	}
	simulate(b, "synthetic", synthetic, 256)
	kth := trace(b, "KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{})
	simulate(b, "KTH-SP2", repeated(kth.Jobs, million), kth.Procs)
}

// trace loads one of the published traces, which a checkout need not have.
func trace(tb testing.TB, name string, o swf.Options) *swf.Trace {
	tb.Helper()
	path := filepath.Join("../../../shared/data/swf", name)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("the published traces are missing: %v", err)
	}
	t, err := swf.Load(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// repeated returns n copies of the workload, one after another.
func repeated(jobs []order.Job, n int) []order.Job {
	last := &jobs[len(jobs)-1]
	span := last.Submit + last.Run
	all := make([]order.Job, n)
	for i := range all {
		all[i] = jobs[i%len(jobs)]
		all[i].ID = i + 1
		all[i].Submit += float64(i/len(jobs)) * span
	}
	return all
}

func simulate(b *testing.B, name string, jobs []order.Job, procs int) {
	for _, c := range []struct{ order, backfill string }{
		{"fcfs", "easy"}, {"sjf", "easy"}, {"fcfs", "conservative"}, {"wfp3", "easy"},
	} {
		b.Run(fmt.Sprintf("%s/%s+%s", name, c.order, c.backfill), func(b *testing.B) {
			for b.Loop() {
				if _, err := queue.Run(context.Background(), queue.Config{
					Procs: procs, Jobs: jobs, Order: c.order, Backfill: c.backfill,
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(jobs))/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
