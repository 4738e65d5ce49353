package learned

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

// sample draws an action from probabilities.
func sample(p []float32, rng *rand.Rand) int {
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
