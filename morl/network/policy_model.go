package network

import (
	"math/rand/v2"
)

// layout describes the networks of a policy and their composition. nets[:policy] compute logits; nets[value:] compute
// values. pass returns the forward and backward computation for a chunk of steps.
type layout struct {
	nets   []Config
	policy int
	value  int
	pass   func(s Shape, nets []*Network, rows int, adam func(net int) Adam) pass
	// rowActions reports that each action is a row.
	rowActions bool
}

// pass computes the steps idx of a batch forward, and adds to the gradients of its trainers backward.
type pass interface {
	logits(b *batch, idx []int) []float32 // concatenated over the steps, one per action
	values(b *batch, idx []int) []float32 // one per step
	// backward takes the derivatives with respect to the last logits and values; nil for none.
	backward(dLogits, dValues []float32)
	trainers() []*Trainer // in the order of the networks
}

// batch holds the steps of several episodes, concatenated.
type batch struct {
	features int
	actions  int       // 0: one per row
	x        []float32 // rows of all steps
	start    []int     // first row of each step, and the end
	mask     []bool    // of all actions of all steps
	from     []int     // first action of each step in mask, and the end
	taken    []int     // action of each step
	logp     []float64 // its log-probability at the time
	reward   []float64 // of each step
	episode  []int     // first step of each episode, and the end
}

func newBatch(s Shape) *batch {
	return &batch{features: s.Features, actions: s.Actions, start: []int{0}, from: []int{0}, episode: []int{0}}
}

// steps returns the number of steps.
func (b *batch) steps() int { return len(b.taken) }

// add appends a step; its reward is set later.
func (b *batch) add(o Observation, action int, logp float64) {
	b.x = append(b.x, o.X...)
	b.start = append(b.start, len(b.x)/b.features)
	n := b.actions
	if n == 0 {
		n = len(o.X) / b.features
	}
	for i := range n {
		b.mask = append(b.mask, o.Mask == nil || o.Mask[i])
	}
	b.from = append(b.from, len(b.mask))
	b.taken = append(b.taken, action)
	b.logp = append(b.logp, logp)
	b.reward = append(b.reward, 0)
}

// drop removes the last step.
func (b *batch) drop() {
	n := b.steps() - 1
	b.start, b.from = b.start[:n+1], b.from[:n+1]
	b.x, b.mask = b.x[:b.start[n]*b.features], b.mask[:b.from[n]]
	b.taken, b.logp, b.reward = b.taken[:n], b.logp[:n], b.reward[:n]
}

// join appends the only episode of another batch.
func (b *batch) join(o *batch) {
	rows, actions := len(b.x)/b.features, len(b.mask)
	b.x = append(b.x, o.x...)
	b.mask = append(b.mask, o.mask...)
	for i := range o.steps() {
		b.start = append(b.start, rows+o.start[i+1])
		b.from = append(b.from, actions+o.from[i+1])
	}
	b.taken = append(b.taken, o.taken...)
	b.logp = append(b.logp, o.logp...)
	b.reward = append(b.reward, o.reward...)
	b.episode = append(b.episode, b.steps())
}

// gather concatenates the rows of some steps.
func (b *batch) gather(dst []float32, idx []int) []float32 {
	dst = dst[:0]
	for _, i := range idx {
		dst = append(dst, b.x[b.start[i]*b.features:b.start[i+1]*b.features]...)
	}
	return dst
}

// chunkRows is the number of rows computed at a time: they fit into a cache with their activations.
const chunkRows = 1024

// chunks splits steps into runs of at most chunkRows rows, or of a single step.
func (b *batch) chunks(idx []int) [][]int {
	var list [][]int
	first, rows := 0, 0
	for i, step := range idx {
		n := b.start[step+1] - b.start[step]
		if rows+n > chunkRows && i > first {
			list = append(list, idx[first:i])
			first, rows = i, 0
		}
		rows += n
	}
	if first < len(idx) {
		list = append(list, idx[first:])
	}
	return list
}

// newNets returns the networks of a layout; the same generator state yields the same networks.
func (l layout) newNets(rng *rand.Rand) []*Network {
	var nets []*Network
	for _, c := range l.nets {
		nets = append(nets, New(c, rng))
	}
	return nets
}
