package run

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// batchStage answers for a batch system.
type batchStage struct {
	entry    *engine.Entry
	err      error
	refuses  error // of requests to requeue
	requeued []string
}

func (b *batchStage) Lookup(context.Context, string) (*engine.Entry, error) { return b.entry, b.err }

func (b *batchStage) Requeue(_ context.Context, id string) error {
	if b.refuses == nil {
		b.requeued = append(b.requeued, id)
	}
	return b.refuses
}

// inJob makes the stage's agent one inside Slurm job 12, with a system that answers.
func inJob(s *stage, b *batchStage, variables ...string) Agent {
	a := s.agent()
	a.Batch = b
	a.Environ = append(slices.Clone(a.Environ), append([]string{"SLURM_JOB_ID=12", "SLURMD_NODENAME=n0"}, variables...)...)
	return a
}

// TestAllocationEnds: the end of the allocation stops the job with a checkpoint before it; an earlier deadline of the
// user keeps its reason. The job is requeued only if asked, if it progressed, and while Slurm runs it. If it is not, there is a message
// about the end of the run.
func TestAllocationEnds(t *testing.T) {
	running := func(s *stage, left time.Duration) *batchStage {
		return &batchStage{entry: &engine.Entry{State: engine.Running, Raw: "RUNNING", End: s.clock.Now().Add(left)}}
	}
	for name, c := range map[string]struct {
		change   func(*stage, *batchStage)
		reason   string
		code     Code
		seconds  float64
		requeued int
		says     string // a part of an event
	}{
		"no own deadline": {nil, "allocation", CodeTryAgain, 14, 0, "the allocation of Slurm job 12 on n0 ends"}, // 20 s − 5 s for reports − 1 s for the checkpoint
		"requeue":         {func(s *stage, _ *batchStage) { s.cfg.Requeue = true }, "allocation", CodeTryAgain, 14, 1, "requeued"},
		"requeue refused": {func(s *stage, b *batchStage) { s.cfg.Requeue, b.refuses = true, errors.New("slurm: disabled") }, "allocation", CodeTryAgain, 14, 0,
			"was not requeued"},
		"later deadline":   {func(s *stage, _ *batchStage) { s.cfg.SLA.TimeMax = time.Hour }, "allocation", CodeTryAgain, 14, 0, ""},
		"earlier deadline": {func(s *stage, _ *batchStage) { s.cfg.SLA.TimeMax, s.cfg.Requeue = 8*time.Second, true }, "deadline", CodeGuard, 7, 0, ""},
		"Slurm is silent": {func(s *stage, b *batchStage) {
			b.entry, b.err = nil, errors.New("slurm: the engine does not answer")
			s.cfg.SLA.TimeMax = 8 * time.Second
		}, "deadline", CodeGuard, 7, 0, "is unknown (slurm: the engine does not answer): only the limits of the run apply"},
		"no time limit": {func(s *stage, b *batchStage) {
			b.entry.End = s.clock.Now().Add(365 * 24 * time.Hour)
			s.cfg.SLA.TimeMax = 8 * time.Second
		}, "deadline", CodeGuard, 7, 0, "without a known end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.work(100, 1) {
				}
				return a.leave()
			})
			box, target := openMailbox(t)
			s.cfg.Warn, s.cfg.Notify = []float64{}, []notify.Target{target}
			b := running(s, 20*time.Second)
			if c.change != nil {
				c.change(s, b)
			}
			res := inJob(s, b).Run(t.Context(), s.cfg, nil)
			rec := res.Record
			got := box.take()
			if n := stat.Count(got, func(m string) bool { return m == "end of stopped" }); n != 1-c.requeued {
				t.Errorf("messages %q, want %d about the end", got, 1-c.requeued)
			}
			if res.Code != c.code || rec.State != journal.Stopped || rec.Exit.Reason != c.reason || !strings.Contains(rec.Exit.Detail, "checkpoint saved") {
				t.Fatalf("exit %d, %s %+v (%v); want %d by %s", res.Code, rec.State, rec.Exit, res.Err, c.code, c.reason)
			}
			wantSpent(t, rec, c.seconds)
			if len(b.requeued) != c.requeued || len(s.said(Info, c.says)) == 0 {
				t.Errorf("requeued %v, events %q; want %d and %q", b.requeued, s.events, c.requeued, c.says)
			}
			for _, v := range rec.SLA.Verdicts {
				if c.reason == "allocation" && v.Objective == sla.Time && v.Status == sla.Violated {
					t.Errorf("the end of the allocation counts as a missed deadline: %+v", v)
				}
			}
			if st, _ := s.seen(); c.reason == "allocation" && st.DeadlineSource != "the end of Slurm job 12 on n0" {
				t.Errorf("source of the deadline %q", st.DeadlineSource)
			}
			if c.reason == "deadline" && s.status.DeadlineSource != "" {
				t.Errorf("the user's deadline is attributed to %q", s.status.DeadlineSource)
			}
		})
	}
}

// TestSignalInAllocation: SIGTERM inside a Slurm job is its end, unless `runs stop` has marked it; Ctrl-C is the user's.
func TestSignalInAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		signal   os.Signal
		inside   bool
		marked   bool
		repeated bool
		reason   string
		code     Code
	}{
		"SIGTERM in a job":    {signal: syscall.SIGTERM, inside: true, reason: "allocation", code: CodeTryAgain},
		"twice":               {signal: syscall.SIGTERM, inside: true, repeated: true, reason: "allocation", code: CodeTryAgain},
		"by runs stop":        {signal: syscall.SIGTERM, inside: true, marked: true, reason: "user", code: CodeTerminated},
		"Ctrl-C":              {signal: syscall.SIGINT, inside: true, reason: "user", code: CodeInterrupt},
		"SIGTERM outside one": {signal: syscall.SIGTERM, reason: "user", code: CodeTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interrupts := make(chan os.Signal)
			var s *stage
			s = newStage(t, func(a *actor) launch.Exit {
				for a.work(100, 1) {
					if a.epoch != 3 {
						continue
					}
					if c.marked {
						entries, err := journal.List(s.cfg.StateDir)
						if err != nil || len(entries) != 1 {
							t.Errorf("%d runs, %v", len(entries), err)
						} else if err := os.WriteFile(entries[0].Dir+"/"+stopMark, nil, 0o600); err != nil {
							t.Error(err)
						}
					}
					interrupts <- c.signal
					<-a.asked
					if c.repeated {
						s.clock.advance(sameSignal)
						interrupts <- c.signal
						s.turn("looks after it", func() {}, func(_ Status, looks int) bool { return looks == 20 })
					}
				}
				return a.leave()
			})
			a := s.agent()
			if c.inside {
				a = inJob(s, &batchStage{})
			}
			res := a.Run(t.Context(), s.cfg, interrupts)
			if res.Code != c.code || res.Record.Exit == nil || res.Record.Exit.Reason != c.reason || !strings.Contains(res.Record.Exit.Detail, "checkpoint saved") {
				t.Errorf("exit %d %+v, want %d by %s", res.Code, res.Record.Exit, c.code, c.reason)
			}
		})
	}
}

// TestResumesBatch: a later life of the same Slurm job resumes what an earlier one left, and nothing else.
func TestResumesBatch(t *testing.T) {
	ended := func(id string, restarts int, state journal.State, reason string) *journal.Record {
		return &journal.Record{State: state, Batch: &resources.BatchJob{ID: id, Restarts: restarts}, Exit: &journal.Exit{Reason: reason}}
	}
	second := &resources.BatchJob{ID: "12", Restarts: 1}
	for name, c := range map[string]struct {
		b    *resources.BatchJob
		rec  *journal.Record
		want bool
	}{
		"same job":         {second, ended("12", 0, journal.Stopped, "allocation"), true},
		"killed with it":   {second, ended("12", 0, journal.Failed, "lost"), true},
		"another job":      {second, ended("11", 0, journal.Stopped, "allocation"), false},
		"by the user":      {second, ended("12", 0, journal.Stopped, "user"), false},
		"by its deadline":  {second, ended("12", 0, journal.Stopped, "deadline"), false},
		"done":             {second, ended("12", 0, journal.Done, "exited"), false},
		"this life":        {second, ended("12", 1, journal.Stopped, "allocation"), false},
		"first life":       {&resources.BatchJob{ID: "12"}, ended("12", 0, journal.Stopped, "allocation"), false},
		"outside a job":    {nil, ended("12", 0, journal.Stopped, "allocation"), false},
		"not in a job":     {second, &journal.Record{State: journal.Stopped, Exit: &journal.Exit{Reason: "user"}}, false},
		"without its exit": {second, &journal.Record{State: journal.Stopped, Batch: &resources.BatchJob{ID: "12"}}, false},
	} {
		if got := resumesBatch(c.b, c.rec); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestGoneElsewhere: for a run on another machine, Slurm's answer decides whether it has ended.
func TestGoneElsewhere(t *testing.T) {
	b := &resources.BatchJob{ID: "12", Node: "n0"}
	for name, c := range map[string]struct {
		entry  *engine.Entry
		err    error
		silent time.Duration // since the state was saved
		gone   bool
	}{
		"runs":                  {&engine.Entry{State: engine.Running}, nil, time.Hour, false},
		"is ending":             {&engine.Entry{State: engine.Ending}, nil, time.Hour, false},
		"has ended":             {&engine.Entry{State: engine.Ended}, nil, 0, true},
		"second life":           {&engine.Entry{State: engine.Running, Restarts: 1}, nil, 0, true},
		"waits for second life": {&engine.Entry{State: engine.Pending, Restarts: 1}, nil, 0, true},
		"forgotten":             {nil, nil, time.Hour, true},
		"forgotten, but saves":  {nil, nil, 0, false},
		"no answer":             {nil, errors.New("no answer"), time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := dir + "/state"
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			old := time.Now().Add(-c.silent)
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
			a := Agent{Launcher: launch.Local{}, Batch: &batchStage{entry: c.entry, err: c.err}}
			if _, gone := a.batchGone(t.Context(), dir, b); gone != c.gone {
				t.Errorf("gone %v, want %v", gone, c.gone)
			}
		})
	}
}

// askedEngine answers List, and records the jobs whose accounts are asked for.
type askedEngine struct {
	engine.Engine
	list  []engine.Status
	err   error
	asked []string
}

func (e *askedEngine) List(context.Context, ...string) ([]engine.Status, error) { return e.list, e.err }
func (e *askedEngine) Cancel(context.Context, string) error                     { return nil }
func (e *askedEngine) Account(_ context.Context, ids ...string) ([]engine.Life, error) {
	e.asked = append(e.asked, ids...)
	return nil, nil
}

// TestNoForecastWithALease: the engine is not asked when it would start a job whose devices a scheduler holds free.
func TestNoForecastWithALease(t *testing.T) {
	for _, lease := range []*Lease{nil, {}} {
		asked := 0
		r := newRun(Agent{Clock: &stoppedClock{}, Lease: lease, View: Quiet{}}, Config{})
		r.rec = &journal.Record{}
		r.site.Forecast = func(context.Context, resources.Allocation, time.Duration, int) ([]engine.Forecast, error) {
			asked++
			return []engine.Forecast{{}}, nil
		}
		r.forecastFirst(t.Context(), resources.Allocation{CPUs: 1})
		if (asked == 1) != (lease == nil) {
			t.Errorf("lease %v: asked %d times", lease, asked)
		}
	}
}

// TestAccountsOfEndedProbes checks that the accounting is asked about no probe that waits or runs.
func TestAccountsOfEndedProbes(t *testing.T) {
	probe := func(id, withdrawn string) siteProbe {
		return siteProbe{SiteProbe: journal.SiteProbe{Key: "k" + id, ID: id}, Withdrawn: withdrawn}
	}
	list := []engine.Status{{Key: "k1", State: engine.Pending}, {Key: "k2", State: engine.Running}, {Key: "k3", State: engine.Ended}, {Key: "k5", State: engine.Running}}
	open := []siteProbe{probe("1", ""), probe("2", ""), probe("3", ""), probe("4", ""), probe("5", "it reached the probe budget"), probe("", "")}
	r := newRun(Agent{Clock: &stoppedClock{}}, Config{})
	for _, c := range []struct {
		err  error
		want []string
	}{{nil, []string{"3", "4", "5"}}, {engine.ErrUnreachable, []string{"1", "2", "3", "4", "5"}}} {
		e := &askedEngine{list: list, err: c.err}
		if c.err != nil {
			e.list = nil
		}
		r.askAbout(t.Context(), e, open)()
		if !slices.Equal(e.asked, c.want) {
			t.Errorf("%v: accounts of %v, want %v", c.err, e.asked, c.want)
		}
	}
}

// TestStatusOfNodes: the live view shows what the engine has granted, which may be more memory than was asked for, on
// each node.
func TestStatusOfNodes(t *testing.T) {
	t.Parallel()
	s := &Status{Allocation: resources.Allocation{CPUs: 2, Memory: 1.5}}
	if got := s.Resources(); got != "2 CPU, 1.5 GiB" {
		t.Errorf("one node: %q", got)
	}
	s.Nodes = 2
	if got := s.Resources(); got != "2 nodes of 2 CPU, 1.5 GiB" {
		t.Errorf("two nodes: %q", got)
	}
	r := &run{}
	r.Launcher, r.Current = granting{}, resources.Allocation{CPUs: 1, Memory: 1}
	if got := r.charged(r.Current); got.Memory != 2 {
		t.Errorf("granted %v, want 2 GiB", got)
	}
	if r.Launcher = (placing{}); r.charged(r.Current).Memory != 1 {
		t.Errorf("without an answer about the nodes %v is charged, want what is planned", r.charged(r.Current))
	}
}

// TestWaitsForEver: a job that asks for more time than its account permits is reported once, with the option that states less.
func TestWaitsForEver(t *testing.T) {
	view := &warnings{}
	r := newRun(Agent{Clock: &stoppedClock{}, View: view}, Config{})
	for _, words := range []string{"slurm job 7 waits (Priority)", "slurm job 7 waits (QOSMaxWallDurationPerJobLimit)", "slurm job 7 waits (AssocMaxWallDurationPerJobLimit)"} {
		r.queued = waiting{words: words}
		r.watchQueue()
	}
	if len(view.lines) != 1 || !strings.Contains(view.lines[0], "--engine-arg=--time=") {
		t.Errorf("%d warnings: %q", len(view.lines), view.lines)
	}
}

// warnings is a view that keeps the warnings.
type warnings struct {
	Quiet
	lines []string
}

func (w *warnings) Event(level Level, line string) {
	if level == Warning {
		w.lines = append(w.lines, line)
	}
}

// waiting is a job that waits for its place.
type waiting struct {
	launch.Queued
	words string
}

func (w waiting) Waiting() string { return w.words }

// TestShareOfANode: a job for a part of the GPUs of a node asks for the same part of its CPUs and memory, a script that would leave more
// GPUs idle for one, and the plan shows what is asked for. Numbers that the user states prevail, and the limits stay.
func TestShareOfANode(t *testing.T) {
	offer := engine.Offer{Partition: "gpu", GPUType: "a100", GPUs: 4, CPUs: 64, Memory: 512}
	place := func(gpus, cpus int, memory resources.GiB) engine.Place {
		return engine.Place{Partition: "gpu", GPUType: "a100", GPUs: gpus, CPUs: cpus, Memory: memory}
	}
	for name, c := range map[string]struct {
		cfg   Config
		warns []string
		ranks int
		want  engine.Place
	}{
		"one GPU":                {cfg: Config{GPUs: "1"}, want: place(1, 16, 128)},
		"one-GPU script":         {warns: []string{inspect.OneGPU}, want: place(1, 16, 128)},
		"three GPUs":             {cfg: Config{GPUs: "3"}, want: place(3, 48, 384)},
		"any number of GPUs":     {want: place(4, 64, 512)},
		"GPUs prevail":           {cfg: Config{GPUs: "2"}, warns: []string{inspect.OneGPU}, want: place(2, 32, 256)},
		"CPUs prevail":           {cfg: Config{GPUs: "1", CPUs: "8"}, want: place(1, 8, 128)},
		"memory prevails":        {cfg: Config{GPUs: "1", Memory: "40"}, want: place(1, 16, 40)},
		"a CPU for each process": {cfg: Config{GPUs: "1"}, ranks: 20, want: place(1, 20, 160)},
	} {
		c.cfg.Engine = "slurm"
		r := newRun(Agent{Clock: &stoppedClock{}, View: Quiet{}}, c.cfg)
		r.Launcher, r.Host, r.ins.Warnings, r.ranks = placing{offer: offer}, offer.Host(), c.warns, c.ranks
		r.command = inspect.ReadCommand([]string{"train.py"}, t.TempDir())
		if err := r.resolveLimits(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := offer.Place(r.enforced(r.Baseline)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: asks for %v, want %v", name, got, c.want)
		}
		if text := r.wouldMeasure(); r.Baseline.Memory != c.want.Memory || !strings.Contains(text, r.Baseline.String()) {
			t.Errorf("%s: the plan is %v (%s), want %v GiB", name, r.Baseline, text, c.want.Memory)
		}
		for _, a := range plan.Allocations(r.snapshot()) {
			if asked := offer.Place(r.enforced(a)); a.Memory != asked.Memory {
				t.Errorf("%s: %v is planned, and %v asked for", name, a, asked)
			}
		}
		r.site.Forecast = func(_ context.Context, a resources.Allocation, _ time.Duration, _ int) ([]engine.Forecast, error) {
			if got := offer.Place(a); !reflect.DeepEqual(got, c.want) || (a.Memory > 0) != (c.cfg.Memory != "") {
				t.Errorf("%s: the start is predicted of %v (%v), want %v", name, got, a, c.want)
			}
			return []engine.Forecast{{}}, nil
		}
		r.rec = &journal.Record{}
		r.forecastFirst(t.Context(), r.Baseline)
		for _, memory := range []resources.GiB{256, 2} { // of other nodes
			small := offer
			small.CPUs, small.Memory = 32, memory
			other := Site{Launcher: placing{offer: small}, Host: small.Host()}
			a, fits := r.onNode(r.Baseline, other)
			if c.cfg.Memory != "" && memory < 40 {
				continue
			}
			if asked := small.Place(r.enforced(r.Baseline)); !fits || !r.allowedAt(a, other.Host) || a.Memory != asked.Memory || a.CPUs != asked.CPUs {
				t.Errorf("%s: %v is allowed on a node of %v GiB: %v, want %v", name, a, memory, r.allowedAt(a, other.Host), asked)
			}
		}
		if r.learnMemory(3); c.cfg.Memory == "" && r.withMemory(r.Baseline).Memory != c.want.Memory {
			t.Errorf("%s: with a measured peak %v is planned, and %v GiB asked for", name, r.withMemory(r.Baseline), c.want.Memory)
		}
		if c.cfg.GPUs == "" && r.Limits.GPUs != (resources.Range{Min: 1, Max: 4}) || c.cfg.CPUs == "" && r.Limits.CPUs.Max != 64 {
			t.Errorf("%s: limits %+v", name, r.Limits)
		}
	}
}

// TestPriceOfAWholeNode: where a job holds all of a node whatever it asks for, all of it is paid, at the present place and at others, and a
// script that leaves GPUs idle has all CPUs.
func TestPriceOfAWholeNode(t *testing.T) {
	offer := engine.Offer{Partition: "gpu", GPUType: "a100", GPUs: 4, CPUs: 64, Memory: 512, PerJob: 2}
	own := &cost.Rates{GPUHour: 2, CPUHour: 0.01, GiBHour: 0.001, Source: "own", Dated: "2026-01-01"}
	part, all := resources.Allocation{GPUs: 1, CPUs: 16, Memory: 128}, resources.Allocation{GPUs: 4, CPUs: 64, Memory: 512}
	for name, c := range map[string]struct {
		cfg  Config
		site *cost.Rates
		unit cost.Rates
	}{
		"default rates":      {unit: cost.Default("a100")},
		"rates of the site":  {site: own, unit: *own},
		"rates of the user":  {cfg: Config{Rates: own}, unit: *own},
		"an instance's rate": {cfg: Config{Rates: &cost.Rates{Instance: 7, Source: "own", Dated: "2026-01-01"}}, unit: cost.Rates{Instance: 7}},
	} {
		for _, whole := range []bool{false, true} {
			c.cfg.Engine = "slurm"
			r := newRun(Agent{Clock: &stoppedClock{}, View: Quiet{}}, c.cfg)
			r.site = Site{Host: offer.Host(), Whole: whole, Rates: c.site}
			r.Launcher, r.Host, r.ins.Warnings = placing{offer: offer}, r.site.Host, []string{inspect.OneGPU}
			paid, cpus := part, 16
			if whole {
				paid, cpus = all, 64
			}
			r.resolveSiteRates()
			if got, want := r.Rates.Hourly(part), 2*c.unit.Hourly(paid); math.Abs(float64(got-want)) > 1e-9 {
				t.Errorf("%s, whole nodes %v: %v USD per hour on two nodes, want %v", name, whole, got, want)
			}
			if got, want := r.ratesAt(r.site).Hourly(part), c.unit.Hourly(paid); math.Abs(float64(got-want)) > 1e-9 {
				t.Errorf("%s, whole nodes %v: %v USD per hour at another place, want %v", name, whole, got, want)
			}
			if err := r.resolveLimits(); err != nil || r.Baseline.GPUs != 1 || r.Baseline.CPUs != cpus {
				t.Errorf("%s, whole nodes %v: the baseline is %v, %v", name, whole, r.Baseline, err)
			}
		}
	}
}

// placing is an engine with one kind of nodes.
type placing struct {
	launch.Launcher
	offer engine.Offer
}

func (p placing) Charged(a resources.Allocation) resources.Allocation {
	a.Memory = p.offer.Place(a).Memory
	return a
}

// granting is an engine that grants 2 GiB.
type granting struct{ launch.Launcher }

func (granting) Charged(a resources.Allocation) resources.Allocation {
	a.Memory = 2
	return a
}

// TestReinspectionKeepsTheCommandLine: a run that is continued uses the device that its command line selects.
func TestReinspectionKeepsTheCommandLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(path, []byte("import torch\nmodel.to('cuda')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{"yes": nil, "no": {"--device", "cpu"}} {
		var s script
		s.inspect(path, &facts{Argv: append([]string{"python3", path}, args...)})
		if s.ins.GPU.Value != want {
			t.Errorf("%q: uses a GPU: %+v, want %q", args, s.ins.GPU, want)
		}
	}
}

// TestAsksGPUs: a training whose use of GPUs is unknown asks an engine for them, as it receives those of this machine; one that is
// known to use CPUs only does not, nor does one to which the user gives none.
func TestAsksGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		uses, path, gpus string
		limit            int
		want             bool
	}{
		"uses them":               {uses: "yes", path: "train.py", want: true},
		"unknown":                 {path: "train.py", want: true},
		"CPUs only":               {uses: "no", path: "train.py"},
		"CPUs only, but given":    {uses: "no", path: "train.py", gpus: "1:", want: true},
		"given none":              {uses: "yes", path: "train.py", gpus: "0"},
		"given none, as a range":  {path: "train.py", gpus: "0:0"},
		"not yet read, has none":  {},
		"not yet read, has a few": {limit: 2, want: true},
	} {
		asked := 0
		r := newRun(Agent{Clock: &stoppedClock{}, View: Quiet{}, Site: func(_ context.Context, _ Config, gpus bool) (Site, error) {
			if asked++; gpus != c.want {
				t.Errorf("%s: asks for GPUs: %v, want %v", name, gpus, c.want)
			}
			return Site{Launcher: launch.Local{}}, nil
		}}, Config{Engine: "slurm", GPUs: c.gpus})
		r.ins.Path, r.ins.GPU.Value, r.Limits.GPUs.Max = c.path, c.uses, c.limit
		if err := r.openSite(t.Context()); err != nil || asked != 1 {
			t.Errorf("%s: connected %d times, %v", name, asked, err)
		}
	}
}
