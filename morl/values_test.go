package morl_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"trainopt/morl"
	"trainopt/morl/problems"
)

// TestValuers requires that agents with critics return one finite value per action and objective, prefer the action
// of Act without exploration, and are safe for concurrent use.
func TestValuers(t *testing.T) {
	env := problems.DeepSeaTreasure(problems.Convex)
	s := env.Shape()
	for _, name := range []string{"envelope", "conditioned", "multi"} {
		a, err := morl.New(name, s, morl.Config{Hidden: []int{8}, Warmup: 50, Every: 1, Batch: 8}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := morl.Train(t.Context(), a, env, morl.TrainOptions{Steps: 300, Seed: 1}); err != nil {
			t.Fatal(err)
		}
		v := a.(morl.Valuer)
		o := env.Reset(rand.New(rand.NewPCG(1, 1)))
		w := []float32{0.3, 0.7}
		want := v.Values(o, w)
		if len(want) < 2 {
			t.Errorf("%s: %d critics, want at least 2", name, len(want))
		}
		for _, q := range want {
			if len(q) != s.Actions*len(s.Objectives) {
				t.Fatalf("%s: %d values, want %d", name, len(q), s.Actions*len(s.Objectives))
			}
			for _, x := range q {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					t.Fatalf("%s: value %g", name, x)
				}
			}
		}
		if got, act := v.Prefer(o, w), a.Act(o, w, false); got != act {
			t.Errorf("%s prefers %d and does %d", name, got, act)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					if got := v.Values(o, w); got[0][0] != want[0][0] || v.Prefer(o, w) < 0 {
						t.Errorf("%s: another answer", name)
					}
				}
			})
		}
		wg.Wait()
	}
}
