package training

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/resources"
)

// Objectives of the job's rewards, in order. All are relative: 1 is the whole run at the user's own configuration, for
// the agreement one missed limit.
var Objectives = []string{"cost", "time", "resource", "sla"}

// EnvironmentOptions configure the learning environment; the zero value is useful.
type EnvironmentOptions struct {
	// WithMemory gives the 27 actions, false the 9.
	WithMemory bool
	// Chunks is the number of pieces into which the work is cut, with a decision before each; default 5.
	Chunks int
	// Edits is the most changes to the plan at one decision; default 16.
	Edits int
}

// Environment is one elastic training job after another as a Markov decision process with vector rewards: simulated on
// a workload's truth, seen through an Outlook. A fresh job is drawn for each episode.
//
// An episode starts with a few units at the user's own configuration and at up to two other allocations, as probes do,
// and a performance model is fitted to them. Then, before each chunk of work, the agent edits a *proposed* allocation
// by the steps of resources.ActionSpace; nothing happens to the job until it says "no change", which moves the job to the
// proposal (the restart is paid when it is another allocation) and does the chunk there. Work is measured, the model
// fitted anew. The state shows the proposal; its phase is 1 where the job runs already.
//
// The reward is what the chunk took (USD, seconds, share of the limits × seconds, relative to the user's own
// configuration; at the end 1 when an agreed limit was missed), all negative, shaped by the potential of the outlook:
// F = Φ(s') − Φ(s) (Ng, Harada, Russell 1999: the best policies stay the same). So the immediate reward of an edit is the
// improvement that the performance model expects of it, and what a critic learns is by how much the model is wrong, and
// what may still be done about it.
//
// Work is the share of the job done by an action, 0 for an edit, so that γ discounts work and not decisions.
type Environment struct {
	draw    func(rng *rand.Rand) Scenario
	options EnvironmentOptions

	scenario Scenario
	run      *Execution
	seen     []Observation
	outlook  Outlook
	space    resources.ActionSpace
	proposal Weighing
	edits    int
	chunks   int
	over     bool
	state    [StateSize]float32
	reward   [4]float32
	mask     []bool
}

var _ morl.Environment = (*Environment)(nil)

// NewEnvironment makes an environment of the jobs that draw gives. Jobs must be resumable and feasible to run at their
// Baseline.
func NewEnvironment(draw func(rng *rand.Rand) Scenario, o EnvironmentOptions) *Environment {
	if o.Chunks == 0 {
		o.Chunks = 5
	}
	if o.Edits == 0 {
		o.Edits = 16
	}
	return &Environment{draw: draw, options: o}
}

// Shape is 21 state numbers, 9 or 27 actions, 4 objectives.
func (e *Environment) Shape() morl.Shape {
	return morl.Shape{State: StateSize, Actions: resources.ActionSpace{WithMemory: e.options.WithMemory}.Size(), Objectives: Objectives}
}

// Scenario is the job of the present episode.
func (e *Environment) Scenario() Scenario { return e.scenario }

// Execution is how far it is.
func (e *Environment) Execution() Execution { return *e.run }

// Reset draws a job and measures it.
func (e *Environment) Reset(rng *rand.Rand) morl.Observation {
	for try := 0; ; try++ {
		e.scenario = e.draw(rng)
		if err := e.begin(rng); err == nil {
			return e.observe()
		} else if try == 100 {
			panic(fmt.Sprintf("training: no job of a hundred could be started, the last one: %v", err))
		}
	}
}

func (e *Environment) begin(rng *rand.Rand) error {
	s := &e.scenario
	e.run, e.seen, e.over, e.edits, e.chunks = s.Start(rng.Uint64()), e.seen[:0], false, 0, 0
	if !(s.Workload.UnitSeconds(s.Baseline) > 0) {
		return fmt.Errorf("%s does not run at %s", s.Name, s.Baseline)
	}
	units := min(max(2, 0.01*s.Units), 0.1*s.Units)
	e.measure(s.Baseline, units)
	for all := s.Candidates(); len(e.seen) < 3 && len(all) > 1 && rng.IntN(3) > 0; {
		if a := all[rng.IntN(len(all))]; !a.SameShape(s.Baseline) {
			e.measure(a, units)
		}
	}
	e.space = resources.ActionSpace{Limits: s.Limits, WithMemory: e.options.WithMemory}
	e.outlook = Outlook{Limits: s.Limits, Spec: s.Spec, Rates: s.Rates, Total: s.Units, Baseline: s.Baseline, Startup: s.Startup, Restart: s.Restart}
	if err := e.look(true); err != nil {
		return err
	}
	e.proposal = e.outlook.Weigh(e.run.Current)
	return nil
}

// measure runs some units and keeps what was seen.
func (e *Environment) measure(a resources.Allocation, units float64) {
	seconds := e.run.Run(a, units)
	if n := len(e.seen); n > 0 && e.seen[n-1].Allocation.SameShape(a) {
		e.seen[n-1].UnitSeconds = append(e.seen[n-1].UnitSeconds, seconds...)
		return
	}
	e.seen = append(e.seen, Observation{Allocation: a, UnitSeconds: seconds, UnitSamples: e.scenario.UnitSamples, PeakMemoryGiB: math.NaN()})
}

// look brings the outlook up to date.
func (e *Environment) look(refit bool) error {
	if refit {
		m, err := Fit(e.seen, FitOptions{GPUsPerNode: e.scenario.GPUsPerNode})
		if err != nil {
			return fmt.Errorf("%s: %w", e.scenario.Name, err)
		}
		e.outlook.Model = m
	}
	current := e.run.Current
	e.outlook.Done, e.outlook.Elapsed, e.outlook.SpentUSD, e.outlook.Current = e.run.Done, e.run.Elapsed, e.run.SpentUSD, &current
	return nil
}

func (e *Environment) observe() morl.Observation {
	for i, v := range e.proposal.State {
		e.state[i] = float32(v)
	}
	e.mask = e.space.Mask(e.proposal.Allocation)
	for a, open := range e.mask {
		if a == e.space.Stay() || !open {
			continue
		}
		to := e.space.Apply(a, e.proposal.Allocation)
		e.mask[a] = e.edits < e.options.Edits && e.scenario.Workload.UnitSeconds(to) > 0
	}
	return morl.Observation{State: e.state[:], Mask: e.mask}
}

// Step edits the proposal, or goes on with it.
func (e *Environment) Step(action int) morl.Outcome {
	if e.over {
		panic("training: a step after the end of the episode")
	}
	if !e.mask[action] {
		panic(fmt.Sprintf("training: action %d is masked", action))
	}
	before := e.proposal.Potential
	if action != e.space.Stay() {
		e.edits++
		e.proposal = e.outlook.Weigh(e.space.Apply(action, e.proposal.Allocation))
		e.pay(before, e.proposal.Potential, [4]float64{})
		return morl.Outcome{Observation: e.observe(), Reward: e.reward[:]}
	}
	seconds, usd, done := e.run.Elapsed, e.run.SpentUSD, e.run.Done
	moved := !e.run.Current.SameShape(e.proposal.Allocation)
	e.measure(e.proposal.Allocation, max(1, e.scenario.Units/float64(e.options.Chunks)))
	e.chunks++
	e.edits = 0
	took := e.run.Elapsed - seconds
	own := e.outlook.Own
	spent := [4]float64{-(e.run.SpentUSD - usd) / own.USD, -took / own.Seconds,
		-took * ResourceShare(e.proposal.Allocation, e.scenario.Limits) / (own.Seconds * own.Share)}
	out := morl.Outcome{Reward: e.reward[:], Work: float32((e.run.Done - done) / e.scenario.Units)}
	if e.run.Done >= e.scenario.Units-1e-9 {
		e.over, out.Done = true, true
		spent[3] = -e.missed()
		e.pay(before, [4]float64{}, spent)
		out.State = e.state[:]
		return out
	}
	if err := e.look(moved || e.chunks == 1); err != nil {
		e.look(false) // the earlier model is kept
	}
	e.proposal = e.outlook.Weigh(e.run.Current)
	e.pay(before, e.proposal.Potential, spent)
	out.Observation = e.observe()
	return out
}

func (e *Environment) pay(before, after, spent [4]float64) {
	for i := range e.reward {
		e.reward[i] = float32(spent[i] + after[i] - before[i])
	}
}

// missed is 1 when an agreed time or cost was missed.
func (e *Environment) missed() float64 {
	spec := e.scenario.Spec
	if t := spec.TimeMax.Seconds(); t > 0 && e.run.Elapsed > t {
		return 1
	}
	if spec.CostMaxUSD > 0 && e.run.SpentUSD > spec.CostMaxUSD {
		return 1
	}
	return 0
}
