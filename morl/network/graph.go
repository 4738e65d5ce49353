//go:build gorgonia

package network

import (
	"fmt"
	"runtime"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Graphs reports whether this build trains networks as Gorgonia graphs: it does with the tag gorgonia, which adds 9 MB
// to the program and 12 MiB to its memory.
const Graphs = true

// graph is a network as two Gorgonia programs over the parameters of the Network: the outputs, and the gradient of
// Σ outputs ⊙ dOut. Both are built once for a number of rows; fewer rows are padded. Dropout masks are inputs.
type graph struct {
	config  Config
	rows    int
	params  []*tensor.Dense // share the parameters of the Network, in their order
	parts   []*tensor.Dense // inputs: the elements of the sequence, and the rest
	masks   []*tensor.Dense // of the hidden layers
	dOut    *tensor.Dense
	forth   G.VM
	out     *G.Node
	back    G.VM
	weights G.Nodes // the nodes of params in back
}

// builder adds a network to a graph and keeps the first error.
type builder struct {
	*G.ExprGraph
	of      *graph
	weights G.Nodes
	ones    *G.Node // rows × 1
	err     error
}

// newGraph builds the programs of a network. It panics if Gorgonia refuses, which no valid Config causes.
func newGraph(n *Network, rows int) *graph {
	g := &graph{config: n.Config, rows: rows, dOut: matrix(rows, n.Outputs, nil)}
	r := n.Recurrent
	if r.Units > 0 {
		for _, l := range r.gates() { // rows of the weights for the element and for the state
			w := l.w(n.params)
			g.params = append(g.params, matrix(r.Width, l.out, w[:r.Width*l.out]), matrix(r.Units, l.out, w[r.Width*l.out:]), matrix(1, l.out, l.b(n.params)))
		}
	}
	for i, l := range n.layers {
		w, state := l.w(n.params), 0
		if i == 0 && r.Units > 0 {
			state = r.Units * l.out
			g.params = append(g.params, matrix(r.Units, l.out, w[:state]))
		}
		if state < len(w) {
			g.params = append(g.params, matrix((len(w)-state)/l.out, l.out, w[state:]))
		}
		g.params = append(g.params, matrix(1, l.out, l.b(n.params)))
	}
	for range r.Steps {
		g.parts = append(g.parts, matrix(rows, r.Width, nil))
	}
	if rest := n.Inputs - r.Steps*r.Width; rest > 0 {
		g.parts = append(g.parts, matrix(rows, rest, nil))
	}
	for _, h := range n.Hidden {
		g.masks = append(g.masks, matrix(rows, h, nil))
	}
	b := &builder{ExprGraph: G.NewGraph(), of: g}
	g.out = b.network()
	g.forth = machine(b)
	b = &builder{ExprGraph: G.NewGraph(), of: g}
	loss := b.do(G.Sum(b.times(b.network(), b.input("dOut", g.dOut))))
	if b.err == nil {
		_, b.err = G.Grad(loss, b.weights...)
	}
	g.weights = b.weights
	g.back = machine(b, G.BindDualValues(b.weights...))
	return g
}

// machine compiles a graph.
func machine(b *builder, o ...G.VMOpt) G.VM {
	if b.err != nil {
		panic(fmt.Sprintf("network: graph of %+v: %v", b.of.config, b.err))
	}
	vm := G.NewTapeMachine(b.ExprGraph, o...)
	runtime.SetFinalizer(vm, nil) // it releases CUDA devices only, and keeps the cycle of machine and graph from being freed
	return vm
}

// matrix returns a tensor over a slice; nil: of zeros.
func matrix(rows, cols int, over []float32) *tensor.Dense {
	if over == nil {
		over = make([]float32, rows*cols)
	}
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(over))
}

func (b *builder) do(n *G.Node, err error) *G.Node {
	if b.err == nil {
		b.err = err
	}
	return n
}

// input returns a node with the current content of d in every run.
func (b *builder) input(name string, d *tensor.Dense) *G.Node {
	return G.NewMatrix(b.ExprGraph, tensor.Float32, G.WithShape(d.Shape()...), G.WithName(name), G.WithValue(d))
}

func (b *builder) plus(x, y *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	return b.do(G.Add(x, y))
}

func (b *builder) times(x, y *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	return b.do(G.HadamardProd(x, y))
}

func (b *builder) scaled(x *G.Node, by float32) *G.Node { return b.times(x, G.NewConstant(by)) }

// apply applies a function of a node.
func (b *builder) apply(f func(*G.Node) (*G.Node, error), x *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	return b.do(f(x))
}

// affine returns the sum of the products of inputs with weights, plus biases; an input of nil is 0.
func (b *builder) affine(weights G.Nodes, inputs ...*G.Node) *G.Node {
	sum := b.apply(func(bias *G.Node) (*G.Node, error) { return G.Mul(b.ones, bias) }, weights[len(inputs)])
	for i, x := range inputs {
		if x != nil {
			sum = b.plus(sum, b.apply(func(x *G.Node) (*G.Node, error) { return G.Mul(x, weights[i]) }, x))
		}
	}
	return sum
}

// network returns the outputs of the network.
func (b *builder) network() *G.Node {
	g := b.of
	ones := matrix(g.rows, 1, nil)
	ones.Memset(float32(1))
	b.ones = b.input("ones", ones)
	for i, d := range g.params {
		b.weights = append(b.weights, b.input(fmt.Sprintf("weights%d", i), d))
	}
	var x G.Nodes
	for i, d := range g.parts {
		x = append(x, b.input(fmt.Sprintf("input%d", i), d))
	}
	weights := b.weights
	if steps := g.config.Recurrent.Steps; steps > 0 {
		x = append(G.Nodes{b.recurrent(weights[:9], x[:steps])}, x[steps:]...)
		weights = weights[9:]
	}
	for i := range len(g.masks) + 1 {
		y := b.affine(weights, x...)
		weights = weights[len(x)+1:]
		if i < len(g.masks) {
			y = b.times(b.activation(y), b.input(fmt.Sprintf("mask%d", i), g.masks[i]))
		}
		x = G.Nodes{y}
	}
	return x[0]
}

// recurrent returns the last state; w are the weights of element and state, and the biases, of the three gates.
func (b *builder) recurrent(w, sequence G.Nodes) *G.Node {
	var state *G.Node // the first is 0
	for _, x := range sequence {
		update := b.apply(G.Sigmoid, b.affine(w[:3], x, state))
		var kept *G.Node
		if state != nil {
			kept = b.times(b.apply(G.Sigmoid, b.affine(w[3:6], x, state)), state)
		}
		next := b.apply(G.Tanh, b.affine(w[6:], x, kept))
		if state == nil { // (1 - z) n
			state = b.plus(next, b.scaled(b.times(update, next), -1))
			continue
		}
		state = b.plus(next, b.times(update, b.plus(state, b.scaled(next, -1)))) // n + z (h - n)
	}
	return state
}

// activation applies the activation of the hidden layers.
func (b *builder) activation(z *G.Node) *G.Node {
	switch b.of.config.Activation {
	case Tanh:
		return b.apply(G.Tanh, z)
	case LeakyReLU:
		return b.apply(func(z *G.Node) (*G.Node, error) { return G.LeakyRelu(z, float64(leak)) }, z)
	case Sigmoid:
		return b.apply(G.Sigmoid, z)
	case gelu:
		half := b.scaled(z, 0.5)
		inner := b.plus(b.scaled(z, geluScale), b.scaled(b.times(z, b.times(z, z)), geluScale*geluCube))
		return b.plus(half, b.times(half, b.apply(G.Tanh, inner)))
	case silu: // the sigmoid as a tanh: Gorgonia would compute it in the memory of z
		half := b.scaled(z, 0.5)
		return b.plus(half, b.times(half, b.apply(G.Tanh, b.scaled(z, 0.5))))
	}
	return b.apply(G.Rectify, z)
}

// fill copies rows into a tensor and clears the others.
func fill(d *tensor.Dense, from []float32) {
	to := d.Data().([]float32)
	clear(to[copy(to, from):])
}

// run executes a program on the current inputs.
func (g *graph) run(vm G.VM) {
	vm.Reset()
	if err := vm.RunAll(); err != nil {
		panic(fmt.Sprintf("network: run graph of %+v: %v", g.config, err))
	}
}

// forward returns the outputs for rows inputs with the given dropout factors.
func (g *graph) forward(x []float32, masks [][]float32, rows int) []float32 {
	from := 0
	for _, d := range g.parts {
		to, width := d.Data().([]float32), d.Shape()[1]
		clear(to)
		for k := range rows {
			copy(to[k*width:(k+1)*width], x[k*g.config.Inputs+from:])
		}
		from += width
	}
	for i, m := range masks {
		fill(g.masks[i], m)
	}
	g.run(g.forth)
	return append([]float32(nil), g.out.Value().Data().([]float32)[:rows*g.config.Outputs]...)
}

// backward adds the gradient of the last forward to gradient.
func (g *graph) backward(gradient, dOut []float32, rows int) {
	fill(g.dOut, dOut[:rows*g.config.Outputs])
	for _, w := range g.weights {
		if d, err := w.Grad(); err == nil && d != nil { // the machine accumulates gradients
			d.(*tensor.Dense).Zero()
		}
	}
	g.run(g.back)
	for _, w := range g.weights {
		d, err := w.Grad()
		if err != nil {
			panic(fmt.Sprintf("network: gradient of %v: %v", w, err))
		}
		part := d.Data().([]float32)
		for i, v := range part {
			gradient[i] += v
		}
		gradient = gradient[len(part):]
	}
}
