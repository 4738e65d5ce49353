package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// analysisJSON is the part of `optimize analyze --json` that the tests read.
type analysisJSON struct {
	Schema, Runs, Logs int
	Totals             struct {
		CostUSD  *float64 `json:"cost_usd"`
		Unpriced int
	}
	Models []struct {
		Model, Dataset string
		Best           []struct {
			By, Config string
			Value      struct{ Mean float64 }
		}
		Scaling []struct {
			Knob   string
			Points []struct {
				At         float64
				Efficiency struct{ Mean *float64 }
			}
		}
	}
	Findings  []struct{ Cause string }
	Agreement *struct {
		Terms []struct{ Violated int }
	}
	LogsRead []struct {
		Path     string
		Bad      int
		FirstBad []string `json:"first_bad"`
	} `json:"logs_read"`
}

func (w *world) analyze(args ...string) analysisJSON {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"analyze", "--json"}, args...)...)
	var a analysisJSON
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != run.CodeDone || a.Schema != 1 {
		w.t.Fatalf("exit %d, %v\nstdout: %s\nstderr: %s", code, err, out, errs)
	}
	return a
}

// trainingLogs writes logs of one model on 1, 2 and 4 GPUs, of different lengths, the second with a bad row.
func (w *world) trainingLogs() []string {
	var paths []string
	for i, c := range []struct {
		gpus, epochs int
		unit         float64
	}{{1, 15, 100}, {2, 20, 52}, {4, 20, 30}} {
		var b strings.Builder
		b.WriteString("epoch,model_name,dataset,data_count,batch_size,gpu_count,cpu_count,epoch_time,time_so_far\n")
		for k := 1; k <= c.epochs; k++ {
			fmt.Fprintf(&b, "%d,resnet50,cifar10,50000,256,%d,16,%g,%g\n", k, c.gpus, c.unit, c.unit*float64(k))
			if i == 1 && k == 5 {
				b.WriteString("6,resnet50,cif\n")
			}
		}
		paths = append(paths, w.write(fmt.Sprintf("log-%d.csv", c.gpus), b.String()))
	}
	return paths
}

func TestAnalyzeLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs := w.trainingLogs()
	a := w.analyze(append(logs, "--gpu-hour", "2", "--cpu-hour", "0.05", "--deadline", "20m")...)
	if a.Runs != 3 || a.Logs != 3 || len(a.Models) != 1 || a.Models[0].Model != "resnet50" || a.Models[0].Dataset != "cifar10" {
		t.Fatalf("%+v", a)
	}
	m := a.Models[0]
	if len(m.Best) != 3 || !strings.HasPrefix(m.Best[0].Config, "4 GPU") || m.Best[0].Value.Mean != 30 || !strings.HasPrefix(m.Best[1].Config, "2 GPU") {
		t.Errorf("%+v: want 4 GPUs to be the fastest, 30 s per epoch, and 2 the cheapest per epoch, though 15 epochs on one cost less than 20", m.Best)
	}
	if len(m.Scaling) != 1 || len(m.Scaling[0].Points) != 3 || *m.Scaling[0].Points[2].Efficiency.Mean > .84 || *m.Scaling[0].Points[2].Efficiency.Mean < .83 {
		t.Errorf("%+v: want 83 %% of four times the speed", m.Scaling)
	}
	if a.Agreement == nil || a.Agreement.Terms[0].Violated != 1 {
		t.Errorf("%+v: want the 1,500 s of the first log beyond the deadline", a.Agreement)
	}
	if usd := a.Totals.CostUSD; usd == nil || *usd < 4.019 || *usd > 4.021 {
		t.Errorf("cost %v, want 1500 s at $2.80, 1040 s at $4.80 and 600 s at $8.80 an hour: $4.02", *usd)
	}
	bad := false
	for _, l := range a.LogsRead {
		bad = bad || l.Bad == 1 && len(l.FirstBad) == 1 && strings.Contains(l.FirstBad[0], "7")
	}
	if !bad {
		t.Errorf("%+v: want the bad row with its line", a.LogsRead)
	}
	if a = w.analyze(logs...); a.Totals.CostUSD != nil || a.Totals.Unpriced != 3 {
		t.Errorf("%+v: want no cost without a price", a.Totals)
	}
}

func TestAnalyzeForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs := w.trainingLogs()
	_, text, errs := w.run(append([]string{"analyze"}, logs...)...)
	for _, want := range []string{"3 training logs of 1 model", "RESNET50 ON CIFAR10", "fastest", "efficiency", "3 runs without a price", "1 of 21 rows skipped"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s%s", want, text, errs)
		}
	}
	_, table, _ := w.run(append([]string{"analyze", "--format", "csv"}, logs...)...)
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][0] != "id" {
		t.Errorf("%v, %d rows of CSV:\n%s", err, len(rows), table)
	}
	code, out, errs := w.run(append([]string{"analyze", "--format", "html", "-o", "page.html"}, logs...)...)
	page, err := os.ReadFile(filepath.Join(w.dir, "page.html"))
	if code != 0 || out != "" || err != nil || strings.Contains(string(page), "http://") || strings.Contains(string(page), "<script") || strings.Count(string(page), "<svg") < 3 {
		t.Errorf("exit %d, %v, %s: want a page with pictures that needs no network", code, err, errs)
	}
	if _, text, errs := w.run(append([]string{"analyze", "--format", "markdown"}, logs...)...); !strings.HasPrefix(text, "# 3 training logs of 1 model\n") || !strings.Contains(text, "\n## resnet50 on cifar10\n") || !strings.Contains(text, "|---") {
		t.Errorf("Markdown:\n%s%s", text, errs)
	}
	if _, err := os.Stat(w.state()); !os.IsNotExist(err) {
		t.Errorf("looking at logs made a state directory (%v)", err)
	}
}

func TestAnalyzeHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.past("resnet18", 1)
	w.past("bert", 2)
	logs := w.trainingLogs()
	if code, _, errs := w.run("runs", "import", logs[0]); code != 0 {
		t.Fatal(errs)
	}
	if a := w.analyze(); a.Runs != 3 || a.Logs != 1 || len(a.Models) != 3 {
		t.Errorf("%+v: want two runs and an imported log", a)
	}
	if a := w.analyze(id); a.Runs != 1 || a.Models[0].Model != "resnet18" {
		t.Errorf("%+v: want one run", a)
	}
	if a := w.analyze("latest", logs[1]); a.Runs != 2 || a.Logs != 1 {
		t.Errorf("%+v: want a run and a log", a)
	}
}

// checkpoints writes a checkpoint directory as Hugging Face's trainer does, with its state file.
func (w *world) checkpoints(name string) string {
	w.t.Helper()
	if err := os.Mkdir(filepath.Join(w.dir, name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.write(name+"/trainer_state.json", `{"epoch": 3.0, "global_step": 300, "max_steps": 300, "num_train_epochs": 3, "train_batch_size": 8, "log_history": [
		{"epoch": 1.0, "step": 100, "loss": 0.9, "learning_rate": 1e-5}, {"epoch": 2.0, "step": 200, "loss": 0.6, "learning_rate": 5e-6},
		{"epoch": 3.0, "step": 300, "loss": 0.5, "learning_rate": 0}, {"epoch": 3.0, "step": 300, "train_runtime": 600.0, "train_samples_per_second": 4.0, "train_steps_per_second": 0.5, "train_loss": 0.66}]}`)
	return name
}

// TestDirectoryOfALog checks that analyze and predict accept the same log directories as runs import.
func TestDirectoryOfALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.checkpoints("checkpoint-300")
	if a := w.analyze(dir); a.Runs != 1 || a.Logs != 1 || len(a.LogsRead) != 1 {
		t.Errorf("%+v: want the log in the directory", a)
	}
	if _, p, errs := w.predicted("--like", dir, "--model", "bert", "--params", "110M", "--data-count", "800", "--gpu", "T4", "--gpus", "1"); p.Chosen == nil || !strings.Contains(p.Work.Words, "3 epochs") {
		t.Errorf("%+v, %s", p, errs)
	}
}

func TestAnalyzeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("empty.csv", "")
	w.write("binary.csv", string([]byte{0x7f, 'E', 'L', 'F', 0, 1, 2, 0xff, '\n', 0, 0, '\n'}))
	good := w.trainingLogs()[0]
	if err := os.Mkdir(filepath.Join(w.dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such file":      {[]string{"none.csv"}, "none.csv: no such file"},
		"empty":             {[]string{"empty.csv"}, "empty.csv"},
		"binary":            {[]string{"binary.csv"}, "binary.csv"},
		"a folder":          {[]string{"folder"}, "folder: it is a directory with neither"},
		"one of two":        {[]string{good, "none.csv"}, "none.csv: no such file"},
		"no such run":       {[]string{"20260101"}, `"20260101"`},
		"nothing yet":       {nil, "no finished runs in /"},
		"format":            {[]string{good, "--format", "pdf"}, "want one of csv, html, json, markdown, text"},
		"format of a log":   {[]string{good, "--log-format", "excel"}, "--log-format \"excel\": unknown"},
		"limit":             {[]string{good, "--deadline", "-5"}, "deadline"},
		"price":             {[]string{good, "--gpu-hour", "-1"}, "gpu_hour"},
		"GPUs":              {[]string{good, "--gpus", "-1"}, "--gpus -1"},
		"no such machine":   {[]string{good, "--instance", "aws:none"}, "--instance"},
		"no place to write": {[]string{good, "-o", "none/page.html", "--format", "html"}, "none/page.html"},
	} {
		code, out, errs := w.run(append([]string{"analyze"}, c.args...)...)
		if code != run.CodeUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want one line with %q", name, code, out, errs, c.want)
		}
	}
}
