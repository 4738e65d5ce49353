package network

import "math"

// Activation is what the hidden units of a network compute of their weighted sum z. The zero value is ReLU.
type Activation uint8

const (
	ReLU      Activation = iota // max(0, z)
	Tanh                        // tanh z, in float64 and rounded once
	LeakyReLU                   // z, or 0.01 z where it is negative
)

// leak is the slope of LeakyReLU below zero.
const leak float32 = 0.01

func (a Activation) String() string {
	switch a {
	case ReLU:
		return "relu"
	case Tanh:
		return "tanh"
	case LeakyReLU:
		return "leaky relu"
	}
	return "unknown activation"
}

// layer computes the outputs y of a layer for rows inputs x, hidden ones through the activation.
func (a Activation) layer(y, x []float32, l layer, params []float32, rows int, hidden bool) {
	affine(y, x, l.w(params), l.b(params), rows, l.in, l.out, hidden && a == ReLU)
	if hidden && a != ReLU {
		a.Apply(y[:rows*l.out])
	}
}

// Apply replaces sums by activations.
func (a Activation) Apply(z []float32) {
	switch a {
	case ReLU:
		for i, v := range z {
			if v < 0 {
				z[i] = 0
			}
		}
	case Tanh:
		for i, v := range z {
			z[i] = float32(math.Tanh(float64(v)))
		}
	case LeakyReLU:
		for i, v := range z {
			if v < 0 {
				z[i] = leak * v
			}
		}
	}
}

// Backward turns derivatives d by the activations h into those by the sums.
func (a Activation) Backward(d, h []float32) { a.backward(d, h, 1) }

// backward turns derivatives d by the activations h of a layer into those by its sums. Kept units were scaled by scale, and
// where units were dropped, derivatives are masked already.
func (a Activation) backward(d, h []float32, scale float32) {
	switch a {
	case ReLU:
		reluBackward(d, h, scale)
	case Tanh:
		keep := 1 / scale
		for i, v := range h {
			v *= keep
			d[i] *= 1 - v*v
		}
	case LeakyReLU:
		for i, v := range h {
			if v <= 0 {
				d[i] *= leak
			}
		}
	}
}
