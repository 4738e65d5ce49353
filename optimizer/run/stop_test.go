package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// TestSlowSaveOnRequest: a training whose steps are long has the time for one, and for the save after it, before SIGTERM follows the
// request, unless the user states the time for a stop, by the grace or by StopRun.
func TestSlowSaveOnRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace  time.Duration
		signal os.Signal
		marked bool
		saved  bool
	}{
		"Ctrl-C":              {signal: syscall.SIGINT, saved: true},
		"SIGTERM":             {signal: syscall.SIGTERM, saved: true},
		"Ctrl-C, a grace":     {grace: 40 * time.Second, signal: syscall.SIGINT},
		"optimize runs stop":  {signal: syscall.SIGTERM, marked: true},
		"Ctrl-C, ample grace": {grace: 10 * time.Minute, signal: syscall.SIGINT, saved: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			s.cfg.Grace = c.grace
			s.play = func(a *actor) launch.Exit {
				a.begins(map[string]any{"can_save": true, "can_stop": true})
				for a.epoch < 3 {
					a.step(6, 20)
				}
				if entries, err := journal.List(s.cfg.StateDir); c.marked && (err != nil || len(entries) != 1 || os.WriteFile(filepath.Join(entries[0].Dir, stopMark), nil, 0o600) != nil) {
					t.Errorf("%d runs, %v", len(entries), err)
				}
				s.interrupts <- c.signal
				s.wait("the request", func(Status) bool { return a.request() != nil })
				s.clock.advance(25 * time.Second)
				s.turn("looks, or a stop", func() {}, func(_ Status, looks int) bool { return c.saved && looks == 20 || a.mustGo() })
				if a.mustGo() {
					return died("SIGTERM")
				}
				a.report(map[string]any{"event": "answer", "id": a.request()["id"], "op": "save_and_stop", "ok": true, "stopped": true, "path": a.checkpoint(), "step": 3, "seconds": 5})
				return finished
			}
			res := s.runWithSignals()
			if _, stops := s.started()[0].counts(); (stops == 0) != c.saved || strings.Contains(res.Record.Exit.Detail, "checkpoint saved") != c.saved {
				t.Errorf("%+v after %d stops, want a save: %t", res.Record.Exit, stops, c.saved)
			}
		})
	}
}

// TestGraceOfStopRun: the agent of a run allows the time that StopRun states; if it states none, StopRun waits for the grace of the
// run.
func TestGraceOfStopRun(t *testing.T) {
	t.Parallel()
	arrived := make(chan os.Signal, 1) // StopRun signals the process of the agent: this one
	signal.Notify(arrived, syscall.SIGTERM)
	defer signal.Stop(arrived)
	for _, c := range []struct { // one by one: the signal is that of the process
		of, stated time.Duration // the grace of the run, and of its stop
		after      time.Duration // the request
		saved      bool
		waits      string
	}{
		{of: defaultGrace, stated: 10 * time.Minute, after: 4 * time.Minute, saved: true, waits: "10m20s"},
		{of: 20 * time.Minute, stated: 10 * time.Minute, after: 6 * time.Minute, waits: "10m20s"},
		{of: 20 * time.Minute, stated: -1, after: 6 * time.Minute, saved: true, waits: "20m20s"},
	} {
		t.Run(fmt.Sprint(c.of, c.stated), func(t *testing.T) {
			s := observedStage(t, nil)
			s.cfg.Grace = c.of
			ctx, cancel := context.WithCancel(t.Context())
			var stopped error
			stopper := make(chan struct{})
			s.play = func(a *actor) launch.Exit {
				a.begins(map[string]any{"can_save": true, "can_stop": true})
				for a.epoch < 3 {
					a.step(6, 1)
				}
				entries, err := journal.List(s.cfg.StateDir)
				if err != nil || len(entries) != 1 {
					t.Errorf("%d runs, %v", len(entries), err)
					return failed(1)
				}
				go func() {
					defer close(stopper)
					_, stopped = s.agent().StopRun(ctx, entries[0].Dir, c.stated)
				}()
				s.interrupts <- <-arrived
				s.wait("the request", func(Status) bool { return a.request() != nil })
				cancel() // it has waited long enough
				<-stopper
				s.clock.advance(c.after)
				s.turn("looks, or a stop", func() {}, func(_ Status, looks int) bool { return c.saved && looks == 20 || a.mustGo() })
				if a.mustGo() {
					return died("SIGTERM")
				}
				a.report(map[string]any{"event": "answer", "id": a.request()["id"], "op": "save_and_stop", "ok": true, "stopped": true, "path": a.checkpoint(), "step": 3, "seconds": 5})
				return finished
			}
			res := s.runWithSignals()
			if stopped == nil || !strings.Contains(stopped.Error(), "still runs after "+c.waits) {
				t.Errorf("StopRun: %v, want that it waits %s", stopped, c.waits)
			}
			if _, stops := s.started()[0].counts(); (stops == 0) != c.saved || res.Record.Exit.Reason != "user" {
				t.Errorf("%+v after %d stops, want a save: %t", res.Record.Exit, stops, c.saved)
			}
		})
	}
}

// TestStopAtItsEnd: a training that has done all its work when it is asked to stop, and saves a last time, exits by itself and is
// finished; after half of the grace it is stopped like others.
func TestStopAtItsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		saves, known, hangs bool
	}{
		"saves on request": {saves: true, known: true},
		"saves on request, its last steps are not read": {saves: true},
		"does not save on request":                      {known: true},
		"does not exit":                                 {known: true, hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			s.play = func(a *actor) launch.Exit {
				a.begins(map[string]any{"can_save": c.saves, "can_stop": c.saves})
				last := 5
				if c.known {
					last = 6
				}
				for a.epoch < last {
					a.step(6, 1)
				}
				s.interrupts <- syscall.SIGTERM
				if c.saves {
					s.wait("the request", func(Status) bool { return a.request() != nil })
					a.report(map[string]any{"event": "progress", "training": 1, "step": 6, "total_steps": 6, "step_seconds": 1, "threads": 2})
					a.report(map[string]any{"event": "answer", "id": a.request()["id"], "op": "save_and_stop", "ok": false, "reason": "the training has finished"})
				}
				s.wait("the stop", func(st Status) bool { return st.Phase == "saving" || st.Phase == "stopping" })
				if c.hangs {
					s.clock.advance(time.Hour)
				}
				s.turn("looks, or a stop", func() {}, func(_ Status, looks int) bool { return !c.hangs && looks == 20 || a.mustGo() })
				if a.mustGo() {
					return died("SIGTERM")
				}
				return finished
			}
			res := s.runWithSignals()
			want := journal.Done
			if c.hangs {
				want = journal.Stopped
			}
			if _, stops := s.started()[0].counts(); res.Record.State != want || stops == 0 == c.hangs {
				t.Errorf("%s, %+v after %d stops; want %s", res.Record.State, res.Record.Exit, stops, want)
			}
		})
	}
}

// TestGraceOfTheWatchdog: the watchdog allows the time of a save as the loop does, but no more than an announced end of the machine.
func TestGraceOfTheWatchdog(t *testing.T) {
	t.Parallel()
	clock := newHand()
	r := &run{Agent: Agent{Clock: clock}, watchdog: newWatchdog(clock, defaultGrace),
		observer: &observerClient{facts: observe.Facts{CanSave: true, CanStop: true, StepTime: 20 * time.Second, WorldSize: 1}}}
	r.Config.Grace, r.Resumable = defaultGrace, true
	if r.publish(); r.watchdog.grace != r.grace() || r.watchdog.grace < 2*r.reserve() {
		t.Errorf("grace of %v, of the watchdog %v, want twice %v", r.grace(), r.watchdog.grace, r.reserve())
	}
	r.watchdog.announce(reclaimed{resources.Reclaim{By: time.Now()}})
	if r.publish(); r.watchdog.grace != shortestGrace {
		t.Errorf("grace of the watchdog %v after the announcement, want %v", r.watchdog.grace, shortestGrace)
	}
}

// TestMoveWithoutASave: a training that does not answer the request of a move continues from its own checkpoint, where it is moved to.
func TestMoveWithoutASave(t *testing.T) {
	t.Parallel()
	for saves, want := range map[bool]int{true: 7, false: 4} {
		t.Run(fmt.Sprint(saves), func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			s.play = func(a *actor) launch.Exit {
				a.begins(map[string]any{"can_save": true, "can_stop": true})
				if slices.Contains(a.command.Args, "--resume") {
					a.epoch = 3
				}
				for from := a.epoch; a.n == 1 || a.epoch < from+4; {
					if a.step(90, 1); saves && a.n == 1 && a.epoch == 3 {
						a.checkpoint()
					}
					if a.n == 1 && a.request() != nil {
						s.clock.advance(defaultGrace / 2)
						<-a.stopped
						return died("SIGTERM")
					}
				}
				return failed(1)
			}
			s.cfg.Planner, s.cfg.CPUs, s.cfg.Ratio, s.cfg.Restarts = "model", "", 0.9, -1
			s.cfg.Preference, _ = plan.ParsePreference("cost")
			s.cfg.PreferenceGiven = true
			res := s.run()
			on := s.started()
			if len(on) != 2 {
				t.Fatalf("%d starts: %q", len(on), s.said(Info, ""))
			}
			args := on[1].command.Args
			resumed := slices.ContainsFunc(args, func(a string) bool { return filepath.Base(a) == "ckpt_step_3.pt" })
			if steps := float64(res.Record.Outcome.Steps); resumed != saves || steps != float64(want) || on[1].command.Allocation.CPUs == on[0].command.Allocation.CPUs {
				t.Errorf("started on %+v as %q after %+v, %g steps; want it elsewhere, resumed %t, %d steps", on[1].command.Allocation, args, on[0].command.Allocation, steps, saves, want)
			}
		})
	}
}
