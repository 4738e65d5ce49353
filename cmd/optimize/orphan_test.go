package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

// secondly sets prices such that one second of the job costs $0.001.
var secondly = []string{"--cpu-hour", "3.6", "--gb-hour", "0", "--gpu-hour", "0", "--cpus", "1:1", "--quiet"}

// orphan starts a training and kills its agent and, with keepers, also keeper and standby.
func (w *world) orphan(keepers bool, args ...string) (dir string, h launch.Handle) {
	w.t.Helper()
	agent := w.agent(append(append([]string{}, secondly...), args...)...)
	dir = w.latest("running", func(dir string, rec *journal.Record) bool {
		found, err := launch.Find(dir)
		h = found
		return err == nil
	})
	agent.Process.Kill()
	agent.Wait()
	w.t.Cleanup(func() { syscall.Kill(h.PID, syscall.SIGKILL) })
	if keepers {
		syscall.Kill(h.StandbyPID, syscall.SIGSTOP)
		syscall.Kill(h.KeeperPID, syscall.SIGKILL)
		syscall.Kill(h.StandbyPID, syscall.SIGKILL)
	}
	return dir, h
}

// TestRemoveRefusesRunningJob checks rm, stop and resume on running jobs without an agent and on references to no
// run.
func TestRemoveRefusesRunningJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("long.sh", "#!/bin/sh\nsleep 300 & wait\n")
	for name, keepers := range map[string]bool{"agent killed": false, "agent, keeper and standby killed": true} {
		dir, h := w.orphan(keepers, "--fresh", "--train", "long.sh")
		id := filepath.Base(dir)
		code, out, errs := w.run("runs", "rm", id)
		if code == run.CodeDone || !strings.Contains(errs, "stop it first") {
			t.Errorf("%s: rm: exit %d, %q %q; want a refusal", name, code, out, errs)
		}
		if err := syscall.Kill(h.PID, 0); err != nil {
			t.Fatalf("%s: the job is gone, so nothing was tested: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "run.json")); err != nil {
			t.Errorf("%s: the record is gone: %v", name, err)
		}
		if code, _, errs := w.run("runs", "stop", "--grace", "2s", id); code != run.CodeDone {
			t.Errorf("%s: stop: exit %d\n%s", name, code, errs)
		}
		if code, _, errs := w.run("runs", "rm", id); code != run.CodeDone {
			t.Errorf("%s: rm of a stopped run: exit %d\n%s", name, code, errs)
		}
	}
}

// TestRestartedContainer: a training continues its run in a restarted container, whose pids are new, although the state of the
// run has just been written.
func TestRestartedContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("work.sh", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n")
	dir, _ := w.orphan(false, "--train", "work.sh")
	path := filepath.Join(dir, "lock")
	var holder map[string]any
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &holder)
	}
	if err != nil || holder["pid_namespace"] == nil {
		t.Fatalf("%v: %s", err, data)
	}
	holder["pid_namespace"] = "pid:[1]"
	state, soon := filepath.Join(dir, "state"), time.Now().Add(20*time.Second)
	if _, err := os.Stat(state); err != nil { // its agent was killed while it replaced it
		state += ".prev"
	}
	if data, err = json.Marshal(holder); err == nil {
		err = errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(state, soon, soon))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.write("go", "")
	code, rec, errs := w.record(append(slices.Clone(secondly), "--train", "work.sh")...)
	if code != run.CodeDone || rec.RunID != filepath.Base(dir) {
		t.Errorf("exit %d, run %s; want the orphaned %s\n%s", code, rec.RunID, filepath.Base(dir), errs)
	}
}

func TestEmptyAndAmbiguousReferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.past("net", 1), w.past("net", 2)
	for _, command := range []string{"rm", "stop", "resume", "show"} {
		for ref, want := range map[string]string{"": "empty", "2026": first + ", " + second, first[len(first)-6:]: "no id"} {
			if code, out, errs := w.run("runs", command, ref); code == run.CodeDone || !strings.Contains(errs, want) {
				t.Errorf("runs %s %q: exit %d, %q %q; want a refusal with %q", command, ref, code, out, errs, want)
			}
		}
	}
	for _, id := range []string{first, second} {
		if _, err := os.Stat(filepath.Join(w.state(), "runs", id, "run.json")); err != nil {
			t.Error(err)
		}
	}
}

// TestJobEndsUnwatched checks that the whole time of a job is charged if agent and keeper are killed before it
// ends.
func TestJobEndsUnwatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("work.sh", "#!/bin/sh\nsleep 3\n")
	dir, h := w.orphan(false, "--train", "work.sh")
	syscall.Kill(h.KeeperPID, syscall.SIGKILL)
	var exit launch.Exit
	w.latest("ended", func(string, *journal.Record) bool {
		e, ok := h.ReadExit()
		exit = e
		return ok
	})
	code, rec, errs := w.record("runs", "resume", filepath.Base(dir))
	if code != run.CodeDone || rec.State != journal.Done {
		t.Fatalf("exit %d, state %s; want done\n%s", code, rec.State, errs)
	}
	if exit.Ran < 3*time.Second {
		t.Errorf("the record says it ran for %v, want at least 3 s", exit.Ran)
	}
	if got, want := float64(rec.Outcome.CostUSD), exit.Ran.Seconds()*0.001; math.Abs(got-want) > 1e-6 {
		t.Errorf("paid $%g, want $%g for %v", got, want, exit.Ran)
	}
}

// TestAgentSuspendedOverTheLimit checks that the keeper stops the job if the agent is suspended when the limit
// passes, and that only its run time is charged.
func TestAgentSuspendedOverTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("long.sh", "#!/bin/sh\nsleep 300 & wait\n")
	agent := w.agent(append(append([]string{"--json"}, secondly...), "--deadline", "4s", "--train", "long.sh")...)
	var h launch.Handle
	dir := w.latest("running", func(dir string, _ *journal.Record) bool {
		found, err := launch.Find(dir)
		h = found
		return err == nil
	})
	time.Sleep(time.Second) // the agent dates the start when it hears of it
	agent.Process.Signal(syscall.SIGSTOP)
	var exit launch.Exit
	w.latest("stopped by its keeper", func(string, *journal.Record) bool {
		e, ok := h.ReadExit()
		exit = e
		return ok
	})
	time.Sleep(6 * time.Second) // remain suspended beyond the limit
	agent.Process.Signal(syscall.SIGCONT)
	agent.Wait()
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Exit == nil || rec.Exit.Reason != "deadline" {
		t.Errorf("exit %+v, want the deadline", rec.Exit)
	}
	if got, want := float64(rec.Outcome.CostUSD), exit.Ran.Seconds()*0.001; math.Abs(got-want) > 1e-6 {
		t.Errorf("paid $%g, want $%g for the %v that it ran", got, want, exit.Ran)
	}
	if got := float64(rec.Outcome.Seconds); got < exit.Ran.Seconds()-1 || got > exit.Ran.Seconds()+5 { // the start takes its time on a busy machine
		t.Errorf("ended after %g s, want about %v", got, exit.Ran)
	}
}

// files returns the contents of a run directory except the lock, which is empty without an agent.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefusedResumeIsReadOnly checks that a refused resume leaves the run directory unchanged.
func TestRefusedResumeIsReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("long.sh", "#!/bin/sh\nsleep 300 & wait\n")
	w.run(append(append([]string{}, secondly...), "--deadline", "1s", "--train", "long.sh")...)
	dir := w.latest("stopped", func(_ string, rec *journal.Record) bool { return rec.State == journal.Stopped })
	stopped := files(t, dir)
	orphan, _ := w.orphan(false, "--fresh", "--train", "long.sh")
	if code, _, errs := w.run("runs", "stop", "--grace", "2s", filepath.Base(orphan)); code != run.CodeDone {
		t.Fatalf("stop: %s", errs)
	}
	for dir, before := range map[string]map[string][]byte{dir: stopped, orphan: files(t, orphan)} {
		var rec journal.Record
		if err := json.Unmarshal(before[filepath.Join(dir, "run.json")], &rec); err != nil || rec.State != journal.Stopped {
			t.Fatalf("%v %s", err, rec.State)
		}
		for _, args := range [][]string{{}, {"--deadline", "5m"}} {
			if code, _, errs := w.run(append([]string{"runs", "resume", filepath.Base(dir)}, args...)...); code != run.CodeUsage {
				t.Errorf("resume %q: exit %d, want %d\n%s", args, code, run.CodeUsage, errs)
			}
			after := files(t, dir)
			for path, data := range before {
				if !bytes.Equal(after[path], data) {
					t.Errorf("resume %q changed %s", args, filepath.Base(path))
				}
			}
			if len(after) != len(before) {
				t.Errorf("resume %q: %d files, before %d", args, len(after), len(before))
			}
		}
	}
}

// TestStateDirectoryRemoved checks that the training's own end is reported if the state directory is removed
// during the run.
func TestStateDirectoryRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("vandal.sh", "#!/bin/sh\nsleep 1; rm -rf .optimize/runs; sleep 1\nexit $1\n")
	for text, want := range map[string]run.Code{"0": run.CodeDone, "7": run.CodeTraining} {
		code, rec, errs := w.record(append(append([]string{}, secondly...), "--train", "vandal.sh", "--", text)...)
		if code != want || rec.Exit == nil || rec.Exit.Reason != "exited" {
			t.Errorf("exit %d %+v, want %d\n%s", code, rec.Exit, want, errs)
		}
	}
}
