package morl_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

// TestParetoSetReachesTheFront: on problems with a known front, concave and stochastic ones included, the policies of the
// agent reach its hypervolume.
func TestParetoSetReachesTheFront(t *testing.T) {
	for name, c := range map[string]struct {
		steps int
		share float64 // of the hypervolume of the front
	}{
		"deep-sea-treasure":         {10_000, 1},
		"deep-sea-treasure-concave": {10_000, 1},
		"fruit-tree-6":              {5000, 1},
		"resource-gathering":        {30_000, 0.999}, // probabilities are estimated
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				p := problems.ByName[name]()
				a := morl.NewParetoSet(p.Shape(), morl.Config{Gamma: 0.99}, seed)
				if err := morl.Train(context.Background(), a, p, morl.TrainOptions{Steps: c.steps, Seed: seed}); err != nil {
					t.Fatal(err)
				}
				known := knownFront(t, p.Name(), 0.99)
				reached := morl.Front(a, p, morl.FrontOptions{Gamma: 0.99})
				points := make([][]float64, len(reached))
				for i, r := range reached {
					points[i] = r.Value
				}
				got, want := pareto.Hypervolume(points, p.Reference()), pareto.Hypervolume(known, p.Reference())
				if got < c.share*want*(1-1e-9) || got > want*(1+1e-9) || c.share == 1 && len(points) != len(known) {
					t.Errorf("seed %d: %d points with hypervolume %.4f after %d steps, the front has %d with %.4f", seed, len(points), got, c.steps, len(known), want)
				}
			}
		})
	}
}

// TestParetoSetFollowsPreferences: for a preference the agent takes the path that is optimal for it.
func TestParetoSetFollowsPreferences(t *testing.T) {
	p := problems.DeepSeaTreasure(problems.Convex)
	a := morl.NewParetoSet(p.Shape(), morl.Config{Gamma: 0.99}, 1)
	if err := morl.Train(context.Background(), a, p, morl.TrainOptions{Steps: 8000}); err != nil {
		t.Fatal(err)
	}
	known := knownFront(t, p.Name(), 0.99)
	for _, w := range [][]float32{{1, 0}, {0, 1}, {0.5, 0.5}, {0.8, 0.2}} {
		got := p.Return(func(state []float32, mask []bool) int {
			return a.Act(morl.Observation{State: state, Mask: mask}, w, false)
		}, 0.99)
		most := math.Inf(-1)
		for _, v := range known {
			most = max(most, float64(w[0])*v[0]+float64(w[1])*v[1])
		}
		if u := float64(w[0])*got[0] + float64(w[1])*got[1]; u < most-1e-6 {
			t.Errorf("preference %v: utility %v, want %v", w, u, most)
		}
	}
}

// BenchmarkParetoSet learns the concave front of deep-sea-treasure from nothing.
func BenchmarkParetoSet(b *testing.B) {
	for b.Loop() {
		p := problems.DeepSeaTreasure(problems.Concave)
		a := morl.NewParetoSet(p.Shape(), morl.Config{Gamma: 0.99}, rand.Uint64())
		if err := morl.Train(context.Background(), a, p, morl.TrainOptions{Steps: 10_000}); err != nil {
			b.Fatal(err)
		}
		if n := len(morl.Front(a, p, morl.FrontOptions{Gamma: 0.99})); n != 10 {
			b.Fatalf("%d of 10 points", n)
		}
	}
}

// BenchmarkConcaveFront is the processor time until an agent knows all ten points of the concave front of
// deep-sea-treasure, for five seeds: of ours, looked at after every 500 decisions, and of PQL in morl-baselines, where
// python3 of PATH has it.
func BenchmarkConcaveFront(b *testing.B) {
	const seeds = 5
	b.Run("pareto", func(b *testing.B) {
		for b.Loop() {
			for seed := range uint64(seeds) {
				p := problems.ByName["deep-sea-treasure-concave"]()
				known := knownFront(b, p.Name(), 0.99)
				a := morl.NewParetoSet(p.Shape(), morl.Config{Gamma: 0.99}, seed)
				for steps := 500; len(morl.Front(a, p, morl.FrontOptions{Gamma: 0.99})) < len(known); steps += 500 {
					if err := morl.Train(context.Background(), a, p, morl.TrainOptions{Steps: 500, Seed: seed + uint64(steps)*seeds}); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*seeds), "s/front")
	})
	b.Run("PQL", func(b *testing.B) {
		for b.Loop() {
			var took []float64
			for seed := range seeds {
				out, err := exec.Command("python3", "-W", "ignore", "-c", pqlScript, fmt.Sprint(seed)).Output()
				if err != nil {
					b.Skipf("morl-baselines: %v", err)
				}
				var cpu, vain float64
				if _, err := fmt.Sscan(string(out), &cpu, &vain); err != nil {
					b.Fatalf("PQL printed %q: %v", out, err)
				}
				b.Logf("seed %d: %.1f s to the front, or %.1f s in vain", seed, cpu, vain)
				if !math.IsNaN(cpu) {
					took = append(took, cpu)
				}
			}
			b.ReportMetric(float64(len(took)), "fronts")
			if len(took) > 0 {
				b.ReportMetric(slices.Min(took), "least-s/front")
				b.ReportMetric(slices.Max(took), "most-s/front")
			}
			b.ReportMetric(0, "ns/op") // the start of Python is meaningless
		}
	})
}

// pqlScript prints the processor time that PQL takes to know the front and 0, or, if it does not within 100,000 decisions,
// nan and the time of these.
const pqlScript = `
import sys, time
import mo_gymnasium, numpy
from morl_baselines.multi_policy.pareto_q_learning.pql import PQL
env = mo_gymnasium.make("deep-sea-treasure-concave-v0")
front = {tuple(numpy.round(p, 3)) for p in env.unwrapped.pareto_front(gamma=0.99)}
agent = PQL(env, numpy.array([0.0, -50.0]), gamma=0.99, epsilon_decay_steps=10000, final_epsilon=0.2, seed=int(sys.argv[1]), log=False)
at = time.process_time()
for steps in range(500, 100001, 500):
    agent.train(total_timesteps=steps, eval_env=env, log_every=10**9)
    if front <= {tuple(numpy.round(p, 3)) for p in agent.get_local_pcs(0)}:
        print(time.process_time() - at, 0)
        sys.exit()
print("nan", time.process_time() - at)
`
