package morl_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl"
	"trainopt/morl/problems"
)

func TestDefaultPreferences(t *testing.T) {
	for name, c := range map[string]struct {
		objectives int
		want       [][]float32
	}{
		"one":   {1, [][]float32{{1}}},
		"two":   {2, [][]float32{{0.5, 0.5}, {0.6, 0.4}, {0.4, 0.6}}},
		"three": {3, [][]float32{{1. / 3, 1. / 3, 1. / 3}, {0.6, 0.2, 0.2}, {0.2, 0.6, 0.2}, {0.2, 0.2, 0.6}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := morl.DefaultPreferences(c.objectives)
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for k := range got {
				for i := range got[k] {
					if math.Abs(float64(got[k][i]-c.want[k][i])) > 1e-6 {
						t.Fatalf("%v, want %v", got, c.want)
					}
				}
			}
		})
	}
}

func three() *morl.MultiPolicy {
	return morl.NewMulti(morl.Shape{State: 2, Actions: 3, Objectives: []string{"usd", "hours", "use"}}, morl.Config{Hidden: []int{8}}, 1)
}

func TestMultiSelects(t *testing.T) {
	const balanced, usd, hours, use = 0, 1, 2, 3
	nan := math.NaN()
	for name, c := range map[string]struct {
		w        []float32
		severity []float64
		want     int
	}{
		"balanced user":                          {[]float32{0.34, 0.33, 0.33}, nil, balanced},
		"usd user":                               {[]float32{0.7, 0.1, 0.2}, nil, usd},
		"hours user":                             {[]float32{0, 1, 0}, nil, hours},
		"use user, nothing at risk":              {[]float32{0.2, 0.2, 0.6}, []float64{0, 0, 0}, use},
		"usd user, deadline surely broken":       {[]float32{0.6, 0.2, 0.2}, []float64{0, 1, 0}, hours},
		"usd user, deadline hardly at risk":      {[]float32{0.6, 0.2, 0.2}, []float64{0, 0.05, 0}, usd},
		"balanced user, deadline at risk":        {[]float32{0.34, 0.33, 0.33}, []float64{0, 0.4, 0}, hours},
		"usd only user, deadline surely broken":  {[]float32{1, 0, 0}, []float64{0, 1, 0}, hours},
		"usd only user, deadline at some risk":   {[]float32{1, 0, 0}, []float64{0, 0.3, 0}, usd},
		"usd user, everything broken":            {[]float32{0.6, 0.2, 0.2}, []float64{1, 1, 1}, usd},
		"hours user, everything broken":          {[]float32{0.2, 0.6, 0.2}, []float64{1, 1, 1}, hours},
		"unknown and negative severities are no": {[]float32{0.6, 0.2, 0.2}, []float64{nan, -3, nan}, usd},
	} {
		t.Run(name, func(t *testing.T) {
			if got := three().Select(c.w, c.severity); got != c.want {
				t.Fatalf("policy %d, want %d", got, c.want)
			}
		})
	}
}

func TestMultiLearns(t *testing.T) {
	env := &morl.Corridor{Cells: 8, Left: 0.3, Right: 1, Cost: 0.05}
	prefer := [][]float32{{0.9, 0.1}, {0.02, 0.98}}
	a := morl.NewMultiFor(prefer, env.Shape(), morl.Config{Hidden: []int{24}, Every: 4, Rate: 3e-3, Tau: 0.02, Warmup: 200, ExploreSteps: 2000}, 1)
	before := saved(t, a)
	var returns []float64
	learn(t, a, env, morl.TrainOptions{Steps: 8000, Seed: 2, Every: 2000, Report: func(p morl.Progress) error {
		returns = append(returns, p.Return[0])
		return nil
	}})
	if bytes.Equal(before, saved(t, a)) {
		t.Fatal("no weight changed")
	}
	pay, time := env.Greedy(a, prefer[0], 0.99), env.Greedy(a, prefer[1], 0.99)
	t.Logf("explored %.3f, pay policy %.3f, time policy %.3f", returns, pay, time)
	if pay[0] < 0.93 || time[1] < -0.11 {
		t.Fatalf("the pay policy earns %.3f (want 0.93 of pay), the time policy %.3f (want −0.11 of time)", pay, time)
	}
	if s := a.Stats(); s.Steps != 8000 || s.Updates == 0 || math.IsNaN(s.Loss) {
		t.Fatalf("%+v", s)
	}
}

// TestMultiLayouts trains on a corridor in which the preference (0.6, 0.4) requires the end that pays more from more cells
// than (0.4, 0.6) does: only policies that learn their own preference differ.
func TestMultiLayouts(t *testing.T) {
	for layout, c := range map[string]struct {
		policies int
		differ   bool
	}{"": {3, true}, "one": {1, false}, "unweighted": {3, false}} {
		t.Run(layout, func(t *testing.T) {
			env := &morl.Corridor{Cells: 8, Left: 1, Right: 0.3, Cost: 0.58}
			a := morl.NewMulti(env.Shape(), morl.Config{Policies: layout, Hidden: []int{24}, Every: 4, Rate: 3e-3, Tau: 0.02, Warmup: 200, ExploreSteps: 2000}, 1)
			if n := len(a.Preferences()); n != c.policies {
				t.Fatalf("%d policies, want %d", n, c.policies)
			}
			learn(t, a, env, morl.TrainOptions{Steps: 12_000, Seed: 2})
			pay, time := env.Greedy(a, []float32{0.6, 0.4}, 1), env.Greedy(a, []float32{0.4, 0.6}, 1)
			if c.differ != (pay[0] > time[0] && pay[1] < time[1]) || c.differ == slices.Equal(pay, time) {
				t.Errorf("returns %v for the preference of pay, %v for that of time; want different ones: %v", pay, time, c.differ)
			}
		})
	}
	if _, err := morl.New("multi", three().Shape(), morl.Config{Policies: "two"}, 1); err == nil {
		t.Error("an unknown layout was taken")
	}
}

func TestMultiLearnsDeepSeaTreasure(t *testing.T) {
	p := problems.DeepSeaTreasure(problems.Convex)
	prefer := [][]float32{{0.5, 0.5}, {0.02, 0.98}}
	a := morl.NewMultiFor(prefer, p.Shape(), morl.Config{Hidden: []int{64}, Every: 5, Rate: 2e-3, Tau: 0.02, Warmup: 1000, ExploreSteps: 5000, Anneal: 7000}, 3)
	learn(t, a, p, morl.TrainOptions{Steps: 10_000, Seed: 4})
	for _, w := range prefer {
		got, most := worth(t, a, p, w, 0.99)
		t.Logf("%v: %.3f of %.3f", w, got, most)
		if got < most-0.1*max(1, most) {
			t.Errorf("%v: w·return %.3f, the best is %.3f", w, got, most)
		}
	}
}

func TestMultiRefusesOtherPreferences(t *testing.T) {
	shape := three().Shape()
	other := morl.NewMultiFor([][]float32{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5, 0.5, 0}}, shape, morl.Config{Hidden: []int{8}}, 1)
	if err := other.Load(bytes.NewReader(saved(t, three()))); !errors.Is(err, morl.ErrForeign) {
		t.Fatal(err)
	}
}

func TestMultiResetOfOnePolicy(t *testing.T) {
	env := &morl.Corridor{Cells: 6, Right: 1, Cost: 0.1}
	a := morl.NewMulti(env.Shape(), morl.Config{Hidden: []int{16}, Warmup: 100, ExploreSteps: 300}, 5)
	fresh := saved(t, a)
	learn(t, a, env, morl.TrainOptions{Steps: 1500, Seed: 1})
	if bytes.Equal(saved(t, a), fresh) {
		t.Fatal("nothing was learned")
	}
	for k := range a.Preferences() {
		a.Reset(k)
	}
	if !bytes.Equal(saved(t, a), fresh) {
		t.Fatal("policies that were all reset are not new ones")
	}
}

func TestMultiActsWithinTheMask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := three()
		mask := rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(t, "mask")
		mask[rapid.IntRange(0, 2).Draw(t, "open")] = true
		w := []float32{0.2, 0.3, 0.5}
		for _, explore := range []bool{false, true} {
			if got := a.Act(morl.Observation{State: []float32{1, -1}, Mask: mask}, w, explore); !mask[got] {
				t.Fatalf("action %d of %v", got, mask)
			}
		}
	})
}
