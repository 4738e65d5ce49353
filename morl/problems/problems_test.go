package problems

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl"
)

// TestRandomPlay verifies the contract of every problem under random actions: shapes, states of order 1, rewards
// within their bounds, termination, and identical episodes for identical seeds.
func TestRandomPlay(t *testing.T) {
	bounds := map[string]struct{ low, high []float32 }{
		"deep-sea-treasure":         {[]float32{0, -1}, []float32{23.7, -1}},
		"deep-sea-treasure-concave": {[]float32{0, -1}, []float32{124, -1}},
		"resource-gathering":        {[]float32{-1, 0, 0}, []float32{0, 1, 1}},
		"minecart-deterministic":    {[]float32{0, 0, -0.2200001}, []float32{1.5, 1.5, -0.02}},
		"fruit-tree-5":              {make([]float32, 6), slices.Repeat([]float32{10}, 6)},
		"fruit-tree-6":              {make([]float32, 6), slices.Repeat([]float32{10}, 6)},
	}
	for name, build := range ByName {
		bound, ok := bounds[name]
		if !ok {
			t.Fatalf("%s: no bounds", name)
		}
		rapid.Check(t, func(r *rapid.T) {
			seed := rapid.Uint64().Draw(r, "seed")
			p, again := build(), build()
			checkFresh(r, p, name)
			rng, rngAgain := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 1))
			for range 2 {
				o, _ := p.Reset(rng), again.Reset(rngAgain)
				checkState(r, p, o, false)
				for steps := 1; ; steps++ {
					action := rng.IntN(p.Shape().Actions)
					out := p.Step(action)
					if other := again.Step(rngAgain.IntN(p.Shape().Actions)); !same(out, other) {
						r.Fatalf("%s: step %d: %v, then %v from the same seed", name, steps, out, other)
					}
					checkState(r, p, out.Observation, out.Done)
					for i, x := range out.Reward {
						if !(x >= bound.low[i] && x <= bound.high[i]) {
							r.Fatalf("%s: step %d: reward %v outside %v to %v", name, steps, out.Reward, bound.low, bound.high)
						}
					}
					if out.Work != 1 || out.Done && out.Cut || out.Cut != (steps == p.Limit() && !out.Done) {
						r.Fatalf("%s: step %d of %d: %+v", name, steps, p.Limit(), out)
					}
					if out.Done || out.Cut {
						break
					}
				}
				if !panics(func() { p.Step(0) }) {
					r.Fatalf("%s: a step after the end is taken", name)
				}
			}
		})
	}
}

func checkFresh(r *rapid.T, p Problem, name string) {
	shape := p.Shape()
	if p.Name() != name || len(p.Reference()) != len(shape.Objectives) {
		r.Fatalf("%s: named %s, reference %v, objectives %v", name, p.Name(), p.Reference(), shape.Objectives)
	}
	p.Reference()[0] = 77
	if p.Reference()[0] == 77 {
		r.Fatalf("%s: the caller can change the reference", name)
	}
	if !panics(func() { p.Step(0) }) {
		r.Fatalf("%s: a step before Reset is taken", name)
	}
}

func checkState(r *rapid.T, p Problem, o morl.Observation, done bool) {
	if len(o.State) != p.Shape().State || o.Mask != nil {
		r.Fatalf("%s: %d numbers, mask %v", p.Name(), len(o.State), o.Mask)
	}
	if _, finite := p.(*table); !finite {
		for _, x := range o.State {
			if !(x >= -1 && x <= 1) {
				r.Fatalf("%s: state %v", p.Name(), o.State)
			}
		}
		return
	}
	ones, zeros := 0, 0
	for _, x := range o.State {
		switch x {
		case 1:
			ones++
		case 0:
			zeros++
		}
	}
	if ones+zeros != len(o.State) || ones != 1 && !(done && ones == 0) {
		r.Fatalf("%s: state %v is not one-hot (done %v)", p.Name(), o.State, done)
	}
}

func TestWrongCallsPanic(t *testing.T) {
	wrong := map[string]func(p Problem){
		"front at a discount above 1": func(p Problem) { p.(solved).KnownFront(1.01) },
		"front at NaN":                func(p Problem) { p.(solved).KnownFront(math.NaN()) },
		"return at a negative one":    func(p Problem) { p.Return(func([]float32, []bool) int { return 0 }, -0.1) },
		"return with a wrong action":  func(p Problem) { p.Return(func([]float32, []bool) int { return 6 }, 0.5) },
		"step with a wrong action":    func(p Problem) { p.Reset(rand.New(rand.NewPCG(1, 1))); p.Step(-1) },
	}
	for name, call := range wrong {
		for problem, build := range ByName {
			if !panics(func() { call(build()) }) {
				t.Errorf("%s: %s goes through", problem, name)
			}
		}
	}
	if !panics(func() { fruitTree(4) }) || !panics(func() { DeepSeaTreasure(2) }) {
		t.Error("a problem that is not there is made")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func same(a, b morl.Outcome) bool {
	return slices.Equal(a.State, b.State) && slices.Equal(a.Reward, b.Reward) && a.Done == b.Done && a.Cut == b.Cut
}

func sorted(points [][]float64) [][]float64 {
	slices.SortFunc(points, slices.Compare[[]float64])
	return points
}

func samePoints(t *testing.T, got, want [][]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d points, want %d\n%v\n%v", len(got), len(want), got, want)
	}
	for i := range got {
		if !near(got[i], want[i], 1e-9) {
			t.Errorf("point %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func near(a, b []float64, tolerance float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= tolerance) {
			return false
		}
	}
	return true
}
