package morl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"trainopt/morl"
	"trainopt/morl/problems"
)

func learn(t *testing.T, a morl.Agent, env morl.Environment, o morl.TrainOptions) {
	t.Helper()
	if err := morl.Train(context.Background(), a, env, o); err != nil {
		t.Fatal(err)
	}
}

// always returns a constant preference.
func always(w ...float32) func(into []float32, _ *rand.Rand) {
	return func(into []float32, _ *rand.Rand) { copy(into, w) }
}

// worth returns w·return of an agent's greedy policy on a problem, and the maximum over all policies.
func worth(tb testing.TB, a morl.Agent, p problems.Problem, w []float32, gamma float64) (got, most float64) {
	tb.Helper()
	dot := func(v []float64) (u float64) {
		for i, x := range v {
			u += float64(w[i]) * x
		}
		return u
	}
	got = dot(p.Return(func(s []float32, mask []bool) int { return a.Act(morl.Observation{State: s, Mask: mask}, w, false) }, gamma))
	front := knownFront(tb, p.Name(), gamma)
	most = dot(front[0])
	for _, v := range front {
		most = max(most, dot(v))
	}
	return got, most
}

// knownFront returns the recorded front of a problem at a discount.
func knownFront(tb testing.TB, problem string, gamma float64) [][]float64 {
	tb.Helper()
	data, err := os.ReadFile("problems/testdata/fronts.json")
	if err != nil {
		tb.Fatal(err)
	}
	var recorded []struct {
		Problem string
		Gamma   float64
		Front   [][]float64
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		tb.Fatal(err)
	}
	for _, r := range recorded {
		if r.Problem == problem && r.Gamma == gamma {
			return r.Front
		}
	}
	tb.Fatalf("no front of %s at %v is recorded", problem, gamma)
	return nil
}

func saved(t *testing.T, a morl.Agent) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := a.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSimpleLearnsTheCorridor(t *testing.T) {
	// For pay alone the far end is optimal from everywhere; for time alone the nearer one.
	for name, c := range map[string]struct {
		w         []float32
		objective int
		least     float64
	}{"pay": {[]float32{1, 0}, 0, 0.93}, "time": {[]float32{0, 1}, 1, -0.11}} {
		t.Run(name, func(t *testing.T) {
			env := &morl.Corridor{Cells: 8, Left: 0.3, Right: 1, Cost: 0.05}
			a := morl.NewSimple(env.Shape(), morl.Config{Hidden: []int{24}, Rate: 3e-3, Warmup: 200, ExploreSteps: 2000}, 1)
			before := saved(t, a)
			var returns []float64
			learn(t, a, env, morl.TrainOptions{Steps: 10_000, Seed: 2, Every: 1000, Preferences: always(c.w...), Report: func(p morl.Progress) error {
				returns = append(returns, p.Return[c.objective])
				return nil
			}})
			if bytes.Equal(before, saved(t, a)) {
				t.Fatal("no weight changed")
			}
			t.Logf("explored returns %.3f", returns)
			if last := returns[len(returns)-1]; last < returns[0]+0.1 {
				t.Fatalf("explored returns did not rise: %v", returns)
			}
			if g := env.Greedy(a, c.w, 0.99); g[c.objective] < c.least {
				t.Fatalf("greedy return %.3f, want at least %g", g[c.objective], c.least)
			}
		})
	}
}

func TestSimpleLearnsDeepSeaTreasure(t *testing.T) {
	for name, w := range map[string][]float32{"balanced": {0.5, 0.5}, "treasure": {0.7, 0.3}, "time": {0.05, 0.95}} {
		t.Run(name, func(t *testing.T) {
			p := problems.DeepSeaTreasure(problems.Convex)
			a := morl.NewSimple(p.Shape(), morl.Config{Hidden: []int{64}, Rate: 3e-3, Warmup: 1000, ExploreSteps: 10_000}, 3)
			learn(t, a, p, morl.TrainOptions{Steps: 20_000, Seed: 4, Preferences: always(w...)})
			got, most := worth(t, a, p, w, 0.99)
			t.Logf("%.3f of %.3f", got, most)
			if got < most-0.1*max(1, most) {
				t.Fatalf("w·return %.3f, the best is %.3f", got, most)
			}
		})
	}
}

func TestSimpleForgets(t *testing.T) {
	env := &morl.Corridor{Cells: 6, Right: 1}
	for name, drop := range map[string]float64{"dropout by default": 0, "dropout": 0.3, "none": -1} {
		t.Run(name, func(t *testing.T) {
			c := morl.Config{Hidden: []int{16}, Warmup: 100, ExploreSteps: 300, Dropout: drop}
			a := morl.NewSimple(env.Shape(), c, 5)
			fresh := saved(t, a)
			learn(t, a, env, morl.TrainOptions{Steps: 1000, Seed: 1})
			trained := saved(t, a)
			a.Reset()
			if !bytes.Equal(saved(t, a), fresh) {
				t.Fatal("a reset agent is not a new one")
			}
			learn(t, a, env, morl.TrainOptions{Steps: 1000, Seed: 1})
			if !bytes.Equal(saved(t, a), trained) || bytes.Equal(trained, fresh) {
				t.Fatal("a reset agent does not learn as a new one")
			}
		})
	}
}

func TestSimpleNeverTakesAMaskedAction(t *testing.T) {
	a := morl.NewSimple(morl.Shape{State: 1, Actions: 5, Objectives: []string{"x"}}, morl.Config{Hidden: []int{8}}, 1)
	mask := []bool{false, true, false, true, false}
	for i := range 500 {
		if got := a.Act(morl.Observation{State: []float32{float32(i % 3)}, Mask: mask}, []float32{1}, i%2 == 0); !slices.Contains([]int{1, 3}, got) {
			t.Fatalf("action %d", got)
		}
	}
}
