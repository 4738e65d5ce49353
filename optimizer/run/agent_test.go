package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/internal/conformance"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/plan"
	"trainopt/resources"
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
		saving time.Duration // after the stop
		more   Change
	}{
		"budget":                    {sla.Spec{CostMaxUSD: 0.005}, "budget", 1100 * time.Millisecond, Change{CostMaxUSD: 1}},
		"deadline":                  {sla.Spec{TimeMax: 5 * time.Second}, "deadline", 1100 * time.Millisecond, Change{TimeMax: time.Hour}},
		"stopped before a budget":   {sla.Spec{CostMaxUSD: 0.005}, "budget", 0, Change{CostMaxUSD: 1}},
		"stopped before a deadline": {sla.Spec{TimeMax: 5 * time.Second}, "deadline", 0, Change{TimeMax: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.begin(); a.epoch < 10; {
					if !a.work(10, 1) {
						s := a.stage
						if a.n == 1 {
							s.clock.advance(c.saving) // 1.1 s is longer than estimated
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
			wantSpent(t, res.Record, 10+c.saving.Seconds())
		})
	}
}

// mailbox receives messages about missed limits and ends: "EVENT of STATE".
type mailbox struct {
	mu  sync.Mutex
	got []string
}

// openMailbox returns a mailbox and the target that delivers to it.
func openMailbox(t *testing.T) (*mailbox, notify.Target) {
	t.Helper()
	b := &mailbox{}
	box := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m notify.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if m.Event == notify.Missed || m.Event == notify.Ended {
			b.got = append(b.got, fmt.Sprintf("%s of %s", m.Event, m.State))
		}
	}))
	t.Cleanup(box.Close)
	target, err := notify.Parse(box.URL)
	if err != nil {
		t.Fatal(err)
	}
	return b, target
}

// take returns the messages since the last call.
func (b *mailbox) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got
}

// want checks the messages since the last call.
func (b *mailbox) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := b.take(); !slices.Equal(got, want) {
		t.Errorf("%s: messages %q, want %q", when, got, want)
	}
}

// TestMessagesOfAResumedRun: each end of a run that was stopped and resumed has a message, and so has each missed deadline of it.
func TestMessagesOfAResumedRun(t *testing.T) {
	box, target := openMailbox(t)
	s := newStage(t, resumable(20, 1))
	s.cfg.SLA, s.cfg.Warn, s.cfg.Notify = sla.Spec{TimeMax: 5 * time.Second}, []float64{}, []notify.Target{target}
	res := s.run()
	for _, deadline := range []time.Duration{10 * time.Second, time.Hour} {
		if res.Code != CodeGuard {
			t.Fatalf("exit %d (%v), want %d by the deadline", res.Code, res.Err, CodeGuard)
		}
		res = s.resume(res.Dir, Change{TimeMax: deadline})
	}
	if res.Code != CodeDone {
		t.Errorf("exit %d (%v)", res.Code, res.Err)
	}
	box.want(t, "at the end", "missed of stopped", "end of stopped", "missed of stopped", "end of stopped", "end of done")
}

// TestMessagesOfALeasedRun: a run that its scheduler stops to continue it later has one message about its end: when it has done its
// work, or when the scheduler gives it no other lease.
func TestMessagesOfALeasedRun(t *testing.T) {
	t.Parallel()
	box, target := openMailbox(t)
	s := newStage(t, func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 9; {
			if !a.work(9, 1) {
				return a.leave()
			}
			if a.n <= 2 && a.epoch == 3*a.n {
				a.stage.saved = a.epoch
				return launch.Exit{Reason: launch.Stopped, Code: exitTryAgain, Limit: true}
			}
		}
		return finished
	})
	s.cfg.Notify = []notify.Target{target}
	agent := s.agent()
	agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
	res := agent.Run(t.Context(), s.cfg, nil)
	for range 2 {
		if res.Code != CodeTryAgain || res.Unsaved {
			t.Fatalf("exit %d (%v), unsaved %v; want %d, saved", res.Code, res.Err, res.Unsaved, CodeTryAgain)
		}
		box.want(t, "between two leases")
		other := filepath.Join(t.TempDir(), filepath.Base(res.Dir)) // its job is cancelled here
		if err := os.CopyFS(other, os.DirFS(res.Dir)); err != nil {
			t.Fatal(err)
		}
		agent.TellEnd(other, journal.Stopped, "cancelled")
		box.want(t, "without another lease", "end of stopped")
		res = agent.Resume(t.Context(), res.Dir, Change{}, nil)
	}
	if res.Code != CodeDone || len(s.started()) != 3 {
		t.Errorf("exit %d (%v) after %d starts", res.Code, res.Err, len(s.started()))
	}
	agent.TellEnd(res.Dir, journal.Stopped, "cancelled")
	box.want(t, "at the end", "end of done")
}

// TestMessagesOfAnAdoptedRun: a run whose job lives sends nothing again, except about a limit that has changed.
func TestMessagesOfAnAdoptedRun(t *testing.T) {
	sent := []string{"plan", "at-risk:time", "missed:time", "at-risk:cost", "missed:memory", "failure", "end:stopped"}
	r := newRun(Agent{}, Config{SLA: sla.Spec{TimeMax: time.Hour, CostMaxUSD: 1}})
	r.Notified = slices.Clone(sent)
	if r.tellAgain(r.Config.SLA); !slices.Equal(r.Notified, sent) {
		t.Errorf("without a change %q are kept, want %q", r.Notified, sent)
	}
	if r.tellAgain(sla.Spec{TimeMax: time.Minute, CostMaxUSD: 1}); !slices.Equal(r.Notified, []string{"plan", "at-risk:cost", "missed:memory", "failure", "end:stopped"}) {
		t.Errorf("with another deadline %q are kept", r.Notified)
	}
}

// TestOtherNodesOfTheEngine: a run that continues on other nodes of its engine, as in a cluster, has no warning of another engine.
func TestOtherNodesOfTheEngine(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(10, 1))
	s.cfg.SLA, s.cfg.Warn = sla.Spec{CostMaxUSD: 0.005}, []float64{}
	first := s.run()
	res := s.resume(first.Dir, Change{CostMaxUSD: 1, Engine: "local"})
	if res.Code != CodeDone || strings.Contains(fmt.Sprint(res.Record.Warnings), "another engine") {
		t.Errorf("exit %d (%v), warnings %q", res.Code, res.Err, res.Record.Warnings)
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

// TestPreparationIsOfTheFirstLife: what an agent does before the first launch is not done again when another agent continues the run.
func TestPreparationIsOfTheFirstLife(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		a.begin()
		for range 3 {
			a.work(6, 1)
		}
		a.stage.saved = a.epoch
		return launch.Exit{Reason: launch.Stopped, Code: 75, Signal: "SIGTERM", Limit: true}
	})
	var prepared []time.Duration
	s.onStatus = func(st Status) { prepared = append(prepared, st.Prepared) }
	agent := s.agent()
	discover := agent.Discover
	agent.Discover = func(ctx context.Context) (resources.Host, error) {
		s.clock.advance(2 * time.Second)
		return discover(ctx)
	}
	agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
	res := agent.Run(t.Context(), s.cfg, nil)
	if res.Code != CodeTryAgain || len(prepared) == 0 || slices.ContainsFunc(prepared, func(d time.Duration) bool { return d != 2*time.Second }) {
		t.Errorf("exit %d (%v), prepared in %v, want 2 s", res.Code, res.Err, prepared)
	}
	prepared = nil
	res = agent.Resume(t.Context(), res.Dir, Change{}, nil)
	if len(prepared) == 0 || slices.ContainsFunc(prepared, func(d time.Duration) bool { return d != 0 }) {
		t.Errorf("exit %d (%v), prepared in %v when it was continued, want 0", res.Code, res.Err, prepared)
	}
}

// TestStartIsNotCharged: the start of the supervisor takes time but costs nothing, in the status and in predictions as well as
// at the end, at a restart as well as at the first launch.
func TestStartIsNotCharged(t *testing.T) {
	t.Parallel()
	const before, answer, rate = 5.0, 3.0, 0.001
	s := newStage(t, func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 40; {
			if !a.work(40, 2) {
				return a.leave()
			}
			if a.n == 1 && a.epoch == 20 {
				a.stage.saved = 20
				return died("SIGKILL")
			}
		}
		return finished
	})
	s.cfg.Planner, s.cfg.Explain = "model", true
	s.onStatus = func(st Status) {
		if n := len(s.started()); n == 1 && st.Phase == "training" {
			if want := (st.Elapsed.Seconds() - before) * rate; math.Abs(float64(st.Spent)-want) > 1e-9 {
				t.Errorf("$%g after %v, want $%g", float64(st.Spent), st.Elapsed, want)
			}
		} else if st.Phase == "waiting to start again" {
			s.clock.advance(500 * time.Millisecond)
		} else if n == 2 && float64(st.Spent) > (answer+40*2+answer)*rate+1e-9 {
			t.Errorf("$%g after %v", float64(st.Spent), st.Elapsed)
		}
	}
	agent := s.agent()
	agent.Launcher = slowStart{s, at(before), at(answer)}
	rec := agent.Run(t.Context(), s.cfg, nil).Record
	if got, want := float64(rec.Outcome.CostUSD), 2*(answer+20*2)*rate; math.Abs(got-want) > 1e-9 {
		t.Errorf("cost $%g, want $%g", got, want)
	}
	if p := s.planned; p == nil || math.Abs(float64(p.CostUSD.P50)-(float64(p.Seconds.P50)-before)*rate) > 1e-6 {
		t.Errorf("predicted %+v with a start of %g s", p, before)
	}
}

// slowStart is a launcher whose starts take a time before the program runs, and a time to report it.
type slowStart struct {
	*stage
	before, answer time.Duration
}

func (l slowStart) Start(ctx context.Context, c launch.Command) (launch.Job, error) {
	l.clock.advance(l.before)
	j, err := l.stage.Start(ctx, c)
	l.clock.advance(l.answer)
	return j, err
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

func (b breaking) Name() string { return b.name }

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

func TestGPUsAreReservedWhileAJobStarts(t *testing.T) {
	t.Parallel()
	host := resources.Host{CPUs: 4, CPUIDs: []int{0, 1, 2, 3}, Memory: 16, GPUs: []resources.GPU{
		{Index: 100, UUID: t.Name() + "-0", Memory: 40}, {Index: 101, UUID: t.Name() + "-1", Memory: 40}}}
	pick := func() string {
		ids, release := host.Pick(1, nil, func() map[string]int { return nil })
		defer release()
		return strings.Join(ids, ",")
	}
	s := newStage(t, func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 3; a.work(3, 1) {
			if a.n == 1 && a.epoch == 2 {
				a.stage.saved = 2
				return died("SIGKILL")
			}
		}
		return finished
	})
	s.onStatus = func(st Status) {
		if st.Phase == "waiting to start again" {
			s.clock.advance(time.Second)
		}
	}
	var beside []string
	s.onStart = func(int, launch.Command) { beside = append(beside, pick()) }
	s.cfg.GPUs = "1"
	agent := s.agent()
	agent.Discover = func(context.Context) (resources.Host, error) { return host, nil }
	if res := agent.Run(t.Context(), s.cfg, nil); res.Code != CodeDone {
		t.Fatalf("exit %d (%v)", res.Code, res.Err)
	}
	for i, a := range s.started() {
		if got := a.setting("CUDA_VISIBLE_DEVICES"); got != host.GPUs[0].UUID || beside[i] != host.GPUs[1].UUID {
			t.Errorf("start %d: the job has %s, one that starts beside it %s", i+1, got, beside[i])
		}
	}
	if n := len(s.started()); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
	if got := pick(); got != host.GPUs[0].UUID {
		t.Errorf("after the start %s is chosen: the reservation has not ended", got)
	}
}
