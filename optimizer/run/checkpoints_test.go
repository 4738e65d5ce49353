package run

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
)

// TestManyNamesOfCheckpoints: the stored state of a training that saves under a new name each time, and removes the file, does not
// grow with the number of saves. What is known of the present files remains, whenever they were saved, and so does the newest save.
func TestManyNamesOfCheckpoints(t *testing.T) {
	t.Parallel()
	const saves = 5000
	var newest string
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(nil)
		if a.n > 1 {
			a.epoch = 1
		}
		save := func(path string, weights bool) {
			a.report(map[string]any{"event": "checkpoint", "training": 1, "path": path, "step": a.epoch, "kind": "test", "weights": weights})
		}
		for a.step(20, 1) {
			switch {
			case a.n > 1 && a.epoch == 20:
				return finished
			case a.n > 1:
			case a.epoch == 1:
				save(a.stage.save("first.x", "state"), false)
				save(a.stage.save("model.pt", "weights"), true)
				save(a.stage.save("checkpoint-1/part.x", "state"), false)
			case a.epoch <= 11:
				for i := range saves / 10 {
					newest = filepath.Join(a.stage.cfg.Dir, fmt.Sprintf("episode_%d.pt", (a.epoch-2)*saves/10+i))
					save(newest, i%2 == 0)
				}
			case a.epoch == 13:
				return failed(1)
			}
		}
		return died("SIGTERM")
	})
	if err := os.Mkdir(filepath.Join(s.cfg.Dir, "checkpoint-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	res := s.run()
	dir, err := journal.Open(res.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var seen observed
	if _, err := dir.LoadState(&seen); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(res.Dir, "state")); err != nil || st.Size() > 300_000 {
		t.Errorf("after %d saves the state has %d bytes (%v)", saves, st.Size(), err)
	}
	for name, position := range map[string]float64{"first.x": 1, "model.pt": 1, "checkpoint-1/part.x": 1, filepath.Base(newest): 11} {
		path := filepath.Join(s.cfg.Dir, name)
		if have, ok := seen.Positions[path]; !ok || have != position || seen.SavedAt[path].IsZero() || seen.Weights[path] != (name == "model.pt") {
			t.Errorf("%s: position %g (%t) of %v, weights %t; want %g", name, have, ok, seen.SavedAt[path], seen.Weights[path], position)
		}
	}
	if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 20 {
		t.Fatalf("exit %d (%v), %v steps", res.Code, res.Err, res.Record.Outcome.Steps)
	}
	if on := s.started(); len(on) != 2 || !slices.ContainsFunc(on[1].command.Args, func(a string) bool { return filepath.Base(a) == "first.x" }) {
		t.Errorf("started %d jobs, the last as %q, want it to resume from first.x", len(on), on[len(on)-1].command.Args)
	}
}

// TestForgetsRemovedDuringAJob: while no job runs, the file system of the checkpoints may not be mounted, and all reports are kept.
func TestForgetsRemovedDuringAJob(t *testing.T) {
	dir := t.TempDir()
	r := &run{}
	r.Positions, r.SavedAt, r.Weights = map[string]float64{}, map[string]time.Time{}, map[string]bool{}
	for i := range 2 * keptReports {
		path := filepath.Join(dir, fmt.Sprintf("episode_%d.pt", i))
		r.Positions[path], r.SavedAt[path], r.Weights[path] = float64(i), time.Unix(int64(i), 0), true
		if i >= keptReports {
			r.checkpoints.latest = append(r.checkpoints.latest, path)
		}
	}
	for _, c := range []struct {
		job  launch.Job
		want int
	}{{nil, 2 * keptReports}, {&actor{}, keptReports}} {
		r.job = c.job
		r.forgetRemoved(nil)
		if len(r.Positions) != c.want || len(r.SavedAt) != c.want || len(r.Weights) != c.want {
			t.Errorf("job %v: %d positions, %d times, %d of weights are kept, want %d", c.job != nil, len(r.Positions), len(r.SavedAt), len(r.Weights), c.want)
		}
	}
	for _, path := range r.checkpoints.latest {
		if !r.Weights[path] || r.SavedAt[path].IsZero() {
			t.Fatalf("%s of the latest saves is forgotten", path)
		}
	}
}

// slowClock is a clock that advances at each reading.
type slowClock struct {
	*hand
	reading time.Duration
}

func (c slowClock) Monotonic() time.Duration {
	c.advance(c.reading)
	return c.hand.Monotonic()
}

// TestScanAtAReport: a report leads to a scan at once, but not while scans would take more than 2 % of the time.
func TestScanAtAReport(t *testing.T) {
	for name, c := range map[string]struct {
		reading time.Duration
		atOnce  int // number of checkpoints found by the scan after the report
	}{"fast": {0, 1}, "slow": {100 * time.Millisecond, 0}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			agent := s.agent()
			agent.Clock = slowClock{s.clock, c.reading}
			r := newRun(agent, s.cfg)
			r.rec = journal.NewRecord()
			var err error
			if r.dir, err = journal.Create(s.cfg.StateDir, "run"); err != nil {
				t.Fatal(err)
			}
			reports := t.TempDir()
			r.observer = &observerClient{observed: &r.observed, clock: agent.Clock, reader: observe.NewReader(reports)}
			r.openCheckpoints()
			r.scanCheckpoints(false)
			line := fmt.Sprintf(`{"event":"checkpoint","pid":7,"training":1,"path":%q,"step":2,"kind":"test","mono":2}`+"\n", s.save("ckpt_2.pt", "state"))
			if err := os.WriteFile(filepath.Join(reports, "7.jsonl"), []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			r.observer.pollAll()
			for _, want := range []int{c.atOnce, 1} {
				r.observe()
				r.scanCheckpoints(false)
				if have := len(r.checkpoints.files); have != want {
					t.Errorf("%d checkpoints, want %d", have, want)
				}
				s.clock.advance(100 * c.reading)
			}
		})
	}
}

// TestCheckpointOfAnInstalledCommand: a command without a readable script, the resume argument of which its user names, continues from
// the newest checkpoint, be it a directory of Hugging Face or a file.
func TestCheckpointOfAnInstalledCommand(t *testing.T) {
	for name, files := range map[string][]string{
		"directories": {"checkpoint-2", "checkpoint-4"}, "a directory": {"ckpt_step_2.pt", "checkpoint-4"}, "a file": {"checkpoint-2", "ckpt_step_4.pt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			save := func(a *actor, name string) {
				path := filepath.Join(s.cfg.Dir, name)
				if strings.HasPrefix(name, "checkpoint-") {
					if err := os.Mkdir(path, 0o700); err != nil {
						t.Error(err)
					}
					s.save(filepath.Join(name, "model.safetensors"), "state")
					s.save(filepath.Join(name, "trainer_state.json"), fmt.Sprintf(`{"global_step": %d}`, a.epoch))
					now := s.clock.Now()
					os.Chtimes(path, now, now)
				} else {
					s.save(name, "state")
				}
				a.report(map[string]any{"event": "checkpoint", "training": 1, "path": path, "step": a.epoch, "kind": "test", "seconds": 0.1})
			}
			s.play = func(a *actor) launch.Exit {
				a.begins(nil)
				if a.n > 1 {
					a.epoch = 4
				}
				for a.epoch < 9 && a.step(9, 1) {
					if a.n == 1 && a.epoch%2 == 0 {
						save(a, files[a.epoch/2-1])
					}
					if a.n == 1 && a.epoch == 4 {
						return failed(1)
					}
				}
				return finished
			}
			s.cfg.Train, s.cfg.Args = "", []string{"python3", "-m", "installed.train"}
			res := s.run()
			want := filepath.Join(s.cfg.Dir, files[1])
			if c := res.Record.Checkpoint; res.Code != CodeTraining || c == nil || c.Path != want {
				t.Fatalf("exit %d (%v), checkpoint %+v, want %s", res.Code, res.Err, c, want)
			}
			if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 9 {
				t.Fatalf("exit %d (%v), %v steps; want 9", res.Code, res.Err, res.Record.Outcome.Steps)
			}
			if on := s.started(); !slices.Contains(on[1].command.Args, want) {
				t.Errorf("started with %q, want %s", on[1].command.Args, want)
			}
		})
	}
}

// TestPositionInAnotherUnit: when the unit of work changes from steps to epochs at the end of the first epoch, the position of an
// earlier checkpoint is that of its report in epochs; without one it is unknown.
func TestPositionInAnotherUnit(t *testing.T) {
	for name, c := range map[string]struct {
		epoch any
		want  float64
	}{"reported": {0.5, 0.5}, "unknown": {nil, math.NaN()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 39 {
					if a.progress(1, map[string]any{"step": a.epoch + 1}); a.epoch == 20 {
						a.report(map[string]any{"event": "checkpoint", "training": 1, "path": a.stage.save("ckpt.pt", "state"), "step": 20, "epoch": c.epoch, "kind": "test", "seconds": 0.1})
					}
				}
				a.progress(1, map[string]any{"step": 40, "epoch": 1, "total_epochs": 12})
				return failed(1)
			})
			rec := s.run().Record
			known := !math.IsNaN(c.want)
			switch at := rec.Checkpoint; {
			case rec.Training.Unit != "epoch" || float64(rec.Outcome.Epochs) != 1 || float64(rec.Training.TotalUnits) != 12:
				t.Errorf("%v of %v %ss, want 1 of 12 epochs", rec.Outcome.Epochs, rec.Training.TotalUnits, rec.Training.Unit)
			case at == nil || at.Units.Known() != known || at.RiskUnits.Known() != known:
				t.Errorf("checkpoint %+v, want one at %g epochs", at, c.want)
			case known && (float64(at.Units) != c.want || float64(at.RiskUnits) != 1-c.want):
				t.Errorf("checkpoint of %v epochs, %v before the end; want %g", at.Units, at.RiskUnits, c.want)
			}
		})
	}
}

// TestSavesFasterThanReports: a training that was killed after saves that were not reported is counted from the epoch at which it
// continues, by what it prints; not if it does not print each epoch, nor if its checkpoint is the reported one.
func TestSavesFasterThanReports(t *testing.T) {
	const total = 9
	for name, c := range map[string]struct {
		every    int  // it prints each n-th epoch
		replaced bool // by the saves after the report
		atOnce   bool // nothing is read before it ends
		want     float64
	}{
		"each epoch": {1, true, false, total}, "each epoch, at once": {1, true, true, total}, "each second one": {2, true, false, 7}, "the reported checkpoint": {1, false, false, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			trains := func(a *actor, epoch int, reports bool) bool {
				facts := map[string]any{"event": "progress", "training": 1, "epoch": a.epoch + 1}
				switch {
				case reports && c.atOnce && a.n > 1:
					a.epoch++
					s.clock.advance(time.Second)
					a.report(facts)
				case !reports:
					s.clock.advance(time.Second)
				case !a.progress(1, facts):
					return false
				}
				if (epoch-1)%c.every > 0 {
					return true
				}
				out, err := os.OpenFile(filepath.Join(a.command.RunDir, "job.stdout"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
				if err == nil {
					_, err = fmt.Fprintf(out, "Epoch %d loss %g\n", epoch, 1/float64(epoch))
					err = errors.Join(err, out.Close())
				}
				if err != nil {
					t.Error(err)
				}
				return true
			}
			s.play = func(a *actor) launch.Exit {
				a.begins(map[string]any{"framework": "torch"})
				if a.n > 1 { // it counts from the start of the process
					if c.atOnce {
						s.turns.Lock()
						defer s.turns.Unlock()
					}
					for a.epoch < 4 && trains(a, 6+a.epoch, true) {
					}
					return finished
				}
				for a.epoch < 3 && trains(a, 1+a.epoch, true) {
				}
				a.report(map[string]any{"event": "checkpoint", "training": 1, "path": s.save("ckpt.pt", "state"), "step": 3, "epoch": 3, "kind": "torch.save", "seconds": 0.1})
				for epoch := 4; epoch <= 5; epoch++ {
					if trains(a, epoch, false); c.replaced {
						s.save("ckpt.pt", "state")
					}
				}
				return died("SIGKILL")
			}
			s.cfg.Restarts, s.cfg.Epochs = -1, total
			res := s.run()
			if res.Code != CodeTraining {
				t.Fatalf("exit %d (%v), want the failure of the first start", res.Code, res.Err)
			}
			if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != c.want {
				t.Errorf("exit %d (%v), %v epochs; want %g", res.Code, res.Err, res.Record.Outcome.Epochs, c.want)
			}
		})
	}
}

// TestWorkAfterACheckpoint: a training that is resumed from a checkpoint of unknown position is counted from the progress at the time
// of that, so that the work that it repeats counts once.
func TestWorkAfterACheckpoint(t *testing.T) {
	for name, reported := range map[string]bool{"not reported": false, "replaced after its report": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(map[string]any{"framework": "torch"})
				steps := map[int]int{1: 6, 2: 5}[a.n] // it counts from the start of the process
				for a.epoch < steps && a.step(9, 1) {
					if a.n == 1 && a.epoch == 2 && reported {
						a.report(map[string]any{"event": "checkpoint", "training": 1, "path": a.stage.save("ckpt.pt", "state"), "step": 2, "kind": "torch.save", "seconds": 0.1})
					}
					if a.n == 1 && a.epoch == 4 {
						a.stage.save("ckpt.pt", "state")
					}
				}
				if a.n == 1 {
					return died("SIGKILL")
				}
				return finished
			})
			s.cfg.Restarts = -1
			res := s.run()
			if res.Code != CodeTraining {
				t.Fatalf("exit %d (%v), want the failure of the first start", res.Code, res.Err)
			}
			s.clock.advance(time.Hour)
			before := res.Record.Checkpoint
			if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 9 {
				t.Errorf("exit %d (%v), %v steps; want 9", res.Code, res.Err, res.Record.Outcome.Steps)
			}
			if c := res.Record.Checkpoint; before == nil || c == nil || math.Abs(float64(c.AtS-before.AtS)) > 1 {
				t.Errorf("checkpoint %+v after a pause of an hour, want the time of %+v", c, before)
			}
		})
	}
}

// TestProgressAt: between two points the progress is proportional to the time, also after older ones were dropped; between two launches
// it is that of the first one.
func TestProgressAt(t *testing.T) {
	var f facts
	second := func(s float64) time.Time { return time.Unix(0, 0).Add(at(s)) }
	f.Progress.Done = 7
	if got := f.progressAt(second(5)); got != 7 {
		t.Errorf("without points: %g, want the present progress", got)
	}
	for s := range 2001 {
		f.Progress.Done = float64(min(2*s, 1000))
		f.noteProgress(second(float64(s)))
	}
	f.Progress.Done = 400
	f.noteProgress(second(3000))
	if len(f.Course) > maxCourse {
		t.Errorf("%d points", len(f.Course))
	}
	for s, want := range map[float64]float64{-1: 0, 0: 0, 0.5: 1, 250.25: 500.5, 498.5: 997, 500: 1000, 1200: 1000, 2500: 1000, 3000: 400, 4000: 400} {
		if got := f.progressAt(second(s)); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %g s: %g, want %g", s, got, want)
		}
	}
}
