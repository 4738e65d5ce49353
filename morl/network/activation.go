package network

// Activation is the function that hidden units apply to their weighted sum z. The zero value is ReLU.
type Activation uint8

const (
	ReLU      Activation = iota // max(0, z)
	Tanh                        // tanh z, within 4e-7
	LeakyReLU                   // z, or 0.01 z if negative
	Sigmoid                     // 1 / (1 + exp -z)
	gelu                        // z/2 (1 + tanh √(2/π) (z + 0.044715 z³)), Hendrycks and Gimpel 2016
	silu                        // z sigmoid z
)

// Activations are the names of the activations, in the order of their values.
var Activations = []string{"relu", "tanh", "leaky", "sigmoid", "gelu", "silu"}

// leak is the slope of LeakyReLU below zero.
const leak float32 = 0.01

// The constants of GELU.
const (
	geluScale float32 = 0.7978845608028654 // √(2/π)
	geluCube  float32 = 0.044715
)

// String returns the lower-case name of the activation.
func (a Activation) String() string {
	if int(a) < len(Activations) {
		return Activations[a]
	}
	return "unknown activation"
}

// sigmoid returns 1 / (1 + exp -x).
func sigmoid(x float32) float32 { return 0.5 + 0.5*tanh(0.5*x) }

// tanh is the rational approximation of Eigen, and thus of TensorFlow, for float32: an odd polynomial of degree 13
// over an even one of degree 6. Every product is rounded before it is added, so that the bits are the same
// everywhere.
func tanh(v float32) float32 {
	const end = 7.90531110763549805 // the result is 1 from here on
	x := float64(v)
	switch {
	case x >= end:
		return 1
	case x <= -end:
		return -1
	}
	s := float64(x * x)
	p := -2.76076847742355e-16
	p = float64(p*s) + 2.00018790482477e-13
	p = float64(p*s) - 8.60467152213735e-11
	p = float64(p*s) + 5.12229709037114e-08
	p = float64(p*s) + 1.48572235717979e-05
	p = float64(p*s) + 6.37261928875436e-04
	p = float64(p*s) + 4.89352455891786e-03
	q := 1.19825839466702e-06
	q = float64(q*s) + 1.18534705686654e-04
	q = float64(q*s) + 2.26843463243900e-03
	q = float64(q*s) + 4.89352518554385e-03
	return float32(x * p / q)
}

// layer computes the outputs y of a layer for rows inputs x, with the activation applied in hidden layers.
func (a Activation) layer(y, x []float32, l layer, params []float32, rows int, hidden bool) {
	affine(y, x, l.w(params), l.b(params), rows, l.in, l.out, hidden && a == ReLU)
	if hidden && a != ReLU {
		a.Apply(y[:rows*l.out])
	}
}

// Apply replaces weighted sums by activations, in place.
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
			z[i] = tanh(v)
		}
	case LeakyReLU:
		for i, v := range z {
			if v < 0 {
				z[i] = leak * v
			}
		}
	case Sigmoid:
		for i, v := range z {
			z[i] = sigmoid(v)
		}
	case gelu:
		for i, v := range z {
			z[i] = 0.5 * v * (1 + tanh(geluScale*(v+geluCube*v*v*v)))
		}
	case silu:
		for i, v := range z {
			z[i] = v * sigmoid(v)
		}
	}
}

// Backward converts derivatives d with respect to the activations h into derivatives with respect to the sums, in
// place. GELU and SiLU have no such function: their derivative is not a function of h.
func (a Activation) Backward(d, h []float32) { a.backward(d, h, 1) }

// backward is Backward for a layer with dropout: kept units were scaled by scale, and the derivatives of dropped
// units must already be masked.
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
	case Sigmoid:
		keep := 1 / scale
		for i, v := range h {
			v *= keep
			d[i] *= v * (1 - v)
		}
	}
}
