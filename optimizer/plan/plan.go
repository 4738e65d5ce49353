package plan

import (
	"time"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// Preference weighs the three objectives; the weights are ≥ 0 and sum to 1.
type Preference struct {
	Time     float64 `json:"time"`
	Cost     float64 `json:"cost"`
	Resource float64 `json:"resource"`
}

// Snapshot is all that a planner may look at: a copy, never changed while it decides.
type Snapshot struct {
	Host       resources.Host
	Limits     resources.Limits
	Spec       sla.Spec
	Rates      cost.Rates
	Preference Preference

	// Model predicts seconds per unit of work at any allocation; nil when nothing is known yet.
	Model *perf.Model
	// Done and Total are units of work (epochs or steps); Total is 0 when the job does not say.
	Done, Total float64
	// Elapsed and Spent are what the run has used so far, probes and restarts included.
	Elapsed time.Duration
	Spent   cost.USD
	// Current is the allocation that runs now; nil before the first start. Baseline is the user's own
	// configuration (everything the limits allow, as it would have run without us).
	Current  *resources.Allocation
	Baseline resources.Allocation
	// Startup is the measured time from launch to the first unit of work, seconds; Restart is what one more
	// restart costs (checkpoint, exit, start, warm-up), seconds; the zero Interval means not measured.
	Startup, Restart sla.Interval
	// Reserve is the time before a limit at which the guard stops the run, for an orderly exit: plans end before it.
	Reserve time.Duration
	// Resumable says that the job can be restarted where it is, LiveCPU that CPUs may be taken from it while it runs
	// (its thread pools keep their size), Restartable that the user agreed to start a job that cannot be resumed from
	// nothing: by default that is never done.
	Resumable, LiveCPU, Restartable bool
	// HoldBaseline is set where the user stated neither a preference nor a limit: nothing that is predicted more than
	// 2 % slower than Baseline is then feasible, as long as Baseline is itself. A preference for time alone implies it.
	HoldBaseline bool
	// ThreadKnob admits one thread a process beside the job's own default.
	ThreadKnob bool
	// Workers are the loader workers that the user allows, the zero Range only those of Baseline; those that were measured
	// are candidates. LiveWorkers says that their number can be changed while the job runs.
	Workers     resources.Range
	LiveWorkers bool
	// Trials are the stretches of this run so far, in order.
	Trials []Trial
	// Memory is what the job needs by measurement, with margin; 0 when not measured.
	Memory resources.GiB
	// Utilisation measured lately, in %; NaN when there is no data. Used by the rules planner.
	GPUUtil, CPUUtil, Throughput float64
	// Weights are those with which a learning agent was asked at the last decision (cost, time, resource, SLA), nil before
	// the first.
	Weights *[4]float64
	// Recurrences are earlier runs of the same job to the same end, the oldest first. Used by the bandit planner.
	Recurrences []Recurrence
}

// Recurrence is an earlier run of the same job.
type Recurrence struct {
	// Allocation is what it was planned with, zero when it ended before that; BatchSize is 0 when it is not known.
	Allocation resources.Allocation
	Seconds    float64
	USD        cost.USD // NaN when unknown
	Joules     float64  // NaN when unknown
	// Reached is whether it finished its training; else what it took until it was stopped or died.
	Reached bool
}

// Candidate is one allowed allocation with its predicted outcome for the whole run: what is already
// used plus what remains, the restart to get there included.
type Candidate struct {
	Allocation resources.Allocation `json:"allocation"`
	Seconds    sla.Interval         `json:"seconds"`
	CostUSD    sla.Interval         `json:"cost_usd"`
	Throughput sla.Interval         `json:"throughput"` // samples/s (units/s when samples are unknown)
	// Resource is the share of the limits that is held, 0…1, averaged over the work of the run (what is done already
	// counts as done where the job runs now): the mean over GPUs, CPUs and memory of given/allowed.
	Resource float64 `json:"resource"`
	// Feasible: every agreed limit is met with at least 95 % probability by the model, and it is not Slower.
	Feasible bool `json:"feasible"`
	// Slower: excluded as more than 2 % slower than the user's own configuration; see Snapshot.HoldBaseline.
	Slower bool `json:"slower,omitempty"`
	// Chance is the model's probability that all agreed time and cost limits are met, 0…1.
	Chance  float64         `json:"chance"`
	Breaks  []sla.Objective `json:"breaks,omitempty"` // limits not met with 95 % probability
	OnFront bool            `json:"on_front"`
}

// Pace is what one unit of work takes at an allocation.
type Pace struct {
	Allocation resources.Allocation `json:"allocation"`
	Seconds    sla.Interval         `json:"seconds"`
	CostUSD    sla.Interval         `json:"cost_usd"`
	Throughput sla.Interval         `json:"throughput"` // samples/s (units/s when samples are unknown)
}

// Option is the point that one preset preference would select, and what it gives up against the
// chosen one: positive is more, in percent of the choice; nil when not predicted.
type Option struct {
	Prefer      string    `json:"prefer"` // time, cost, resource, balanced
	Candidate   Candidate `json:"candidate"`
	SecondsPct  *float64  `json:"seconds_pct"`
	CostPct     *float64  `json:"cost_pct"`
	ResourcePct *float64  `json:"resource_pct"`
}

// Plan is a decision, with the evidence for it.
type Plan struct {
	Allocation resources.Allocation
	Planner    string
	Reason     string // one sentence for people
	Binding    string // the constraint that shaped the choice, in words; "none"
	// Chosen is the candidate selected. Predicted is false when the planner had no model or the total work is unknown:
	// nothing is then known of the whole run, Chosen has an allocation and a throughput alone, and Candidates and Options
	// are empty.
	Chosen     Candidate
	Predicted  bool
	Candidates []Candidate // all that were weighed, the front marked
	Options    []Option    // time, cost, resource, balanced, always all four when Predicted
	// Paces are what a unit of work takes at the allocations weighed where the total work is unknown; else empty.
	Paces []Pace
	// Recourse is where the job can still go to keep the agreement when Allocation, which keeps it with less than 95 %
	// probability, turns out slower or dearer than expected; nil when Allocation keeps it, or nothing does.
	Recourse *resources.Allocation
	Learned  *Learned // what a learning agent adds; nil for other planners
}

// Planner chooses an allocation. Decide is a pure function of the snapshot.
// It returns *Infeasible (errors.As) when no allowed allocation can meet the agreement.
type Planner interface {
	Name() string
	Decide(Snapshot) (Plan, error)
}

// Infeasible says that nothing allowed meets the agreement, and what comes nearest.
type Infeasible struct {
	Nearest Candidate // most likely to meet it all the same; the least violation where hardly anything can
	Why     string    // which limit, by how much, and what agreement would be feasible
	Plan    Plan      // the plan for Nearest, should the user go on
}

func (e *Infeasible) Error() string { return e.Why }
