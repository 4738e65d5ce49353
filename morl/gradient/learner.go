package gradient

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/morl/network"
)

// ErrDiverged says that parameters or losses are no longer numbers.
var ErrDiverged = errors.New("learning has diverged")

// Learner is a policy that learns. One goroutine at a time.
type Learner struct {
	shape   Shape
	config  Config
	seed    uint64
	layout  layout
	nets    []*network.Network
	passes  []pass // of the shards; the first has the moments of Adam
	updates uint64
	// returns are shift + scale · what the critic says.
	shift, scale float64
}

// Report is what an update saw and did. Losses are those before its first step.
type Report struct {
	Returns                    []float64 // undiscounted sums of rewards, an episode each
	Steps                      int       // of all episodes
	PolicyLoss, ValueLoss      float64   // NaN where there was none
	Entropy                    float64   // nats a step
	KL                         float64   // of the policies before and after, a step, as ppo last saw it
	Iterations, ValueIteration int       // that were done
}

// New makes a learner. The error joins all that is wrong with shape and configuration.
func New(s Shape, c Config, seed uint64) (*Learner, error) {
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
	l.nets = l.layout.newNets(spread(seed, forNetworks))
	return l, nil
}

// Shape, Config and Seed are what it was made of, defaults filled in.
func (l *Learner) Shape() Shape   { return l.shape }
func (l *Learner) Config() Config { return l.config }
func (l *Learner) Seed() uint64   { return l.seed }

// Updates is the number of updates so far.
func (l *Learner) Updates() int { return int(l.updates) }

// Policy decides by the parameters of the learner, the current ones at any time.
func (l *Learner) Policy() *Policy {
	return &Policy{shape: l.shape, rowActions: l.layout.rowActions, nets: l.nets[:l.layout.policy], activation: l.config.Activation}
}

// Networks are those of policy and critic, to read or write parameters from outside: kernel: policy, critic of a row, critic over
// the rows; flat: policy, critic; shared: first layer, policy, critic.
func (l *Learner) Networks() []*network.Network { return slices.Clone(l.nets) }

// Update plays Config.Episodes episodes in environments that env makes, one for every worker, and learns from them. The error is
// ErrDiverged, or says which observation lacks the shape; then nothing is learned.
func (l *Learner) Update(env func() Environment) (Report, error) {
	b, err := l.collect(env)
	if err != nil {
		return Report{}, err
	}
	return l.learn(b)
}

func (l *Learner) learn(b *batch) (Report, error) {
	r := Report{PolicyLoss: math.NaN(), ValueLoss: math.NaN()}
	if b.steps() > 0 {
		var err error
		if r, err = methods[l.config.Method](l, b); err != nil {
			return r, fmt.Errorf("update %d: %w", l.updates, err)
		}
	}
	r.Steps = b.steps()
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

// shards is into how many parts the chunks of a batch are cut, each with gradients of its own: whatever the number of cores, the
// sums are the same.
const shards = 8

// over calls f for every chunk of the steps idx, from several goroutines, adds the gradients up in the order of the shards, and
// what f says in the order of the chunks.
func (l *Learner) over(b *batch, idx []int, f func(p pass, chunk []int, c int) judged) judged {
	chunks := b.chunks(idx)
	said := make([]judged, len(chunks))
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
	var all judged
	for _, j := range said {
		all.add(j)
	}
	return all
}

func (l *Learner) newPass() pass {
	return l.layout.pass(l.shape, l.nets, max(chunkRows, l.shape.Rows), func(net int) network.Adam {
		a := network.Adam{Rate: l.config.Rate, ClipNorm: l.config.ClipNorm}
		if l.config.Method == "ppo" && net >= l.layout.value {
			a.Rate = l.config.ValueRate
		}
		return a
	})
}

// step moves some of the networks.
func (l *Learner) step(from, to int) error {
	for _, t := range l.passes[0].trainers()[from:to] {
		if norm := float64(t.Step()); math.IsNaN(norm) || math.IsInf(norm, 0) {
			return ErrDiverged
		}
	}
	return nil
}

// forget clears gradients that no step is made along.
func (l *Learner) forget() {
	for _, t := range l.passes[0].trainers() {
		clear(t.Gradient())
	}
}

func steps(n int) []int {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	return idx
}
