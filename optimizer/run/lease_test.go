package run

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// TestLeaseEndsWhileTheAgentIsSuspended: a job that its supervisor stopped at the end of its lease, since the agent was
// suspended, or could not extend the lease, continues on its next one.
func TestLeaseEndsWhileTheAgentIsSuspended(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		a.work(100, 1)
		return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: true}
	})
	s.cfg.Resume = resumableNo
	agent := s.agent()
	agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
	res := agent.Run(t.Context(), s.cfg, nil)
	if res.Code != CodeTryAgain || res.Record.State != journal.Stopped || res.Record.Exit.Reason != byLease {
		t.Errorf("exit %d, %v, %s, %+v", res.Code, res.Err, res.Record.State, res.Record.Exit)
	}
}

// TestRemovedCheckpoint: a run that its scheduler stopped begins again if its only checkpoint is removed before its next lease,
// and loses the work. Without the directory of the checkpoint, whose file system may not be mounted, or without a scheduler, it
// is refused.
func TestRemovedCheckpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remove string // below the working directory
		leased bool
		want   Code
	}{
		"leased":               {"saves/ckpt_step_2.pt", true, CodeDone},
		"leased, no directory": {"saves", true, CodeUsage},
		"by the user":          {"saves/ckpt_step_2.pt", false, CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 6 {
					if !a.step(6, 1) {
						return a.leave()
					}
					if a.epoch == 2 && a.n == 1 {
						a.checkpointIn("saves")
						a.step(6, 5)
						return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: true}
					}
				}
				return finished
			})
			dir := s.cfg.Dir
			if err := os.Mkdir(filepath.Join(dir, "saves"), 0o700); err != nil {
				t.Fatal(err)
			}
			agent := s.agent()
			agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
			res := agent.Run(t.Context(), s.cfg, nil)
			if cp := res.Record.Checkpoint; res.Code != CodeTryAgain || cp == nil || filepath.Base(cp.Path) != "ckpt_step_2.pt" {
				t.Fatalf("exit %d (%v), checkpoint %+v", res.Code, res.Err, cp)
			}
			if err := os.RemoveAll(filepath.Join(dir, c.remove)); err != nil {
				t.Fatal(err)
			}
			if !c.leased {
				agent.Lease = nil
			}
			res = agent.Resume(t.Context(), res.Dir, Change{}, nil)
			if res.Code != c.want || c.want == CodeUsage && !errors.Is(res.Err, ErrNotResumable) {
				t.Fatalf("exit %d (%v), want %d", res.Code, res.Err, c.want)
			}
			if res.Unsaved {
				t.Error("a run with a checkpoint counts as one that saved nothing")
			}
			if on := s.started(); c.want == CodeDone && (len(on) != 2 || slices.Contains(on[1].command.Args, "--resume") || float64(res.Record.Outcome.Steps) != 6 || !(float64(res.Record.Waste.Failed) > 0.006)) {
				t.Errorf("%d starts, %v; outcome %+v, waste %+v", len(on), on[1].command.Args, res.Record.Outcome, res.Record.Waste)
			}
		})
	}
}

// TestSnapshotOfALateExit: a snapshot that the script wrote once, on request, is the checkpoint of the run, however late the agent
// notices the exit of the job.
func TestSnapshotOfALateExit(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play = func(a *actor) launch.Exit {
		for a.epoch < 3 && a.work(6, 1) {
		}
		s.interrupts <- syscall.SIGINT
		if !s.wait("the request", func(Status) bool { return a.mustGo() }) {
			return failed(1)
		}
		s.clock.advance(at(0.1))
		s.save("state.json", `{"epoch": 3}`)
		e := left
		e.Ran = s.clock.Monotonic() - a.from
		s.clock.advance(at(5))
		return e
	}
	script := "import json, os\nstart = 0\nif os.path.exists('state.json'):\n    start = json.load(open('state.json'))['epoch']\n" +
		"for epoch in range(start, 6):\n    json.dump({'epoch': epoch + 1}, open('state.json', 'w'))\n"
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cfg.Train, s.cfg.Resume = "train.py", resumableYes
	res := s.runWithSignals()
	if cp := res.Record.Checkpoint; res.Code != CodeInterrupt || cp == nil || filepath.Base(cp.Path) != "state.json" {
		t.Errorf("exit %d (%v), checkpoint %+v, want state.json", res.Code, res.Err, cp)
	}
}

// TestNextLease continues a run on its next lease, a minute later. Its time and cost are the same if the wall clock is set by a day
// meanwhile, and if the state is damaged but its configuration is known: the time since the submission and the cost of both lives.
func TestNextLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set     time.Duration
		damage  string
		script  string
		refused bool
	}{
		"clock not set": {}, "clock set forward": {set: 24 * time.Hour}, "clock set back": {set: -24 * time.Hour},
		"empty state": {damage: "configured"}, "empty state, no configuration": {damage: "unknown", refused: true},
		"empty state, another script": {damage: "configured", script: "gone.py", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.begin(); a.epoch < 6; a.work(6, 10) {
					if a.n == 1 && a.epoch == 3 {
						a.stage.saved = 3
						return launch.Exit{Reason: launch.Stopped, Code: 75, Signal: "SIGTERM", Limit: true}
					}
				}
				return finished
			})
			s.cfg.SLA.TimeMax = time.Hour
			agent := s.agent()
			agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
			res := agent.Run(t.Context(), s.cfg, nil)
			if res.Code != CodeTryAgain {
				t.Fatalf("exit %d (%v)", res.Code, res.Err)
			}
			s.clock.advance(time.Minute)
			s.clock.step(c.set)
			agent.Lease.Submitted = agent.Lease.Submitted.Add(c.set)
			change := Change{}
			if c.damage != "" {
				for _, f := range []string{"state", "state.prev"} {
					if err := os.WriteFile(filepath.Join(res.Dir, f), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.damage == "configured" {
				s.cfg.Train = cmp.Or(c.script, s.cfg.Train)
				change.Config = &s.cfg
			}
			res = agent.Resume(t.Context(), res.Dir, change, nil)
			if damage := (*journal.Damage)(nil); c.refused {
				if res.Code != CodeOurs || !errors.As(res.Err, &damage) {
					t.Errorf("exit %d (%v), want the damage", res.Code, res.Err)
				}
				return
			}
			if res.Code != CodeDone {
				t.Fatalf("exit %d (%v)", res.Code, res.Err)
			}
			o := res.Record.Outcome
			if float64(o.Epochs) != 6 || math.Abs(float64(o.Seconds)-120) > 2 || math.Abs(float64(o.CostUSD)-60*0.001) > 0.003 || o.Restarts != 1 || len(s.started()) != 2 {
				t.Errorf("%+v after %d starts, want 6 epochs in 120 s for $0.06 and one restart", o, len(s.started()))
			}
		})
	}
}

// TestDamagedStateOfObservedRun: a run with a damaged state counts on from the progress in its checkpoint.
func TestDamagedStateOfObservedRun(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(map[string]any{"framework": "torch"})
		for a.epoch < 6 {
			if a.n == 2 && a.epoch == 3 { // it counts from the start of the process
				return finished
			}
			if !a.step(6, 1) {
				return a.leave()
			}
			if a.n == 1 && a.epoch == 3 {
				a.checkpoint()
				a.step(6, 5)
				return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: true}
			}
		}
		return finished
	})
	agent := s.agent()
	agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
	res := agent.Run(t.Context(), s.cfg, nil)
	if res.Code != CodeTryAgain {
		t.Fatalf("exit %d (%v)", res.Code, res.Err)
	}
	for _, f := range []string{"state", "state.prev"} {
		if err := os.Truncate(filepath.Join(res.Dir, f), 20); err != nil {
			t.Fatal(err)
		}
	}
	res = agent.Resume(t.Context(), res.Dir, Change{Config: &s.cfg}, nil)
	on := s.started()
	if res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 6 || len(on) != 2 || !slices.Contains(on[1].command.Args, "--resume") {
		t.Errorf("exit %d (%v), %+v after %d starts, want 6 steps from the checkpoint", res.Code, res.Err, res.Record.Outcome, len(on))
	}
}

// TestStatedToggle: a script that is stated to save on request, and to load by an argument without a path, continues though no file
// of it is recognized as a checkpoint; one whose argument takes a path is refused for want of it: it has saved nothing.
func TestStatedToggle(t *testing.T) {
	t.Parallel()
	for knob, want := range map[string]string{"--resume": "", "--resume {path}": "no complete checkpoint of this run was found to resume from by --resume {path}"} {
		s := observedStage(t, func(a *actor) launch.Exit {
			if a.n == 2 {
				return finished
			}
			a.begins(nil)
			a.step(6, 1)
			return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: true}
		})
		s.cfg.Resume, s.cfg.Knobs = resumableYes, map[string]string{"resume": knob}
		agent := s.agent()
		agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
		res := agent.Run(t.Context(), s.cfg, nil)
		if res.Code != CodeTryAgain || !res.Unsaved {
			t.Errorf("%s: exit %d, unsaved %v; want %d, true", knob, res.Code, res.Unsaved, CodeTryAgain)
		}
		res = agent.Resume(t.Context(), res.Dir, Change{}, nil)
		if on := s.started(); want == "" && (res.Code != CodeDone || len(on) != 2 || !slices.Contains(on[1].command.Args, "--resume")) {
			t.Errorf("%s: exit %d (%v) after %d starts", knob, res.Code, res.Err, len(on))
		} else if want != "" && (res.Err == nil || !strings.Contains(res.Err.Error(), want)) {
			t.Errorf("%s: exit %d, %v; want %q", knob, res.Code, res.Err, want)
		}
		if res.Unsaved != (want != "") {
			t.Errorf("%s: unsaved %v, %v", knob, res.Unsaved, res.Err)
		}
	}
}

// TestLeaseEndsWithoutAnAgent: a job whose lease ended while its agent was dead, before it had saved anything, counts as one whose
// devices were taken; one that was lost with its machine does not.
func TestLeaseEndsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exit    launch.Exit
		unsaved bool
	}{
		"end of the lease": {launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", Limit: true}, true},
		"lost":             {launch.Exit{Reason: launch.Lost, Code: -1}, false},
	} {
		alive := filepath.Join(t.TempDir(), "alive") // the run directory as the dead agent left it
		s := observedStage(t, func(a *actor) launch.Exit {
			a.begins(nil)
			a.step(6, 1)
			err := errors.New("not copied")
			for n := 0; err != nil && n < 1000; n++ { // the agent may be replacing a file
				err = errors.Join(os.RemoveAll(alive), os.CopyFS(alive, os.DirFS(a.command.RunDir)))
			}
			if err != nil {
				t.Error(err)
			}
			return c.exit
		})
		s.cfg.Resume = resumableYes
		agent := s.agent()
		agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now()}
		res := agent.Run(t.Context(), s.cfg, nil)
		if err := errors.Join(os.RemoveAll(res.Dir), os.CopyFS(res.Dir, os.DirFS(alive))); err != nil {
			t.Fatal(err)
		}
		res = agent.Resume(t.Context(), res.Dir, Change{}, nil)
		if res.Code != CodeUsage || res.Unsaved != c.unsaved || len(s.started()) != 1 {
			t.Errorf("%s: exit %d (%v), unsaved %v after %d starts; want %d, %v and 1", name, res.Code, res.Err, res.Unsaved, len(s.started()), CodeUsage, c.unsaved)
		}
	}
}

// fullEngine is the error of an engine that accepts no job at present.
type fullEngine struct{ error }

func (fullEngine) TryLater() bool { return true }

// TestEngineAnswersLater: a run of a scheduler starts, from the beginning, once the engine accepts its job, and continues once it
// accepts the next one. One without a scheduler, and one whose job is refused for good, has failed.
func TestEngineAnswersLater(t *testing.T) {
	t.Parallel()
	down, full, refused := fmt.Errorf("sbatch: %w", engine.ErrUnreachable), fullEngine{fmt.Errorf("sbatch: %w", engine.ErrRefused)}, fmt.Errorf("sbatch: %w", engine.ErrRefused)
	for name, c := range map[string]struct {
		first, next error
		leased      bool
		want        Code
	}{
		"unreachable": {down, down, true, CodeDone}, "submit limit": {full, full, true, CodeDone},
		"unreachable at first": {down, nil, true, CodeDone}, "submit limit of the next start, by hand": {nil, full, false, CodeDone},
		"unreachable, by hand": {down, nil, false, CodeTraining}, "submit limit, by hand": {full, nil, false, CodeTraining}, "refused": {refused, nil, true, CodeTraining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			attempts := 0
			fails := func(err error) {
				if s.startError, attempts = nil, 0; err != nil {
					s.startError = &launch.StartError{Reason: err.Error(), Err: err}
				}
			}
			s.play = func(a *actor) launch.Exit {
				for a.begin(); a.epoch < 6; {
					if !a.work(6, 1) {
						return a.leave()
					}
					if a.n == 1 && a.epoch == 3 {
						a.stage.saved = 3
						fails(c.next)
						return failed(75)
					}
				}
				return finished
			}
			s.onStatus = func(st Status) {
				if strings.HasPrefix(st.Phase, "waiting") {
					if s.clock.advance(retryLimit); attempts == 3 {
						s.startError = nil
					}
					attempts++
				}
			}
			fails(c.first)
			agent := s.agent()
			if c.leased {
				agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Submitted: s.clock.Now()}
			}
			res := agent.Run(t.Context(), s.cfg, nil)
			if res.Code != c.want {
				t.Fatalf("exit %d (%v), want %d", res.Code, res.Err, c.want)
			}
			on := s.started()
			if c.want != CodeDone {
				if len(on) > 0 {
					t.Errorf("%d starts", len(on))
				}
				return
			}
			if o := res.Record.Outcome; len(on) != 2 || on[0].setting("OPTIMIZER_RESUME") == "1" || on[1].setting("OPTIMIZER_RESUME") != "1" || float64(o.Epochs) != 6 || float64(o.CostUSD) > 0.008 {
				t.Errorf("%d starts, outcome %+v; want 2, of which the second continues, and 6 epochs for $0.006", len(on), o)
			} else if c.next == nil && o.Restarts != 1 {
				t.Errorf("%d restarts, want 1: attempts to start are none", o.Restarts)
			}
		})
	}
}
