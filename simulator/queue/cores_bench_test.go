package queue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// steady returns the jobs of package hdeeprm's benchmark: half of them for one core, the others for powers of two up
// to a sixteenth of the machine (at most 256), with lognormal run times around 20 minutes and overestimated requests.
// Arrivals are random and offer the given load at reference speed.
func steady(tree *platform.Tree, n int, load float64) []order.Job {
	r := rand.New(rand.NewPCG(1, 2))
	largest := int(math.Log2(min(256, max(2, float64(tree.Cores)/16))))
	jobs := make([]order.Job, n)
	work := 0.0
	for i := range jobs {
		j := &jobs[i]
		j.ID, j.Procs = i, 1
		if r.IntN(2) == 0 {
			j.Procs = 1 << (1 + r.IntN(largest))
		}
		j.Request = math.Ceil(max(1, 1200*math.Exp(1.5*r.NormFloat64()))/60) * 60
		j.RequestOps = tree.Reference * j.Request * 1e9
		j.Ops = j.RequestOps * 0.05 * float64(1+r.IntN(25))
		j.Memory, j.Bandwidth = float64(100*(1+r.IntN(20))), float64(4*(1+r.IntN(6)))
		work += j.Ops / (tree.Reference * 1e9) * float64(j.Procs)
	}
	span, at := work/(load*float64(tree.Cores)), 0.0
	for i := range jobs {
		jobs[i].Submit = math.Floor(at)
		at += span / float64(n) * r.ExpFloat64()
	}
	return jobs
}

// BenchmarkRun measures the whole simulation with EASY backfilling, at loads of 0.6, with a short queue, and 1.2,
// with a long one. HDeepRM's decision code alone, without backfilling and without the simulation, processes 68 jobs/s
// on gaia (shortest-high_gflops) and 4.2 on mc2 (CPython 3.11, one core of an EPYC). The targets for simple
// placements are 50,000 and 10,000.
func BenchmarkRun(b *testing.B) {
	theirs := map[string]float64{"gaia": 68, "mc2": 4.2}
	for _, name := range []string{"gaia", "mc2"} {
		tree, err := platform.Example(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []struct {
			placement string
			jobs      int
		}{{"high_gflops", 20_000}, {"high_cores", 20_000}, {"high_mem_bw", 20_000}, {"homogeneous", 2_000}, {"bandwidth_aware", 2_000}, {"best", 1_000}} {
			for _, load := range []float64{0.6, 1.2} {
				b.Run(fmt.Sprintf("%s/%s/load=%v", name, c.placement, load), func(b *testing.B) {
					jobs := steady(tree, c.jobs, load)
					before := processorTime()
					for b.Loop() {
						if _, err := RunCores(context.Background(), CoresConfig{Tree: tree, Jobs: jobs, Order: "sjf", Placement: c.placement}); err != nil {
							b.Fatal(err)
						}
					}
					speed := float64(c.jobs) * float64(b.N) / b.Elapsed().Seconds()
					b.ReportMetric(speed, "jobs/s")
					b.ReportMetric(float64(c.jobs)*float64(b.N)/(processorTime()-before), "jobs/cpu-s") // independent of the load of the machine
					b.ReportMetric(speed/theirs[name], "x-HDeepRM")
				})
			}
		}
	}
}

// processorTime returns the CPU time of this process, s.
func processorTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
