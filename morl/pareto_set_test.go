package morl_test

import (
	"context"
	"math"
	"math/rand/v2"
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
				known, _ := p.KnownFront(0.99)
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
	known, _ := p.KnownFront(0.99)
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
