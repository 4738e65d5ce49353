// Package network implements the function approximators of the agents: multilayer perceptrons in float32, their exact
// gradients, and Adam. It allocates no memory in steady state and starts no threads: the same seed yields the same
// bits on any number of cores. The arithmetic of the processor determines the bits (see current).
//
// It is not a general tool for automatic differentiation: one type of network, trained on one core. Activations and
// recurrent layers without a gradient here are trained as Gorgonia graphs, in builds with the tag gorgonia; every build
// evaluates them. Learner and evolver train policies over such networks for scalar rewards.
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

// Config describes a perceptron: fully connected layers, activation and dropout after each hidden one, linear
// outputs.
type Config struct {
	Inputs, Outputs int
	Hidden          []int   // sizes of the hidden layers; nil: a linear map
	Dropout         float32 // probability of dropping a hidden unit in training, 0 ≤ p < 1 (inverted scaling)
	Activation      Activation
	Recurrent       Recurrent // first layer; the zero value: none
	Graph           bool      // a Trainer computes gradients by a Gorgonia graph if the build has it (see Graphs)
}

// maxParams bounds the size of a network: 256 MiB of parameters.
const maxParams = 1 << 26

// Validate reports the first problem of the configuration: a size below 1, more than 2²⁶ parameters, a probability
// outside [0, 1), an unknown activation.
func (c Config) Validate() error {
	if err := c.Recurrent.validate(c.Inputs); err != nil {
		return err
	}
	in, total := c.width(), c.Recurrent.params()
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
	if int(c.Activation) >= len(Activations) {
		return fmt.Errorf("network activation %d: want 0 to %d", c.Activation, len(Activations)-1)
	}
	return nil
}

// layer is one fully connected layer within a slice of parameters: in×out weights, row-major, at weights, and out
// biases after them, at biases.
type layer struct {
	in, out         int
	weights, biases int
}

func (l layer) w(p []float32) []float32 { return p[l.weights:l.biases:l.biases] }
func (l layer) b(p []float32) []float32 { return p[l.biases : l.biases+l.out : l.biases+l.out] }

// layers returns the fully connected layers and the number of all parameters; those of a recurrent layer come first.
func (c Config) layers() (list []layer, params int) {
	in, params := c.width(), c.Recurrent.params()
	for _, out := range append(slices.Clone(c.Hidden), c.Outputs) {
		list = append(list, layer{in: in, out: out, weights: params, biases: params + in*out})
		params += (in + 1) * out
		in = out
	}
	return list, params
}

// Network is a perceptron. Concurrent reads, including Forward, are safe as long as the parameters are not modified.
type Network struct {
	Config
	params  []float32
	layers  []layer
	scratch sync.Pool // of *scratch: activations of concurrent Forward calls
}

// New returns a network with He-normal weights (He et al., 2015, section 2.2) and zero biases. The weights of the
// output layer are scaled by 0.1, so that the initial policy is nearly uniform and the initial values are nearly
// zero. Another initialisation can be written to Params. It panics if the configuration is not valid.
func New(c Config, rng *rand.Rand) *Network {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	n := &Network{}
	n.shape(c)
	n.Recurrent.initialise(n.params, rng)
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

// shape sets the configuration and allocates zero parameters.
func (n *Network) shape(c Config) {
	c.Hidden = slices.Clone(c.Hidden)
	layers, params := c.layers()
	n.Config, n.layers, n.params = c, layers, make([]float32, params)
}

// Params returns all weights and biases as one slice that aliases the network: layer by layer, first the weights
// (inputs × outputs, row-major: the weights of one input are adjacent), then the biases.
func (n *Network) Params() []float32 { return n.params }

// Forward computes the outputs of rows inputs (row-major, rows×Inputs) without dropout into dst (rows×Outputs), which
// is allocated if nil or too small, and returns it. It makes no other allocation in steady state and is safe for
// concurrent use. The bits of a row's result do not depend on the number of rows (as long as the parameters are
// finite: the weights of a zero input may not be read). Cost: O(rows × parameters).
func (n *Network) Forward(dst, x []float32, rows int) []float32 {
	checkRows("Forward", x, rows, n.Inputs)
	dst = resize(dst, rows*n.Outputs)
	s, _ := n.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	if n.Recurrent.Units > 0 {
		x = n.Recurrent.forward(&s.cell, x, n.params, rows, n.Inputs)
	}
	last := len(n.layers) - 1
	for i, l := range n.layers {
		y := dst
		if i < last {
			s.acts[i%2] = resize(s.acts[i%2], rows*l.out)
			y = s.acts[i%2]
		}
		n.Activation.layer(y, x, l, n.params, rows, i < last)
		x = y
	}
	n.scratch.Put(s)
	return dst
}

// scratch holds the activations of one Forward call.
type scratch struct {
	acts [2][]float32
	cell cell
}

// checkRows panics unless x has rows rows of width numbers.
func checkRows(what string, x []float32, rows, width int) {
	if rows < 0 || len(x) != rows*width {
		panic(fmt.Sprintf("network: %s: %d numbers for %d rows of %d", what, len(x), rows, width))
	}
}

// resize returns a slice of n elements, reusing s if its capacity suffices; the content is undefined.
func resize(s []float32, n int) []float32 { return slices.Grow(s[:0], n)[:n] }

// CopyFrom copies the parameters of a network of the same Config. It panics if the sizes differ.
func (n *Network) CopyFrom(o *Network) {
	n.mustMatch("CopyFrom", o)
	copy(n.params, o.params)
}

// Blend moves the parameters towards o's, p += tau (o - p), for Polyak averaging of target networks. 0 changes
// nothing, 1 copies. It panics if the sizes differ.
func (n *Network) Blend(o *Network, tau float32) {
	n.mustMatch("Blend", o)
	if tau == 1 {
		copy(n.params, o.params)
		return
	}
	blend(n.params, o.params, tau)
}

// Same reports whether networks of both configurations compute the same function of the same parameters.
func (c Config) Same(o Config) bool {
	return c.Inputs == o.Inputs && c.Outputs == o.Outputs && slices.Equal(c.Hidden, o.Hidden) && c.Activation == o.Activation && c.Recurrent == o.Recurrent
}

// mustMatch panics unless both networks have the same layers.
func (n *Network) mustMatch(what string, o *Network) {
	if !n.Same(o.Config) {
		panic(fmt.Sprintf("network: %s: %v from %v", what, n.Config, o.Config))
	}
}
