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

// Agent runs one training job. The zero values of View and Clock are silent and the machine's own.
type Agent struct {
	Config   Config
	Launcher launch.Launcher
	View     View
	Clock    Clock
	// Environ is the environment that the job inherits.
	Environ []string
	// Discover reads this machine; nil means resources.Discover.
	Discover func(context.Context) (resources.Host, error)
	// Confirm asks the user a yes/no question; nil means that nobody can be asked.
	Confirm func(question string) bool
	// Lighten is called when all that is left to do for a while is to look after the job: one core and little memory are
	// enough from then on. What it returns is called before there is more to do; between the two it may be called again.
	// nil: the process stays as it is.
	Lighten func() (heavy func())
	// Simulate makes the environments in which fresh critics learn; nil: critics are never renewed in a run.
	Simulate plan.Simulate
}

// Result is how a run ended for the caller.
type Result struct {
	Record *journal.Record
	Dir    string // run directory; empty when the run never began
	Code   Code
	Err    error // what went wrong, for codes 1, 2, 5 and 6
}

// phase is what the run is doing.
type phase string

const (
	probing phase = "probing" // measuring, no plan yet
	working phase = "working" // at the planned allocation
)

// run is the state of one run in progress. It belongs to one goroutine.
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
	ranks      int        // training processes that the command starts here
	observer   *observing // nil: off
	saves      saves
	threading  threading
	loading    loading
	host       resources.Host
	limits     resources.Limits
	rates      cost.Rates
	baseline   resources.Allocation
	resumable  bool
	priors     []*prior // what was known before this run: of similar runs, of this very training

	recalledUnit string    // unit of work of recalled: "epoch" or "step"
	restartS     []float64 // measured seconds of restarts, recalled ones first
	startupS     []float64 // recalled
	needMemory   resources.GiB

	recurrences []plan.Recurrence // recalled
	widen       float64           // factor on the width of intervals that past predictions ask for; 0 is 1
	learner     *plan.MORL        // with the agent file that was named
	weights     *[4]float64       // with which the agent was last asked
	doubt       doubt             // evidence against its critics
	renewing    *renewing         // fresh ones are being trained; nil: none
	criticReset bool              // they were replaced since the last decision was logged

	progress Progress
	meter    *cost.Meter
	guard    *sla.Guard
	guardAt  time.Duration // when the guard must be asked again; 0: not for its own sake
	job      launch.Job
	current  resources.Allocation
	phase    phase
	leaving  *leaving
	backoff  launch.Backoff
	failures int           // that were followed, or could have been, by another start
	retryAt  time.Duration // when to start again after a failure; 0: not waiting

	log     *logReader
	sampler *sampling

	model       *perf.Model
	modelRows   int           // log rows that the model has seen
	thinkAgain  time.Duration // monotonic clock before which the agent does not fit or plan again
	thought     time.Duration // that it has spent on that so far
	plan        plan.Plan
	adaptedAt   float64 // progress at the last look for a better allocation
	lastAction  string
	lightAt     *Segment // at which Lighten was called
	heavy       func()   // takes it back; nil: nothing to take back
	broken      bool     // a part of the optimiser has failed
	watching    watching
	advised     map[string]bool
	verdicts    []sla.Verdict
	projected   projection
	saidVerdict map[sla.Objective]saidVerdict
	lastSave    time.Duration
	lastRecord  time.Duration

	base     time.Duration // elapsed time of earlier agents
	started  time.Duration // monotonic clock when this agent took the run
	saved    savedState    // what the earlier agent left; zero for a fresh run
	ended    *ending
	endedAt  time.Duration // elapsed time at the end
	exitAt   time.Duration // elapsed time at which the last job ended; 0 while one runs
	watchdog *watchdog
	userCode Code
}

// ending is how the run ended.
type ending struct {
	state  journal.State
	reason string // of run.json's exit
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

// Run wraps one training from start to end. Interrupts are the user's signals: the first saves a
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
	r.started = r.Clock.Monotonic() // the deadline counts from the launch, not from the preparations
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

// elapsed is the run's own time: supervised time, outages of the agent with no living job left out.
// After the end it stands still: what we do then is not the job's time.
func (r *run) elapsed() time.Duration {
	if r.ended != nil && r.endedAt > 0 {
		return r.endedAt
	}
	return r.base + r.Clock.Monotonic() - r.started
}

func (r *run) event(level Level, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if level != Info && r.rec != nil {
		r.warn(line)
	}
	r.View.Event(level, line)
}

// maxWarnings bounds run.json.
const maxWarnings = 200

func (r *run) warn(line string) {
	if len(r.rec.Warnings) < maxWarnings {
		r.rec.Warnings = append(r.rec.Warnings, line)
	}
}

// prepare does everything that needs no run directory: inspection, inventory, rates, recall, and
// the refusals. stop is true when the run ends here.
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

// readCommand reads what the command line says of the job: its length, its processes, and the arguments that knobs reach it by.
func (r *run) readCommand() {
	r.command = inspect.ReadCommand(r.argv, r.Config.Dir)
	r.mapping = r.command.Mapping(r.Config.Knobs)
	r.resumption = r.command.Resumption(r.mapping)
	r.ranks = r.command.LocalRanks(len(r.host.GPUs), int(r.host.CPUs))
}

// suggestLengths collects the totals that are known before the log gives one: stated by the user, of a finished run of
// the same command, then what the script declares.
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

// lookup reads a variable of an environment; the last one counts.
func lookup(environ []string, name string) string {
	value := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

func runName(train string, argv []string) string {
	name := train
	if name == "" && len(argv) > 0 {
		name = argv[0]
		for _, a := range argv[1:] { // python3 train.py: the script names the run
			if strings.HasSuffix(a, ".py") || strings.HasSuffix(a, ".sh") {
				name = a
				break
			}
		}
	}
	name = filepath.Base(name)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// refuseIfHopeless refuses before start when earlier runs of the same training show that no allowed
// allocation can keep the agreement.
func (r *run) refuseIfHopeless() (Result, bool) {
	all := r.model
	r.fit(r.recalled()) // a similar run refuses nothing
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

func (r *run) resolveLimits() error {
	cfg := r.Config
	// A job that may use a GPU, for all that inspection can see, keeps those of the machine: to train on CPUs by mistake
	// costs more than an idle device.
	r.limits = resources.DefaultLimits(r.host, r.ins.GPU.Value != "no" || r.ins.Replay)
	var errs []error
	whole := func(flag, text string, into *resources.Range) {
		if text == "" {
			return
		}
		rng, err := resources.ParseRange(text, *into)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		*into = rng
	}
	whole("gpus", cfg.GPUs, &r.limits.GPUs)
	whole("cpus", cfg.CPUs, &r.limits.CPUs)
	whole("batch-size", cfg.BatchSize, &r.limits.BatchSize)
	if cfg.CPUs == "" && r.ranks > 1 { // a rank needs a CPU of its own
		r.limits.CPUs.Min = min(r.ranks, r.limits.CPUs.Max)
	}
	if cfg.Memory != "" {
		lo, hi, err := resources.ParseMemoryRange(cfg.Memory, r.limits.MemoryMin, r.limits.MemoryMax)
		if err != nil {
			errs = append(errs, fmt.Errorf("--memory: %w", err))
		} else {
			r.limits.MemoryMin, r.limits.MemoryMax = lo, hi
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.baseline = resources.Allocation{GPUs: r.limits.GPUs.Max, CPUs: r.limits.CPUs.Max, Memory: r.startMemory(r.limits.CPUs.Max), NumWorkers: r.ownWorkers()}
	r.baseline = r.limits.Clip(r.baseline)
	if err := r.limits.Check(r.baseline, r.host); err != nil {
		return err
	}
	return nil
}

// memoryCounts reports whether the memory of an allocation is a decision: it was limited, or is paid by the GiB. Otherwise the
// job has the machine's.
func (r *run) memoryCounts() bool { return r.Config.Memory != "" || r.rates.Instance == 0 }

// startMemory is what a job is given before its need has been measured: 2 GiB a CPU, as the clouds'
// compute-optimised machines have, or all there is where memory is no decision.
func (r *run) startMemory(cpus int) resources.GiB {
	if !r.memoryCounts() {
		return r.limits.MemoryMax
	}
	return resources.GiB(math.Min(math.Max(2*float64(cpus), float64(r.limits.MemoryMin)), float64(r.limits.MemoryMax)))
}

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
	// Unless the user says otherwise the machine is paid for as a whole, so that what a job leaves unused saves nothing.
	r.rates = r.rates.WholeMachine(resources.Allocation{GPUs: len(r.host.GPUs), CPUs: int(math.Ceil(r.host.CPUs)), Memory: r.host.Memory})
}

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
