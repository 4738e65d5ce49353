package training

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// EnvironmentOptions configure the learning environment; the zero value is useful.
type EnvironmentOptions struct {
	// WithMemory gives the 27 actions, false the 9.
	WithMemory bool
	// Decisions is the number of decisions in an episode, the remaining work being cut into as many pieces; default 1.
	Decisions int
	// Edits is the most changes to the plan at one decision; default 16.
	Edits int
}

// Environment is one elastic training job after another as a Markov decision process with vector rewards: simulated on
// a workload's truth, seen through an Outlook. A fresh job is drawn for each episode.
//
// An episode starts with a few units at the user's own configuration and at up to two other allocations, as probes do,
// half of the time with a longer stretch of work after them, and a performance model is fitted to what was measured. Then
// the agent edits a *proposed* allocation by the steps of resources.ActionSpace, free to move but not to settle on one that is Dominated; nothing happens to the job until it says "no change", which moves the job to the
// proposal (the restart is paid when it is another allocation) and does the rest of the work there, or, with several
// decisions in an episode, its next part. The state shows the proposal; its phase is 1 where the job runs already.
//
// The reward is what that took (USD, seconds, share of the limits × seconds, relative to the user's own
// configuration; at the end 1 when an agreed limit was missed), all negative, shaped by the potential of the outlook:
// F = Φ(s') − Φ(s) (after Ng, Harada, Russell 1999, whose proof that the best policies stay the same is exact for γ = 1). So the immediate reward of an edit is the
// improvement that the performance model expects of it, and what a critic learns is by how much the model is wrong.
//
// Work is 1 for every action: with γ < 1 an improvement counts the less the more edits lead to it, and going in circles
// among equal proposals, on which learned values would run away, does not pay. What the job itself does is not
// discounted.
type Environment struct {
	draw    func(rng *rand.Rand) Scenario
	options EnvironmentOptions

	scenario Scenario
	run      *Execution
	seen     []perf.Observation
	outlook  perf.Outlook
	space    resources.ActionSpace
	board    []perf.Weighing // what could be chosen now
	proposal perf.Weighing
	edits    int
	left     int // decisions
	over     bool
	tally    Tally
	promised bool // what was agreed could be kept when the decision came
	state    [perf.StateSize]float32
	reward   [4]float32
	spent    [4]float64 // what the last chunk took
	mask     []bool
}

// Tally counts episodes that ended.
type Tally struct {
	Episodes int
	// Agreed are those with an agreement that could be kept, by the performance model, when the decision came; Missed
	// those of them that missed it.
	Agreed, Missed int
}

// Take returns the tally since the last Take.
func (e *Environment) Take() Tally {
	t := e.tally
	e.tally = Tally{}
	return t
}

var _ morl.Environment = (*Environment)(nil)

// NewEnvironment makes an environment of the jobs that draw gives. Jobs must be resumable and feasible to run at their
// Baseline.
func NewEnvironment(draw func(rng *rand.Rand) Scenario, o EnvironmentOptions) *Environment {
	if o.Decisions == 0 {
		o.Decisions = 1
	}
	if o.Edits == 0 {
		o.Edits = 16
	}
	return &Environment{draw: draw, options: o}
}

// Shape is 21 state numbers, 9 or 27 actions, 4 objectives.
func (e *Environment) Shape() morl.Shape {
	return morl.Shape{State: perf.StateSize, Actions: resources.ActionSpace{WithMemory: e.options.WithMemory}.Size(), Objectives: perf.Objectives}
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
	e.run, e.seen, e.over, e.edits, e.left = s.Start(rng.Uint64()), e.seen[:0], false, 0, e.options.Decisions
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
	e.outlook = perf.Outlook{Limits: s.Limits, Spec: s.Spec, Rates: s.Rates, Total: s.Units, Baseline: s.Baseline, Startup: s.Startup, Restart: s.Restart}
	if err := e.look(true); err != nil {
		return err
	}
	if rng.IntN(2) == 0 { // the decision comes when some of the work is done
		at := s.Baseline
		if open := e.Board(); len(open) > 0 && rng.IntN(2) == 0 {
			at = open[rng.IntN(len(open))]
		}
		if units := (0.7*rng.Float64())*s.Units - e.run.Done; units > 1 {
			e.measure(at, math.Round(units))
			if err := e.look(true); err != nil {
				return err
			}
		}
	}
	e.propose(rng)
	e.promised = false
	for _, w := range e.board {
		e.promised = e.promised || w.Chance >= sure && (s.Spec.TimeMax > 0 || s.Spec.CostMaxUSD > 0)
	}
	return nil
}

// propose starts a deliberation: where the job runs, or, half of the time, at something that could be chosen, so that
// agents learn what becomes of every choice.
func (e *Environment) propose(rng *rand.Rand) {
	e.proposal = e.outlook.Weigh(e.run.Current)
	if open := e.Board(); len(open) > 0 && rng.IntN(2) == 0 {
		e.proposal = e.outlook.Weigh(open[rng.IntN(len(open))])
	}
}

// measure runs some units and keeps what was seen.
func (e *Environment) measure(a resources.Allocation, units float64) {
	seconds := e.run.Run(a, units)
	if n := len(e.seen); n > 0 && e.seen[n-1].Allocation.SameShape(a) {
		e.seen[n-1].UnitSeconds = append(e.seen[n-1].UnitSeconds, seconds...)
		return
	}
	e.seen = append(e.seen, perf.Observation{Allocation: a, UnitSeconds: seconds, UnitSamples: e.scenario.UnitSamples, PeakMemoryGiB: math.NaN()})
}

// look brings the outlook up to date.
func (e *Environment) look(refit bool) error {
	if refit {
		m, err := perf.Fit(e.seen, perf.FitOptions{GPUsPerNode: e.scenario.GPUsPerNode})
		if err != nil {
			return fmt.Errorf("%s: %w", e.scenario.Name, err)
		}
		e.outlook.Model = m
	}
	current := e.run.Current
	e.outlook.Done, e.outlook.Elapsed, e.outlook.SpentUSD, e.outlook.Current = e.run.Done, e.run.Elapsed, e.run.SpentUSD, &current
	e.board = e.board[:0]
	for _, a := range e.choices() {
		e.board = append(e.board, e.outlook.Weigh(a))
	}
	return nil
}

// choices are the allocations at which the job can run, CPU counts thinned to the powers of two, and where it runs.
func (e *Environment) choices() []resources.Allocation {
	var out []resources.Allocation
	for _, a := range e.scenario.Candidates() {
		if c := a.CPUs; c&(c-1) == 0 || c == e.scenario.Limits.CPUs.Max || a.SameShape(e.run.Current) || a.SameShape(e.scenario.Baseline) {
			out = append(out, a)
		}
	}
	return out
}

// Board lists what a planner would choose among: where the job can run, without what Dominated leaves out.
func (e *Environment) Board() []resources.Allocation {
	var out []resources.Allocation
	for _, w := range e.board {
		if !Dominated(w, e.board) {
			out = append(out, w.Allocation)
		}
	}
	return out
}

// Dominated reports whether an allocation is out of the question by the performance model: another keeps the agreement
// with 95 % probability and this one does not, or another is better by a tenth in both cost and time with no less chance.
func Dominated(w perf.Weighing, by []perf.Weighing) bool {
	for _, o := range by {
		if o.Chance >= sure && w.Chance < sure {
			return true
		}
		if o.Chance >= min(sure, w.Chance) && o.Potential[0] > 0.9*w.Potential[0] && o.Potential[1] > 0.9*w.Potential[1] {
			return true
		}
	}
	return false
}

// sure is the probability from which an agreement counts as kept.
const sure = 0.95

func (e *Environment) observe() morl.Observation {
	for i, v := range e.proposal.State {
		e.state[i] = float32(v)
	}
	e.mask = e.space.Mask(e.proposal.Allocation)
	elsewhere := false
	for a, open := range e.mask {
		if a == e.space.Stay() || !open {
			continue
		}
		to := e.space.Apply(a, e.proposal.Allocation)
		e.mask[a] = e.edits < e.options.Edits && e.scenario.Workload.UnitSeconds(to) > 0
		elsewhere = elsewhere || e.mask[a]
	}
	e.mask[e.space.Stay()] = !elsewhere || e.proposal.Allocation.SameShape(e.run.Current) || !Dominated(e.proposal, e.board)
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
		return morl.Outcome{Observation: e.observe(), Reward: e.reward[:], Work: 1}
	}
	seconds, usd := e.run.Elapsed, e.run.SpentUSD
	e.measure(e.proposal.Allocation, max(1, (e.scenario.Units-e.run.Done)/float64(e.left)))
	e.left = max(1, e.left-1)
	e.edits = 0
	took := e.run.Elapsed - seconds
	own := e.outlook.Own
	e.spent = [4]float64{-(e.run.SpentUSD - usd) / own.USD, -took / own.Seconds,
		-took * perf.ResourceShare(e.proposal.Allocation, e.scenario.Limits) / (own.Seconds * own.Share)}
	out := morl.Outcome{Reward: e.reward[:], Work: 1}
	if e.run.Done >= e.scenario.Units-1e-9 {
		e.over, out.Done = true, true
		missed := e.missed()
		e.spent[3] = -missed
		e.tally.Episodes++
		if e.promised {
			e.tally.Agreed++
			e.tally.Missed += int(missed)
		}
		e.pay(before, [4]float64{}, e.spent)
		out.State = e.state[:]
		return out
	}
	if err := e.look(true); err != nil {
		e.look(false) // the earlier model is kept
	}
	e.proposal = e.outlook.Weigh(e.run.Current)
	e.pay(before, e.proposal.Potential, e.spent)
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

// Proposal is the allocation under consideration.
func (e *Environment) Proposal() perf.Weighing { return e.proposal }

// Outlook is what is known at the present decision.
func (e *Environment) Outlook() *perf.Outlook { return &e.outlook }

// Commit goes on at any allocation in one step, whatever the steps of the action space, as a planner does. The reward
// is what the chunk took, without shaping.
func (e *Environment) Commit(to resources.Allocation) (reward [4]float64, done bool) {
	e.proposal = e.outlook.Weigh(to)
	e.mask[e.space.Stay()] = true
	out := e.Step(e.space.Stay())
	return e.spent, out.Done
}
