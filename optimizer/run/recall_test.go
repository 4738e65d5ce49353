package run

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/history"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// later is the next run of a stage's training, with other arguments and another pace, in the same state directory.
func later(t *testing.T, before *stage, seconds float64, epochs int, args ...string) *stage {
	t.Helper()
	s := newStage(t, resumable(epochs, seconds))
	s.cfg.Dir, s.cfg.StateDir = before.cfg.Dir, before.cfg.StateDir
	s.cfg.Planner, s.cfg.Epochs, s.cfg.Args = "model", epochs, args
	return s
}

// first is a finished run of a training of 20 epochs, 2 s each.
func first(t *testing.T, args ...string) (*stage, *journal.Record) {
	t.Helper()
	s := newStage(t, resumable(20, 2))
	s.cfg.Planner, s.cfg.Epochs, s.cfg.Args = "model", 20, args
	res := s.run()
	if res.Code != CodeDone {
		t.Fatalf("exit %d, %v", res.Code, res.Err)
	}
	if p := res.Record.Prior; p != nil {
		t.Errorf("a run without history has the prior %+v", p)
	}
	if said := s.said(Info, "prior"); len(said) > 0 {
		t.Errorf("a run without history said %q", said)
	}
	return s, res.Record
}

func inside(v float64, i sla.Interval) bool { return v >= i.P5 && v <= i.P95 }

// TestPriorShownAtTheStart: a run with other arguments is predicted before its first measurement from the measured
// run, with a width that depends on the differences; a different learning rate or length has no effect.
func TestPriorShownAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		args           []string
		epochs         int
		seconds        float64
		words          string
		least, highest float64 // spread
	}{
		"learning rate": {[]string{"--width", "32", "--lr", "0.5"}, 20, 2, "of this training", 0.1, 0.6},
		"epochs":        {[]string{"--width", "32", "--lr", "0.1"}, 30, 2, "of this training", 0.1, 0.6},
		"width":         {[]string{"--width", "48", "--lr", "0.1"}, 20, 2.8, "of the same script with other arguments (width 32, now 48)", 0.4, 2},
		"word":          {[]string{"--width", "32", "--lr", "0.1", "--optimizer", "adam"}, 20, 2.2, "with other arguments (optimizer none, now adam)", 0.8, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, rec := first(t, "--width", "32", "--lr", "0.1")
			s := later(t, before, c.seconds, c.epochs, c.args...)
			atFirst := 0
			s.onStart = func(int, launch.Command) {
				atFirst = len(s.said(Info, "predicted before the first measurement"))
			}
			res := s.run()
			p := res.Record.Prior
			if p == nil || p.Prediction == nil || res.Record.Plan == nil {
				t.Fatalf("exit %d, prior %+v", res.Code, p)
			}
			if atFirst != 1 || !strings.Contains(p.Words, rec.RunID) || !strings.Contains(p.Words, c.words) || len(s.said(Info, "prior: "+p.Words)) != 1 {
				t.Errorf("said %d times at the start: %q", atFirst, p.Words)
			}
			if w := float64(p.Spread); !(w > c.least && w < c.highest) {
				t.Errorf("±%.0f %%, want %g to %g", 100*w, c.least, c.highest)
			}
			if !inside(float64(res.Record.Outcome.Seconds), p.Prediction.Seconds) || math.Abs(p.UnitSeconds.P50/2-1) > 0.2 || !inside(c.seconds, p.UnitSeconds) {
				t.Errorf("predicted %v, a unit %v; took %v at %g s", p.Prediction.Seconds, p.UnitSeconds, res.Record.Outcome.Seconds, c.seconds)
			}
			if len(p.Dropped) != 0 {
				t.Errorf("dropped %q", p.Dropped)
			}
		})
	}
}

// TestRecallOnAnotherCPU: a run on another model of CPU is a similar one, whose pace has no place in a refusal.
func TestRecallOnAnotherCPU(t *testing.T) {
	on := func(s *stage, model string) Result {
		agent := s.agent()
		discover := agent.Discover
		agent.Discover = func(ctx context.Context) (resources.Host, error) {
			h, err := discover(ctx)
			h.CPUModel = model
			return h, err
		}
		return agent.Run(t.Context(), s.cfg, nil)
	}
	before := newStage(t, resumable(20, 2))
	before.cfg.Planner, before.cfg.Epochs = "model", 20
	if res := on(before, "A"); res.Code != CodeDone || res.Record.Host.CPUModel != "A" {
		t.Fatalf("exit %d, %v, host %+v", res.Code, res.Err, res.Record.Host)
	}
	for model, want := range map[string]Code{"A": CodeInfeasible, "B": CodeDone} {
		s := later(t, before, 0.1, 20) // which the deadline permits on B only
		s.cfg.SLA.TimeMax = 6 * time.Second
		res := on(s, model)
		if res.Code != want {
			t.Fatalf("on %s: exit %d, %v; want %d", model, res.Code, res.Err, want)
		}
		if p := res.Record.Prior; model == "B" && (p == nil || !strings.Contains(p.Words, "of the same script on another machine (CPU A, now B)")) {
			t.Errorf("prior %+v", p)
		}
	}
}

// TestContradictedPrior: a prior that the first measurement contradicts is dropped, and the run is predicted by its
// own pace, regardless of the prior's width.
func TestContradictedPrior(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		seconds float64
	}{
		"of this training":  {[]string{"--width", "32"}, 9},
		"of a similar run":  {[]string{"--width", "48"}, 40},
		"of a slower one":   {[]string{"--width", "48"}, 0.5},
		"at a high ceiling": {[]string{"--width", "33"}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, _ := first(t, "--width", "32")
			s := later(t, before, c.seconds, 20, c.args...)
			var after []sla.Interval
			s.onStatus = func(st Status) {
				if st.Finish != nil && len(s.said(Info, "prior dropped")) > 0 {
					after = append(after, *st.Finish)
				}
			}
			res := s.run()
			if res.Code != CodeDone {
				t.Fatalf("exit %d, %v", res.Code, res.Err)
			}
			if p := res.Record.Prior; len(p.Dropped) != 1 || !strings.Contains(p.Dropped[0], "measured") {
				t.Fatalf("prior %+v", p)
			}
			if len(after) == 0 {
				t.Fatal("no projection after the prior was dropped")
			}
			if truth := float64(res.Record.Outcome.Seconds); math.Abs(after[0].P50/truth-1) > 0.15 {
				t.Errorf("projected %v once the prior was dropped, the run took %.1f s", after[0], truth)
			}
		})
	}
}

// TestSimilarRunRefusesNothing: only measurements of this very training can refuse it before the start.
func TestSimilarRunRefusesNothing(t *testing.T) {
	before, _ := first(t, "--width", "32")
	for name, c := range map[string]struct {
		args []string
		want Code
	}{
		"this training": {[]string{"--width", "32"}, CodeInfeasible},
		"a similar one": {[]string{"--width", "33"}, CodeDone},
	} {
		s := later(t, before, 0.05, 20, c.args...)
		s.cfg.SLA.TimeMax = at(8)
		if res := s.run(); res.Code != c.want {
			t.Errorf("%s: exit %d (%v), want %d", name, res.Code, res.Err, c.want)
		}
	}
}

// TestChangedFiles: a run whose modules or configuration files have changed since is one of another version of the script: it
// neither refuses the training nor determines its length. An unchanged training is refused.
func TestChangedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		same       bool
	}{
		"nothing":         {"net.py", "width = 512\n", true},
		"a comment":       {"net.py", "width = 512 # as before\n", true},
		"a learning rate": {"job.yaml", "width: 512\nlr: 0.2\n", true},
		"a module":        {"net.py", "width = 8\n", false},
		"a configuration": {"job.yaml", "width: 8\nlr: 0.1\n", false},
		"a module, empty": {"net.py", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newStage(t, resumable(20, 2))
			for file, text := range map[string]string{"train.py": "import net\nraise SystemExit('the test plays it')\n", "net.py": "width = 512\n", "job.yaml": "width: 512\nlr: 0.1\n"} {
				before.save(file, text)
			}
			before.cfg.Train, before.cfg.Planner, before.cfg.Args = "train.py", "model", []string{"--config", "job.yaml"}
			res := before.run()
			if res.Code != CodeDone {
				t.Fatalf("exit %d, %v", res.Code, res.Err)
			}
			s := later(t, before, 0.05, 0, before.cfg.Args...)
			s.play, s.cfg.Train, s.cfg.SLA.TimeMax = resumable(20, 0.05), "train.py", at(8)
			s.save(c.file, c.text)
			again := s.run()
			want, words := CodeDone, "run "+res.Record.RunID+" of another version of the script"
			if c.same {
				want, words = CodeInfeasible, "run "+res.Record.RunID+" of this training"
			}
			if p := again.Record.Prior; again.Code != want || p == nil || !strings.Contains(p.Words, words) {
				t.Errorf("exit %d (%v), prior %+v; want exit %d and %q", again.Code, again.Err, p, want, words)
			}
			if length := again.Record.Script.Evidence["length"]; strings.Contains(length, res.Record.RunID) != c.same {
				t.Errorf("its length: %q", length)
			}
		})
	}
}

// TestPriorOfOtherTrainings: a script of a published model on a machine with T4 has a prior with its width from the
// start, which holds the measured rate, counts no allocation as measured, and neither refuses nor warns.
func TestPriorOfOtherTrainings(t *testing.T) {
	s := newStage(t, resumable(3, 1))
	script := "import argparse, torch\nfrom torchvision import datasets, models\nmodel = models.resnet50().cuda()\ndata = datasets.ImageNet('data')\n" +
		"for epoch in range(3):\n    for x, y in torch.utils.data.DataLoader(data, batch_size=32):\n        pass\n"
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	s.cfg.Train, s.cfg.CPUs, s.cfg.Planner, s.cfg.Epochs, s.cfg.DryRun = "train.py", "", "model", 3, true
	s.cfg.SLA.TimeMax = at(60)
	host := resources.Host{Described: "four T4", CPUs: 16, Memory: 64}
	for range 4 {
		host.GPUs = append(host.GPUs, resources.GPU{Name: "Tesla T4", Memory: 16})
	}
	s.cfg.Described = &host
	res := s.run()
	p := res.Record.Prior
	if res.Code != CodeDone || p == nil || !strings.HasPrefix(p.Words, "other trainings: resnet") || p.Unit != "epoch" || len(p.Runs) > 0 {
		t.Fatalf("exit %d, %v, prior %+v", res.Code, res.Err, p)
	}
	if v := p.UnitSeconds; !inside(1281167./500, v) || v.P95 > 100*v.P5 { // 500 samples/s on four T4
		t.Errorf("an epoch in %+v", v)
	}
	if n := len(s.said(Warning, "")); n > 0 || len(res.Record.Model.Checks) > 0 {
		t.Errorf("warned %q; checks %v", s.said(Warning, ""), res.Record.Model.Checks)
	}
}

// TestSamplesPerStep: a step of a distributed training takes a batch for each GPU of each machine.
func TestSamplesPerStep(t *testing.T) {
	for name, c := range map[string]struct {
		command     string
		nodes, gpus int
		batch       string
		want        float64
	}{
		"distributed":               {"torchrun train.py", 1, 4, "32", 128},
		"on two machines":           {"torchrun train.py", 2, 4, "32", 256},
		"on two machines, one each": {"torchrun train.py", 2, 1, "32", 64},
		"not distributed":           {"python3 train.py", 1, 4, "32", 32},
		"of unknown batch size":     {"torchrun train.py", 2, 4, "", math.NaN()},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "train.py"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		r := &run{facts: facts{Host: resources.Host{Nodes: c.nodes}}}
		r.command = inspect.ReadCommand(strings.Fields(c.command), dir)
		r.ins.BatchSize.Value = c.batch
		if got := r.samplesPerStep(resources.Allocation{GPUs: c.gpus}); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %g samples, want %g", name, got, c.want)
		}
	}
}

// TestOtherTrainingsAreDropped: a prior of other trainings is converted to the samples that this run reports, and is
// contradicted by a pace far outside its width, not by one inside.
func TestOtherTrainingsAreDropped(t *testing.T) {
	a := resources.Allocation{GPUs: 1, CPUs: 4}
	p := &prior{samples: math.NaN()}
	p.add("", perf.Observation{Allocation: a, UnitSeconds: []float64{0.01}, UnitSamples: 1, PeakMemoryGiB: math.NaN(), Recalled: true, Inferred: true,
		Effects: []perf.Effect{{Name: "other trainings", Level: 0.5, Slope: 0.1, Reference: a}}})
	if got := p.scaled(&Progress{}, p.in("epoch")); got != nil {
		t.Errorf("an epoch of unknown size takes %v", got)
	}
	progress := &Progress{Unit: "epoch", UnitSamples: 1000}
	for seconds, want := range map[float64]bool{10: false, 18: false, 200: true, 0.5: true} {
		off, why := p.contradiction([]pace{{a, seconds}}, progress, perf.FitOptions{})
		if off > contradicts != want {
			t.Errorf("%g s per epoch: %.1f standard deviations, %s", seconds, off, why)
		}
	}
}

// TestConfigOfNamesTheGPUModel: earlier runs are matched by the model of a GPU, not by its name in the driver.
func TestConfigOfNamesTheGPUModel(t *testing.T) {
	for name, want := range map[string]string{"NVIDIA A100-SXM4-40GB": "A100 40GB", "Tesla T4": "T4"} {
		r := &facts{Host: resources.Host{GPUs: []resources.GPU{{Name: name}}}}
		if got := r.configOf(resources.Allocation{GPUs: 1}).GPU; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if _, known := history.Peaks()[want]; !known {
			t.Errorf("transfer has no specifications of %q", want)
		}
	}
}

// TestConfigOfSeveralMachines: the runs database has the amounts of all machines, an allocation those of one.
func TestConfigOfSeveralMachines(t *testing.T) {
	r := &facts{Host: resources.Host{GPUs: []resources.GPU{{Name: "Tesla T4"}}, Nodes: 2}}
	got := r.configOf(resources.Allocation{GPUs: 4, CPUs: 8, Memory: 32})
	if got.GPU != "T4" || got.GPUs != 8 || got.Nodes != 2 || got.CPUs != 16 || got.MemoryGiB != 64 {
		t.Errorf("%+v, want 8 T4, 16 CPUs and 64 GiB on 2 machines", got)
	}
}

// TestClosingIsRecalled: the time from the last unit of work to the exit, such as of a final evaluation, is predicted from an
// earlier run of the training, also of another length.
func TestClosingIsRecalled(t *testing.T) {
	const closing = 40
	evaluated := func(epochs int) func(*actor) launch.Exit {
		return func(a *actor) launch.Exit {
			exit := resumable(epochs, 2)(a)
			a.stage.clock.advance(at(closing))
			return exit
		}
	}
	before := newStage(t, evaluated(20))
	before.cfg.Planner, before.cfg.Epochs = "model", 20
	if rec := before.run().Record; rec.Overheads.ClosingSeconds == nil || !(math.Abs(float64(*rec.Overheads.ClosingSeconds)-closing) < 1) {
		t.Fatalf("%s, closed in %v s, want %d", rec.State, rec.Overheads.ClosingSeconds, closing)
	}
	s := later(t, before, 2, 30)
	s.play = evaluated(30)
	rec := s.run().Record
	if p := rec.Prior.Prediction; p == nil || !inside(float64(rec.Outcome.Seconds), p.Seconds) || p.Seconds.P50 < 30*2+closing-1 {
		t.Errorf("predicted %+v, took %v s", p, rec.Outcome.Seconds)
	}
	if p := rec.Plan.Prediction; p == nil || !inside(float64(rec.Outcome.Seconds), p.Seconds) {
		t.Errorf("planned with %+v, took %v s", p, rec.Outcome.Seconds)
	}
}

// TestClosingUnknown: the time after the last unit is unknown without the row of that unit, where further rows repeat earlier
// units (trainings side by side), and of a run that ended before its total or did not finish.
func TestClosingUnknown(t *testing.T) {
	done := &ending{state: journal.Done}
	for name, c := range map[string]struct {
		ended                 *ending
		reached, units, total float64
		backwards             int
		want                  bool
	}{
		"finished": {done, 5, 5, 5, 0, true}, "without a total": {done, 5, 5, 0, 0, true}, "counted at the exit": {done, 4, 5, 5, 0, false},
		"side by side": {done, 5, 5, 5, 4, false}, "early": {done, 5, 5, 9, 0, false},
		"stopped": {&ending{state: journal.Stopped}, 5, 5, 5, 0, false}, "running": {nil, 5, 5, 5, 0, false},
	} {
		r := newRun(Agent{}, Config{})
		r.ended, r.endedAt = c.ended, at(20)
		r.Progress = Progress{Unit: "epoch", Done: c.units, Total: c.total, Backwards: c.backwards, reachedAt: at(15), Segments: []*Segment{{Reached: c.reached}}}
		if got := r.closing(); (got != nil) != c.want || c.want && *got != 5 {
			t.Errorf("%s: %v s", name, got)
		}
	}
}
