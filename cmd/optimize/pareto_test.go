package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// frontJSON is the part of `optimize pareto --json` that the tests read.
type frontJSON struct {
	Schema     int
	Source     string
	FrontSize  int `json:"front_size"`
	Preference map[string]float64
	Chosen     struct {
		Label, Name string
		Allocation  struct{ GPUs, CPUs int }
		CostUSD     struct{ P50 float64 } `json:"cost_usd"`
	}
	Points []struct {
		OnFront bool `json:"on_front"`
	}
	Trades []struct{ Objective, Words string }
	Notes  []string
}

func (w *world) front(args ...string) frontJSON {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"pareto", "--json"}, args...)...)
	var f frontJSON
	if err := json.Unmarshal([]byte(out), &f); err != nil || code != run.CodeDone {
		w.t.Fatalf("exit %d, %v\nstdout: %s\nstderr: %s", code, err, out, errs)
	}
	return f
}

// logs writes logs of finished trainings at 1, 2 and 8 GPUs, the last with poor scaling.
func (w *world) logs() []string {
	one := w.write("one.csv", "epoch,time_so_far,gpu_count,cpu_count\n1,3600,1,4\n2,7200,1,4\n")
	two := w.write("two.csv", "epoch,time_so_far,gpu_count,cpu_count\n1,2100,2,8\n2,4200,2,8\n")
	bad := w.write("bad.csv", "epoch,time_so_far,gpu_count,cpu_count\n1,3600,8,32\n2,7200,8,32\n")
	return []string{one, two, bad}
}

func TestParetoOfLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := append(w.logs(), "--gpu-hour", "2", "--cpu-hour", "0")
	f := w.front(append(args, "--prefer", "time")...)
	if f.Schema != 1 || f.Source != "measured" || len(f.Points) != 3 || f.FrontSize != 2 || f.Chosen.Allocation.GPUs != 2 {
		t.Errorf("%+v: want 2 of 3 points on the front, and the 2 GPUs chosen", f)
	}
	if v := f.Chosen.CostUSD.P50; v < 4.666 || v > 4.667 {
		t.Errorf("70 minutes of 2 GPUs at $2 an hour cost $%v, want 4.667", v)
	}
	if len(f.Trades) == 0 || f.Trades[0].Objective != "cost" || !strings.Contains(f.Trades[0].Words, "takes") {
		t.Errorf("trades %+v: want what time a dollar less takes", f.Trades)
	}
	if g := w.front(append(args, "--prefer", "time=0,cost=3,resource=1")...); g.Chosen.Allocation.GPUs != 1 || g.Preference["cost"] != 0.75 {
		t.Errorf("%+v: want the single GPU by normalised weights", g)
	}
	w.environ = append(w.environ, "OPTIMIZE_MULTI_OBJECTIVE_PREFER=cost")
	if g := w.front(args...); g.Chosen.Allocation.GPUs != 1 {
		t.Errorf("chosen %+v: want the preference of the environment", g.Chosen)
	}
}

func TestParetoFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := append([]string{"pareto"}, w.logs()...)
	for format, want := range map[string]string{"text": "Trade-offs at the chosen point", "csv": "label,name,gpus", "html": "<!DOCTYPE html>", "svg": "<svg ", "markdown": "# Pareto front", "json": `"schema": 1`} {
		if code, out, errs := w.run(append(args, "--format", format)...); code != run.CodeDone || !strings.Contains(out, want) || errs != "" {
			t.Errorf("%s: exit %d, no %q in %q; %s", format, code, want, out, errs)
		}
	}
	code, out, errs := w.run(append(args, "--format", "svg", "-o", "front.svg")...)
	data, err := os.ReadFile(filepath.Join(w.dir, "front.svg"))
	if code != run.CodeDone || out != "" || err != nil || !strings.Contains(string(data), "</svg>") {
		t.Errorf("exit %d, %q, %v: %s", code, out, err, errs)
	}
	if code, _, errs := w.run(append(args, "-o", "no/such/folder/f.txt")...); code != run.CodeUsage || !strings.Contains(errs, "no/such/folder") {
		t.Errorf("a file that cannot be written: exit %d, %s", code, errs)
	}
}

// TestParetoOfARun checks a run, its model, and the run as one measured point among logs.
func TestParetoOfARun(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("count.py", counting)
	code, rec, errs := w.record("--train", script, "--epochs", "30", "--prefer", "time", "--cpu-hour", "3.6", "--gib-hour", "0")
	if code != run.CodeDone {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	if rec.Plan == nil || rec.Plan.Prediction == nil {
		t.Fatalf("the run has no prediction: %+v", rec.Plan)
	}
	f := w.front()
	if f.Source != "run" || len(f.Points) != len(rec.Plan.Candidates) || f.Preference["time"] != 1 {
		t.Errorf("%+v: want the %d candidates of the run, by its own preference", f, len(rec.Plan.Candidates))
	}
	again := w.front(rec.RunID, "--from-model", "--cpus", "1:8", "--cpu-hour", "1", "--prefer", "cost")
	if again.Source != "model" || len(again.Points) != 8 || again.Chosen.Allocation.CPUs > 2 {
		t.Errorf("%+v: want a prediction for each of 8 CPU counts, and one of the least, at most what was measured, chosen by cost", again)
	}
	took := float64(rec.Outcome.Seconds)                                // 3 s and what a busy machine adds
	if v := again.Chosen.CostUSD.P50; v < 3.0/3600 || v > 3*took/3600 { // 1 CPU may not have been measured
		t.Errorf("about %.1f s at $1 an hour cost $%v", took, v)
	}
	if g := w.front(rec.RunID, w.logs()[0], "--gpu-hour", "2"); g.Source != "measured" || len(g.Points) != 2 {
		t.Errorf("%+v: want the run and the log as two points", g)
	}
	code, _, errs = w.run("pareto", "latest", "--budget", "1")
	if code != run.CodeUsage || !strings.Contains(errs, "--budget") || !strings.Contains(errs, "--from-model") {
		t.Errorf("exit %d, %s: want to be told of --model", code, errs)
	}
}

func TestParetoRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs := w.logs()
	w.write("empty.csv", "")
	w.write("bare.csv", "epoch,epoch_time\n1,3\n")
	w.write("plain.csv", "epoch,train_loss\n1,3\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no runs yet":         {nil, "optimize --train SCRIPT"},
		"unknown run":         {[]string{"nosuchrun"}, "nosuchrun"},
		"no such log":         {[]string{"nosuch.csv"}, "no such file"},
		"one log missing":     {[]string{logs[0], "nosuch.csv"}, "nosuch.csv"},
		"empty log":           {[]string{"empty.csv"}, "empty.csv: no data in it"},
		"log without times":   {[]string{"plain.csv"}, "no column with times"},
		"log without CPUs":    {[]string{"bare.csv"}, "--cpus N"},
		"unknown preference":  {[]string{logs[0], "--prefer", "fast"}, "want time, cost, resource, balanced"},
		"unknown format":      {[]string{logs[0], "--format", "pdf"}, "svg"},
		"price no number":     {[]string{logs[0], "--gpu-hour", "much"}, "--gpu-hour"},
		"price not plausible": {[]string{logs[0], "--gpu-hour", "-1"}, "negative"},
		"model of a log":      {[]string{logs[0], "--from-model"}, "a single run"},
		"negative CPUs":       {[]string{"bare.csv", "--cpus", "-2"}, "--cpus"},
		"two prices":          {[]string{logs[0], "--instance", "aws:p4d.24xlarge", "--gpu-hour", "1"}, "cannot be combined"},
		"unknown flag":        {[]string{logs[0], "--prefr", "time"}, "--prefer"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := w.run(append([]string{"pareto"}, c.args...)...)
			if code != run.CodeUsage || out != "" || !strings.Contains(errs, c.want) || strings.Count(strings.TrimSpace(errs), "\n") != 0 {
				t.Errorf("exit %d, stdout %q, stderr %q: want exit 2 and one line with %q", code, out, errs, c.want)
			}
		})
	}
	if f := w.front("bare.csv", "--cpus", "4"); f.Chosen.Allocation.CPUs != 4 || len(f.Notes) == 0 {
		t.Errorf("%+v: want the log made with 4 CPUs, and a note", f)
	}
	if f := w.front(logs[0]); len(f.Points) != 1 || !strings.Contains(strings.Join(f.Notes, " "), "only one point") {
		t.Errorf("one log: %+v", f)
	}
	if f := w.front(logs[0], logs[0]); f.FrontSize != 1 || !strings.Contains(strings.Join(f.Notes, " "), "same in time") {
		t.Errorf("identical points: %+v", f)
	}
}
