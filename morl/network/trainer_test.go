package network

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGradientAgainstDifferences compares with a plain float64 perceptron, differentiated by central differences.
func TestGradientAgainstDifferences(t *testing.T) {
	for name, c := range map[string]Config{
		"linear":      {Inputs: 3, Outputs: 2},
		"one hidden":  {Inputs: 5, Hidden: []int{7}, Outputs: 3},
		"two, drop":   {Inputs: 4, Hidden: []int{9, 6}, Outputs: 2, Dropout: 0.3},
		"wide, drop":  {Inputs: 21, Hidden: []int{33, 40}, Outputs: 27, Dropout: 0.1},
		"value":       {Inputs: 48, Hidden: []int{20, 17}, Outputs: 1},
		"three, drop": {Inputs: 2, Hidden: []int{16, 8, 32}, Outputs: 1, Dropout: 0.5},
		"tanh":        {Inputs: 5, Hidden: []int{17, 6}, Outputs: 3, Activation: Tanh},
		"tanh, drop":  {Inputs: 4, Hidden: []int{9, 33}, Outputs: 2, Dropout: 0.4, Activation: Tanh},
		"leaky":       {Inputs: 5, Hidden: []int{17, 6}, Outputs: 3, Activation: LeakyReLU},
		"leaky, drop": {Inputs: 4, Hidden: []int{9, 33}, Outputs: 2, Dropout: 0.4, Activation: LeakyReLU},
	} {
		t.Run(name, func(t *testing.T) { checkGradient(t, c, 11) })
	}
}

func checkGradient(t *testing.T, c Config, rows int) {
	rng := rand.New(rand.NewPCG(7, 9))
	n := New(c, rng)
	for i := range n.params { // move biases and outputs away from zero
		n.params[i] += float32(0.1 * rng.NormFloat64())
	}
	tr := NewTrainer(n, rows+3, Adam{})
	x, dOut := normals(rng, rows*c.Inputs), normals(rng, rows*c.Outputs)
	y := tr.Forward(x, rows, rng)
	ref := newReference(tr, x, dOut)
	out, _ := ref.run()
	for i := range y {
		if d := math.Abs(float64(y[i]) - out[i]); d > 1e-5*(1+math.Abs(out[i])) {
			t.Fatalf("output %d: %v, reference %v", i, y[i], out[i])
		}
	}
	dInput := make([]float32, rows*c.Inputs)
	tr.Backward(dOut, dInput)
	compare := func(what string, got []float32, at []float64) {
		t.Helper()
		for i := range got {
			want, smooth := ref.difference(&at[i])
			if !smooth {
				continue
			}
			if d := math.Abs(float64(got[i]) - want); d > 3e-5*(1+math.Abs(want)) {
				t.Fatalf("%s %d: %v, central difference %v", what, i, got[i], want)
			}
		}
	}
	compare("parameter", tr.Gradient(), ref.params)
	compare("input", dInput, ref.x)
}

func normals(rng *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rng.NormFloat64())
	}
	return s
}

// reference is the network of a trainer in float64 with the masks of its last Forward; the loss is Σ dOut·output.
type reference struct {
	layers          []layer
	activation      Activation
	params, x, dOut []float64
	masks           [][]float32
	rows            int
}

func newReference(t *Trainer, x, dOut []float32) *reference {
	r := &reference{layers: t.net.layers, activation: t.net.Activation, params: widen(t.net.params), x: widen(x), dOut: widen(dOut), rows: t.rows}
	for i := range t.net.Hidden {
		r.masks = append(r.masks, t.Mask(nil, i))
	}
	return r
}

func widen(s []float32) []float64 {
	w := make([]float64, len(s))
	for i, v := range s {
		w[i] = float64(v)
	}
	return w
}

// run returns the outputs and a fingerprint of the active hidden units.
func (r *reference) run() (out []float64, active uint64) {
	x := r.x
	for i, l := range r.layers {
		y := make([]float64, r.rows*l.out)
		for row := range r.rows {
			for j := range l.out {
				s := r.params[l.biases+j]
				for k := range l.in {
					s += x[row*l.in+k] * r.params[l.weights+k*l.out+j]
				}
				if i < len(r.layers)-1 {
					active *= 0x100000001b3
					switch {
					case r.activation == Tanh:
						s = math.Tanh(s)
					case s <= 0:
						if s *= 0.01; r.activation == ReLU {
							s = 0
						}
						active++
					}
					s *= float64(r.masks[i][row*l.out+j])
				}
				y[row*l.out+j] = s
			}
		}
		x = y
	}
	return x, active
}

// difference returns the central difference of the loss with respect to one number; smooth is false if a unit
// switches in between.
func (r *reference) difference(at *float64) (slope float64, smooth bool) {
	const h = 1e-6
	old := *at
	*at = old + h
	up, a := r.run()
	*at = old - h
	down, b := r.run()
	*at = old
	for i, d := range r.dOut {
		slope += d * (up[i] - down[i])
	}
	return slope / (2 * h), a == b
}
