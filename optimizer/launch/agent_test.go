package launch

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// The agent is killed; another one adopts the job and reports its end exactly.
func TestAgentKilledJobAdopted(t *testing.T) {
	t.Parallel()
	a, h := agent(t, testCommand(t, "term", "42"))
	a.Process.Kill()
	a.Wait()
	j := adopt(t, h)
	says(t, j, "ready")
	if pids, err := j.PIDs(); err != nil || !contains(pids, h.PID) {
		t.Errorf("PIDs() = %v, %v; want %d among them", pids, err, h.PID)
	}
	if len(j.Enforced()) == 0 {
		t.Error("Enforced() says nothing after adoption")
	}
	if left := leftoverPIDs(h); len(left) > 0 {
		t.Errorf("leftoverPIDs() = %v while the keeper lives", left)
	}
	e, err := j.Stop(context.Background(), patience)
	if err != nil || e.Reason != Stopped || e.Code != 42 {
		t.Errorf("exit = %+v, %v; want stopped with code 42", e, err)
	}
}

// A control file that the disk has damaged is replaced: the job can still be adopted and stopped.
func TestAdoptWithDamagedControlFile(t *testing.T) {
	t.Parallel()
	a, h := agent(t, testCommand(t, "term", "42"))
	a.Process.Kill()
	a.Wait()
	if err := os.WriteFile(filepath.Join(h.RunDir, controlFile), []byte("\x00\x00{"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := adopt(t, h)
	says(t, j, "ready")
	if e, err := j.Stop(context.Background(), patience); err != nil || e.Reason != Stopped || e.Code != 42 {
		t.Errorf("exit = %+v, %v; want stopped with code 42", e, err)
	}
}

func TestJobEndsWithoutAgent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		reason ExitReason
		code   int
		signal string
	}{
		"code":   {[]string{"worker", "9", "exit"}, Exited, 9, ""},
		"signal": {[]string{"die", "6"}, Killed, -1, "SIGABRT"},
	} {
		t.Run(name, func(t *testing.T) {
			a, h := agent(t, testCommand(t, tc.args...))
			a.Process.Kill()
			a.Wait()
			mustEnd(t, process{h.KeeperPID, h.KeeperStart}, "the keeper")
			j := adopt(t, h)
			select {
			case <-j.Done():
			default:
				t.Fatal("Done is open for a job whose end is on record")
			}
			if e := j.Exit(); e.Reason != tc.reason || e.Code != tc.code || e.Signal != tc.signal {
				t.Errorf("exit = %+v, want %s %d %q", e, tc.reason, tc.code, tc.signal)
			}
		})
	}
}

// The agent's time limit holds after its death, and the next agent can move it.
func TestLimitHoldsWithoutAgent(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "deaf")
	c.StopAfter, c.Grace = time.Second, 300*time.Millisecond
	a, h := agent(t, c)
	a.Process.Kill()
	a.Wait()
	mustEnd(t, process{h.KeeperPID, h.KeeperStart}, "the keeper")
	if e := adopt(t, h).Exit(); e.Reason != Stopped || !strings.Contains(e.Detail, "time limit") {
		t.Errorf("exit = %+v, want stopped by the limit", e)
	}
}

func TestSecondAgentMovesTheLimit(t *testing.T) {
	t.Parallel()
	j := moved(t, testCommand(t, "save", "75"), func(c Command) Job {
		a, h := agent(t, c)
		a.Process.Kill()
		a.Wait()
		return adopt(t, h)
	}, time.Hour)
	says(t, j, "ready")
	if err := j.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if e := waitEnd(t, j); e.Reason != Stopped || e.Code != 75 {
		t.Errorf("exit = %+v, want 75 after the checkpoint", e)
	}
}

// A job survives an agent that died before it saved the handle.
func TestHandleFoundInRunDirectory(t *testing.T) {
	c := testCommand(t, "sleep")
	if _, err := Find(c.RunDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find before the start: %v, want fs.ErrNotExist", err)
	}
	a, h := agent(t, c)
	a.Process.Kill()
	a.Wait()
	found, err := Find(c.RunDir)
	if err != nil || found != h {
		t.Errorf("Find() = %+v, %v; want %+v", found, err, h)
	}
	adopt(t, found)
}

// A keeper detectable only by its lock, as from another container, is not considered dead.
func TestAdoptFindsKeeperElsewhere(t *testing.T) {
	c := testCommand(t, "exit", "0")
	j := start(t, testLocal(), c)
	waitEnd(t, j)
	if err := os.Remove(filepath.Join(c.RunDir, exitFile)); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, process{j.Handle().StandbyPID, j.Handle().StandbyStart}, "the standby, which holds the lock")
	lock, err := lockRunDir(c.RunDir)
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); lock, err = lockRunDir(c.RunDir) {
		time.Sleep(10 * time.Millisecond) // a child of another test may not have closed it yet
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testLocal().Adopt(context.Background(), j.Handle()); !errors.Is(err, ErrBusy) {
		t.Errorf("Adopt = %v, want ErrBusy", err)
	}
	lock.Close()
	if e := adopt(t, j.Handle()).Exit(); e.Reason != Lost {
		t.Errorf("without the lock: %+v, want lost", e)
	}
}

// A second job in the run directory of a living one is refused with an error that names the first.
func TestSecondStartInOneRunDirectory(t *testing.T) {
	c := testCommand(t, "sleep")
	j := start(t, testLocal(), c)
	_, err := testLocal().Start(context.Background(), c)
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "pid ") {
		t.Errorf("second start: %v, want ErrBusy that names the first", err)
	}
	if e := mustStop(t, j); e.Reason != Stopped {
		t.Errorf("exit of the first = %+v", e)
	}
	again := start(t, testLocal(), c)
	if e := again.Exit(); e.Reason != "" {
		t.Errorf("exit of the running second job = %+v", e)
	}
	if e := adopt(t, j.Handle()).Exit(); e.Reason != Lost {
		t.Errorf("the first job's exit, its record replaced = %+v, want lost", e)
	}
	if !(process{again.Handle().PID, again.Handle().Start}).alive() {
		t.Error("adopting the old job ended the new one")
	}
}

// A start waits for the lock of a run directory whose job has not started: a process that is being started may hold a copy of
// its descriptor.
func TestStartWaitsForTheLock(t *testing.T) {
	c := testCommand(t, "exit", "0")
	if err := os.MkdirAll(c.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := lockRunDir(c.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { lock.Close() })
	if e := waitEnd(t, start(t, testLocal(), c)); e.Reason != Exited {
		t.Errorf("exit = %+v", e)
	}
}

func mustStop(t *testing.T, j Job) Exit {
	t.Helper()
	e, err := j.Stop(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Signals from the terminal to the agent's group reach neither keeper nor job.
func TestTerminalSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		t.Run(signalName(sig), func(t *testing.T) {
			a, h := agent(t, testCommand(t, "term", "4"))
			unix.Kill(-a.Process.Pid, sig)
			unix.Kill(-a.Process.Pid, sig)
			a.Wait()
			j := adopt(t, h)
			says(t, j, "ready")
			if strings.Contains(output(t, h.RunDir, stdoutFile), "term ") {
				t.Errorf("%s to the agent reached the job", signalName(sig))
			}
			unix.Kill(h.KeeperPID, sig) // the keeper survives it too
			if e, err := j.Stop(context.Background(), patience); err != nil || e.Code != 4 {
				t.Errorf("exit = %+v, %v; want the job's own code 4", e, err)
			}
		})
	}
}

// The second Ctrl-C arrives while the first one is being handled.
func TestStopTwiceQuickly(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "deaf"))
	says(t, j, "ready")
	first := make(chan Exit, 1)
	go func() {
		e, _ := j.Stop(context.Background(), time.Hour)
		first <- e
	}()
	asked := func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.want.Stop != nil
	}
	for !asked() {
		time.Sleep(time.Millisecond)
	}
	e, err := j.Stop(context.Background(), 0)
	if err != nil || e.Reason != Stopped || e.Signal != "SIGKILL" {
		t.Errorf("second Stop = %+v, %v", e, err)
	}
	select {
	case one := <-first:
		if one != e {
			t.Errorf("first Stop says %+v, second %+v", one, e)
		}
	case <-time.After(patience):
		t.Error("the first Stop does not return")
	}
}

// A stop whose caller no longer waits is completed nevertheless.
func TestStopAbandoned(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "deaf"))
	says(t, j, "ready")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := j.Stop(ctx, 200*time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop with an ended context: %v", err)
	}
	if e := waitEnd(t, j); e.Reason != Stopped {
		t.Errorf("exit = %+v, want stopped", e)
	}
}

// SIGTERM during start-up: at every point of the start, no process is left.
func TestStopDuringStart(t *testing.T) {
	for name, slow := range map[string]struct {
		as        string
		processes int // of the start until it hangs
	}{
		"before the keeper":     {asSlowKeeper, 1},
		"before the trampoline": {asSlowTrampoline, 2},
	} {
		t.Run(name, func(t *testing.T) {
			before := children(t)
			l := testLocal()
			l.Self = []string{selfExe(), slow.as}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var cancelled sync.WaitGroup
			defer cancelled.Wait()
			cancelled.Go(func() {
				for children(t) < before+slow.processes {
					time.Sleep(time.Millisecond)
				}
				cancel()
			})
			_, err := l.Start(ctx, testCommand(t, "sleep"))
			var start *StartError
			if !errors.Is(err, context.Canceled) || !errors.As(err, &start) || start.Exit().Reason != StartFailed {
				t.Errorf("Start = %v, want a StartError for the ended context", err)
			}
			if after := children(t); after > before {
				t.Errorf("%d processes are left of the start", after-before)
			}
		})
	}
	t.Run("before anything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := testLocal().Start(ctx, testCommand(t, "sleep")); !errors.Is(err, context.Canceled) {
			t.Errorf("Start = %v", err)
		}
	})
}

func children(t *testing.T) int {
	list, err := tree(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// bystander is a process unrelated to any job, leader of its own session.
func bystander(t *testing.T) process {
	c := exec.Command(selfExe(), asChild, "deaf")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	s, err := readStat(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return s.process
}

// Another program has reused the pid of the keeper, of the job, or of both.
func TestPidReused(t *testing.T) {
	other := bystander(t)
	h := Handle{RunDir: t.TempDir(), KeeperPID: other.PID, KeeperStart: other.Start - 1,
		PID: other.PID, Start: other.Start - 1, BootID: resources.BootID()}
	if left := leftoverPIDs(h); len(left) > 0 {
		t.Errorf("leftoverPIDs() = %v: that is another program", left)
	}
	j := adopt(t, h)
	if err := j.Signal(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal = %v, want os.ErrProcessDone", err)
	}
	if err := j.Checkpoint(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Checkpoint = %v, want os.ErrProcessDone", err)
	}
	if err := j.SetStopAfter(time.Second); err == nil {
		t.Error("SetStopAfter works without a keeper")
	}
	e, err := j.Stop(context.Background(), 0)
	if err != nil || e.Reason != Lost {
		t.Errorf("Stop = %+v, %v; want lost", e, err)
	}
	time.Sleep(50 * time.Millisecond)
	if !other.alive() {
		t.Error("the other program was killed")
	}
}

// Without a keeper, a process is identified by the run id in its environment, unless it is older than the job.
func TestStrayIdentifiedByRunID(t *testing.T) {
	c := exec.Command(selfExe(), asChild, "deaf")
	c.Env = []string{runIDVariable + "stray-test"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	stray, err := readStat(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		h     Handle
		runID string
		found bool
	}{
		"of this job":       {Handle{PID: 1 << 30, Start: stray.Start}, "stray-test", true},
		"older than it":     {Handle{PID: 1 << 30, Start: stray.Start + 1}, "stray-test", false},
		"of another run":    {Handle{PID: 1 << 30, Start: stray.Start}, "stray-tes", false},
		"the run has no id": {Handle{PID: 1 << 30, Start: stray.Start}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if list := leftovers(tc.h, tc.runID, nil); (len(list) > 0) != tc.found {
				t.Errorf("leftovers = %s, want found: %v", describe(list), tc.found)
			}
		})
	}
}

// A handle from before a restart of the machine matches no running process, even if pid and start time agree.
func TestHandleFromBeforeRestart(t *testing.T) {
	other := bystander(t)
	h := Handle{RunDir: t.TempDir(), KeeperPID: other.PID, KeeperStart: other.Start, PID: other.PID, Start: other.Start, BootID: "another"}
	j := adopt(t, h)
	if e := waitEnd(t, j); e.Reason != Lost || !strings.Contains(e.Detail, "restarted") {
		t.Errorf("exit = %+v, want lost in a restart", e)
	}
	if left := leftoverPIDs(h); len(left) > 0 || !other.alive() {
		t.Errorf("leftoverPIDs() = %v, other program alive: %v", left, other.alive())
	}
}

// Keeper and standby are killed: the job is found, can be stopped, and is reported lost.
func TestKeeperAndStandbyKilled(t *testing.T) {
	t.Parallel()
	for name, adopted := range map[string]bool{"seen by its agent": false, "seen by the next agent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, testLocal(), testCommand(t, "double"))
			daemon := saysPID(t, j, "daemon ")
			says(t, j, "ready")
			h := j.Handle()
			if adopted {
				j.Close()
			}
			killKeepers(t, h)
			if left := leftoverPIDs(h); !contains(left, h.PID) || !contains(left, daemon.PID) {
				t.Errorf("leftoverPIDs() = %v, want the job %d and its daemon %d", left, h.PID, daemon.PID)
			}
			if adopted {
				j = adopt(t, h)
			}
			select {
			case <-j.Done():
				t.Fatalf("the job lives, but Done is closed: %+v", j.Exit())
			case <-time.After(300 * time.Millisecond):
			}
			if err := j.SetStopAfter(time.Hour); !errors.Is(err, errNoKeeper) {
				t.Errorf("SetStopAfter = %v, want ErrNoKeeper", err)
			}
			e, err := j.Stop(context.Background(), 300*time.Millisecond)
			if err != nil || e.Reason != Lost || !strings.Contains(e.Detail, "supervisor") || e.Ran <= 0 {
				t.Errorf("exit = %+v, %v; want lost with its keeper, after the time it ran", e, err)
			}
			if daemon.alive() || (process{h.PID, h.Start}).alive() {
				t.Error("something of the job outlived Stop")
			}
		})
	}
}

// Close releases the job: the job continues, and no goroutine is left (goleak checks all tests).
func TestCloseLeavesTheJob(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "sleep"))
	says(t, j, "ready")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if !(process{j.Handle().PID, j.Handle().Start}).alive() {
		t.Error("Close ended the job")
	}
	if e, err := adopt(t, j.Handle()).Stop(context.Background(), 0); err != nil || e.Reason != Stopped {
		t.Errorf("exit = %+v, %v", e, err)
	}
	unix.Wait4(j.Handle().StandbyPID, nil, 0, nil) // a child of this process that Close has released
}

func TestHandleSurvivesJSON(t *testing.T) {
	h := Handle{RunDir: "/a b/ü", KeeperPID: 1, KeeperStart: 1 << 60, PID: 2, Start: 3, BootID: "x"}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var back Handle
	if err := json.Unmarshal(data, &back); err != nil || back != h {
		t.Errorf("%s → %+v, %v", data, back, err)
	}
}

// Files of a newer program are refused with a clear error, and one of its records that cannot be decoded is not
// interpreted.
func TestAdoptRefusesNewerFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, startedFile), []byte(`{"schema":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := testLocal().Adopt(context.Background(), Handle{RunDir: dir})
	if !errors.Is(err, ErrNewer) {
		t.Errorf("Adopt = %v, want ErrNewer", err)
	}
}
