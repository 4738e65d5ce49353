package plan

import (
	"cmp"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// Preference weighs the three objectives. The weights are ≥ 0 and sum to 1.
type Preference struct {
	Time     float64 `json:"time"`
	Cost     float64 `json:"cost"`
	Resource float64 `json:"resource"`
}

// Snapshot is the complete input of a planner: a copy that does not change during a decision.
type Snapshot struct {
	Host       resources.Host
	Limits     resources.Limits
	Spec       sla.Spec
	Rates      cost.Rates
	Preference Preference

	// Model predicts seconds per unit of work at any allocation; nil before anything is measured.
	Model *perf.Model
	// Done and Total are units of work (epochs or steps); Total is 0 when unknown.
	Done, Total float64
	// Elapsed and Spent are the time and money already used by the run, including probes and restarts.
	Elapsed time.Duration
	Spent   cost.USD
	// Current is the running allocation, nil before the first start. Baseline is the allocation that the job would
	// use without optimize: everything that the limits allow, or of a shared node the part that it would ask for.
	Current  *resources.Allocation
	Baseline resources.Allocation
	// Startup is the measured time from launch to the first unit of work, in seconds. Restart is the cost of one
	// restart (checkpoint, exit, start, warm-up), in seconds. The zero Interval means not measured.
	Startup, Restart sla.Interval
	// Ending is the remainder of the run after its last unit of work.
	Ending Ending
	// Interruptions are those expected of the capacity: their rate and the time away. What each repeats follows from
	// Restart, Startup and the unit of work. The zero value means none.
	Interruptions cost.Interruptions
	// Reserve is the time before a limit at which the guard stops the run for an orderly exit. Plans end before it.
	Reserve time.Duration
	// Resumable reports that the job can resume from its checkpoint. LiveCPU reports that CPUs can be taken from the
	// running job (its thread pools keep their size).
	Resumable, LiveCPU bool
	// Stays is the reason, as a clause, why a job that is not Resumable is not restarted by choice; "" is that it
	// cannot be resumed.
	Stays string
	// HoldBaseline is set when the user stated neither a preference nor a limit. Candidates predicted more than 2 %
	// slower than Baseline are then infeasible, provided that Baseline itself is feasible. A preference for time
	// alone implies it.
	HoldBaseline bool
	// ThreadKnob admits one thread per process as an alternative to the job's default.
	ThreadKnob bool
	// Workers is the range of loader workers that the user allows; the zero Range allows only those of Baseline. Only
	// measured worker counts become candidates. LiveWorkers reports that the count can be changed in the running job.
	Workers     resources.Range
	LiveWorkers bool
	// ProbeTime is the minimum time for which a probe times its work; 0 without one.
	ProbeTime time.Duration
	// Trials are the segments of this run so far, in order.
	Trials []Trial
	// Memory is the measured requirement of the job plus a margin; 0 when not measured.
	Memory resources.GiB
	// Charged returns an allocation with the memory that is charged for its GPUs and CPUs; nil: memory is planned.
	Charged func(resources.Allocation) resources.Allocation
	// GPUUtil and CPUUtil are the recent utilization in %, Throughput is in samples/s; NaN without data. The SLA
	// check uses the utilization; the rules planner uses GPUUtil and Throughput.
	GPUUtil, CPUUtil, Throughput float64
	// Weights are the preference weights passed to the learning agent at the last decision (cost, time, resource,
	// SLA); nil before the first decision.
	Weights *[4]float64
	// Recurrences are earlier runs of the same job with the same target, oldest first. Used by the bandit planner.
	Recurrences []Recurrence
}

// stays returns the reason why the job is not restarted by choice.
func (s Snapshot) stays() string { return cmp.Or(s.Stays, "the job cannot be resumed") }

// Recurrence is an earlier run of the same job.
type Recurrence struct {
	// Allocation is the planned allocation, zero when the run ended before planning. BatchSize is 0 when unknown.
	Allocation resources.Allocation
	Seconds    float64
	USD        cost.USD // NaN when unknown
	Joules     float64  // NaN when unknown
	// Reached reports that the run finished its training. Otherwise the values cover the run until it was stopped or
	// failed.
	Reached bool
}

// Candidate is an allowed allocation with its predicted outcome for the whole run: work and expenses so far plus the
// remainder, including the restart required to reach the allocation.
type Candidate struct {
	Allocation resources.Allocation `json:"allocation"`
	Seconds    sla.Interval         `json:"seconds"`
	CostUSD    sla.Interval         `json:"cost_usd"`
	Throughput sla.Interval         `json:"throughput"` // samples/s (units/s when samples are unknown)
	// Resource is the share of the limits that the run holds, 0…1, averaged over the work of the run (completed work
	// counts at the current allocation): the mean over GPUs, CPUs and memory of given/allowed.
	Resource float64 `json:"resource"`
	// Feasible reports that every limit of the SLA is met with at least 95 % probability and that Slower is false.
	Feasible bool `json:"feasible"`
	// Slower reports an exclusion as more than 2 % slower than the baseline; see Snapshot.HoldBaseline.
	Slower bool `json:"slower,omitempty"`
	// Again reports that a move there starts the running job from its beginning: time and cost contain the work done
	// so far twice.
	Again bool `json:"again,omitempty"`
	// Chance is the predicted probability that both the deadline and the budget are met, 0…1.
	Chance  float64         `json:"chance"`
	Breaks  []sla.Objective `json:"breaks,omitempty"` // limits not met with 95 % probability
	OnFront bool            `json:"on_front"`
}

// pace is the time, cost and throughput of one unit of work at an allocation.
type pace struct {
	Allocation resources.Allocation `json:"allocation"`
	Seconds    sla.Interval         `json:"seconds"`
	CostUSD    sla.Interval         `json:"cost_usd"`
	Throughput sla.Interval         `json:"throughput"` // samples/s (units/s when samples are unknown)
}

// Option is the candidate that a preset preference would select, compared with the chosen one. Differences are in
// percent of the choice, positive for more; nil when not predicted.
type Option struct {
	Prefer      string    `json:"prefer"` // time, cost, resource, balanced
	Candidate   Candidate `json:"candidate"`
	SecondsPct  *float64  `json:"seconds_pct"`
	CostPct     *float64  `json:"cost_pct"`
	ResourcePct *float64  `json:"resource_pct"`
}

// Plan is a decision with its evidence.
type Plan struct {
	Allocation resources.Allocation
	Planner    string
	Reason     string // one sentence, for display
	Binding    string // the constraint that shaped the choice, as text; "none" without one
	// Chosen is the selected candidate. Predicted is false when the planner had no model or the total work is
	// unknown: the outcome of the whole run is then not predicted, Chosen contains only an allocation and a
	// throughput, and Candidates and Options are empty.
	Chosen     Candidate
	Predicted  bool
	Candidates []Candidate // all candidates that were considered, the front marked
	Options    []Option    // time, cost, resource, balanced; all four when Predicted
	// Paces are the predictions per unit of work when the total work is unknown; otherwise empty.
	Paces []pace
	// Recourse is the allocation that can still meet the SLA when Allocation, which meets it with less than 95 %
	// probability, turns out slower or more expensive than expected. It is nil when Allocation meets the SLA or when
	// no recourse exists.
	Recourse *resources.Allocation
	Learned  *Learned // details of a learning agent's decision; nil for other planners
}

// Planner chooses an allocation. Decide is a pure function of the snapshot. It returns *Infeasible (errors.As) when
// no allowed allocation can meet the SLA.
type Planner interface {
	Name() string
	Decide(Snapshot) (Plan, error)
}

// Infeasible is the error of a decision when no allowed allocation meets the SLA. It contains the nearest candidate.
type Infeasible struct {
	// Nearest is the preferred one among the candidates about as likely to meet the SLA as the most likely one; the one
	// with the least violation where all are unlikely.
	Nearest Candidate
	Why     string // the limit, the excess, and the limits that would be feasible
	Plan    Plan   // the plan for Nearest, for a user who accepts the violation
}

func (e *Infeasible) Error() string { return e.Why }
