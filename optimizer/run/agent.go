package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// Agent runs one training job. A zero View shows nothing, a zero Clock is the system clock.
type Agent struct {
	Config   Config
	Launcher launch.Launcher
	View     View
	Clock    Clock
	// Environ is the environment inherited by the job.
	Environ []string
	// Discover returns the inventory of this machine; nil means resources.Discover.
	Discover func(context.Context) (resources.Host, error)
	// Confirm asks the user a yes/no question; nil means that the run is not interactive.
	Confirm func(question string) bool
	// Lighten is called when only supervision remains for a while: the process can reduce itself to one core and
	// little memory. The function that it returns is called before the next larger computation; Lighten may be called
	// again in between. nil leaves the process as it is.
	Lighten func() (heavy func())
	// Simulate creates the environments in which new critics are trained; nil disables the renewal of critics during
	// a run.
	Simulate plan.Simulate
}

// Result is the outcome of a run for the caller.
type Result struct {
	Record *journal.Record
	Dir    string // run directory; empty if the run was refused or failed before it was created
	Code   Code
	Err    error // the failure, for codes 1, 2, 5 and 6
}

// phase is the activity of the run.
type phase string

const (
	probing phase = "probing" // measuring, no plan yet
	working phase = "working" // at the planned allocation
)

// run is the state of one run in progress. It is owned by a single goroutine.
type run struct {
	Agent
	dir    *journal.Run
	rec    *journal.Record
	tables *monitor.Tables

	argv       []string
	ins        inspect.Inspection
	command    *inspect.Command
	mapping    inspect.Mapping
	resumption inspect.Resumption
	ranks      int        // training processes that the command starts on this machine
	observer   *observing // nil if off
	saves      saves
	threading  threading
	loading    loading
	host       resources.Host
	limits     resources.Limits
	rates      cost.Rates
	baseline   resources.Allocation
	resumable  bool
	priors     []*prior // sources of earlier measurements: similar runs, then runs of this very training

	recalledUnit string    // unit of the recalled observations: "epoch" or "step"
	restartS     []float64 // measured seconds per restart, recalled ones first
	startupS     []float64 // recalled seconds per start-up
	needMemory   resources.GiB

	recurrences []plan.Recurrence // recalled
	widen       float64           // factor on the width of intervals, from the coverage of past predictions; 0 means 1
	learner     *plan.MORL        // planner with the user's agent file
	weights     *[4]float64       // weights of the agent's last decision
	doubt       doubt             // evidence against its critics
	renewing    *renewing         // the renewal in progress; nil if none
	criticReset bool              // the critics were replaced after the last logged decision

	progress Progress
	meter    *cost.Meter
	guard    *sla.Guard
	guardAt  time.Duration // elapsed time of the guard's next step; 0 means no timer
	job      launch.Job
	current  resources.Allocation
	phase    phase
	leaving  *leaving
	backoff  launch.Backoff
	failures int           // failures that led, or could have led, to a restart
	retryAt  time.Duration // elapsed time of the restart after a failure; 0 means none pending

	log     *logReader
	sampler *sampling

	model       *perf.Model
	modelRows   int           // log rows included in the last fit
	thinkAgain  time.Duration // monotonic clock before which the agent neither fits nor plans
	thought     time.Duration // total time spent fitting and planning
	plan        plan.Plan
	adaptedAt   float64 // progress at the last search for a better allocation
	lastAction  string
	lightAt     *Segment // segment in which Lighten was called
	heavy       func()   // reverts Lighten; nil if not lightened
	broken      bool     // a part of the optimizer has panicked
	watching    watching
	advised     map[string]bool
	verdicts    []sla.Verdict
	projected   projection
	saidVerdict map[sla.Objective]saidVerdict
	lastSave    time.Duration
	lastRecord  time.Duration

	base     time.Duration // elapsed time accumulated by earlier agents
	started  time.Duration // monotonic clock when this agent began or took over the run
	saved    savedState    // state saved by the earlier agent; zero for a new run
	ended    *ending
	endedAt  time.Duration // elapsed time at the end
	exitAt   time.Duration // elapsed time at which the last job ended; 0 while a job runs
	watchdog *watchdog
	userCode Code
}

// ending is the outcome of the run.
type ending struct {
	state  journal.State
	reason string // Exit.Reason of run.json
	detail string
	exit   *launch.Exit
	code   Code
	err    error
}

func (a Agent) withDefaults() Agent {
	a.Config = a.Config.WithDefaults()
	if a.View == nil {
		a.View = Quiet{}
	}
	if a.Clock == nil {
		a.Clock = SystemClock{}
	}
	if a.Discover == nil {
		a.Discover = func(ctx context.Context) (resources.Host, error) { return resources.Discover(ctx, resources.Roots{}) }
	}
	return a
}

// Run supervises one training from start to end. interrupts carries the user's signals: the first one saves a
// checkpoint and stops, the second kills. Run returns when the job and all its processes have ended.
func (a Agent) Run(ctx context.Context, interrupts <-chan os.Signal) Result {
	a = a.withDefaults()
	if err := a.Config.Validate(); err != nil {
		return Result{Code: CodeUsage, Err: err}
	}
	r := newRun(a)
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
	r.saves.finder.Start(r.Clock.Now())
	r.watchdog.watch(ctx, interrupts)
	defer r.watchdog.close()
	first, label := r.firstAllocation()
	r.announcePrior()
	r.started = r.Clock.Monotonic() // the deadline counts from the launch
	if r.interruptions(); r.ended == nil {
		r.launch(ctx, first, label, false)
	}
	r.loop(ctx)
	return r.finish()
}

func newRun(a Agent) *run {
	return &run{Agent: a, advised: map[string]bool{}, saidVerdict: map[sla.Objective]saidVerdict{},
		watchdog: newWatchdog(a.Clock, a.Config.Grace)}
}

// elapsed returns the run's own time: supervised time without the outages of the agent in which no job lived. It does
// not advance after the end of the run.
func (r *run) elapsed() time.Duration {
	if r.ended != nil && r.endedAt > 0 {
		return r.endedAt
	}
	return r.base + r.Clock.Monotonic() - r.started
}

// event reports a line to the view; warnings and problems also enter the record.
func (r *run) event(level Level, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if level != Info && r.rec != nil {
		r.warn(line)
	}
	r.View.Event(level, line)
}

// maxWarnings bounds the number of warnings in run.json.
const maxWarnings = 200

func (r *run) warn(line string) {
	if len(r.rec.Warnings) < maxWarnings {
		r.rec.Warnings = append(r.rec.Warnings, line)
	}
}

// prepare carries out all steps that need no run directory: inspection, inventory, rates, recall, and refusals. stop
// is true if the run ends here.
func (r *run) prepare(ctx context.Context) (Result, bool) {
	fail := func(code Code, err error) (Result, bool) { return Result{Code: code, Err: err, Record: r.rec}, true }
	cfg := &r.Config
	var err error
	r.argv, r.ins, err = inspect.Resolve(cfg.Train, cfg.Args, inspect.ResolveOptions{Python: cfg.Python, Dir: cfg.Dir})
	if err != nil {
		return fail(CodeUsage, err)
	}
	if cfg.Log == "" {
		cfg.Log = lookup(r.Environ, "OPTIMIZER_LOG")
	}
	if cfg.Name == "" {
		cfg.Name = runName(cfg.Train, r.argv)
	}
	if cfg.Described != nil {
		if !cfg.DryRun && !r.ins.Replay {
			return fail(CodeUsage, fmt.Errorf("--host %s: plans only, because this is not that machine: add --dry-run", cfg.Described.Described))
		}
		r.host = *cfg.Described
	} else if r.host, err = r.Discover(ctx); err != nil {
		return fail(CodeOurs, fmt.Errorf("read what this machine offers: %w", err))
	}
	r.resolveRates()
	r.readCommand()
	if err := r.resolveLimits(); err != nil {
		return fail(CodeUsage, err)
	}
	r.resumable = cfg.Resume == ResumableYes || cfg.Resume == ResumableAuto && r.ins.Resumable.Value == "yes"
	r.rec = r.newRecord()
	if err := cfg.SLA.Exhausted(0, 0); err != nil {
		return fail(CodeInfeasible, err)
	}
	r.recall()
	r.recordPrior()
	if cfg.DryRun {
		return r.dryRun(), true
	}
	if len(r.recalled()) > 0 {
		return r.refuseIfHopeless()
	}
	return Result{}, false
}

// readCommand derives from the command line the job's length, its processes, and the arguments that set knobs.
func (r *run) readCommand() {
	r.command = inspect.ReadCommand(r.argv, r.Config.Dir)
	r.mapping = r.command.Mapping(r.Config.Knobs)
	r.resumption = r.command.Resumption(r.mapping)
	r.ranks = r.command.LocalRanks(len(r.host.GPUs), int(r.host.CPUs))
}

// suggestLengths collects the totals known before the log contains one, in order of precedence: stated by the user,
// of a finished run of the same command, declared by the script.
func (r *run) suggestLengths(finished func()) {
	lengths := r.command.Lengths()
	suggest := func(stated bool) {
		for _, l := range lengths {
			if (l.Confidence == inspect.Stated) == stated && !r.command.OfEnvironment(l) {
				r.progress.Suggest(l.Unit, Hint{l.Units, l.Source})
			}
		}
	}
	r.progress.Suggest("epoch", Hint{float64(r.Config.Epochs), "--epochs"})
	r.progress.Suggest("step", Hint{float64(r.Config.Steps), "--steps"})
	suggest(true)
	finished()
	suggest(false)
}

// lookup returns a variable of an environment, the last one if it is repeated.
func lookup(environ []string, name string) string {
	value := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// runName returns the base name of the script, or of the program if the command names no script.
func runName(train string, argv []string) string {
	name := train
	if name == "" && len(argv) > 0 {
		name = argv[0]
		for _, a := range argv[1:] { // python3 train.py: the script gives the name
			if strings.HasSuffix(a, ".py") || strings.HasSuffix(a, ".sh") {
				name = a
				break
			}
		}
	}
	name = filepath.Base(name)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// refuseIfHopeless refuses the run before its start if earlier runs of the same training show that no allowed
// allocation can meet the SLA.
func (r *run) refuseIfHopeless() (Result, bool) {
	all := r.model
	r.fit(r.recalled()) // similar runs are not evidence enough for a refusal
	_, err := r.decide()
	r.model = all
	var no *plan.Infeasible
	if !errors.As(err, &no) || no.Nearest.Chance > 0 {
		return Result{}, false
	}
	if r.Confirm != nil && r.Confirm("No allocation meets the SLA: "+no.Why+"\nStart anyway and stop at the limit?") {
		r.Config.Anyway = true
		r.warn("started although earlier runs predict that no allocation meets the SLA: " + no.Why)
		return Result{}, false
	}
	r.rec.Plan = r.planRecord(no.Plan, 0)
	return Result{Code: CodeInfeasible, Err: fmt.Errorf("%s (known from %s); --yes starts it all the same and stops it at the limit",
		no.Why, r.rec.Model.Basis), Record: r.rec}, true
}

// resolveLimits derives the allowed allocations from the machine and the user's ranges, and from them the baseline.
// It joins the errors of all ranges.
func (r *run) resolveLimits() error {
	cfg := r.Config
	// A job that may use a GPU, as far as inspection can tell, receives all GPUs of the machine: training on CPUs by
	// mistake costs more than an idle device.
	r.limits = resources.DefaultLimits(r.host, r.ins.GPU.Value != "no" || r.ins.Replay)
	if err := r.limits.Restrict(resources.Ranges{GPUs: cfg.GPUs, CPUs: cfg.CPUs, Memory: cfg.Memory, BatchSize: cfg.BatchSize}); err != nil {
		return err
	}
	if cfg.CPUs == "" && r.ranks > 1 { // each rank requires a CPU
		r.limits.CPUs.Min = min(r.ranks, r.limits.CPUs.Max)
	}
	r.baseline = resources.Allocation{GPUs: r.limits.GPUs.Max, CPUs: r.limits.CPUs.Max, Memory: r.startMemory(r.limits.CPUs.Max), NumWorkers: r.ownWorkers()}
	r.baseline = r.limits.Clip(r.baseline)
	if err := r.limits.Check(r.baseline, r.host); err != nil {
		return err
	}
	return nil
}

// memoryCounts reports whether the memory of an allocation is a decision: the user limited it, or pays for it by the
// GiB. Otherwise the job has all memory of the machine.
func (r *run) memoryCounts() bool { return r.Config.Memory != "" || r.rates.Instance == 0 }

// startMemory returns the memory of a job whose requirement has not been measured yet: 2 GiB per CPU, as in the
// compute-optimized machine types of cloud providers, or all memory if it is not a decision.
func (r *run) startMemory(cpus int) resources.GiB {
	if !r.memoryCounts() {
		return r.limits.MemoryMax
	}
	return resources.GiB(math.Min(math.Max(2*float64(cpus), float64(r.limits.MemoryMin)), float64(r.limits.MemoryMax)))
}

// resolveRates sets the rates: those of the configuration, otherwise the defaults of the GPU model with single rates
// of the user, otherwise the price of the whole machine.
func (r *run) resolveRates() {
	if r.Config.Rates != nil {
		r.rates = *r.Config.Rates
		return
	}
	gpu := ""
	if len(r.host.GPUs) > 0 {
		if gpu = r.host.GPUs[0].Name; gpu == "" {
			gpu = "unknown"
		}
	}
	r.rates = cost.Default(gpu)
	unit := false
	for _, o := range []struct {
		price *cost.USD
		into  *cost.USD
	}{{r.Config.GPUHour, &r.rates.GPUHour}, {r.Config.CPUHour, &r.rates.CPUHour}, {r.Config.GiBHour, &r.rates.GiBHour}} {
		if o.price != nil {
			*o.into, unit = *o.price, true
		}
	}
	if unit {
		r.rates.Source = "given by the user, the rest " + r.rates.Source
		return
	}
	// By default the machine is paid for as a whole, so that unused resources save nothing.
	r.rates = r.rates.WholeMachine(resources.Allocation{GPUs: len(r.host.GPUs), CPUs: int(math.Ceil(r.host.CPUs)), Memory: r.host.Memory})
}

// open creates the run directory and the state of a run that is about to start.
func (r *run) open() error {
	id := journal.NewRunID(r.Clock.Now(), r.Config.Name)
	dir, err := journal.Create(r.Config.StateDir, id)
	if err != nil {
		return err
	}
	r.dir = dir
	r.rec.RunID = dir.ID()
	r.rec.StartedAt = r.Clock.Now().UTC()
	r.rec.State = journal.Running
	r.phase, r.meter = probing, cost.NewMeter()
	r.backoff = launch.Backoff{Failures: max(1, r.Config.Restarts) + 1, Seed: uint64(r.Config.Seed)}
	return r.newGuard()
}
