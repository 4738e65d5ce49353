package network_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"trainopt/morl/network"
)

// The networks of the agents as Gorgonia graphs, against which those of this package are checked: an actor (softmax policy) and a
// critic (state and action to one value, or one per objective), with their losses, gradients by automatic differentiation and
// Gorgonia's own Adam. A graph is built once for a number of rows, reused for every step, and released by Close. Its parameters are
// copied from and to a network.Network. Dropout masks are inputs: equal masks give equal results, so that gradients can be verified.

// Float is the precision of a graph: float32 for training, float64 for the verification of gradients.
type Float interface{ float32 | float64 }

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("graph is closed")

// program is a Gorgonia graph with its virtual machine.
type program struct {
	graph *G.ExprGraph
	vm    G.VM
}

// run executes the graph once.
func (p *program) run() error {
	p.vm.Reset()
	return p.vm.RunAll()
}

// release frees the machine. Unless its finalizer is removed, machine and graph keep each other alive.
func (p *program) release() {
	if p.vm != nil {
		p.vm.Close()
		runtime.SetFinalizer(p.vm, nil)
	}
	p.vm, p.graph = nil, nil
}

// perceptron is the common part of actor and critic: parameters, masks, a training program and a forward program.
type perceptron[T Float] struct {
	config   network.Config
	adam     network.Adam
	rows     int
	params   []*tensor.Dense // weights (in×out) and biases (1×out) alternately, shared by both programs
	masks    []*tensor.Dense // of the hidden layers, rows×size
	inputs   []*tensor.Dense // one or two tensors, concatenated to the inputs
	train    program
	weights  G.Nodes // the nodes of params in train
	loss     *G.Node
	forward  program
	out      *G.Node
	solver   *G.AdamSolver
	computed bool // a gradient is available for Step
}

// dense returns a tensor of zeros.
func dense[T Float](rows, cols int) *tensor.Dense {
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(make([]T, rows*cols)))
}

// numbers returns the backing slice of a tensor.
func numbers[T Float](d *tensor.Dense) []T { return d.Data().([]T) }

// newPerceptron allocates parameters, masks, inputs and solver; build adds the graphs. Only ReLU is supported.
func newPerceptron[T Float](c network.Config, rows int, adam network.Adam, inputs ...int) (*perceptron[T], error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Activation != network.ReLU {
		return nil, fmt.Errorf("graph of a network with activation %v: only relu is built", c.Activation)
	}
	if rows < 1 {
		return nil, fmt.Errorf("graph of %d rows: want 1 or more", rows)
	}
	p := &perceptron[T]{config: c, adam: adam.WithDefaults(), rows: rows}
	for _, n := range inputs {
		p.inputs = append(p.inputs, dense[T](rows, n))
	}
	in := c.Inputs
	for _, n := range c.Hidden {
		p.params = append(p.params, dense[T](in, n), dense[T](1, n))
		p.masks = append(p.masks, dense[T](rows, n))
		in = n
	}
	p.params = append(p.params, dense[T](in, c.Outputs), dense[T](1, c.Outputs))
	p.solver = G.NewAdamSolver(G.WithLearnRate(float64(p.adam.Rate)), G.WithBeta1(float64(p.adam.Beta1)),
		G.WithBeta2(float64(p.adam.Beta2)), G.WithEps(float64(p.adam.Epsilon)))
	return p, p.SetMasks(nil)
}

// layers adds the perceptron to a graph, with masks when training, and returns its outputs before any softmax.
func (p *perceptron[T]) layers(g *G.ExprGraph, training bool) (out *G.Node, weights G.Nodes, err error) {
	var parts G.Nodes
	for i, d := range p.inputs {
		parts = append(parts, node(g, fmt.Sprintf("input%d", i), d))
	}
	x := parts[0]
	if len(parts) > 1 {
		if x, err = G.Concat(1, parts...); err != nil {
			return nil, nil, err
		}
	}
	for i := 0; i < len(p.params); i += 2 {
		w, b := node(g, fmt.Sprintf("weights%d", i/2), p.params[i]), node(g, fmt.Sprintf("biases%d", i/2), p.params[i+1])
		weights = append(weights, w, b)
		if x, err = G.Mul(x, w); err != nil {
			return nil, nil, err
		}
		if p.rows == 1 { // BroadcastAdd does not support a single row
			x, err = G.Add(x, b)
		} else {
			x, err = G.BroadcastAdd(x, b, nil, []byte{0})
		}
		if err != nil {
			return nil, nil, err
		}
		if hidden := i / 2; hidden < len(p.masks) {
			if x, err = G.Rectify(x); err != nil {
				return nil, nil, err
			}
			if training {
				if x, err = G.HadamardProd(x, node(g, fmt.Sprintf("mask%d", hidden), p.masks[hidden])); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	return x, weights, nil
}

// node returns an input of the graph backed by d: a run uses the current content of d.
func node(g *G.ExprGraph, name string, d *tensor.Dense) *G.Node {
	return G.NewMatrix(g, d.Dtype(), G.WithShape(d.Shape()...), G.WithName(name), G.WithValue(d))
}

// build creates both programs: loss computes the loss from the outputs, and output the result of Forward.
func (p *perceptron[T]) build(loss, output func(out *G.Node) (*G.Node, error)) (err error) {
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	train := G.NewGraph()
	out, weights, err := p.layers(train, true)
	if err == nil {
		p.loss, err = loss(out)
	}
	if err == nil {
		_, err = G.Grad(p.loss, weights...)
	}
	if err != nil {
		return fmt.Errorf("build training graph of %v: %w", p.config, err)
	}
	p.weights = weights
	p.train = program{graph: train, vm: G.NewTapeMachine(train, G.BindDualValues(weights...))}
	forward := G.NewGraph()
	if out, _, err = p.layers(forward, false); err == nil {
		p.out, err = output(out)
	}
	if err != nil {
		return fmt.Errorf("build forward graph of %v: %w", p.config, err)
	}
	p.forward = program{graph: forward, vm: G.NewTapeMachine(forward)}
	return nil
}

// Close releases both graphs. Later calls return ErrClosed; closing twice has no effect.
func (p *perceptron[T]) Close() error {
	p.train.release()
	p.forward.release()
	p.weights, p.loss, p.out, p.solver, p.computed = nil, nil, nil, nil, false
	return nil
}

// closed reports whether Close was called.
func (p *perceptron[T]) closed() bool { return p.train.vm == nil }

// fill copies from into a tensor of the same size.
func fill[T Float](what string, d *tensor.Dense, from []T) error {
	to := numbers[T](d)
	if len(from) != len(to) {
		return fmt.Errorf("graph: %s: %d numbers, want %v", what, len(from), d.Shape())
	}
	copy(to, from)
	return nil
}

// SetMasks sets the dropout factors of the hidden layers for subsequent losses, each rows × the layer's size: 0 for a
// dropped unit, 1/(1-p) for a kept one, as written by network.Trainer.Mask. nil means all 1, no dropout.
func (p *perceptron[T]) SetMasks(masks [][]T) error {
	if masks != nil && len(masks) != len(p.masks) {
		return fmt.Errorf("graph: %d masks for %d hidden layers", len(masks), len(p.masks))
	}
	for i, d := range p.masks {
		if masks == nil {
			for j := range numbers[T](d) {
				numbers[T](d)[j] = 1
			}
		} else if err := fill(fmt.Sprintf("mask %d", i), d, masks[i]); err != nil {
			return err
		}
	}
	return nil
}

// Params returns a copy of the parameters, in the order of network.Network.Params.
func (p *perceptron[T]) Params() []T {
	var all []T
	for _, d := range p.params {
		all = append(all, numbers[T](d)...)
	}
	return all
}

// SetParams sets the parameters, in the order of network.Network.Params. The moments of Adam are unchanged.
func (p *perceptron[T]) SetParams(all []T) error {
	if want := len(p.Params()); len(all) != want {
		return fmt.Errorf("graph: set parameters: %d numbers, want %d", len(all), want)
	}
	for _, d := range p.params {
		all = all[copy(numbers[T](d), all):]
	}
	return nil
}

// Load copies the parameters from a network of the same sizes.
func (p *perceptron[T]) Load(n *network.Network) error {
	all := make([]T, len(n.Params()))
	for i, v := range n.Params() {
		all[i] = T(v)
	}
	return p.SetParams(all)
}

// Store copies the parameters, rounded to float32, to a network of the same sizes.
func (p *perceptron[T]) Store(n *network.Network) error {
	all := p.Params()
	if len(all) != len(n.Params()) {
		return fmt.Errorf("graph: store %d parameters in a network of %d", len(all), len(n.Params()))
	}
	for i, v := range all {
		n.Params()[i] = float32(v)
	}
	return nil
}

// output runs the forward graph on the current inputs and returns a copy of its outputs.
func (p *perceptron[T]) output() ([]T, error) {
	if err := p.forward.run(); err != nil {
		return nil, fmt.Errorf("run forward graph of %v: %w", p.config, err)
	}
	return append([]T(nil), p.out.Value().Data().([]T)...), nil
}

// lose runs the training graph on the current inputs. The gradient replaces the previous one.
func (p *perceptron[T]) lose() (T, error) {
	for _, w := range p.weights {
		if g, err := w.Grad(); err == nil && g != nil { // the machine accumulates gradients
			g.(*tensor.Dense).Zero()
		}
	}
	p.computed = false
	if err := p.train.run(); err != nil {
		return 0, fmt.Errorf("run training graph of %v: %w", p.config, err)
	}
	p.computed = true
	return p.loss.Value().Data().(T), nil
}

// Gradient returns a copy of the gradient of the last Loss, in the order of Params. It is nil before a Loss and after
// a Step.
func (p *perceptron[T]) Gradient() ([]T, error) {
	if p.closed() {
		return nil, ErrClosed
	}
	if !p.computed {
		return nil, nil
	}
	var all []T
	for _, w := range p.weights {
		g, err := w.Grad()
		if err != nil {
			return nil, fmt.Errorf("gradient of %v: %w", w, err)
		}
		all = append(all, numbers[T](g.(*tensor.Dense))...)
	}
	return all, nil
}

// Step clips the gradient of the last Loss and updates the parameters by Gorgonia's Adam. It returns the norm before
// clipping. If the norm is not finite, as in network.Trainer.Step, or without a preceding Loss, the parameters are
// unchanged.
func (p *perceptron[T]) Step() (T, error) {
	gradient, err := p.Gradient()
	if err != nil || gradient == nil {
		return 0, err
	}
	p.computed = false
	sum := 0.0
	for _, g := range gradient {
		sum += float64(g) * float64(g)
	}
	norm, clip := math.Sqrt(sum), float64(p.adam.ClipNorm)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return T(norm), nil
	}
	if clip > 0 && norm > clip {
		for _, w := range p.weights {
			g, _ := w.Grad()
			for i := range numbers[T](g.(*tensor.Dense)) {
				numbers[T](g.(*tensor.Dense))[i] *= T(clip / norm)
			}
		}
	}
	if err := p.solver.Step(G.NodesToValueGrads(p.weights)); err != nil {
		return T(norm), fmt.Errorf("step of Adam: %w", err)
	}
	return T(norm), nil
}
