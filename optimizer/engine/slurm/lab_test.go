package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/internal/lab"
	"trainopt/optimizer/engine"
)

// labTest is a test against the lab with a job of its own.
type labTest struct {
	*testing.T
	*Engine
	folder string
	key    string
}

func newLab(t *testing.T) *labTest {
	for _, entry := range lab.Require(t).Env {
		if name, value, _ := strings.Cut(entry, "="); os.Getenv(name) != value {
			t.Setenv(name, value)
		}
	}
	l := &labTest{T: t, Engine: &Engine{Folder: t.TempDir()}, folder: t.TempDir()}
	l.key = fmt.Sprintf("optimize.%s-%d.1", strings.ToLower(t.Name()), time.Now().UnixNano())
	t.Cleanup(func() {
		_ = exec.Command("scancel", "--name="+l.key).Run()
	})
	return l
}

// job returns a request that runs shell commands in the folder of the test.
func (l *labTest) job(commands string) engine.Request {
	return engine.Request{Key: l.key, Argv: []string{"/bin/sh", "-c", commands}, Dir: l.folder, Output: filepath.Join(l.folder, "out"),
		Place: engine.Place{CPUs: 1, Memory: 0.1}}
}

func (l *labTest) submit(r engine.Request) string {
	l.Helper()
	id, err := l.Submit(context.Background(), r)
	if err != nil {
		l.Fatal(err)
	}
	return id
}

// waitFor polls until a condition holds. The limit only bounds a test that fails.
func (l *labTest) waitFor(what string, holds func() bool) {
	l.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			out, _ := exec.Command("squeue", "--all", "--states=all", "--name="+l.key).Output()
			text, _ := os.ReadFile(filepath.Join(l.folder, "out"))
			l.Fatalf("%s: not within 3 min\n%s\noutput of the job: %s", what, out, text)
		}
	}
}

// status lists the job without the shared answer.
func (l *labTest) status() engine.Status {
	l.Helper()
	fresh := &Engine{Folder: l.TempDir()}
	jobs, err := fresh.List(context.Background(), l.key)
	if err != nil {
		l.Fatal(err)
	}
	if len(jobs) == 0 {
		return engine.Status{}
	}
	return jobs[len(jobs)-1]
}

func (l *labTest) waitForState(want engine.State) (s engine.Status) {
	l.Helper()
	l.waitFor("state "+string(want), func() bool { s = l.status(); return s.State == want })
	return s
}

// waitForFile waits for a file that the job writes.
func (l *labTest) waitForFile(name string) string {
	l.Helper()
	var data []byte
	l.waitFor("file "+name, func() bool {
		var err error
		data, err = os.ReadFile(filepath.Join(l.folder, name))
		return err == nil && bytes.HasSuffix(data, []byte("\n"))
	})
	return string(data)
}

// waitForLives waits until the accounting contains n lives, all of them over.
func (l *labTest) waitForLives(id string, n int) (lives []engine.Life) {
	l.Helper()
	l.waitFor(fmt.Sprint("accounting of lives: ", n), func() bool {
		var err error
		if lives, err = l.Account(context.Background(), id); err != nil {
			l.Fatal(err)
		}
		return len(lives) == n && !slices.ContainsFunc(lives, func(life engine.Life) bool { return !life.Final })
	})
	return lives
}

func TestLabOffers(t *testing.T) {
	l := newLab(t)
	offers, err := l.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]int{}
	for _, o := range offers {
		if o.Default {
			nodes[o.GPUType] += o.Nodes
		}
		if o.CPUs < 1 || o.Memory <= 0 || o.Nodes < 1 || o.Idle > o.Nodes {
			t.Errorf("impossible offer %+v", o)
		}
	}
	if nodes["a100"] != 1 || nodes["v100"] != 1 || nodes["k80"] != 2 {
		t.Errorf("nodes of the default partition by type of GPU: %v", nodes)
	}
}

// TestLabLife follows a job from its submission to its accounting, with a signal in between.
func TestLabLife(t *testing.T) {
	l := newLab(t)
	r := l.job(`trap 'echo "$VALUE $SLURM_JOB_NAME $CUDA_VISIBLE_DEVICES" > signalled; exit 75' USR1; echo it\'s > started; while :; do sleep 0.1; done`)
	r.Comment, r.Env = `a "comment" with 'quotes'`, append(os.Environ(), "VALUE=a  b", "SBATCH_WAIT=1", "SLURM_JOB_ID=1", "SLURM_MEM_PER_CPU=1")
	r.Place = engine.Place{GPUType: "a100", GPUs: 2, CPUs: 1, Memory: 0.1}
	id := l.submit(r)
	if again := l.submit(r); again != id {
		t.Errorf("the same key was submitted twice: %s, %s", id, again)
	}
	l.waitForFile("started")
	s := l.waitForState(engine.Running)
	if s.ID != id || s.Raw != "RUNNING" || len(s.Nodes) != 1 || s.Started.IsZero() || s.Submitted.IsZero() || s.Restarts != 0 {
		t.Errorf("running: %+v", s)
	}
	if apart := time.Since(s.Started); apart < -time.Minute || apart > time.Hour {
		t.Errorf("started %s: a time of another zone", s.Started)
	}
	if jobs, err := l.List(t.Context(), l.key, "absent"); err != nil || len(jobs) != 1 || jobs[0].Key != l.key {
		t.Errorf("List: %+v, %v", jobs, err)
	}
	if out, err := exec.Command("scontrol", "show", "job", id).Output(); err != nil || !strings.Contains(string(out), r.Comment) {
		t.Errorf("the comment is not stored: %s, %v", out, err)
	}
	if err := l.Signal(t.Context(), id, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got, want := l.waitForFile("signalled"), "a  b "+l.key+" 0,1\n"; got != want {
		t.Errorf("the job saw %q, want %q", got, want)
	}
	l.waitForState(engine.Ended)
	if err := l.Signal(t.Context(), id, syscall.SIGUSR1); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("signal to an ended job: %v", err)
	}
	if err := l.Cancel(t.Context(), id); err != nil {
		t.Errorf("cancel of an ended job: %v", err)
	}
	life := l.waitForLives(id, 1)[0]
	if life.Code != 75 || life.State != "FAILED" || life.Signal != 0 || life.GPUs != 2 || life.GPUType != "a100" || life.CPUs < 1 || len(life.Nodes) != 1 {
		t.Errorf("accounting: %+v", life)
	}
	if again := l.submit(r); again == id {
		t.Error("an ended job was returned for a new submission")
	}
}

func TestLabCancel(t *testing.T) {
	l := newLab(t)
	r := l.job("echo x > started; exec sleep 1000")
	r.Extra = []string{"--hold"}
	id := l.submit(r)
	if s := l.status(); s.State != engine.Pending || s.ID != id || !s.Started.IsZero() || s.Reason == "" {
		t.Errorf("held: %+v", s)
	}
	if again := l.submit(r); again != id {
		t.Errorf("a pending job was submitted again: %s, %s", id, again)
	}
	if err := l.Signal(t.Context(), id, syscall.SIGUSR1); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("signal to a pending job: %v", err)
	}
	if err := l.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if s := l.waitForState(engine.Ended); s.Raw != "CANCELLED" || !s.Started.IsZero() {
		t.Errorf("cancelled while pending: %+v", s)
	}
	life := l.waitForLives(id, 1)[0]
	if life.State != "CANCELLED" || life.Cancelled != user() || !life.Started.IsZero() || life.Elapsed != 0 {
		t.Errorf("accounting: %+v", life)
	}

	r.Extra = nil
	id = l.submit(r)
	l.waitForFile("started")
	if err := l.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.waitForState(engine.Ended)
	if life := l.waitForLives(id, 1)[0]; life.State != "CANCELLED" || life.Cancelled != user() || life.Started.IsZero() {
		t.Errorf("accounting: %+v", life)
	}
}

// TestLabRequeue checks that both lives of a requeued job are accounted.
func TestLabRequeue(t *testing.T) {
	l := newLab(t)
	r := l.job("echo $SLURM_RESTART_COUNT >> starts; exec sleep 1000")
	r.Extra = []string{"--requeue"}
	id := l.submit(r)
	l.waitForFile("starts")
	scontrol := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("scontrol", args...).CombinedOutput(); err != nil {
			t.Fatalf("scontrol %q: %s", args, out)
		}
	}
	scontrol("requeue", id)
	l.waitForState(engine.Pending)
	time.Sleep(3 * time.Second) // a node refuses a job that starts in the second in which its earlier life ended
	scontrol("update", "JobId="+id, "StartTime=now")
	l.waitFor("second start", func() bool { return strings.Contains(l.waitForFile("starts"), "1\n") })
	if s := l.waitForState(engine.Running); s.Restarts != 1 || s.ID != id {
		t.Errorf("after the requeue: %+v", s)
	}
	if err := l.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	lives := l.waitForLives(id, 2)
	if lives[0].State != "REQUEUED" && lives[0].State != "CANCELLED" || lives[1].State != "CANCELLED" || !lives[0].Ended.Before(lives[1].Ended) {
		t.Errorf("lives: %+v", lives)
	}
}

// TestLabWarning checks that the supervisor receives SIGUSR1 before the time limit.
func TestLabWarning(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	l := newLab(t)
	r := l.job("trap 'echo warned > warned; exit 0' USR1; while :; do sleep 0.1; done")
	r.TimeLimit, r.Warn = 61*time.Second, 30*time.Second
	id := l.submit(r)
	l.waitForFile("warned")
	life := l.waitForLives(id, 1)[0]
	if life.State != "COMPLETED" || life.Elapsed > 2*time.Minute {
		t.Errorf("accounting: %+v", life)
	}
}

func TestLabRefused(t *testing.T) {
	l := newLab(t)
	for name, change := range map[string]func(r *engine.Request){
		"invalid partition":           func(r *engine.Request) { r.Place.Partition = "no-such-partition" },
		"not available":               func(r *engine.Request) { r.Place.GPUType, r.Place.GPUs = "h100", 1 },
		"unrecognized option":         func(r *engine.Request) { r.Extra = []string{"--no-such-option"} },
		"Invalid node name specified": func(r *engine.Request) { r.Place.Avoid = []string{"no-such-node"} },
	} {
		r := l.job("true")
		change(&r)
		id, err := l.Submit(t.Context(), r)
		if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: job %q, %v", name, id, err)
		}
	}
}

// TestLabUnreachable gives the commands a configuration in which no controller and no database listen, and one in which
// they accept connections without an answer.
func TestLabUnreachable(t *testing.T) {
	l := newLab(t)
	conf, err := os.ReadFile(os.Getenv("SLURM_CONF"))
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, silentPort, _ := net.SplitHostPort(silent.Addr().String())
	ports := regexp.MustCompile(`(?m)^(SlurmctldPort|AccountingStoragePort)=.*$`)
	for name, c := range map[string]struct {
		port  string
		limit time.Duration // of the caller, so that the test is short
	}{"dead": {"1", time.Minute}, "silent": {silentPort, time.Second}} {
		file := filepath.Join(t.TempDir(), "slurm.conf")
		if err := os.WriteFile(file, ports.ReplaceAll(conf, []byte("${1}="+c.port)), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("SLURM_CONF", file)
		var calls sync.WaitGroup
		call := func(method string, f func(ctx context.Context) error) {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				err := f(ctx)
				if t.Logf("%s, %s: %v", name, method, err); !errors.Is(err, engine.ErrUnreachable) {
					t.Errorf("%s, %s: %v", name, method, err)
				}
			})
		}
		call("Offers", func(ctx context.Context) error { _, err := l.Offers(ctx); return err })
		call("Submit", func(ctx context.Context) error { _, err := l.Submit(ctx, l.job("true")); return err })
		call("List", func(ctx context.Context) error { _, err := l.List(ctx, "k"); return err })
		call("Signal", func(ctx context.Context) error { return l.Signal(ctx, "1", syscall.SIGUSR1) })
		call("Cancel", func(ctx context.Context) error { return l.Cancel(ctx, "1") })
		call("Account", func(ctx context.Context) error { _, err := l.Account(ctx, "1"); return err })
		call("sbatch", func(ctx context.Context) error {
			argv, err := submission(l.job("true"))
			if err == nil {
				_, err = l.execute(ctx, Command{Argv: argv, Env: os.Environ(), Stdin: script(l.job("true"))})
			}
			return err
		})
		calls.Wait()
	}
}
