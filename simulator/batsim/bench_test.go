package batsim

import (
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload/swf"
)

// BenchmarkGaia simulates gaia (2,280 cores) under shortest-high_gflops with the decision process connected by a
// local socket, and reports requests and jobs per second of both sides together. HDeepRM's decision code alone, in
// Python and without a socket, processes 68 jobs per second (measured on a machine with two cores, 1,000 jobs).
func BenchmarkGaia(b *testing.B) {
	tree := example(b, "gaia")
	lublin, err := swf.Lublin{Jobs: 1000, Procs: 2048, Seed: 1, Load: 0.8}.Generate()
	if err != nil {
		b.Fatal(err)
	}
	for i := range lublin {
		j := &lublin[i]
		j.Ops, j.Memory, j.Bandwidth = j.Run*tree.Reference*1e9, 1000, float64(4*(i%6+1))
	}
	pair := pairOf("shortest-high_gflops")
	compare(b, tree, lublin, ServeOptions{Tree: tree, Pairs: pairSettings(pair)})
}

// BenchmarkBackfilling simulates FCFS with EASY backfilling on 256 equal processors over the socket. No published
// figure is available for comparison.
func BenchmarkBackfilling(b *testing.B) {
	jobs, err := swf.Lublin{Jobs: 2000, Procs: 256, Seed: 1, Load: 0.8, Overestimate: 3}.Generate()
	if err != nil {
		b.Fatal(err)
	}
	tree := platform.Uniform(16, 2, 8, 1000, platform.Processor{Bandwidth: 10, GFLOPS: 1, Watts: 10})
	compare(b, tree, jobs, ServeOptions{Backfill: "easy"})
}

// compare measures whole sessions.
func compare(b *testing.B, tree *platform.Tree, jobs []order.Job, o ServeOptions) {
	count := &lines{}
	o.Transcript = count
	b.ReportAllocs()
	for b.Loop() {
		both(b, tree, jobs, o, SimulateOptions{})
	}
	b.ReportMetric(float64(count.n)/2/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(len(jobs)*b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// lines counts the calls of Write.
type lines struct{ n int }

func (l *lines) Write(p []byte) (int, error) { l.n++; return len(p), nil }
