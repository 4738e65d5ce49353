package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
)

// report writes a line in the format of the observer inside the training.
func (a *actor) report(fields map[string]any) {
	dir := a.setting("OPTIMIZE_OBSERVE_DIR")
	pid := 5000 + a.n
	line := map[string]any{"mono": a.stage.clock.Monotonic().Seconds(), "time": float64(a.stage.clock.Now().UnixNano()) / 1e9, "pid": pid}
	for k, v := range fields {
		line[k] = v
	}
	text, err := json.Marshal(line)
	if err != nil {
		a.stage.t.Error(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.jsonl", pid)), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		a.stage.t.Errorf("report: %v", err)
		return
	}
	defer f.Close()
	f.Write(append(text, '\n'))
}

// request returns the latest request to the training, nil if none was made.
func (a *actor) request() map[string]any {
	text, err := os.ReadFile(filepath.Join(a.setting("OPTIMIZE_OBSERVE_DIR"), fmt.Sprintf("request-%d.json", 5000+a.n)))
	if err != nil {
		return nil
	}
	var q map[string]any
	json.Unmarshal(text, &q)
	return q
}

// step is one step of an observed training; false if the job must exit.
func (a *actor) step(total int, seconds float64) bool {
	return a.progress(seconds, map[string]any{"step": a.epoch + 1, "total_steps": total, "step_seconds": seconds, "threads": 2})
}

// progress is a unit of an observed training, of which it reports the facts; false if the job must exit.
func (a *actor) progress(seconds float64, facts map[string]any) bool {
	return a.stage.turn(fmt.Sprintf("step %d", a.epoch+1), func() {
		a.epoch++
		a.stage.clock.advance(at(seconds))
		facts["event"] = "progress"
		if facts["training"] == nil {
			facts["training"] = 1
		}
		a.report(facts)
	}, func(st Status, looks int) bool {
		return a.mustGo() || st.Done >= float64(a.epoch) || looks >= 20
	}) && !a.mustGo()
}

// checkpoint writes a checkpoint of the script and reports it.
func (a *actor) checkpoint() string { return a.checkpointIn(".") }

// checkpointIn writes and reports a checkpoint in a directory below the working directory.
func (a *actor) checkpointIn(dir string) string {
	path := a.save(dir)
	a.report(map[string]any{"event": "checkpoint", "training": 1, "path": path, "step": a.epoch, "kind": "test", "seconds": 0.1})
	return path
}

// save writes a checkpoint in a directory below the working directory.
func (a *actor) save(dir string) string {
	path := a.checkpointPath(dir)
	if err := os.WriteFile(path, []byte("state"), 0o644); err != nil {
		a.stage.t.Error(err)
	}
	now := a.stage.clock.Now()
	os.Chtimes(path, now, now)
	return path
}

func (a *actor) checkpointPath(dir string) string {
	return filepath.Join(a.stage.cfg.Dir, dir, fmt.Sprintf("ckpt_step_%d.pt", a.epoch))
}

// starts reports the start of the process.
func (a *actor) starts() {
	start := map[string]any{"event": "start", "ppid": 1}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		start["boot"] = strings.TrimSpace(string(boot))
	}
	a.report(start)
}

// begins reports the start of the process and of a training.
func (a *actor) begins(extra map[string]any) {
	a.starts()
	training := map[string]any{"event": "training", "training": 1, "framework": "test", "unit": "step", "world": 1}
	for k, v := range extra {
		training[k] = v
	}
	a.report(training)
}

// observedStage is a stage whose job is observed, accepts --resume PATH and is not resumable by the protocol.
func observedStage(t *testing.T, play func(*actor) launch.Exit) *stage {
	s := newStage(t, play)
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte("raise SystemExit('the test plays it')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.cfg.Train, s.cfg.Resume = "train.py", resumableAuto
	s.cfg.Knobs = map[string]string{"resume": "--resume {path}"}
	return s
}

// TestObservedTraining: for a training without output, the observer alone provides progress and total.
func TestObservedTraining(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(nil)
		for a.epoch < 6 {
			if !a.step(6, 1) {
				return died("SIGTERM")
			}
		}
		return finished
	})
	rec := s.run().Record
	if rec.State != journal.Done || float64(rec.Training.TotalUnits) != 6 || rec.Training.Unit != "step" || rec.Log.Format != "observer" {
		t.Errorf("%s, %v of %vs, log %+v; want done, 6 steps by the observer", rec.State, rec.Training.TotalUnits, rec.Training.Unit, rec.Log)
	}
}

// TestManyCheckpoints: after more checkpoints than the reports keep, the newest is still the one to resume from.
func TestManyCheckpoints(t *testing.T) {
	t.Parallel()
	const kept = 1000
	s := observedStage(t, func(a *actor) launch.Exit {
		if a.n == 2 {
			return finished
		}
		a.begins(nil)
		a.step(9, 1)
		a.checkpoint()
		for i := range kept {
			a.report(map[string]any{"event": "checkpoint", "training": 1, "path": filepath.Join(a.stage.cfg.Dir, fmt.Sprintf("earlier_%d.pt", i)), "step": 0, "kind": "test"})
		}
		a.step(9, 1)
		a.step(9, 1)
		a.checkpoint()
		a.step(9, 1)
		return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: true}
	})
	s.cfg.SLA.TimeMax = time.Hour
	res := s.run()
	if res = s.resume(res.Dir, Change{TimeMax: 2 * time.Hour}); res.Code != CodeDone {
		t.Fatalf("exit %d (%v)", res.Code, res.Err)
	}
	if on := s.started(); len(on) != 2 || !slices.ContainsFunc(on[1].command.Args, func(a string) bool { return strings.HasSuffix(a, "ckpt_step_3.pt") }) {
		t.Errorf("started %d jobs, the last as %q, want it to resume from ckpt_step_3.pt", len(on), on[len(on)-1].command.Args)
	}
}

// TestLastCheckpointAtTheEnd: the checkpoint that a training writes last, and the work since the one before a stop, are
// those of the end and not of the last scan before it.
func TestLastCheckpointAtTheEnd(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(nil)
		for a.epoch < 3 {
			if !a.step(6, 1) {
				return died("SIGTERM")
			}
		}
		a.checkpoint()
		a.epoch = 5
		a.report(map[string]any{"event": "progress", "training": 1, "step": a.epoch, "total_steps": 6, "step_seconds": 1})
		return finished
	})
	c := s.run().Record.Checkpoint
	if c == nil || c.Units != 3 || c.RiskUnits != 2 {
		t.Errorf("checkpoint %+v, want one of step 3, 2 before the end", c)
	}
}

// TestSaveOnRequestAndResume: a stop requests a save from the framework; the run is resumed with the script's own
// argument, again on a pseudo-terminal.
func TestSaveOnRequestAndResume(t *testing.T) {
	t.Parallel()
	for name, stripped := range map[string]bool{"": false, "beside a checkpoint that its end strips": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			saveOnRequestAndResume(t, stripped)
		})
	}
}

// saveOnRequestAndResume stops a training that saves on request, and resumes it. If stripped, it then writes and reports its own
// checkpoint again, as Ultralytics does at its end, without the state to resume from.
func saveOnRequestAndResume(t *testing.T, stripped bool) {
	var resumed []string
	s := observedStage(t, nil)
	s.cfg.PTY = true
	s.play = func(a *actor) launch.Exit {
		if i := slices.Index(a.command.Args, "--resume"); i >= 0 {
			resumed = append(resumed, a.command.Args[i+1])
			a.epoch = 3
		}
		a.begins(map[string]any{"can_save": true, "can_stop": true})
		for a.epoch < 6 {
			if !a.step(6, 1) {
				return died("SIGTERM")
			}
			if a.epoch == 3 && a.n == 1 {
				s.interrupts <- syscall.SIGINT
				if !s.wait("the request", func(Status) bool { return a.request() != nil }) {
					return failed(1)
				}
				path := a.checkpoint()
				if stripped {
					kept := filepath.Join(filepath.Dir(path), "optimize-epoch-3.pt")
					if err := os.Rename(path, kept); err != nil {
						t.Error(err)
					}
					a.checkpoint()
					path = kept
				}
				a.report(map[string]any{"event": "answer", "id": a.request()["id"], "op": "save_and_stop", "ok": true, "stopped": true, "path": path, "step": 3, "seconds": 0.1})
				return finished
			}
		}
		return finished
	}
	res := s.runWithSignals()
	if res.Code != CodeInterrupt || !strings.Contains(res.Record.Exit.Detail, "checkpoint saved") {
		t.Fatalf("exit %d, %+v; want 130 with a checkpoint", res.Code, res.Record.Exit)
	}
	if _, stops := s.started()[0].counts(); stops != 0 {
		t.Errorf("a job that left on request was stopped %d times", stops)
	}
	res = s.resume(res.Dir, Change{})
	want := map[bool]string{false: "ckpt_step_3.pt", true: "optimize-epoch-3.pt"}[stripped]
	if res.Code != CodeDone || len(resumed) != 1 || filepath.Base(resumed[0]) != want {
		t.Errorf("resumed with %q, exit %d (%v); want %s and 0", resumed, res.Code, res.Err, want)
	}
	if started := s.started(); len(started) != 2 || !started[0].command.PTY || !started[1].command.PTY {
		t.Error("a start had no pseudo-terminal")
	}
}

// TestFailedSaveOnRequest: a training whose framework cannot save on request is stopped by SIGTERM at once.
func TestFailedSaveOnRequest(t *testing.T) {
	t.Parallel()
	s := observedStage(t, nil)
	s.play = func(a *actor) launch.Exit {
		a.begins(map[string]any{"can_save": true, "can_stop": true})
		for a.epoch < 3 {
			a.step(6, 1)
		}
		s.interrupts <- syscall.SIGINT
		s.wait("the request", func(Status) bool { return a.request() != nil })
		a.report(map[string]any{"event": "answer", "id": a.request()["id"], "op": "save_and_stop", "ok": false, "reason": "NotImplementedError", "seconds": 0.1})
		<-a.stopped // the clock stands still
		return died("SIGTERM")
	}
	if res := s.runWithSignals(); res.Code != CodeInterrupt || res.Record.Exit.Signal == nil || len(s.said(Warning, "could not save on request")) != 1 {
		t.Errorf("exit %d, %+v", res.Code, res.Record.Exit)
	}
}

// TestFailureBeforeACheckpoint: a resumable training that fails before it has written a checkpoint is not started again
// without one, and its own exit code is reported.
func TestFailureBeforeACheckpoint(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(map[string]any{"can_save": true, "can_stop": true})
		for a.epoch < 3 {
			a.step(6, 1)
		}
		return failed(7)
	})
	if res := s.run(); res.Code != CodeTraining || len(s.started()) != 1 || res.Record.Exit.Code == nil || *res.Record.Exit.Code != 7 {
		t.Errorf("exit %d (%v) after %d starts, %+v", res.Code, res.Err, len(s.started()), res.Record.Exit)
	}
}

// TestRewoundJobIsStopped: a job that starts from scratch although it was given a checkpoint is stopped, and the
// reason is reported.
func TestRewoundJobIsStopped(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(nil)
		for a.epoch < 9 {
			if !a.step(9, 1) {
				return a.leave()
			}
			if a.epoch == 4 && a.n == 1 {
				a.checkpoint()
				if !a.step(9, 1) {
					return a.leave()
				}
				return died("SIGKILL")
			}
		}
		return finished
	})
	s.cfg.Restarts = -1
	res := s.run()
	if res.Code != CodeTraining {
		t.Fatalf("exit %d (%v), want the failure of the first start", res.Code, res.Err)
	}
	res = s.resume(res.Dir, Change{})
	if res.Code != CodeTraining || res.Err == nil || !strings.Contains(res.Err.Error(), "began again") {
		t.Errorf("exit %d (%v), want a failure that says that the job began again", res.Code, res.Err)
	}
	if _, stops := s.started()[1].counts(); stops == 0 {
		t.Error("the job went on")
	}
}

// TestReserveOfRanks: the ranks of a training save at a step that rank 0 chooses at least 2.5 s ahead, and at least four
// steps after the request, and their launcher may notice their end 5 s later; one process saves at its next step.
func TestReserveOfRanks(t *testing.T) {
	t.Parallel()
	for world, want := range map[int][2]float64{1: {1.7, 2}, 8: {14, 15}} {
		r := &run{observer: &observerClient{facts: observe.Facts{CanSave: true, CanStop: true, StepTime: 200 * time.Millisecond, WorldSize: world}}}
		r.Resumable = true
		if got := r.reserve().Seconds(); got < want[0] || got > want[1] {
			t.Errorf("%d ranks: reserve of %g s, want %g to %g", world, got, want[0], want[1])
		}
	}
}

// TestCheckpointOfUnknownPosition: a resumed job whose framework counts from the start of the process continues, although
// neither the name of its checkpoint nor a report tells what that contains.
func TestCheckpointOfUnknownPosition(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(map[string]any{"framework": "torch"})
		resumed := a.n > 1
		for a.epoch < 5 {
			if !a.step(9, 1) {
				return a.leave()
			}
		}
		if resumed {
			return finished
		}
		path, now := filepath.Join(a.stage.cfg.Dir, "ckpt.pt"), a.stage.clock.Now()
		if err := errors.Join(os.WriteFile(path, []byte("state"), 0o600), os.Chtimes(path, now, now)); err != nil {
			t.Error(err)
		}
		return died("SIGKILL")
	})
	s.cfg.Restarts = -1
	res := s.run()
	if res.Code != CodeTraining || res.Record.Checkpoint == nil {
		t.Fatalf("exit %d (%v), checkpoint %+v; want the failure of the first start, after a checkpoint", res.Code, res.Err, res.Record.Checkpoint)
	}
	if res = s.resume(res.Dir, Change{}); res.Code != CodeDone {
		t.Errorf("exit %d (%v) of the second start", res.Code, res.Err)
	}
}

// TestUnreportedSaveOfACheckpoint: a training that was killed between the replacement of its checkpoint and the report of that
// continues from the progress before the replacement, not from that of the last report.
func TestUnreportedSaveOfACheckpoint(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(map[string]any{"framework": "torch"})
		save := func() string {
			path, now := filepath.Join(a.stage.cfg.Dir, "ckpt.pt"), a.stage.clock.Now()
			if err := errors.Join(os.WriteFile(path, []byte("state"), 0o600), os.Chtimes(path, now, now)); err != nil {
				t.Error(err)
			}
			return path
		}
		for a.epoch < 5 {
			if a.n > 1 && a.epoch == 4 { // it counts from the start of the process
				return finished
			}
			if !a.step(9, 1) {
				return a.leave()
			}
			if a.n == 1 && a.epoch == 3 {
				a.report(map[string]any{"event": "checkpoint", "training": 1, "path": save(), "step": 3, "kind": "torch.save", "seconds": 0.1})
			}
		}
		save()
		return died("SIGKILL")
	})
	s.cfg.Restarts = -1
	res := s.run()
	if res.Code != CodeTraining {
		t.Fatalf("exit %d (%v), want the failure of the first start", res.Code, res.Err)
	}
	if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 9 {
		t.Errorf("exit %d (%v), %v steps; want 9", res.Code, res.Err, res.Record.Outcome.Steps)
	}
}

// TestAfterCheckpoint: the first pass of a training that continues within an epoch ends with that epoch.
func TestAfterCheckpoint(t *testing.T) {
	for _, c := range []struct {
		from       origin
		done, want float64
	}{
		{origin{"epoch", 3}, 0.5, 3.5}, {origin{"epoch", 3}, 2, 5}, {origin{"step", 7.5}, 3, 10.5},
		{origin{"epoch", 9.5}, 0, 9.5}, {origin{"epoch", 9.5}, 0.5, 9.75}, {origin{"epoch", 9.5}, 1, 10}, {origin{"epoch", 3.25}, 2.5, 5.5},
	} {
		if got := c.from.after(c.done); got != c.want {
			t.Errorf("%g after %+v: %g, want %g", c.done, c.from, got, c.want)
		}
	}
}

// TestStatedResumption: a training that continues by itself, as --resumable yes states, is counted from its newest checkpoint,
// although the observer counts from the start of the process.
func TestStatedResumption(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(map[string]any{"framework": "torch"})
		for a.epoch < 9 {
			if a.n > 1 && a.epoch == 4 {
				return finished
			}
			if !a.step(9, 1) {
				return a.leave()
			}
			if a.n == 1 && a.epoch == 5 {
				a.checkpoint()
				return died("SIGKILL")
			}
		}
		return finished
	})
	s.cfg.Resume, s.cfg.Knobs, s.cfg.Restarts = resumableYes, nil, -1
	res := s.run()
	if res.Code != CodeTraining {
		t.Fatalf("exit %d (%v), want the failure of the first start", res.Code, res.Err)
	}
	if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 9 || len(s.said(Warning, "began again")) > 0 {
		t.Errorf("exit %d (%v), %v steps; want 9: %q", res.Code, res.Err, res.Record.Outcome.Steps, s.said(Warning, ""))
	}
}

// TestCountedFromItsOwnCheckpoint: a training whose steps the observer counts from the start of the process, and which keeps its
// checkpoint itself, is counted on after a restart and remains resumable, also if its checkpoint is not recognised.
func TestCountedFromItsOwnCheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		file   string // not reported if it is not recognised
	}{
		"protocol":                 {byProtocol, "ckpt.pt"},
		"protocol, not recognised": {byProtocol, "content"},
		"stated, not recognised":   {"raise SystemExit('the test plays it')\n", "content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const total = 60
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(map[string]any{"framework": "torch"})
				from := 0
				if a.setting("OPTIMIZER_RESUME") == "1" {
					from = a.stage.saved
				}
				for from+a.epoch < total {
					if a.step(total, 10*(0.1+0.9/float64(a.command.Allocation.CPUs))) {
						continue
					}
					folder := a.setting("OPTIMIZER_CHECKPOINT_DIR")
					path, now := filepath.Join(folder, c.file), a.stage.clock.Now()
					if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(path, []byte("state"), 0o600), os.Chtimes(path, now, now)); err != nil {
						t.Error(err)
					}
					if c.file == "ckpt.pt" {
						a.report(map[string]any{"event": "checkpoint", "training": 1, "path": path, "step": a.epoch, "kind": "torch.save", "seconds": 0.1})
					}
					a.stage.clock.advance(at(0.5))
					a.stage.saved = from + a.epoch
					return left
				}
				return finished
			})
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(c.script), 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Resume, s.cfg.Knobs, s.cfg.Planner, s.cfg.CPUs = resumableYes, nil, "model", "1:4"
			res := s.run()
			rec := res.Record
			if res.Code != CodeDone || len(s.started()) < 2 || float64(rec.Outcome.Steps) != total || !*rec.Script.Resumable {
				t.Errorf("exit %d (%v) after %d starts, %v steps, resumable %t; want %d steps after several, resumable", res.Code, res.Err, len(s.started()), rec.Outcome.Steps, *rec.Script.Resumable, total)
			}
			if said := s.said(Warning, ""); len(said) > 0 || rec.Waste.Failed != 0 {
				t.Errorf("lost $%v, warnings %q; want neither", rec.Waste.Failed, said)
			}
		})
	}
}

// TestBeginsAgainByItsLog: a training that keeps its checkpoint itself and writes a log is found out by that if it begins again, and
// continues without further restarts.
func TestBeginsAgainByItsLog(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.stage.turn("the framework", func() { a.begins(map[string]any{"framework": "torch"}) }, func(_ Status, looks int) bool { return looks >= 2 })
		for a.epoch < 60 {
			if !a.work(60, 10*(0.1+0.9/float64(a.command.Allocation.CPUs))) {
				a.stage.clock.advance(at(0.5))
				return left
			}
		}
		return finished
	})
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(byProtocol), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cfg.Resume, s.cfg.Knobs, s.cfg.Planner, s.cfg.CPUs = resumableYes, nil, "model", "1:4"
	res := s.run()
	last := s.started()[len(s.started())-1]
	if res.Code != CodeDone || len(s.started()) < 2 || last.epoch != 60 || float64(res.Record.Outcome.Epochs) != 60 || len(s.said(Warning, "does not resume")) != 1 {
		t.Errorf("exit %d (%v) after %d starts, %v epochs: %q", res.Code, res.Err, len(s.started()), res.Record.Outcome.Epochs, s.said(Warning, ""))
	}
}

// TestSaveBeforeTheFirstStep: a training that saves what it has loaded before its first step, and is killed thereafter, continues
// from there.
func TestSaveBeforeTheFirstStep(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		save := func(report map[string]any) {
			path, now := filepath.Join(a.stage.cfg.Dir, "ckpt.pt"), a.stage.clock.Now()
			if err := errors.Join(os.WriteFile(path, []byte("state"), 0o600), os.Chtimes(path, now, now)); err != nil {
				t.Error(err)
			}
			report["event"], report["path"], report["kind"], report["seconds"] = "checkpoint", path, "torch.save", 0.1
			a.report(report)
		}
		a.starts()
		if a.n > 1 {
			save(map[string]any{})
		}
		a.report(map[string]any{"event": "training", "training": 1, "framework": "torch", "unit": "step", "world": 1})
		steps := map[int]int{1: 5, 2: 2, 3: 6}[a.n] // it counts from the start of the process
		for a.epoch < steps {
			if !a.step(9, 1) {
				return a.leave()
			}
			if a.n == 1 && a.epoch == 3 {
				save(map[string]any{"training": 1, "step": 3})
			}
		}
		if a.n == 3 {
			return finished
		}
		return died("SIGKILL")
	})
	s.cfg.Restarts = -1
	res := s.run()
	for life := 2; life <= 3; life++ {
		if res.Code != CodeTraining {
			t.Fatalf("exit %d (%v), want the failure of start %d", res.Code, res.Err, life-1)
		}
		res = s.resume(res.Dir, Change{})
	}
	if res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 9 {
		t.Errorf("exit %d (%v), %v steps; want 9", res.Code, res.Err, res.Record.Outcome.Steps)
	}
}

// TestStopsAfterItsLastCheckpoint: a job that cannot meet the deadline is stopped at its last checkpoint before the
// deadline, not at the deadline with unsaved work; not at weights, if the script reads progress from its checkpoint.
func TestStopsAfterItsLastCheckpoint(t *testing.T) {
	const script = `import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--resume", default="")
args = p.parse_args()
start = 0
if args.resume:
    start = torch.load(args.resume)["epoch"]
`
	for _, weights := range []bool{false, true} {
		t.Run(fmt.Sprint("weights ", weights), func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 1000 {
					if !a.step(1000, 1) {
						return a.leave()
					}
					if a.epoch%10 == 0 {
						if !weights {
							a.checkpoint()
							continue
						}
						a.report(map[string]any{"event": "checkpoint", "training": 1, "path": a.checkpointPath("."), "step": a.epoch, "kind": "test", "seconds": 0.1, "weights": true})
						a.save(".") // after the report: the agent may look at any time
					}
				}
				return finished
			})
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			s.cfg.Knobs = nil
			s.cfg.Planner, s.cfg.SLA.TimeMax = "model", at(46)
			res := s.run()
			if res.Code != CodeGuard || strings.Contains(res.Record.Exit.Detail, "next checkpoint") == weights {
				t.Fatalf("exit %d (%v) %+v, want 4 at a checkpoint", res.Code, res.Err, res.Record.Exit)
			}
			if weights {
				return
			}
			if c := res.Record.Checkpoint; c == nil || float64(c.RiskUnits) > 2 || float64(c.Units) != 40 {
				t.Errorf("checkpoint %+v after %v s, want that of step 40 and next to nothing lost", c, res.Record.Outcome.Seconds)
			}
		})
	}
}

// TestRefusedResumeChangesNothing: a resume without a checkpoint, or without the script, is refused, and the record is
// unchanged byte for byte.
func TestRefusedResumeChangesNothing(t *testing.T) {
	for name, saves := range map[string]bool{"no checkpoint": false, "no script": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusedResume(t, saves)
		})
	}
}

func refusedResume(t *testing.T, saves bool) {
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(nil)
		a.step(9, 1)
		if saves {
			a.checkpoint()
			a.step(9, 1)
		}
		return failed(9)
	})
	res := s.run()
	if saves {
		if err := os.Remove(filepath.Join(s.cfg.Dir, "train.py")); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(filepath.Join(res.Dir, journal.RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	if res := s.resume(res.Dir, Change{}); res.Code != CodeUsage || saves != strings.Contains(fmt.Sprint(res.Err), "train.py: no such file") {
		t.Errorf("exit %d (%v), want 2", res.Code, res.Err)
	}
	after, _ := os.ReadFile(filepath.Join(res.Dir, journal.RecordFile))
	if string(before) != string(after) {
		t.Error("a refused resume rewrote the record")
	}
}

// TestSlowFirstEpochsAreNoReason: three slow epochs do not stop a job that meets its deadline; a hopeless one is
// stopped after half of the deadline, unless the user consented.
func TestSlowFirstEpochsAreNoReason(t *testing.T) {
	for name, c := range map[string]struct {
		pace   func(epoch int) float64
		anyway bool
		code   Code
		resume string
	}{
		"slow first epochs": {func(e int) float64 {
			if e < 3 {
				return 5
			}
			return 0.3
		}, false, CodeDone, ""},
		"hopeless":                          {func(int) float64 { return 5 }, false, CodeInfeasible, ""},
		"hopeless, with --yes":              {func(int) float64 { return 5 }, true, CodeGuard, ""},
		"hopeless, a checkpoint may follow": {func(int) float64 { return 5 }, false, CodeGuard, "--resume {path}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.epoch < 30 {
					if !a.work(30, c.pace(a.epoch)) {
						return a.leave()
					}
				}
				return finished
			})
			s.cfg.Resume, s.cfg.Planner, s.cfg.CPUs = resumableNo, "model", "1:2"
			s.cfg.SLA.TimeMax, s.cfg.Anyway = at(45), c.anyway
			if c.resume != "" {
				s.cfg.Resume, s.cfg.Knobs = resumableAuto, map[string]string{"resume": c.resume}
			}
			res := s.run()
			if res.Code != c.code {
				t.Errorf("exit %d (%v) after %v s, want %d", res.Code, res.Err, res.Record.Outcome.Seconds, c.code)
			}
			if used := float64(res.Record.Outcome.Seconds); c.code == CodeInfeasible && (used < 22 || used > 35) {
				t.Errorf("stopped after %g s of 45", used)
			}
		})
	}
}

// TestHopelessWithCheckpoints: a job that writes checkpoints runs to the deadline that it cannot meet, although it is not known
// how it would continue: its user may know.
func TestHopelessWithCheckpoints(t *testing.T) {
	for saves, want := range map[bool]Code{false: CodeInfeasible, true: CodeGuard} {
		t.Run(fmt.Sprint(saves), func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 30 {
					if !a.step(30, 5) {
						return a.leave()
					}
					if saves {
						a.checkpoint()
					}
				}
				return finished
			})
			s.cfg.Resume, s.cfg.Knobs, s.cfg.Planner, s.cfg.CPUs, s.cfg.SLA.TimeMax = resumableNo, nil, "model", "1:2", at(45)
			if res := s.run(); res.Code != want {
				t.Errorf("exit %d (%v) after %v s, want %d", res.Code, res.Err, res.Record.Outcome.Seconds, want)
			}
		})
	}
}

// runWithSignals is run with the stage's signals.
func (s *stage) runWithSignals() Result {
	s.interrupts = make(chan os.Signal, 2)
	return s.agent().Run(s.t.Context(), s.cfg, s.interrupts)
}
