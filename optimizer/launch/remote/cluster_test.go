package remote

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// cluster is an engine whose jobs are processes of this machine.
type cluster struct {
	t    *testing.T
	mu   sync.Mutex
	jobs map[string]*batch
	next int
	hold bool // jobs stay pending until run is called
	dead bool // the controller does not answer
	// unaccounted makes the engine keep no accounts, and fate is the state of a job whose process fails, FAILED if empty.
	unaccounted bool
	fate        string
	// mute loses the answers to submissions, which are accepted.
	mute bool
	// deaf is the time between SIGTERM and SIGKILL of a cancelled job.
	deaf time.Duration
	// clock is by how much the clock of the engine is ahead of that of this machine.
	clock time.Duration
}

// now returns the time of the engine's clock.
func (c *cluster) now() time.Time { return time.Now().Add(c.clock) }

type batch struct {
	id, key string
	request engine.Request
	cmd     *exec.Cmd
	state   engine.State
	raw     string
	who     string
	submit  time.Time
	start   time.Time
	end     time.Time
	over    chan struct{}
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, jobs: map[string]*batch{}, deaf: 20 * time.Second}
	return c
}

// clear kills what is left of a test.
func (c *cluster) clear() {
	c.mu.Lock()
	var left []*batch
	for _, b := range c.jobs {
		if b.cmd != nil {
			left = append(left, b)
		}
	}
	c.mu.Unlock()
	for _, b := range left {
		syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
		<-b.over
	}
}

func (c *cluster) Name() string { return "cluster" }

func (c *cluster) Offers(context.Context) ([]engine.Offer, error) { return nil, nil }

func (c *cluster) Submit(_ context.Context, r engine.Request) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return "", engine.ErrUnreachable
	}
	for _, b := range c.jobs {
		if b.key == r.Key && b.state != engine.Ended {
			return b.id, nil
		}
	}
	if r.Place.Partition == "closed" {
		return "", fmt.Errorf("%w: invalid partition", engine.ErrRefused)
	}
	c.next++
	b := &batch{id: strconv.Itoa(c.next), key: r.Key, request: r, state: engine.Pending, raw: "PENDING", submit: c.now(), over: make(chan struct{})}
	c.jobs[b.id] = b
	if !c.hold {
		c.start(b)
	}
	if c.mute {
		return "", engine.ErrUnreachable
	}
	return b.id, nil
}

// run starts the pending jobs.
func (c *cluster) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = false
	for _, b := range c.jobs {
		if b.state == engine.Pending {
			c.start(b)
		}
	}
}

func (c *cluster) start(b *batch) {
	cmd := exec.Command(b.request.Argv[0], b.request.Argv[1:]...)
	if n := b.request.Place.Nodes; n > 1 {
		each := fmt.Sprintf(`for k in $(seq %d); do SLURM_PROCID=$k SLURMD_NODENAME=node$k "$@" & done; SLURM_PROCID=0 SLURMD_NODENAME=node0 "$@"; code=$?; wait; exit $code`, n-1)
		cmd = exec.Command("/bin/sh", append([]string{"-c", each, "srun"}, b.request.Argv...)...)
	}
	cmd.Env, cmd.Dir = b.request.Env, b.request.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.OpenFile(b.request.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	b.cmd, b.state, b.raw, b.start = cmd, engine.Running, "RUNNING", c.now()
	go func() {
		err := cmd.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if b.state != engine.Ended {
			b.state, b.raw, b.end = engine.Ended, "COMPLETED", c.now()
			if err != nil {
				b.raw = cmp.Or(c.fate, "FAILED")
			}
		}
		close(b.over)
	}()
}

func (c *cluster) job(id string) *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[id]
}

func (c *cluster) List(_ context.Context, keys ...string) ([]engine.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, engine.ErrUnreachable
	}
	var out []engine.Status
	for _, b := range c.jobs {
		if slices.Contains(keys, b.key) {
			out = append(out, engine.Status{ID: b.id, Key: b.key, State: b.state, Raw: b.raw, Submitted: b.submit, Started: b.start})
		}
	}
	return out, nil
}

func (c *cluster) Signal(_ context.Context, id string, sig syscall.Signal) error {
	if b := c.job(id); b != nil && b.cmd != nil {
		return b.cmd.Process.Signal(sig)
	}
	return engine.ErrRefused
}

func (c *cluster) Cancel(_ context.Context, id string) error {
	return c.finish(id, "CANCELLED", "1000")
}

// finish ends a job as the engine does: SIGTERM, and SIGKILL after a while.
func (c *cluster) finish(id, raw, who string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return engine.ErrUnreachable
	}
	b := c.jobs[id]
	if b == nil || b.state == engine.Ended {
		return nil
	}
	pending := b.state == engine.Pending
	b.state, b.raw, b.who = engine.Ended, raw, who
	if pending {
		b.end = c.now()
		return nil
	}
	b.cmd.Process.Signal(syscall.SIGTERM)
	go func() {
		select {
		case <-b.over:
		case <-time.After(c.deaf):
			syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
			<-b.over
		}
		c.mu.Lock()
		b.end = c.now()
		c.mu.Unlock()
	}()
	return nil
}

func (c *cluster) Account(_ context.Context, ids ...string) ([]engine.Life, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.unaccounted {
		return nil, engine.ErrUnreachable
	}
	var out []engine.Life
	for _, id := range ids {
		if b := c.jobs[id]; b != nil {
			l := engine.Life{ID: id, Key: b.key, State: b.raw, Final: b.state == engine.Ended && !b.end.IsZero(), Cancelled: b.who, Submitted: b.submit, Started: b.start, Ended: b.end}
			if !b.start.IsZero() && l.Final {
				l.Elapsed = b.end.Sub(b.start)
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// site returns a launcher on a cluster with intervals for tests.
func site(t *testing.T, c *cluster) *Launcher {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Launcher{Engine: c, Self: []string{self, asNode}, Inherited: os.Environ(), Notice: 10 * time.Second,
		Place: func(a resources.Allocation) engine.Place { return engine.Place{CPUs: a.CPUs} },
		times: times{poll: 20 * time.Millisecond, beat: 50 * time.Millisecond, ask: 100 * time.Millisecond, stale: 3 * time.Second, final: 20 * time.Second}}
}

// shell returns the command of a job written in sh.
func shell(t *testing.T, text string) launch.Command {
	dir := t.TempDir()
	return launch.Command{Args: []string{"/bin/sh", "-c", text}, Dir: dir, RunDir: filepath.Join(dir, "run"), Env: os.Environ(), Grace: testPatience,
		Allocation: resources.Allocation{CPUs: 1}, Limits: resources.Limits{CPUs: resources.Range{Min: 1, Max: 1}}}
}

func start(t *testing.T, l *Launcher, c launch.Command) *job {
	t.Helper()
	if err := os.MkdirAll(c.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := l.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		j.Stop(context.Background(), 0)
		j.Close()
		l.Engine.(*cluster).clear()
	})
	return j.(*job)
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testPatience):
		t.Fatalf("%s: not within %v", what, testPatience)
	}
}

func awaitFile(t *testing.T, path string) string {
	t.Helper()
	for until := time.Now().Add(testPatience); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			return string(data)
		}
	}
	t.Fatalf("%s: not written within %v", path, testPatience)
	return ""
}
