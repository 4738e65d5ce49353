package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	runpkg "trainopt/optimizer/run"
)

// epochLog writes a training log of a GPU job: a number of epochs of the given duration, with 50,000 samples each.
func (w *world) epochLog(name string, gpus, epochs int, seconds float64) string {
	var b strings.Builder
	b.WriteString("epoch,total_epochs,model_name,model_params,model_layers,dataset,data_count,batch_size,device_type,gpu_count,cpu_count,epoch_time,time_so_far,throughput,memory_used_gb,gpu_memory_used_gb\n")
	for i := 1; i <= epochs; i++ {
		took := seconds * (1 + 0.02*float64(i%3-1))
		fmt.Fprintf(&b, "%d,%d,resnet18,11173962,18,cifar10,50000,256,T4,%d,8,%.4f,%.4f,%.3f,5.5,4.2\n", i, epochs, gpus, took, seconds*float64(i), 50000/took)
	}
	return w.write(name, b.String())
}

// predicted is the part of the JSON format that the tests read.
type predicted struct {
	Schema int
	Work   struct {
		Quantity, Unit, Words string
		Amount                struct{ P50 float64 }
	}
	Chosen *struct {
		GPU, Machine, Market string
		GPUs                 int
		Chance               float64
		Seconds              struct{ P5, P50, P95 float64 }
		Cost                 struct{ P5, P50, P95 float64 } `json:"cost_usd"`
	}
	Feasible bool
	Nearest  string
	Options  []struct {
		GPU     *string
		GPUs    int
		Machine string
		Market  string
		Fit     string
		Hourly  float64 `json:"usd_per_hour"`
		Seconds struct{ P5, P50, P95 float64 }
	}
	Basis []struct {
		Words   string
		Entries []string
	}
	Notes []string
}

func (w *world) predicted(args ...string) (runpkg.Code, predicted, string) {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"predict", "--json"}, args...)...)
	var p predicted
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		w.t.Fatalf("exit %d, output is not a prediction: %v\nstdout: %s\nstderr: %s", code, err, out, errs)
	}
	return code, p, errs
}

// TestPredictLikeLog checks that a given log is the basis from which the prediction scales.
func TestPredictLikeLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.epochLog("one.csv", 1, 12, 40)
	code, p, errs := w.predicted("--like", "one.csv", "--gpu", "T4", "--gpus", "1", "--prefer", "cost")
	if code != runpkg.CodeDone || errs != "" || p.Chosen == nil || p.Chosen.GPU != "T4" || p.Chosen.GPUs != 1 {
		t.Fatalf("exit %d, %+v, %s; want one T4", code, p.Chosen, errs)
	}
	if s := p.Chosen.Seconds; !(s.P5 < 480 && 480 < s.P95) || s.P95/s.P5 > 4 {
		t.Errorf("%+v s for what took 480 s; want it inside an interval that says something", s)
	}
	if len(p.Basis) == 0 || !strings.Contains(p.Basis[0].Words, "log") {
		t.Errorf("basis %+v does not begin with the log", p.Basis)
	}
	_, twice, _ := w.predicted("--like", "one.csv", "--gpu", "T4", "--gpus", "1", "--prefer", "cost", "--epochs", "24")
	if r := twice.Chosen.Seconds.P50 / p.Chosen.Seconds.P50; r < 1.99 || r > 2.01 {
		t.Errorf("twice the epochs take %.3f times as long", r)
	}
	if _, err := os.Stat(w.state()); err == nil {
		t.Error("asking made a state directory")
	}
}

// TestPredictFromDatabase checks that an imported run is found by its model and dataset.
func TestPredictFromDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db, _, err := history.Open(w.state())
	if err != nil {
		t.Fatal(err)
	}
	e := history.NewEntry(history.Log, "imported")
	e.Job.Model, e.Job.Family, e.Job.Dataset, e.Job.DataCount, e.Job.Params = "mynet", "mynet", "mydata", 1000, 1e6
	e.Observed.GPU, e.Observed.GPUs, e.Observed.Nodes, e.Observed.Batch = "T4", 1, 1, 32
	e.Units, e.Unit, e.UnitTime, e.UnitCount, e.UnitSpread, e.Throughput = 10, "epoch", 50, 10, 0.02, 20
	if err := db.Put(e); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	code, p, errs := w.predicted("--model", "mynet", "--dataset", "mydata", "--gpu", "T4", "--gpus", "1", "--batch", "32")
	if code != runpkg.CodeDone || p.Work.Unit != "epochs" || p.Work.Amount.P50 != 10 || len(p.Basis) == 0 || p.Basis[0].Entries[0] != "imported" {
		t.Errorf("exit %d, %s, work %+v, basis %+v; want ten epochs as imported", code, errs, p.Work, p.Basis)
	}
	if s := p.Chosen.Seconds; !(s.P5 < 500 && 500 < s.P95) {
		t.Errorf("%+v s for what took 500 s", s)
	}
}

// TestPredictLikeRun checks predictions from a recorded run, on this machine and on machines of the catalogue, then
// from its script.
func TestPredictLikeRun(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("train.py", "import csv, os, time\nwith open(os.environ['OPTIMIZER_LOG'], 'w') as f:\n    out = csv.writer(f)\n    out.writerow(['epoch', 'total_epochs', 'epoch_time'])\n"+
		"    for e in range(1, 9):\n        time.sleep(0.4)\n        out.writerow([e, 8, 0.4])\n        f.flush()\n")
	code, rec, errs := w.record("train", script, "--yes", "--quiet", "--baseline-samples", "-1")
	if code != runpkg.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for name, args := range map[string][]string{
		"the run":               {"--like", "latest"},
		"the run, here, as AWS": {"--like", "latest", "--here"},
		"the run, here":         {"--like", "latest", "--here", "--cpu-hour", "0.05", "--gib-hour", "0.004"},
		"its script":            {"--script", script},
		"an instance":           {"--like", "latest", "--instance", "aws:m7i.xlarge"},
		"the script, by epochs": {"--script", script, "--epochs", "8"},
	} {
		t.Run(name, func(t *testing.T) {
			code, p, errs := w.predicted(args...)
			if code != runpkg.CodeDone || p.Chosen == nil || p.Chosen.GPUs != 0 || p.Work.Amount.P50 != 8 || p.Work.Unit != "epochs" {
				t.Fatalf("exit %d, %s, %+v, %+v; want eight epochs without GPUs", code, errs, p.Chosen, p.Work)
			}
			for _, o := range p.Options {
				if o.Machine != "this machine" && o.Fit != "does not fit" && (cost.Offer{Cloud: "aws", Type: strings.TrimPrefix(o.Machine, "aws:")}).Arch() != runtime.GOARCH {
					t.Errorf("%s is offered to what ran on %s", o.Machine, runtime.GOARCH)
				}
			}
			if notes := strings.Join(p.Notes, "; "); strings.Contains(notes, "prices of derived") || strings.Contains(notes, "GPU") || strings.Contains(notes, "not known: machines with amd64") {
				t.Errorf("notes %q of a CPU job that ran here", p.Notes)
			}
			if name == "the run, here" && (p.Chosen.Machine != "this machine" || p.Chosen.Market != "own rates") {
				t.Errorf("%+v: want this machine", p.Chosen)
			}
			if name == "the run, here, as AWS" {
				for _, o := range p.Options {
					if want := float64(rec.Prices.Instance); !(want > 0) || math.Abs(o.Hourly-want) > 1e-9*want {
						t.Errorf("%g USD/h on %s; the run is charged %g USD/h for the whole machine", o.Hourly, o.Machine, want)
					}
				}
			}
		})
	}
}

// TestPredictArchOfLog checks that for a log, whose CPU architecture is unknown, the most common one is assumed with a
// note.
func TestPredictArchOfLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("cpu.csv", "epoch,model_name,dataset,data_count,batch_size,gpu_count,cpu_count,epoch_time\n1,mlp,mnist,60000,64,0,4,50\n2,mlp,mnist,60000,64,0,4,51\n3,mlp,mnist,60000,64,0,4,50\n")
	_, p, errs := w.predicted("--like", "cpu.csv", "--cpus", "4")
	if p.Chosen == nil || !strings.Contains(strings.Join(p.Notes, "; "), "amd64 (x86)") || !strings.Contains(strings.Join(p.Notes, "; "), "64.0 samples over all CPUs") {
		t.Fatalf("%+v, %q, %s", p.Chosen, p.Notes, errs)
	}
	arm := 0
	for _, o := range p.Options {
		if strings.HasPrefix(o.Machine, "aws:c8g.") {
			arm++
			if o.Fit != "does not fit" {
				t.Errorf("%s: %s", o.Machine, o.Fit)
			}
		}
	}
	_, p, _ = w.predicted("--like", "cpu.csv", "--instance", "aws:c8g.xlarge")
	if p.Chosen == nil || arm == 0 || !strings.Contains(strings.Join(p.Notes, "; "), "aws:c8g.xlarge has arm64 CPUs") {
		t.Errorf("%d arm machines, %+v, %q: want the one that is named", arm, p.Chosen, p.Notes)
	}
}

// TestPredictLikeUnfinished checks that the error for an unfinished run reports its progress and not that it is
// unreadable.
func TestPredictLikeUnfinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, err := journal.Create(w.state(), journal.NewRunID(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "bert"))
	if err != nil {
		t.Fatal(err)
	}
	rec := journal.NewRecord()
	rec.RunID, rec.State = run.ID(), journal.Running
	if err := run.WriteRecord(rec); err != nil {
		t.Fatal(err)
	}
	code, out, errs := w.run("predict", "--like", "latest")
	if code != runpkg.CodeUsage || out != "" || !strings.Contains(errs, run.ID()+" is running, not finished") {
		t.Errorf("exit %d, %s%s; want that it is not over", code, out, errs)
	}
}

// TestPredictPublished checks that the prediction of a described job is based on published measurements and names them.
func TestPredictPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("predict", "--model", "resnet50", "--dataset", "imagenet", "--epochs", "90", "--batch", "256", "--gpu", "v100")
	if code != runpkg.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, part := range []string{"Prediction for resnet50", "90 epochs of 1,281,167 samples", "public: ", "Gavel (OSDI 2020)", "CHEAPEST THAT FIT, ON DEMAND", "V100", "fit not checked"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	for format, begins := range map[string]string{"html": "<!DOCTYPE html>", "markdown": "# Prediction", "csv": "gpu,gpus,", "json": "{"} {
		file := filepath.Join(w.dir, "out."+format)
		if code, out, errs := w.run("predict", "--model", "resnet50", "--dataset", "imagenet", "--epochs", "90", "--gpu", "v100", "--format", format, "-o", "out."+format); code != runpkg.CodeDone || out != "" {
			t.Errorf("%s: exit %d, %q, %s", format, code, out, errs)
		}
		if data, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(data), begins) {
			t.Errorf("%s: %v, begins with %.40q, want %q", format, err, data, begins)
		}
	}
}

// TestPredictInfeasible checks that infeasible limits are still answered, with their own exit code.
func TestPredictInfeasible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.epochLog("one.csv", 1, 12, 40)
	code, p, errs := w.predicted("--like", "one.csv", "--gpu", "T4", "--gpus", "1", "--deadline", "1s")
	if code != runpkg.CodeInfeasible || p.Feasible || p.Chosen == nil || !strings.Contains(p.Nearest, "a deadline of") || !strings.Contains(errs, p.Nearest) || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %+v, nearest %q, %q; want 6, with the deadline that would do", code, p.Chosen, p.Nearest, errs)
	}
}

// TestPredictRefusals checks that refusals are one line with exit code 2 and no standard output.
func TestPredictRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.epochLog("one.csv", 1, 3, 40)
	w.write("empty.csv", "epoch,epoch_time\n")
	w.write("noise.csv", "\x00\x01\x02\xff\n\n,,,,\n")
	for args, want := range map[string]string{
		"":                  "give --like RUN|LOG, --script SCRIPT, or --model NAME",
		"extra":             "predict:",
		"--model nosuchnet": "no basis: nothing measured resembles nosuchnet: nothing of the same model or family was measured; give --epochs, --data-count",
		"--model resnet50 --dataset imagenet --epochs 1 --batch-size 100000000": "every comparable measurement has less than 1/256",
		"--model resnet50":                                        "--epochs",
		"--like missing.csv":                                      "read training log missing.csv: no such file",
		"--like nosuchrun":                                        "find run \"nosuchrun\"",
		"--like empty.csv":                                        "empty.csv",
		"--like noise.csv":                                        "noise.csv",
		"--like .":                                                "--like",
		"--script missing.py":                                     "missing.py: no such file",
		"--like a --script b":                                     "cannot be combined",
		"--model a --epochs -1":                                   "--epochs \"-1\": want a number above 0",
		"--model a --epochs 1e999":                                "--epochs",
		"--model a --params 12Q":                                  "--params \"12Q\"",
		"--model a --batch 0":                                     "--batch-size \"0\"",
		"--model a --data-count nan":                              "--data-count \"nan\"",
		"--model a --deadline -3h":                                "--deadline \"-3h\"",
		"--model a --deadline soon":                               "--deadline \"soon\"",
		"--model a --budget 0":                                    "--budget \"0\"",
		"--model a --prefer speed":                                "preference \"speed\"",
		"--model a --gpus 4:2":                                    "from 4 to 2 is empty",
		"--model a --cpus 0":                                      "--cpus \"0\"",
		"--like one.csv --gpus 999:":                              "no machine among",
		"--model a --gpus 0 --gpu T4":                             "cannot be combined",
		"--model a --gpu K99":                                     "no offer of the price catalogue matches GPU K99",
		"--model a --cloud nocloud":                               "no offer of the price catalogue matches cloud nocloud",
		"--model a --instance aws:nosuch":                         "look up \"aws:nosuch\"",
		"--model a --instance aws:p3.2xlarge --cloud aws":         "cannot be combined",
		"--model a --instance aws:p3.2xlarge,aws:p3.8xlarge:spot": "spot for some",
		"--model a --here --spot":                                 "cannot be combined with --here",
		"--model a --gpu-hour 3":                                  "--gpu-hour requires --here",
		"--model a --format pdf":                                  "--format \"pdf\": unknown, want one of csv, html, json, markdown, text",
		"--model a --top 0":                                       "--top 0: want at least 1",
		"--model a --resumable=perhaps":                           "auto, yes or no",
		"--like one.csv --gpus 1000:2000":                         "no machine among",
		"--model resnet50 --dataset imagenet --epochs 1 --gpu T4 --gpus 99:100": "no machine among",
	} {
		t.Run(args, func(t *testing.T) {
			code, out, errs := w.run(append([]string{"predict"}, strings.Fields(args)...)...)
			if code != runpkg.CodeUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
				t.Errorf("exit %d, %q, %q; want 2 and one line with %q", code, out, errs, want)
			}
		})
	}
}

// TestPredictExport: the selected machine becomes a file for another system, with the command after -- or the script.
func TestPredictExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("train.py", "import torch\n")
	job := []string{"predict", "--model", "resnet50", "--dataset", "imagenet", "--epochs", "90", "--batch", "256", "--gpu", "v100"}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"command": {[]string{"--export", "sbatch", "--", "python3", "my train.py", "--lr=0.1"},
			[]string{"#!/bin/sh\n", "\n#SBATCH --gpus-per-node=v100:", "\nexec python3 'my train.py' --lr=0.1\n"}},
		"script": {[]string{"--script", "train.py", "--export", "sky", "--spot", "--resumable", "yes"}, []string{"name: train.py\n", "use_spot: true\n", "python3 train.py\n"}},
		"job": {[]string{"--script", "train.py", "--export", "k8s-job", "--image", "registry/train:1"},
			[]string{"apiVersion: batch/v1\nkind: Job\n", "\n  activeDeadlineSeconds: ", "image: registry/train:1\n", "nvidia.com/gpu: "}},
	} {
		code, out, errs := w.run(append(append([]string{}, job...), c.args...)...)
		for _, want := range c.want {
			if code != runpkg.CodeDone || !strings.Contains(out, want) {
				t.Errorf("%s: exit %d: %s%s; want %q", name, code, out, errs, want)
			}
		}
	}
	if code, _, errs := w.run(append(append([]string{}, job...), "--export", "sbatch", "-o", "job.sh", "--", "true")...); code != runpkg.CodeDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "job.sh")); err != nil || !strings.HasSuffix(string(data), "\nexec true\n") {
		t.Errorf("job.sh: %s, %v", data, err)
	}
	for want, c := range map[string]struct {
		args []string
		code runpkg.Code
	}{
		"command of the job is not known":                                             {[]string{"--export", "sky"}, runpkg.CodeUsage},
		"is not a program: append the whole command, such as -- python3 train.py 900": {[]string{"--script", "train.py", "--export", "sbatch", "--", "900", "0.2"}, runpkg.CodeUsage},
		"want k8s-job, sbatch or sky":                                                 {[]string{"--export", "pbs", "--", "true"}, runpkg.CodeUsage},
		"--image requires --export k8s-job":                                           {[]string{"--export", "sky", "--image", "x", "--", "true"}, runpkg.CodeUsage},
		"requires --export":                                                           {[]string{"--", "true"}, runpkg.CodeUsage},
		"--format cannot be combined with --export":                                   {[]string{"--export", "sky", "--format", "csv", "--", "true"}, runpkg.CodeUsage},
		"cannot be combined with --json":                                              {[]string{"--export", "sky", "--json", "--", "true"}, runpkg.CodeUsage},
		"nothing is exported":                                                         {[]string{"--export", "sky", "--deadline", "1s", "--", "true"}, runpkg.CodeInfeasible},
	} {
		if code, out, errs := w.run(append(append([]string{}, job...), c.args...)...); code != c.code || out != "" && !strings.HasPrefix(out, `{"error":`) || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s%s; want %q", c.args, code, out, errs, want)
		}
	}
}
