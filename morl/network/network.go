// Package network has the function approximators of the learning agents: multilayer perceptrons in float32, their
// exact gradients, and Adam. Nothing is allocated in steady state, and nothing runs in threads of its own: the same seed
// gives the same bits on any number of cores. Kernel says which arithmetic is in use and what its bits depend on.
//
// It is not a general tool for automatic differentiation: one shape of network, trained on one core. morl/network/graph
// has the same networks as Gorgonia graphs, and the tests there show that both agree.
//
// Example, one step of regression:
//
//	rng := rand.New(rand.NewPCG(1, 2))
//	n := network.New(network.Config{Inputs: 21, Hidden: []int{256, 256}, Outputs: 1}, rng)
//	t := network.NewTrainer(n, 64, network.Adam{})
//	y := t.Forward(x, 64, nil)
//	for i := range y {
//		dOut[i] = 2 * (y[i] - target[i]) / 64
//	}
//	t.Backward(dOut, nil)
//	t.Step()
package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// Config describes a perceptron: fully connected layers, an activation and dropout after each hidden one, linear outputs.
type Config struct {
	Inputs, Outputs int
	Hidden          []int   // sizes of the hidden layers; nil: a linear map
	Dropout         float32 // probability of dropping a hidden unit while training, 0 ≤ p < 1 (inverted scaling)
	Activation      Activation
}

// maxParams bounds a network that is read or made: 256 MiB of parameters.
const maxParams = 1 << 26

// Validate says what is wrong with the configuration: a size below 1, a network of more than 2²⁶ parameters, a
// probability outside [0, 1), an unknown activation.
func (c Config) Validate() error {
	in, total := c.Inputs, 0
	for i, out := range append(slices.Clone(c.Hidden), c.Outputs) {
		if in < 1 || out < 1 || in > maxParams || out > maxParams {
			return fmt.Errorf("network layer %d: %d inputs, %d outputs: want 1 to %d of each", i, in, out, maxParams)
		}
		if total += (in + 1) * out; total > maxParams {
			return fmt.Errorf("network %v: more than %d parameters", c, maxParams)
		}
		in = out
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		return fmt.Errorf("network dropout %v: want 0 ≤ p < 1", c.Dropout)
	}
	if c.Activation > LeakyReLU {
		return fmt.Errorf("network activation %d: want 0 to %d", c.Activation, LeakyReLU)
	}
	return nil
}

func (c Config) equal(o Config) bool {
	return c.Inputs == o.Inputs && c.Outputs == o.Outputs && c.Dropout == o.Dropout && c.Activation == o.Activation &&
		slices.Equal(c.Hidden, o.Hidden)
}

// layer is one fully connected layer inside a slice of parameters: in×out weights, row-major, at weights; out biases
// behind them, at biases.
type layer struct {
	in, out         int
	weights, biases int
}

func (l layer) w(p []float32) []float32 { return p[l.weights:l.biases:l.biases] }
func (l layer) b(p []float32) []float32 { return p[l.biases : l.biases+l.out : l.biases+l.out] }

// layers lists the layers and the number of parameters.
func (c Config) layers() (list []layer, params int) {
	in := c.Inputs
	for _, out := range append(slices.Clone(c.Hidden), c.Outputs) {
		list = append(list, layer{in: in, out: out, weights: params, biases: params + in*out})
		params += (in + 1) * out
		in = out
	}
	return list, params
}

// Network is a perceptron. Reading it from several goroutines, Forward included, is safe while no one writes.
type Network struct {
	Config
	params  []float32
	layers  []layer
	scratch sync.Pool // of *[2][]float32: hidden activations of a Forward in progress
}

// New makes a network with He-normal weights (He et al., 2015, section 2.2) and zero biases; the output layer's weights
// are scaled by 0.1, so that the first policy is nearly uniform and the first values nearly zero. Another start is written
// into Params. It panics when the configuration is not valid.
func New(c Config, rng *rand.Rand) *Network {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	n := &Network{}
	n.shape(c)
	for i, l := range n.layers {
		scale := math.Sqrt(2 / float64(l.in))
		if i == len(n.layers)-1 {
			scale *= 0.1
		}
		w := l.w(n.params)
		for j := range w {
			w[j] = float32(scale * rng.NormFloat64())
		}
	}
	return n
}

func (n *Network) shape(c Config) {
	c.Hidden = slices.Clone(c.Hidden)
	layers, params := c.layers()
	n.Config, n.layers, n.params = c, layers, make([]float32, params)
}

// Params are all weights and biases, one slice that aliases the network: layer after layer, each first its weights
// (inputs × outputs, row-major: the weights of one input are neighbours), then its biases.
func (n *Network) Params() []float32 { return n.params }

// Forward computes the outputs of rows inputs (row-major, rows×Inputs) without dropout into dst (rows×Outputs), which is
// allocated when nil or too small, and returns it. It allocates nothing else in steady state. Safe for concurrent
// readers. A row's result has the same bits whatever the number of rows beside it (as long as the parameters are finite:
// the weights of an input that is zero may not be read).
// Cost: O(rows × parameters).
func (n *Network) Forward(dst, x []float32, rows int) []float32 {
	checkRows("Forward", x, rows, n.Inputs)
	dst = resize(dst, rows*n.Outputs)
	s, _ := n.scratch.Get().(*[2][]float32)
	if s == nil {
		s = new([2][]float32)
	}
	last := len(n.layers) - 1
	for i, l := range n.layers {
		y := dst
		if i < last {
			s[i%2] = resize(s[i%2], rows*l.out)
			y = s[i%2]
		}
		n.Activation.layer(y, x, l, n.params, rows, i < last)
		x = y
	}
	n.scratch.Put(s)
	return dst
}

// checkRows panics when x does not hold rows rows of width.
func checkRows(what string, x []float32, rows, width int) {
	if rows < 0 || len(x) != rows*width {
		panic(fmt.Sprintf("network: %s: %d numbers for %d rows of %d", what, len(x), rows, width))
	}
}

// resize returns s with n elements, allocated when it is too small; the contents are unspecified.
func resize(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// CopyFrom copies the parameters of a network of the same Config; it panics when the sizes differ.
func (n *Network) CopyFrom(o *Network) {
	n.mustMatch("CopyFrom", o)
	copy(n.params, o.params)
}

// Blend moves the parameters towards o's: p += tau (o - p). Polyak averaging of target networks. 0 changes nothing, 1
// copies. It panics when the sizes differ.
func (n *Network) Blend(o *Network, tau float32) {
	n.mustMatch("Blend", o)
	if tau == 1 {
		copy(n.params, o.params)
		return
	}
	blend(n.params, o.params, tau)
}

func (n *Network) mustMatch(what string, o *Network) {
	if n.Inputs != o.Inputs || n.Outputs != o.Outputs || !slices.Equal(n.Hidden, o.Hidden) {
		panic(fmt.Sprintf("network: %s: %v from %v", what, n.Config, o.Config))
	}
}
