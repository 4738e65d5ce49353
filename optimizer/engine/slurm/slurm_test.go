package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

var update = flag.Bool("update", false, "write the golden files")

// fakeSlurm answers commands by name from a table and records them.
type fakeSlurm struct {
	mu      sync.Mutex
	answers map[string]Result // by the name of the command
	err     error             // instead of any answer
	called  []Command
}

func (f *fakeSlurm) run(_ context.Context, c Command) (Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called = append(f.called, c)
	return f.answers[c.Argv[0]], f.err
}

// lines returns the commands that were called.
func (f *fakeSlurm) lines() []string {
	var out []string
	for _, c := range f.called {
		out = append(out, strings.Join(c.Argv, " "))
	}
	return out
}

func newFake(answers map[string]string) (*fakeSlurm, *Engine) {
	f := &fakeSlurm{answers: map[string]Result{}}
	for name, out := range answers {
		f.answers[name] = Result{Stdout: out}
	}
	return f, &Engine{Run: f.run}
}

func readFile(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var versions = []string{"20.11", "22.05", "23.11", "24.05", "25.05"}

// TestVersions compares what is read from the output of each version with golden files.
func TestVersions(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			_, e := newFake(map[string]string{"sinfo": readFile(t, version, "sinfo.txt"), "scontrol": readFile(t, version, "partitions.txt")})
			offers, err := e.Offers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := parseQueue(readFile(t, version, "squeue.txt"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(map[string]any{"offers": offers, "jobs": jobs}, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", version, "read.json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := readFile(t, version, "read.json"); strings.TrimSpace(want) != string(got) {
				t.Errorf("%s differs (go test -update writes it):\n%s", golden, got)
			}
		})
	}
}

func TestState(t *testing.T) {
	for raw, want := range map[string]engine.State{
		"PENDING": engine.Pending, "CONFIGURING": engine.Pending, "REQUEUE_HOLD": engine.Pending, "RUNNING": engine.Running,
		"SUSPENDED": engine.Running, "COMPLETING": engine.Ending, "CANCELLED by 1000": engine.Ended, "CANCELLED+": engine.Ended,
		"NODE_FAIL": engine.Ended, "": engine.Unknown, "NEW_STATE": engine.Unknown, "running": engine.Unknown,
	} {
		if got := state(raw); got != want {
			t.Errorf("state(%q) = %s, want %s", raw, got, want)
		}
	}
}

func TestUsable(t *testing.T) {
	for state, want := range map[string][2]bool{
		"idle": {true, true}, "idle~": {true, true}, "idle#": {true, true}, "plnd": {true, true}, "idle@": {true, false},
		"mix": {true, false}, "mix-": {true, false}, "alloc": {true, false}, "comp": {true, false}, "resv": {true, false},
		"idle*": {}, "idle$": {}, "down": {}, "down*": {}, "drain": {}, "drng": {}, "idle+drain": {}, "maint": {}, "unk": {}, "": {},
	} {
		if up, idle := usable(state); [2]bool{up, idle} != want {
			t.Errorf("usable(%q) = %v %v, want %v", state, up, idle, want)
		}
	}
}

func TestParseGRES(t *testing.T) {
	for text, want := range map[string][]gres{
		"":                               nil,
		"gpu:4":                          {{"gpu", "", 4}},
		"gpu:a100:4(S:0-1)":              {{"gpu", "a100", 4}},
		"gpu:a100:2(S:0),gpu:a100:2":     {{"gpu", "a100", 4}},
		"gpu:1080:4(IDX:0,2-3),nvme:1":   {{"gpu", "1080", 4}, {"nvme", "", 1}},
		"shard:no_consume:8,gpu:t4":      {{"shard", "", 8}, {"gpu", "t4", 1}},
		"gres/gpu:a100:2":                {{"gpu", "a100", 2}},
		"gpu":                            {{"gpu", "", 1}},
		"bandwidth:lustre:no_consume:4K": {{"bandwidth", "lustre", 4096}},
	} {
		if got, err := parseGRES(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("parseGRES(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{":4", ",", "no_consume,,", "gpu:2000000000,gpu:2000000000"} {
		if got, err := parseGRES(text); err == nil {
			t.Errorf("parseGRES(%q) = %v without an error", text, got)
		}
	}
}

func TestParseBilling(t *testing.T) {
	got, err := parseBilling("CPU=1.0,Mem=0.25G,GRES/gpu:A100=2,node=3")
	want := map[string]float64{"cpu": 1, "mem": 0.25, "gres/gpu:A100": 2, "node": 3}
	if err != nil || !equalMaps(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for text, perGiB := range map[string]float64{"Mem=1": 1024, "Mem=1M": 1024, "Mem=1g": 1, "mem=1T": 1. / 1024} {
		if got, err := parseBilling(text); err != nil || got["mem"] != perGiB {
			t.Errorf("parseBilling(%q) = %v, %v, want %g per GiB", text, got, err, perGiB)
		}
	}
	for _, text := range []string{"CPU", "CPU=", "=1", "CPU=-1", "CPU=x", "CPU=1,,Mem=1", "CPU=NaN"} {
		if got, err := parseBilling(text); err == nil {
			t.Errorf("parseBilling(%q) = %v without an error", text, got)
		}
	}
}

func equalMaps(a, b map[string]float64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "UNLIMITED": 0, "INFINITE": 0, "1-12:30:00": 36*time.Hour + 30*time.Minute, "00:30:00": 30 * time.Minute,
	} {
		if got, err := parseLimit(text); err != nil || got != want {
			t.Errorf("parseLimit(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestOutputWithoutHeader checks that an output that is not a table is an error and not an empty list.
func TestOutputWithoutHeader(t *testing.T) {
	for _, text := range []string{"", "\n", "Welcome to the cluster\n", "JOBID|NAME|\n1|a|\n"} {
		if jobs, err := parseQueue(text); err == nil {
			t.Errorf("squeue %q: %v without an error", text, jobs)
		}
		if groups, err := parseNodes(text); err == nil {
			t.Errorf("sinfo %q: %v without an error", text, groups)
		}
		if partitions, err := parsePartitions(text); err == nil {
			t.Errorf("scontrol %q: %v without an error", text, partitions)
		}
	}
}

func request() engine.Request {
	return engine.Request{Key: "optimize.r1.2", Comment: "run r1", Argv: []string{"/opt/optimize", "__keeper", "it's; $HOME"}, Dir: "/scratch/my runs",
		Output: "/scratch/100%/out", Env: []string{"A=1", "SLURM_CONF=/etc/slurm.conf"},
		Place:     engine.Place{Partition: "gpu", GPUType: "a100", Nodes: 2, GPUs: 4, CPUs: 16, Memory: 62.5, Avoid: []string{"n1", "n7"}},
		TimeLimit: 61 * time.Second, Warn: 90*time.Second + time.Millisecond, Extra: []string{"--account=phys", "--requeue"}}
}

const emptyQueue = "JOBID|STATE|REASON|SUBMIT_TIME|START_TIME|RESTART_COUNT|NODELIST|NAME|\n"

func TestSubmit(t *testing.T) {
	f, e := newFake(map[string]string{"squeue": emptyQueue, "sbatch": "Welcome\n4711;east\n"})
	id, err := e.Submit(t.Context(), request())
	if err != nil || id != "4711" {
		t.Fatalf("%q, %v", id, err)
	}
	c := f.called[1]
	want := []string{"sbatch", "--parsable", "--export=ALL", "--job-name=optimize.r1.2", "--chdir=/scratch/my runs", "--output=/scratch/100%%/out",
		"--open-mode=append", "--no-requeue", "--comment=run r1", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=16", "--mem=64000M",
		"--gres=gpu:a100:4", "--partition=gpu", "--exclude=n1,n7", "--time=2", "--signal=B:USR1@91", "--account=phys", "--requeue"}
	if !slices.Equal(c.Argv, want) {
		t.Errorf("sbatch was called as\n%q\nwant\n%q", c.Argv, want)
	}
	if script := "#!/bin/sh\ncd -- '/scratch/my runs' || exit 1\nexec '/opt/optimize' '__keeper' 'it'\\''s; $HOME'\n"; c.Stdin != script {
		t.Errorf("script\n%s\nwant\n%s", c.Stdin, script)
	}
	if !slices.Equal(c.Env, request().Env) {
		t.Errorf("environment %q", c.Env)
	}
}

// TestSubmitTasks: an array is one job, and the job that exists already is found by the number of its first task.
func TestSubmitTasks(t *testing.T) {
	r := engine.Request{Key: "optimize.sweep.a.0.0", Argv: []string{"/opt/optimize", "x"}, Dir: "/", Output: "/scratch/out", Tasks: 12, Parallel: 3}
	f, e := newFake(map[string]string{"squeue": emptyQueue, "sbatch": "40\n"})
	if id, err := e.Submit(t.Context(), r); err != nil || id != "40" {
		t.Fatalf("%q, %v", id, err)
	}
	c := f.called[1]
	if !slices.Contains(c.Argv, "--array=0-11%3") || !slices.Contains(c.Argv, "--output=/scratch/out.%a") {
		t.Errorf("sbatch was called as %q", c.Argv)
	}
	if script := "#!/bin/sh\ncd -- '/' || exit 1\nexec '/opt/optimize' 'x' \"$SLURM_ARRAY_TASK_ID\"\n"; c.Stdin != script {
		t.Errorf("script\n%s\nwant\n%s", c.Stdin, script)
	}
	tasks := emptyQueue
	for _, row := range []string{"42|RUNNING", "40|COMPLETED", "41|RUNNING"} {
		tasks += row + "|None|2022-01-01T00:00:00|N/A|0||optimize.sweep.a.0.0|\n"
	}
	_, e = newFake(map[string]string{"squeue": tasks, "sbatch": "99\n"})
	if id, err := e.Submit(t.Context(), r); err != nil || id != "40" {
		t.Errorf("job %q, %v, want that of the array, 40", id, err)
	}
	r.Parallel = 0
	if argv, err := submission(r); err != nil || !slices.Contains(argv, "--array=0-11") {
		t.Errorf("%q, %v", argv, err)
	}
	r.Tasks = -1
	if _, err := submission(r); err == nil {
		t.Error("a negative number of tasks is accepted")
	}
}

// TestSubmitAsksForLittle checks that zero fields are left to Slurm.
func TestSubmitAsksForLittle(t *testing.T) {
	argv, err := submission(engine.Request{Key: "k", Argv: []string{"/bin/true"}, Dir: "/", Output: "/dev/null"})
	want := []string{"sbatch", "--parsable", "--export=ALL", "--job-name=k", "--chdir=/", "--output=/dev/null", "--open-mode=append", "--no-requeue",
		"--nodes=1", "--ntasks-per-node=1"}
	if err != nil || !slices.Equal(argv, want) {
		t.Errorf("%q, %v, want %q", argv, err, want)
	}
}

func TestSubmitIsIdempotent(t *testing.T) {
	row := func(id, state, name string) string {
		return id + "|" + state + "|None|2022-01-01T00:00:00|N/A|0||" + name + "|\n"
	}
	for name, c := range map[string]struct {
		queue, want string
	}{
		"pending":               {row("7", "PENDING", "optimize.r1.2"), "7"},
		"running":               {row("8", "RUNNING", "optimize.r1.2"), "8"},
		"unknown state":         {row("8", "NEW_STATE", "optimize.r1.2"), "8"},
		"ended":                 {row("7", "FAILED", "optimize.r1.2"), "99"},
		"ending":                {row("7", "COMPLETING", "optimize.r1.2"), "99"},
		"the latest":            {row("10", "PENDING", "optimize.r1.2") + row("9", "PENDING", "optimize.r1.2"), "10"},
		"another name":          {row("7", "PENDING", "optimize.r1.22"), "99"},
		"ended and another one": {row("7", "FAILED", "optimize.r1.2") + row("8", "RUNNING", "optimize.r1.2"), "8"},
	} {
		f, e := newFake(map[string]string{"squeue": emptyQueue + c.queue, "sbatch": "99\n"})
		if id, err := e.Submit(t.Context(), request()); err != nil || id != c.want {
			t.Errorf("%s: job %q, %v, want %s; called %q", name, id, err, c.want, f.lines())
		}
	}
}

func TestSubmitRejects(t *testing.T) {
	for name, change := range map[string]func(r *engine.Request){
		"key with a comma":     func(r *engine.Request) { r.Key = "a,b" },
		"empty key":            func(r *engine.Request) { r.Key = "" },
		"key as an option":     func(r *engine.Request) { r.Key = "-x" },
		"no program":           func(r *engine.Request) { r.Argv = nil },
		"relative program":     func(r *engine.Request) { r.Argv = []string{"optimize"} },
		"relative directory":   func(r *engine.Request) { r.Dir = "runs" },
		"backslash in output":  func(r *engine.Request) { r.Output = `/scratch/a\b` },
		"zero byte":            func(r *engine.Request) { r.Argv = append(r.Argv, "a\x00b") },
		"negative":             func(r *engine.Request) { r.Place.GPUs = -1 },
		"not a number":         func(r *engine.Request) { r.Place.Memory = resources.GiB(math.NaN()) },
		"a script":             func(r *engine.Request) { r.Extra = []string{"job.sh"} },
		"a separate value":     func(r *engine.Request) { r.Extra = []string{"--account", "phys"} },
		"array":                func(r *engine.Request) { r.Extra = []string{"-a1-5"} },
		"array, abbreviated":   func(r *engine.Request) { r.Extra = []string{"--arr=1-5"} },
		"wait":                 func(r *engine.Request) { r.Extra = []string{"-W"} },
		"another cluster":      func(r *engine.Request) { r.Extra = []string{"--clusters=west"} },
		"another name":         func(r *engine.Request) { r.Extra = []string{"--job-name=x"} },
		"end of options":       func(r *engine.Request) { r.Extra = []string{"--"} },
		"standard input":       func(r *engine.Request) { r.Extra = []string{"-"} },
		"an empty site option": func(r *engine.Request) { r.Extra = []string{""} },
	} {
		f, e := newFake(map[string]string{"squeue": emptyQueue, "sbatch": "1\n"})
		r := request()
		change(&r)
		id, err := e.Submit(t.Context(), r)
		switch {
		case err == nil:
			t.Errorf("%s: submitted as %s", name, id)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: error of several lines: %v", name, err)
		case len(f.called) > 0:
			t.Errorf("%s: called %q before the error", name, f.lines())
		}
	}
	for _, extra := range []string{"--qos=high", "-Aphys", "--gpus-per-node=a100:2", "--exclusive", "--constraint=[a|b]*2", "--mail-user=a b"} {
		if err := checkOption(extra); err != nil {
			t.Error(err)
		}
	}
}

// TestShellQuote lets a shell read what was quoted.
func TestShellQuote(t *testing.T) {
	for _, s := range []string{"", "a", "a b", "it's", `\`, "$HOME `id` \"x\"", "a\nb\n", "*", "-n", "é\x80"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+shellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q became %q, %v", s, out, err)
		}
	}
}

func TestSubmitEnvironment(t *testing.T) {
	login := []string{"A=1", "SLURM_MPI_TYPE=pmix", "SBATCH_ACCOUNT=phys", "SBATCH_WAIT=1", "SBATCH_ARRAY_INX=1-9"}
	if got := submitEnvironment(login); !slices.Equal(got, login[:3]) {
		t.Errorf("on a login node: %q", got)
	}
	inside := []string{"SLURM_JOB_ID=1", "SLURM_MEM_PER_CPU=100", "SLURM_CONF=/c", "SLURMD_NODENAME=n0", "CUDA_VISIBLE_DEVICES=0", "SLURM_CLUSTERS=east"}
	if got, want := submitEnvironment(inside), []string{"SLURM_CONF=/c", "CUDA_VISIBLE_DEVICES=0", "SLURM_CLUSTERS=east"}; !slices.Equal(got, want) {
		t.Errorf("in an allocation: %q, want %q", got, want)
	}
}

func TestQueryEnvironment(t *testing.T) {
	got := queryEnvironment([]string{"PATH=/bin", "SQUEUE_FORMAT=%i", "SQUEUE_STATES=PD", "LANG=de_DE.UTF-8", "LC_TIME=fr_FR", "TZ=Asia/Tokyo",
		"SLURM_TIME_FORMAT=relative", "SINFO_ALL=1", "SACCT_FORMAT=jobid", "SCANCEL_INTERACTIVE=1", "SLURM_CONF=/c"})
	if want := []string{"PATH=/bin", "SLURM_CONF=/c", "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestListSelectsKeys(t *testing.T) {
	f, e := newFake(map[string]string{"squeue": readFile(t, "20.11", "squeue.txt")})
	jobs, err := e.List(t.Context(), "optimize.r4.2", "optimize.r1.1", "absent")
	if err != nil || len(jobs) != 2 || jobs[0].Key != "optimize.r4.2" || jobs[1].Key != "optimize.r1.1" {
		t.Errorf("%+v, %v", jobs, err)
	}
	if jobs, err := e.List(t.Context()); jobs != nil || err != nil {
		t.Errorf("no keys: %v, %v", jobs, err)
	}
	if len(f.called) != 1 {
		t.Errorf("called %q", f.lines())
	}
}

func TestSignalAndCancel(t *testing.T) {
	f, e := newFake(nil)
	if err := errors.Join(e.Signal(t.Context(), "12", syscall.SIGUSR1), e.Cancel(t.Context(), "12")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"scancel --batch --signal=10 12", "scancel 12"}; !slices.Equal(f.lines(), want) {
		t.Errorf("called %q, want %q", f.lines(), want)
	}
	for _, id := range []string{"", "x", "-1", "12_3", "--user=root", "0", "1 2"} {
		if e.Signal(t.Context(), id, syscall.SIGUSR1) == nil || e.Cancel(t.Context(), id) == nil {
			t.Errorf("id %q was accepted", id)
		}
		if _, err := e.Account(t.Context(), id); err == nil {
			t.Errorf("id %q was accepted by Account", id)
		}
	}
	f.answers = map[string]Result{"scancel": {Code: 1, Stderr: "scancel: error: Kill job error on job id 12: Invalid job id specified\n"}}
	if err := e.Cancel(t.Context(), "12"); err != nil {
		t.Errorf("cancel of a job that the controller has removed: %v", err)
	}
	if err := e.Signal(t.Context(), "12", syscall.SIGUSR1); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("signal to a job that the controller has removed: %v", err)
	}
	f.answers = map[string]Result{"scancel": {Code: 1, Stderr: "scancel: error: Kill job error on job id 12: Access/permission denied\n"}}
	if err := e.Cancel(t.Context(), "12"); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("cancel of another user's job: %v", err)
	}
}

// TestFailures checks the errors of every method against the messages of Slurm's commands.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		result Result
		err    error
		want   error
		text   string
	}{
		"controller down": {result: Result{Code: 1, Stderr: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"},
			want: engine.ErrUnreachable, text: "connect failure"},
		"submission while the controller is down": {result: Result{Code: 1, Stderr: "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n"},
			want: engine.ErrUnreachable, text: ": Batch job submission failed"},
		"controller slow": {result: Result{Code: 1, Stderr: "slurm_load_jobs error: Socket timed out on send/recv operation\n"}, want: engine.ErrUnreachable},
		"database down": {result: Result{Code: 1, Stderr: "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:localhost:6819: Connection refused\nsacct: error: Sending PersistInit msg: Connection refused\nsacct: error: Problem talking to the database: Connection refused\n"},
			want: engine.ErrUnreachable, text: "; Problem talking to the database"},
		"munge down": {result: Result{Code: 1, Stderr: "squeue: error: If munged is up, restart with --num-threads=10\nsqueue: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No such file or directory\nslurm_load_jobs error: Protocol authentication error\n"},
			want: engine.ErrUnreachable},
		"wrong partition": {result: Result{Code: 1, Stderr: "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified\n"},
			want: engine.ErrRefused, text: "invalid partition specified: nope; Batch job submission failed: Invalid partition name specified"},
		"no accounting":     {result: Result{Code: 1, Stderr: "Slurm accounting storage is disabled\n"}, want: engine.ErrRefused, text: "storage is disabled"},
		"without a message": {result: Result{Code: 3}, want: engine.ErrRefused, text: "exit status 3"},
		"not installed":     {err: &exec.Error{Name: "squeue", Err: exec.ErrNotFound}, want: exec.ErrNotFound, text: "slurm-client"},
	} {
		e := &Engine{Run: func(context.Context, Command) (Result, error) { return c.result, c.err }}
		_, offers := e.Offers(t.Context())
		_, submit := e.Submit(t.Context(), request())
		_, list := e.List(t.Context(), "k")
		_, account := e.Account(t.Context(), "1")
		for method, err := range map[string]error{"Offers": offers, "Submit": submit, "List": list, "Account": account,
			"Signal": e.Signal(t.Context(), "1", syscall.SIGUSR1), "Cancel": e.Cancel(t.Context(), "1")} {
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %s: %v, want %v with %q on one line", name, method, err, c.want, c.text)
			}
		}
	}
}

// TestNoAnswer checks that a command without an answer is unreachable, and that a cancelled call is not.
func TestNoAnswer(t *testing.T) {
	wait := &Engine{Run: func(ctx context.Context, _ Command) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }}
	short, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := wait.List(short, "k"); !errors.Is(err, engine.ErrUnreachable) {
		t.Errorf("after the deadline: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := wait.List(cancelled, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
	var left time.Duration
	bounded := &Engine{Run: func(ctx context.Context, _ Command) (Result, error) {
		deadline, ok := ctx.Deadline()
		if ok {
			left = time.Until(deadline)
		}
		return Result{Stdout: emptyQueue}, nil
	}}
	if _, err := bounded.List(context.Background(), "k"); err != nil || left <= 0 || left > timeout {
		t.Errorf("a command without a deadline of the caller had %v, %v", left, err)
	}
}

// TestLostAnswer checks the case in which sbatch submits the job, but its answer is lost: the next call finds the job.
func TestLostAnswer(t *testing.T) {
	submitted := 0
	e := &Engine{Run: func(_ context.Context, c Command) (Result, error) {
		switch {
		case c.Argv[0] == "sbatch":
			submitted++
			return Result{Code: 1, Stderr: "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"}, nil
		case submitted == 0:
			return Result{Stdout: emptyQueue}, nil
		}
		return Result{Stdout: emptyQueue + "5|PENDING|None|2022-01-01T00:00:00|N/A|0||optimize.r1.2|\n"}, nil
	}}
	if _, err := e.Submit(t.Context(), request()); !errors.Is(err, engine.ErrUnreachable) {
		t.Fatal(err)
	}
	if id, err := e.Submit(t.Context(), request()); err != nil || id != "5" || submitted != 1 {
		t.Errorf("job %q, %v after %d submissions", id, err, submitted)
	}
}

func TestAccount(t *testing.T) {
	f, e := newFake(map[string]string{"sacct": readFile(t, "sacct-22.05.txt")})
	lives, err := e.Account(t.Context(), "101", "102")
	if err != nil {
		t.Fatal(err)
	}
	if want := "sacct --duplicates --parsable2 --format=" + AccountingFields + " --jobs=101,102"; f.lines()[0] != want {
		t.Errorf("called %q, want %q", f.lines()[0], want)
	}
	a, b := lives[0], lives[1]
	if a.ID != "101" || a.State != "NODE_FAIL" || !a.Final || a.Elapsed != 10*time.Minute || a.GPUs != 1 || a.GPUType != "a100" || a.Memory != 16 || a.PeakGiB != nil || a.Joules != nil {
		t.Errorf("first life %+v", a)
	}
	if b.ID != "101" || b.State != "COMPLETED" || b.CPUs != 12 || !slices.Equal(b.Nodes, []string{"n1", "n3", "m07"}) || b.CPUSecs == nil || *b.CPUSecs != 4*3600+1 || b.PeakGiB == nil || *b.PeakGiB != 3.5 {
		t.Errorf("second life %+v", b)
	}
	i := slices.IndexFunc(lives, func(l engine.Life) bool { return l.State == "PENDING" })
	if i < 0 || lives[i].Final || !lives[i].Started.IsZero() || lives[i].CPUSecs != nil {
		t.Errorf("pending tasks: %+v", lives)
	}
	if !slices.IsSortedFunc(lives[:2], func(a, b engine.Life) int { return a.Started.Compare(b.Started) }) {
		t.Error("lives are not in the order of their start")
	}
}

func TestAccountOmitsReusedNumber(t *testing.T) {
	head := "JobID|State|Submit|Start|End|ElapsedRaw|NodeList|JobName\n"
	_, e := newFake(map[string]string{"sacct": head +
		"7|COMPLETED|2020-01-01T00:00:00|2020-01-01T00:00:00|2020-01-01T01:00:00|3600|n0|other\n" +
		"7|NODE_FAIL|2022-01-01T00:00:00|2022-01-01T00:00:00|2022-01-01T01:00:00|3600|n0|optimize.r1.1\n" +
		"7|CANCELLED by 1000|2022-01-01T01:00:00|2022-01-01T02:00:00|2022-01-01T02:00:00|0|None assigned|optimize.r1.1\n"})
	lives, err := e.Account(t.Context(), "7")
	if err != nil || len(lives) != 2 || lives[0].State != "NODE_FAIL" {
		t.Fatalf("%+v, %v", lives, err)
	}
	if l := lives[1]; l.Cancelled != "1000" || !l.Started.IsZero() || !l.Final || l.Elapsed != 0 {
		t.Errorf("cancelled while waiting: %+v", l)
	}
}

func TestAccountReportsBadLines(t *testing.T) {
	_, e := newFake(map[string]string{"sacct": "JobID|State|JobName\n7|COMPLETED|a\nrubbish\n"})
	lives, err := e.Account(t.Context(), "7")
	if bad := (*BadLines)(nil); !errors.As(err, &bad) || len(lives) != 1 {
		t.Errorf("%+v, %v", lives, err)
	}
}

// FuzzParse checks that no output makes a parser panic or return impossible values.
func FuzzParse(f *testing.F) {
	for _, version := range versions {
		for _, name := range []string{"squeue.txt", "sinfo.txt", "partitions.txt"} {
			f.Add(readFile(f, version, name))
		}
	}
	f.Add("JOBID|STATE|NAME|NODELIST|\n1|RUNNING|a|n[0-99999999]|\n")
	f.Add("PARTITION|STATE|NODES|CPUS|MEMORY|GRES\na|idle|1|1|1|no_consume\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, _ := parseQueue(text)
		for _, j := range jobs {
			if checkID(j.ID) != nil || j.Restarts < 0 || j.State == "" {
				t.Errorf("impossible job %+v", j)
			}
		}
		groups, _ := parseNodes(text)
		partitions, _ := parsePartitions(text)
		if partitions == nil {
			partitions = map[string]partition{}
		}
		for _, g := range groups {
			if g.nodes < 0 || g.cpus < 0 || !(g.memory >= 0) || len(g.gpus) == 0 {
				t.Errorf("impossible nodes %+v", g)
			}
			partitions[g.partition] = partition{open: true}
		}
		for _, o := range offers(groups, partitions) {
			if o.Idle > o.Nodes || o.Nodes <= 0 || o.GPUs < 0 {
				t.Errorf("impossible offer %+v", o)
			}
		}
	})
}
