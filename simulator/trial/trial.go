package trial

import (
	"cmp"
	"fmt"
	"math"

	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// Job is one job to run. The same job with the same Seed has the same noise under every planner.
type Job struct {
	Scenario *training.Scenario
	Seed     uint64 // of the noise
	Prefer   plan.Preference
}

// Options are the settings of the agent; zero fields mean its defaults.
type Options struct {
	Samples int     // maximum number of allocations measured before the plan; 0: 4; 1: the baseline only
	Ratio   float64 // share of the job's predicted cost at which probing ends; 0: 0.10
	Every   int     // units of work before the first re-evaluation of the allocation; 0: 5; negative: never
}

func (o Options) withDefaults() Options {
	if o.Samples <= 0 {
		o.Samples = 4
	}
	if o.Ratio <= 0 {
		o.Ratio = 0.10
	}
	o.Every = cmp.Or(o.Every, 5)
	return o
}

// pieceKind is the purpose of a piece of a run.
type pieceKind string

// The kinds of pieces.
const (
	pieceStart  pieceKind = "start"   // from launch to the first unit of work
	pieceProbe  pieceKind = "probe"   // work during the measurement of allocations
	pieceWork   pieceKind = "work"    // work at a planned allocation
	pieceMove   pieceKind = "move"    // restarts by choice
	pieceLost   pieceKind = "lost"    // due to interruptions: repeated work, restarts, time without a machine
	pieceSaving pieceKind = "saving"  // the checkpoint of a stopped run
	refused     pieceKind = "refused" // a start where the job cannot run, and the return
)

// piece is a part of a run at one allocation; the pieces of a run add up to the whole.
type piece struct {
	Kind       pieceKind            `json:"kind"`
	Allocation resources.Allocation `json:"allocation"`
	Seconds    float64              `json:"seconds"`
	USD        float64              `json:"usd"`
	Units      float64              `json:"units"`
}

// decision is one decision of the planner or of the rules around it.
type decision struct {
	AtS    float64              `json:"at_s"`
	Done   float64              `json:"done"`
	What   string               `json:"what"` // probe, plan, stay, move
	To     resources.Allocation `json:"to"`
	Reason string               `json:"reason"`
}

// outcome is the result of a run. It includes everything spent: probes, restarts, start-up.
type outcome struct {
	Seconds  float64
	USD      float64
	Joules   float64 // NaN if the power at any allocation used is unknown
	Resource float64 // share of the limits held, 0…1, averaged over the running time
	Done     float64 // units of work

	Finished bool
	// Stopped is the limit for which the guard stopped the run; empty if it did not.
	Stopped sla.Objective
	// DeadlineMet and BudgetMet are true without a limit.
	DeadlineMet, BudgetMet bool
	// BudgetOverrun is the relative excess of the cost over the budget; 0 without a budget.
	BudgetOverrun float64

	Restarts      int // by choice, probes included
	Interruptions int
	Probes        int // allocations measured before the plan, including the baseline
	ProbeSeconds  float64
	ProbeUSD      float64
	Pieces        []piece
	Decisions     []decision
	// Fallbacks describes each failure of the planner, after which the baseline was used, and each allocation at which
	// the job did not run.
	Fallbacks []string

	lost   spent            `cells:"-"` // due to interruptions
	limits resources.Limits `cells:"-"` // of the scenario
}

// objectives returns the objectives without what interruptions cost; see fixedRun.objectives.
func (o *outcome) objectives() [3]float64 {
	return [3]float64{o.Seconds - o.lost.seconds, o.USD - o.lost.usd, o.Resource}
}

// MetSLA reports whether the job finished within the deadline and the budget.
func (o *outcome) MetSLA() bool { return o.Finished && o.DeadlineMet && o.BudgetMet }

// Run runs a job under a planner to completion or until the guard stops it. It returns an error for an invalid job; a
// failing planner does not end a run. A run takes milliseconds to tens of milliseconds for a planner with a model.
func Run(job Job, p plan.Planner, o Options) (*outcome, error) {
	return runJob(job, o, func(r *runner) strategy { return &planned{r: r, planner: p} })
}

// strategy is the part of a run that differs between arms: the choice of probes and of the allocation for the work.
type strategy interface {
	// measures is false for a strategy that starts with its plan, without measurements.
	measures() bool
	// next returns the allocation to measure next, nil to plan now.
	next() (*resources.Allocation, string)
	// settle returns the allocation for the work, after the measurements.
	settle() (resources.Allocation, string)
	// reevaluate is called at intervals during the work and returns the allocation to move to, nil to stay.
	reevaluate() (*resources.Allocation, string)
}

// runJob runs a job unit by unit under a strategy until it is finished or stopped.
func runJob(job Job, o Options, with func(*runner) strategy) (*outcome, error) {
	r, err := newRunner(job, o.withDefaults())
	if err != nil {
		return nil, err
	}
	s := with(r)
	if !s.measures() {
		a, why := s.settle()
		r.decided("plan", a, why)
		r.target, r.working = a, true
	}
	for !r.over() {
		r.unit()
		if r.over() {
			break
		}
		if r.working {
			r.workStep(s)
		} else {
			r.probeStep(s)
		}
	}
	return r.outcome(), nil
}

// probeStep decides during measurements whether to continue, to measure elsewhere or to plan, as the agent's
// probeStep.
func (r *runner) probeStep(s strategy) {
	if !r.progress.ProbedEnough(r.progress.Current()) && !r.probeBudgetExhausted() {
		return
	}
	if r.probes++; r.probes > 1 {
		r.probesUSD += r.x.SpentUSD - r.probeFrom
	}
	r.probeFrom = r.x.SpentUSD
	if next, why := s.next(); next != nil {
		r.decided("probe", *next, why)
		r.target = *next
		return
	}
	a, why := s.settle()
	r.decided("plan", a, why)
	r.target, r.working, r.lookedAt, r.pause = a, true, r.x.Done, float64(r.o.Every)
}

// workStep re-evaluates the allocation when enough work was done since the last time, as the agent's adaptStep.
func (r *runner) workStep(s strategy) {
	if r.pause <= 0 || r.x.Done-r.lookedAt < r.pause || r.x.Elapsed < r.restUntil {
		return
	}
	r.lookedAt, r.restUntil = r.x.Done, r.x.Elapsed+rest
	r.pause = min(2*r.pause, max(float64(r.o.Every), r.s.Units/20))
	a, why := s.reevaluate()
	if a == nil {
		if why != "" {
			r.decided("stay", r.x.Current, why)
		}
		return
	}
	what := "move"
	if !r.working {
		what, r.probeFrom = "probe", r.x.SpentUSD
	}
	r.decided(what, *a, why)
	r.target, r.pause = *a, float64(r.o.Every)
}

// rest is the agent's minimum pause in seconds after a re-evaluation: its duration divided by the share of a CPU granted to
// planning.
const rest = 0.02 / 0.005

// decided records a decision at the present time.
func (r *runner) decided(what string, a resources.Allocation, why string) {
	r.out.Decisions = append(r.out.Decisions, decision{AtS: r.x.Elapsed, Done: r.x.Done, What: what, To: a, Reason: why})
}

// outcome returns the result of the run from the execution and the pieces.
func (r *runner) outcome() *outcome {
	out, x, spec := r.out, r.x, r.s.Spec
	out.Seconds, out.USD, out.Joules, out.Done = x.Elapsed, x.SpentUSD, x.Joules, x.Done
	out.Finished = r.finished()
	out.DeadlineMet = spec.TimeMax <= 0 || out.Finished && out.Seconds <= spec.TimeMax.Seconds()
	out.BudgetMet = spec.CostMaxUSD <= 0 || out.USD <= spec.CostMaxUSD
	if spec.CostMaxUSD > 0 {
		out.BudgetOverrun = max(0, out.USD/spec.CostMaxUSD-1)
	}
	out.Probes, out.limits = r.probes, r.s.Limits
	held := 0.0
	for _, p := range out.Pieces {
		if p.Kind != pieceLost {
			held += p.Seconds * perf.ResourceShare(p.Allocation, r.s.Limits)
		}
		switch p.Kind {
		case pieceProbe:
			out.ProbeSeconds, out.ProbeUSD = out.ProbeSeconds+p.Seconds, out.ProbeUSD+p.USD
		case pieceLost:
			out.lost.seconds, out.lost.usd = out.lost.seconds+p.Seconds, out.lost.usd+p.USD
		}
	}
	out.Resource = held / (out.Seconds - out.lost.seconds)
	return out
}

// check returns an error for a job that cannot be run at all.
func check(job Job) error {
	s := job.Scenario
	switch {
	case s == nil || s.Workload == nil:
		return fmt.Errorf("trial: no scenario")
	case !(s.Units > 0) || math.IsInf(s.Units, 0):
		return fmt.Errorf("trial of %s: %g units of work", s.Name, s.Units)
	case !(s.Workload.UnitSeconds(s.Baseline) > 0):
		return fmt.Errorf("trial of %s: the job cannot run at its user's own configuration, %s", s.Name, s.Baseline)
	}
	return nil
}
