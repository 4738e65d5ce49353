package metis

import (
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl/network"
)

// policy is a network with one hidden layer of tanh units and one logit per action. It consists of two linear maps,
// so that the hidden units can be computed faster than by package network.
type policy struct {
	first, second *network.Network
}

// hiddenUnits is the width of every network of Metis.
const hiddenUnits = 128

// newPolicy initialises a policy as Metis does: weights from N(0, 0.3), biases 0.1.
func newPolicy(inputs, actions, hidden int, rng *rand.Rand) *policy {
	p := &policy{
		first:  network.New(network.Config{Inputs: inputs, Outputs: hidden}, rng),
		second: network.New(network.Config{Inputs: hidden, Outputs: actions}, rng),
	}
	for _, n := range []*network.Network{p.first, p.second} {
		w := n.Params()
		for i := range w {
			if w[i] = 0.1; i < n.Inputs*n.Outputs {
				w[i] = float32(0.3 * rng.NormFloat64())
			}
		}
	}
	return p
}

func (p *policy) inputs() int  { return p.first.Inputs }
func (p *policy) actions() int { return p.second.Outputs }

// inferenceBuffers is the memory that one goroutine requires to evaluate policies.
type inferenceBuffers struct {
	hidden, logits []float32
}

// ask returns the logits of the given number of observations, valid until the next call.
func (t *inferenceBuffers) ask(p *policy, x []float32, rows int) []float32 {
	t.hidden = p.first.Forward(t.hidden, x, rows)
	tanh(t.hidden[:rows*p.first.Outputs])
	t.logits = p.second.Forward(t.logits, t.hidden[:rows*p.first.Outputs], rows)
	return t.logits[:rows*p.second.Outputs]
}

// softmax replaces logits by probabilities.
func softmax(z []float32) {
	most := slices.Max(z)
	sum := float32(0)
	for i, v := range z {
		z[i] = float32(math.Exp(float64(v - most)))
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
}

// drawAction draws an action from probabilities.
func drawAction(p []float32, rng *rand.Rand) int {
	u, last := rng.Float32(), 0
	for i, v := range p {
		if v > 0 {
			if last = i; u < v {
				return i
			}
			u -= v
		}
	}
	return last
}

// greedy returns the action of the largest logit, the first of equal ones.
func greedy(z []float32) int {
	best := 0
	for i, v := range z {
		if v > z[best] {
			best = i
		}
	}
	return best
}

// tanh replaces each number by its hyperbolic tangent, by Eigen's rational approximation with polynomials of degrees
// 13 and 6. It is accurate to 4 units in the last place, and twenty times as fast as the float64 version.
func tanh(z []float32) {
	for i, x := range z {
		x = max(-7.90531110763549805, min(7.90531110763549805, x))
		s := x * x
		p := s*float32(-2.76076847742355e-16) + float32(2.00018790482477e-13)
		p = s*p + float32(-8.60467152213735e-11)
		p = s*p + float32(5.12229709037114e-08)
		p = s*p + float32(1.48572235717979e-05)
		p = s*p + float32(6.37261928875436e-04)
		p = s*p + float32(4.89352455891786e-03)
		q := s*float32(1.19825839466702e-06) + float32(1.18534705686654e-04)
		q = s*q + float32(2.26843463243900e-03)
		q = s*q + float32(4.89352518554385e-03)
		z[i] = x * p / q
	}
}
