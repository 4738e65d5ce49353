package network

import (
	"math"
	"math/rand/v2"
)

// Policy selects actions with the parameters of its Learner. It is not safe for concurrent use, nor during an Update.
type Policy struct {
	shape      Shape
	rowActions bool
	nets       []*Network
	activation Activation
	out        [2][]float32
	p          []float64
}

// Probabilities returns the probability of each row, or of each action of the shape; 0 for masked ones. The result is
// valid until the next call.
func (p *Policy) Probabilities(o Observation) []float64 {
	logits := p.Logits(o)
	if cap(p.p) < len(logits) {
		p.p = make([]float64, len(logits))
	}
	p.p = p.p[:len(logits)]
	softmax(p.p, logits, o.Mask)
	return p.p
}

// Logits returns the inputs of the softmax, including those of masked actions. The result is valid until the next
// call.
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

// Sample draws an action and returns its log-probability.
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
	if last < 0 { // all outputs of the networks are NaN
		last = firstAllowed(o.Mask)
	}
	return last, math.Log(probabilities[last])
}

// Greedy returns the most probable action, the first of equals.
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

// firstAllowed returns the first allowed action; 0 if mask is nil.
func firstAllowed(mask []bool) int {
	for i, ok := range mask {
		if ok {
			return i
		}
	}
	return 0
}

// softmax writes the probabilities of logits; those of masked actions are 0.
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
