package run

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

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
			s.waitsToRestart()
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

// TestKilledBeforeItsFirstSave: a job that saves on request and is killed before any request begins again, which is no sign that it
// does not resume: it is asked to save later, and started again once more. One that begins again after it has saved does not resume.
func TestKilledBeforeItsFirstSave(t *testing.T) {
	for saved, want := range map[bool]int{false: 3, true: 2} {
		t.Run(fmt.Sprintf("saved %t", saved), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				last := map[int]int{1: 3, 2: 5}[a.n]
				for a.begin(); a.epoch < 10; {
					if a.work(10, 10); a.epoch == last {
						if folder := a.setting("OPTIMIZER_CHECKPOINT_DIR"); saved && (os.MkdirAll(folder, 0o700) != nil || os.WriteFile(filepath.Join(folder, "state.json"), nil, 0o600) != nil) {
							t.Error("cannot write the checkpoint")
						}
						return died("SIGKILL")
					}
				}
				return finished
			})
			s.waitsToRestart()
			res := s.run()
			if done := res.Code == CodeDone; done == saved || len(s.started()) != want || (len(s.said(Warning, "does not resume")) > 0) != saved {
				t.Errorf("exit %d after %d starts, want %d\n%s", res.Code, len(s.started()), want, strings.Join(s.said(Warning, ""), "\n"))
			}
		})
	}
}

// TestPreemptedBeforeItCanSave: a job that the engine ends again and again before it has saved anything is given up, although each
// life comes further than the one before.
func TestPreemptedBeforeItCanSave(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 10; {
			if a.work(10, 10); a.epoch == 3+a.n {
				return launch.Exit{Reason: launch.Preempted, Code: -1}
			}
		}
		return finished
	})
	s.waitsToRestart()
	s.cfg.Restarts = 2
	if res := s.run(); res.Code != CodeTraining || len(s.started()) != 4 {
		t.Errorf("exit %d after %d starts, want %d after 4\n%s", res.Code, len(s.started()), CodeTraining, strings.Join(s.said(Warning, ""), "\n"))
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
			s.waitsToRestart()
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

// TestLostMoney: the money of lost work is that of the work that is repeated or in no checkpoint, and unknown only where the
// position of the checkpoint is.
func TestLostMoney(t *testing.T) {
	usd := func(v float64) *float64 { return &v }
	early := func(exit *launch.Exit) *ending { return &ending{state: journal.Stopped, exit: exit} }
	for name, c := range map[string]struct {
		ended   *ending
		pending *pendingStop
		saves   []time.Duration
		at      float64 // of the checkpoint
		how     string
		lost    float64 // marked before
		unread  bool    // a restart has shown no progress
		want    *float64
	}{
		"running":                            {want: usd(0)},
		"running, after a failure":           {lost: 1.5, want: usd(1.5)},
		"restarting":                         {unread: true},
		"done, after a failure":              {ended: &ending{state: journal.Done}, lost: 1.5, want: usd(1.5)},
		"stopped, own checkpoint":            {ended: early(&launch.Exit{}), saves: []time.Duration{at(13.2)}, at: 3, how: inspect.ResumeArgument, want: usd(3)},
		"stopped before a restart":           {ended: early(nil), saves: []time.Duration{at(13.2)}, at: 3, how: inspect.ResumeArgument, want: usd(3)},
		"stopped again, more lost before":    {ended: early(&launch.Exit{}), saves: []time.Duration{at(13.2)}, at: 3, how: inspect.ResumeArgument, lost: 4, want: usd(4)},
		"stopped, position unknown":          {ended: early(&launch.Exit{}), saves: []time.Duration{at(13.2)}, at: math.NaN(), how: inspect.ResumeItself, want: usd(2.8)},
		"stopped, saved on request":          {ended: early(&launch.Exit{}), pending: &pendingStop{Saved: "last.pt"}, how: inspect.ResumeItself, want: usd(0)},
		"stopped, saved by the protocol":     {ended: early(&launch.Exit{Code: 75}), pending: &pendingStop{Checkpoint: true}, how: inspect.ResumeProtocol, want: usd(0)},
		"killed, protocol, unknown files":    {ended: early(&launch.Exit{Code: -1, Signal: "SIGKILL"}), how: inspect.ResumeProtocol},
		"killed before its first checkpoint": {ended: early(&launch.Exit{Code: -1, Signal: "SIGKILL"}), how: inspect.ResumeItself, want: usd(0.016)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			r := newRun(s.agent(), s.cfg)
			r.meter = new(cost.Meter)
			if err := r.meter.Start(0, "run", resources.Allocation{CPUs: 1}, *s.cfg.Rates); err != nil {
				t.Fatal(err)
			}
			r.meter.Settle(at(16))
			r.Resumable, r.resumption.How, r.checkpoints.times, r.checkpoints.done = true, c.how, c.saves, c.at
			r.ended, r.endedAt, r.Pending = c.ended, at(16), c.pending
			r.Progress = Progress{Unit: "epoch", Done: 5, anyPosition: c.unread, Segments: []*Segment{{Launch: true, FirstRowAt: at(11), FirstDone: 1, LastRowAt: at(15), Reached: 5,
				EndedAt: at(16), Spent: 16, Lost: c.lost}}}
			got := r.lostMoney()
			if got.Known() != (c.want != nil) || c.want != nil && math.Abs(float64(got)-*c.want) > 1e-9 {
				t.Errorf("$%v, want %v", got, c.want)
			}
		})
	}
}

// TestLostAfterRestart: a job that is killed after seven epochs and continues from the fourth has lost three, and the
// time of its second start, also where it repeats their rows exactly.
func TestLostAfterRestart(t *testing.T) {
	for name, exact := range map[string]bool{"other rows": false, "the same rows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lostAfterRestart(t, exact)
		})
	}
}

func lostAfterRestart(t *testing.T, exact bool) {
	s := newStage(t, func(a *actor) launch.Exit {
		a.stage.turn("the start", func() {}, func(Status, int) bool { return true }) // the agent has dated it
		a.stage.clock.advance(at(5))
		for a.begin(); a.epoch < 10; {
			if a.n == 1 && a.epoch == 7 {
				a.stage.saved = 4
				return died("SIGKILL")
			}
			a.work(10, 10)
		}
		return finished
	})
	s.waitsToRestart()
	s.cfg.Restarts, s.exact = 3, exact
	res := s.run()
	if lost := float64(res.Record.Waste.Failed); res.Record.State != journal.Done || !(math.Abs(lost-0.03) < 0.001) { // 30 s
		t.Errorf("%s, lost $%v, want done and $0.03", res.Record.State, lost)
	}
	if o, usd := res.Record.Outcome, float64(res.Record.Waste.Restarts); !(math.Abs(float64(o.OverheadSeconds)-5) < 0.1) || !(math.Abs(usd-0.005) < 1e-4) {
		t.Errorf("the restart took %v s and cost $%v, want 5 s and $0.005", o.OverheadSeconds, usd)
	}
}

// TestSpentAbove: the time at which a segment reached a position is interpolated between its rows; before the first row
// nothing of it is kept.
func TestSpentAbove(t *testing.T) {
	s := Segment{LaunchedAt: at(100), FirstRowAt: at(111), FirstDone: 1, LastRowAt: at(115), Reached: 5, EndedAt: at(116), Spent: 32}
	resumed := s
	resumed.StartDone, resumed.FirstDone, resumed.Reached = 9, 5, 9 // went back to the fourth
	for name, c := range map[string]struct {
		of       Segment
		position float64
		want     float64
	}{
		"all": {s, 0, 32}, "half of the first": {s, 0.5, 32}, "the first": {s, 1, 10}, "between rows": {s, 3.5, 5}, "the last": {s, 5, 0}, "beyond": {s, 7, 0},
		"no rows": {Segment{LaunchedAt: at(100), EndedAt: at(116), Spent: 32}, 0, 0}, "resumed": {resumed, 7, 6}, "resumed, all": {resumed, 4, 32},
	} {
		if got := spentAbove(c.position)(&c.of); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
