package morl

import (
	"fmt"
	"math"

	"trainopt/morl/network"
)

// valued is an agent with critics.
type valued interface {
	// ask returns the critics for preference w and their input: one pass has rows rows, and its output is actions ×
	// objectives. scale divides each objective in the networks.
	ask(o Observation, w []float32) (critics []*critic, input []float32, rows int, scale []float32)
}

func (a *Envelope) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	a.in = resize(a.in, a.shape.State+len(w))
	a.join(a.in, o.State, w, 1)
	return a.critics, a.in, 1, a.scale
}

func (a *conditioned) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	a.in = resize(a.in, a.shape.State+len(w))
	a.join(a.in, o.State, w, 1)
	return a.critics, a.in, 1, a.scale
}

func (a *MultiPolicy) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	p := a.policies[nearest(a.policies, w)]
	return p.critics, p.everyAction(o.State, 1), a.shape.Actions, p.scale
}

// moments are running moments of the outputs of the passes.
type moments struct {
	n        float64
	mean, sd []float64 // sd holds sums of squared deviations until finish (Welford)
}

func (m *moments) start(width int) {
	if len(m.mean) != width {
		m.mean, m.sd = make([]float64, width), make([]float64, width)
	}
	m.n = 0
	clear(m.mean)
	clear(m.sd)
}

func (m *moments) add(q []float32) {
	m.n++
	for i, v := range q {
		d := float64(v) - m.mean[i]
		m.mean[i] += d / m.n
		m.sd[i] += d * (float64(v) - m.mean[i])
	}
}

// finish computes the standard deviations (n − 1) and converts all values to the environment's units.
func (m *moments) finish(scale []float32) {
	for i := range m.mean {
		unit := 1.0
		if scale != nil {
			unit = float64(scale[i%len(scale)])
		}
		m.mean[i] *= unit
		m.sd[i] = unit * math.Sqrt(m.sd[i]/max(1, m.n-1))
	}
}

// Dropout estimates uncertainty by several passes with active dropout (Gal, Ghahramani, Dropout as a Bayesian
// approximation, ICML 2016), which requires a network trained with dropout. Cost: passes × parameters. It is not safe for
// concurrent use, nor during training of the agent.
type Dropout struct {
	agent  valued
	passes int
	seed   uint64
	sums   moments
	nets   map[*network.Network]*network.Trainer
}

// NewDropout returns a Dropout with the given number of passes (at least 2), distributed over the critics in turn.
// The agent must have critics and non-zero Config.Dropout.
func NewDropout(a Agent, passes int, seed uint64) (*Dropout, error) {
	v, ok := a.(valued)
	if !ok {
		return nil, fmt.Errorf("dropout in agent %s: it has no critics", a.Name())
	}
	critics, _, _, _ := v.ask(Observation{State: make([]float32, a.Shape().State)}, make([]float32, len(a.Shape().Objectives)))
	if critics[0].online.Dropout == 0 {
		return nil, fmt.Errorf("dropout in agent %s: its networks were made without", a.Name())
	}
	if passes < 2 {
		return nil, fmt.Errorf("dropout in agent %s: %d passes, want at least 2", a.Name(), passes)
	}
	return &Dropout{agent: v, passes: passes, seed: seed, nets: map[*network.Network]*network.Trainer{}}, nil
}

// Estimate returns the discounted return of each action followed by the policy for preference w: mean and standard
// deviation over the passes, each actions × objectives, in the environment's units, valid until the next call. It is
// the uncertainty of the *expected* return; the noise of the environment is not included. The dropout masks are the
// same in every call.
func (e *Dropout) Estimate(o Observation, w []float32) (mean, sd []float64) {
	critics, x, rows, scale := e.agent.ask(o, w)
	rng := stream(e.seed, 0xd409)
	for i := range e.passes {
		n := critics[i%len(critics)].online
		t := e.nets[n]
		if t == nil { // separate trainer: the agent's may hold activations
			t = network.NewTrainer(n, rows, network.Adam{})
			e.nets[n] = t
		}
		q := t.Forward(x, rows, rng)
		if i == 0 {
			e.sums.start(len(q))
		}
		e.sums.add(q)
	}
	e.sums.finish(scale)
	return e.sums.mean, e.sums.sd
}
