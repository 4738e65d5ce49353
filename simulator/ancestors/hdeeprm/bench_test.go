package hdeeprm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// syntheticJobs returns jobs with typical requests: half of them for one core, the others for powers of two up to a
// sixteenth of the machine (at most 256), with lognormal run times around 20 minutes and overestimated requests.
// Arrivals are random and offer the given load at reference speed.
func syntheticJobs(tree *platform.Tree, n int, load float64) []order.Job {
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

// BenchmarkRun simulates 20,000 jobs at loads of 0.6, with a short queue, and 1.2, with thousands of waiting jobs.
// HDeepRM's decision code alone, without the simulation, processes 68 jobs/s on gaia and 4.2 on mc2 with
// shortest-high_gflops, and 53 on gaia with first-high_cores (CPython 3.11, one core of an EPYC). The targets of this
// implementation are 50,000 and 10,000.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		tree, pair string
		theirs     float64
	}{
		{"gaia", "shortest-high_gflops", 68}, {"gaia", "first-high_cores", 53}, {"gaia", "shortest-high_mem_bw", math.NaN()},
		{"gaia", "shortest-high_mem", math.NaN()}, {"gaia", "shortest-random", math.NaN()},
		{"mc2", "shortest-high_gflops", 4.2}, {"mc2", "first-high_cores", math.NaN()}, {"mc2", "shortest-high_mem_bw", math.NaN()},
		{"mc2", "shortest-high_mem", math.NaN()}, {"mc2", "shortest-random", math.NaN()},
	} {
		for _, load := range []float64{0.6, 1.2} {
			b.Run(fmt.Sprintf("%s/%s/load=%v", c.tree, c.pair, load), func(b *testing.B) {
				tree := example(b, c.tree)
				benchmark(b, tree, syntheticJobs(tree, 20_000, load), c.pair, c.theirs)
			})
		}
	}
}

func benchmark(b *testing.B, tree *platform.Tree, jobs []order.Job, pair string, theirs float64) {
	p, err := ParsePair(pair)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := p.Run(tree, jobs, 1, false); err != nil {
			b.Fatal(err)
		}
	}
	speed := float64(len(jobs)) * float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(speed, "jobs/s")
	if theirs > 0 {
		b.ReportMetric(speed/theirs, "x-HDeepRM")
	}
}

// BenchmarkMini simulates the 400 jobs of the mini workload under one pair.
func BenchmarkMini(b *testing.B) {
	tree := example(b, "mini")
	benchmark(b, tree, miniJobs(b, tree), "shortest-high_gflops", math.NaN())
}

// BenchmarkEpisode runs an episode on mini, including Reset, with observations of the machine and the queue.
func BenchmarkEpisode(b *testing.B) {
	tree := example(b, "mini")
	for _, v := range []View{Minimal, Small, Normal} {
		b.Run(v.String(), func(b *testing.B) {
			e, err := NewEnvironment(tree, miniJobs(b, tree), Limits{}, Settings{View: v})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := runQuick(e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(e.Counts().Decisions)*float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}

// runQuick runs an episode with varying policies, without computing its result.
func runQuick(e *Environment) (float64, error) {
	_, done := e.Reset()
	for i := 0; !done; i++ {
		_, _, done = e.Step(i % e.Actions())
	}
	return e.Return(), e.Err()
}
