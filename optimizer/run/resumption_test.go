package run

import (
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
	file := func(path string) observe.CheckpointFile { return observe.CheckpointFile{Path: path, Time: time.Unix(1, 0)} }
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
