// Package network has the function approximators of the learning agents: multilayer perceptrons in float32.
package network

import (
	"io"
	"math/rand/v2"
)

// Config describes a perceptron: fully connected layers, ReLU and dropout after each hidden one, linear outputs.
type Config struct {
	Inputs, Outputs int
	Hidden          []int   // sizes of the hidden layers; nil: a linear map
	Dropout         float32 // probability of dropping a hidden unit while training, 0 ≤ p < 1 (inverted scaling)
}

// Network is a perceptron. Reading it from several goroutines is safe while no one writes.
type Network struct {
	Config
	params []float32
}

// New makes a network with He-normal weights and zero biases (the output layer's weights scaled by 0.1).
func New(c Config, rng *rand.Rand) *Network { panic("not written yet") }

// Params are all weights and biases, one slice that aliases the network, in a documented order.
func (n *Network) Params() []float32 { return n.params }

// Forward computes the outputs of rows inputs (row-major, rows×Inputs) without dropout into dst (rows×Outputs), which is
// allocated when nil or too small, and returns it. It allocates nothing else in steady state. Safe for concurrent use? No: one scratch a network.
func (n *Network) Forward(dst, x []float32, rows int) []float32 { panic("not written yet") }

// CopyFrom copies the parameters of a network of the same Config.
func (n *Network) CopyFrom(o *Network) {}

// Blend moves the parameters towards o's: p += tau (o - p). Polyak averaging of target networks.
func (n *Network) Blend(o *Network, tau float32) {}

// WriteTo and ReadFrom store Config and parameters, little-endian, with a checksum.
func (n *Network) WriteTo(w io.Writer) (int64, error)  { panic("not written yet") }
func (n *Network) ReadFrom(r io.Reader) (int64, error) { panic("not written yet") }

// Adam are the settings of the optimiser (Kingma and Ba, 2015).
type Adam struct {
	Rate         float32 // 0: 3e-4
	Beta1, Beta2 float32 // 0: 0.9, 0.999
	Epsilon      float32 // 0: 1e-8
	ClipNorm     float32 // largest global norm of a gradient, 0: no clipping
}

// Trainer holds what training one network needs: activations, gradients, moments. One goroutine at a time.
type Trainer struct{}

// NewTrainer prepares training of n on batches of at most rows.
func NewTrainer(n *Network, rows int, o Adam) *Trainer { panic("not written yet") }

// Forward computes the outputs and keeps the activations for Backward. Hidden units are dropped with masks drawn from
// rng; nil: no dropout. The result is valid until the next Forward.
func (t *Trainer) Forward(x []float32, rows int, rng *rand.Rand) []float32 { panic("not written yet") }

// Backward adds to the gradient that of a loss whose derivative by the outputs of the last Forward is dOut (rows×Outputs).
// dInput, when not nil, receives the derivative by the inputs (rows×Inputs).
func (t *Trainer) Backward(dOut, dInput []float32) {}

// Gradient aliases the gradient accumulated since the last Step, in the order of Params.
func (t *Trainer) Gradient() []float32 { return nil }

// Step clips the gradient, moves the parameters by Adam, and clears the gradient. It returns the norm before clipping.
func (t *Trainer) Step() float32 { return 0 }

// Forget clears gradient and moments.
func (t *Trainer) Forget() {}
