package network

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Recurrent describes a layer of gated recurrent units (Cho et al., EMNLP 2014, section 2.3): the first Steps × Width
// inputs are a sequence, oldest first, and the state after its last element takes its place among the inputs of the
// layers above, before the remaining inputs. The zero value means no such layer. A Trainer needs a graph for it.
type Recurrent struct {
	Units        int // state numbers
	Steps, Width int // elements of the sequence (2 or more), numbers in each
}

// validate checks the layer for a network with the given number of inputs.
func (r Recurrent) validate(inputs int) error {
	if r == (Recurrent{}) {
		return nil
	}
	if r.Units < 1 || r.Steps < 2 || r.Width < 1 || max(r.Units, r.Steps, r.Width) > maxParams || r.Steps*r.Width > inputs || r.params() > maxParams {
		return fmt.Errorf("network recurrent layer of %d units over %d × %d of %d inputs: want 1 unit and 2 steps or more, and at most %d parameters",
			r.Units, r.Steps, r.Width, inputs, maxParams)
	}
	return nil
}

// gates returns the update gate, the reset gate and the candidate; the inputs of each are an element and the state.
func (r Recurrent) gates() (g [3]layer) {
	in := r.Width + r.Units
	for i := range g {
		at := i * (in + 1) * r.Units
		g[i] = layer{in: in, out: r.Units, weights: at, biases: at + in*r.Units}
	}
	return g
}

// params returns the number of parameters, 0 without a layer.
func (r Recurrent) params() int { return 3 * (r.Width + r.Units + 1) * r.Units }

// width returns the number of inputs of the first fully connected layer.
func (c Config) width() int {
	return c.Inputs + c.Recurrent.Units - c.Recurrent.Steps*c.Recurrent.Width
}

// initialise draws the weights with variance 1 / inputs.
func (r Recurrent) initialise(params []float32, rng *rand.Rand) {
	if r.Units == 0 {
		return
	}
	scale := math.Sqrt(1 / float64(r.Width+r.Units))
	for _, g := range r.gates() {
		w := g.w(params)
		for j := range w {
			w[j] = float32(scale * rng.NormFloat64())
		}
	}
}

// cell holds the buffers of a recurrent layer.
type cell struct{ pair, gate, reset, next, out []float32 }

// forward returns the inputs of the first fully connected layer (rows × width), valid until the next call with s.
func (r Recurrent) forward(s *cell, x, params []float32, rows, inputs int) []float32 {
	u, in, rest := r.Units, r.Width+r.Units, inputs-r.Steps*r.Width
	s.pair, s.out = resize(s.pair, rows*in), resize(s.out, rows*(u+rest))
	s.gate, s.reset, s.next = resize(s.gate, rows*u), resize(s.reset, rows*u), resize(s.next, rows*u)
	clear(s.pair) // the first state is 0
	g := r.gates()
	for step := range r.Steps {
		for k := range rows {
			copy(s.pair[k*in:], x[k*inputs+step*r.Width:k*inputs+(step+1)*r.Width])
		}
		affine(s.gate, s.pair, g[0].w(params), g[0].b(params), rows, in, u, false)
		affine(s.reset, s.pair, g[1].w(params), g[1].b(params), rows, in, u, false)
		Sigmoid.Apply(s.gate)
		Sigmoid.Apply(s.reset)
		for k := range rows { // out holds the state while pair holds what the reset gate leaves of it
			state := s.pair[k*in+r.Width : (k+1)*in]
			copy(s.out[k*(u+rest):], state)
			for i, v := range s.reset[k*u : (k+1)*u] {
				state[i] *= v
			}
		}
		affine(s.next, s.pair, g[2].w(params), g[2].b(params), rows, in, u, false)
		Tanh.Apply(s.next)
		for k := range rows {
			state, old := s.pair[k*in+r.Width:(k+1)*in], s.out[k*(u+rest):]
			for i, z := range s.gate[k*u : (k+1)*u] {
				state[i] = (1-z)*s.next[k*u+i] + z*old[i]
			}
		}
	}
	for k := range rows {
		row := s.out[k*(u+rest) : (k+1)*(u+rest)]
		copy(row[copy(row, s.pair[k*in+r.Width:(k+1)*in]):], x[k*inputs+r.Steps*r.Width:(k+1)*inputs])
	}
	return s.out
}
