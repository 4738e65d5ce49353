package pretrain

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// jobPreferences are the preferences under which an agent is measured on jobs, in the order of perf.Objectives.
var jobPreferences = [][4]float64{
	{0.60, 0.05, 0.05, 0.30}, // cost
	{0.05, 0.60, 0.05, 0.30}, // time
	{0.05, 0.05, 0.60, 0.30}, // resource
	{0.25, 0.25, 0.20, 0.30}, // balanced
}

// comparison compares an agent's choices for jobs with two references, by mean utilities over the same jobs and
// preferences. The utility of a whole run at the baseline is about −0.7 if it meets the SLA and −1 otherwise.
type comparison struct {
	Jobs              int
	Agent, Own, Model float64 // the agent; the baseline; the performance model alone
	// OverModel is Agent − Model, OverModelSE its standard error over jobs.
	OverModel, OverModelSE float64

	byJob []float64 // the agent's mean utility for each job
}

// defaultJobs is the number of jobs on which an agent is measured.
const defaultJobs = 30

// jobReference is the reference point of the hypervolume: twice the whole run at the baseline.
var jobReference = []float64{-2, -2, -2, -2}

// jobWorld returns the environment "training". It measures agents on jobs of the same kinds drawn with another seed.
func jobWorld(o *Options, c morl.Config, _ recipe) (*world, error) {
	if r := o.Config.Resets; r.Mode == "evidence" && r.Ratio == 0 && max(1, c.Updates) < c.Every {
		return nil, fmt.Errorf("resets on evidence are off below one gradient step a decision, and there is one every %d decisions", c.Every)
	}
	trained, err := drawer(o.Jobs, 2*o.Seed+1)
	if err != nil {
		return nil, err
	}
	// The same kinds but never the same jobs as in training: the seeds differ for every Options.Seed.
	judged, err := drawer(o.Jobs, evaluationSeed)
	if err != nil {
		return nil, err
	}
	n := cmp.Or(o.Jobs.Count, defaultJobs)
	e := training.EnvironmentOptions{WithMemory: o.Jobs.Actions == 27}
	b := &bench{env: training.NewEnvironment(judged, e), stay: resources.ActionSpace{WithMemory: e.WithMemory}.Stay(), cases: make([]benchCase, n)}
	data := cmp.Or(o.Jobs.Data, "embedded")
	env, curriculum := training.NewEnvironment(trained, e), newCurriculum()
	return &world{env: env, data: data, reference: jobReference, measure: b.measure, outdoes: earlierBetterOnJobs, preferences: curriculum.Draw,
		settle: func() { curriculum.Update(env.TakeTally()) }, note: func(m *morl.Meta) { plan.NoteMultiplier(m, curriculum.Multiplier()) }}, nil
}

// evaluationSeed draws the jobs for measurements. It is even; the seeds of the training jobs are odd.
const evaluationSeed = 0x1d6ec

// drawer returns a generator of scenarios from the kinds and set of the options.
func drawer(o JobOptions, seed uint64) (func(rng *rand.Rand) training.Scenario, error) {
	d, err := NewGenerator(GeneratorOptions{Set: o.Set, Kinds: o.Kinds, Seed: seed})
	if err != nil {
		return nil, err
	}
	return func(rng *rand.Rand) training.Scenario { return d.At(rng.IntN(1 << 30)).Scenario }, nil
}

// earlierBetterOnJobs reports whether the earlier agent is better by more than two standard errors of the difference by job.
// Few jobs give little evidence, and of two equivalent agents the one trained longer is kept.
func earlierBetterOnJobs(before, now *measured) bool {
	advantage, se := paired(before.Jobs.byJob, now.Jobs.byJob)
	return advantage > 2*se
}

// paired returns the mean of a − b and its standard error, which is infinite with fewer than two pairs.
func paired(a, b []float64) (mean, se float64) {
	n := float64(len(a))
	for i := range a {
		mean += (a[i] - b[i]) / n
	}
	if n < 2 {
		return mean, math.Inf(1)
	}
	for i := range a {
		d := a[i] - b[i] - mean
		se += d * d
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}

// bench contains the jobs on which agents are measured. The outcome of an allocation in a job is computed once.
type bench struct {
	env   *training.Environment
	stay  int
	cases []benchCase
}

// benchCase is one job of a bench with everything independent of the agent, computed on first use.
type benchCase struct {
	ready    bool
	outlook  perf.Outlook
	board    []resources.Allocation
	own      resources.Allocation
	model    []resources.Allocation // by preference
	outcomes []outcome
}

// outcome is the reward of committing to one allocation of a job.
type outcome struct {
	at    resources.Allocation
	earns [4]float64
}

// reset starts job i from the beginning, with the same state every time.
func (b *bench) reset(i int) morl.Observation {
	return b.env.Reset(rand.New(rand.NewPCG(uint64(i), 0xbe7c)))
}

// prepare computes the data of job i that do not depend on the agent: outlook, board, baseline, and the performance
// model's choice under each preference.
func (b *bench) prepare(i int) *benchCase {
	c := &b.cases[i]
	if c.ready {
		return c
	}
	b.reset(i)
	c.outlook, c.board, c.own, c.ready = *b.env.Outlook(), b.env.UndominatedCandidates(), b.env.Scenario().Baseline, true
	weighed := make([]perf.AllocationOutlook, len(c.board))
	for k, a := range c.board {
		weighed[k] = c.outlook.OutlookAt(a)
	}
	for _, w := range jobPreferences {
		at, most := c.own, math.Inf(-1)
		for _, x := range weighed {
			if u := dot(w, x.Potential); u > most {
				at, most = x.Allocation, u
			}
		}
		c.model = append(c.model, at)
	}
	return c
}

func dot(w, v [4]float64) (u float64) {
	for i := range w {
		u += w[i] * v[i]
	}
	return u
}

// earns returns the reward of committing to an allocation in job i.
func (b *bench) earns(i int, at resources.Allocation) [4]float64 {
	c := &b.cases[i]
	for _, o := range c.outcomes {
		if o.at.SameShape(at) {
			return o.earns
		}
	}
	b.reset(i)
	earned, _ := b.env.Commit(at) // one decision per episode
	c.outcomes = append(c.outcomes, outcome{at, earned})
	return earned
}

// choose returns the agent's choice in job i. Critics of an agent correct the performance model's judgement of every
// allocation, as for a planner; an agent without critics edits a proposal until it selects "no change".
func (b *bench) choose(i int, a morl.Agent, w [4]float64) resources.Allocation {
	c := &b.cases[i]
	if v, ok := a.(morl.Valuer); ok {
		at, most := c.own, math.Inf(-1)
		for _, j := range c.outlook.CriticEstimates(v, b.stay, c.board, w) {
			if j.Mean > most {
				at, most = j.Allocation, j.Mean
			}
		}
		return at
	}
	preference := make([]float32, len(w))
	for k, x := range w {
		preference[k] = float32(x)
	}
	o := b.reset(i)
	for over := false; !over; {
		out := b.env.Step(a.Act(o, preference, false))
		o, over = out.Observation, out.Done || out.Cut
	}
	return b.env.Execution().Current
}

// measure returns the measurement of an agent over all jobs and preferences. The front consists of the mean returns
// under each preference.
func (b *bench) measure(a morl.Agent) measured {
	n, p := float64(len(b.cases)), float64(len(jobPreferences))
	j := &comparison{Jobs: len(b.cases)}
	means := make([][]float64, len(jobPreferences))
	for k := range means {
		means[k] = make([]float64, len(perf.Objectives))
	}
	var byModel []float64
	for i := range b.cases {
		c := b.prepare(i)
		var mine, model float64
		for k, w := range jobPreferences {
			earned := b.earns(i, b.choose(i, a, w))
			for m, v := range earned {
				means[k][m] += v / n
			}
			mine += dot(w, earned) / p
			model += dot(w, b.earns(i, c.model[k])) / p
			j.Own += dot(w, b.earns(i, c.own)) / p / n
		}
		j.byJob, byModel = append(j.byJob, mine), append(byModel, model)
		j.Agent += mine / n
		j.Model += model / n
	}
	j.OverModel, j.OverModelSE = paired(j.byJob, byModel)
	front := nonDominated(means)
	return measured{Front: front, Hypervolume: pareto.Hypervolume(front, jobReference), ExpectedUtility: j.Agent, Jobs: j}
}
