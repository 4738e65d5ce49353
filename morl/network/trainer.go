package network

import (
	"errors"
	"math"
	"math/rand/v2"
)

// Adam holds the settings of the optimiser (Kingma and Ba, 2015, algorithm 1).
type Adam struct {
	Rate         float32 // learning rate; 0: 3e-4
	Beta1, Beta2 float32 // 0: 0.9, 0.999
	Epsilon      float32 // 0: 1e-8
	ClipNorm     float32 // maximum global norm of a gradient; 0: no clipping
}

// WithDefaults returns the settings with zeros replaced by the defaults.
func (o Adam) WithDefaults() Adam {
	or := func(v *float32, d float32) {
		if *v == 0 {
			*v = d
		}
	}
	or(&o.Rate, 3e-4)
	or(&o.Beta1, 0.9)
	or(&o.Beta2, 0.999)
	or(&o.Epsilon, 1e-8)
	return o
}

// Trainer holds the training state of one network: activations, gradients, moments. It is not safe for concurrent
// use.
type Trainer struct {
	net      *Network
	opt      Adam
	maxRows  int
	rows     int         // of the last Forward; 0: none
	x        []float32   // its inputs, copied
	acts     [][]float32 // outputs of each layer, after activation and dropout
	deltas   [2][]float32
	turned   []float32 // a layer's weights, transposed
	keys     []uint64  // of the dropout mask of each hidden layer
	dropping bool
	gradient []float32
	m, v     []float32 // Adam's moments
	pow1     float64   // Beta1 to the number of steps
	pow2     float64
	graph    *graph      // computes outputs and gradients instead; nil: the loops of this package
	masks    [][]float32 // of the graph
}

// Trainable returns the reason why this build has no gradient of such networks; nil if it has.
func (c Config) Trainable() error {
	switch {
	case c.Graph && Graphs, c.Recurrent.Units == 0 && c.Activation <= Sigmoid:
		return nil
	case c.Recurrent.Units > 0:
		return errors.New("a recurrent layer is trained only as a Gorgonia graph")
	}
	return errors.New("activation " + c.Activation.String() + " is trained only as a Gorgonia graph")
}

// NewTrainer returns a Trainer of n for batches of at most rows rows. The zero Adam has the documented defaults.
// Memory: four times the parameters, and two times the activations of a batch. A network that is not Trainable can be
// passed too: Forward works without a gradient, unless the network is recurrent.
func NewTrainer(n *Network, rows int, o Adam) *Trainer {
	t := &Trainer{net: n, opt: o.WithDefaults(), maxRows: rows, pow1: 1, pow2: 1}
	t.keys = make([]uint64, len(n.Hidden))
	t.gradient = make([]float32, len(n.params))
	t.m, t.v = make([]float32, len(n.params)), make([]float32, len(n.params))
	if n.Graph && Graphs || n.Recurrent.Units > 0 {
		return t // the first Forward builds the graph
	}
	t.x = make([]float32, rows*n.Inputs)
	widest, heaviest := 0, 0
	for _, l := range n.layers {
		t.acts = append(t.acts, make([]float32, rows*l.out))
		widest, heaviest = max(widest, l.in), max(heaviest, l.in*l.out)
	}
	for i := range t.deltas {
		t.deltas[i] = make([]float32, rows*widest)
	}
	t.turned = make([]float32, heaviest)
	return t
}

// Forward computes the outputs of rows inputs (rows×Inputs, row-major) and retains the activations for Backward.
// Hidden units are dropped with masks drawn from rng (one draw per hidden layer); nil: no dropout. The result
// (rows×Outputs) is valid until the next Forward. It panics if rows exceeds the limit passed to NewTrainer.
func (t *Trainer) Forward(x []float32, rows int, rng *rand.Rand) []float32 {
	checkRows("Trainer.Forward", x, rows, t.net.Inputs)
	if rows > t.maxRows {
		panic("network: Trainer.Forward: more rows than NewTrainer prepared for")
	}
	t.rows = rows
	t.dropping = rng != nil && t.net.Dropout > 0
	if t.acts == nil {
		return t.forwardGraph(x, rng)
	}
	x = t.x[:copy(t.x, x)]
	last := len(t.acts) - 1
	for i, l := range t.net.layers {
		y := t.acts[i][:rows*l.out]
		t.net.Activation.layer(y, x, l, t.net.params, rows, i < last)
		if i < last && t.dropping {
			t.keys[i] = rng.Uint64()
			drop(y, t.keys[i], threshold(t.net.Dropout), t.keepScale())
		}
		x = y
	}
	return t.acts[last][:rows*t.net.Outputs]
}

// forwardGraph is Forward by the graph, which is built first if necessary.
func (t *Trainer) forwardGraph(x []float32, rng *rand.Rand) []float32 {
	if t.graph == nil {
		t.graph, t.masks = newGraph(t.net, t.maxRows), make([][]float32, len(t.net.Hidden))
	}
	for i := range t.masks {
		if t.dropping {
			t.keys[i] = rng.Uint64()
		}
		t.masks[i] = t.Mask(t.masks[i], i)
	}
	return t.graph.forward(x, t.masks, t.rows)
}

// keepScale returns the factor of the hidden units that the last Forward kept.
func (t *Trainer) keepScale() float32 {
	if !t.dropping {
		return 1
	}
	return 1 / (1 - t.net.Dropout)
}

// Mask writes the dropout factors of a hidden layer (0 is the first) in the last Forward to dst (rows × the layer's
// size, row-major), which is allocated if nil or too small: 0 for a dropped unit, 1/(1-p) for a kept one; all 1
// without dropout.
func (t *Trainer) Mask(dst []float32, hidden int) []float32 {
	dst = resize(dst, t.rows*t.net.Hidden[hidden])
	for i := range dst {
		dst[i] = 1
	}
	if t.dropping {
		drop(dst, t.keys[hidden], threshold(t.net.Dropout), t.keepScale())
	}
	return dst
}

// Backward adds to the gradient that of a loss with derivative dOut (rows×Outputs) with respect to the outputs of the
// last Forward. dInput, if not nil, receives the derivative with respect to the inputs (rows×Inputs). It panics
// without a preceding Forward. A graph computes no derivative with respect to the inputs: dInput must be nil.
func (t *Trainer) Backward(dOut, dInput []float32) {
	checkRows("Backward: dOut", dOut, t.rows, t.net.Outputs)
	if dInput != nil {
		checkRows("Backward: dInput", dInput, t.rows, t.net.Inputs)
	}
	if t.graph != nil {
		if dInput != nil {
			panic("network: Backward: a graph has no derivative with respect to the inputs")
		}
		t.graph.backward(t.gradient, dOut, t.rows)
		return
	}
	if err := t.net.Trainable(); err != nil {
		panic("network: Backward: " + err.Error())
	}
	delta := dOut
	for i := len(t.net.layers) - 1; i >= 0; i-- {
		l := t.net.layers[i]
		x := t.x
		if i > 0 {
			x = t.acts[i-1]
		}
		x = x[:t.rows*l.in]
		addWeightGradient(l.w(t.gradient), x, delta, t.turned, t.rows, l.in, l.out)
		addColumnSums(l.b(t.gradient), delta, t.rows, l.out)
		if i == 0 && dInput == nil {
			return
		}
		below := dInput
		if i > 0 {
			below = t.deltas[i%2][:t.rows*l.in]
		}
		w := t.turned[:l.in*l.out]
		transpose(w, l.w(t.net.params), l.in, l.out)
		product(t.rows, l.in, l.out, delta, l.out, 1, w, below, nil, 0)
		if i > 0 {
			if t.dropping && t.net.Activation != ReLU { // dropped units of ReLU are zero, and thus inactive
				drop(below, t.keys[i-1], threshold(t.net.Dropout), t.keepScale())
			}
			t.net.Activation.backward(below, x, t.keepScale())
		}
		delta = below
	}
}

// Gradient returns the gradient accumulated since the last Step, in the order of Params. The slice aliases the
// Trainer.
func (t *Trainer) Gradient() []float32 { return t.gradient }

// Step clips the gradient, updates the parameters by Adam, and clears the gradient. It returns the norm before
// clipping. A gradient with NaN or infinity leaves the parameters unchanged, is cleared too, and yields a NaN or
// infinite norm.
func (t *Trainer) Step() float32 {
	norm := math.Sqrt(sumOfSquares(t.gradient))
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		clear(t.gradient)
		return float32(norm)
	}
	scale := float32(1)
	if t.opt.ClipNorm > 0 && norm > float64(t.opt.ClipNorm) {
		scale = float32(float64(t.opt.ClipNorm) / norm)
	}
	t.pow1 *= float64(t.opt.Beta1)
	t.pow2 *= float64(t.opt.Beta2)
	adam(t.net.params, t.gradient, t.m, t.v, adamFactors{
		scale: scale,
		beta1: t.opt.Beta1, beta2: t.opt.Beta2,
		rest1: 1 - t.opt.Beta1, rest2: 1 - t.opt.Beta2,
		rate:    float32(float64(t.opt.Rate) / (1 - t.pow1)),
		root:    float32(1 / math.Sqrt(1-t.pow2)),
		epsilon: t.opt.Epsilon,
		tinyM:   1e-30, tinyV: 1e-36,
	})
	return float32(norm)
}

// SetRate changes the learning rate of subsequent steps; the moments are unchanged.
func (t *Trainer) SetRate(rate float32) { t.opt.Rate = rate }

// Forget clears gradient and moments: the next Step is like the first one.
func (t *Trainer) Forget() {
	clear(t.gradient)
	clear(t.m)
	clear(t.v)
	t.pow1, t.pow2 = 1, 1
}
