package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	t.Run("is starting when it is asked", func(t *testing.T) {
		t.Parallel()
		c := shell(t, `echo begun > begun; until [ -e asked ]; do sleep 0.05; done; `+saver)
		j := start(t, site(t, newCluster(t)), c)
		awaitFile(t, filepath.Join(c.Dir, "begun"))
		await(t, "the start", j.Started())
		if err := j.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * nodeTick) // the node has seen the request
		if err := os.WriteFile(filepath.Join(c.Dir, "asked"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		await(t, "the end", j.Done())
		if e := j.Exit(); e.Code != 75 {
			t.Errorf("exit %+v", e)
		}
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

// TestLostNodeWithoutAccounting checks that a job that leaves no record on a site without accounting ends for the reason that the
// engine lists.
func TestLostNodeWithoutAccounting(t *testing.T) {
	for raw, want := range map[string]launch.ExitReason{"NODE_FAIL": launch.Preempted, "PREEMPTED+": launch.Preempted, "TIMEOUT": launch.Preempted,
		"OUT_OF_MEMORY": launch.OOM, "CANCELLED by 1000": launch.Cancelled, "FAILED": launch.Lost} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.unaccounted, c.fate = true, raw
			command, l := shell(t, "echo $$ > pid; exec sleep 1000"), site(t, c)
			l.times.final = 300 * time.Millisecond
			j := start(t, l, command)
			await(t, "the start", j.Started())
			pid, _ := strconv.Atoi(strings.TrimSpace(awaitFile(t, filepath.Join(command.Dir, "pid"))))
			h := j.node.Handle
			for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // none sees the death of another
				for _, p := range []int{h.StandbyPID, h.KeeperPID, pid, c.job("1").cmd.Process.Pid} {
					syscall.Kill(p, sig)
				}
			}
			await(t, "the end", j.Done())
			if e := j.Exit(); e.Reason != want {
				t.Errorf("exit %+v, want %s", e, want)
			}
		})
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

// TestTaskVariables checks that a job on one node, which is not a task of srun, does not see the number of tasks that was
// requested, and that those on two nodes do.
func TestTaskVariables(t *testing.T) {
	t.Parallel()
	tasks := []string{"SLURM_NPROCS=1", "SLURM_NTASKS=1", "SLURM_NTASKS_PER_NODE=1", "SLURM_TASKS_PER_NODE=1"}
	for nodes, c := range map[int]struct {
		on   func(*testing.T, *cluster) *Launcher
		want []string
	}{1: {site, tasks[3:]}, 2: {twoNodes, tasks}} {
		command := shell(t, `[ "${RANK:-0}" != 0 ] || env > env`)
		l := c.on(t, newCluster(t))
		l.Inherited = append(slices.Clone(l.Inherited), tasks...)
		command.Env = append(slices.Clone(os.Environ()), tasks...)
		j := start(t, l, command)
		await(t, "the end", j.Done())
		env := strings.Split(awaitFile(t, filepath.Join(command.Dir, "env")), "\n")
		env = slices.DeleteFunc(env, func(v string) bool { return !slices.Contains(tasks, v) })
		if slices.Sort(env); !slices.Equal(env, c.want) {
			t.Errorf("on %d nodes the job sees %v, want %v", nodes, env, c.want)
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

// TestSavesBeforeAShortLimit: a job that is warned no longer before its limit than SIGTERM and SIGKILL take still has time to save.
func TestSavesBeforeAShortLimit(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `trap 'echo asked > asked; until [ -e go ]; do sleep 0.05; done; echo saved > saved; exit 75' USR1; echo ready > ready; while :; do sleep 0.05; done`)
	l := site(t, c)
	l.Limit, l.Notice = 10*time.Minute, 5*time.Minute
	j := start(t, l, command)
	await(t, "the start", j.Started())
	awaitFile(t, filepath.Join(command.Dir, "ready"))
	c.Signal(context.Background(), "1", syscall.SIGUSR1)
	awaitFile(t, filepath.Join(command.Dir, "asked"))
	time.Sleep(500 * time.Millisecond)
	os.WriteFile(filepath.Join(command.Dir, "go"), []byte("1"), 0o600)
	await(t, "the end", j.Done())
	if _, err := os.Stat(filepath.Join(command.Dir, "saved")); err != nil {
		t.Errorf("%v after %+v", err, j.Exit())
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
