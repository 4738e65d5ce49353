package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/inspect"
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
	}{
		"continues":                {1, 4, 3, true, false, 4, 3},
		"began again":              {1, 1, 3, false, true, 1, 0},
		"began again, after one":   {1, 1, 1, false, true, 1, 0},
		"began again, has saved":   {1, 1, 3, true, false, 1, 0},
		"prints every five epochs": {5, 5, 3, true, false, 4, 3},
		"every five, began again":  {5, 5, 7, false, true, 1, 0},
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
			r.First, r.checkpoints.resumed = &c.first, true
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
