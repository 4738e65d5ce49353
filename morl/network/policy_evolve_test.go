package network

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEvolutionFindsTheOptimum(t *testing.T) {
	for name, c := range map[string]struct {
		shape Shape
		env   func() Environment
		c     PolicyConfig
		want  float64
	}{
		"slots":    {slotShape, newSlots, PolicyConfig{Policy: "kernel", Hidden: []int{4}}, 3.9},
		"corridor": {corridorShape, newCorridor, PolicyConfig{Hidden: []int{4}}, 0.7},
	} {
		for seed := range uint64(3) {
			l := gradientMade(t, c.shape, c.c, seed)
			e, err := NewEvolver(l, Evolution{Workers: int(seed)})
			if err != nil {
				t.Fatal(err)
			}
			for range 80 {
				if _, err := e.Generation(c.env); err != nil {
					t.Fatal(err)
				}
			}
			if got := greedy(l, c.env(), 200); got < c.want-1e-9 {
				t.Errorf("%s, seed %d: return %v, want %v", name, seed, got, c.want)
			}
		}
	}
}

// TestEvolutionOnEllipsoid minimises a badly scaled sum of squares: sigma and deviations must adapt to the scales.
func TestEvolutionOnEllipsoid(t *testing.T) {
	l := gradientMade(t, Shape{Rows: 1, Features: 9, Actions: 1}, PolicyConfig{}, 1)
	l.nets[0].Params()[0] = 0
	e, err := NewEvolver(l, Evolution{Sigma: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.mean = e.mean[:10]
	e.deviation, e.pathC, e.pathSigma = e.deviation[:10], e.pathC[:10], e.pathSigma[:10]
	for i := range e.mean {
		e.mean[i] = 3
	}
	cost := func(x []float64) (s float64) {
		scale := 1.0
		for _, v := range x {
			s += scale * v * v
			scale *= 4
		}
		return s
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 400 {
		var draws [][]float64
		for range e.config.Population {
			z := make([]float64, 10)
			for i := range z {
				z[i] = e.deviation[i] * rng.NormFloat64()
			}
			draws = append(draws, z)
		}
		at := func(z []float64) float64 {
			x := slices.Clone(e.mean)
			for i := range x {
				x[i] += e.sigma * z[i]
			}
			return cost(x)
		}
		slices.SortFunc(draws, func(a, b []float64) int {
			if at(a) < at(b) {
				return -1
			}
			return 1
		})
		e.move(draws[:len(e.weights)])
		e.generation++
	}
	if c := cost(e.mean); c > 1e-9 {
		t.Errorf("cost %v after 400 generations, want below 1e-9", c)
	}
}

func TestEvolutionSameOnAnyWorkers(t *testing.T) {
	var want []float32
	for _, workers := range []int{1, 3} {
		l := gradientMade(t, slotShape, PolicyConfig{Policy: "kernel", Hidden: []int{4}}, 2)
		e, err := NewEvolver(l, Evolution{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := e.Generation(newSlots); err != nil {
				t.Fatal(err)
			}
		}
		got := l.Networks()[0].Params()
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("parameters differ with %d workers", workers)
		}
	}
}
