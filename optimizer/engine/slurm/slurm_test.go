package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
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

// TestNamesOfNodes: offers name their nodes, of which one may be in two partitions. Kinds of which no node is up are configured.
func TestNamesOfNodes(t *testing.T) {
	_, e := newFake(map[string]string{
		"sinfo": "PARTITION|STATE|NODES|CPUS|MEMORY|AVAIL_FEATURES|NODELIST|GRES\n" +
			"gpu|idle|2|32|128000|(null)|n[1-2]|gpu:a100:4\ngpu|mix|1|32|128000|(null)|n3|gpu:a100:4\nfast|mix|1|32|128000|(null)|n3|gpu:a100:4\nfast|down*|1|32|128000|(null)|n4|gpu:a100:4\n" +
			"fast|drain|1|8|32000|(null)|n5|gpu:k80:2\n",
		"scontrol": "PartitionName=gpu Default=YES State=UP\nPartitionName=fast Default=NO State=UP\n",
	})
	offers, err := e.Offers(t.Context())
	if err != nil || len(offers) != 2 || offers[0].Nodes != 3 || strings.Join(offers[0].Names, " ") != "n1 n2 n3" || strings.Join(offers[1].Names, " ") != "n3" {
		t.Errorf("%+v, %v", offers, err)
	}
	all, err := e.Configured(t.Context())
	if err != nil || len(all) != 3 || all[1].Nodes != 1 || strings.Join(all[1].Down, " ") != "n4" || all[2].GPUType != "k80" || all[2].Nodes != 0 || strings.Join(all[2].Down, " ") != "n5" {
		t.Errorf("configured: %+v, %v", all, err)
	}
}

// TestLimitsOfAPartition checks that an offer contains no more CPUs and memory than the jobs of its partition get of a node.
func TestLimitsOfAPartition(t *testing.T) {
	_, e := newFake(map[string]string{
		"sinfo": "PARTITION|STATE|NODES|CPUS|MEMORY|AVAIL_FEATURES|NODELIST|GRES\nfree|idle|1|32|131072|(null)|n1|(null)\nheld|idle|1|32|131072|(null)|n1|(null)\nwide|idle|1|32|131072|(null)|n1|(null)\n",
		"scontrol": "PartitionName=free MaxCPUsPerNode=UNLIMITED State=UP MaxMemPerNode=UNLIMITED\nPartitionName=held MaxCPUsPerNode=24 State=UP MaxMemPerNode=65536\n" +
			"PartitionName=wide MaxCPUsPerNode=64 State=UP MaxMemPerNode=262144\n",
	})
	offers, err := e.Offers(t.Context())
	if err != nil || len(offers) != 3 {
		t.Fatalf("%+v, %v", offers, err)
	}
	for i, want := range []engine.Offer{{CPUs: 32, Memory: 128}, {CPUs: 24, Memory: 64}, {CPUs: 32, Memory: 128}} {
		if o := offers[i]; o.CPUs != want.CPUs || o.Memory != want.Memory {
			t.Errorf("%s: %d CPUs, %v GiB, want %d, %v", o.Partition, o.CPUs, o.Memory, want.CPUs, want.Memory)
		}
	}
}

// TestWholeNodes checks that partitions are recognized that allocate whole nodes, of which a job has all the memory.
func TestWholeNodes(t *testing.T) {
	for property, want := range map[string]bool{"OverSubscribe=EXCLUSIVE": true, "Shared=EXCLUSIVE": true, "OverSubscribe=NO": false, "OverSubscribe=FORCE:4": false, "Shared=YES:4": false, "": false} {
		_, e := newFake(map[string]string{
			"sinfo":    "PARTITION|STATE|NODES|CPUS|MEMORY|AVAIL_FEATURES|NODELIST|GRES\ngpu|idle|1|64|524288|(null)|n1|gpu:a100:4\n",
			"scontrol": "PartitionName=gpu State=UP " + property + "\n",
		})
		offers, err := e.Offers(t.Context())
		if err != nil || len(offers) != 1 || offers[0].Whole != want {
			t.Errorf("%q: %+v, %v, want %v", property, offers, err, want)
			continue
		}
		memory := resources.GiB(128)
		if want {
			memory = 512
		}
		if p := offers[0].Place(resources.Allocation{GPUs: 1, CPUs: 16}); p.GPUs != 1 || p.CPUs != 16 || p.Memory != memory {
			t.Errorf("%q: a GPU asks for %v, want %v GiB", property, p, memory)
		}
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

func TestKnown(t *testing.T) {
	for cell, want := range map[string]string{" a ": "a", "(null)": "", "N/A": "", "Unknown": "", "16?": "", "None assigned": "", "0": "0", "UNLIMITED": "UNLIMITED"} {
		if got := known(cell); got != want {
			t.Errorf("known(%q) = %q, want %q", cell, got, want)
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

func TestSignal(t *testing.T) {
	f, e := newFake(map[string]string{"squeue": readFile(t, "22.05", "squeue.txt")})
	if err := e.Signal(t.Context(), "12", syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if want := "scancel --batch --signal=10 12"; len(f.called) != 2 || f.lines()[1] != want {
		t.Errorf("called %q, want %q", f.lines(), want)
	}
	for _, id := range []string{"13", "14", "99"} { // pending, ended, absent
		if err := e.Signal(t.Context(), id, syscall.SIGUSR1); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("job %s: %v", id, err)
		}
	}
	if n := len(f.called); n != 5 {
		t.Errorf("called %q", f.lines())
	}
	f.answers["scancel"] = Result{Code: 1, Stderr: "scancel: error: Kill job error on job id 12: Invalid job id specified\n"}
	if err := e.Signal(t.Context(), "12", syscall.SIGUSR1); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("ended between the two commands: %v", err)
	}
}

func TestCancel(t *testing.T) {
	f, e := newFake(nil)
	if err := e.Cancel(t.Context(), "12"); err != nil || !slices.Equal(f.lines(), []string{"scancel 12"}) {
		t.Errorf("%v, called %q", err, f.lines())
	}
	f.answers["scancel"] = Result{Code: 1, Stderr: "scancel: error: Kill job error on job id 12: Invalid job id specified\n"}
	if err := e.Cancel(t.Context(), "12"); err != nil {
		t.Errorf("a job that the controller has removed: %v", err)
	}
	f.answers["scancel"] = Result{Code: 1, Stderr: "scancel: error: Kill job error on job id 12: Access/permission denied\n"}
	if err := e.Cancel(t.Context(), "12"); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("a job of another user: %v", err)
	}
}

// TestIDsAreNumbers checks that nothing else reaches a command line.
func TestIDsAreNumbers(t *testing.T) {
	f, e := newFake(nil)
	for _, id := range []string{"", "x", "-1", "12_3", "--user=root", "0", "1 2"} {
		_, account := e.Account(t.Context(), "1", id)
		if e.Signal(t.Context(), id, syscall.SIGUSR1) == nil || e.Cancel(t.Context(), id) == nil || account == nil {
			t.Errorf("id %q was accepted", id)
		}
	}
	if len(f.called) > 0 {
		t.Errorf("called %q", f.lines())
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

// TestSubmitLimits: a job that exceeds a limit of the number of jobs is accepted later; one that is too large is not.
func TestSubmitLimits(t *testing.T) {
	const last = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n"
	for text, want := range map[string]bool{
		"sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + last: true, "sbatch: error: AssocMaxSubmitJobLimit\n" + last: true, "sbatch: error: AssocGrpSubmitJobsLimit\n" + last: true, last: true,
		"sbatch: error: QOSMaxNodePerJobLimit\n" + last: false, "sbatch: error: AssocMaxWallDurationPerJobLimit\n" + last: false,
		"sbatch: error: Batch job submission failed: Invalid partition name specified\n": false,
	} {
		e := &Engine{Run: func(context.Context, Command) (Result, error) { return Result{Code: 1, Stderr: text}, nil }}
		_, err := e.Submit(t.Context(), request())
		var later interface{ TryLater() bool }
		if !errors.Is(err, engine.ErrRefused) || !errors.As(err, &later) || later.TryLater() != want {
			t.Errorf("%q: %v, want a refusal, for now %v", text, err, want)
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
