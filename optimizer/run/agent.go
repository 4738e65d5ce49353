// Package run is the agent of one training job. A run is the record of its facts (facts.go), from which another agent
// can continue it, and a sequence of stages, each in the file of its name with the state that only it changes:
//
//	prepare.go     what is trained, on which machine, at which prices and within which limits
//	recall.go      what earlier runs say
//	plan.go        the performance model, the planner, the first allocation; plans only for a dry run
//	probe.go       measurements at other allocations
//	launch.go      the job's processes: first launch, restart after a move or a failure
//	supervise.go   the loop: log, observer, samples, projection, guard
//	adapt.go       moves to a better allocation, and for a preference that a user requests meanwhile
//	stop.go        requests to the job to exit, and its exit
//	finish.go      the final record, tables and reports
//	spot.go        spot capacity: the announcement of its end, and the choice of the machine
//
// resume.go continues a run whose agent has died, orphan.go stops it. progress.go is a step machine without a clock: it
// derives the work done and its pace from log rows.
//
// It is not a scheduler (one job at a time, on one machine), and it never edits the script: it acts on the job only
// by its command line, its environment, and requests to the observer. optimizer/plan decides, as a function of a
// Snapshot; this package measures, enforces the SLA (sla.Guard), and carries out the decisions.
//
//	agent := run.Agent{Launcher: launcher, View: view, Clock: run.SystemClock{}}
//	result := agent.Run(ctx, cfg, interrupts)
package run

import (
	"context"
	"fmt"
	"os"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// Agent runs training jobs, one at a time. A zero View shows nothing, a zero Clock is the system clock.
type Agent struct {
	Launcher launch.Launcher
	View     View
	Clock    Clock
	// Environ is the environment inherited by the job.
	Environ []string
	// Stdin is the standard input of jobs on this machine; nil means an empty one. It must not be a terminal.
	Stdin *os.File
	// Discover returns the inventory of this machine; nil means resources.Discover.
	Discover func(context.Context) (resources.Host, error)
	// Site connects to the engine named by a Config, for a job that asks for GPUs, if the engine has any, or for none;
	// nil if jobs can only run on this machine.
	Site func(ctx context.Context, cfg Config, gpus bool) (Site, error)
	// Batch is the batch system whose job may contain this process; nil: it is not asked.
	Batch batchSystem
	// Lease makes a scheduler of several jobs the owner of the run's allocation; nil: the agent decides itself.
	Lease *Lease
	// Confirm asks the user a yes/no question; nil means that the run is not interactive.
	Confirm func(question string) bool
	// Lighten is called when only supervision remains for a while: the process can reduce itself to one core and
	// little memory. The function that it returns is called before the next larger computation; Lighten may be called
	// again in between. nil leaves the process as it is.
	Lighten func() (heavy func())
	// Speed measures the speed of the machine while no job runs, in any unit; nil means cpuSpeed.
	Speed func() float64
	// Simulate creates the environments in which new critics are trained; nil disables the renewal of critics during
	// a run.
	Simulate plan.Simulate
	ticks    <-chan time.Time // when to look at the job; nil: every Config.Interval and when its log has grown
}

// Result is the outcome of a run for the caller.
type Result struct {
	Record *journal.Record
	Dir    string // run directory; empty if the run was refused or failed before it was created
	Code   Code
	Err    error // the failure, for codes 1, 2, 5 and 6
	// Unsaved is true if the scheduler of the run took its devices before the training had saved anything. If resuming the run is
	// refused for that, only another run can do its work.
	Unsaved bool
	// Exhausted is true if resuming the run is refused because its limits are used up: what it has saved remains.
	Exhausted bool
}

// phase is the activity of the run.
type phase string

const (
	probing phase = "probing" // measuring, no plan yet
	working phase = "working" // at the planned allocation
)

// run is one run in progress: its facts, the files of its directory, and the state of each stage beyond the facts. It is
// owned by a single goroutine.
type run struct {
	Agent
	facts
	dir    *journal.Run
	rec    *journal.Record
	tables *monitor.Tables
	meter  *cost.Meter

	script
	earlier
	planning
	launched
	queueing
	elsewhere elsewhere
	enclosing
	reclaiming
	supervision
	power powerControl
	outcome

	input       givenInput
	log         *logReader
	sampler     *sampling
	observer    *observerClient // nil if off
	checkpoints checkpointTracker
	threads     threadTrials
	workers     workerTrials
	watchdog    *watchdog
	notices     notices

	elapsedBefore time.Duration   // elapsed time accumulated by earlier agents
	resumedAt     time.Duration   // elapsed time in the state that this agent resumed; 0 for a new run
	leftAt        time.Time       // wall clock at that state; the zero time for a new run
	started       time.Duration   // monotonic clock when this agent began or took over the run
	prepared      time.Duration   // from its beginning to the first launch; 0: it took over
	lastSave      time.Duration   // elapsed time of the last save of the state
	lastRecord    time.Duration   // elapsed time of the last save of the record
	advised       map[string]bool // keys of the events and recommendations that are given once
	broken        bool            // a part of the optimizer has panicked
	answer        journal.Answer  // to the last request, in case that it could not be written
}

func (a Agent) withDefaults() Agent {
	if a.View == nil {
		a.View = Quiet{}
	}
	if a.Clock == nil {
		a.Clock = SystemClock{}
	}
	if a.Speed == nil {
		a.Speed = cpuSpeed
	}
	if a.Discover == nil {
		a.Discover = func(ctx context.Context) (resources.Host, error) { return resources.Discover(ctx, resources.Roots{}) }
	}
	return a
}

// Run supervises one training from start to end. interrupts carries the user's signals: the first one saves a
// checkpoint and stops, the second kills. Run returns when the job and all its processes have ended.
func (a Agent) Run(ctx context.Context, cfg Config, interrupts <-chan os.Signal) Result {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return Result{Code: CodeUsage, Err: err}
	}
	r := newRun(a, cfg)
	began := r.Clock.Monotonic()
	if res, stop := r.prepare(ctx); stop {
		return res
	}
	if err := r.open(); err != nil {
		return Result{Code: CodeOurs, Err: err}
	}
	unlock, err := r.dir.Lock()
	if err != nil {
		return Result{Code: CodeOurs, Err: err, Dir: r.dir.Dir()}
	}
	defer unlock()
	r.started = r.Clock.Monotonic()
	r.openInstruments()
	defer r.closeInstruments()
	r.recordEnvironment()
	r.save(true) // from here on another agent can begin the run
	r.restoreAbandonedPower()
	r.checkpoints.finder.Start()
	r.watchdog.watch(ctx, interrupts)
	defer r.watchdog.close()
	defer r.watchMachine(ctx)()
	first, label := r.firstAllocation()
	r.announcePrior()
	r.started, r.meter = r.Clock.Monotonic(), new(cost.Meter) // deadline and charges count from the launch
	r.prepared = r.started - began
	r.countWaiting()
	if r.interruptions(); r.ended == nil {
		r.forecastFirst(ctx, first)
		r.place(ctx, first, label, false)
	}
	r.supervise(ctx)
	return r.finish()
}

func newRun(a Agent, cfg Config) *run {
	a = a.withDefaults()
	r := &run{Agent: a, advised: map[string]bool{}, watchdog: newWatchdog(a.Clock, cfg.Grace)}
	if l, ok := a.Launcher.(launch.Local); ok && a.Lease != nil {
		l.Host.CPUIDs = a.Lease.CPUIDs
		r.Launcher = l
	}
	r.local = r.Launcher
	r.watchdog.harmless = r.repeatedBySystem
	r.Config, r.written = cfg, map[sla.Objective]writtenVerdict{}
	return r
}

// elapsed returns the run's own time: supervised time without the outages of the agent in which no job lived. It does
// not advance after the end of the run.
func (r *run) elapsed() time.Duration {
	if r.ended != nil && r.endedAt > 0 {
		return r.endedAt
	}
	return r.elapsedBefore + r.Clock.Monotonic() - r.started
}

// elapsedAt returns the elapsed time at a time of the wall clock. An earlier agent's is known by the state that it left: the run may not
// have aged since.
func (r *run) elapsedAt(t time.Time) time.Duration {
	if t.Before(r.leftAt) {
		return r.resumedAt - r.leftAt.Sub(t)
	}
	return r.elapsed() - r.Clock.Now().Sub(t)
}

func (r *run) spent() float64 {
	return float64(r.meter.Total(r.elapsed())) + r.besideUSD(r.Clock.Now())
}

// event reports a line to the view; warnings and problems also enter the record.
func (r *run) event(level Level, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if level != Info && r.rec != nil {
		r.warn(line)
	}
	r.View.Event(level, line)
}

// eventOnce emits an event at most once per run and key.
func (r *run) eventOnce(level Level, key, format string, args ...any) {
	if !r.advised[key] {
		r.advised[key] = true
		r.event(level, format, args...)
	}
}

// maxWarnings bounds the number of warnings in run.json.
const maxWarnings = 200

func (r *run) warn(line string) {
	if len(r.rec.Warnings) < maxWarnings {
		r.rec.Warnings = append(r.rec.Warnings, line)
	}
}

// warnOnce records a warning at most once per run.
func (r *run) warnOnce(line string) {
	if !r.advised[line] {
		r.advised[line] = true
		r.warn(line)
	}
}

// safely runs a part of the optimizer and recovers its panics, which must not stop the training: afterwards the
// optimizer stays off and the job keeps its allocation.
func (r *run) safely(part func()) {
	if r.broken {
		return
	}
	defer func() {
		if x := recover(); x != nil {
			r.broken, r.Phase = true, working
			r.event(Warning, "the optimizer failed (%v): the training continues where it runs, guarded but not optimized", x)
		}
	}()
	part()
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
