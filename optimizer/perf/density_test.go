package perf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"trainopt/resources"
)

// evaluated returns the posterior of a job on several nodes, with everything on which a density depends: recalled and long
// segments, effects, utilization and repeated places.
func evaluated() *posterior {
	j := newSynthetic(3, polluxJob)
	var obs []Observation
	for i, a := range []resources.Allocation{gpus(8, 8), gpus(1, 8), gpus(2, 4), gpus(8, 8), {CPUs: 8}, {GPUs: 2, CPUs: 8, Threads: 4}} {
		o := j.observe(a, 5+10*i)
		o.Recalled = i == 1 || i == 2
		o.Effects = []Effect{{Name: "depth", Level: 0.1 * float64(i%3)}}
		o.Used = Utilization{CPUs: float64(i % 2), GPUs: float64(a.GPUs)}
		obs = append(obs, o)
	}
	stretches, noise := summarise(obs)
	at := newPointer(stretches, stretches[0].at)
	ctx := formContext{ref: at.at(stretches[0].at), gpusPerNode: 4}
	return newPosterior(newPollux(ctx), ctx, stretches, at, noise)
}

// TestEvaluationsDoNotDependOnEarlierOnes compares each density along a path, in bits, with that of a posterior that has
// evaluated nothing before.
func TestEvaluationsDoNotDependOnEarlierOnes(t *testing.T) {
	p, rng := evaluated(), rand.New(rand.NewPCG(1, 2))
	z := make([]float64, p.dim())
	for step := range 400 {
		switch step % 8 {
		case 0:
			for i := range z {
				z[i] = rng.NormFloat64()
			}
		case 3: // the same point
		case 5:
			p.reweigh(z)
		default:
			z[rng.IntN(len(z))] = rng.NormFloat64()
		}
		fresh := evaluated()
		copy(fresh.own, p.own)
		for i, s := range p.stretches {
			fresh.stretches[i].trust = s.trust
		}
		if got, want := p.logDensity(z), fresh.logDensity(z); math.Float64bits(got) != math.Float64bits(want) || math.IsInf(want, 0) {
			t.Fatalf("step %d: log density %v, without earlier evaluations %v", step, got, want)
		}
	}
}

// TestModeIsThatOfMinimize compares the search for a mode with gonum's own loop, in bits.
func TestModeIsThatOfMinimize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	moved := 0
	for range 20 {
		p := evaluated()
		start := make([]float64, p.dim())
		for i := range start {
			start[i] = rng.NormFloat64()
		}
		negative := func(x []float64) float64 { return -p.logDensity(x) }
		problem := optimize.Problem{Func: negative, Grad: func(grad, x []float64) {
			const h = 1e-5
			for i := range x {
				work := slices.Clone(x)
				work[i] += h
				grad[i] = (negative(work) - negative(x)) / h
			}
		}}
		want, value := start, negative(start)
		if r, _ := optimize.Minimize(problem, start, &optimize.Settings{MajorIterations: modeIterations, GradientThreshold: modeSlope}, &optimize.BFGS{}); r.F < value {
			want, value = r.X, r.F
			moved++
		}
		if got, density := p.mode(start); !slices.Equal(got, want) || density != -value {
			t.Errorf("mode %v with log density %v, want %v with %v", got, density, want, -value)
		}
	}
	if moved < 15 {
		t.Errorf("only %d of 20 searches moved", moved)
	}
}

// TestLogWeights compares the weights, in bits, with the formula of the density of a mixture of Student distributions.
func TestLogWeights(t *testing.T) {
	const d = 5
	rng := rand.New(rand.NewPCG(1, 4))
	zs := make([][]float64, 150)
	for k := range zs {
		zs[k] = make([]float64, d)
		for i := range zs[k] {
			zs[k][i] = rng.NormFloat64() + zs[k][max(0, i-1)]
		}
	}
	density := make([]float64, len(zs))
	mixture := append(kernelComponents(zs, zs[:7], density), component{make([]float64, d), identity(d), identity(d), 1, 0.3})
	for k, got := range logWeights(density, mixture, zs) {
		var sum float64
		for _, c := range mixture {
			var r2 float64
			for i := range d {
				var v float64
				for j := range d {
					v += c.inverse.At(i, j) * (zs[k][j] - c.centre[j])
				}
				r2 += v * v
			}
			density := c.share * c.height
			for range (freedom(d) + d) / 2 {
				density *= 1 / (1 + r2/float64(freedom(d)))
			}
			sum += density
		}
		if want := density[k] - math.Log(sum); got != want {
			t.Fatalf("point %d: log weight %v, want %v", k, got, want)
		}
	}
}

// TestTruncate: no weight is more than its largest share of the sum, smaller ones keep their value, and weights without a dominating one
// are left alone.
func TestTruncate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for range 200 {
		w := make([]float64, 2+rng.IntN(400))
		for i := range w {
			w[i] = math.Exp(8 * rng.NormFloat64() * rng.Float64())
		}
		before := slices.Clone(w)
		truncate(w)
		top, sum := slices.Max(w), 0.0
		for i, v := range w {
			if sum += v; v != before[i] && v != top {
				t.Fatalf("weight %v becomes %v, below the limit %v", before[i], v, top)
			}
		}
		if len(w) > 16 && top > mostOfOne*sum*(1+1e-9) {
			t.Fatalf("%d weights: the largest is %v of the sum", len(w), top/sum)
		}
		if slices.Max(before) <= mostOfOne*floats.Sum(before) && !slices.Equal(w, before) {
			t.Fatal("weights without a dominating one change")
		}
	}
	for _, w := range [][]float64{{1, 0, 0}, {0, 0}, make([]float64, 100)} {
		before := slices.Clone(w)
		if truncate(w); !slices.Equal(w, before) {
			t.Errorf("%v becomes %v", before, w)
		}
	}
}
