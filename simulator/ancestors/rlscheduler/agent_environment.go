package rlscheduler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl/gradient"
	"trainopt/optimizer/schedule/order"
)

// Metric is what an agent learns for. The zero value is the mean bounded slowdown.
type Metric string

// metrics say what an episode has cost: lower is better.
var metrics = map[Metric]func(Measures) float64{
	"":                 func(m Measures) float64 { return m.BoundedSlowdown },
	"bounded-slowdown": func(m Measures) float64 { return m.BoundedSlowdown },
	"slowdown":         func(m Measures) float64 { return m.Slowdown },
	"wait":             func(m Measures) float64 { return m.Wait },
	"turnaround":       func(m Measures) float64 { return m.Turnaround },
	"utilization":      func(m Measures) float64 { return -m.Utilization },
}

// Sequence is where an agent's episodes come from. Zeros have the meaning that is noted.
type Sequence struct {
	Length   int  // jobs; 0: 256
	Backfill bool // the simulator's
	// Starts are the job numbers (from 0) at which sequences may begin, or pieces of them; empty: all from Length to Length+1
	// before the end, as in the published training.
	Starts []int
	// Pieces, above 0, puts sequences together from pieces of the trace of so many jobs each, which begin at Starts and follow
	// each other after their own gaps: many more sequences than a trace has, of which one learns less by heart.
	Pieces int
	// Low and High are between what the mean bounded slowdown under SJF must be, exclusive, for a sequence to be learned from:
	// RLScheduler's trajectory filtering with 10 and 150. Zeros: no filter.
	Low, High float64
	// Drawn, unless it is nil, draws the sequences; of the trace only the machine counts then.
	Drawn *Drawn `json:",omitempty"`
}

// AgentSettings say what an agent sees and is rewarded for.
type AgentSettings struct {
	Sight  Sight // "" is PublishedSight
	Metric Metric
	// Relative rewards by the metric over that of SJF on the same sequence, so that hard sequences do not outweigh the others;
	// else the reward is −metric, as published. Either comes at the end of the episode.
	Relative bool
	// Logarithm is of that, or of the metric: ratios count the same in both directions, and no single sequence outweighs the rest.
	// Only for metrics above 0.
	Logarithm bool
}

// Validate joins all that is wrong.
func (s AgentSettings) Validate() error {
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

// AgentEnvironment is an episode as an agent's environment: each action is the row of the job that is next.
type AgentEnvironment struct {
	trace    *Trace
	settings AgentSettings
	from     Sequence
	see      *observer
	jobs     []order.Job
	e        *Episode
	baseline float64
	drawn    map[uint64]episodeStart // what was drawn lately, by seed: candidates of evolution play the same
}

// episodeStart is a drawn sequence, with its metric under SJF where that is asked for.
type episodeStart struct {
	jobs     []order.Job
	baseline float64
}

// keptDraws bounds the memory of drawn sequences: 256 of 1,024 jobs are some 30 MB.
const keptDraws = 256

var _ gradient.Environment = (*AgentEnvironment)(nil)

// NewAgentEnvironment makes an environment over sequences of a trace.
func NewAgentEnvironment(t *Trace, from Sequence, s AgentSettings) (*AgentEnvironment, error) {
	if s.Sight == "" {
		s.Sight = PublishedSight
	}
	if from.Length == 0 {
		from.Length = 256
	}
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
		return &AgentEnvironment{trace: t, settings: s, from: from, see: see}, err
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
	return &AgentEnvironment{trace: t, settings: s, from: from, see: see}, err
}

// tries bounds how long a sequence that passes the filter is looked for.
const tries = 200

// Reset begins a sequence that rng draws.
func (a *AgentEnvironment) Reset(rng *rand.Rand) (gradient.Observation, bool) {
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

// redraw is the drawn sequence of a seed.
func (a *AgentEnvironment) redraw(seed uint64) []order.Job {
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

// simulate plays jobs by the shortest first.
func (a *AgentEnvironment) simulate(jobs []order.Job) Measures {
	e := newEpisode(jobs, a.trace.Procs, a.trace.Nodes, a.from.Backfill)
	Play(e, jobs, Published[3])
	return Measure(e)
}

func (a *AgentEnvironment) draw(rng *rand.Rand) []order.Job {
	if a.from.Drawn != nil {
		jobs, err := a.from.Drawn.Draw(rng, a.from.Length, a.trace.Procs)
		if err != nil {
			panic(err) // the settings were looked at before
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

// Begin starts the episode over these jobs, for the evaluation of an agent.
func (a *AgentEnvironment) Begin(jobs []order.Job) (gradient.Observation, bool) {
	a.jobs = jobs
	a.e = newEpisode(jobs, a.trace.Procs, a.trace.Nodes, a.from.Backfill)
	a.see.begin(jobs)
	if len(a.e.Waiting()) == 0 {
		return gradient.Observation{}, true
	}
	return a.see.observe(a.e), false
}

// Step starts the job of a row.
func (a *AgentEnvironment) Step(action int) (gradient.Observation, float64, bool) {
	a.e.Start(a.see.shown[action])
	if len(a.e.Waiting()) > 0 {
		return a.see.observe(a.e), 0, false
	}
	cost := metrics[a.settings.Metric](Measure(a.e))
	if a.settings.Relative && a.baseline != 0 {
		cost /= a.baseline
	}
	if a.settings.Logarithm {
		cost = math.Log(max(cost, 1e-9))
	}
	return gradient.Observation{}, -cost, true
}

// Episode is the one that is being played.
func (a *AgentEnvironment) Episode() *Episode { return a.e }

// Unseen are the starts of sequences of so many jobs that share no job with any sequence of length jobs from the starts that are
// given, such as the published ones.
func Unseen(t *Trace, starts []int, length, want int) []int {
	taken := make([]bool, len(t.Jobs))
	for _, s := range starts {
		for i := max(s, 0); i < min(s+length, len(t.Jobs)); i++ {
			taken[i] = true
		}
	}
	var free []int
	run := 0
	for i := range taken {
		if run++; taken[i] {
			run = 0
		}
		if run >= want {
			free = append(free, i-want+1)
		}
	}
	return slices.Clip(free)
}
