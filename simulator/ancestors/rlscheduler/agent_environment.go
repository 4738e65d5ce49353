package rlscheduler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
)

// metric is the objective of an agent. The zero value is the mean bounded slowdown.
type metric string

// metrics return the cost of an episode; lower is better.
var metrics = map[metric]func(episodeMeasures) float64{
	"":                 func(m episodeMeasures) float64 { return m.BoundedSlowdown },
	"bounded-slowdown": func(m episodeMeasures) float64 { return m.BoundedSlowdown },
	"slowdown":         func(m episodeMeasures) float64 { return m.Slowdown },
	"wait":             func(m episodeMeasures) float64 { return m.Wait },
	"turnaround":       func(m episodeMeasures) float64 { return m.Turnaround },
	"utilization":      func(m episodeMeasures) float64 { return -m.Utilization },
}

// Sequence describes the source of an agent's episodes. Zero values have the meaning noted.
type Sequence struct {
	Length   int  // number of jobs; 0 means 256
	Backfill bool // use the simulator's backfilling
	// Starts are the indices of jobs at which sequences, or pieces of them, may begin; empty means all from Length to
	// Length+1 before the end, as in the published training.
	Starts []int
	// Pieces, if positive, composes sequences of pieces of the trace with this many jobs. Pieces begin at Starts and
	// follow each other with their own interarrival times. There are many more such sequences than the trace has,
	// which reduces overfitting.
	Pieces int
	// Low and High are exclusive bounds on the mean bounded slowdown of a sequence under SJF; RLScheduler's trajectory
	// filtering uses 10 and 150. Zeros mean no filter.
	Low, High float64
	// Drawn, if not nil, generates the sequences; of the trace, only the machine is used.
	Drawn *Drawn `json:",omitempty"`
}

// agentSettings are the observation and the reward of an agent.
type agentSettings struct {
	Sight  observationKind // "" means publishedSight
	Metric metric
	// Relative divides the metric by that of SJF on the same sequence, so that hard sequences do not dominate;
	// otherwise the reward is −metric, as published. The reward is given at the end of the episode.
	Relative bool
	// Logarithm applies to the metric or the ratio: ratios then count equally in both directions, and no single
	// sequence dominates. It requires a positive metric.
	Logarithm bool
}

// Validate returns all problems joined.
func (s agentSettings) Validate() error {
	var errs []error
	if s.Sight != "" {
		_, err := s.Sight.Shape()
		errs = append(errs, err)
	}
	if s.Logarithm && s.Metric == "utilization" {
		errs = append(errs, errors.New("the logarithm of utilization, which is negative as a cost"))
	}
	if metrics[s.Metric] == nil {
		errs = append(errs, fmt.Errorf("no metric is called %q: there are bounded-slowdown, slowdown, wait, turnaround, utilization", s.Metric))
	}
	return errors.Join(errs...)
}

// agentEnvironment is the environment of an agent: an action is the row of the job to start next.
type agentEnvironment struct {
	trace    *Trace
	settings agentSettings
	from     Sequence
	see      *observer
	jobs     []order.Job
	e        *Episode
	baseline float64
	drawn    map[uint64]episodeStart // recently drawn sequences by seed: the candidates of evolution share them
}

// episodeStart is a drawn sequence, with its metric under SJF if required.
type episodeStart struct {
	jobs     []order.Job
	baseline float64
}

// keptDraws bounds the number of cached sequences: 256 of 1,024 jobs occupy some 30 MB.
const keptDraws = 256

var _ network.Environment = (*agentEnvironment)(nil)

// newAgentEnvironment returns an environment over sequences of a trace, after validating the settings. Empty Starts
// are replaced by all possible ones; for drawn sequences they are ignored.
func newAgentEnvironment(t *Trace, from Sequence, s agentSettings) (*agentEnvironment, error) {
	s.Sight = cmp.Or(s.Sight, publishedSight)
	from.Length = cmp.Or(from.Length, 256)
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if from.Length < 1 || from.Pieces < 0 {
		return nil, fmt.Errorf("sequences of %d jobs in pieces of %d: want at least 1", from.Length, from.Pieces)
	}
	if from.Drawn != nil {
		if err := from.Drawn.Validate(); err != nil {
			return nil, fmt.Errorf("draw sequences: %w", err)
		}
		see, err := newObserver(t, s.Sight)
		return &agentEnvironment{trace: t, settings: s, from: from, see: see}, err
	}
	if len(from.Starts) == 0 {
		for i := from.Length; i < len(t.Jobs)-from.Length-1; i++ {
			from.Starts = append(from.Starts, i)
		}
	}
	long := cmp.Or(from.Pieces, from.Length)
	for _, i := range from.Starts {
		if i < 0 || i+long > len(t.Jobs) {
			return nil, fmt.Errorf("%d jobs from %d on: the trace has %d", long, i, len(t.Jobs))
		}
	}
	if len(from.Starts) == 0 {
		return nil, fmt.Errorf("sequences of %d jobs: the trace has %d, want more than twice as many", from.Length, len(t.Jobs))
	}
	see, err := newObserver(t, s.Sight)
	return &agentEnvironment{trace: t, settings: s, from: from, see: see}, err
}

// tries is the maximum number of attempts to draw a sequence that passes the filter; the last one is used in any
// case.
const tries = 200

// Reset begins a sequence drawn by rng.
func (a *agentEnvironment) Reset(rng *rand.Rand) (network.Observation, bool) {
	if a.from.Drawn != nil && a.from.High == 0 {
		return a.Begin(a.redraw(rng.Uint64()))
	}
	for i := range tries {
		jobs := a.draw(rng)
		if a.from.High == 0 && !a.settings.Relative {
			return a.Begin(jobs)
		}
		sjf := a.simulate(jobs)
		a.baseline = metrics[a.settings.Metric](sjf)
		if a.from.High == 0 || sjf.BoundedSlowdown > a.from.Low && sjf.BoundedSlowdown < a.from.High || i == tries-1 {
			return a.Begin(jobs)
		}
	}
	panic("unreachable")
}

// redraw returns the drawn sequence of a seed, from the cache if possible.
func (a *agentEnvironment) redraw(seed uint64) []order.Job {
	s, ok := a.drawn[seed]
	if !ok {
		if len(a.drawn) >= keptDraws || a.drawn == nil {
			a.drawn = map[uint64]episodeStart{}
		}
		s.jobs = a.draw(rand.New(rand.NewPCG(seed, 0)))
		if a.settings.Relative {
			s.baseline = metrics[a.settings.Metric](a.simulate(s.jobs))
		}
		a.drawn[seed] = s
	}
	a.baseline = s.baseline
	return s.jobs
}

// simulate returns the measures of SJF on the jobs.
func (a *agentEnvironment) simulate(jobs []order.Job) episodeMeasures {
	return play(newEpisode(jobs, a.trace.Procs, a.trace.Nodes, a.from.Backfill), sjf.Player(jobs))
}

// draw returns a sequence: generated, a range of the trace, or composed of pieces.
func (a *agentEnvironment) draw(rng *rand.Rand) []order.Job {
	if a.from.Drawn != nil {
		jobs, err := a.from.Drawn.Draw(rng, a.from.Length, a.trace.Procs)
		if err != nil {
			panic(err) // the settings were validated before
		}
		return jobs
	}
	start := a.from.Starts[rng.IntN(len(a.from.Starts))]
	if a.from.Pieces == 0 {
		return a.trace.Jobs[start : start+a.from.Length]
	}
	jobs, clock := make([]order.Job, 0, a.from.Length), 0.0
	for len(jobs) < a.from.Length {
		for i := start; i < start+a.from.Pieces && len(jobs) < a.from.Length; i++ {
			j := a.trace.Jobs[i]
			clock += max(0, j.Submit-a.trace.Jobs[max(i-1, 0)].Submit)
			j.Submit = clock
			jobs = append(jobs, j)
		}
		start = a.from.Starts[rng.IntN(len(a.from.Starts))]
	}
	return jobs
}

// Begin starts an episode of the given jobs, for the evaluation of an agent.
func (a *agentEnvironment) Begin(jobs []order.Job) (network.Observation, bool) {
	a.jobs = jobs
	a.e = newEpisode(jobs, a.trace.Procs, a.trace.Nodes, a.from.Backfill)
	a.see.begin(jobs)
	if len(a.e.Waiting()) == 0 {
		return network.Observation{}, true
	}
	return a.see.observe(a.e), false
}

// Step starts the job of a row.
func (a *agentEnvironment) Step(action int) (network.Observation, float64, bool) {
	a.e.Start(a.see.shown[action])
	if len(a.e.Waiting()) > 0 {
		return a.see.observe(a.e), 0, false
	}
	cost := metrics[a.settings.Metric](measure(a.e))
	if a.settings.Relative && a.baseline != 0 {
		cost /= a.baseline
	}
	if a.settings.Logarithm {
		cost = math.Log(max(cost, 1e-9))
	}
	return network.Observation{}, -cost, true
}
