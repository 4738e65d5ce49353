package network

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func (l level) String() string {
	return [...]string{"Go", "C", "C, AVX2", "C, AVX-512"}[l]
}

// levels returns the levels that this build and processor support.
func levels() []level {
	switch best := bestLevel(); best {
	case levelGo:
		return []level{levelGo}
	case levelPortable:
		return []level{levelGo, levelPortable}
	case levelAVX2:
		return []level{levelGo, levelPortable, levelAVX2}
	default:
		return []level{levelGo, levelPortable, levelAVX2, levelAVX512}
	}
}

// with runs f with one kernel.
func with(l level, f func()) {
	old := current
	defer func() { current = old }()
	current = l
	f()
}

// TestProductIsExactChain requires that every C kernel is an exact chain of fused multiply-adds over k, whatever the
// shape, the strides and the adjacent data.
func TestProductIsExactChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(1, 21).Draw(t, "m"), rapid.IntRange(1, 150).Draw(t, "n"), rapid.IntRange(1, 40).Draw(t, "k")
		if rapid.Bool().Draw(t, "long") {
			m, n, k = 1, rapid.IntRange(1, 300).Draw(t, "n1"), rapid.IntRange(500, 1100).Draw(t, "k1")
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a, b, bias := normals(rng, m*k), normals(rng, k*n), normals(rng, n)
		for i := range a {
			if rng.IntN(3) == 0 {
				a[i] = 0
			}
		}
		rs, cs := k, 1
		if rapid.Bool().Draw(t, "turned") {
			rs, cs = 1, m
		}
		flags := rapid.IntRange(0, 3).Draw(t, "flags")
		if rapid.Bool().Draw(t, "no bias") {
			bias = nil
		}
		start := normals(rng, m*n+8)
		want := slices.Clone(start)
		for i := range m {
			for j := range n {
				s := float32(0)
				if flags&accumulate != 0 {
					s = want[i*n+j]
				} else if bias != nil {
					s = bias[j]
				}
				for p := range k {
					s = fma32(a[i*rs+p*cs], b[p*n+j], s)
				}
				if flags&relu != 0 && s < 0 {
					s = 0
				}
				want[i*n+j] = s
			}
		}
		for _, l := range levels() {
			got := slices.Clone(start)
			with(l, func() { product(m, n, k, a, rs, cs, b, got[:m*n], bias, flags) })
			for i := range got {
				if l == levelGo && i < m*n {
					if d := math.Abs(float64(got[i] - want[i])); d > 1e-6*float64(k)*(1+math.Abs(float64(want[i]))) {
						t.Fatalf("%v: element %d is %v, want %v", l, i, got[i], want[i])
					}
				} else if got[i] != want[i] {
					t.Fatalf("%v: element %d of %d×%d is %v, want %v", l, i, m, n, got[i], want[i])
				}
			}
		}
	})
}

// fma32 rounds once: the product is exact in float64, and the sum is rounded to odd before it is rounded to float32.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if t := s - p; true { // two-sum: e is the rounding error of the addition
		if e := (p - (s - t)) + (c - t); e != 0 && math.Float64bits(s)&1 == 0 {
			if (e > 0) == (s > 0) {
				s = math.Float64frombits(math.Float64bits(s) + 1)
			} else {
				s = math.Float64frombits(math.Float64bits(s) - 1)
			}
		}
	}
	return float32(s)
}

// TestElementwiseSameBitsEverywhere requires the same bits in Go and in C for everything except products.
func TestElementwiseSameBitsEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		rows := rapid.IntRange(1, 40).Draw(t, "rows")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		p, g, m, v, o := normals(rng, n), normals(rng, n), normals(rng, n), normals(rng, n), normals(rng, n)
		for i := range v {
			v[i] *= v[i]
			if rng.IntN(4) == 0 {
				g[i], m[i], v[i] = 0, m[i]*1e-30, v[i]*1e-36
			}
		}
		wide, sums, key, square := normals(rng, rows*n), normals(rng, n), rng.Uint64(), normals(rng, rows*n)
		run := func() (out []float32) {
			p, g, m, v := slices.Clone(p), slices.Clone(g), slices.Clone(m), slices.Clone(v)
			norm := sumOfSquares(g)
			adam(p, g, m, v, adamFactors{0.7, 0.9, 0.999, 0.1, 0.001, 3e-4, 1.7, 1e-8, 1e-30, 1e-36})
			out = slices.Concat(out, p, g, m, v)
			blend(p, o, 0.005)
			d, s, turned := slices.Clone(wide), slices.Clone(sums), make([]float32, rows*n)
			reluBackward(d, square, 1.25)
			addColumnSums(s, d, rows, n)
			drop(d, key, threshold(0.3), 1.25)
			transpose(turned, d, rows, n)
			return append(slices.Concat(out, p, d, s, turned), float32(norm), float32(norm-float64(float32(norm))))
		}
		var want []float32
		for i, l := range levels() {
			var got []float32
			with(l, func() { got = run() })
			if i == 0 {
				want = got
			}
			for j := range got {
				if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
					t.Fatalf("%v: number %d is %v, in Go %v", l, j, got[j], want[j])
				}
			}
		}
	})
}

// TestTrainingSameBitsOnEveryKernel requires the same bits of whole training runs on every C kernel.
func TestTrainingSameBitsOnEveryKernel(t *testing.T) {
	for _, a := range []Activation{ReLU, Tanh, LeakyReLU} {
		var want []float32
		for _, l := range levels() {
			var got []float32
			with(l, func() {
				got = trainSome(Config{Inputs: 21, Hidden: []int{65, 40}, Outputs: 9, Dropout: 0.2, Activation: a}, 30)
			})
			if l == levelGo { // different rounding
				continue
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, %v: parameters differ from those of %v", l, a, levelPortable)
			}
		}
	}
}

// trainSome fits random targets for some steps and returns the parameters.
func trainSome(c Config, steps int) []float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	n := New(c, rng)
	tr := NewTrainer(n, 64, Adam{Rate: 1e-3, ClipNorm: 1})
	x, y, d := normals(rng, 64*c.Inputs), normals(rng, 64*c.Outputs), make([]float32, 64*c.Outputs)
	for range steps {
		for i, v := range tr.Forward(x, 64, rng) {
			d[i] = (v - y[i]) / 64
		}
		tr.Backward(d, nil)
		tr.Step()
	}
	return n.Params()
}

func TestMaskShare(t *testing.T) {
	c := Config{Inputs: 1, Hidden: []int{1000, 500}, Outputs: 1, Dropout: 0.3}
	rng := rand.New(rand.NewPCG(1, 1))
	tr := NewTrainer(New(c, rng), 100, Adam{})
	tr.Forward(make([]float32, 100), 100, rng)
	first := slices.Clone(tr.Mask(nil, 0))
	zero, lag := 0, 0
	for i, v := range first {
		if v == 0 {
			zero++
			if first[(i+1000)%len(first)] == 0 { // the same unit in the next row
				lag++
			}
		} else if math.Abs(float64(v)-1/0.7) > 1e-6 {
			t.Fatalf("a kept unit has the factor %v, want 1/0.7", v)
		}
	}
	// 100,000 draws: a standard deviation is 0.0014 of the share.
	if share := float64(zero) / 1e5; math.Abs(share-0.3) > 0.006 {
		t.Errorf("share of dropped units %v, want 0.3", share)
	}
	if share := float64(lag) / float64(zero); math.Abs(share-0.3) > 0.012 {
		t.Errorf("share of dropped units after a dropped one %v, want 0.3: masks of rows depend on each other", share)
	}
	tr.Forward(make([]float32, 100), 100, rng)
	if slices.Equal(first, tr.Mask(nil, 0)) {
		t.Error("two draws gave the same mask")
	}
}
