package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

const (
	asKeeper = "__keeper"
	asNode   = "__node"
	// nodeClock is the environment variable by how much the clock of a node is ahead of the others.
	nodeClock = "TEST_NODE_CLOCK"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asKeeper:
			os.Exit(launch.KeeperMain(os.Args[2:]))
		case asApart:
			os.Exit(enterApart(os.Args[2:]))
		case asNode:
			if ahead, err := time.ParseDuration(os.Getenv(nodeClock)); err == nil {
				wallClock = func() time.Time { return time.Now().Add(ahead) }
			}
			os.Exit(Node(os.Args[2:], []string{os.Args[0], asKeeper}))
		}
	}
	os.Exit(m.Run())
}

// testPatience bounds the wait for an event that must come; only a failing test uses it up.
const testPatience = 90 * time.Second

// cluster is an engine whose jobs are processes of this machine.
type cluster struct {
	t    *testing.T
	mu   sync.Mutex
	jobs map[string]*batch
	next int
	hold bool // jobs stay pending until run is called
	dead bool // the controller does not answer
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
				b.raw = "FAILED"
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
	if c.dead {
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

func TestExitOfTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		reason launch.ExitReason
		code   int
		signal string
	}{
		"success":      {"echo hello", launch.Exited, 0, ""},
		"its own code": {"echo hello; exit 7", launch.Exited, 7, ""},
		"a signal":     {"echo hello; kill -SEGV $$", launch.Killed, -1, "SIGSEGV"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := shell(t, c.text)
			j := start(t, site(t, newCluster(t)), command)
			await(t, "the end", j.Done())
			e := j.Exit()
			if e.Reason != c.reason || e.Code != c.code || e.Signal != c.signal {
				t.Errorf("exit %+v, want %s, %d, %q", e, c.reason, c.code, c.signal)
			}
			if e.Held < e.Ran || e.Ran <= 0 {
				t.Errorf("held %v, ran %v: the place is held at least while the job runs", e.Held, e.Ran)
			}
			if out := awaitFile(t, filepath.Join(launch.StretchDir(command.RunDir, 1), "job.stdout")); out != "hello\n" {
				t.Errorf("output %q", out)
			}
			list, err := Stretches(command.RunDir)
			if err != nil || len(list) != 1 || !list[0].Confirmed || list[0].ID == "" || list[0].Started.IsZero() || list[0].Ended.IsZero() {
				t.Errorf("stretches %+v (%v)", list, err)
			}
		})
	}
}

// TestProgramThatIsMissing: the failure to start is that of the program, not of the engine.
// TestClocksApart checks that neither the charge, nor the account, nor what is shown of a stretch depends on how the clocks of
// the node and of the engine are set.
func TestClocksApart(t *testing.T) {
	for _, c := range []struct{ node, engine time.Duration }{{2 * time.Minute, 0}, {-2 * time.Minute, 0}, {0, 2 * time.Minute}, {0, -2 * time.Minute}, {time.Hour, -time.Hour}} {
		t.Run(fmt.Sprintf("node %v engine %v", c.node, c.engine), func(t *testing.T) {
			t.Parallel()
			eng := newCluster(t)
			eng.clock, eng.hold = c.engine, true
			l := site(t, eng)
			l.Inherited = append(l.Inherited, nodeClock+"="+c.node.String())
			command := shell(t, "while [ ! -e go ]; do sleep 0.05; done")
			j := start(t, l, command)
			for j.Waiting() != "cluster job 1 waits" {
				time.Sleep(20 * time.Millisecond)
			}
			before := time.Now()
			eng.run()
			await(t, "the start", j.Started())
			after := time.Now()
			if since := j.HeldSince(); since.Before(before.Add(-time.Minute)) || since.After(after.Add(time.Minute)) && c.engine <= 0 {
				t.Errorf("held since %v, the job started between %v and %v", since, before, after)
			}
			for until := time.Now().Add(testPatience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
				if s := j.Sample(); time.Since(s.At).Abs() < time.Minute && s.Tree.MemoryGiB > 0 {
					break
				}
			}
			if s := j.Sample(); time.Since(s.At).Abs() > time.Minute {
				t.Errorf("sample of %v, it is %v", s.At, time.Now())
			}
			if err := os.WriteFile(filepath.Join(command.Dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			await(t, "the end", j.Done())
			e, ran := j.Exit(), time.Since(before)
			if e.Held < e.Ran || e.Held > ran+time.Second {
				t.Errorf("held %v, ran %v, at most %v", e.Held, e.Ran, ran)
			}
			list, err := Stretches(command.RunDir)
			if err != nil || len(list) != 1 || !list[0].Confirmed {
				t.Errorf("stretches %+v, %v; want one that the account confirms", list, err)
			}
		})
	}
}

func TestProgramThatIsMissing(t *testing.T) {
	t.Parallel()
	c := shell(t, "")
	c.Args = []string{"/no/such/program"}
	j := start(t, site(t, newCluster(t)), c)
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.StartFailed || !strings.Contains(e.Detail, "/no/such/program") {
		t.Errorf("exit %+v", e)
	}
}

func TestRefusedRequest(t *testing.T) {
	t.Parallel()
	l := site(t, newCluster(t))
	l.Place = func(resources.Allocation) engine.Place { return engine.Place{Partition: "closed"} }
	c := shell(t, "true")
	os.MkdirAll(c.RunDir, 0o700)
	_, err := l.Start(context.Background(), c)
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "invalid partition") {
		t.Errorf("error %v", err)
	}
	if _, err := l.Find(c.RunDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused stretch is found: %v", err)
	}
}

// TestWaitingForAPlace: the job is started when the engine has a place, and withdrawn without having run.
func TestWaitingForAPlace(t *testing.T) {
	t.Run("then runs", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.hold = true
		j := start(t, site(t, c), shell(t, "true"))
		for until := time.Now().Add(testPatience); !strings.Contains(j.Waiting(), "waits"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("it says %q", j.Waiting())
			}
		}
		if j.hasStarted() || !j.HeldSince().IsZero() {
			t.Error("it started without a place")
		}
		c.run()
		await(t, "the start", j.Started())
		await(t, "the end", j.Done())
		if e := j.Exit(); e.Reason != launch.Exited || e.Code != 0 {
			t.Errorf("exit %+v", e)
		}
	})
	t.Run("is withdrawn", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.hold = true
		command := shell(t, "echo ran > ran")
		j := start(t, site(t, c), command)
		if _, err := j.Stop(context.Background(), time.Second); err != nil {
			t.Fatal(err)
		}
		if e := j.Exit(); e.Held != 0 || e.Ran != 0 {
			t.Errorf("exit %+v of a job that never ran", e)
		}
		if _, err := os.Stat(filepath.Join(command.Dir, "ran")); err == nil || j.hasStarted() {
			t.Error("it ran")
		}
	})
}

// saver saves on SIGUSR1 and leaves with 75.
const saver = `trap 'echo saved > saved; exit 75' USR1; echo ready > ready; while :; do sleep 0.05; done`

func TestCheckpointAndStop(t *testing.T) {
	t.Run("saves on request", func(t *testing.T) {
		t.Parallel()
		c := shell(t, saver)
		j := start(t, site(t, newCluster(t)), c)
		awaitFile(t, filepath.Join(c.Dir, "ready"))
		await(t, "the start", j.Started())
		if err := j.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		await(t, "the end", j.Done())
		if e := j.Exit(); e.Code != 75 {
			t.Errorf("exit %+v", e)
		}
		awaitFile(t, filepath.Join(c.Dir, "saved"))
	})
	t.Run("ignores SIGTERM", func(t *testing.T) {
		t.Parallel()
		c := shell(t, `trap '' TERM; echo ready > ready; while :; do sleep 0.05; done`)
		j := start(t, site(t, newCluster(t)), c)
		awaitFile(t, filepath.Join(c.Dir, "ready"))
		await(t, "the start", j.Started())
		e, err := j.Stop(context.Background(), time.Second)
		if err != nil || e.Reason != launch.Stopped || e.Signal != "SIGKILL" {
			t.Errorf("exit %+v (%v)", e, err)
		}
	})
}

// TestEndedByTheEngine: a job that the engine ends is asked to save within its notice; why it ended is the engine's word.
func TestEndedByTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		raw, who string
		want     launch.ExitReason
	}{
		"preempted":  {"PREEMPTED", "", launch.Preempted},
		"time limit": {"TIMEOUT", "", launch.Preempted},
		"cancelled":  {"CANCELLED", "1000", launch.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, e := shell(t, saver), newCluster(t)
			j := start(t, site(t, e), command)
			awaitFile(t, filepath.Join(command.Dir, "ready"))
			await(t, "the start", j.Started())
			e.finish("1", c.raw, c.who)
			await(t, "the end", j.Done())
			if exit := j.Exit(); exit.Reason != c.want || exit.Code != 75 {
				t.Errorf("exit %+v, want %s and 75", exit, c.want)
			}
			awaitFile(t, filepath.Join(command.Dir, "saved"))
		})
	}
}

// TestLostNode: node and job are killed without a record; the time is counted up to the last sign of life.
func TestLostNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, "echo $$ > pid; exec sleep 1000")
	j := start(t, site(t, c), command)
	await(t, "the start", j.Started())
	pid, _ := strconv.Atoi(strings.TrimSpace(awaitFile(t, filepath.Join(command.Dir, "pid"))))
	h := j.node.Handle
	b := c.job("1")
	c.mu.Lock()
	b.raw = "NODE_FAIL"
	c.mu.Unlock()
	for _, p := range []int{b.cmd.Process.Pid, h.StandbyPID, h.KeeperPID, pid} {
		syscall.Kill(p, syscall.SIGKILL)
	}
	<-b.over
	c.mu.Lock()
	b.raw = "NODE_FAIL"
	c.mu.Unlock()
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Preempted || !strings.Contains(e.Detail, "NODE_FAIL") {
		t.Errorf("exit %+v", e)
	}
}

// TestFence: the engine has lost a node and starts the next stretch elsewhere while the old job still lives. The old one
// ends before the new one begins: at no time two of them write.
func TestFence(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `echo $$ >> writers; echo begin $$ $(date +%s.%N) >> times; while :; do echo alive $$ $(date +%s.%N) >> times; sleep 0.05; done`)
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the first start", first.Started())
	awaitFile(t, filepath.Join(command.Dir, "times"))
	second := start(t, l, command)
	await(t, "the end of the first", first.Done())
	await(t, "the second start", second.Started())
	if e := first.Exit(); e.Reason != launch.Lost || !strings.Contains(e.Detail, "another stretch") {
		t.Errorf("exit of the first %+v", e)
	}
	for until := time.Now().Add(testPatience); ; time.Sleep(20 * time.Millisecond) { // the second writes too
		if writers := strings.Fields(awaitFile(t, filepath.Join(command.Dir, "writers"))); len(writers) == 2 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the second job never wrote")
		}
	}
	time.Sleep(200 * time.Millisecond)
	second.Stop(context.Background(), 0)
	owner := ""
	changes := 0
	for line := range strings.Lines(awaitFile(t, filepath.Join(command.Dir, "times"))) {
		if pid := strings.Fields(line)[1]; pid != owner {
			owner = pid
			changes++
		}
	}
	if changes != 2 {
		t.Errorf("the writer changed %d times, want 2: each job writes in one piece", changes)
	}
}

// TestKeeperWithoutSupervisor: the supervisor of a stretch is killed, and its training takes longer to save than a node
// waits for a silent predecessor. The next one begins after it.
func TestKeeperWithoutSupervisor(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `echo begin $$ >> journal; touch began; trap 'for i in 1 2 3 4 5 6; do sleep 1; done; echo end $$ >> journal; exit 75' USR1; while :; do sleep 0.1; done`)
	command.Grace = 20 * time.Second
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the start", first.Started())
	awaitFile(t, filepath.Join(command.Dir, "journal"))
	c.job("1").cmd.Process.Kill()
	second := start(t, l, command)
	await(t, "the second start", second.Started())
	second.Stop(context.Background(), 0)
	lines := strings.Split(strings.TrimSpace(awaitFile(t, filepath.Join(command.Dir, "journal"))), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[1], "end") {
		t.Errorf("journal %q: the second began before the first had saved", lines)
	}
}

// TestSilentEngine: an engine that does not answer stops no training, and its end is known without it.
func TestSilentEngine(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `while [ ! -e go ]; do sleep 0.05; done; exit 3`)
	l := site(t, c)
	l.times.final = 300 * time.Millisecond
	j := start(t, l, command)
	await(t, "the start", j.Started())
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	if j.hasEnded() {
		t.Fatalf("ended: %+v", j.Exit())
	}
	os.WriteFile(filepath.Join(command.Dir, "go"), []byte("1"), 0o600)
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Exited || e.Code != 3 || e.Held <= 0 {
		t.Errorf("exit %+v", e)
	}
	if list, _ := Stretches(command.RunDir); len(list) != 1 || list[0].Confirmed {
		t.Errorf("stretches %+v: confirmed by a silent engine", list)
	}
}

// TestAdopt: another agent follows the job, running or ended, also if the id of the job was never saved.
func TestAdopt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `while [ ! -e go ]; do sleep 0.05; done; exit 4`)
	l := site(t, c)
	j := start(t, l, command)
	await(t, "the start", j.Started())
	j.Close()
	var all stretches
	readJSON(command.RunDir, stretchesFile, &all)
	all.List[0].ID = ""
	writeJSON(command.RunDir, stretchesFile, all)
	h, err := l.Find(command.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Adopt(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the start", again.(launch.Queued).Started())
	if id := again.Handle().EngineID; id != "1" {
		t.Errorf("id %q", id)
	}
	again.Close()
	os.WriteFile(filepath.Join(command.Dir, "go"), []byte("1"), 0o600)
	<-c.job("1").over
	late, err := l.Adopt(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the end", late.Done())
	if e := late.Exit(); e.Code != 4 {
		t.Errorf("exit %+v", e)
	}
}

// TestLimitWithoutAgent: the time limit ends the job when its agent is dead.
func TestLimitWithoutAgent(t *testing.T) {
	for name, set := range map[string]func(*launch.Command){
		"after a time":   func(c *launch.Command) { c.StopAfter = time.Second },
		"by a deadline":  func(c *launch.Command) { c.StopBy = time.Now().Add(time.Second) },
		"moved":          func(c *launch.Command) { c.StopAfter = time.Hour },
		"both, deadline": func(c *launch.Command) { c.StopAfter, c.StopBy = time.Hour, time.Now().Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, command := newCluster(t), shell(t, saver)
			set(&command)
			j := start(t, site(t, c), command)
			if name == "moved" {
				await(t, "the start", j.Started())
				awaitFile(t, filepath.Join(command.Dir, "ready"))
				if err := j.SetStopAfter(time.Second); err != nil {
					t.Fatal(err)
				}
			}
			j.Close()
			await(t, "the end of the batch job", c.job("1").over)
			if name == "moved" { // the limits of the others may be reached before the job can save
				awaitFile(t, filepath.Join(command.Dir, "saved"))
			}
		})
	}
}

// TestEnvironment: the job inherits the environment of the submission; only our own variables are stored.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	c := shell(t, "env > env")
	l := site(t, newCluster(t))
	l.Inherited = append(slices.Clone(l.Inherited), "TOKEN=secret", "GONE=1")
	c.Env = append(slices.Clone(os.Environ()), "TOKEN=secret", "OPTIMIZER_EPOCHS=3")
	j := start(t, l, c)
	await(t, "the end", j.Done())
	env := strings.Split(awaitFile(t, filepath.Join(c.Dir, "env")), "\n")
	for _, want := range []string{"TOKEN=secret", "OPTIMIZER_EPOCHS=3"} {
		if !slices.Contains(env, want) {
			t.Errorf("the job lacks %s", want)
		}
	}
	if slices.Contains(env, "GONE=1") {
		t.Error("the job has a variable that the agent had removed")
	}
	entries, _ := os.ReadDir(c.RunDir)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(c.RunDir, e.Name()))
		if err == nil && strings.Contains(string(data), "secret") {
			t.Errorf("%s contains the secret", e.Name())
		}
		if info, _ := e.Info(); !e.IsDir() && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
}

// TestSamples: the node samples the job's processes, and its clock is comparable.
func TestSamples(t *testing.T) {
	t.Parallel()
	j := start(t, site(t, newCluster(t)), shell(t, "exec sleep 1000"))
	await(t, "the start", j.Started())
	for until := time.Now().Add(testPatience); ; time.Sleep(20 * time.Millisecond) {
		if s := j.Sample(); s.Tree.Procs > 0 && s.Tree.MemoryGiB >= 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("sample %+v", j.Sample())
		}
	}
	if off := j.ClockOffset(); off > time.Minute || off < -time.Minute {
		t.Errorf("clock offset %v on the same machine", off)
	}
	j.Stop(context.Background(), 0)
}

// TestMoveWithoutLosingThePlace: the next place is obtained while the job runs; the job is asked to leave when it is held,
// and the next launch uses it.
func TestMoveWithoutLosingThePlace(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, saver)
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the start", first.Started())
	awaitFile(t, filepath.Join(command.Dir, "ready"))
	c.mu.Lock()
	c.hold = true
	c.mu.Unlock()
	p, err := l.Prepare(context.Background(), command)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ready():
		t.Fatal("ready without a place")
	case <-first.Done():
		t.Fatal("the job left before the next place was held")
	case <-time.After(300 * time.Millisecond):
	}
	if h, err := l.Find(command.RunDir); err != nil || h.Stretch != 1 {
		t.Errorf("found %+v (%v): the prepared stretch is not the job", h, err)
	}
	c.run()
	await(t, "the place", p.Ready())
	if first.hasEnded() {
		t.Fatal("the job left before it was asked")
	}
	first.Checkpoint()
	await(t, "the end of the first", first.Done())
	os.Remove(filepath.Join(command.Dir, "ready"))
	second := start(t, l, command)
	if id := second.Handle().EngineID; id != "2" || c.next != 2 {
		t.Errorf("the second launch is job %q of %d", id, c.next)
	}
	await(t, "the second start", second.Started())
	awaitFile(t, filepath.Join(command.Dir, "ready"))
	second.Stop(context.Background(), time.Second)
}

// TestPreparedPlaceIsWithdrawn: a place that is not used is given back, held or not, also after the death of the agent.
func TestPreparedPlaceIsWithdrawn(t *testing.T) {
	for name, held := range map[string]bool{"held": true, "waiting": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, command := newCluster(t), shell(t, saver)
			l := site(t, c)
			first := start(t, l, command)
			await(t, "the start", first.Started())
			c.mu.Lock()
			c.hold = !held
			c.mu.Unlock()
			p, err := l.Prepare(context.Background(), command)
			if err != nil {
				t.Fatal(err)
			}
			if held {
				await(t, "the place", p.Ready())
			}
			other := site(t, c) // of the next agent
			h, err := other.Find(command.RunDir)
			if err != nil {
				t.Fatal(err)
			}
			j, err := other.Adopt(context.Background(), h)
			if err != nil || j.Handle().Stretch != 1 {
				t.Fatalf("adopted %+v (%v)", j, err)
			}
			defer j.Close()
			for until := time.Now().Add(testPatience); ; time.Sleep(20 * time.Millisecond) {
				c.mu.Lock()
				over := c.jobs["2"].state == engine.Ended
				c.mu.Unlock()
				if over {
					break
				}
				if time.Now().After(until) {
					t.Fatal("the place was not given back")
				}
			}
			if first.hasEnded() {
				t.Error("the job ended with it")
			}
		})
	}
}

// TestFencedBeforeItStarts: a place that is held when another stretch takes over ends without having started anything.
func TestFencedBeforeItStarts(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "echo $$ >> ran; sleep 1000")
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the start", first.Started())
	p, err := l.Prepare(context.Background(), command)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the place", p.Ready())
	if err := writeJSON(command.RunDir, ownerFile, owner{Schema: fileSchema, Stretch: 3}); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the place", p.Done())
	await(t, "the end of the first", first.Done())
	if e := p.(*job).Exit(); e.Reason != launch.Lost || e.Ran != 0 {
		t.Errorf("exit %+v", e)
	}
	if ran := strings.Fields(awaitFile(t, filepath.Join(command.Dir, "ran"))); len(ran) != 1 {
		t.Errorf("%d jobs ran, want 1", len(ran))
	}
}

// TestLostAnswer: a job that the engine accepted although its answer was lost trains nothing that is not known: it is
// found by its key and cancelled.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "sleep 1000")
	c.mute = true
	l := site(t, c)
	if err := os.MkdirAll(command.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.clear)
	if _, err := l.Start(context.Background(), command); !errors.Is(err, engine.ErrUnreachable) {
		t.Fatalf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	l.Settle(ctx)
	await(t, "the end of the batch job", c.job("1").over)
}

// TestRecordOfManyStretches: concurrent changes lose no stretch of the record.
func TestRecordOfManyStretches(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "true")
	c.hold = true
	l := site(t, c)
	if err := os.MkdirAll(command.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.clear)
	var places []launch.Preparation
	for range 8 {
		p, err := l.Prepare(context.Background(), command)
		if err != nil {
			t.Fatal(err)
		}
		p.Withdraw()
		l.takePrepared(command.RunDir, launch.Command{})
		places = append(places, p)
	}
	for _, p := range places {
		await(t, "the end of a place", p.Done())
	}
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	l.Settle(ctx)
	list, err := Stretches(command.RunDir)
	if err != nil || len(list) != 8 {
		t.Fatalf("%d stretches (%v), want 8", len(list), err)
	}
	for i, s := range list {
		if s.N != i+1 || s.ID == "" || s.Ended.IsZero() {
			t.Errorf("stretch %d: %+v", i+1, s)
		}
	}
}

// TestAdoptEnded: an agent that adopts a job that has ended knows it at once, so that the outage is not counted.
func TestAdoptEnded(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "exit 3")
	l := site(t, c)
	j := start(t, l, command)
	await(t, "the end", j.Done())
	again, err := site(t, c).Adopt(context.Background(), j.Handle())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-again.Done():
	default:
		t.Error("an ended job was adopted as a running one")
	}
}

// TestWarnedBeforeTheLimit: a job that cannot save on request is not stopped at the warning, minutes before its limit.
func TestWarnedBeforeTheLimit(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "echo ready > ready; while [ ! -e go ]; do sleep 0.05; done; exit 3")
	command.StopAfter = time.Hour
	j := start(t, site(t, c), command)
	await(t, "the start", j.Started())
	awaitFile(t, filepath.Join(command.Dir, "ready"))
	c.Signal(context.Background(), "1", syscall.SIGUSR1)
	for until := time.Now().Add(testPatience); ; time.Sleep(10 * time.Millisecond) {
		var s nodeState
		if readJSON(launch.StretchDir(command.RunDir, 1), nodeFile, &s) == nil && s.Signal == "SIGUSR1" {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the warning was not noticed")
		}
	}
	time.Sleep(500 * time.Millisecond)
	if j.hasEnded() {
		t.Fatalf("stopped at the warning: %+v", j.Exit())
	}
	os.WriteFile(filepath.Join(command.Dir, "go"), []byte("1"), 0o600)
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Code != 3 || e.Reason != launch.Exited {
		t.Errorf("exit %+v", e)
	}
}

// TestAdoptEarlierVersion checks that a job whose files are those of an earlier version is refused while it may run, and is
// recorded as ended afterwards.
func TestAdoptEarlierVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.hold = true
	command := shell(t, "exec sleep 1000")
	l := site(t, c)
	first := start(t, l, command)
	h := first.Handle()
	first.Close()
	if err := os.RemoveAll(launch.StretchDir(command.RunDir, 1)); err != nil {
		t.Fatal(err)
	}
	l = site(t, c)
	if _, err := l.Adopt(context.Background(), h); err == nil || !strings.Contains(err.Error(), "cancel cluster job 1, then resume") {
		t.Errorf("adopted a job of an earlier version: %v", err)
	}
	if err := c.Cancel(context.Background(), "1"); err != nil {
		t.Fatal(err)
	}
	j, err := l.Adopt(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Cancelled {
		t.Errorf("exit %+v, want cancelled", e)
	}
}
