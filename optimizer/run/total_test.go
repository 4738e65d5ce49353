package run

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/resources"
)

// TestPrintedTotalOfObservedEpochs: a loop over a DataLoader that prints "Epoch i/n" is counted by the observer, and its
// total is the printed one, unless the output counts something else, the epochs are those of one update or the script makes
// several trainings.
func TestPrintedTotalOfObservedEpochs(t *testing.T) {
	t.Parallel()
	const folds = "for fold in range(2):\n    for epoch in range(8): train()\n"
	const updates = "for update in range(2):\n    for epoch in range(8): train()\n"
	for _, c := range []struct {
		printed, source string
		first           bool // the output is followed before the first report
		want            float64
	}{{"Epoch %d/8 loss 0.5\n", "", false, 8}, {"Epoch 7%d/90 of another count\n", "", false, 0}, {"Epoch %d/8 loss 0.5\n", folds, false, 0}, {"Epoch %d/8 loss 0.5\n", updates, false, 0},
		{"Epoch %d/8 loss 0.5\n", "", true, 8}, {"Epoch %d/8 loss 0.5\n", folds, true, 0}, {"Epoch %d/8 loss 0.5\n", updates, true, 0}} {
		s := observedStage(t, nil)
		s.play = func(a *actor) launch.Exit {
			a.begins(nil)
			for a.epoch < 8 {
				out, err := os.OpenFile(filepath.Join(a.command.RunDir, "job.stdout"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
				if err != nil {
					t.Error(err)
					return failed(1)
				}
				fmt.Fprintf(out, c.printed, a.epoch+1)
				out.Close()
				if c.first && a.epoch == 0 {
					s.wait("the output", func(st Status) bool { return st.Unit == "epoch" })
				}
				a.progress(1, map[string]any{"step": 20 * (a.epoch + 1), "epoch": a.epoch + 1, "step_seconds": 0.05})
			}
			return finished
		}
		if c.source != "" {
			s.cfg.Train = "folds.py"
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, s.cfg.Train), []byte(c.source), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if rec := s.run().Record; rec.Training.Unit != "epoch" || rec.Log.Format != "observer" || !(float64(rec.Training.TotalUnits) == c.want || c.want == 0 && math.IsNaN(float64(rec.Training.TotalUnits))) {
			t.Errorf("%q, %q: %v %ss by %s, want %g", c.printed, c.source, rec.Training.TotalUnits, rec.Training.Unit, rec.Log.Format, c.want)
		}
	}
}

// TestTotalByLoops: the observer's total by the loops of the script is that of the job while their positions agree with it, if
// the command states none, or one in iterations that are not the optimizer steps.
func TestTotalByLoops(t *testing.T) {
	t.Parallel()
	const folds = "for fold in range(2):\n    for epoch in range(4): train()\n"
	steps := func(n int) map[string]any { return map[string]any{"loop_steps": n} }
	atMost := map[string]any{"loop_steps": 300, "ends_early": true}
	epochs := func(n, loops int) map[string]any { return map[string]any{"total_epochs": n, "loops": loops} }
	for name, c := range map[string]struct {
		unit, source  string
		args          []string
		steps         int            // of the user
		first, second map[string]any // facts of the first and of the second half of the reports
		want          float64
	}{
		"steps":                         {unit: "step", first: map[string]any{}, second: steps(8), want: 8},
		"steps, retracted":              {unit: "step", first: steps(20), second: map[string]any{}},
		"steps, stated otherwise":       {unit: "step", args: []string{"--max_steps", "9"}, first: steps(20), second: steps(20), want: 9},
		"steps of several iterations":   {unit: "step", args: []string{"--max_iters", "400"}, first: map[string]any{}, second: steps(50), want: 50},
		"several steps in an iteration": {unit: "step", args: []string{"--iters", "60"}, first: steps(300), second: steps(300), want: 300},
		"a loop left at the option":     {unit: "step", args: []string{"--iters", "60"}, first: atMost, second: atMost, want: 60},
		"skipped steps":                 {unit: "step", args: []string{"--iters", "1000"}, first: steps(997), second: steps(997), want: 1000},
		"steps stated by the user":      {unit: "step", steps: 400, first: steps(50), second: steps(50), want: 400},
		"iterations, retracted":         {unit: "step", args: []string{"--max_iters", "400"}, first: steps(50), second: map[string]any{}},
		"steps of one of two":           {unit: "step", source: folds, first: steps(20), second: steps(20)},
		"epochs instead of the option":  {unit: "epoch", args: []string{"--epochs", "4"}, first: map[string]any{}, second: epochs(8, 2), want: 8},
		"epochs, retracted":             {unit: "epoch", args: []string{"--epochs", "9"}, first: epochs(20, 1), second: map[string]any{}, want: 9},
		"epochs of one fold":            {unit: "epoch", source: folds, first: epochs(8, 1), second: epochs(8, 1)},
		"epochs of all folds":           {unit: "epoch", source: folds, first: map[string]any{}, second: epochs(8, 2), want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 8 {
					facts := map[string]any{"step": a.epoch + 1, "step_seconds": 0.05}
					if c.unit == "epoch" {
						facts["epoch"] = a.epoch + 1
					}
					maps.Copy(facts, map[bool]map[string]any{true: c.first, false: c.second}[a.epoch < 4])
					a.progress(1, facts)
				}
				return finished
			})
			s.cfg.Args, s.cfg.Steps = c.args, c.steps
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, s.cfg.Train), []byte(cmp.Or(c.source, "train()\n")), 0o644); err != nil {
				t.Fatal(err)
			}
			rec := s.run().Record
			if got := float64(rec.Training.TotalUnits); rec.Training.Unit != c.unit || !(got == c.want || c.want == 0 && math.IsNaN(got)) {
				t.Errorf("%v %ss, want %g %ss", got, rec.Training.Unit, c.want, c.unit)
			}
		})
	}
}

// TestTotalOfARepeatedTraining: the steps of a finished run precede the iterations of an option that it has corrected, unless
// a shell script gives that; a total that it has not corrected may be corrected later.
func TestTotalOfARepeatedTraining(t *testing.T) {
	t.Parallel()
	const option = "400 steps (--max_iters 400 on the command line)"
	for _, c := range []struct {
		loops       int
		train, want string
	}{{0, "train.py", option}, {50, "train.py", "50 steps (run "}, {50, "train.sh", option}} {
		again := func(before *stage) (*stage, string) {
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 8 {
					a.progress(1, map[string]any{"step": a.epoch + 1, "loop_steps": c.loops, "step_seconds": 0.05})
				}
				return finished
			})
			if before != nil {
				s.cfg.Dir, s.cfg.StateDir = before.cfg.Dir, before.cfg.StateDir
			}
			s.cfg.Args = []string{"--max_iters", "400"}
			if s.cfg.Train = c.train; c.train == "train.sh" {
				s.cfg.Args = nil
				if err := os.WriteFile(filepath.Join(s.cfg.Dir, c.train), []byte("python train.py --max_iters 400\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			return s, s.run().Record.Script.Evidence["length"]
		}
		first, _ := again(nil)
		if _, have := again(first); !strings.HasPrefix(have, c.want) {
			t.Errorf("%s after %d steps by the loops: %s, want %s", c.train, c.loops, have, c.want)
		}
	}
}

// TestStepsOfIterations: a total that the output repeats is dropped if its iterations are not the steps; a last iteration without a
// step is none that is missing.
func TestStepsOfIterations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		each, last int // iterations of a step; the last step
		total      float64
		warns      bool
	}{
		"accumulated":          {each: 8, last: 50},
		"a step each":          {each: 1, last: 400, total: 400},
		"the last one without": {each: 1, last: 399, total: 400},
		"ended early":          {each: 1, last: 380, total: 400, warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for k := 1; k <= 20; k++ {
					out, err := os.OpenFile(filepath.Join(a.command.RunDir, "job.stdout"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
					if err != nil {
						t.Error(err)
						return failed(1)
					}
					fmt.Fprintf(out, "iter %d/400: loss 0.5\n", min(20*k, c.each*c.last))
					out.Close()
					a.progress(1, map[string]any{"step": c.last * k / 20, "step_seconds": 0.05})
				}
				return finished
			})
			s.cfg.Args = []string{"--max_iters", "400"}
			rec := s.run().Record
			if have := float64(rec.Training.TotalUnits); !(have == c.total || c.total == 0 && math.IsNaN(have)) || rec.Log.Format != "observer" {
				t.Errorf("%g %ss by %s, want %g", have, rec.Training.Unit, rec.Log.Format, c.total)
			}
			if said := s.said(Warning, "the training ended with"); len(said) > 0 != c.warns {
				t.Errorf("said %q, want a warning: %v", said, c.warns)
			}
		})
	}
}

// TestTotalOfSeveralTrainings: the total of one of several trainings is not that of the job. It is known in the last of them, if
// the job starts no others as commands of their own.
func TestTotalOfSeveralTrainings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		args    []string
		epochs  int    // of the user
		left    [2]int // in the first and the second training, of four epochs each
		goes    bool   // the second one counts on, towards the total of both
		want    float64
		earlier float64 // total before the second training
	}{
		"unknown number":     {left: [2]int{-1, -1}},
		"two":                {left: [2]int{-1, 1}, want: 8},
		"an option":          {args: []string{"--epochs", "4"}, left: [2]int{-1, -1}},
		"stated by the user": {epochs: 8, left: [2]int{-1, -1}, want: 8, earlier: 8},
		"a loop":             {left: [2]int{2, 1}, want: 8, earlier: 8},
		"counts on":          {goes: true, want: 8, earlier: 8},
		"two commands":       {script: "python3 a.py --epochs 4\npython3 b.py --epochs 4\n", left: [2]int{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			earlier := 0.0
			s := observedStage(t, func(a *actor) launch.Exit {
				a.begins(nil)
				for a.epoch < 8 {
					if a.epoch == 4 {
						a.stage.wait("the end of the first training", func(st Status) bool { earlier = st.Total; return st.Done >= 4 })
						a.report(map[string]any{"event": "finished", "training": 1})
						a.report(map[string]any{"event": "training", "training": 2, "framework": "test", "unit": "step", "world": 1})
					}
					k, n := a.epoch/4, a.epoch%4+1
					facts := map[string]any{"training": k + 1, "step": 10 * n, "epoch": n, "total_epochs": 4, "trainings_left": c.left[k], "step_seconds": 0.1}
					if c.goes {
						facts["step"], facts["epoch"], facts["total_epochs"], facts["loops"] = 10*(a.epoch+1), a.epoch+1, 8, 2
					}
					a.progress(1, facts)
				}
				return finished
			})
			s.cfg.Args, s.cfg.Epochs = c.args, c.epochs
			if c.script != "" {
				s.cfg.Train = "run.sh"
				if err := os.WriteFile(filepath.Join(s.cfg.Dir, s.cfg.Train), []byte(c.script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			rec := s.run().Record
			is := func(have, want float64) bool { return have == want || want == 0 && !(have > 0) }
			if have := float64(rec.Training.TotalUnits); rec.Training.Unit != "epoch" || rec.Outcome.Epochs != 8 || !is(have, c.want) || !is(earlier, c.earlier) {
				t.Errorf("%v of %v %ss, %v before the second training; want 8 of %g epochs, %g", rec.Outcome.Epochs, have, rec.Training.Unit, earlier, c.want, c.earlier)
			}
		})
	}
}

// TestLoopsOfAResumedTraining: the loops of a resumed training contain its rest, so that they neither state nor retract
// the total of the run.
func TestLoopsOfAResumedTraining(t *testing.T) {
	t.Parallel()
	for _, framework := range []string{"torch", "keras loop", "scikit-learn"} {
		loopsOfAResumedTraining(t, framework)
	}
}

func loopsOfAResumedTraining(t *testing.T, framework string) {
	dir := t.TempDir()
	c := newStage(t, nil).clock
	now := c.Monotonic().Seconds() + 1
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var text strings.Builder
	fmt.Fprintf(&text, `{"event":"start","mono":%f,"time":1,"pid":7,"boot":%q}`+"\n", now, strings.TrimSpace(string(boot)))
	for i, total := range []string{`,"total_epochs":6,"loops":1`, ""} {
		fmt.Fprintf(&text, `{"event":"progress","mono":%f,"time":1,"pid":7,"training":1,"framework":%q,"world":1,"step":%d,"epoch":%d%s}`+"\n", now+float64(i), framework, 8*(i+1), i+1, total)
	}
	if err := os.WriteFile(filepath.Join(dir, "7.jsonl"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &observerClient{observed: &observed{Origin: origin{Unit: "epoch", Position: 4}}, reader: observe.NewReader(dir), clock: c}
	rows, err := o.Poll(c.Now(), true)
	if err != nil || len(rows) != 2 || o.retracted {
		t.Fatalf("%s: %d rows (%v), retracted: %v", framework, len(rows), err, o.retracted)
	}
	for i := range rows {
		epoch, _ := rows[i].Value(trainlog.Epoch)
		if _, ok := rows[i].Value(trainlog.TotalEpochs); ok || epoch != float64(5+i) {
			t.Errorf("%s: epoch %g, total: %v; want %d without one", framework, epoch, ok, 5+i)
		}
	}
}

// TestEarlierTrainings: the work of trainings of one length that follow each other is added up, without a total; a longer
// training after a short one counts alone.
func TestEarlierTrainings(t *testing.T) {
	type report struct{ training, pid, epoch, total float64 }
	for name, c := range map[string]struct {
		reports          []report
		epochs           []float64
		totals           int // reports with a total
		follows, repeats bool
		began            time.Duration // of each training; 0: after the report before it
	}{
		"folds":              {[]report{{1, 7, 2, 4}, {1, 7, 4, 4}, {2, 7, 1, 4}, {2, 7, 4, 4}, {3, 7, 1, 4}}, []float64{2, 4, 5, 8, 9}, 2, true, false, 0},
		"unequal folds":      {[]report{{1, 7, 9, 9}, {2, 7, 1, 10}, {2, 7, 10, 10}, {3, 7, 1, 9}}, []float64{9, 10, 19, 20}, 1, true, false, 0},
		"stopped early":      {[]report{{1, 7, 3, 9}, {2, 7, 1, 9}, {2, 7, 4, 9}, {3, 7, 1, 9}}, []float64{3, 4, 7, 8}, 1, true, false, 0},
		"trials of a search": {[]report{{1, 7, 3, 3}, {2, 7, 1, 30}, {2, 7, 30, 30}, {3, 7, 1, 2}}, []float64{3, 4, 33, 34}, 1, true, true, 0},
		"continued":          {[]report{{1, 7, 10, 10}, {2, 7, 11, 12}, {2, 7, 12, 12}}, []float64{10, 11, 12}, 3, true, false, 0},
		"processes":          {[]report{{1, 7, 4, 4}, {1, 8, 2, 4}}, []float64{4, 6}, 1, false, false, 0},
		"side by side":       {[]report{{1, 7, 4, 4}, {1, 8, 3, 4}, {1, 8, 4, 4}}, []float64{4, 3, 4}, 3, false, false, time.Second / 2},
		"preparation":        {[]report{{1, 7, 1, 1}, {2, 7, 0.5, 10}, {2, 7, 10, 10}}, []float64{1, 0.5, 10}, 3, true, false, 0},
		"no totals":          {[]report{{1, 7, 3, 0}, {2, 7, 1, 0}, {1, 8, 1, 0}, {1, 8, 3, 0}, {1, 9, 2, 0}}, []float64{3, 1, 2, 4, 6}, 0, false, false, 0},
		"interrupted":        {[]report{{1, 7, 2, 4}, {2, 7, 1, 4}}, []float64{2, 1}, 2, false, false, 0},
		"shorter the next":   {[]report{{1, 7, 4, 4}, {2, 7, 1, 2}}, []float64{4, 5}, 1, true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var e earlierTrainings
			var last observe.Progress
			var epochs []float64
			totals := 0
			for i, r := range c.reports {
				p := observe.Progress{Row: *epochRow(r.epoch, r.total), Training: int(r.training), PID: int(r.pid), Follows: c.follows && r.training > 1, At: at(float64(i + 1))}
				p.Began = cmp.Or(c.began, p.At)
				p.Row.Set(trainlog.Step, 10*r.epoch)
				e.add(&last, &p, true, c.repeats)
				last = p
				row := p.Row
				e.extend(&row)
				v, _ := row.Value(trainlog.Epoch)
				if step, _ := row.Value(trainlog.Step); step != 10*v {
					t.Errorf("step %g at epoch %g", step, v)
				}
				epochs = append(epochs, v)
				if _, ok := row.Value(trainlog.TotalEpochs); ok {
					totals++
				}
			}
			if !slices.Equal(epochs, c.epochs) || totals != c.totals {
				t.Errorf("epochs %v, %d totals; want %v, %d", epochs, totals, c.epochs, c.totals)
			}
		})
	}
}

// TestProgressByTheFirstLimit: of a training that is limited in epochs and in steps, and prints both without a total,
// the limit of which it has completed more is the total.
func TestProgressByTheFirstLimit(t *testing.T) {
	for name, c := range map[string]struct {
		epochs, steps, done, total float64
		unit                       string
	}{
		"epochs":         {20, 20000, 6, 20, "epoch"},
		"steps":          {20, 400, 240, 400, "step"},
		"no epoch limit": {0, 20000, 240, 20000, "step"},
	} {
		p := &Progress{}
		p.Suggest("epoch", hint{Units: c.epochs, Source: "--training.max_epochs on the command line"})
		p.Suggest("step", hint{Units: c.steps, Source: "max_steps in config.cfg"})
		p.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
		for step := 20.0; step <= 240; step += 20 { // the rows of the first epoch have no epoch
			row := stepRow(step, math.NaN())
			if epoch := math.Floor(step / 40); epoch > 0 {
				row.Set(trainlog.Epoch, epoch)
			}
			p.Add(row, time.Duration(step)*time.Second)
		}
		if p.Unit != c.unit || p.Done != c.done || p.Total != c.total {
			t.Errorf("%s: %g of %g %ss, want %g of %g %ss", name, p.Done, p.Total, p.Unit, c.done, c.total, c.unit)
		}
	}
}
