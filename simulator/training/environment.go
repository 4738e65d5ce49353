package training

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// EnvironmentOptions configure the learning environment; the zero value is useful.
type EnvironmentOptions struct {
	// WithMemory selects the action space of 27 actions; without it there are 9.
	WithMemory bool
	// Decisions is the number of decisions per episode; the remaining work is divided into as many equal parts.
	// Default 1.
	Decisions int
	// Edits is the maximum number of edits of the proposal at one decision; default 16.
	Edits int
}

// Environment presents a sequence of elastic training jobs as a Markov decision process with vector rewards. Each job
// is simulated on the truth of its workload and observed through a perf.Outlook; each episode draws a new job.
//
// An episode starts with a few units at the job's baseline and at up to two other allocations, as probes do, followed
// in half of the episodes by a longer stretch of work. A performance model is fitted to these measurements. The agent
// then edits a proposed allocation by the steps of resources.ActionSpace: it may pass through Dominated allocations
// but not settle on one. Edits do not affect the job. The action "no change" commits the proposal: it moves the job
// there, paying for the restart if the allocation differs, and does the remaining work or, with several decisions per
// episode, its next part. The state describes the proposal; its phase is 1 where the proposal is the current
// allocation of the job.
//
// The reward of a commit is what the work took: USD, seconds, and share of the limits × seconds, each relative to the
// baseline, and at the end of the episode 1 if an SLA target was missed. All components are negative. Rewards are
// shaped by the potential of the outlook, F = Φ(s') − Φ(s) (after Ng, Harada and Russell 1999; their proof that
// shaping preserves the optimal policies is exact for γ = 1). The immediate reward of an edit is therefore the
// improvement that the performance model predicts for it, and a critic learns the error of the model.
//
// Work is 1 for every action. With γ < 1 an improvement is worth less the more edits lead to it, and cycling among
// equivalent proposals, on which learned values could diverge, does not pay. The time of the job itself is not
// discounted.
type Environment struct {
	draw    func(rng *rand.Rand) Scenario
	options EnvironmentOptions

	scenario Scenario
	run      *Execution
	seen     []perf.Observation
	outlook  perf.Outlook
	space    resources.ActionSpace
	board    []perf.AllocationOutlook // allocations available at the present decision
	proposal perf.AllocationOutlook
	edits    int
	left     int // decisions remaining in the episode
	over     bool
	tally    Tally
	promised bool // the SLA could be kept at the time of the decision
	state    [perf.StateSize]float32
	reward   [4]float32
	spent    [4]float64 // cost of the last part of the work
	mask     []bool
}

// Tally counts completed episodes.
type Tally struct {
	// Agreed counts the episodes with an SLA that could be kept, by the performance model, at the time of the
	// decision; Missed counts those of them that violated it.
	Agreed, Missed int
}

// TakeTally returns the tally since the previous call of Take and resets it.
func (e *Environment) TakeTally() Tally {
	t := e.tally
	e.tally = Tally{}
	return t
}

var _ morl.Environment = (*Environment)(nil)

// NewEnvironment returns an environment of the jobs that draw returns. The jobs must be resumable and able to run at
// their Baseline.
func NewEnvironment(draw func(rng *rand.Rand) Scenario, o EnvironmentOptions) *Environment {
	o.Decisions = cmp.Or(o.Decisions, 1)
	o.Edits = cmp.Or(o.Edits, 16)
	return &Environment{draw: draw, options: o}
}

// Shape returns the dimensions: 21 state variables, 9 or 27 actions, 4 objectives.
func (e *Environment) Shape() morl.Shape {
	return morl.Shape{State: perf.StateSize, Actions: resources.ActionSpace{WithMemory: e.options.WithMemory}.Size(), Objectives: perf.Objectives}
}

// Scenario returns the job of the current episode.
func (e *Environment) Scenario() Scenario { return e.scenario }

// Execution returns a copy of the current state of the simulated run.
func (e *Environment) Execution() Execution { return *e.run }

// Reset draws a job, measures it, and returns the first observation of the episode. It panics after a hundred jobs
// that cannot be started.
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

// begin starts an episode of the drawn scenario: it probes the baseline and up to two other allocations, fits the
// performance model, in half of the episodes advances the job by up to 70 % of its work, and sets the first proposal.
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
	if err := e.updateOutlook(true); err != nil {
		return err
	}
	if rng.IntN(2) == 0 { // half of the decisions are made after part of the work
		at := s.Baseline
		if open := e.UndominatedCandidates(); len(open) > 0 && rng.IntN(2) == 0 {
			at = open[rng.IntN(len(open))]
		}
		if units := (0.7*rng.Float64())*s.Units - e.run.Done; units > 1 {
			e.measure(at, math.Round(units))
			if err := e.updateOutlook(true); err != nil {
				return err
			}
		}
	}
	e.propose(rng)
	e.promised = false
	for _, w := range e.board {
		e.promised = e.promised || w.Chance >= feasibleProbability && (s.Spec.TimeMax > 0 || s.Spec.CostMaxUSD > 0)
	}
	return nil
}

// propose sets the initial proposal of a decision: the current allocation or, half of the time, a random one of Board,
// so that agents learn the consequences of every choice.
func (e *Environment) propose(rng *rand.Rand) {
	e.proposal = e.outlook.OutlookAt(e.run.Current)
	if open := e.UndominatedCandidates(); len(open) > 0 && rng.IntN(2) == 0 {
		e.proposal = e.outlook.OutlookAt(open[rng.IntN(len(open))])
	}
}

// measure runs units of work and records the measured times.
func (e *Environment) measure(a resources.Allocation, units float64) {
	seconds := e.run.Run(a, units)
	if n := len(e.seen); n > 0 && e.seen[n-1].Allocation.SameShape(a) {
		e.seen[n-1].UnitSeconds = append(e.seen[n-1].UnitSeconds, seconds...)
		return
	}
	e.seen = append(e.seen, perf.Observation{Allocation: a, UnitSeconds: seconds, UnitSamples: e.scenario.UnitSamples, PeakMemoryGiB: math.NaN(), Used: e.used(a)})
}

// used returns the measured utilization.
func (e *Environment) used(a resources.Allocation) perf.Utilization {
	if e.scenario.Used == nil {
		return perf.Utilization{}
	}
	return e.scenario.Used(a)
}

// updateOutlook updates the outlook from the run and, with refit, fits the performance model again.
func (e *Environment) updateOutlook(refit bool) error {
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
		e.board = append(e.board, e.outlook.OutlookAt(a))
	}
	return nil
}

// choices returns the allocations at which the job can run, with CPU counts thinned to powers of two and the maximum;
// the current allocation and the baseline are always included.
func (e *Environment) choices() []resources.Allocation {
	var out []resources.Allocation
	for _, a := range e.scenario.Candidates() {
		if c := a.CPUs; c&(c-1) == 0 || c == e.scenario.Limits.CPUs.Max || a.SameShape(e.run.Current) || a.SameShape(e.scenario.Baseline) {
			out = append(out, a)
		}
	}
	return out
}

// UndominatedCandidates lists the allocations a planner would choose among: choices without the Dominated ones.
func (e *Environment) UndominatedCandidates() []resources.Allocation {
	var out []resources.Allocation
	for _, w := range e.board {
		if !dominated(w, e.board) {
			out = append(out, w.Allocation)
		}
	}
	return out
}

// dominated reports whether the performance model rules out an allocation: another keeps the SLA with 95 % probability
// and this one does not, or another is better by a tenth in both cost and time at no lower probability of keeping the
// SLA.
func dominated(w perf.AllocationOutlook, by []perf.AllocationOutlook) bool {
	for _, o := range by {
		if o.Chance >= feasibleProbability && w.Chance < feasibleProbability {
			return true
		}
		if o.Chance >= min(feasibleProbability, w.Chance) && o.Potential[0] > 0.9*w.Potential[0] && o.Potential[1] > 0.9*w.Potential[1] {
			return true
		}
	}
	return false
}

// feasibleProbability is the probability from which the SLA counts as kept.
const feasibleProbability = 0.95

// observe builds the observation of the proposal. "No change" is masked where the proposal is Dominated, unless it is
// the current allocation or no other action is available.
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
	e.mask[e.space.Stay()] = !elsewhere || e.proposal.Allocation.SameShape(e.run.Current) || !dominated(e.proposal, e.board)
	return morl.Observation{State: e.state[:], Mask: e.mask}
}

// Step applies an edit to the proposal or, with the action "no change", commits it. It panics on a masked action and
// after the end of the episode.
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
		e.proposal = e.outlook.OutlookAt(e.space.Apply(action, e.proposal.Allocation))
		e.setReward(before, e.proposal.Potential, [4]float64{})
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
		if e.promised {
			e.tally.Agreed++
			e.tally.Missed += int(missed)
		}
		e.setReward(before, [4]float64{}, e.spent)
		out.State = e.state[:]
		return out
	}
	if err := e.updateOutlook(true); err != nil {
		e.updateOutlook(false) // on failure the earlier model is kept
	}
	e.proposal = e.outlook.OutlookAt(e.run.Current)
	e.setReward(before, e.proposal.Potential, e.spent)
	out.Observation = e.observe()
	return out
}

// pay sets the reward: the cost of the last part of the work plus the difference of potentials.
func (e *Environment) setReward(before, after, spent [4]float64) {
	for i := range e.reward {
		e.reward[i] = float32(spent[i] + after[i] - before[i])
	}
}

// missed returns 1 if a time or cost limit of the SLA was exceeded, else 0.
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

// Outlook returns the outlook at the present decision. The environment retains ownership.
func (e *Environment) Outlook() *perf.Outlook { return &e.outlook }

// Commit moves the job to any allocation in one step, independent of the steps of the action space, as a planner does.
// The returned reward is the cost of the part of the work that followed, without shaping.
func (e *Environment) Commit(to resources.Allocation) (reward [4]float64, done bool) {
	e.proposal = e.outlook.OutlookAt(to)
	e.mask[e.space.Stay()] = true
	out := e.Step(e.space.Stay())
	return e.spent, out.Done
}
