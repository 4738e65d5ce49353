package network_test

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"trainopt/morl/network"
)

// ActorConfig describes an actor with Config.Outputs actions.
type ActorConfig struct {
	network.Config
	Rows    int     // rows per call
	Entropy float64 // weight of the mean entropy in the loss; 0: none
	Adam    network.Adam
}

// Actor is a softmax policy. It is not safe for concurrent use.
type Actor[T Float] struct {
	*perceptron[T]
	advantage *tensor.Dense // rows×actions: the advantage at the action taken, 0 elsewhere
}

// NewActor builds the graphs. Parameters are zero until Load or SetParams.
func NewActor[T Float](c ActorConfig) (*Actor[T], error) {
	p, err := newPerceptron[T](c.Config, c.Rows, c.Adam, c.Inputs)
	if err != nil {
		return nil, err
	}
	a := &Actor[T]{perceptron: p, advantage: dense[T](c.Rows, c.Outputs)}
	return a, p.build(func(out *G.Node) (*G.Node, error) {
		return a.policyGradient(out, c.Entropy)
	}, func(out *G.Node) (*G.Node, error) { return G.SoftMax(out) })
}

// policyGradient returns the loss whose gradient is that of REINFORCE (Williams, 1992) with an advantage, minus the
// entropy bonus: -(1/rows) Σ advantage · log π(action) - (weight/rows) Σ H(π).
//
// Probabilities and their logarithms are two operations on the scores, because Gorgonia 0.9.18 would compute Log(p)
// in the memory of p although p is read again. The axis is passed to one of them only, because it treats SoftMax and
// LogSoftMax of the same axis as the same operation.
func (a *Actor[T]) policyGradient(out *G.Node, entropy float64) (*G.Node, error) {
	logs, err := G.LogSoftMax(out)
	if err != nil {
		return nil, err
	}
	p, err := G.SoftMax(out, 1)
	if err != nil {
		return nil, err
	}
	loss, err := weighted(node(out.Graph(), "advantage", a.advantage), logs, T(-1/float64(a.rows)))
	if err != nil || entropy == 0 {
		return loss, err
	}
	bonus, err := weighted(p, logs, T(entropy/float64(a.rows)))
	if err != nil {
		return nil, err
	}
	return G.Add(loss, bonus)
}

// weighted returns factor · Σ a ⊙ b.
func weighted[T Float](a, b *G.Node, factor T) (*G.Node, error) {
	product, err := G.HadamardProd(a, b)
	if err != nil {
		return nil, err
	}
	sum, err := G.Sum(product)
	if err != nil {
		return nil, err
	}
	return G.Mul(sum, G.NewConstant(factor))
}

// give copies the states into the input tensor.
func (a *Actor[T]) give(states []T) error {
	if a.closed() {
		return ErrClosed
	}
	return fill("states", a.inputs[0], states)
}

// Forward returns the probabilities of the actions (rows×Outputs) in states (rows×Inputs), without dropout.
func (a *Actor[T]) Forward(states []T) ([]T, error) {
	if err := a.give(states); err != nil {
		return nil, err
	}
	return a.output()
}

// Loss returns the policy-gradient loss with entropy bonus for the actions taken (one per row) and their advantages,
// with the current dropout masks, and computes its gradient.
func (a *Actor[T]) Loss(states []T, actions []int, advantages []T) (T, error) {
	if err := a.give(states); err != nil {
		return 0, err
	}
	if len(actions) != a.rows || len(advantages) != a.rows {
		return 0, fmt.Errorf("graph: %d actions and %d advantages for %d rows", len(actions), len(advantages), a.rows)
	}
	weights := numbers[T](a.advantage)
	clear(weights)
	for r, action := range actions {
		if action < 0 || action >= a.config.Outputs {
			return 0, fmt.Errorf("graph: row %d: action %d of %d", r, action, a.config.Outputs)
		}
		weights[r*a.config.Outputs+action] = advantages[r]
	}
	return a.lose()
}
