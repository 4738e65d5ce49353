package morl_test

import (
	"bytes"
	"errors"
	"testing"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

// reachedFront returns the returns of the agent's policies and their hypervolume.
func reachedFront(a morl.Agent, p problems.Problem, gamma float64) (points [][]float64, hypervolume float64) {
	for _, r := range morl.Front(a, p, morl.FrontOptions{Gamma: gamma}) {
		points = append(points, r.Value)
	}
	return points, pareto.Hypervolume(points, p.Reference())
}

// TestParetoConditionedReachesTheFront: the policies reach every point of a concave front, and on minecart, where states
// hardly recur, more than linear preferences do with the recipe of envelope (473.4 of 723.0).
func TestParetoConditionedReachesTheFront(t *testing.T) {
	for name, c := range map[string]struct {
		steps, every, points int
		gamma, hypervolume   float64
	}{
		"deep-sea-treasure":         {20_000, 4, 10, 0.99, 854.849},
		"deep-sea-treasure-concave": {20_000, 4, 10, 0.99, 3688.376},
		"minecart-deterministic":    {400_000, 10, 3, 0.98, 480},
	} {
		t.Run(name, func(t *testing.T) {
			p := problems.ByName[name]()
			config := morl.Config{Hidden: []int{64, 64}, Gamma: c.gamma, Every: c.every, Rate: 1e-3, Warmup: 1000, Anneal: c.steps}
			if name == "minecart-deterministic" {
				config.Hidden = []int{128, 128}
			}
			a, err := morl.New("pcn", p.Shape(), config, 1)
			if err != nil {
				t.Fatal(err)
			}
			learn(t, a, p, morl.TrainOptions{Steps: c.steps, Seed: 1})
			points, got := reachedFront(a, p, c.gamma)
			t.Logf("%d points with hypervolume %.3f", len(points), got)
			if len(points) < c.points || got < c.hypervolume {
				t.Errorf("%d points with hypervolume %.3f, want %d with %.3f", len(points), got, c.points, c.hypervolume)
			}
			loaded, err := morl.New("pcn", p.Shape(), config, 2)
			if err != nil {
				t.Fatal(err)
			}
			data := saved(t, a)
			if err := loaded.Load(bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if _, again := reachedFront(loaded, p, c.gamma); again != got {
				t.Errorf("hypervolume %.3f after loading, %.3f before", again, got)
			}
			if err := loaded.Load(bytes.NewReader(data[:len(data)-2])); !errors.Is(err, morl.ErrCorrupt) {
				t.Errorf("a truncated file: %v", err)
			}
		})
	}
}

// TestParetoConditionedFollowsPreferences: for a preference the agent takes the path that is optimal for it.
func TestParetoConditionedFollowsPreferences(t *testing.T) {
	p := problems.DeepSeaTreasure(problems.Convex)
	a, err := morl.New("pcn", p.Shape(), morl.Config{Hidden: []int{64, 64}, Every: 4, Rate: 1e-3, Warmup: 1000, Anneal: 20_000}, 3)
	if err != nil {
		t.Fatal(err)
	}
	learn(t, a, p, morl.TrainOptions{Steps: 20_000, Seed: 3})
	for _, w := range [][]float32{{1, 0}, {0, 1}, {0.5, 0.5}, {0.8, 0.2}} {
		if got, most := worth(t, a, p, w, 0.99); got < most-1e-6 {
			t.Errorf("%v: w·return %.3f, the best is %.3f", w, got, most)
		}
	}
}
