package run

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/cost"
	"trainopt/internal/regular"
	"trainopt/optimizer/history"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/sla"
)

// script is what the run trains, as inspected.
type script struct {
	ins        inspect.Inspection
	command    *inspect.Command
	mapping    inspect.Mapping
	resumption inspect.Resumption
	ranks      int  // training processes that the command starts on this machine
	nested     bool // the printed epochs are those of one update
}

// inspect inspects the script at a path, as far as it can be read, and the command line.
func (s *script) inspect(path string, f *facts) {
	var err error
	if s.ins, err = inspect.Inspect(path); err != nil {
		s.ins = inspect.Inspection{Path: path}
	}
	s.ins.Override(f.Argv)
	s.readCommand(f)
}

// readCommand derives from the command line the job's length, its processes, and the arguments that set knobs.
func (s *script) readCommand(f *facts) {
	s.command = inspect.ReadCommand(f.Argv, f.Config.Dir)
	s.mapping = s.command.Mapping(f.Config.Knobs)
	s.resumption = s.command.Resumption(s.mapping)
	s.ranks = s.command.LocalRanks(len(f.Host.GPUs), int(f.Host.CPUs))
}

// mayUseGPU reports whether the training may use a GPU, as far as inspection can tell.
func (s *script) mayUseGPU() bool { return s.ins.GPU.Value != "no" || s.ins.Replay }

// suggestLengths collects the totals known before the log contains one, in order of precedence: stated by the user,
// corrected by a finished run of the same command, given to the script, of such a run, declared by the script. What a shell script
// or a file gives to the script may have changed since that run. A total that the run has not corrected may be corrected yet.
func (s *script) suggestLengths(f *facts, finished *history.Recalled) {
	lengths := s.command.Lengths()
	f.Progress.Repeats, s.nested = s.command.Repeats(), s.command.Nested()
	suggest := func(stated bool) {
		for _, l := range lengths {
			if (l.Confidence == inspect.Stated) == stated && !s.command.OfEnvironment(l) {
				f.Progress.Suggest(l.Unit, hint{Units: l.Units, Source: l.Source})
			}
		}
	}
	f.Progress.Suggest("epoch", hint{float64(f.Config.Epochs), "--epochs", true})
	f.Progress.Suggest("step", hint{float64(f.Config.Steps), "--steps", true})
	suggest(true)
	unit, total := finished.Unit, finished.Total
	h, given := f.Progress.Hints[unit]
	suggest(false)
	if total > 0 && len(finished.Runs) > 0 {
		option := strings.TrimSuffix(h.Source, " on the command line")
		if (!given || !h.Whole && strings.Contains(strings.Join(f.Argv, " "), option)) && f.Progress.Hints[unit].Units != total {
			delete(f.Progress.Hints, unit)
		}
		f.Progress.Suggest(unit, hint{total, "run " + finished.Runs[0], true})
	}
}

// resumptionWords describes how the job resumes.
func (s *script) resumptionWords() string {
	switch s.resumption.How {
	case inspect.ResumeArgument:
		k, _ := s.mapping.Knob(inspect.KnobResume)
		return k.Template
	case inspect.ResumeItself:
		return "loading its own snapshot"
	}
	return "the checkpoint protocol"
}

// prepare carries out all steps that need no run directory: inspection, inventory, rates, recall, and refusals. stop
// is true if the run ends here.
func (r *run) prepare(ctx context.Context) (Result, bool) {
	fail := func(code Code, err error) (Result, bool) { return Result{Code: code, Err: err, Record: r.rec}, true }
	cfg := &r.Config
	var err error
	r.Argv, r.ins, err = inspect.Resolve(cfg.Train, cfg.Args, inspect.ResolveOptions{Python: cfg.Python, Dir: cfg.Dir})
	if err != nil {
		return fail(CodeUsage, err)
	}
	if cfg.Log == "" {
		cfg.Log = lookup(r.Environ, "OPTIMIZER_LOG")
	}
	if cfg.Name == "" {
		cfg.Name = NameOf(cfg.Train, r.Argv)
	}
	if cfg.Described != nil {
		if !cfg.DryRun && !r.ins.Replay {
			return fail(CodeUsage, fmt.Errorf("--host %s: plans only, because this is not that machine: add --dry-run", cfg.Described.Described))
		}
		r.Host = *cfg.Described
	} else if cfg.elsewhere() {
		if err := r.openSite(ctx); err != nil {
			return fail(CodeUsage, err)
		}
		r.Host = r.site.Host
	} else if r.Host, err = r.Discover(ctx); err != nil {
		return fail(CodeOurs, fmt.Errorf("read what this machine offers: %w", err))
	}
	r.resolveSiteRates()
	if err := r.Rates.Validate(); err != nil {
		return fail(CodeUsage, err)
	}
	r.readCommand(&r.facts)
	if cfg.Nodes > 1 && !r.command.Distributed() {
		return fail(CodeUsage, fmt.Errorf("--nodes %d: the training is started once on each node, but nothing in it suggests that it is distributed: start it by torchrun, or connect its processes by MASTER_ADDR, RANK and WORLD_SIZE", cfg.Nodes))
	}
	if err := r.resolveLimits(); err != nil {
		return fail(CodeUsage, err)
	}
	if err := r.openMarket(); err != nil {
		return fail(CodeUsage, err)
	}
	r.Resumable = cfg.Resume == resumableYes || cfg.Resume == resumableAuto && r.ins.Resumable.Value == "yes"
	r.rec = r.newRecord()
	r.enterAllocation(ctx)
	if err := cfg.SLA.Exhausted(0, 0); err != nil {
		return fail(CodeInfeasible, err)
	}
	r.recall()
	r.recordLengths()
	r.recordPrior()
	if cfg.DryRun {
		return r.dryRun(ctx), true
	}
	if len(r.recalled()) > 0 {
		return r.refuseIfHopeless()
	}
	return Result{}, false
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

// NameOf returns the base name of the script or module, or of the program if the command names neither.
func NameOf(train string, argv []string) string {
	name := train
	if name == "" && len(argv) > 0 {
		name = argv[0]
		for i, a := range argv[1:] { // python3 train.py: the script gives the name
			if strings.HasSuffix(a, ".py") || strings.HasSuffix(a, ".sh") {
				name = a
				break
			}
			if module := a[strings.LastIndexByte(a, '.')+1:]; argv[i] == "-m" && name == argv[0] && token.IsIdentifier(module) {
				name = module
			}
		}
	}
	name = filepath.Base(name)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// resolveLimits derives the allowed allocations from the machine and the user's ranges, and from them the baseline.
// It joins the errors of all ranges.
func (r *run) resolveLimits() error {
	cfg := r.Config
	// A job that may use a GPU, as far as inspection can tell, receives all GPUs of the machine: training on CPUs by
	// mistake costs more than an idle device.
	r.Limits = r.limitsOf(r.Host, r.mayUseGPU())
	if err := r.Limits.Restrict(resources.Ranges{GPUs: cfg.GPUs, CPUs: cfg.CPUs, Memory: cfg.Memory, BatchSize: cfg.BatchSize}); err != nil {
		return err
	}
	if cfg.CPUs == "" && r.ranks > 1 { // each rank requires a CPU
		r.Limits.CPUs.Min = min(r.ranks, r.Limits.CPUs.Max)
	}
	if r.Lease != nil {
		r.Lease.restrict(&r.Limits)
	}
	r.Baseline = resources.Allocation{GPUs: r.Limits.GPUs.Max, CPUs: r.Limits.CPUs.Max, NumWorkers: r.ownWorkers()}
	if cfg.elsewhere() && r.Lease == nil {
		r.Baseline = r.shareOfNode(r.Baseline)
	}
	r.Baseline.Memory = r.startMemory(r.Baseline.CPUs)
	if r.memoryFollows() {
		r.Baseline = r.charged(r.Baseline)
	}
	r.Baseline = r.Limits.Clip(r.Baseline)
	if r.Lease != nil {
		r.Baseline.GPUIDs = r.Lease.Allocation.GPUIDs
	}
	err := r.Limits.Check(r.Baseline, r.Host)
	if err != nil && r.Host.Described == "" && r.Config.Engine == "" && r.Lease == nil {
		err = fmt.Errorf("%w; adapt --gpus, --cpus or --memory, or plan for another machine with --host CLOUD:TYPE --dry-run", err)
	}
	return err
}

// limitsOf returns the limits of the allocations on a host if the user sets none. On an engine the supervisor runs within what
// the job asks for, which may be all memory of a node.
func (f *facts) limitsOf(h resources.Host, usesGPU bool) resources.Limits {
	l := h.DefaultLimits(usesGPU)
	if f.Config.elsewhere() {
		l.MemoryMax = h.Memory
	}
	if f.memoryFollows() { // also below a GiB, on small nodes
		l.MemoryMin = 0
	}
	return l
}

// shareOfNode reduces an allocation of all that the limits allow to what a job asks for on a node that it may share with
// others: one GPU for a script that would leave more idle, and with a part of the GPUs the same part of the CPUs, unless
// the user has stated the number.
func (r *run) shareOfNode(a resources.Allocation) resources.Allocation {
	if r.Config.GPUs == "" && r.ranks <= 1 && slices.Contains(r.ins.Warnings, inspect.OneGPU) {
		a.GPUs = min(a.GPUs, 1)
	}
	if all := len(r.Host.GPUs); r.Config.CPUs == "" && a.GPUs > 0 && a.GPUs < all && !r.site.Whole {
		a.CPUs = max(r.Limits.CPUs.Min, int(r.Host.CPUs)*a.GPUs/all)
	}
	return a
}

// resolveSiteRates sets the rates: those of the engine if it states any, otherwise as resolveRates, of whole nodes where it
// allocates such, for all nodes of a job.
func (r *run) resolveSiteRates() {
	r.resolveRates()
	if r.site.Rates != nil && r.Config.Rates == nil {
		r.Rates = *r.site.Rates
	}
	r.Rates = r.site.rates(r.Rates).Times(r.Host.Nodes)
}

// resolveRates sets the rates: those of the configuration, otherwise the defaults of the GPU model with single rates
// of the user, otherwise the price of the whole machine.
func (f *facts) resolveRates() {
	quota := f.quota()
	if f.Config.Rates != nil {
		if f.Rates = *f.Config.Rates; f.Rates.Instance == 0 {
			f.Rates.CPUQuota = quota
		}
		return
	}
	gpu := ""
	if len(f.Host.GPUs) > 0 {
		if gpu = f.Host.GPUs[0].Name; gpu == "" {
			gpu = "unknown"
		}
	}
	f.Rates = cost.Default(gpu)
	f.Rates.CPUQuota = quota
	unit := false
	for _, o := range []struct {
		price *cost.USD
		into  *cost.USD
	}{{f.Config.GPUHour, &f.Rates.GPUHour}, {f.Config.CPUHour, &f.Rates.CPUHour}, {f.Config.GiBHour, &f.Rates.GiBHour}} {
		if o.price != nil {
			*o.into, unit = *o.price, true
		}
	}
	if unit {
		f.Rates.Source = "given by the user, the rest " + f.Rates.Source
		return
	}
	// By default the machine is paid for as a whole, so that unused resources save nothing.
	if f.Config.elsewhere() || f.Config.Divided { // others use what this job leaves free
		return
	}
	cpus := math.Ceil(f.Host.CPUs)
	if quota > 0 {
		cpus = max(1, math.Floor(quota)) // an allocation of all of it
	}
	f.Rates = f.Rates.WholeMachine(resources.Allocation{GPUs: len(f.Host.GPUs), CPUs: int(cpus), Memory: f.Host.Memory})
}

// newRecord returns the part of run.json that is known before the start. Each limit has a verdict, initially unknown.
func (r *run) newRecord() *journal.Record {
	rec := journal.NewRecord()
	rec.Name, rec.Command, rec.Dir, rec.State = r.Config.Name, launch.Redact(r.Argv), r.Config.Dir, journal.Planned
	rec.Script = scriptRecord(r.ins, r.Resumable)
	rec.Script.FilesDigest = r.command.FilesDigest
	r.recordArguments(&rec.Script)
	rec.Host = journal.Host{Host: r.Host}
	if r.Host.Described != "" {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the machine is described (%s), not this one: nothing here was measured on it", r.Host.Described))
	}
	rec.SLA = slaRecord(r.Config.SLA)
	rec.Handed = handed(r.Config, r.Environ)
	rec.Prices, rec.Preference, rec.Seed = journal.Prices{Rates: r.Rates}, r.Config.Preference, r.Config.Seed
	for _, w := range r.ins.Warnings {
		single := w == inspect.OneGPU && len(r.Host.GPUs) <= 1
		resumes := strings.HasSuffix(w, inspect.NotResumable) && (r.Config.Resume != resumableAuto || r.canResume())
		if !single && !resumes {
			rec.Warnings = append(rec.Warnings, w)
		}
	}
	rec.StartedAt = r.Clock.Now().UTC()
	return rec
}

// handed returns the settings that a configuration and an environment pass to the script.
func handed(cfg Config, environ []string) journal.Handed {
	return journal.Handed{Epochs: cfg.Epochs, Dataset: launch.RedactText(cfg.Dataset), Threads: strings.Join(resources.UserThreads(environ), " ")}
}

// slaRecord returns the SLA before anything is measured.
func slaRecord(s sla.Spec) journal.SLA {
	return journal.SLA{Spec: s, Hash: s.Hash(), Verdicts: sla.Evaluate(s, nil), Compliance: journal.Unknown()}
}

// scriptRecord converts the findings of inspection to their form in run.json; findings without a value are null.
func scriptRecord(ins inspect.Inspection, resumable bool) journal.Script {
	s := journal.Script{Path: ins.Path, SHA256: ins.SHA256, Resumable: &resumable, Evidence: map[string]string{}, Likeness: ins.Likeness}
	text := func(name string, f inspect.Finding) *string {
		if f.Value == "" {
			return nil
		}
		if f.Line > 0 {
			s.Evidence[name] = fmt.Sprintf("line %d: %s", f.Line, f.Text)
		}
		return &f.Value
	}
	s.Framework, s.Model, s.Dataset = text("framework", ins.Framework), text("model", ins.Model), text("dataset", ins.Dataset)
	if gpu := text("uses_gpu", ins.GPU); gpu != nil {
		yes := *gpu == "yes"
		s.UsesGPU = &yes
	}
	text("resumable", ins.Resumable)
	return s
}

// recordLengths records the totals known before the log contains one, with their sources.
func (r *run) recordLengths() {
	var all []string
	for _, unit := range slices.Sorted(maps.Keys(r.Progress.Hints)) {
		h := r.Progress.Hints[unit]
		words := fmt.Sprintf("%s %s%s (%s)", strconv.FormatFloat(h.Units, 'f', -1, 64), unit, plural(int(h.Units)), h.Source)
		if r.Progress.Repeats && !h.Whole {
			words += " in each of several trainings"
		}
		all = append(all, words)
	}
	if all != nil {
		r.rec.Script.Evidence["length"] = strings.Join(all, "; ")
	}
}

// recordArguments records the arguments that reach the script, and what resumes it or why an option does not.
func (r *run) recordArguments(s *journal.Script) {
	for _, k := range r.mapping.Knobs {
		if s.Arguments == nil {
			s.Arguments = map[string]string{}
		}
		s.Arguments[k.Name] = k.Template + " (" + k.Source + ")"
	}
	switch {
	case r.canResume() && r.resumption.How == inspect.ResumeArgument:
		s.Resumes = s.Arguments[inspect.KnobResume]
	case r.canResume():
		s.Resumes = "its own snapshot (" + strings.Join(r.resumption.Evidence, "; ") + ")"
	case r.resumption.How == inspect.ResumeNone && len(r.mapping.Notes) > 0:
		s.Evidence["resumable"] = strings.Join(r.mapping.Notes, "; ")
	}
}

// open creates the run directory and the state of a run that is about to start.
func (r *run) open() error {
	id := journal.NewRunID(r.Clock.Now(), r.Config.Name)
	if r.Lease != nil && r.Lease.RunID != "" {
		id = r.Lease.RunID
	}
	dir, err := journal.Create(r.Config.StateDir, id)
	if err != nil {
		return err
	}
	r.dir = dir
	r.rec.RunID = dir.ID()
	r.rec.StartedAt = r.Clock.Now().UTC()
	r.rec.State = journal.Running
	r.Phase, r.meter = probing, new(cost.Meter)
	r.Backoff = launch.Backoff{Failures: max(1, r.Config.Restarts) + 1, Seed: uint64(r.Config.Seed)}
	return r.newGuard()
}

// environmentFile of a run directory describes the environment of the first start.
const environmentFile = "environment.json"

// environmentRecord is the content of environmentFile. It shows whether a variable has changed, and contains no value.
type environmentRecord struct {
	Schema int    `json:"schema"`
	Salt   []byte `json:"salt"`
	// Variables are salted hashes of the values, by name.
	Variables map[string][]byte `json:"variables"`
}

// session lists the variables of the terminal, the login and this program, on which no training depends. A star stands for any
// end of the name.
var session = []string{"OPTIMIZE*", "SSH_*", "TERM*", "COLORTERM", "PWD", "OLDPWD", "SHLVL", "_", "TMUX*", "STY", "WINDOW", "WINDOWID", "DISPLAY", "WAYLAND_DISPLAY",
	"XAUTHORITY", "XDG_SESSION*", "XDG_RUNTIME_DIR", "XDG_SEAT*", "XDG_VTNR", "DBUS_*", "VSCODE_*", "GPG_TTY", "LS_COLORS", "LESS*", "COLUMNS", "LINES", "INVOCATION_ID",
	"JOURNAL_STREAM", "MAIL", "MOTD_SHOWN", "PS1", "PROMPT_*", "HIST*", "GNOME_TERMINAL_*", "VTE_VERSION", "KONSOLE_*", "WT_*", "WSL_INTEROP", "KITTY_*", "ALACRITTY_*",
	"WEZTERM_*", "TILIX_ID", "ZELLIJ*", "INSIDE_EMACS", "GIT_ASKPASS", "SESSION_MANAGER", "SYSTEMD_EXEC_PID", "MANAGERPID", "KRB5CCNAME", "SUDO_*", "JPY_*"}

// variables returns the variables of an environment without those of the session.
func variables(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if ok && name != "" && !slices.ContainsFunc(session, func(s string) bool {
			begin, open := strings.CutSuffix(s, "*")
			return name == s || open && strings.HasPrefix(name, begin)
		}) {
			out[name] = value
		}
	}
	return out
}

// hash returns the hash of a variable.
func (e *environmentRecord) hash(name, value string) []byte {
	h := hmac.New(sha256.New, e.Salt)
	fmt.Fprintf(h, "%s=%s", name, value)
	return h.Sum(nil)
}

// recordEnvironment writes environmentFile.
func (r *run) recordEnvironment() {
	e := environmentRecord{Schema: 1, Salt: make([]byte, 16), Variables: map[string][]byte{}}
	_, _ = rand.Read(e.Salt) // never fails
	for name, value := range variables(r.Environ) {
		e.Variables[name] = e.hash(name, value)
	}
	if err := regular.WriteJSON(r.dir.Path(environmentFile), 0o600, &e); err != nil {
		r.warnDiskOnce(err)
	}
}

// LackingEnvironment returns the names of the variables that the first start of a run had, and that are missing or different in
// the environment of the agent. A run of an earlier version has no record of them.
func (a Agent) LackingEnvironment(dir string) ([]string, error) {
	var e environmentRecord
	err := regular.ReadJSON(filepath.Join(dir, environmentFile), regular.Settings, &e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now := variables(a.Environ)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.Variables)) {
		if value, ok := now[name]; !ok || !hmac.Equal(e.hash(name, value), e.Variables[name]) {
			out = append(out, name)
		}
	}
	return out, nil
}
