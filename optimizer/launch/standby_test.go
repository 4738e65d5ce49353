package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// killKeepers kills the standby and the keeper of a job, in the order in which neither is replaced.
func killKeepers(t *testing.T, h Handle) {
	t.Helper()
	for what, p := range map[string]process{"the standby": {h.StandbyPID, h.StandbyStart}, "the keeper": {h.KeeperPID, h.KeeperStart}} {
		if err := p.signal(unix.SIGSTOP); err != nil {
			t.Fatalf("stop %s: %v", what, err)
		}
	}
	for what, p := range map[string]process{"the standby": {h.StandbyPID, h.StandbyStart}, "the keeper": {h.KeeperPID, h.KeeperStart}} {
		p.signal(unix.SIGKILL)
		unix.Wait4(p.PID, nil, 0, nil) // the standby may be a child of this process
		mustEnd(t, p, what)
	}
}

func killKeeper(t *testing.T, h Handle) {
	t.Helper()
	p := process{h.KeeperPID, h.KeeperStart}
	if err := p.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, p, "the keeper")
}

// Only the keeper is killed while the job prints: the job continues, none of its later output is lost, and its exit
// is recorded.
func TestKeeperKilledWhileTheJobPrints(t *testing.T) {
	t.Parallel()
	j := start(t, testLocal(), testCommand(t, "chatter", "100", "7"))
	says(t, j, "chatter 5")
	killKeeper(t, j.Handle())
	killedAt := output(t, j.Handle().RunDir, stdoutFile)
	e := waitEnd(t, j)
	if e.Reason != Exited || e.Code != 7 {
		t.Errorf("exit = %+v, want exited with code 7", e)
	}
	text := output(t, j.Handle().RunDir, stdoutFile)
	if !strings.Contains(text, "chatter 99\n") {
		t.Errorf("the last line is missing; output: %q", text)
	}
	if len(text) <= len(killedAt) {
		t.Error("nothing was copied after the death of the keeper: the test has tested nothing")
	}
	if e.Ran < 400*time.Millisecond {
		t.Errorf("ran for %v, want the whole life of the job", e.Ran)
	}
}

// Agent and keeper are dead and the job ends: its exit is recorded with its own time.
func TestEndsWithoutAgentAndKeeper(t *testing.T) {
	t.Parallel()
	a, h := agent(t, testCommand(t, "term", "9"))
	began := time.Now()
	a.Process.Kill()
	a.Wait()
	killKeeper(t, h)
	time.Sleep(500 * time.Millisecond)
	ran := time.Since(began)
	if err := (process{h.PID, h.Start}).signal(unix.SIGTERM); err != nil {
		t.Fatalf("the job did not outlive agent and keeper: %v", err)
	}
	mustEnd(t, process{h.StandbyPID, h.StandbyStart}, "the standby")
	j := adopt(t, h)
	select {
	case <-j.Done():
	default:
		t.Fatal("Done is open for a job whose end is on record")
	}
	if e := j.Exit(); e.Reason != Exited || e.Code != 9 || e.Ran < ran-100*time.Millisecond {
		t.Errorf("exit = %+v, want exited with code 9 after %v", e, ran)
	}
}

// Agent and keeper are dead and the job lives: its time limit still holds.
func TestLimitHoldsWithoutAgentAndKeeper(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "deaf")
	c.StopAfter, c.Grace = time.Second, 300*time.Millisecond
	began := time.Now() // the limit counts from the agent's call, the record from the start of the job
	a, h := agent(t, c)
	a.Process.Kill()
	a.Wait()
	killKeeper(t, h)
	mustEnd(t, process{h.PID, h.Start}, "the job that nothing but its standby guards")
	mustEnd(t, process{h.StandbyPID, h.StandbyStart}, "the standby")
	if e, ok := h.ReadExit(); !ok || e.Reason != Stopped || e.At.Sub(began) < time.Second {
		t.Errorf("exit record %+v, %v; want stopped a second after %v or later", e, ok, began)
	}
}

// Agent, keeper and standby are stopped by signals: the kernel wakes the keeper at the time limit, which holds.
func TestLimitHoldsWhileAllAreStopped(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "deaf")
	c.StopAfter, c.Grace = 2*time.Second, 300*time.Millisecond
	a, h := agent(t, c)
	keeper := process{h.KeeperPID, h.KeeperStart}
	a.Process.Signal(unix.SIGSTOP)
	for _, p := range []process{{h.StandbyPID, h.StandbyStart}, keeper} {
		if err := p.signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	mustEnd(t, process{h.PID, h.Start}, "the job whose supervisors are stopped")
	mustEnd(t, keeper, "the keeper")
	if e, ok := h.ReadExit(); !ok || e.Reason != Stopped || !strings.Contains(e.Detail, "time limit") {
		t.Errorf("exit record %+v, %v; want stopped by the limit", e, ok)
	}
}

// A keeper that is stopped by a signal is woken at its limit, and again and again until the tree is empty.
func TestWakeStopped(t *testing.T) {
	for name, c := range map[string]struct{ stopAt, now, want time.Duration }{
		"without a limit": {0, time.Minute, 0},
		"before it":       {time.Hour, time.Minute, time.Hour},
		"after it":        {time.Minute, time.Hour, time.Hour + stoppedFor},
	} {
		if got := (&watch{stopAt: c.stopAt}).wakeStopped(c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// An agent that adopts the job of a dead keeper controls the standby.
func TestStandbyObeysTheNextAgent(t *testing.T) {
	t.Parallel()
	a, h := agent(t, testCommand(t, "term", "42"))
	said(t, h.RunDir, "ready") // what a keeper has read but not written when it is killed is lost
	a.Process.Kill()
	a.Wait()
	killKeeper(t, h)
	j := adopt(t, h)
	if err := j.SetStopAfter(time.Hour); err != nil {
		t.Errorf("SetStopAfter: %v", err)
	}
	if pids, err := j.PIDs(); err != nil || !contains(pids, h.PID) {
		t.Errorf("PIDs() = %v, %v; want the job %d among them", pids, err, h.PID)
	}
	if e, err := j.Stop(context.Background(), patience); err != nil || e.Reason != Stopped || e.Code != 42 {
		t.Errorf("exit = %+v, %v; want stopped with code 42", e, err)
	}
}

// Only the standby is killed: keeper and job are unaffected.
func TestStandbyKilled(t *testing.T) {
	t.Parallel()
	j := start(t, testLocal(), testCommand(t, "chatter", "20", "3"))
	h := j.Handle()
	if err := (process{h.StandbyPID, h.StandbyStart}).signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := waitEnd(t, j); e.Reason != Exited || e.Code != 3 {
		t.Errorf("exit = %+v, want exited with code 3", e)
	}
}

// Keeper, standby and agent are dead and the end of the job was not observed: it counts until its last write.
func TestLostJobCountsUpToItsLastSign(t *testing.T) {
	t.Parallel()
	a, h := agent(t, testCommand(t, "sleep"))
	a.Process.Kill()
	a.Wait()
	killKeepers(t, h)
	(process{h.PID, h.Start}).signal(unix.SIGKILL)
	mustEnd(t, process{h.PID, h.Start}, "the job")
	last := time.Now().Add(7 * time.Second) // time of the job's last write to a log
	log := filepath.Join(h.RunDir, "training.csv")
	if err := os.WriteFile(log, []byte("epoch\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(log, last, last); err != nil {
		t.Fatal(err)
	}
	j := adopt(t, h)
	e := waitEnd(t, j)
	if e.Reason != Lost || e.Ran < 7*time.Second || !strings.Contains(e.Detail, "training.csv") {
		t.Errorf("exit = %+v, want lost after 7 s or more by training.csv", e)
	}
}

// All processes of a job that prints nothing are killed together, its agent earlier: it counts until its supervisor's last tick.
func TestSilentJobCountsUpToItsSupervisorsEnd(t *testing.T) {
	t.Parallel()
	a, h := agent(t, testCommand(t, "sleep"))
	a.Process.Kill()
	a.Wait()
	dated := func() time.Time {
		info, err := os.Stat(filepath.Join(h.RunDir, lockFile))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	began := dated()
	for end := time.Now().Add(patience); !dated().After(began.Add(keeperTick)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the supervisor shows no sign of life")
		}
	}
	killKeepers(t, h)
	(process{h.PID, h.Start}).signal(unix.SIGKILL)
	mustEnd(t, process{h.PID, h.Start}, "the job")
	last := dated()
	if e := waitEnd(t, adopt(t, h)); e.Reason != Lost || !e.At.Equal(last) || !strings.Contains(e.Detail, "last sign of life") {
		t.Errorf("exit = %+v, want lost at %v", e, last)
	}
}

// The run directory is removed while the job runs: the agent still receives the exit.
func TestRunDirectoryRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		killed bool
		wait   time.Duration // from its death to the end of the job
	}{"by the keeper": {}, "by its standby": {killed: true}, "by its standby, later": {true, 2 * lastMessageWithin}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, testLocal(), testCommand(t, "term", "5"))
			says(t, j, "ready")
			if err := os.RemoveAll(j.Handle().RunDir); err != nil {
				t.Fatal(err)
			}
			if c.killed {
				killKeeper(t, j.Handle())
			}
			time.Sleep(c.wait)
			j.Signal(unix.SIGTERM)
			if e := waitEnd(t, j); e.Reason != Exited || e.Code != 5 {
				t.Errorf("exit = %+v, want exited with code 5", e)
			}
		})
	}
}

// A keeper that was stopped by a signal, alone or with its standby, still records the end of its job.
func TestStoppedKeeperRecordsTheEnd(t *testing.T) {
	t.Parallel()
	j := start(t, testLocal(), testCommand(t, "term", "5"))
	says(t, j, "ready")
	h := j.Handle()
	for _, p := range []process{{h.StandbyPID, h.StandbyStart}, {h.KeeperPID, h.KeeperStart}} {
		if err := p.signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := waitEnd(t, j); e.Reason != Exited || e.Code != 5 {
		t.Errorf("exit = %+v, want exited with code 5", e)
	}
}

// An agent that dies while it aborts a start leaves a stopped standby, which continues after the time for a start: the lock of
// the run directory is free again.
func TestStandbyOfAnAbortedStart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for half a minute")
	}
	a, h := agent(t, testCommand(t, "sleep"))
	a.Process.Kill()
	a.Wait()
	standby := process{h.StandbyPID, h.StandbyStart}
	if err := standby.signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	(process{h.KeeperPID, h.KeeperStart}).signal(unix.SIGKILL)
	(process{h.PID, h.Start}).signal(unix.SIGKILL)
	mustEnd(t, standby, "the standby")
	for end := time.Now().Add(patience); Supervised(h.RunDir); time.Sleep(5 * time.Millisecond) { // the other threads of a process close its files
		if time.Now().After(end) {
			t.Fatal("the lock is held")
		}
	}
}

// An agent that dies while it starts a job leaves a supervisor that is about to record it: Find waits for the record, or
// for the end of the supervisor.
func TestFindWaitsForAStartingJob(t *testing.T) {
	t.Parallel()
	for name, starts := range map[string]bool{"starts": true, "fails": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			lock, err := lockRunDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			type result struct {
				h   Handle
				err error
			}
			found := make(chan result, 1)
			go func() {
				h, err := Find(dir)
				found <- result{h, err}
			}()
			select {
			case r := <-found:
				t.Errorf("Find has not waited: %+v", r)
			case <-time.After(100 * time.Millisecond):
			}
			if starts {
				if err := writeJSON(filepath.Join(dir, startedFile), started{Schema: fileSchema, Handle: Handle{PID: 7}}); err != nil {
					t.Fatal(err)
				}
				defer lock.Close()
			} else {
				lock.Close()
			}
			if r := <-found; starts != (r.err == nil && r.h.PID == 7 && r.h.RunDir == dir) || !starts && !errors.Is(r.err, fs.ErrNotExist) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A run directory whose name is not valid UTF-8 is used under its own name, also by a later agent.
func TestRunDirectoryOfAnyName(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "term", "3")
	c.RunDir = filepath.Join(c.RunDir, "run \xff\n\"dir")
	j := start(t, testLocal(), c)
	says(t, j, "ready")
	if err := j.SetStopAfter(time.Hour); err != nil {
		t.Errorf("SetStopAfter: %v", err)
	}
	h, err := Find(c.RunDir)
	if err != nil || h != j.Handle() || h.RunDir != c.RunDir {
		t.Fatalf("Find: %+v, %v; want %+v", h, err, j.Handle())
	}
	if e, err := adopt(t, h).Stop(context.Background(), patience); err != nil || e.Code != 3 {
		t.Errorf("exit = %+v, %v; want code 3", e, err)
	}
	if e, ok := h.ReadExit(); !ok || e.Code != 3 {
		t.Errorf("exit record %+v, %v", e, ok)
	}
}
