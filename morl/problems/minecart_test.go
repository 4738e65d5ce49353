package problems

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl/pareto"
)

// TestMinecartMovesAsRecorded requires the states, rewards and ends of episodes recorded in MO-Gymnasium's own
// environment: mining up to the capacity, mining in vain, sliding along the borders, returning to the base.
func TestMinecartMovesAsRecorded(t *testing.T) {
	raw, err := os.ReadFile("testdata/minecart.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Episodes map[string][][12]float64 `json:"episodes"`
	}
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded.Episodes) < 7 {
		t.Fatalf("%d episodes are recorded, want 7", len(recorded.Episodes))
	}
	for name, rows := range recorded.Episodes {
		p := minecartDeterministic()
		p.Reset(nil)
		for i, row := range rows {
			out := p.Step(int(row[0]))
			got := make([]float64, 0, 10)
			for _, x := range append(append([]float32(nil), out.State...), out.Reward...) {
				got = append(got, float64(x))
			}
			if !near(got, row[1:11], 2e-6) || out.Done != (row[11] == 1) {
				t.Errorf("%s: step %d: %v (done %v), want %v", name, i+1, got, out.Done, row[1:])
				break
			}
		}
	}
}

// TestMinecartFrontIsTheShippedApproximation compares sizes and hypervolumes with those of MO-Gymnasium's own
// approximation, to its rounding.
func TestMinecartFrontIsTheShippedApproximation(t *testing.T) {
	cases := map[string]struct {
		gamma     float64
		size      int
		reference []float64
		want      float64
	}{
		"0.98":       {0.98, 20, []float64{-1, -1, -200}, 723.048},
		"0.98, zero": {0.98, 20, []float64{0, 0, -200}, 81.800},
		"1":          {1, 10, []float64{-1, -1, -200}, 944.929},
		"1, zero":    {1, 10, []float64{0, 0, -200}, 147.837},
	}
	for name, c := range cases {
		front, exact := named("minecart-deterministic").KnownFront(c.gamma)
		if exact || len(front) != c.size {
			t.Errorf("%s: %d points, exact %v; want %d approximate ones", name, len(front), exact, c.size)
		}
		if got := pareto.Hypervolume(front, c.reference); !(math.Abs(got-c.want) <= 5e-4) {
			t.Errorf("%s: hypervolume %.6f, want %.3f", name, got, c.want)
		}
	}
}

// TestMinecartListedPlanCanBeEarned requires that a listed plan to the last mine, and its mirror image, earn the
// listed return when executed.
func TestMinecartListedPlanCanBeEarned(t *testing.T) {
	const a, b, m, i = accelerate, brake, mineOre, idle
	plans := map[string]struct{ turn, ore int }{"last mine": {turnLeft, 1}, "first mine": {turnRight, 0}}
	for name, c := range plans {
		p, l := named("minecart-deterministic"), c.turn
		actions := []int{l, a, a, i, i, b, l, l, l, l, m, m, a, a, i, i}
		next := 0
		got := p.Return(func([]float32, []bool) int { next++; return actions[next-1] }, 0.98)
		want := []float64{0, 0, -0.949177022}
		want[c.ore] = 1.5 * math.Pow(0.98, 15)
		if !near(got, want, 1e-8) {
			t.Errorf("%s: earns %v, want %v", name, got, want)
		}
		front, _ := p.KnownFront(0.98)
		if !covered(front, got) {
			t.Errorf("%s: %v is not on the listed front", name, got)
		}
	}
}

// TestMinecartInvariants requires, for any actions, that the cart stays in the square and within its capacity, that
// ore is only gained by mining at rest within reach of a mine and is sold at the end, that fuel depends on the action
// only, and that a cart at rest does not move.
func TestMinecartInvariants(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := cart{angle: facing}
		for range 300 {
			before := c
			action := rapid.SampledFrom([]int{mineOre, turnLeft, turnRight, accelerate, accelerate, brake, idle}).Draw(r, "action")
			reward := c.act(action)
			load, was := c.content[0]+c.content[1], before.content[0]+before.content[1]
			switch {
			case c.x < 0 || c.x > 1 || c.y < 0 || c.y > 1 || c.speed < 0 || c.speed > math.Sqrt2:
				r.Fatalf("out of bounds: %+v", c)
			case load > capacity+1e-12:
				r.Fatalf("overloaded: %+v", c)
			case load > was && (action != mineOre || before.speed >= atRest):
				r.Fatalf("ore from action %d: %+v, then %+v", action, before, c)
			case reward[ores] != fuel(action):
				r.Fatalf("action %d costs %v", action, reward[ores])
			case before.speed == 0 && action != accelerate && (c.x != before.x || c.y != before.y):
				r.Fatalf("at rest, action %d moves: %+v, then %+v", action, before, c)
			}
			if !c.returned {
				if reward[0] != 0 || reward[1] != 0 {
					r.Fatalf("ore is sold before the end: %v", reward)
				}
				continue
			}
			if reward[0] != before.content[0] || reward[1] != before.content[1] || load != 0 {
				r.Fatalf("carried %v, sold %v", before.content, reward)
			}
			return
		}
	})
}

// TestMinecartReturnIsWhatAnEpisodeEarns requires that Return agrees with simulated episodes, for policies that react
// to the state.
func TestMinecartReturnIsWhatAnEpisodeEarns(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 5))
	for trial := range 20 {
		var weights [minecartActions][5 + ores]float64
		for a := range weights {
			for i := range weights[a] {
				weights[a][i] = rng.NormFloat64()
			}
		}
		policy := func(state []float32, _ []bool) int {
			best, highest := 0, math.Inf(-1)
			for a := range weights {
				sum := 0.0
				for i, x := range state {
					sum += weights[a][i] * float64(x)
				}
				if sum > highest {
					best, highest = a, sum
				}
			}
			return best
		}
		p := minecartDeterministic()
		for _, gamma := range []float64{1, 0.98} {
			exact := p.Return(policy, gamma)
			if got := play(p, policy, gamma, 1, nil); !near(got, exact, 1e-3) {
				t.Errorf("policy %d at %v: the episode earns %v, Return says %v", trial, gamma, got, exact)
			}
		}
	}
}
