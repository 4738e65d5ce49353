package problems

import (
	"math"
	"testing"

	"trainopt/morl/pareto"
)

// TestGatheringFrontInClosedForm derives the fronts from the length of each way and the steps that enter an enemy's
// cell; the n-th reward has the factor γ^(n−1).
func TestGatheringFrontInClosedForm(t *testing.T) {
	ways := map[string]struct {
		gold, gem float64
		steps     int
		enemies   []int // the steps into an enemy's cell
		front     []float64
	}{
		"gem":                                {0, 1, 10, nil, []float64{0.9, 0.99}},
		"gold round the enemies":             {1, 0, 12, nil, []float64{0.9, 0.99}},
		"both round the enemies":             {1, 1, 18, nil, []float64{0.9, 0.99}},
		"gold, home through E1":              {1, 0, 10, []int{7}, []float64{0.9}},
		"gold, there and back through E1":    {1, 0, 8, []int{3, 5}, []float64{0.9}},
		"gem, gold, home through E1":         {1, 1, 16, []int{13}, []float64{0.9}},
		"gem, through E2 to the gold, round": {1, 1, 14, []int{7}, []float64{0.9}},
		"gem, E2, gold, E1":                  {1, 1, 12, []int{7, 9}, []float64{0.9}},
	}
	for _, gamma := range []float64{0.9, 0.99} {
		pow := func(n int) float64 { return math.Pow(gamma, float64(n)) }
		var want [][]float64
		for _, w := range ways {
			alive, death := 1.0, 0.0
			for _, n := range w.enemies {
				death -= alive * deathProbability * pow(n-1)
				alive *= 1 - deathProbability
			}
			for _, g := range w.front {
				if g == gamma {
					want = append(want, []float64{death, alive * w.gold * pow(w.steps-1), alive * w.gem * pow(w.steps-1)})
				}
			}
		}
		got, _ := named("resource-gathering").KnownFront(gamma)
		samePoints(t, got, sorted(want))
	}
}

// TestGatheringFrontExceedsTheListedWays uses the six ways listed by MO-Gymnasium. Discounted as in an episode, they
// have the hypervolumes and utilities published for them; the front contains more points, because the list lacks the
// way to both resources around the enemies (18 steps) and the way gem, gold, home through E1 (16 steps).
func TestGatheringFrontExceedsTheListedWays(t *testing.T) {
	const u, d, l, r = up, Down, left, right
	listed := map[string][]int{
		"gem":                             {r, r, u, u, u, d, d, d, l, l},
		"both through both enemies":       {r, r, u, u, u, u, l, l, d, d, d, d},
		"gold, there and back through E1": {u, u, u, u, d, d, d, d},
		"both, dodging E1":                {r, r, u, u, u, u, l, l, l, d, d, d, d, r},
		"gold round the enemies":          {l, u, u, u, u, r, l, d, d, d, d, r},
		"gold through E1 once":            {l, u, u, u, u, r, d, d, d, d},
	}
	cases := map[string]struct {
		gamma, listed, utility, front float64
	}{
		"0.99": {0.99, 3.3739, 0.5257, 3.5194},
		"0.9":  {0.9, 1.8283, 0.1919, 1.8299},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := resourceGathering().(*table)
			front, _ := p.KnownFront(c.gamma)
			var points [][]float64
			for name, actions := range listed {
				point := p.Return(p.follow(t, actions), c.gamma)
				points = append(points, point)
				if !covered(front, point) {
					t.Errorf("%s: %v is not covered by the front %v", name, point, front)
				}
			}
			if got := pareto.Hypervolume(points, p.reference); !(math.Abs(got-c.listed) <= 5e-5) {
				t.Errorf("the listed ways have hypervolume %.6f, want %.4f", got, c.listed)
			}
			if got := pareto.ExpectedUtility(points, pareto.Lattice(3, 20)); !(math.Abs(got-c.utility) <= 5e-5) {
				t.Errorf("the listed ways have expected utility %.6f, want %.4f", got, c.utility)
			}
			if got := pareto.Hypervolume(front, p.reference); !(math.Abs(got-c.front) <= 5e-5) {
				t.Errorf("the front has hypervolume %.6f, want %.4f", got, c.front)
			}
		})
	}
}

func covered(front [][]float64, point []float64) bool {
	for _, p := range front {
		if covers(p, point) {
			return true
		}
	}
	return false
}
