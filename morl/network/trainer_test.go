package network

import (
	"math"
	"math/rand/v2"
	"slices"
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
		"sigmoid":     {Inputs: 5, Hidden: []int{17, 6}, Outputs: 3, Dropout: 0.4, Activation: Sigmoid},
	} {
		t.Run(name, func(t *testing.T) { checkGradient(t, c, 11) })
	}
}

// graphOnly contains networks that only a graph trains.
var graphOnly = map[string]Config{
	"gelu":             {Inputs: 5, Hidden: []int{17, 6}, Outputs: 3, Activation: gelu},
	"silu, drop":       {Inputs: 5, Hidden: []int{9, 33}, Outputs: 2, Dropout: 0.4, Activation: silu},
	"recurrent":        {Inputs: 17, Hidden: []int{8}, Outputs: 3, Recurrent: Recurrent{Units: 6, Steps: 3, Width: 5}},
	"recurrent, whole": {Inputs: 8, Outputs: 2, Recurrent: Recurrent{Units: 3, Steps: 4, Width: 2}},
	"recurrent, gelu":  {Inputs: 12, Hidden: []int{8, 8, 4}, Outputs: 3, Dropout: 0.2, Activation: gelu, Recurrent: Recurrent{Units: 7, Steps: 2, Width: 5}},
}

// TestForwardOfEveryLayer compares the outputs of layers without a gradient with the float64 reference.
func TestForwardOfEveryLayer(t *testing.T) {
	for name, c := range graphOnly {
		if c.Trainable() == nil {
			t.Errorf("%s: trainable without a graph", name)
		}
		n, rng := moved(c), rand.New(rand.NewPCG(7, 9))
		x := normals(rng, 11*c.Inputs)
		out, _ := newReference(NewTrainer(n, 11, Adam{}), x, nil, 11).run()
		all := n.Forward(nil, x, 11)
		for i, v := range all {
			if d := math.Abs(float64(v) - out[i]); d > 1e-5*(1+math.Abs(out[i])) {
				t.Fatalf("%s: output %d: %v, reference %v", name, i, v, out[i])
			}
		}
		if one := n.Forward(nil, x[:c.Inputs], 1); !slices.Equal(one, all[:c.Outputs]) {
			t.Errorf("%s: a row alone gives other bits", name)
		}
	}
}

// moved returns a network with biases and outputs away from zero.
func moved(c Config) *Network {
	rng := rand.New(rand.NewPCG(7, 9))
	n := New(c, rng)
	for i := range n.params {
		n.params[i] += float32(0.1 * rng.NormFloat64())
	}
	return n
}

func checkGradient(t *testing.T, c Config, rows int) {
	rng := rand.New(rand.NewPCG(7, 10))
	n := moved(c)
	tr := NewTrainer(n, rows+3, Adam{})
	x, dOut := normals(rng, rows*c.Inputs), normals(rng, rows*c.Outputs)
	y := tr.Forward(x, rows, rng)
	ref := newReference(tr, x, dOut, rows)
	out, _ := ref.run()
	for i := range y {
		if d := math.Abs(float64(y[i]) - out[i]); d > 1e-5*(1+math.Abs(out[i])) {
			t.Fatalf("output %d: %v, reference %v", i, y[i], out[i])
		}
	}
	var dInput []float32
	if !c.Graph {
		dInput = make([]float32, rows*c.Inputs)
	}
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
	*Network
	params, x, dOut []float64
	masks           [][]float32
	rows            int
}

func newReference(t *Trainer, x, dOut []float32, rows int) *reference {
	r := &reference{Network: t.net, params: widen(t.net.params), x: widen(x), dOut: widen(dOut), rows: rows}
	t.rows = rows
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
	if r.Recurrent.Units > 0 {
		x = r.recur()
	}
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
					case r.Activation == Tanh:
						s = math.Tanh(s)
					case r.Activation == Sigmoid:
						s = 1 / (1 + math.Exp(-s))
					case r.Activation == silu:
						s /= 1 + math.Exp(-s)
					case r.Activation == gelu:
						s *= 0.5 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(s+0.044715*s*s*s)))
					case s <= 0:
						if s *= 0.01; r.Activation == ReLU {
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

// recur returns the inputs of the first fully connected layer.
func (r *reference) recur() (all []float64) {
	c := r.Recurrent
	for row := range r.rows {
		x, h := r.x[row*r.Inputs:(row+1)*r.Inputs], make([]float64, c.Units)
		gate := func(l layer, x, h []float64) []float64 {
			s := slices.Clone(r.params[l.biases : l.biases+l.out])
			for k, v := range append(slices.Clone(x), h...) {
				for j := range s {
					s[j] += v * r.params[l.weights+k*l.out+j]
				}
			}
			return s
		}
		for range c.Steps {
			now, g, kept := x[:c.Width], c.gates(), make([]float64, c.Units)
			z, reset := gate(g[0], now, h), gate(g[1], now, h)
			for j := range kept {
				kept[j] = h[j] / (1 + math.Exp(-reset[j]))
			}
			for j, n := range gate(g[2], now, kept) {
				z := 1 / (1 + math.Exp(-z[j]))
				h[j] = (1-z)*math.Tanh(n) + z*h[j]
			}
			x = x[c.Width:]
		}
		all = append(append(all, h...), x...)
	}
	return all
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
