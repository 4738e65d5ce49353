package run

import (
	"time"

	"golang.org/x/sys/unix"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// Code is what `optimize` exits with.
type Code int

// The exit codes that users' scripts rely on.
const (
	CodeDone       Code = 0 // done, SLA met
	CodeOurs       Code = 1 // our own failure
	CodeUsage      Code = 2 // usage or configuration
	CodeMissed     Code = 3 // done, SLA missed
	CodeGuard      Code = 4 // stopped by the budget or deadline guard
	CodeTraining   Code = 5 // the training failed
	CodeInfeasible Code = 6 // refused before start
	CodeInterrupt  Code = 130
	CodeTerminated Code = 143
)

// Clock is time as the agent sees it: wall clock for what people read, a monotonic clock that all
// processes of one boot share for everything that is measured or limited.
type Clock interface {
	Now() time.Time
	Monotonic() time.Duration
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is the wall clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Monotonic is CLOCK_MONOTONIC: steps of the wall clock do not touch it, and it means the same in the
// next agent.
func (SystemClock) Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Status is what a view shows of a running job. Unknown numbers are NaN, unknown intervals nil, unknown texts empty.
type Status struct {
	RunID      string
	Name       string
	Script     string // path, or the program of a command
	Log        string // where progress is read from: path and format
	Phase      string // "measuring", "training", "saving", "stopping", "waiting to start again"
	Allocation resources.Allocation
	Done       float64
	Total      float64 // 0: unknown; then Finish and CostAtEnd are nil
	Unit       string
	Elapsed    time.Duration
	Now        time.Time     // wall clock at Elapsed
	Finish     *sla.Interval // projected seconds of the whole run
	Deadline   time.Duration // 0: none
	Spent      cost.USD
	CostAtEnd  *sla.Interval // projected USD of the whole run
	Budget     cost.USD      // 0: none
	CPUUtil    float64       // % of the allocated CPUs
	GPUUtil    float64
	MemoryGiB  float64
	Throughput float64 // in ThroughputUnit
	// ThroughputUnit is samples/s, steps/s or epochs/s.
	ThroughputUnit string
	Loss           float64
	Accuracy       float64
	Verdicts       []sla.Verdict
	LastAction     string
	LogSilent      time.Duration // since the last training row
	// Checkpoint is the last known checkpoint with the work since; nil: none is known.
	Checkpoint *journal.Checkpoint
	// AtRisk is the time whose work is lost if the job is stopped now: since Checkpoint, or since the launch of a job that
	// keeps none. Negative: unknown.
	AtRisk time.Duration
}

// Severity of an event line.
type Level int

// Levels of events.
const (
	Info Level = iota
	Warning
	Problem
)

// View shows a run. Calls come from one goroutine.
type View interface {
	// Event is one line that stays on the screen.
	Event(level Level, line string)
	// Status replaces the previous status.
	Status(Status)
	// Planned shows the evidence for a plan: for a dry run, and when the user asked why.
	Planned(rec *journal.Record)
	// Finished is the last call: the run's record, complete.
	Finished(rec *journal.Record, dir string)
}

// Quiet shows nothing.
type Quiet struct{}

// Event does nothing.
func (Quiet) Event(Level, string) {}

// Status does nothing.
func (Quiet) Status(Status) {}

// Planned does nothing.
func (Quiet) Planned(*journal.Record) {}

// Finished does nothing.
func (Quiet) Finished(*journal.Record, string) {}
