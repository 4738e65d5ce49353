package morl_test

import (
	"fmt"
	"math"
	"testing"

	"trainopt/morl"
	"trainopt/morl/problems"
)

// TestAttemptedResetKeepsTheReturn requires that an attempt to replace sound critics changes the return of the greedy
// policies on deep-sea-treasure by at most 1 %, whether the fresh critics were swapped in or not.
func TestAttemptedResetKeepsTheReturn(t *testing.T) {
	for _, name := range []string{"conditioned", "envelope", "multi"} {
		for seed := range uint64(1) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				p := problems.DeepSeaTreasure(problems.Convex)
				c := morl.Config{Hidden: []int{32}, Every: 4, Rate: 2e-3, Tau: 0.02, Warmup: 500, ExploreSteps: 4000, Anneal: 8000, Exploration: 0.1,
					Resets: morl.Resets{Mode: "evidence", Debt: 1, Ratio: -1, Cooldown: 1 << 30, Steps: 600}}
				a, err := morl.New(name, p.Shape(), c, seed)
				if err != nil {
					t.Fatal(err)
				}
				learn(t, a, p, morl.TrainOptions{Steps: 6000, Seed: seed})
				earned := func() (mean float64) {
					for k := range 11 {
						got, _ := worth(t, a, p, []float32{float32(k) / 10, 1 - float32(k)/10}, 0.99)
						mean += got / 11
					}
					return mean
				}
				before := earned()
				log := morl.ForceReset(a)
				swaps := 0
				for _, r := range log {
					if r.Swapped {
						swaps++
					}
				}
				after := earned()
				t.Logf("w·return %.3f, after %d attempts and %d swaps %.3f", before, len(log), swaps, after)
				if after < before-0.01*math.Abs(before) {
					t.Errorf("w·return fell from %.3f to %.3f", before, after)
				}
			})
		}
	}
}
