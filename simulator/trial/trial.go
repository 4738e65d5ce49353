package trial

import (
	"fmt"
	"math"

	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// Job is one job to run: the same job with the same Seed meets the same noise under every planner.
type Job struct {
	Scenario *training.Scenario
	Seed     uint64 // of the noise
	Prefer   plan.Preference
}

// Options are the agent's own settings, with its defaults for zero.
type Options struct {
	Samples int     // allocations measured before the plan, at most; 0: 4; 1: the user's own only
	Ratio   float64 // share of the job's predicted cost at which probing ends; 0: 0.10
	Every   int     // units of work before the first look for a better allocation; 0: 5; negative: never looks
}

func (o Options) withDefaults() Options {
	if o.Samples <= 0 {
		o.Samples = 4
	}
	if o.Ratio <= 0 {
		o.Ratio = 0.10
	}
	if o.Every == 0 {
		o.Every = 5
	}
	return o
}

// Kind is what a piece of a run was spent on.
type Kind string

// The kinds of pieces.
const (
	Start   Kind = "start"   // from launch to the first unit of work
	Probe   Kind = "probe"   // work done while allocations were measured
	Work    Kind = "work"    // work done at a planned allocation
	Move    Kind = "move"    // restarts by choice
	Lost    Kind = "lost"    // to interruptions: work done again, restarts, time without a machine
	Saving  Kind = "saving"  // the checkpoint of a run that was stopped
	Refused Kind = "refused" // a start where the job cannot run, and the way back
)

// Piece is a part of a run at one allocation; the pieces of a run sum to the whole.
type Piece struct {
	Kind       Kind                 `json:"kind"`
	Allocation resources.Allocation `json:"allocation"`
	Seconds    float64              `json:"seconds"`
	USD        float64              `json:"usd"`
	Units      float64              `json:"units"`
}

// Decision is one thing that the planner, or the rules around it, decided.
type Decision struct {
	AtS    float64              `json:"at_s"`
	Done   float64              `json:"done"`
	What   string               `json:"what"` // probe, plan, stay, move
	To     resources.Allocation `json:"to"`
	Reason string               `json:"reason"`
}

// Outcome is how a run ended. Everything that was spent is in it: probes, restarts, start-up.
type Outcome struct {
	Seconds  float64
	USD      float64
	Joules   float64 // NaN where the power of anything that ran is unknown
	Resource float64 // share of the limits that was held, 0…1, averaged over the time
	Done     float64 // units of work

	Finished bool
	// Stopped is the limit for which the guard ended the run; empty when it did not.
	Stopped sla.Objective
	// DeadlineMet and BudgetMet are true when nothing was agreed.
	DeadlineMet, BudgetMet bool
	// BudgetOverrun is by how much more was spent than agreed, relative; 0 without a budget.
	BudgetOverrun float64

	Restarts      int // by choice, probes included
	Interruptions int
	Probes        int // allocations measured before the plan, the user's own included
	ProbeSeconds  float64
	ProbeUSD      float64
	MoveSeconds   float64 // spent on restarts by choice
	Pieces        []Piece
	Decisions     []Decision
	// Fallbacks say where the planner failed and the user's own configuration was taken instead.
	Fallbacks []string

	limits resources.Limits // of the scenario
}

// Kept reports whether the job was done within all that was agreed of time and cost.
func (o *Outcome) Kept() bool { return o.Finished && o.DeadlineMet && o.BudgetMet }

// Run runs a job under a planner from start to end, or until the guard stops it. The error is about a job that makes no
// sense; a planner that fails does not end a run. Milliseconds to tens of milliseconds for a planner with a model.
func Run(job Job, p plan.Planner, o Options) (*Outcome, error) {
	return runJob(job, o, func(r *runner) strategy { return &planned{r: r, planner: p} })
}

// strategy is what differs between arms: where to measure next, and where to go with what was measured.
type strategy interface {
	// measures is false for a strategy that goes to its plan without measuring anything first.
	measures() bool
	// next is the allocation to measure next, nil to plan now.
	next() (*resources.Allocation, string)
	// settle is where to work, after the measurements.
	settle() (resources.Allocation, string)
	// look is called every so often while it works: where to move, nil to stay.
	look() (*resources.Allocation, string)
}

func runJob(job Job, o Options, with func(*runner) strategy) (*Outcome, error) {
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

// probeStep decides, while measuring, whether to go on, to measure elsewhere or to plan: optimizer's probeStep.
func (r *runner) probeStep(s strategy) {
	if !measuredEnough(r.progress.Current()) && !r.probeTooSlow() {
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

// workStep looks for a better allocation when enough work has been done since the last look: optimizer's adaptStep.
func (r *runner) workStep(s strategy) {
	if r.pause <= 0 || r.x.Done-r.lookedAt < r.pause || r.x.Elapsed < r.restUntil {
		return
	}
	r.lookedAt, r.restUntil = r.x.Done, r.x.Elapsed+rest
	r.pause = min(2*r.pause, max(float64(r.o.Every), r.s.Units/20))
	a, why := s.look()
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

// rest is how long the agent does nothing after a look, seconds: the time that one takes, divided by the share of a CPU
// that it grants itself.
const rest = 0.02 / 0.005

func (r *runner) decided(what string, a resources.Allocation, why string) {
	r.out.Decisions = append(r.out.Decisions, Decision{AtS: r.x.Elapsed, Done: r.x.Done, What: what, To: a, Reason: why})
}

func (r *runner) outcome() *Outcome {
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
		held += p.Seconds * perf.ResourceShare(p.Allocation, r.s.Limits)
		switch p.Kind {
		case Probe:
			out.ProbeSeconds, out.ProbeUSD = out.ProbeSeconds+p.Seconds, out.ProbeUSD+p.USD
		case Move:
			out.MoveSeconds += p.Seconds
		}
	}
	out.Resource = held / out.Seconds
	return out
}

// check refuses what cannot be run at all.
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
