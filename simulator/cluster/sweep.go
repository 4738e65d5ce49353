package cluster

// Sweep.Run runs policies over loads and seeds in parallel and compares them: mean completion
// times by load, and the distributions of completion times and fairness, with the intervals and tests of package
// experiment.
//
// A run that is not stable or reaches its limit has no figures, since its mean would be biased towards the jobs that
// ended. It is counted and reported, and higher loads of the same policy and seed are skipped.
//
//	sweep := &cluster.Sweep{
//		Policies:  []string{"fifo", "fifo_perf"},
//		Seeds:     []uint64{0, 1, 2},
//		Scenarios: scenarios, // the same cluster at 1, 2, … jobs per hour
//	}
//	outcome, err := sweep.Run(ctx)

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"trainopt/simulator/experiment"
)

// Scenario is one setting in which all policies are run with every seed.
type Scenario struct {
	Name string // "4 jobs/h"
	// Group and X are the position in charts: the scenarios of a group form a line for each policy, ordered by X.
	Group string
	X     float64
	// Policies are the policies of the sweep that run in this scenario, equal within a group; nil: all.
	Policies []string
	// Config is the simulation. Policy and the seeds of policy and generator are set by Run.
	Config Config
	// Draw returns the simulation of a seed instead of Config, except for its policy; nil: Config.
	Draw func(seed uint64) (Config, error)
}

// Sweep is the input of a comparison. Policies, Seeds and Scenarios are required.
type Sweep struct {
	Title    string
	XName    string // name and unit of Scenario.X
	Policies []string
	Against  []string // reference policies; nil: the first policy
	Seeds    []uint64
	// Scenarios of a group are consecutive, ordered by X.
	Scenarios []Scenario
	// Fairness also runs the policy "isolated", which finish-time fairness requires.
	Fairness bool
	// Chooser returns Config.Choose for one run of a policy; nil, or a nil result: the policy decides itself.
	Chooser func(policy string) func(*DecisionPoint) int
	// Preferences are those by which the policies are compared; requires Fairness.
	Preferences []preference
	// Timeout limits the real time of each run; 0: none. Runs that reach it depend on the machine.
	Timeout time.Duration
	Workers int // number of parallel runs; 0: one per core
	// Progress is called after each run, from one goroutine at a time; nil: never.
	Progress func(done, total int)
	Notes    []string
}

// sweepCell is one run.
type sweepCell struct {
	Result *Result // nil if the run did not take place
	// Reason explains missing figures; "" otherwise.
	Reason string
	Err    error // the policy failed, or the configuration cannot be simulated
}

// known reports whether the run has figures.
func (c *sweepCell) known() bool { return c.Result != nil && c.Reason == "" }

// Outcome is the result of a sweep.
type Outcome struct {
	*Sweep
	Comparison *experiment.Comparison
	Cells      [][][]sweepCell // by policy, scenario and seed
	isolated   [][]sweepCell   // by scenario and seed; nil if not requested
}

// baseline is the reference policy of finish-time fairness.
const baseline = "isolated"

// Run performs all runs, here or on the site of the context (cells.On). The outcome is identical for any number of
// workers, unless a run reaches Timeout. If the context ends, Run returns the partial outcome with the context's error.
// Otherwise the error is that of the site, or of the first failed run in the order of policies, scenarios and seeds; the
// outcome contains the other runs.
func (s *Sweep) Run(ctx context.Context) (*Outcome, error) {
	o := newOutcome(s)
	tasks := o.tasks()
	done, total := 0, 0
	reported := make([]int, len(tasks)) // runs by task
	for _, t := range tasks {
		total += t.to - t.from
	}
	var telling sync.Mutex
	tell := func(k, runs int) {
		telling.Lock()
		defer telling.Unlock()
		if reported[k] += runs; runs > 0 && s.Progress != nil {
			done += runs
			s.Progress(done, total)
		}
	}
	options := experiment.CellOptions{Workers: s.Workers, Progress: func(k int) { tell(k, tasks[k].to-tasks[k].from-reported[k]) }}
	lines, err := experiment.Compute(ctx, len(tasks), options, func(ctx context.Context, k int) ([]line, error) {
		return o.runLine(ctx, tasks[k], func(runs int) { tell(k, runs) }), nil
	})
	for k, of := range lines {
		if of == nil {
			continue
		}
		for i, l := range *of {
			cell := &tasks[k].cells[tasks[k].from+i][tasks[k].seed]
			*cell = sweepCell{Result: l.Result, Reason: l.Reason}
			if l.Err != "" {
				cell.Err = errors.New(l.Err)
			}
		}
	}
	o.compare()
	switch {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case err != nil:
		return o, err
	}
	return o, o.firstError()
}

// newOutcome allocates the cells of all runs.
func newOutcome(s *Sweep) *Outcome {
	o := &Outcome{Sweep: s, Cells: make([][][]sweepCell, len(s.Policies))}
	grid := func() [][]sweepCell {
		g := make([][]sweepCell, len(s.Scenarios))
		for k := range g {
			g[k] = make([]sweepCell, len(s.Seeds))
		}
		return g
	}
	for p := range o.Cells {
		o.Cells[p] = grid()
	}
	if i := slices.Index(s.Policies, baseline); i >= 0 {
		o.isolated = o.Cells[i]
	} else if s.Fairness {
		o.isolated = grid()
	}
	return o
}

// task is the runs of a policy with a seed on the scenarios from…to−1 of one group, executed sequentially.
type task struct {
	policy   string
	cells    [][]sweepCell
	seed     int
	from, to int
}

// tasks returns all tasks, ordered such that the policies and seeds of a group complete together.
func (o *Outcome) tasks() []task {
	var out []task
	for from := 0; from < len(o.Scenarios); {
		to := from + 1
		for to < len(o.Scenarios) && o.Scenarios[to].Group == o.Scenarios[from].Group {
			to++
		}
		for seed := range o.Seeds {
			for p, name := range o.Policies {
				if only := o.Scenarios[from].Policies; only != nil && !slices.Contains(only, name) {
					continue
				}
				out = append(out, task{name, o.Cells[p], seed, from, to})
			}
			if o.isolated != nil && !slices.Contains(o.Policies, baseline) {
				out = append(out, task{baseline, o.isolated, seed, from, to})
			}
		}
		from = to
	}
	return out
}

// line is a Cell in the form in which a site transfers it.
type line struct {
	Result *Result
	Reason string
	Err    string
}

// runLine executes a task and returns its cells by scenario. Scenarios after a run that is not stable or was stopped are
// skipped.
func (o *Outcome) runLine(ctx context.Context, t task, tell func(runs int)) []line {
	out := make([]line, t.to-t.from)
	for k := t.from; k < t.to; k++ {
		var cell sweepCell
		if ctx.Err() == nil {
			cell = o.runOne(ctx, t.policy, &o.Scenarios[k], o.Seeds[t.seed])
		}
		one := &out[k-t.from]
		if one.Result, one.Reason = cell.Result, cell.Reason; cell.Err != nil {
			one.Err = cell.Err.Error()
		}
		if cell.Result == nil || cell.Reason == "" {
			tell(1)
			continue
		}
		why := "stopped at "
		if cell.Result.NotStable != nil {
			why = "not stable at "
		}
		for rest := k + 1; rest < t.to; rest++ {
			out[rest-t.from].Reason = "not run: " + why + o.Scenarios[k].Name
		}
		tell(t.to - k)
		break
	}
	return out
}

// runOne performs one run. A panic is reported as an error of the cell.
func (o *Outcome) runOne(ctx context.Context, policy string, s *Scenario, seed uint64) (cell sweepCell) {
	defer func() {
		if x := recover(); x != nil {
			cell = sweepCell{Reason: "failed", Err: fmt.Errorf("policy %s, %s, seed %d: panic: %v", policy, s.Name, seed, x)}
		}
	}()
	// The generator is copied, since scenarios share it between seeds.
	c := s.Config
	c.Seed = int64(seed)
	if s.Draw != nil {
		var err error
		if c, err = s.Draw(seed); err != nil {
			return sweepCell{Reason: "failed", Err: fmt.Errorf("%s, seed %d: %w", s.Name, seed, err)}
		}
	}
	if c.Policy = policy; o.Chooser != nil {
		c.Choose = o.Chooser(policy)
	}
	if c.Generate != nil {
		g := *c.Generate
		g.Seed = int64(seed)
		c.Generate = &g
	}
	inner, stop := ctx, context.CancelFunc(func() {})
	if o.Timeout > 0 {
		inner, stop = context.WithTimeout(ctx, o.Timeout)
	}
	defer stop()
	r, err := Run(inner, c)
	cell.Result = r
	// An interruption of the sweep leaves the cell empty; a timeout is a reason.
	switch {
	case err == nil:
	case errors.Is(err, errNotStable):
		cell.Reason = fmt.Sprintf("not stable: jobs in the cluster asked for %d devices, of %d, and more and more", r.NotStable.Demand[2], r.NotStable.Devices)
	case errors.Is(err, errLimit):
		cell.Reason = "stopped at the limit of simulated time"
	case ctx.Err() != nil:
		cell = sweepCell{}
	case inner.Err() != nil:
		cell.Reason = fmt.Sprintf("stopped after %v of real time", o.Timeout)
	default:
		cell = sweepCell{Reason: "failed", Err: fmt.Errorf("policy %s, %s, seed %d: %w", policy, s.Name, seed, err)}
	}
	return cell
}

func (o *Outcome) firstError() error {
	for _, policy := range append(slices.Clone(o.Cells), o.isolated) {
		for _, scenario := range policy {
			for _, cell := range scenario {
				if cell.Err != nil {
					return cell.Err
				}
			}
		}
	}
	return nil
}

// Mean returns the mean of a quantity over the seeds of a policy in a scenario; NaN unless all seeds have figures.
func (o *Outcome) Mean(policy, scenario int, of func(*Result) float64) float64 {
	sum := 0.0
	for i := range o.Cells[policy][scenario] {
		c := &o.Cells[policy][scenario][i]
		if !c.known() {
			return math.NaN()
		}
		sum += of(c.Result)
	}
	return sum / float64(len(o.Seeds))
}
