package run

import (
	"context"
	"fmt"
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
)

// heldStage is a stage whose view blocks the agent's loop from its second status on, until release is called.
func heldStage(t *testing.T, play func(*actor) launch.Exit) (s *stage, held chan struct{}, release func()) {
	s = newStage(t, play)
	held = make(chan struct{})
	let := make(chan struct{})
	statuses := 0
	s.onStatus = func(Status) {
		if statuses++; statuses == 2 {
			close(held)
			<-let
		}
	}
	return s, held, func() { close(let) }
}

// failing is a job whose stop panics.
type failing struct{ launch.Job }

func (failing) Stop(context.Context, time.Duration) (launch.Exit, error) { panic("test") }

// failingStops is a stage of such jobs.
type failingStops struct{ *stage }

func (s failingStops) Start(ctx context.Context, c launch.Command) (launch.Job, error) {
	j, err := s.stage.Start(ctx, c)
	return failing{j}, err
}

// TestPanicBesideTheLoop: a panic in a goroutine beside the loop is raised in the loop, with its stack.
func TestPanicBesideTheLoop(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(*actor) launch.Exit {
		<-t.Context().Done()
		return finished
	})
	s.cfg.Resume = resumableNo
	interrupts := make(chan os.Signal, 1)
	s.onStart = func(int, launch.Command) { interrupts <- syscall.SIGTERM }
	agent := s.agent()
	agent.Launcher = failingStops{s}
	defer func() {
		if x := fmt.Sprint(recover()); !strings.HasPrefix(x, "test\n") || !strings.Contains(x, "watchdog_test.go") {
			t.Errorf("the loop panicked with %q, want that of the stop", x)
		}
	}()
	agent.Run(t.Context(), s.cfg, interrupts)
}

// await waits for an event, with a generous timeout.
func await(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v, while the loop is held", what, patience)
	}
}

// A blocked loop, here by a terminal, delays neither the user's signals nor the limits.
func TestWatchdogActsWhileTheLoopIsHeld(t *testing.T) {
	t.Parallel()
	untilTold := func(saves bool) func(a *actor) launch.Exit {
		return func(a *actor) launch.Exit {
			if saves {
				select {
				case <-a.asked:
					return left
				case <-a.stopped:
				}
			}
			<-a.stopped
			return a.leave()
		}
	}
	for name, c := range map[string]struct {
		resume   Resumable
		saves    bool
		signals  []os.Signal
		together bool // all signals arrive at once
		limit    time.Duration
		asks     int
		stops    int
		code     Code
		reason   string
	}{
		"a signal, saved":         {resume: resumableYes, saves: true, signals: []os.Signal{syscall.SIGINT}, asks: 1, code: CodeInterrupt, reason: "user"},
		"a signal, no checkpoint": {resume: resumableNo, signals: []os.Signal{syscall.SIGTERM}, stops: 1, code: CodeTerminated, reason: "user"},
		"a hang-up":               {resume: resumableNo, signals: []os.Signal{syscall.SIGHUP}, stops: 1, code: CodeTerminated, reason: "user"},
		"SIGQUIT":                 {resume: resumableYes, signals: []os.Signal{syscall.SIGQUIT}, stops: 1, code: CodeInterrupt, reason: "user"},
		"two signals":             {resume: resumableYes, signals: []os.Signal{syscall.SIGINT, syscall.SIGINT}, asks: 1, stops: 1, code: CodeInterrupt, reason: "user"},
		"one signal, sent to the process and to its group": {resume: resumableYes, saves: true, signals: []os.Signal{syscall.SIGINT, syscall.SIGINT},
			together: true, asks: 1, code: CodeInterrupt, reason: "user"},
		"the deadline, saved":        {resume: resumableYes, saves: true, limit: time.Minute, asks: 1, code: CodeGuard, reason: "deadline"},
		"the deadline, not answered": {resume: resumableYes, limit: time.Minute, asks: 1, stops: 1, code: CodeGuard, reason: "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, held, release := heldStage(t, untilTold(c.saves))
			s.cfg.Resume, s.cfg.SLA.TimeMax, s.cfg.Warn = c.resume, c.limit, []float64{}
			signals := make(chan os.Signal)
			ended := make(chan Result, 1)
			go func() { ended <- s.agent().Run(t.Context(), s.cfg, signals) }()
			await(t, "the loop to be held", held)
			job := s.started()[0]
			for i, sig := range c.signals {
				if i > 0 && !c.together {
					await(t, "the answer to the first signal", job.asked)
					s.clock.advance(sameSignal)
				}
				signals <- sig
			}
			if c.limit > 0 {
				s.clock.advance(c.limit - 500*time.Millisecond) // within the reserve: time to save
			}
			if c.asks > 0 {
				await(t, "the job to be asked to save", job.asked)
			}
			if c.stops > 0 {
				if c.limit > 0 {
					s.clock.advance(time.Second) // beyond the limit
				}
				await(t, "the job to be stopped", job.stopped)
			}
			await(t, "the job to end", job.done)
			release()
			res := <-ended
			if res.Code != c.code || res.Record.Exit == nil || res.Record.Exit.Reason != c.reason || res.Record.State != journal.Stopped {
				t.Errorf("exit %d %+v (%v), want %d by %s", res.Code, res.Record.Exit, res.Err, c.code, c.reason)
			}
			if asks, stops := job.counts(); asks != c.asks || min(stops, 1) != c.stops {
				t.Errorf("asked to save %d times and stopped %d times, want %d and %d", asks, stops, c.asks, c.stops)
			}
		})
	}
}

// TestInterruptReachesTheTraining: Ctrl-C reaches a training that saves on no signal as SIGINT, as if it ran alone, and SIGTERM follows
// after half of the grace. Other stops, and a training that handles SIGTERM, begin with SIGTERM.
func TestInterruptReachesTheTraining(t *testing.T) {
	t.Parallel()
	const handler = "import signal\nsignal.signal(signal.SIGTERM, stop)\n"
	for name, c := range map[string]struct {
		script string
		signal os.Signal
		first  bool // SIGINT is the first signal
	}{
		"Ctrl-C":               {"", syscall.SIGINT, true},
		"SIGTERM":              {"", syscall.SIGTERM, false},
		"Ctrl-C, a handler":    {handler, syscall.SIGINT, false},
		"Ctrl-C, both handled": {handler + "signal.signal(signal.SIGINT, stop)\n", syscall.SIGINT, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *stage
			early := 0 // stops before half of the grace
			s = newStage(t, func(a *actor) launch.Exit {
				for a.epoch < 3 {
					a.work(100, 1)
				}
				s.interrupts <- c.signal
				s.turn("the request", func() {}, func(Status, int) bool { return a.mustGo() || len(a.signalled()) > 0 })
				_, early = a.counts()
				s.clock.advance(defaultGrace / 2)
				<-a.stopped
				return died("SIGTERM")
			})
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(c.script+"for epoch in range(100):\n    train()\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Train, s.cfg.Resume = "train.py", resumableNo
			res := s.runWithSignals()
			var want []os.Signal
			if c.first {
				want = []os.Signal{syscall.SIGINT}
			}
			if got := s.started()[0].signalled(); !slices.Equal(got, want) || (early == 0) != c.first || res.Record.Exit.Reason != "user" {
				t.Errorf("signals %v, then %d times SIGTERM at once, %+v; want %v", got, early, res.Record.Exit, want)
			}
		})
	}
}

// Of two signals, the second of which another system repeats, none kills, also while the loop is held.
func TestRepeatedSignalOfASystem(t *testing.T) {
	for _, c := range []struct{ harmless, kills bool }{{true, false}, {false, true}} {
		s := newStage(t, func(a *actor) launch.Exit { <-a.stopped; return a.leave() })
		w := newWatchdog(s.clock, time.Minute)
		w.harmless = func(os.Signal) bool { return c.harmless }
		job, err := s.Start(t.Context(), launch.Command{RunDir: s.cfg.Dir, Env: []string{"OPTIMIZER_LOG=" + filepath.Join(s.cfg.Dir, "log.csv")}})
		if err != nil {
			t.Fatal(err)
		}
		w.guard(job, func() (stopMethod, error) { return bySignal, job.Checkpoint() }, math.MaxInt64, 0)
		w.receive(syscall.SIGTERM)
		s.clock.advance(sameSignal)
		w.receive(syscall.SIGTERM)
		do, _ := w.due()
		do()
		if w.killed != c.kills || (w.asked.method == bySignal) == c.kills {
			t.Errorf("harmless %t: killed %t after %+v", c.harmless, w.killed, w.asked)
		}
		w.kill()
	}
}

// A signal during the start of the job cancels the start; nothing runs afterwards.
func TestSignalDuringStart(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit { return a.leave() })
	signals := make(chan os.Signal, 1)
	agent := s.agent()
	agent.Launcher = starting{s, func() { signals <- syscall.SIGTERM }}
	res := agent.Run(context.Background(), s.cfg, signals)
	if res.Code != CodeTerminated || res.Record.Exit == nil || res.Record.Exit.Reason != "user" || len(s.started()) != 0 {
		t.Errorf("exit %d %+v (%v) after %d starts, want %d by the user and no start", res.Code, res.Record.Exit, res.Err, len(s.started()), CodeTerminated)
	}
}

// starting is a launcher that blocks forever, as on a slow file system, unless its start is cancelled.
type starting struct {
	*stage
	begun func()
}

func (l starting) Start(ctx context.Context, c launch.Command) (launch.Job, error) {
	l.begun()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(patience):
		l.t.Error("the start was not cancelled")
		return l.stage.Start(ctx, c)
	}
}
