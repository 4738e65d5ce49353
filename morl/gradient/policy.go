package gradient

import (
	"math"
	"math/rand/v2"

	"trainopt/morl/network"
)

// Policy decides. It reads the parameters of the Learner that it is of; one goroutine at a time, not during an Update.
type Policy struct {
	shape      Shape
	rowActions bool
	nets       []*network.Network
	activation network.Activation
	out        [2][]float32
	p          []float64
}

// Probabilities are those of the actions: of every row, or every action of the shape; 0 for those that the mask excludes. They
// are valid until the next call.
func (p *Policy) Probabilities(o Observation) []float64 {
	logits := p.Logits(o)
	if cap(p.p) < len(logits) {
		p.p = make([]float64, len(logits))
	}
	p.p = p.p[:len(logits)]
	softmax(p.p, logits, o.Mask)
	return p.p
}

// Logits are the numbers before the softmax, of excluded actions too. They are valid until the next call.
func (p *Policy) Logits(o Observation) []float32 {
	x, rows := o.X, len(o.X)/p.shape.Features
	for i, n := range p.nets {
		if i > 0 {
			p.activation.Apply(x)
		}
		p.out[i%2] = n.Forward(p.out[i%2], x, rows)
		x = p.out[i%2]
	}
	return x
}

// Sample draws an action, and says its log-probability.
func (p *Policy) Sample(o Observation, rng *rand.Rand) (action int, logp float64) {
	probabilities := p.Probabilities(o)
	u, last := rng.Float64(), -1
	for i, q := range probabilities {
		if q > 0 {
			last = i
			if u -= q; u < 0 {
				break
			}
		}
	}
	if last < 0 { // no number is left in the networks
		last = firstAllowed(o.Mask)
	}
	return last, math.Log(probabilities[last])
}

// Greedy is the most probable action, the first of several.
func (p *Policy) Greedy(o Observation) int {
	best := firstAllowed(o.Mask)
	logits := p.Logits(o)
	for i, v := range logits {
		if (o.Mask == nil || o.Mask[i]) && v > logits[best] {
			best = i
		}
	}
	return best
}

func firstAllowed(mask []bool) int {
	for i, ok := range mask {
		if ok {
			return i
		}
	}
	return 0
}

// Clone reads the same parameters, for another goroutine.
func (p *Policy) Clone() *Policy {
	return &Policy{shape: p.shape, rowActions: p.rowActions, nets: p.nets, activation: p.activation}
}

// softmax writes the probabilities that logits stand for; those of excluded actions are 0.
func softmax(p []float64, logits []float32, mask []bool) {
	top := math.Inf(-1)
	for i, v := range logits {
		if mask == nil || mask[i] {
			top = max(top, float64(v))
		}
	}
	sum := 0.0
	for i, v := range logits {
		p[i] = 0
		if mask == nil || mask[i] {
			p[i] = math.Exp(float64(v) - top)
			sum += p[i]
		}
	}
	for i := range p {
		p[i] /= sum
	}
}
