package run

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
)

// TestRunDirectoryFails: the run directory becomes unwritable, at the start or later. Training and guard
// continue, and a single warning reports it.
func TestRunDirectoryFails(t *testing.T) {
	for name, c := range map[string]struct {
		later   bool
		budget  float64
		code    Code
		seconds float64
	}{
		"from the start, to the end of the job": {false, 0, CodeDone, 10},
		"from the start, until the budget":      {false, 0.006, CodeGuard, 5},
		"later, to the end of the job":          {true, 0, CodeDone, 10},
		"later, until the budget":               {true, 0.006, CodeGuard, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *stage
			fail := func(dir string) { // a file in place of the directory: writing fails for root too
				if err := os.Rename(dir, filepath.Join(s.cfg.Dir, "moved")); err != nil {
					t.Error(err)
				}
				if err := os.WriteFile(dir, nil, 0o644); err != nil {
					t.Error(err)
				}
			}
			s = newStage(t, func(a *actor) launch.Exit {
				for a.epoch < 10 {
					if c.later && a.epoch == 3 {
						fail(a.command.RunDir)
					}
					if !a.work(10, 1) {
						return a.leave()
					}
				}
				return finished
			})
			if !c.later {
				s.onStart = func(_ int, c launch.Command) { fail(c.RunDir) }
			}
			s.cfg.Log = filepath.Join(s.cfg.Dir, "log.csv")
			s.cfg.SLA.CostMaxUSD = c.budget
			s.cfg.Warn = []float64{}
			res := s.run()
			if res.Code != c.code {
				t.Errorf("exit %d (%v), want %d", res.Code, res.Err, c.code)
			}
			wantSpent(t, res.Record, c.seconds)
			if got := float64(res.Record.Outcome.Epochs); got != c.seconds {
				t.Errorf("%g epochs of 1 s were seen, want %g", got, c.seconds)
			}
			if w := s.said(Warning, "the training continues"); len(w) != 1 {
				t.Errorf("%d warnings of the failing directory, want 1: %q", len(w), w)
			}
			if w := s.said(Problem, "run.json"); len(w) != 1 {
				t.Errorf("%d words on the record that could not be kept, want 1: %q", len(w), w)
			}
			// The agent may look for output in the directory before the first row of the log.
			if all, early := s.said(Warning, filepath.Join(s.cfg.StateDir, "runs")), s.said(Warning, "poll training log"); len(all)-len(early) != 2 || len(early) > 1 {
				t.Errorf("%d warnings of the directory: %q", len(all), all)
			}
		})
	}
}

// TestStateDirectoryRemoved: the state directory, which contains the log, is removed while the job runs. The final
// progress is then unknown, and not the last that was read.
func TestStateDirectoryRemoved(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 3 {
			a.work(10, 1)
		}
		for deadline := time.Now().Add(patience); os.RemoveAll(a.stage.cfg.StateDir) != nil && time.Now().Before(deadline); {
		} // the agent may write a file meanwhile
		a.stage.clock.advance(at(7))
		return finished
	})
	res := s.run()
	if res.Code != CodeDone || res.Record.Outcome.Epochs.Known() || res.Record.Comparison.SecondsChangePct.Known() {
		t.Errorf("exit %d (%v), %v epochs, change %v; want 0 and unknown", res.Code, res.Err, res.Record.Outcome.Epochs, res.Record.Comparison.SecondsChangePct)
	}
	if w := s.said(Warning, "the training ended with"); len(w) != 0 {
		t.Errorf("%q", w)
	}
	if w := s.said(Warning, "was removed during the run: 3 of 10 epochs"); len(w) != 1 {
		t.Errorf("warnings %q, want one of the removed log", s.said(Warning, ""))
	}
}

// TestJobEndedUnseen: the job has ended, and its exit has not arrived yet, as after a suspended agent wakes. Nothing is
// sampled of the job or asked of it meanwhile.
func TestJobEndedUnseen(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 10 {
			a.work(10, 1)
		}
		if err := os.WriteFile(filepath.Join(a.command.RunDir, "exit.json"), []byte(`{"schema": 1}`), 0o600); err != nil {
			t.Error(err)
		}
		_, before := a.stage.seen()
		a.stage.clock.advance(time.Hour) // beyond the deadline
		for range 3 {                    // each is taken after the one before
			a.stage.ticks <- time.Time{}
		}
		if _, after := a.stage.seen(); after > before+1 { // one was in progress
			t.Errorf("%d looks after the end of the job", after-before)
		}
		return finished
	})
	s.cfg.SLA.TimeMax, s.cfg.Warn = time.Minute, []float64{}
	res := s.run()
	if res.Record.State != journal.Done || len(s.said(Warning, "")) > 0 {
		t.Errorf("%s (%v), warnings %q; want done without a warning", res.Record.State, res.Err, s.said(Warning, ""))
	}
	if asks, stops := s.started()[0].counts(); asks+stops > 0 {
		t.Errorf("asked %d times to save and %d times to stop", asks, stops)
	}
}

// TestOutputNotWritten: the disk was full when the job printed its last epochs. The final progress is then unknown.
func TestOutputNotWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost  int64
		known bool
	}{"a part is missing": {100, false}, "all was written": {0, true}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(a *actor) launch.Exit {
				f, err := os.Create(filepath.Join(a.command.RunDir, "job.stdout"))
				if err != nil {
					t.Error(err)
					return failed(1)
				}
				defer f.Close()
				for e := 1; e <= 3; e++ {
					a.stage.turn(fmt.Sprintf("epoch %d", e), func() {
						a.stage.clock.advance(time.Second)
						fmt.Fprintf(f, "Epoch %d/10 loss %g\n", e, 1/float64(e))
					}, func(st Status, _ int) bool { return st.Done >= float64(e) })
				}
				exit := finished
				exit.LostBytes = c.lost
				return exit
			})
			res := s.run()
			if res.Code != CodeDone || res.Record.Outcome.Epochs.Known() != c.known || len(s.said(Warning, "the rest is unknown")) > 0 == c.known {
				t.Errorf("exit %d (%v), %v epochs, warnings %q; want a known end: %t", res.Code, res.Err, res.Record.Outcome.Epochs, s.said(Warning, ""), c.known)
			}
		})
	}
}

// TestSilentOutput: a program other than Python that has written nothing for a while is advised a pseudo-terminal, once.
func TestSilentOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seconds float64
		output  string
		python  bool
		advised int
	}{
		"silent": {60, "", false, 1}, "short": {10, "", false, 0}, "text": {60, "hello\n", false, 0}, "Python": {60, "", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for _, stream := range []string{"job.stdout", "job.stderr"} {
					if err := os.WriteFile(filepath.Join(a.command.RunDir, stream), []byte(c.output), 0o600); err != nil {
						t.Error(err)
					}
				}
				if c.python {
					a.report(map[string]any{"event": "start"})
				}
				for range 3 {
					a.stage.turn("three looks", func() { a.stage.clock.advance(at(c.seconds / 3)) }, func(_ Status, looks int) bool { return looks == 3 })
				}
				return finished
			})
			s.cfg.Observe = "auto"
			s.run()
			if said := s.said(Info, "--pty"); len(said) != c.advised {
				t.Errorf("advised %q, want %d", said, c.advised)
			}
		})
	}
}

// TestResumeOfAMovedStateDirectory: a run resumes after its state directory was moved, with the rows that it had read.
func TestResumeOfAMovedStateDirectory(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(8, 1))
	s.cfg.SLA.TimeMax, s.cfg.Warn = 5*time.Second, []float64{}
	first := s.run()
	if first.Code != CodeGuard {
		t.Fatalf("exit %d (%v), want %d", first.Code, first.Err, CodeGuard)
	}
	moved := s.cfg.StateDir + "-moved"
	if err := os.Rename(s.cfg.StateDir, moved); err != nil {
		t.Fatal(err)
	}
	res := s.resume(filepath.Join(moved, "runs", first.Record.RunID), Change{TimeMax: time.Hour})
	if res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != 8 || res.Record.Outcome.Rows != 8 {
		t.Errorf("exit %d (%v) after %v epochs in %d rows, want 0, 8, 8: %q", res.Code, res.Err, res.Record.Outcome.Epochs, res.Record.Outcome.Rows, s.said(Warning, ""))
	}
}
