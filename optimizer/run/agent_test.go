package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/internal/conformance"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// wantSpent checks the cost and time of a run at $0.001 per second.
func wantSpent(t *testing.T, rec *journal.Record, seconds float64) {
	t.Helper()
	if got := float64(rec.Outcome.Seconds); math.Abs(got-seconds) > 1e-6 {
		t.Errorf("the run took %g s, want %g", got, seconds)
	}
	if got := float64(rec.Outcome.CostUSD); math.Abs(got-seconds*0.001) > 1e-9 {
		t.Errorf("it cost $%g, want $%g", got, seconds*0.001)
	}
}

// TestAgentRunsAJob: a complete run without incidents, by the stage's clock.
func TestAgentRunsAJob(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(6, 2))
	res := s.run()
	if res.Code != CodeDone || res.Record.State != journal.Done || float64(res.Record.Outcome.Epochs) != 6 || res.Record.Outcome.Rows != 6 {
		t.Errorf("exit %d (%v), %s after %v epochs in %d rows, want 0, done, 6, 6", res.Code, res.Err, res.Record.State, res.Record.Outcome.Epochs, res.Record.Outcome.Rows)
	}
	wantSpent(t, res.Record, 12)
	if thr := float64(res.Record.Outcome.Throughput); math.Abs(thr-50) > 1e-6 {
		t.Errorf("throughput %g samples/s of 100 samples in 2 s", thr)
	}
	if n := len(s.said(Warning, "")); n > 0 {
		t.Errorf("%d warnings: %q", n, s.said(Warning, ""))
	}
	on := s.started()[0]
	if on.setting("OPTIMIZER_RESUME") == "1" || on.setting("OPTIMIZER_NUM_CPUS") != "1" && on.setting("OMP_NUM_THREADS") != "1" {
		t.Errorf("environment of a first start on one CPU: %q", on.command.Env)
	}
	data, err := os.ReadFile(filepath.Join(res.Dir, journal.RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.ValidateRecord(data); err != nil {
		t.Error(err)
	}
}

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

// TestTwoAgents: the second agent on a run directory is refused with an error that names the first, which is
// unaffected.
func TestTwoAgents(t *testing.T) {
	t.Parallel()
	var s *stage
	var second Result
	s = newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 4 {
			if !a.work(4, 1) {
				return a.leave()
			}
			if a.epoch == 2 {
				second = s.resume(a.command.RunDir, Change{})
			}
		}
		return finished
	})
	res := s.run()
	var locked *journal.LockedError
	if second.Code != CodeOurs || !errors.As(second.Err, &locked) {
		t.Fatalf("the second agent: exit %d, %v; want %d, in use", second.Code, second.Err, CodeOurs)
	}
	if want := fmt.Sprintf("process %d", os.Getpid()); !strings.Contains(second.Err.Error(), want) {
		t.Errorf("%q does not name the first, %s", second.Err, want)
	}
	if res.Code != CodeDone || len(s.started()) != 1 {
		t.Errorf("the first agent: exit %d after %d starts, want 0 after 1", res.Code, len(s.started()))
	}
	wantSpent(t, res.Record, 4)
	after, err := journal.ReadRecord(res.Dir)
	if err != nil || after.State != journal.Done {
		t.Errorf("the record says %v (%v), want done", after, err)
	}
}

// TestClockSteps: steps of the wall clock change neither time nor cost nor a deadline.
func TestClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{"an hour back": -time.Hour, "a day forward": 24 * time.Hour} {
		for end, deadline := range map[string]time.Duration{"to the end of the job": 15 * time.Second, "until the deadline": 8 * time.Second} {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				var s *stage
				s = newStage(t, func(a *actor) launch.Exit {
					for a.epoch < 10 {
						if a.epoch == 3 {
							s.clock.step(step)
						}
						if !a.work(10, 1) {
							return a.leave()
						}
					}
					return finished
				})
				s.cfg.SLA = sla.Spec{TimeMax: deadline, CostMaxUSD: 0.1}
				s.cfg.Warn = []float64{}
				res := s.run()
				seconds, code := 10.0, CodeDone
				if deadline < 10*time.Second {
					seconds, code = 7, CodeGuard // the checkpoint gets a second
				}
				if res.Code != code || code == CodeGuard && res.Record.Exit.Reason != "deadline" {
					t.Errorf("exit %d %+v (%v), want %d", res.Code, res.Record.Exit, res.Err, code)
				}
				wantSpent(t, res.Record, seconds)
				if thr := float64(res.Record.Outcome.Throughput); math.Abs(thr-100) > 1e-6 {
					t.Errorf("throughput %g samples/s of 100 samples a second", thr)
				}
			})
		}
	}
}

// TestResumeRefused: a run whose deadline has passed or whose budget is spent is not resumed and stays
// unchanged; with higher limits it resumes from its checkpoint with the time and money already used.
func TestResumeRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec   sla.Spec
		reason string
		more   Change
	}{
		"budget":   {sla.Spec{CostMaxUSD: 0.005}, "budget", Change{CostMaxUSD: 1}},
		"deadline": {sla.Spec{TimeMax: 5 * time.Second}, "deadline", Change{TimeMax: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.begin(); a.epoch < 10; {
					if !a.work(10, 1) {
						s := a.stage
						if a.n == 1 {
							s.clock.advance(1100 * time.Millisecond) // saving takes longer than estimated
						}
						return a.leave()
					}
				}
				return finished
			})
			s.cfg.SLA, s.cfg.Warn = c.spec, []float64{}
			first := s.run()
			if first.Code != CodeGuard || first.Record.Exit.Reason != c.reason {
				t.Fatalf("exit %d %+v (%v), want %d by the %s", first.Code, first.Record.Exit, first.Err, CodeGuard, c.reason)
			}
			if limit := s.started()[0].limit; limit < 900*time.Millisecond || limit > time.Second { // else the supervisor would interrupt the save
				t.Errorf("after the request to save, the supervisor's limit was %v ahead, want the rest of 1 s", limit)
			}
			refused := s.resume(first.Dir, Change{})
			if refused.Code != CodeUsage || refused.Err == nil || !strings.Contains(refused.Err.Error(), c.reason) {
				t.Errorf("resume: exit %d, %v; want %d and the %s", refused.Code, refused.Err, CodeUsage, c.reason)
			}
			if n := len(s.started()); n != 1 {
				t.Errorf("the job was started %d times", n)
			}
			if rec, err := journal.ReadRecord(first.Dir); err != nil || rec.State != journal.Stopped || rec.Exit == nil || rec.Exit.Reason != c.reason {
				t.Errorf("after the refusal the record is %+v (%v), want stopped by the %s", rec, err, c.reason)
			}
			s.clock.advance(time.Hour) // nothing ran: the outage counts as neither time nor money of the run
			res := s.resume(first.Dir, c.more)
			if res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != 10 || res.Record.Outcome.Rows != 10 {
				t.Errorf("with more: exit %d (%v) after %v epochs in %d rows, want 0, 10, 10", res.Code, res.Err, res.Record.Outcome.Epochs, res.Record.Outcome.Rows)
			}
			wantSpent(t, res.Record, 11.1)
		})
	}
}

// TestInfeasible: if earlier runs show that a limit cannot be met, nothing is started, and the error names the
// limits that would suffice.
func TestInfeasible(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(12, 2))
	s.cfg.Planner = "model"
	if res := s.run(); res.Code != CodeDone {
		t.Fatalf("exit %d (%v)", res.Code, res.Err)
	}
	s.cfg.SLA = sla.Spec{TimeMax: 3 * time.Second, CostMaxUSD: 0.002}
	res := s.run()
	var no *plan.Infeasible
	if res.Code != CodeInfeasible || res.Err == nil || len(s.started()) != 1 {
		t.Fatalf("exit %d (%v) after %d starts, want %d after 1", res.Code, res.Err, len(s.started()), CodeInfeasible)
	}
	_ = no
	words := res.Err.Error()
	for _, want := range []string{"24", "0.02", "--yes"} { // 24 s and $0.024 are required
		if !strings.Contains(words, want) {
			t.Errorf("the refusal does not say %q: %s", want, words)
		}
	}
	if entries, _ := journal.List(s.cfg.StateDir); len(entries) != 1 {
		t.Errorf("%d runs on disk, want the first alone", len(entries))
	}
}

// TestBudgetCrossedWhileLeaving: the budget is reached while the job saves before a move. It is asked to exit
// once, is not restarted, and every second is charged once.
func TestBudgetCrossedWhileLeaving(t *testing.T) {
	for name, c := range map[string]struct {
		saving float64 // seconds
		killed bool
	}{"it saves in time": {0.5, false}, "it is killed at the limit": {30, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *stage
			s = newStage(t, func(a *actor) launch.Exit {
				for a.begin(); a.epoch < 100; {
					if a.work(100, 1) {
						continue
					}
					spend := s.cfg.SLA.CostMaxUSD/0.004 - 0.9 - (s.clock.Monotonic() - a.from).Seconds() // to within the time of a checkpoint
					s.clock.advance(at(spend))
					s.wait("the guard's stop", func(st Status) bool { return st.Phase == "stopping" })
					s.clock.advance(at(c.saving))
					if c.killed {
						<-a.stopped
					}
					return a.leave()
				}
				return finished
			})
			s.cfg.Planner, s.cfg.CPUs, s.cfg.Ratio, s.cfg.Grace = "model", "", 0.5, time.Hour
			s.cfg.SLA.CostMaxUSD = 0.4
			s.cfg.Warn = []float64{}
			res := s.run()
			if res.Code != CodeGuard || res.Record.Exit.Reason != "budget" {
				t.Errorf("exit %d %+v (%v), want %d by the budget", res.Code, res.Record.Exit, res.Err, CodeGuard)
			}
			only := s.started()
			if len(only) != 1 {
				t.Fatalf("the job was started %d times: %q", len(only), s.said(Info, ""))
			}
			asks, stops := only[0].counts()
			if wantStops := map[bool]int{false: 0, true: 1}[c.killed]; asks != 1 || stops != wantStops {
				t.Errorf("asked to save %d times and told to stop %d times, want 1 and %d", asks, stops, wantStops)
			}
			if n := len(s.said(Info, "probing ")); n != 1 {
				t.Errorf("the job was not on its way elsewhere: %q", s.said(Info, ""))
			}
			seconds := 100 - 0.9 + c.saving
			if got := float64(res.Record.Outcome.CostUSD); math.Abs(got-0.004*seconds) > 1e-9 {
				t.Errorf("it cost $%g, want $%g for %g s of four CPUs", got, 0.004*seconds, seconds)
			}
			if want := map[bool]string{false: "checkpoint saved", true: "SIGKILL"}[c.killed]; !strings.Contains(res.Record.Exit.Detail, want) {
				t.Errorf("exit %+v, want %q", res.Record.Exit, want)
			}
		})
	}
}

// TestStoppedByTheSupervisor: a job that its supervisor stopped at the time limit, while the agent was suspended, was
// stopped at the nearest limit, also if the start of the job has cost less than its time.
func TestStoppedByTheSupervisor(t *testing.T) {
	for name, limited := range map[string]bool{"at its limit": true, "otherwise": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				a.work(100, 1)
				return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: limited}
			})
			s.cfg.Resume, s.cfg.SLA.CostMaxUSD = resumableNo, 0.4
			res := s.run()
			if reason := res.Record.Exit.Reason; limited != (res.Code == CodeGuard && reason == "budget" && res.Record.State == journal.Stopped) {
				t.Errorf("exit %d, %s, %+v", res.Code, res.Record.State, res.Record.Exit)
			}
		})
	}
}

// TestDeadlineCrossedWhileWaiting: the deadline is reached between a crash and the restart; the pause costs
// nothing, because nothing runs.
func TestDeadlineCrossedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		a.work(100, 1)
		a.work(100, 1)
		return failed(1)
	})
	s.onStatus = func(st Status) {
		if st.Phase == "waiting to start again" {
			s.clock.advance(100 * time.Millisecond)
		}
	}
	s.cfg.SLA.TimeMax, s.cfg.Warn = 3500*time.Millisecond, []float64{}
	res := s.run()
	if res.Code != CodeGuard || res.Record.Exit == nil || res.Record.Exit.Reason != "deadline" {
		t.Errorf("exit %d %+v (%v), want %d by the deadline", res.Code, res.Record.Exit, res.Err, CodeGuard)
	}
	if n := len(s.started()); n != 1 {
		t.Errorf("the job was started %d times", n)
	}
	if at := float64(res.Record.Outcome.Seconds); at < 2.3 || at > 3.5 {
		t.Errorf("ended after %g s, want at the deadline", at)
	}
	worked := 2 * 0.001 // seconds of one CPU
	if spent := float64(res.Record.Outcome.CostUSD); math.Abs(spent-worked) > 1e-9 {
		t.Errorf("spent $%g, want $%g for the time the job ran", spent, worked)
	}
}

// breaking is a planner that fails in a configurable way.
type breaking struct {
	name   string
	decide func(plan.Snapshot) (plan.Plan, error)
}

func (b breaking) Name() string                              { return b.name }
func (b breaking) Decide(s plan.Snapshot) (plan.Plan, error) { return b.decide(s) }

// TestPlannerFails: for any failure of the planner the training completes at the baseline, and one warning states the
// reason.
func TestPlannerFails(t *testing.T) {
	known := plan.Planners
	plan.Planners = maps.Clone(known)
	defer func() { plan.Planners = known }()
	for name, decide := range map[string]func(plan.Snapshot) (plan.Plan, error){
		"panics": func(plan.Snapshot) (plan.Plan, error) { panic("no idea") },
		"errors": func(plan.Snapshot) (plan.Plan, error) { return plan.Plan{}, errors.New("no idea") },
		"wants what is not there": func(s plan.Snapshot) (plan.Plan, error) {
			p := plan.Plan{Allocation: s.Baseline, Planner: "x"}
			p.Allocation.CPUs = 99
			return p, nil
		},
		"wants nothing": func(plan.Snapshot) (plan.Plan, error) { return plan.Plan{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			plan.Planners[name] = breaking{name, decide}
			s := newStage(t, resumable(14, 1))
			s.cfg.Planner, s.cfg.CPUs, s.cfg.Samples = name, "", 1
			res := s.run()
			if res.Code != CodeDone || res.Record.State != journal.Done || float64(res.Record.Outcome.Epochs) != 14 {
				t.Errorf("exit %d (%v), %s after %v epochs, want 0, done, 14", res.Code, res.Err, res.Record.State, res.Record.Outcome.Epochs)
			}
			if on := s.started(); len(on) != 1 || on[0].command.Allocation.CPUs != 4 {
				t.Errorf("%d starts, the first at %s: want one with all CPUs", len(on), on[0].command.Allocation)
			}
			if p := res.Record.Plan; p == nil || p.Allocation.CPUs != 4 {
				t.Errorf("plan %+v, want the user's own settings", p)
			}
			if w := s.said(Warning, "the baseline is kept"); len(w) != 1 || !strings.Contains(w[0], name) {
				t.Errorf("warnings %q, want one that names the planner", w)
			}
		})
	}
}

// TestJobDiesOfTheCheckpointSignal: a job wrongly considered resumable is restarted once, and then runs undisturbed.
func TestJobDiesOfTheCheckpointSignal(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 20 { // enough epochs that probes are worthwhile
			if !a.work(90, 1) {
				if asks, _ := a.counts(); asks > 0 {
					return died("SIGUSR1")
				}
				return a.leave()
			}
		}
		return finished
	})
	s.cfg.Planner, s.cfg.CPUs, s.cfg.Ratio = "model", "", 0.9
	s.cfg.Preference, _ = plan.ParsePreference("cost")
	s.cfg.PreferenceGiven = true
	res := s.run()
	if res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != 20 {
		t.Errorf("exit %d (%v) after %v epochs, want 0, 20", res.Code, res.Err, res.Record.Outcome.Epochs)
	}
	on := s.started()
	if len(on) != 2 {
		t.Errorf("%d starts, want 2: %q", len(on), s.said(Info, ""))
	}
	asks := 0
	for _, a := range on {
		n, _ := a.counts()
		asks += n
	}
	if asks != 1 {
		t.Errorf("asked %d times for a checkpoint, want once", asks)
	}
	if w := s.said(Warning, "died of SIGUSR1"); len(w) != 1 {
		t.Errorf("warnings %q, want one", w)
	}
}

// TestFailedStart: the exit code tells a failure of the supervisor or of its files from one of the training.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	for internal, want := range map[bool]Code{true: CodeOurs, false: CodeTraining} {
		s := newStage(t, nil)
		s.startError = &launch.StartError{Args: []string{"train"}, Reason: "lock the run directory: too many open files", Internal: internal}
		if res := s.run(); res.Code != want || res.Record.Exit.Reason != "start-failed" {
			t.Errorf("internal %v: exit code %d after %+v, want %d", internal, res.Code, res.Record.Exit, want)
		}
	}
}

// TestFailureAfterTheWork: a resumable job that fails after its last epoch, in a test or an export, is not restarted.
func TestFailureAfterTheWork(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 10; {
			a.work(10, 1)
		}
		a.stage.saved = 10
		return failed(1)
	})
	res := s.run()
	if res.Code != CodeTraining || len(s.started()) != 1 {
		t.Errorf("exit %d after %d starts, want %d after 1", res.Code, len(s.started()), CodeTraining)
	}
}

// TestCrashesBackOff: a resumable job that is killed is restarted from its checkpoint with increasing delays, and no
// more when it makes no progress, however long each attempt runs.
func TestCrashesBackOff(t *testing.T) {
	for name, seconds := range map[string]float64{"at once": 1, "after a while": 15} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.begin(); a.epoch < 3; {
					a.work(10, seconds)
				}
				a.stage.saved = 3
				a.stage.clock.advance(at(seconds)) // killed in the fourth each time
				return died("SIGKILL")
			})
			s.onStatus = func(st Status) {
				if st.Phase == "waiting to start again" {
					s.clock.advance(500 * time.Millisecond)
				}
			}
			s.cfg.Restarts = 3
			res := s.run()
			if res.Code != CodeTraining || res.Record.State != journal.Failed || res.Record.Exit.Signal == nil || *res.Record.Exit.Signal != "SIGKILL" {
				t.Errorf("exit %d (%v), %s, %+v: want %d, failed, SIGKILL", res.Code, res.Err, res.Record.State, res.Record.Exit, CodeTraining)
			}
			if !strings.Contains(res.Record.Exit.Detail, "gave up") {
				t.Errorf("%q does not say that it was given up", res.Record.Exit.Detail)
			}
			on := s.started()
			if len(on) != 4 {
				t.Fatalf("%d starts, want the first and 3 more", len(on))
			}
			for i, a := range on[1:] {
				if a.setting("OPTIMIZER_RESUME") != "1" {
					t.Errorf("start %d does not resume", i+2)
				}
			}
			first := (on[1].from - on[0].from).Seconds() - 4*seconds // three epochs and the one that fails
			last := (on[3].from - on[2].from).Seconds() - seconds
			if first < 0.5 || first > 2 || last < first+0.5 {
				t.Errorf("the first start again came after %g s, the last after %g: want about one second, and longer", first, last)
			}
		})
	}
}

// TestSameFailureAgain: a job that fails by itself is restarted once if it fails again in the same way at the same
// place, and further if it failed elsewhere, in another way, or by a signal of another process.
func TestSameFailureAgain(t *testing.T) {
	every := func(n int, exit launch.Exit) func(*actor) launch.Exit { // fails after n more epochs of each launch
		return func(a *actor) launch.Exit {
			for i, from := 0, a.begin(); a.epoch < 10; i++ {
				if i == n {
					a.stage.saved = from + n
					return exit
				}
				a.work(10, 10)
			}
			return finished
		}
	}
	// fails at the given epoch of each launch, and continues each time from the second
	places := func(exits []launch.Exit, epochs ...int) func(*actor) launch.Exit {
		return func(a *actor) launch.Exit {
			for a.begin(); a.epoch < 10; a.work(10, 10) {
				if i := min(a.n, len(epochs)) - 1; a.epoch == epochs[i] {
					a.stage.saved = 2
					return exits[min(i, len(exits)-1)]
				}
			}
			return finished
		}
	}
	only := func(e launch.Exit) []launch.Exit { return []launch.Exit{e} }
	for name, c := range map[string]struct {
		play   func(*actor) launch.Exit
		starts int
		code   Code
	}{
		"an exception at the same place":      {places(only(failed(1)), 4, 4), 2, CodeTraining},
		"a crash at the same place":           {places(only(died("SIGSEGV")), 4, 4), 2, CodeTraining},
		"out of memory at the same place":     {places(only(launch.Exit{Reason: launch.OOM, Code: -1, Signal: "SIGKILL"}), 4, 4), 2, CodeTraining},
		"no progress after the restart":       {places(only(failed(1)), 4, 2), 2, CodeTraining},
		"earlier than before, then the end":   {places(only(failed(1)), 5, 3, 11), 3, CodeDone},
		"further each time":                   {every(3, failed(1)), 4, CodeDone},
		"another code":                        {places([]launch.Exit{failed(1), failed(2)}, 4, 4, 11), 3, CodeDone},
		"killed by another process":           {places(only(died("SIGKILL")), 4, 4, 11), 3, CodeDone},
		"killed, as reported by a shell":      {places(only(failed(137)), 4, 4, 11), 3, CodeDone},
		"a request for a restart by its code": {places(only(failed(75)), 4, 4, 11), 3, CodeDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.play)
			s.onStatus = func(st Status) {
				if st.Phase == "waiting to start again" {
					s.clock.advance(500 * time.Millisecond)
				}
			}
			res := s.run()
			if res.Code != c.code || len(s.started()) != c.starts {
				t.Errorf("exit %d (%v) after %d starts, want %d after %d: %q", res.Code, res.Err, len(s.started()), c.code, c.starts, s.said(Warning, ""))
			}
			if c.code == CodeTraining && !strings.Contains(res.Record.Exit.Detail, "in the same way again") {
				t.Errorf("exit %+v does not state the repetition", res.Record.Exit)
			}
		})
	}
}

// TestCrashesWithoutACheckpoint: a job without checkpoints, or without any progress, is not restarted.
func TestCrashesWithoutACheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		resume Resumable
		epochs int
	}{"not resumable": {resumableNo, 3}, "at once": {resumableYes, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.epoch < c.epochs {
					a.work(10, 1)
				}
				return died("SIGSEGV")
			})
			if c.epochs == 0 {
				s.play = func(*actor) launch.Exit { return failed(2) }
			}
			s.cfg.Resume = c.resume
			res := s.run()
			if res.Code != CodeTraining || len(s.started()) != 1 {
				t.Errorf("exit %d (%v) after %d starts, want %d after 1", res.Code, res.Err, len(s.started()), CodeTraining)
			}
		})
	}
}

// TestLeavesWithTryAgain: an unrequested exit with code 75 is a restart request of a resumable job, and a failure of
// any other job.
func TestLeavesWithTryAgain(t *testing.T) {
	play := func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 6; {
			if a.n == 1 && a.epoch == 3 {
				a.stage.saved = 3
				return failed(75)
			}
			a.work(6, 1)
		}
		return finished
	}
	for name, c := range map[string]struct {
		resume Resumable
		code   Code
		starts int
		rows   int
	}{"resumable": {resumableYes, CodeDone, 2, 6}, "not": {resumableNo, CodeTraining, 1, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, play)
			s.cfg.Resume = c.resume
			s.onStatus = func(st Status) {
				if st.Phase == "waiting to start again" {
					s.clock.advance(200 * time.Millisecond)
				}
			}
			res := s.run()
			if res.Code != c.code || len(s.started()) != c.starts || res.Record.Outcome.Rows != c.rows {
				t.Errorf("exit %d (%v) after %d starts and %d rows, want %d, %d, %d", res.Code, res.Err, len(s.started()), res.Record.Outcome.Rows, c.code, c.starts, c.rows)
			}
			if c.code == CodeTraining && (res.Record.Exit.Code == nil || *res.Record.Exit.Code != 75) {
				t.Errorf("exit %+v, want its own code 75", res.Record.Exit)
			}
		})
	}
}

// remote is a launcher whose jobs are no process tree of this machine and cannot be resized.
type remote struct{ *stage }

type remoteJob struct{ launch.Job }

func (l remote) Start(ctx context.Context, c launch.Command) (launch.Job, error) {
	j, err := l.stage.Start(ctx, c)
	return remoteJob{j}, err
}

// TestEngineWithoutCapabilities: a job of an engine that has only the core of launch.Job is run to its end, moved by
// restarts, and stopped.
func TestEngineWithoutCapabilities(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		code  Code
	}{"to its end": {0, CodeDone}, "until the deadline": {15 * time.Second, CodeGuard}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, resumable(30, 1))
			s.cfg.Planner, s.cfg.CPUs, s.cfg.Ratio, s.cfg.SLA.TimeMax, s.cfg.Anyway = "model", "", 0.9, c.limit, true
			agent := s.agent()
			agent.Launcher = remote{s}
			res := agent.Run(t.Context(), s.cfg, nil)
			if res.Code != c.code {
				t.Errorf("exit %d (%v), %+v, want %d: %v", res.Code, res.Err, res.Record.Exit, c.code, s.events)
			}
			if w := s.said(Warning, "failed"); len(w) > 0 {
				t.Errorf("warnings %q", w)
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
