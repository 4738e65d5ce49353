package network_test

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"trainopt/morl/network"
)

// CriticConfig describes a critic. Its network has Config.Inputs = state + Actions numbers and one output per
// objective: 1 for a scalar value, more for a vector.
type CriticConfig struct {
	network.Config
	Actions int // number of inputs, the last ones, that represent the action (for example one-hot); 0: none
	Rows    int // rows per call
	Adam    network.Adam
}

// Critic estimates values of states and actions: state ⊕ action → Q. It is not safe for concurrent use.
type Critic[T Float] struct {
	*perceptron[T]
	target *tensor.Dense
}

// NewCritic builds the graphs. Parameters are zero until Load or SetParams.
func NewCritic[T Float](c CriticConfig) (*Critic[T], error) {
	inputs := []int{c.Inputs}
	if c.Actions > 0 {
		inputs = []int{c.Inputs - c.Actions, c.Actions}
	}
	if c.Actions < 0 || inputs[0] < 1 {
		return nil, fmt.Errorf("critic of %d inputs, %d of them the action: want a state too", c.Inputs, c.Actions)
	}
	p, err := newPerceptron[T](c.Config, c.Rows, c.Adam, inputs...)
	if err != nil {
		return nil, err
	}
	critic := &Critic[T]{perceptron: p, target: dense[T](c.Rows, c.Outputs)}
	return critic, p.build(critic.squaredError, func(out *G.Node) (*G.Node, error) { return out, nil })
}

// squaredError returns the mean over rows and outputs of (output - target)².
func (c *Critic[T]) squaredError(out *G.Node) (*G.Node, error) {
	d, err := G.Sub(out, node(out.Graph(), "target", c.target))
	if err != nil {
		return nil, err
	}
	if d, err = G.Square(d); err != nil {
		return nil, err
	}
	return G.Mean(d)
}

// give copies states and actions into the input tensors.
func (c *Critic[T]) give(states, actions []T) error {
	if c.closed() {
		return ErrClosed
	}
	if err := fill("states", c.inputs[0], states); err != nil {
		return err
	}
	if len(c.inputs) == 1 {
		return nil
	}
	return fill("actions", c.inputs[1], actions)
}

// Forward returns the values (rows×Outputs) of states and actions (both row-major; actions are ignored if the
// configuration has none), without dropout.
func (c *Critic[T]) Forward(states, actions []T) ([]T, error) {
	if err := c.give(states, actions); err != nil {
		return nil, err
	}
	return c.output()
}

// Loss returns the mean squared error against targets (rows×Outputs), with the current dropout masks, and computes
// its gradient.
func (c *Critic[T]) Loss(states, actions, targets []T) (T, error) {
	if err := c.give(states, actions); err != nil {
		return 0, err
	}
	if err := fill("targets", c.target, targets); err != nil {
		return 0, err
	}
	return c.lose()
}
