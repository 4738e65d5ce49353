package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
)

const resumeByArgument = `import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=40)
p.add_argument("--resume", default="")
args = p.parse_args()
start = 0
if args.resume:
    c = torch.load(args.resume)
    start = c["epoch"]
for epoch in range(start, args.epochs):
    torch.save({"epoch": epoch + 1}, "ckpt.pt")
`

// TestResumesByArgument: a script that resumes by an option of its own is not said to be unable to resume; the record
// names the option, the plan the reason why the job is not moved.
func TestResumesByArgument(t *testing.T) {
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 40 {
			a.work(40, 2)
		}
		return finished
	})
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(resumeByArgument), 0o644); err != nil {
		t.Fatal(err)
	}
	s.cfg.Train, s.cfg.Resume, s.cfg.CPUs, s.cfg.Planner = "train.py", resumableAuto, "1:2", "model"
	res := s.run()
	script := res.Record.Script
	if want := "--resume={path} (option --resume in line 4, loaded in line 8)"; script.Resumes != want || script.Arguments[inspect.KnobEpochs] == "" {
		t.Errorf("resumes %q, want %q; arguments %q", script.Resumes, want, script.Arguments)
	}
	if res.Record.Plan == nil {
		t.Fatal("no plan")
	}
	if why := res.Record.Plan.Reason; strings.Contains(why, "cannot be resumed") || !strings.Contains(why, "resumes from its own checkpoints only, by --resume={path}") {
		t.Errorf("plan: %s", why)
	}
}

// TestResumesFromProgress: a file of weights alone is not resumed from where the script needs progress, nor where
// another file has it.
func TestResumesFromProgress(t *testing.T) {
	file := func(path string) observe.CheckpointFile {
		return observe.CheckpointFile{Path: path, Time: time.Unix(1, 0)}
	}
	both, alone := []observe.CheckpointFile{file("/d/ckpt.pt"), file("/d/model.pt")}, []observe.CheckpointFile{file("/d/model.pt")}
	for name, c := range map[string]struct {
		files    []observe.CheckpointFile
		restores bool
		want     int
	}{"both": {both, false, 1}, "both, restored": {both, true, 1}, "weights": {alone, false, 1}, "weights, restored": {alone, true, 0}} {
		r := &run{}
		r.Weights = map[string]bool{"/d/model.pt": true}
		r.resumption.Restores = c.restores
		got := r.withProgress(c.files)
		if len(got) != c.want || len(c.files) == 2 && got[0].Path != "/d/ckpt.pt" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestExportsAreNoCheckpoints: a file that the script writes after each checkpoint, without a report, is none if the reported one
// contains progress.
func TestExportsAreNoCheckpoints(t *testing.T) {
	for name, c := range map[string]struct {
		reported        bool
		weights, before string // paths
		want            string
	}{
		"reported":            {true, "", "", "[/d/ckpt.pt]"},
		"weights":             {true, "/d/ckpt.pt", "", "[/d/ckpt.pt /d/model.bin]"},
		"to an earlier agent": {false, "", "/d/ckpt.pt", "[/d/ckpt.pt]"},
		"not reported":        {false, "", "", "[/d/ckpt.pt /d/model.bin]"},
	} {
		r := &run{}
		r.Weights, r.Positions = map[string]bool{c.weights: true}, map[string]float64{c.before: 280}
		var have []string
		for _, f := range r.saved([]observe.CheckpointFile{{Path: "/d/ckpt.pt", Reported: c.reported}, {Path: "/d/model.bin"}}) {
			have = append(have, f.Path)
		}
		if fmt.Sprint(have) != c.want {
			t.Errorf("%s: %v, want %s", name, have, c.want)
		}
	}
}

// TestChecksResumption: a resumed training that prints the epoch of its beginning again has begun again, also where the
// observer counts from the launch; one that prints a later epoch continues.
func TestChecksResumption(t *testing.T) {
	for name, c := range map[string]struct {
		first, printed, from float64
		saved                bool
		rewound              bool
		done, origin         float64
		how                  string
	}{
		"continues":                {1, 4, 3, true, false, 4, 3, inspect.ResumeItself},
		"began again":              {1, 1, 3, false, true, 1, 0, inspect.ResumeItself},
		"began again, after one":   {1, 1, 1, false, true, 1, 0, inspect.ResumeItself},
		"began again, has saved":   {1, 1, 3, true, false, 1, 0, inspect.ResumeItself},
		"prints every five epochs": {5, 5, 3, true, false, 4, 3, inspect.ResumeItself},
		"every five, began again":  {5, 5, 7, false, true, 1, 0, inspect.ResumeItself},
		"protocol, began again":    {1, 1, 3, false, true, 1, 0, inspect.ResumeProtocol},
		"protocol, has saved":      {1, 1, 3, true, true, 1, 0, inspect.ResumeProtocol},
		"protocol, continues":      {1, 4, 3, true, false, 4, 3, inspect.ResumeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			r := newRun(s.agent(), s.cfg)
			out := filepath.Join(s.cfg.Dir, "out")
			if err := os.WriteFile(out, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			log, err := observe.OpenLog(observe.LogOptions{Dir: s.cfg.Dir, Stdout: out, Stderr: out}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			r.log = &logReader{LogReader: log}
			if err := os.WriteFile(out, []byte(fmt.Sprintf("Epoch %g loss 0.5\nEpoch %g loss 0.4\n", c.printed, c.printed+1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := log.Poll(time.Now()); err != nil {
				t.Fatal(err)
			}
			r.observer = &observerClient{observed: &r.observed}
			r.Framework, r.Positions = "torch", map[string]float64{}
			if c.saved {
				r.observer.facts.Checkpoints = []observe.Checkpoint{{Path: "/d/ckpt.pt", Epoch: 1}}
				r.Positions["/d/ckpt.pt"] = c.from + 1
			}
			r.First, r.checkpoints.resumed, r.resumption.How = &c.first, true, c.how
			r.Origin = origin{"epoch", c.from}
			r.Progress.Unit, r.Progress.Done = "epoch", c.from+1
			r.checkResumption()
			if r.Progress.Rewound != c.rewound || r.Progress.Done != c.done || r.Origin.Position != c.origin {
				t.Errorf("rewound %t, done %g, origin %g; want %t, %g, %g", r.Progress.Rewound, r.Progress.Done, r.Origin.Position, c.rewound, c.done, c.origin)
			}
			if want := c.origin + 1; c.saved && r.Positions["/d/ckpt.pt"] != want {
				t.Errorf("the checkpoint is at %g, want %g", r.Positions["/d/ckpt.pt"], want)
			}
		})
	}
}

// TestResumeBeforeTheStart: a run whose agent died before the start of its job, between the two saves of its state or
// before the first one, begins with another agent, although the training keeps no checkpoint. If nothing was saved, the
// refusal reports it.
func TestResumeBeforeTheStart(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.begin(); a.epoch < 3; {
			a.work(3, 10)
		}
		return finished
	})
	s.cfg.Resume = "no"
	runs := filepath.Join(s.cfg.StateDir, "runs")
	planned, launched, empty := filepath.Join(runs, "20260301-120000-train-abcdef"), filepath.Join(runs, "20260301-120001-train-abcdef"), filepath.Join(runs, "20260301-120002-train-abcdef")
	keep := func(early, dir string) { // what the agent has written by now
		if err := os.CopyFS(early, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
	}
	s.run()
	s.onStart = func(n int, c launch.Command) {
		if n == 2 {
			keep(launched, c.RunDir)
		}
	}
	s.onEvent = func(line string) {
		if _, err := os.Stat(planned); err != nil && strings.HasPrefix(line, "prior: ") {
			all, _ := filepath.Glob(filepath.Join(runs, "*"))
			keep(planned, all[len(all)-1])
		}
	}
	s.run()
	s.clock.advance(time.Hour)
	for n, early := range []string{planned, launched} {
		res := s.resume(early, Change{})
		if res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != 3 || res.Record.Outcome.Restarts != 0 || float64(res.Record.Outcome.Seconds) > 60 {
			t.Errorf("exit %d (%v), outcome %+v: want 3 epochs without a restart", res.Code, res.Err, res.Record)
		}
		on := s.started()
		if len(on) != 3+n || on[2+n].setting("OPTIMIZER_RESUME") == "1" {
			t.Errorf("%d starts, want %d, the last one from the beginning", len(on), 3+n)
		}
	}
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if res := s.resume(empty, Change{}); res.Code != CodeUsage || !strings.Contains(fmt.Sprint(res.Err), "before it had begun anything: give the command again") {
		t.Errorf("exit %d: %v", res.Code, res.Err)
	}
	if text, err := s.agent().StopRun(t.Context(), empty, 0); err != nil || !strings.Contains(text, "nothing runs") {
		t.Errorf("stop: %q, %v", text, err)
	}
}

// TestRestartedAfterAKill: a training with checkpoints of its own continues from the last one after SIGKILL by another process,
// and is not restarted after its own failure, without a checkpoint, or against --max-restarts. Its outcome is not compared with
// the prediction.
func TestRestartedAfterAKill(t *testing.T) {
	for name, c := range map[string]struct {
		exit     launch.Exit
		saves    bool
		restarts int
		starts   int
	}{
		"killed":                     {died("SIGKILL"), true, 0, 2},
		"killed, told by a shell":    {failed(137), true, 0, 2},
		"a request for a restart":    {failed(exitTryAgain), true, 0, 2},
		"its own failure":            {failed(1), true, 0, 1},
		"out of memory":              {launch.Exit{Reason: launch.OOM, Code: -1, Signal: "SIGKILL"}, true, 0, 1},
		"killed, nothing saved":      {died("SIGKILL"), false, 0, 1},
		"killed, no restarts wanted": {died("SIGKILL"), true, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				if a.n > 1 {
					a.epoch = 20
				}
				for a.epoch < 40 && a.step(40, 1) {
					if c.saves && a.epoch == 20 && a.n == 1 {
						a.checkpoint()
					}
					if a.epoch == 24 && a.n == 1 {
						return c.exit
					}
				}
				return finished
			})
			s.waitsToRestart()
			s.cfg.Restarts, s.cfg.Planner, s.cfg.Explain = c.restarts, "model", true
			res := s.run()
			code := CodeTraining
			if c.starts > 1 {
				code = CodeDone
			}
			on := s.started()
			if res.Code != code || len(on) != c.starts {
				t.Fatalf("exit %d (%v) after %d starts, want %d after %d", res.Code, res.Err, len(on), code, c.starts)
			}
			if c.starts > 1 && (!slices.Contains(on[1].command.Args, filepath.Join(s.cfg.Dir, "ckpt_step_20.pt")) || float64(res.Record.Outcome.Steps) != 40) {
				t.Errorf("started with %q, %v steps; want ckpt_step_20.pt and 40", on[1].command.Args, res.Record.Outcome.Steps)
			}
			if p := res.Record.Plan; c.starts > 1 && (s.planned == nil || p == nil || p.Prediction != nil || p.Interrupted != "restarted") {
				t.Errorf("predicted %+v, at the end %+v; want no prediction at the end, which was of a run without interruption", s.planned, p)
			}
		})
	}
}

// TestRestartedAfterAKilledRank: a torchrun that reports that a rank was killed by SIGKILL is started again if nothing shows a failure
// of the script or a lack of memory.
func TestRestartedAfterAKilledRank(t *testing.T) {
	const (
		other = "[1]:\n  time      : now\n  host      : h\n  rank      : 0 (local_rank: 0)\n  exitcode  : %s\n  error_file: <N/A>\n  traceback : -\n"
		cause = "Failures:\n%s-------\nRoot Cause (first observed failure):\n[0]:\n  time      : now\n  host      : h\n  rank      : 1 (local_rank: 1)\n" +
			"  exitcode  : %s\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 5001\n=======\n"
		killed = "-9 (pid: 5001)  (SIGKILL)"
	)
	term := fmt.Sprintf(other, "-15 (pid: 17)  (SIGTERM)")
	for name, c := range map[string]struct {
		text   string
		held   bool
		ended  bool
		starts int
	}{
		"killed":               {fmt.Sprintf("ChildFailedError:\n"+cause, term, killed), true, false, 2},
		"the only one":         {fmt.Sprintf("ChildFailedError:\n"+cause, "  <NO_OTHER_FAILURES>\n", killed), true, false, 2},
		"memory":               {fmt.Sprintf("ChildFailedError:\n"+cause, term, killed), false, false, 1},
		"an exit of the rank":  {fmt.Sprintf("ChildFailedError:\n"+cause, term, killed), true, true, 1},
		"another process":      {fmt.Sprintf("ChildFailedError:\n"+cause, term, "-9 (pid: 17)  (SIGKILL)"), true, false, 1},
		"an error":             {fmt.Sprintf("ChildFailedError:\n"+cause, term, "1 (pid: 5001)"), true, false, 1},
		"an error of another":  {fmt.Sprintf("ChildFailedError:\n"+cause, fmt.Sprintf(other, "1 (pid: 17)"), killed), true, false, 1},
		"more output after it": {fmt.Sprintf("ChildFailedError:\n"+cause, term, killed) + "ValueError: no\n", true, false, 1},
		"nothing":              {"", true, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch = 20 * (a.n - 1); a.epoch < 40 && a.step(40, 1); {
					if a.epoch == 20 && a.n == 1 {
						a.checkpoint()
					}
					if a.epoch == 24 && a.n == 1 {
						if c.ended {
							a.report(map[string]any{"event": "end", "how": "exit"})
						}
						if err := os.WriteFile(filepath.Join(string(a.command.RunDir), "job.stderr"), []byte(c.text), 0o600); err != nil {
							t.Error(err)
						}
						return launch.Exit{Reason: launch.Exited, Code: 1, MemoryHeld: c.held}
					}
				}
				return finished
			})
			s.waitsToRestart()
			res := s.run()
			if on := s.started(); len(on) != c.starts || (res.Code == CodeDone) != (c.starts > 1) {
				t.Errorf("exit %d (%v) after %d starts, want %d", res.Code, res.Err, len(on), c.starts)
			}
		})
	}
}

// TestSnapshotWrittenOnce: a file of any format from which the script continues is a checkpoint after the end of the training,
// also if it was written only once.
func TestSnapshotWrittenOnce(t *testing.T) {
	for name, script := range map[string]string{
		"by itself": "import json, os\nstart = 0\nif os.path.exists('state.json'):\n    start = json.load(open('state.json'))['epoch']\n",
		"by a toggle": "import json, argparse\np = argparse.ArgumentParser()\np.add_argument('--resume', action='store_true')\nargs = p.parse_args()\nstart = 0\n" +
			"if args.resume:\n    start = json.load(open('state.json'))['epoch']\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			s.play = func(a *actor) launch.Exit {
				if a.n > 1 {
					a.epoch = 3
				}
				for a.epoch < 6 && a.work(6, 1) {
					if a.epoch == 3 {
						s.save("state.json", `{"epoch": 3}`)
						s.save("metrics.json", `{"epoch": 3}`)
					}
					if a.epoch == 4 && a.n == 1 {
						return failed(1)
					}
				}
				return finished
			}
			script += "for epoch in range(start, 6):\n    json.dump({'epoch': epoch + 1}, open('state.json', 'w'))\n"
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Train, s.cfg.Resume = "train.py", resumableAuto
			res := s.run()
			if c := res.Record.Checkpoint; res.Code != CodeTraining || c == nil || filepath.Base(c.Path) != "state.json" {
				t.Fatalf("exit %d (%v), checkpoint %+v, want state.json", res.Code, res.Err, c)
			}
			if res = s.resume(res.Dir, Change{}); res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != 6 {
				t.Errorf("exit %d (%v), %v epochs; want 6", res.Code, res.Err, res.Record.Outcome.Epochs)
			}
		})
	}
}

// TestWeightsBesideProgress: a script that keeps its weights and its progress in two files continues by a toggle, whatever the way in
// which it loads the weights; not if it has saved only weights that it does not load.
func TestWeightsBesideProgress(t *testing.T) {
	const head = "import json, argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--resume', action='store_true')\nargs = p.parse_args()\nstart = 0\n"
	for name, c := range map[string]struct {
		script  string
		resumes bool
	}{
		"in two statements": {head + "if args.resume:\n    sd = torch.load('model.pt')\n    model.load_state_dict(sd)\n    start = json.load(open('state.json'))['epoch']\n", true},
		"in a function": {"def load_state():\n    model.load_state_dict(torch.load('model.pt'))\n    return json.load(open('state.json'))['epoch']\n" + head +
			"if args.resume:\n    start = load_state()\n", true},
		"another file": {head + "if args.resume:\n    c = torch.load('ckpt.pt')\n    model.load_state_dict(c['model'])\n    start = c['epoch']\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				return a.failsOnce(4, 9, func() {
					a.report(map[string]any{"event": "checkpoint", "training": 1, "path": a.stage.save("model.pt", "weights"), "step": 4, "kind": "test", "seconds": 0.1, "weights": true})
					a.stage.save("state.json", `{"epoch": 4}`)
				})
			})
			script := c.script + "for epoch in range(start, 9):\n    torch.save(model.state_dict(), 'model.pt')\n    json.dump({'epoch': epoch + 1}, open('state.json', 'w'))\n"
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Knobs = nil
			res := s.run()
			if res.Code != CodeTraining {
				t.Fatalf("exit %d (%v), want the failure of the first start", res.Code, res.Err)
			}
			if res = s.resume(res.Dir, Change{}); (res.Code == CodeDone) != c.resumes {
				t.Fatalf("resumed with exit %d (%v)", res.Code, res.Err)
			}
			if on := s.started(); c.resumes && !slices.Contains(on[1].command.Args, "--resume") {
				t.Errorf("started with %q", on[1].command.Args)
			}
		})
	}
}

// TestExportThatIsMovedAway: the weights that a script saves beside its checkpoint and then moves elsewhere are not that checkpoint.
func TestExportThatIsMovedAway(t *testing.T) {
	t.Parallel()
	s := observedStage(t, func(a *actor) launch.Exit {
		a.begins(nil)
		for a.epoch < 3 && a.step(9, 1) {
		}
		last := a.stage.save("last.pt", "state")
		a.report(map[string]any{"event": "checkpoint", "training": 1, "path": last, "step": 3, "kind": "test", "seconds": 0.1})
		a.report(map[string]any{"event": "checkpoint", "training": 1, "path": filepath.Join(filepath.Dir(last), "export.pt"), "step": 3, "kind": "test", "seconds": 0.1, "weights": true})
		return failed(1)
	})
	res := s.run()
	dir, err := journal.Open(res.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var seen observed
	if _, err := dir.LoadState(&seen); err != nil {
		t.Fatal(err)
	}
	if last := filepath.Join(s.cfg.Dir, "last.pt"); seen.Weights[last] || seen.Positions[last] != 3 {
		t.Errorf("weights %v, positions %v; want last.pt of step 3, whole", seen.Weights, seen.Positions)
	}
}

// failsOnce plays an observed training that saves and fails at a step of its first life, from which its next one continues.
func (a *actor) failsOnce(at, total int, save func()) launch.Exit {
	a.begins(nil)
	if a.n > 1 {
		a.epoch = at
	}
	for a.epoch < total && a.step(total, 1) {
		if a.epoch == at && a.n == 1 {
			save()
			return failed(1)
		}
	}
	return finished
}

// TestCheckpointOfAnotherRun: a run that is resumed does not continue from what another one wrote in the same directory after it
// had ended, unless it has no other checkpoint; then with a warning.
func TestCheckpointOfAnotherRun(t *testing.T) {
	for name, removed := range map[string]bool{"beside its own": false, "its own removed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				return a.failsOnce(4, 9, func() {
					a.checkpoint()
				})
			})
			res := s.run()
			s.clock.advance(time.Minute)
			other := s.save("ckpt_step_7.pt", "state")
			s.clock.advance(time.Minute)
			want := filepath.Join(s.cfg.Dir, "ckpt_step_4.pt")
			if removed {
				if err := os.Remove(want); err != nil {
					t.Fatal(err)
				}
				want = other
			}
			if res = s.resume(res.Dir, Change{}); res.Code != CodeDone {
				t.Fatalf("exit %d (%v)", res.Code, res.Err)
			}
			if on := s.started(); !slices.Contains(on[1].command.Args, want) {
				t.Errorf("started with %q, want %s", on[1].command.Args, want)
			}
			if said := len(s.said(Warning, "after this run had ended")); (said > 0) != removed {
				t.Errorf("%d warnings: %q", said, s.said(Warning, ""))
			}
		})
	}
}

// TestClockOfTheFilesIsAhead: the newest checkpoint that the observer reported is that of a run that is resumed, although its file
// system dated it after the end of the run. One that another run has replaced later is not.
func TestClockOfTheFilesIsAhead(t *testing.T) {
	for name, replaced := range map[string]bool{"its own": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var saves []string
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				if a.n > 1 {
					a.epoch = 4
				}
				for a.epoch < 9 && a.step(9, 20) {
					if a.n == 1 && a.epoch%2 == 0 {
						path, ahead := a.checkpoint(), a.stage.clock.Now().Add(10*time.Second)
						if err := os.Chtimes(path, ahead, ahead); err != nil {
							t.Error(err)
						}
						if saves = append(saves, path); a.epoch == 4 {
							return failed(1)
						}
					}
				}
				return finished
			})
			res := s.run()
			if len(saves) != 2 {
				t.Fatalf("exit %d (%v) after %q", res.Code, res.Err, saves)
			}
			s.clock.advance(5 * time.Minute)
			want := saves[1]
			if replaced {
				s.save(filepath.Base(want), "state of another")
				want = saves[0]
			}
			s.clock.advance(5 * time.Minute)
			if res = s.resume(res.Dir, Change{}); res.Code != CodeDone {
				t.Fatalf("exit %d (%v)", res.Code, res.Err)
			}
			if on := s.started(); !slices.Contains(on[1].command.Args, want) {
				t.Errorf("started with %q, want %s", on[1].command.Args, want)
			}
		})
	}
}

// byProtocol is a script that follows the checkpoint protocol.
const byProtocol = `import os, signal, torch
signal.signal(signal.SIGUSR1, stop)
path = os.path.join(os.environ["OPTIMIZER_CHECKPOINT_DIR"], "ckpt.pt")
start = torch.load(path)["epoch"] if os.environ.get("OPTIMIZER_RESUME") == "1" else 0
for epoch in range(start, 60):
    torch.save({"epoch": epoch + 1}, path)
`

// TestKeepsOnlyItsNewestCheckpoint: a job that removes each checkpoint when it has written the next one is restarted from that,
// although no scan has seen it.
func TestKeepsOnlyItsNewestCheckpoint(t *testing.T) {
	for name, script := range map[string]string{"by the protocol": byProtocol, "as its user states": "raise SystemExit('the test plays it')\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			s.play = func(a *actor) launch.Exit {
				if _, err := os.Stat(a.setting("OPTIMIZER_CHECKPOINT_DIR")); err != nil && script == byProtocol {
					t.Error(err)
				}
				save := func() {
					s.save(fmt.Sprintf("ckpt_%d.pt", a.epoch), "state")
					os.Remove(filepath.Join(s.cfg.Dir, fmt.Sprintf("ckpt_%d.pt", a.epoch-1)))
				}
				for a.begin(); a.epoch < 60; save() {
					if !a.work(60, 10*(0.1+0.9/float64(a.command.Allocation.CPUs))) {
						save()
						return a.leave()
					}
				}
				return finished
			}
			s.cfg.Train, s.cfg.Planner, s.cfg.CPUs = "train.py", "model", "1:4"
			res := s.run()
			on := s.started()
			if res.Code != CodeDone || len(on) < 2 || len(s.said(Warning, "was removed")) > 0 {
				t.Fatalf("exit %d (%v) after %d starts: %q", res.Code, res.Err, len(on), s.said(Warning, ""))
			}
			for i, a := range on[1:] {
				if a.setting("OPTIMIZER_RESUME") != "1" {
					t.Errorf("start %d does not resume", i+2)
				}
			}
		})
	}
}

// TestCheckpointOfTrainingBeside: a checkpoint that the observer of a run of another command reported, which runs in the same
// directory at the same time, is neither that of this run nor resumed from; one of the same command is.
func TestCheckpointOfTrainingBeside(t *testing.T) {
	for name, same := range map[string]bool{"other arguments": false, "same command": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 9 && a.step(9, 1) {
					switch a.epoch {
					case 2:
						rec := journal.NewRecord()
						if rec.Command = []string{"train", "--out", "other"}; same {
							rec.Command = a.stage.started()[0].command.Args
						}
						path := filepath.Join(a.stage.cfg.Dir, "ckpt_step_7.pt")
						beside, err := journal.Create(a.stage.cfg.StateDir, "beside")
						if err == nil {
							err = errors.Join(beside.WriteRecord(rec), beside.SaveState(map[string]any{"positions": map[string]float64{path: 7}}))
						}
						if err != nil {
							t.Error(err)
						}
						a.stage.save(filepath.Base(path), "state")
					case 7:
						return failed(1)
					}
				}
				return finished
			})
			res := s.run()
			if c := res.Record.Checkpoint; (c != nil) != same {
				t.Errorf("checkpoint %+v", c)
			}
			if res = s.resume(res.Dir, Change{}); (res.Code == CodeUsage) == same {
				t.Errorf("resumed with exit %d (%v)", res.Code, res.Err)
			}
		})
	}
}

// TestFolderOfTrainingBeside: of the checkpoints that no observer reported, those in the folder that the command of a training beside
// this one names, where its own names another one, are not its own.
func TestFolderOfTrainingBeside(t *testing.T) {
	for name, c := range map[string]struct {
		own, other []string
		claimed    bool
	}{
		"another value":             {[]string{"train", "--out", "a"}, []string{"train", "--lr", "1", "--out", "b"}, true},
		"another value, joined":     {[]string{"train", "out=a"}, []string{"train", "out=b"}, true},
		"another argument":          {[]string{"train", "a"}, []string{"train", "b"}, true},
		"within the other's":        {[]string{"train", "--out", "b/own"}, []string{"train", "--out", "b"}, false},
		"the same":                  {[]string{"train", "--out", "b", "--lr", "1"}, []string{"train", "--out", "b", "--lr", "2"}, false},
		"an evaluation":             {[]string{"train"}, []string{"evaluate", "--of", "b"}, false},
		"of another script":         {[]string{"python", "x.py", "--out", "a"}, []string{"python", "y.py", "--out", "b"}, true},
		"the working directory":     {[]string{"train", "--out", "b"}, []string{"train", "--out", "."}, false},
		"nothing that names a path": {[]string{"train", "--lr", "1"}, []string{"train", "--lr", "2"}, false},
	} {
		r, other := newRun(Agent{}, Config{}), journal.NewRecord()
		r.rec, r.Config.Dir = journal.NewRecord(), "/jobs"
		r.rec.Command, other.Command, other.Dir = c.own, c.other, "/jobs"
		if got := (claim{folders: r.namedApart(other)}).contains("/jobs/b/own/last.pkl"); got != c.claimed {
			t.Errorf("%s: claimed %t", name, got)
		}
	}
}

// TestFilesThatAreNotLoaded: a Keras training that failed after its last epoch, when BackupAndRestore had removed its backup, cannot
// be resumed, although the model of another callback exists.
func TestFilesThatAreNotLoaded(t *testing.T) {
	for name, removed := range map[string]bool{"backup removed": true, "backup kept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(map[string]any{"framework": "keras"})
				for a.epoch < 6 && a.step(6, 1) {
					for _, file := range []string{"latest.weights.h5", "best.keras"} {
						a.report(map[string]any{"event": "checkpoint", "training": 1, "path": a.stage.save(file, "state"), "step": a.epoch, "kind": "keras", "seconds": 0.1})
					}
				}
				if removed {
					if err := os.Remove(filepath.Join(a.stage.cfg.Dir, "latest.weights.h5")); err != nil {
						t.Error(err)
					}
				}
				return failed(1)
			})
			script := "import keras\nm.fit(x, y, epochs=6, callbacks=[keras.callbacks.BackupAndRestore('.'), keras.callbacks.ModelCheckpoint('best.keras')])\n"
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Knobs = nil
			res := s.run()
			if c := res.Record.Checkpoint; *res.Record.Script.Resumable == removed || removed != (c == nil) || c != nil && filepath.Base(c.Path) != "latest.weights.h5" {
				t.Errorf("resumable %t, checkpoint %+v", *res.Record.Script.Resumable, c)
			}
			if res = s.resume(res.Dir, Change{}); (res.Code == CodeUsage) != removed {
				t.Errorf("resumed with exit %d (%v)", res.Code, res.Err)
			}
		})
	}
}

// TestCheckpointDuringAnOutage: what another run wrote after the end of a job that no agent observed is not that job's.
func TestCheckpointDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := observedStage(t, nil)
	want := ""
	s.play = func(a *actor) launch.Exit {
		a.begins(nil)
		if a.n == 1 {
			a.epoch = 4
			a.report(map[string]any{"event": "progress", "training": 1, "step": 4, "total_steps": 9, "step_seconds": 1, "threads": 2})
			want = s.save("ckpt_step_4.pt", "state")
			return died("SIGKILL")
		}
		for a.epoch = 4; a.epoch < 9 && a.step(9, 1); {
		}
		return finished
	}
	dir, job := orphan(t, s, false)
	<-job.Done()
	s.clock.advance(time.Minute)
	s.save("ckpt_step_7.pt", "state")
	s.clock.advance(time.Minute)
	s.waitsToRestart()
	if res := s.resume(dir.Dir(), Change{}); res.Code != CodeDone {
		t.Fatalf("exit %d (%v)", res.Code, res.Err)
	}
	if on := s.started(); len(on) != 2 || !slices.Contains(on[1].command.Args, want) {
		t.Errorf("%d starts, the last with %q; want 2, with %s", len(on), on[len(on)-1].command.Args, want)
	}
}
