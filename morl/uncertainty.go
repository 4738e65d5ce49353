package morl

import (
	"fmt"
	"sync"

	"trainopt/morl/network"
)

// valued is an agent with critics.
type valued interface {
	Valuer
	// ask returns the critics for preference w and their input: one pass has rows rows, and its output is actions ×
	// objectives. scale divides each objective in the networks.
	ask(o Observation, w []float32) (critics []*critic, input []float32, rows int, scale []float32)
}

// input returns the input of critics of states and preferences.
func (l *learner) input(o Observation, w []float32) []float32 {
	in := make([]float32, l.shape.State+len(w))
	l.join(in, o.State, w, 1)
	return in
}

func (a *envelope) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	return a.critics, a.input(o, w), 1, a.scale
}

func (a *conditioned) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	return a.critics, a.input(o, w), 1, a.scale
}

func (a *multiPolicy) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	p := a.policies[nearest(a.policies, w)]
	return p.critics, p.inputs(o), a.shape.Actions, p.scale
}

// dropout is an agent whose values are those of several passes through its critics with active dropout, so that their
// spread measures the uncertainty (Gal, Ghahramani, dropout as a Bayesian approximation, ICML 2016). It requires networks
// trained with dropout. Cost: passes × parameters.
type dropout struct {
	valued
	passes int
	seed   uint64
	mu     sync.Mutex
	nets   map[*network.Network]*network.Trainer
}

var _ Valuer = (*dropout)(nil)

// NewDropout returns a dropout with the given number of passes (at least 2), distributed over the critics in turn.
// The agent must have critics and non-zero Config.Dropout. With 0 passes its values are those of a single pass without
// dropout, as in SLA-MORL's code, where dropout is always inactive; any agent with critics will do.
func NewDropout(a Agent, passes int, seed uint64) (*dropout, error) {
	v, ok := a.(valued)
	if !ok {
		return nil, fmt.Errorf("dropout in agent %s: it has no critics", a.Name())
	}
	critics, _, _, _ := v.ask(Observation{State: make([]float32, a.Shape().State)}, make([]float32, len(a.Shape().Objectives)))
	if passes != 0 && critics[0].online.Dropout == 0 {
		return nil, fmt.Errorf("dropout in agent %s: its networks were made without", a.Name())
	}
	if passes < 0 || passes == 1 {
		return nil, fmt.Errorf("dropout in agent %s: %d passes, want at least 2", a.Name(), passes)
	}
	return &dropout{valued: v, passes: passes, seed: seed, nets: map[*network.Network]*network.Trainer{}}, nil
}

// Values returns the values of each pass; the dropout masks are the same in every call.
func (e *dropout) Values(o Observation, w []float32) [][]float32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	critics, x, rows, scale := e.ask(o, w)
	if e.passes == 0 {
		return [][]float32{inUnits(critics[0].online.Forward(nil, x, rows), scale)}
	}
	rng := stream(e.seed, 0xd409)
	out := make([][]float32, e.passes)
	for i := range out {
		n := critics[i%len(critics)].online
		t := e.nets[n]
		if t == nil { // separate trainer: the agent's may hold activations
			t = network.NewTrainer(n, rows, network.Adam{})
			e.nets[n] = t
		}
		out[i] = inUnits(append([]float32(nil), t.Forward(x, rows, rng)...), scale)
	}
	return out
}

// inUnits converts values from the networks' scale to the environment's units, in place.
func inUnits(q, scale []float32) []float32 {
	for i := range q {
		if scale != nil {
			q[i] *= scale[i%len(scale)]
		}
	}
	return q
}
