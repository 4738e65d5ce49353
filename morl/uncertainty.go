package morl

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/morl/network"
)

// ErrNoData says that there is nothing to compute from.
var ErrNoData = errors.New("no data")

// Estimator tells the value of actions and how sure the agent is of it. It is used by one goroutine at a time, and not
// while the agent learns.
type Estimator interface {
	// Estimate is the discounted return of each action and then following the policy for preference w: mean and standard
	// deviation, each actions × objectives, in the environment's units, valid until the next call. It is the uncertainty
	// of the *expected* return; the environment's own noise is not in it. The same agent gives the same answer.
	Estimate(o Observation, w []float32) (mean, sd []float64)
}

// valued is an agent whose critics can be asked.
type valued interface {
	// ask gives the critics that answer for preference w, and their input: rows of it make one pass, and the outputs of
	// a pass are actions × objectives. scale divides each objective in the networks.
	ask(o Observation, w []float32) (critics []*critic, input []float32, rows int, scale []float32)
}

func (a *Envelope) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	a.in = resize(a.in, a.shape.State+len(w))
	a.join(a.in, o.State, w, 1)
	return a.critics, a.in, 1, a.scale
}

func (a *Conditioned) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	a.in = resize(a.in, a.shape.State+len(w))
	a.join(a.in, o.State, w, 1)
	return a.critics, a.in, 1, a.scale
}

func (a *MultiPolicy) ask(o Observation, w []float32) ([]*critic, []float32, int, []float32) {
	p := a.policies[nearest(a.policies, w)]
	return p.critics, p.everyAction(o.State, 1), a.shape.Actions, p.scale
}

// moments are running sums of the passes' outputs.
type moments struct {
	n        float64
	mean, sd []float64 // while adding, sd holds the sum of squared deviations (Welford)
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

// finish turns the sums into standard deviations (n − 1) and everything into the environment's units.
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

// Ensemble estimates by the spread of independently initialised critics (Lakshminarayanan, Pritzel, Blundell, Simple and
// scalable predictive uncertainty estimation using deep ensembles, NeurIPS 2017). Cost: critics × parameters.
type Ensemble struct {
	agent valued
	sums  moments
}

// NewEnsemble makes an Ensemble of an agent that has at least two critics for a preference (Envelope, Conditioned).
func NewEnsemble(a Agent) (*Ensemble, error) {
	v, ok := a.(valued)
	if !ok {
		return nil, fmt.Errorf("ensemble of agent %s: it has no critics", a.Name())
	}
	if critics, _, _, _ := v.ask(Observation{State: make([]float32, a.Shape().State)}, make([]float32, len(a.Shape().Objectives))); len(critics) < 2 {
		return nil, fmt.Errorf("ensemble of agent %s: %d critics, want at least 2", a.Name(), len(critics))
	}
	return &Ensemble{agent: v}, nil
}

// Estimate is the mean and the spread of the critics.
func (e *Ensemble) Estimate(o Observation, w []float32) (mean, sd []float64) {
	critics, x, rows, scale := e.agent.ask(o, w)
	for i, c := range critics {
		c.out = c.online.Forward(c.out, x, rows)
		if i == 0 {
			e.sums.start(len(c.out))
		}
		e.sums.add(c.out)
	}
	e.sums.finish(scale)
	return e.sums.mean, e.sums.sd
}

// Dropout estimates by several passes with dropout on (Gal, Ghahramani, Dropout as a Bayesian approximation, ICML 2016),
// which takes a network that was trained with it. Cost: passes × parameters.
type Dropout struct {
	agent  valued
	passes int
	seed   uint64
	sums   moments
	nets   map[*network.Network]*network.Trainer
}

// NewDropout makes a Dropout with so many passes (at least 2) over the critics, in turn where there are several. The
// agent must have critics and Config.Dropout must not be 0.
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

// Estimate is the mean and the spread of the passes; the masks are the same for every question.
func (e *Dropout) Estimate(o Observation, w []float32) (mean, sd []float64) {
	critics, x, rows, scale := e.agent.ask(o, w)
	rng := stream(e.seed, 0xd409)
	for i := range e.passes {
		n := critics[i%len(critics)].online
		t := e.nets[n]
		if t == nil { // a trainer of its own: the agent's may hold activations
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

// Prediction is a number that was predicted as normal with this mean and standard deviation, and what it turned out to be.
type Prediction struct{ Mean, SD, Realised float64 }

// off is the error in standard deviations; infinite where none was admitted and there is one.
func (p Prediction) off() float64 {
	e := math.Abs(p.Realised - p.Mean)
	if e == 0 {
		return 0
	}
	return e / p.SD
}

// Levels are the central intervals of which Calibration tells the coverage.
var Levels = [4]float64{0.5, 0.8, 0.9, 0.95}

// Calibration says how well predicted spreads agree with what happened.
type Calibration struct {
	N        int        // predictions
	Coverage [4]float64 // share of realised numbers inside the central interval of each of Levels
	// Error is the expected calibration error: the mean difference, over the levels 5 %, 10 % … 95 %, of coverage and
	// level (Kuleshov, Fenner, Ermon, Accurate uncertainties for deep learning using calibrated regression, ICML 2018,
	// section 3.5, with absolute differences). 0 is perfect, a sd of 0 everywhere gives 0.5.
	Error float64
	// Factor multiplies the standard deviations so that Error is least: 1 when they are right, more when the predictions
	// are too sure. Fit it on other predictions than it is judged on.
	Factor float64
	// RMS is the root mean squared error of the means, for judging whether an estimate is worth anything.
	RMS float64
}

// Calibrate compares predictions with what happened, in O(n log n). Predictions with a number that is not finite or a
// negative spread are an error, none at all is ErrNoData.
func Calibrate(predictions []Prediction) (Calibration, error) {
	c := Calibration{N: len(predictions)}
	if c.N == 0 {
		return c, fmt.Errorf("calibration: %w", ErrNoData)
	}
	off := make([]float64, c.N)
	for i, p := range predictions {
		if v := p.Mean + p.SD + p.Realised; math.IsNaN(v) || math.IsInf(v, 0) || p.SD < 0 {
			return c, fmt.Errorf("calibration: prediction %d: mean %g, standard deviation %g, realised %g", i, p.Mean, p.SD, p.Realised)
		}
		off[i] = p.off()
		c.RMS += (p.Realised - p.Mean) * (p.Realised - p.Mean) / float64(c.N)
	}
	c.RMS = math.Sqrt(c.RMS)
	slices.Sort(off)
	for i, level := range Levels {
		c.Coverage[i] = covered(off, level, 1)
	}
	c.Error = miscalibrated(off, 1)
	c.Factor = bestFactor(off)
	return c, nil
}

// Rescale multiplies the standard deviations by factor, in a copy.
func Rescale(predictions []Prediction, factor float64) []Prediction {
	out := slices.Clone(predictions)
	for i := range out {
		out[i].SD *= factor
	}
	return out
}

// covered is the share of sorted errors within the central interval of a level whose spread is multiplied by factor.
func covered(off []float64, level, factor float64) float64 {
	reach := math.Sqrt2 * math.Erfinv(level) * factor
	n, _ := slices.BinarySearchFunc(off, reach, func(x, r float64) int {
		if x <= r {
			return -1
		}
		return 1
	})
	return float64(n) / float64(len(off))
}

func miscalibrated(off []float64, factor float64) float64 {
	var sum float64
	const levels = 19
	for i := 1; i <= levels; i++ {
		level := float64(i) / (levels + 1)
		sum += math.Abs(covered(off, level, factor) - level)
	}
	return sum / levels
}

// bestFactor tries factors from 1/1000 to 1000, 40 to each tenfold, and takes the middle of the best ones.
func bestFactor(off []float64) float64 {
	const each = 40
	least, from, to := math.Inf(1), 0, 0
	for k := -3 * each; k <= 3*each; k++ {
		switch e := miscalibrated(off, math.Pow(10, float64(k)/each)); {
		case e < least:
			least, from, to = e, k, k
		case e == least && k == to+1:
			to = k
		}
	}
	return math.Pow(10, float64(from+to)/2/each)
}
