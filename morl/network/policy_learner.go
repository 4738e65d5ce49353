package network

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// errDiverged reports that parameters or losses are NaN or infinite.
var errDiverged = errors.New("learning has diverged")

// Learner is a policy with its training state. It is not safe for concurrent use.
type Learner struct {
	shape   Shape
	config  PolicyConfig
	seed    uint64
	layout  layout
	nets    []*Network
	passes  []pass // one per shard; the first holds the moments of Adam
	updates uint64
	// A return is shift + scale · the output of the critic.
	shift, scale float64
}

// Report holds the results of an update. Losses are those before its first step.
type Report struct {
	Returns                    []float64 // undiscounted sum of rewards per episode
	PolicyLoss, ValueLoss      float64   // mean of the steps, of the first pass of ppo; NaN if not computed
	Entropy                    float64   // nats per step, of the first pass of ppo
	KL                         float64   // divergence per step between the policies before and after, as of the last minibatch of ppo
	Iterations, ValueIteration int       // number completed
}

// NewLearner returns an untrained learner. The error joins all problems of shape and configuration.
func NewLearner(s Shape, c PolicyConfig, seed uint64) (*Learner, error) {
	if err := errors.Join(s.Validate(), c.Validate()); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	if c.Policy == "kernel" {
		if s.Actions != 0 {
			return nil, fmt.Errorf("a kernel policy chooses among rows: %d actions, want 0", s.Actions)
		}
	} else if s.Rows != 1 || s.Actions < 1 {
		return nil, fmt.Errorf("a %s policy sees one row and chooses among actions: %d rows, %d actions", c.Policy, s.Rows, s.Actions)
	}
	l := &Learner{shape: s, config: c, seed: seed, layout: models[c.Policy](s, c), scale: 1}
	for _, n := range l.layout.nets {
		if err := n.Validate(); err != nil {
			return nil, err
		}
	}
	l.nets = l.layout.newNets(newRNG(seed, forNetworks))
	return l, nil
}

// Shape and Seed return the arguments of New.
func (l *Learner) Shape() Shape { return l.shape }
func (l *Learner) Seed() uint64 { return l.seed }

// Policy returns a policy that always uses the current parameters of the learner.
func (l *Learner) Policy() *Policy {
	return &Policy{shape: l.shape, rowActions: l.layout.rowActions, nets: l.nets[:l.layout.policy], activation: l.config.Activation}
}

// Networks returns the networks of policy and critic, for access to their parameters: kernel: policy, critic of a
// row, critic over the rows; flat: policy, critic; shared: first layer, policy, critic.
func (l *Learner) Networks() []*Network { return slices.Clone(l.nets) }

// Update runs Config.Episodes episodes in environments created by env, one per worker, and trains on them. The error
// wraps errDiverged, or identifies an observation that does not match the shape; in the latter case nothing is
// changed.
func (l *Learner) Update(env func() Environment) (Report, error) {
	b, err := l.collect(env)
	if err != nil {
		return Report{}, err
	}
	return l.learn(b)
}

// learn trains on a batch and reports its returns; a batch without steps changes nothing.
func (l *Learner) learn(b *batch) (Report, error) {
	r := Report{PolicyLoss: math.NaN(), ValueLoss: math.NaN()}
	if b.steps() > 0 {
		var err error
		if r, err = methods[l.config.Method](l, b); err != nil {
			return r, fmt.Errorf("update %d: %w", l.updates, err)
		}
	}
	for i, end := range b.episode[1:] {
		sum := 0.0
		for _, v := range b.reward[b.episode[i]:end] {
			sum += v
		}
		r.Returns = append(r.Returns, sum)
	}
	l.updates++
	return r, nil
}

// shards is the number of parts that the chunks of a batch are divided into, each with its own gradients, so that
// sums are independent of the number of cores.
const shards = 8

// over calls f for every chunk of the steps idx, concurrently, and adds up the gradients in the order of the shards
// and the results of f in the order of the chunks.
func (l *Learner) over(b *batch, idx []int, f func(p pass, chunk []int, c int) lossSums) lossSums {
	chunks := b.chunks(idx)
	said := make([]lossSums, len(chunks))
	parts := min(shards, len(chunks))
	for len(l.passes) < parts {
		l.passes = append(l.passes, l.newPass())
	}
	each(parts, l.config.Workers, func(_, s int) error {
		for c := s * len(chunks) / parts; c < (s+1)*len(chunks)/parts; c++ {
			said[c] = f(l.passes[s], chunks[c], c)
		}
		return nil
	})
	for _, p := range l.passes[1:max(parts, 1)] {
		for n, t := range p.trainers() {
			sum := l.passes[0].trainers()[n].Gradient()
			for i, g := range t.Gradient() {
				sum[i] += g
			}
			clear(t.Gradient())
		}
	}
	var all lossSums
	for _, j := range said {
		all.add(j)
	}
	return all
}

// newPass returns a pass over the networks with their optimisers.
func (l *Learner) newPass() pass {
	return l.layout.pass(l.shape, l.nets, max(chunkRows, l.shape.Rows), func(net int) Adam {
		a := Adam{Rate: l.config.Rate, ClipNorm: l.config.ClipNorm}
		if l.config.Method == "ppo" && net >= l.layout.value {
			a.Rate = l.config.ValueRate
		}
		return a
	})
}

// step makes an optimiser step of the networks from…to.
func (l *Learner) step(from, to int) error {
	for _, t := range l.passes[0].trainers()[from:to] {
		if norm := float64(t.Step()); math.IsNaN(norm) || math.IsInf(norm, 0) {
			return errDiverged
		}
	}
	return nil
}

// forget clears gradients that are not used for a step.
func (l *Learner) forget() {
	for _, t := range l.passes[0].trainers() {
		clear(t.Gradient())
	}
}

// steps returns the indices 0 … n−1.
func steps(n int) []int {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	return idx
}
