package run

import (
	"math"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/sla"
)

// Code is the exit code of `optimize`.
type Code int

// The exit codes; scripts of users rely on them.
const (
	CodeDone       Code = 0  // done, SLA met
	CodeOurs       Code = 1  // internal failure
	CodeUsage      Code = 2  // usage or configuration
	CodeMissed     Code = 3  // done, SLA missed
	CodeGuard      Code = 4  // stopped by the budget or deadline guard
	CodeTraining   Code = 5  // the training failed
	CodeInfeasible Code = 6  // refused before start
	CodeTryAgain   Code = 75 // stopped at the end of the allocation of the enclosing Slurm job
	CodeInterrupt  Code = 130
	CodeTerminated Code = 143
)

// Clock is the agent's source of time: the wall clock for display, and for every measurement and limit a monotonic
// clock that all processes of one boot share.
type Clock interface {
	Now() time.Time
	Monotonic() time.Duration
}

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now returns the wall clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Monotonic returns CLOCK_MONOTONIC: it is unaffected by steps of the wall clock and comparable between agents of one
// boot.
func (SystemClock) Monotonic() time.Duration { return launch.Monotonic() }

// Status is a view's picture of a running job. Unknown numbers are NaN, unknown intervals nil, unknown texts empty.
type Status struct {
	RunID      string
	Name       string
	Script     string // path, or the program of a command
	Log        string // source of progress: path and format
	Phase      string // "measuring", "training", "saving", "stopping", "waiting to start again", "waiting: …" for a place
	Allocation resources.Allocation
	Done       float64
	Total      float64 // 0: unknown; then Finish and CostAtEnd are nil
	Unit       string
	Elapsed    time.Duration
	Now        time.Time     // wall clock at Elapsed
	Finish     *sla.Interval // projected seconds of the whole run
	Deadline   time.Duration // 0: none
	// DeadlineSource is what sets Deadline, such as "the end of Slurm job 12 on n0"; empty: the user.
	DeadlineSource string
	Spent          cost.USD
	CostAtEnd      *sla.Interval // projected USD of the whole run
	Budget         cost.USD      // 0: none
	CPUUtil        float64       // % of the allocated CPUs
	GPUUtil        float64
	Devices        []DeviceUse // last reading of each device of the job; empty: none
	MemoryGiB      float64
	Throughput     float64 // in ThroughputUnit
	// ThroughputUnit is samples/s, steps/s or epochs/s.
	ThroughputUnit string
	Loss           float64
	Accuracy       float64
	Verdicts       []sla.Verdict
	LastAction     string
	LogSilent      time.Duration // since the last training row
	// Checkpoint is the newest known checkpoint with the work since then; nil if none is known.
	Checkpoint *journal.Checkpoint
	// AtRisk is the run time whose work is lost if the job is stopped now: since Checkpoint, or since the launch of a
	// job that keeps none. Negative: unknown.
	AtRisk time.Duration
	// Pace is what the present launch has measured.
	Pace Pace
	// KeepsWork is true if the work of the job survives a stop: it saves on request, or writes checkpoints from which
	// it can continue.
	KeepsWork bool
	// Saves is true if it saves on request, at a place that no other job writes to.
	Saves bool
}

// DeviceUse is the last reading of a device.
type DeviceUse struct {
	ID          string // UUID of a GPU, or the name in the lease
	UtilPercent float64
}

// Pace is the measured pace of one launch. Unknown numbers are NaN.
type Pace struct {
	UnitSeconds float64 // median seconds per unit of work, without warm-up
	Blocks      int     // number of timed observations behind it
	Settled     bool    // enough steady observations, none of them still warming up
	Startup     float64 // seconds from the launch to the first unit of work, less that unit
	Save        float64 // seconds of the last stop with a checkpoint
}

// Level is the severity of an event line.
type Level int

// Levels of events.
const (
	Info Level = iota
	Warning
	Problem
)

// View displays a run. Its methods are called from one goroutine.
type View interface {
	// Event appends a line to the display.
	Event(level Level, line string)
	// Status replaces the previous status.
	Status(Status)
	// Planned shows the evidence for a plan: for a dry run, and if the user asked for an explanation.
	Planned(rec *journal.Record)
	// Finished receives the complete record of the run; it is the last call.
	Finished(rec *journal.Record, dir string)
}

// Quiet is a View that shows nothing.
type Quiet struct{}

// Event does nothing.
func (Quiet) Event(Level, string) {}

// Status does nothing.
func (Quiet) Status(Status) {}

// Planned does nothing.
func (Quiet) Planned(*journal.Record) {}

// Finished does nothing.
func (Quiet) Finished(*journal.Record, string) {}

// status returns the current picture of the run for the view.
func (r *run) status() Status {
	deadline, _ := r.deadline()
	s := Status{RunID: r.rec.RunID, Name: r.Config.Name, Phase: "training", Allocation: r.Current, Done: r.Progress.Done, Total: r.Progress.Total,
		Unit: r.Progress.Unit, Elapsed: r.elapsed(), Finish: r.projected.seconds, Spent: cost.USD(r.spent()), CostAtEnd: r.projected.cost,
		CPUUtil: r.sampler.last.Tree.CPUPercent / math.Max(1, float64(r.Current.CPUs)), GPUUtil: r.sampler.last.GPUMean(),
		MemoryGiB: r.sampler.last.Tree.MemoryGiB, Throughput: math.NaN(), Loss: float64(r.rec.Training.TrainLoss),
		Accuracy: float64(r.rec.Training.TestAccuracy), Verdicts: r.verdicts, LastAction: r.lastAction,
		Script: r.rec.Script.Path, Log: r.log.describe(), Now: r.Clock.Now(), Deadline: deadline, DeadlineSource: r.deadlineSource(), Budget: cost.USD(r.Config.SLA.CostMaxUSD),
		Checkpoint: r.rec.Checkpoint, AtRisk: r.atRisk(), Pace: r.Progress.pace(), KeepsWork: r.keepsWork(), Saves: r.Resumable}
	for _, g := range r.sampler.last.GPUs {
		if !math.IsNaN(g.UtilPercent) {
			s.Devices = append(s.Devices, DeviceUse{g.UUID, g.UtilPercent})
		}
	}
	if seg := r.Progress.Current(); seg != nil && len(seg.Blocks) > 0 {
		per, unit := r.Progress.throughputUnit()
		s.Throughput, s.ThroughputUnit = per/seg.Blocks[len(seg.Blocks)-1], unit
	}
	if !r.log.lastRow.IsZero() {
		s.LogSilent = r.Clock.Now().Sub(r.log.lastRow)
	}
	switch {
	case r.Pending != nil && r.Pending.Next == nil:
		s.Phase = "stopping"
	case r.Pending != nil:
		s.Phase = "saving"
	case r.retryAt > 0:
		s.Phase = "waiting to start again"
	case r.queued != nil:
		s.Phase = "waiting: " + r.queued.Waiting()
	case r.Phase == probing:
		s.Phase = "measuring"
	}
	return s
}
