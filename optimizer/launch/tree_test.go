package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Stop wakes the keeper, which does not wait for its next look at the control file.
func TestTermReachesJobImmediately(t *testing.T) {
	l := testLocal()
	l.Self = []string{selfExe(), asWokenKeeper}
	j := start(t, l, testCommand(t, "term", "5"))
	says(t, j, "ready")
	before := Monotonic()
	e, err := j.Stop(context.Background(), patience)
	if err != nil || e.Reason != Stopped || e.Code != 5 || e.Signal != "" {
		t.Errorf("exit = %+v, %v; want stopped with the job's own code 5", e, err)
	}
	at, err := strconv.ParseInt(says(t, j, "term "), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("SIGTERM took %s", time.Duration(at)-before)
}

// SIGTERM is sent to the whole group simultaneously, not to the main process first.
func TestTermReachesTheGroup(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "worker", "0", "term", "wait"))
	worker := saysPID(t, j, "worker ")
	says(t, j, "ready")
	e, err := j.Stop(context.Background(), patience)
	if err != nil || e.Reason != Stopped || e.Signal != "SIGTERM" {
		t.Errorf("exit = %+v, %v; want the main process ended by SIGTERM", e, err)
	}
	says(t, j, "term ") // printed by the worker
	if worker.alive() || e.Ran > patience {
		t.Errorf("the worker needed %s; want it to end at once", e.Ran)
	}
}

// A job that ignores SIGTERM has the grace, and is then killed.
func TestChildIgnoresTerm(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "deaf"))
	says(t, j, "ready")
	before := Monotonic()
	e, err := j.Stop(context.Background(), 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if took := Monotonic() - before; took < 300*time.Millisecond {
		t.Errorf("Stop took %s, want the grace of 300ms or more", took)
	}
	if e.Reason != Stopped || e.Signal != "SIGKILL" || e.Code != -1 {
		t.Errorf("exit = %+v, want stopped by SIGKILL", e)
	}
	mustEnd(t, process{j.Handle().PID, j.Handle().Start}, "the job")
	mustEnd(t, process{j.Handle().KeeperPID, j.Handle().KeeperStart}, "its keeper")
}

func TestGrandchildLeavesTheSession(t *testing.T) {
	t.Parallel()
	t.Run("main goes on, then is stopped", func(t *testing.T) {
		j := start(t, testLocal(), testCommand(t, "double"))
		daemon := saysPID(t, j, "daemon ")
		says(t, j, "ready")
		pids, err := j.PIDs()
		if err != nil || !contains(pids, daemon.PID) || !contains(pids, j.Handle().PID) {
			t.Errorf("PIDs() = %v, %v; want the daemon %d and the job %d among them", pids, err, daemon.PID, j.Handle().PID)
		}
		if _, err := j.Stop(context.Background(), 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if daemon.alive() {
			t.Errorf("the daemon %d outlived Stop", daemon.PID)
		}
	})
	t.Run("main exits by itself", func(t *testing.T) {
		j := start(t, testLocal(), testCommand(t, "daemon", "3"))
		daemon := saysPID(t, j, "daemon ")
		e := waitEnd(t, j)
		if e.Reason != Exited || e.Code != 3 {
			t.Errorf("exit = %+v, want the code 3 of the main process", e)
		}
		if daemon.alive() {
			t.Errorf("the daemon %d outlived the job", daemon.PID)
		}
		if !strings.HasPrefix(e.Outlived, strconv.Itoa(daemon.PID)+" (") {
			t.Errorf("ended with the job: %q, want the daemon %d", e.Outlived, daemon.PID)
		}
		if e.MainRan <= 0 || e.MainRan >= e.Ran {
			t.Errorf("the main process ran for %s of %s", e.MainRan, e.Ran)
		}
	})
}

// Without a cgroup the tree is found by parent pids alone, which must suffice.
func TestDaemonFoundByParentAlone(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "double"))
	daemon := saysPID(t, j, "daemon ")
	list, err := tree(j.Handle().KeeperPID)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range list {
		found = found || s.process == daemon
	}
	if !found {
		t.Errorf("below the keeper there are %s, want the daemon %d among them", describe(list), daemon.PID)
	}
}

func TestWorkerKeepsStdoutOpen(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string]string{"it heeds SIGTERM": "sleep", "it ignores SIGTERM": "deaf"} {
		t.Run(name, func(t *testing.T) {
			j := start(t, testLocal(), testCommand(t, "worker", "0", worker))
			w := saysPID(t, j, "worker ")
			e := waitEnd(t, j)
			if e.Reason != Exited || e.Code != 0 {
				t.Errorf("exit = %+v, want the main process's code 0", e)
			}
			if w.alive() {
				t.Errorf("the worker %d outlived the job", w.PID)
			}
		})
	}
}

// A worker that ends soon after the main process is not signalled.
func TestWorkerMayFinish(t *testing.T) {
	t.Parallel()
	l := testLocal()
	l.pace.Linger = patience
	j := start(t, l, testCommand(t, "late", "200"))
	e := waitEnd(t, j)
	if e.Code != 0 || !strings.Contains(output(t, j.Handle().RunDir, stdoutFile), "late words") {
		t.Errorf("exit %+v, stdout %q; want the worker's last words", e, output(t, j.Handle().RunDir, stdoutFile))
	}
	if e.Ran >= l.pace.Linger {
		t.Errorf("the end took %s, want as long as the worker and no longer", e.Ran)
	}
}

// A frozen process cannot be killed: the kernel's freezer simulates a hanging driver.
func TestUnkillableChild(t *testing.T) {
	t.Parallel()
	freezer := freezerGroup(t)
	l := testLocal()
	l.pace.KillWait = time.Second
	j := start(t, l, testCommand(t, "sleep"))
	says(t, j, "ready")
	pid := strconv.Itoa(j.Handle().PID)
	if err := os.WriteFile(filepath.Join(freezer, "cgroup.procs"), []byte(pid), 0o644); err != nil {
		t.Skipf("the freezer does not take the process: %v", err)
	}
	if err := os.WriteFile(filepath.Join(freezer, "freezer.state"), []byte("FROZEN"), 0o644); err != nil {
		t.Skipf("the freezer does not freeze: %v", err)
	}
	time.Sleep(100 * time.Millisecond)
	e, err := j.Stop(context.Background(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if !(process{j.Handle().PID, j.Handle().Start}).alive() {
		t.Skip("this kernel kills frozen processes")
	}
	if e.Reason != Stopped || !strings.Contains(e.Detail, pid+" (") {
		t.Errorf("exit = %+v, want stopped and pid %s named", e, pid)
	}
	os.WriteFile(filepath.Join(freezer, "freezer.state"), []byte("THAWED"), 0o644)
	mustEnd(t, process{j.Handle().PID, j.Handle().Start}, "the thawed job")
	if err := j.enforce.Remove(); err != nil { // the keeper could not
		t.Error(err)
	}
}

func freezerGroup(t *testing.T) string {
	dir := filepath.Join("/sys/fs/cgroup/freezer", "launch-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no process can be made unkillable here: %v", err)
	}
	t.Cleanup(func() {
		os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0o644)
		for range 100 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("the freezer group %s cannot be removed", dir)
	})
	return dir
}

func TestNothingOutlivesTheJob(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "double"))
	daemon := saysPID(t, j, "daemon ")
	says(t, j, "ready")
	if _, err := j.Stop(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]process{"the job": {j.Handle().PID, j.Handle().Start},
		"the keeper": {j.Handle().KeeperPID, j.Handle().KeeperStart}, "the daemon": daemon} {
		if p.alive() {
			t.Errorf("%s (pid %d) is alive after Stop", what, p.PID)
		}
		if _, err := readStat(p.PID); err == nil && what == "the keeper" {
			t.Errorf("%s (pid %d) is a zombie", what, p.PID)
		}
	}
	if pids, err := j.PIDs(); err != nil || len(pids) > 0 {
		t.Errorf("PIDs() = %v, %v after the end", pids, err)
	}
}

// A job stopped by SIGSTOP can be ended in order.
func TestStopReachesAStoppedJob(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "term", "6"))
	says(t, j, "ready")
	if err := j.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	e, err := j.Stop(context.Background(), patience)
	if err != nil || e.Code != 6 {
		t.Errorf("exit = %+v, %v; want its own code 6", e, err)
	}
}

// Stop wakes a stopped keeper.
func TestStopWakesTheKeeper(t *testing.T) {
	j := start(t, testLocal(), testCommand(t, "term", "6"))
	says(t, j, "ready")
	unix.Kill(j.Handle().KeeperPID, unix.SIGSTOP)
	e, err := j.Stop(context.Background(), patience)
	if err != nil || e.Code != 6 {
		t.Errorf("exit = %+v, %v; want its own code 6", e, err)
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		code int
	}{"leaves with 0": {[]string{"save", "0"}, 0}, "leaves with 75": {[]string{"save", "75"}, 75}} {
		t.Run(name, func(t *testing.T) {
			j := start(t, testLocal(), testCommand(t, tc.args...))
			says(t, j, "ready")
			if err := j.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			e := waitEnd(t, j)
			if e.Reason != Stopped || e.Code != tc.code {
				t.Errorf("exit = %+v, want stopped with code %d", e, tc.code)
			}
			says(t, j, "saved")
		})
	}
	t.Run("a failure to save is a failure", func(t *testing.T) {
		j := start(t, testLocal(), testCommand(t, "save", "1"))
		says(t, j, "ready")
		if err := j.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if e := waitEnd(t, j); e.Reason != Exited || e.Code != 1 {
			t.Errorf("exit = %+v, want exited with code 1", e)
		}
	})
	t.Run("a script without a handler is not killed", func(t *testing.T) {
		j := start(t, testLocal(), testCommand(t, "deaf"))
		says(t, j, "ready")
		if err := j.Checkpoint(); !errors.Is(err, ErrNoCheckpoint) {
			t.Errorf("Checkpoint() = %v, want ErrNoCheckpoint", err)
		}
		if !(process{j.Handle().PID, j.Handle().Start}).alive() {
			t.Error("the job was killed")
		}
	})
}

func TestDeadMansSwitch(t *testing.T) {
	t.Parallel()
	t.Run("asks for a checkpoint first", func(t *testing.T) {
		t.Parallel()
		j := start(t, testLocal(), testCommand(t, "save", "75"))
		says(t, j, "ready")
		if err := j.SetStopAfter(50 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		e := waitEnd(t, j)
		if e.Reason != Stopped || e.Code != 75 || !strings.Contains(e.Detail, "time limit") {
			t.Errorf("exit = %+v, want stopped by the limit with code 75", e)
		}
	})
	t.Run("ends a deaf job", func(t *testing.T) {
		t.Parallel()
		c := testCommand(t, "deaf")
		c.Grace = 200 * time.Millisecond
		j := start(t, testLocal(), c)
		says(t, j, "ready")
		if err := j.SetStopAfter(50 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if e := waitEnd(t, j); e.Reason != Stopped || e.Signal != "SIGKILL" {
			t.Errorf("exit = %+v, want stopped by SIGKILL", e)
		}
	})
	t.Run("holds from the start", func(t *testing.T) {
		t.Parallel()
		c := testCommand(t, "sleep")
		c.StopAfter, c.Grace = 300*time.Millisecond, 100*time.Millisecond
		if e := waitEnd(t, start(t, testLocal(), c)); e.Reason != Stopped || !strings.Contains(e.Detail, "time limit") {
			t.Errorf("exit = %+v, want stopped by the limit", e)
		}
	})
	t.Run("moves and goes away", func(t *testing.T) {
		t.Parallel()
		c := testCommand(t, "sleep")
		c.Grace = 100 * time.Millisecond
		j := moved(t, c, func(c Command) Job { return start(t, testLocal(), c) }, 0)
		if err := j.SetStopAfter(50 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if e := waitEnd(t, j); e.Reason != Stopped {
			t.Errorf("exit = %+v, want stopped", e)
		}
	})
}

// moved starts a job with a time limit, moves the limit while the job runs, and checks that the first limit does not end
// it. The first limit is longer for each start that the machine is too slow to move in time.
func moved(t *testing.T, c Command, start func(Command) Job, to time.Duration) Job {
	t.Helper()
	for c.StopAfter = 2 * time.Second; ; c.StopAfter *= 4 {
		began := Monotonic()
		j := start(c)
		err := j.SetStopAfter(to)
		if Monotonic()-began >= c.StopAfter {
			if _, err := j.Stop(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			c.RunDir += "-again"
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-j.Done():
			t.Fatalf("the job ended at the limit that had been moved: %+v", j.Exit())
		case <-time.After(c.StopAfter + 500*time.Millisecond):
		}
		return j
	}
}

func contains(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}
