package pretrain

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan/pretrained"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/simulator/training/profile"
)

// JobPreferences are the preferences that an agent is measured under on jobs, in the order of perf.Objectives.
var JobPreferences = [][4]float64{
	{0.60, 0.05, 0.05, 0.30}, // cost
	{0.05, 0.60, 0.05, 0.30}, // time
	{0.05, 0.05, 0.60, 0.30}, // resource
	{0.25, 0.25, 0.20, 0.30}, // balanced
}

// Comparison is how an agent's choices for jobs compare with others': mean utilities over the same jobs and preferences.
// The whole run at the user's own configuration is about −0.7 when it keeps the agreement and −1 when it does not.
type Comparison struct {
	Jobs              int
	Agent, Own, Model float64 // the agent; the user's own configuration; what the performance model alone chooses
	// OverModel is Agent − Model, and OverModelSE the standard error of that over jobs.
	OverModel, OverModelSE float64

	byJob []float64 // the agent's mean utility in each job
}

// defaultJobs is the number of jobs that an agent is measured on.
const defaultJobs = 30

// jobReference is the reference point of the hypervolume: twice the whole run at the user's own configuration.
var jobReference = []float64{-2, -2, -2, -2}

func jobWorld(o *Options, c morl.Config, _ Recipe) (*world, error) {
	if r := o.Config.Resets; r.Mode == "evidence" && r.Ratio == 0 && max(1, c.Updates) < c.Every {
		return nil, fmt.Errorf("resets on evidence are off below one gradient step a decision, and there is one every %d decisions", c.Every)
	}
	trained, err := drawer(o.Jobs, 2*o.Seed+1)
	if err != nil {
		return nil, err
	}
	// Of the same kinds, but never one of those trained on: the seeds differ whatever Options.Seed is.
	judged, err := drawer(o.Jobs, judgedSeed)
	if err != nil {
		return nil, err
	}
	n := o.Jobs.Count
	if n == 0 {
		n = defaultJobs
	}
	e := training.EnvironmentOptions{WithMemory: o.Jobs.Actions == 27}
	b := &bench{env: training.NewEnvironment(judged, e), stay: resources.ActionSpace{WithMemory: e.WithMemory}.Stay(), cases: make([]benchCase, n)}
	data := o.Jobs.Data
	if data == "" {
		data = "embedded"
	}
	env, curriculum := training.NewEnvironment(trained, e), NewCurriculum()
	return &world{env: env, data: data, reference: jobReference, measure: b.measure, outdoes: outdoesOnJobs, preferences: curriculum.Draw,
		settle: func() { curriculum.Update(env.Take()) }, note: func(m *morl.Meta) { pretrained.Note(m, curriculum.Multiplier()) }}, nil
}

// judgedSeed draws the jobs to measure on; it is even, those to train on are odd.
const judgedSeed = 0x1d6ec

func drawer(o JobOptions, seed uint64) (func(rng *rand.Rand) training.Scenario, error) {
	d, err := profile.NewDraw(profile.DrawOptions{Set: o.Set, Kinds: o.Kinds, Seed: seed})
	if err != nil {
		return nil, err
	}
	return func(rng *rand.Rand) training.Scenario { return d.At(rng.IntN(1 << 30)).Scenario }, nil
}

// outdoesOnJobs: better by more than two standard errors, job by job. A few jobs tell little, and of two agents that
// measure alike the one that learned longer is kept.
func outdoesOnJobs(before, now *Measured) bool {
	advantage, se := paired(before.Jobs.byJob, now.Jobs.byJob)
	return advantage > 2*se
}

// paired is the mean of a − b and its standard error, infinite with fewer than two pairs.
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

// bench are the jobs that agents are measured on. What an allocation comes to in a job is worked out once.
type bench struct {
	env   *training.Environment
	stay  int
	cases []benchCase
}

type benchCase struct {
	ready    bool
	outlook  perf.Outlook
	board    []resources.Allocation
	own      resources.Allocation
	model    []resources.Allocation // by preference
	outcomes []outcome
}

type outcome struct {
	at    resources.Allocation
	earns [4]float64
}

// reset starts job i anew; the same every time.
func (b *bench) reset(i int) morl.Observation {
	return b.env.Reset(rand.New(rand.NewPCG(uint64(i), 0xbe7c)))
}

func (b *bench) prepare(i int) *benchCase {
	c := &b.cases[i]
	if c.ready {
		return c
	}
	b.reset(i)
	c.outlook, c.board, c.own, c.ready = *b.env.Outlook(), b.env.Board(), b.env.Scenario().Baseline, true
	weighed := make([]perf.Weighing, len(c.board))
	for k, a := range c.board {
		weighed[k] = c.outlook.Weigh(a)
	}
	for _, w := range JobPreferences {
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

// earns is what going on at an allocation comes to in job i.
func (b *bench) earns(i int, at resources.Allocation) [4]float64 {
	c := &b.cases[i]
	for _, o := range c.outcomes {
		if o.at.SameShape(at) {
			return o.earns
		}
	}
	b.reset(i)
	earned, _ := b.env.Commit(at) // one decision an episode
	c.outcomes = append(c.outcomes, outcome{at, earned})
	return earned
}

// choose is what the agent chooses in job i: an agent with critics corrects the performance model's view of every
// allocation, as it does for a planner; any other edits a proposal until it says "no change".
func (b *bench) choose(i int, a morl.Agent, w [4]float64) resources.Allocation {
	c := &b.cases[i]
	if v, ok := a.(morl.Valuer); ok {
		at, most := c.own, math.Inf(-1)
		for _, j := range c.outlook.Judge(v, b.stay, c.board, w) {
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

func (b *bench) measure(a morl.Agent) Measured {
	n, p := float64(len(b.cases)), float64(len(JobPreferences))
	j := &Comparison{Jobs: len(b.cases)}
	means := make([][]float64, len(JobPreferences))
	for k := range means {
		means[k] = make([]float64, len(perf.Objectives))
	}
	var byModel []float64
	for i := range b.cases {
		c := b.prepare(i)
		var mine, model float64
		for k, w := range JobPreferences {
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
	return Measured{Front: front, Hypervolume: pareto.Hypervolume(front, jobReference), ExpectedUtility: j.Agent, Jobs: j}
}
