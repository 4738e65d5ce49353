package observe

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
)

// conformanceVariable names the variable with the python of an environment that contains the real frameworks.
const conformanceVariable = "OPTIMIZE_CONFORMANCE_PYTHON"

// newReal prepares a job for a real framework; the trainings in testdata/frameworks are written like tutorials,
// without regard to the observer.
func newReal(t *testing.T, python string) *observed {
	t.Helper()
	o := newObserved(t)
	o.python = python
	o.env = slices.DeleteFunc(setPath(o.env, ""), func(item string) bool { return strings.HasPrefix(item, "PATH=") || strings.HasPrefix(item, "OMP_") })
	o.env = append(o.env, "PATH="+filepath.Dir(python)+":"+os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=", "HF_HUB_OFFLINE=1", "YOLO_OFFLINE=1",
		"YOLO_CONFIG_DIR="+t.TempDir(), "OMP_WAIT_POLICY=PASSIVE")
	return o
}

func conformancePython(t *testing.T) string {
	t.Helper()
	python := os.Getenv(conformanceVariable)
	if python == "" {
		t.Skipf("%s does not name a python with the real frameworks", conformanceVariable)
	}
	return python
}

func framework(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata/frameworks", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ran runs a command under the observer and reads its reports.
func (o *observed) ran(argv ...string) (Facts, string) {
	o.t.Helper()
	out, code := o.exec(o.in.Environ(o.env), argv...)
	if code != 0 {
		o.t.Fatalf("%v: exit code %d:\n%s", argv, code, out)
	}
	return o.poll(), out
}

func TestRealFrameworks(t *testing.T) {
	python := conformancePython(t)
	cases := map[string]struct {
		argv        []string // the interpreter first, unless it is a console script
		before      string   // a script that creates the data
		framework   string
		last        string // step, total_steps, epoch, total_epochs, batch_size
		samples     float64
		checkpoints string
		trainings   int
	}{
		"torch":      {argv: []string{"torch_loop.py"}, framework: "torch", last: "64 - 4 4 64", samples: 4000, checkpoints: "last.pt@16 last.pt@32 last.pt@48 last.pt@64"},
		"accumulate": {argv: []string{"torch_accumulate.py"}, framework: "torch", last: "16 - 2 2 32", samples: 512},
		"no loader":  {argv: []string{"torch_arrays.py"}, framework: "torch", last: "300 - - - -", samples: math.NaN(), checkpoints: "ckpt.pt@100 ckpt.pt@200 ckpt.pt@300"},
		"hugging face": {argv: []string{"hf_trainer.py"}, framework: "transformers", last: "30 30 3 3 16", samples: 480,
			checkpoints: "checkpoint-10@10 checkpoint-20@20 checkpoint-30@30"},
		"trl": {argv: []string{"trl_sft.py"}, framework: "transformers", last: "20 20 1.25 - 4", samples: 80, checkpoints: "checkpoint-10@10 checkpoint-20@20"},
		"accelerate": {argv: []string{"accelerate_loop.py"}, framework: "torch", last: "24 - 3 3 16", samples: 384,
			checkpoints: "state_0@8 state_1@16 state_2@24"},
		"lightning": {argv: []string{"lightning_fit.py", "lightning", "3"}, framework: "lightning.pytorch", last: "30 30 3 3 32", samples: 960,
			checkpoints: "epoch=0-step=10.ckpt@10 epoch=1-step=20.ckpt@20 epoch=2-step=30.ckpt@30"},
		"pytorch_lightning": {argv: []string{"lightning_fit.py", "pytorch_lightning", "2"}, framework: "pytorch_lightning", last: "20 20 2 2 32", samples: 640,
			checkpoints: "epoch=0-step=10.ckpt@10 epoch=1-step=20.ckpt@20"},
		"keras": {argv: []string{"keras_fit.py", "3"}, framework: "keras", last: "39 39 3 3 32", samples: 1200,
			checkpoints: "best-01.keras@13 best-02.keras@26 best-03.keras@39"},
		"keras loop":        {argv: []string{"keras_batches.py"}, framework: "keras loop", last: "60 - 3 3 -", samples: math.NaN(), checkpoints: "model.keras@20 model.keras@40 model.keras@60"},
		"xgboost":           {argv: []string{"xgboost_train.py"}, framework: "xgboost", last: "25 25 - - -", samples: math.NaN(), trainings: 2},
		"lightgbm":          {argv: []string{"lightgbm_train.py"}, framework: "lightgbm", last: "15 15 - - -", samples: math.NaN(), trainings: 2},
		"scikit-learn":      {argv: []string{"sklearn_partial.py"}, framework: "scikit-learn", last: "25 - 5 5 100", samples: 2500},
		"stable-baselines3": {argv: []string{"sb3_ppo.py"}, framework: "stable-baselines3", last: "512 512 - - 1", samples: 512, checkpoints: "rl_model_256_steps.zip@256 rl_model_512_steps.zip@512 final.zip@NaN"},
		"torchrun": {argv: []string{"torchrun", "--nproc_per_node=2", "torch_ddp.py"}, framework: "torch", last: "80 - 5 5 32", samples: 2560,
			checkpoints: "snapshot.pt@16:weights snapshot.pt@32:weights snapshot.pt@48:weights snapshot.pt@64:weights snapshot.pt@80:weights"},
		"accelerate launch": {argv: []string{"accelerate", "launch", "--cpu", "--num_processes", "1", "accelerate_loop.py"}, framework: "torch", last: "24 - 3 3 16", samples: 384,
			checkpoints: "state_0@8 state_1@16 state_2@24"},
		"accelerate, batches for all ranks":  {argv: []string{"torchrun", "--nproc_per_node=2", "accelerate_ranks.py", "stream"}, framework: "torch", last: "24 - 3 3 16", samples: 384},
		"accelerate, batches that are split": {argv: []string{"torchrun", "--nproc_per_node=2", "accelerate_ranks.py", "split"}, framework: "torch", last: "48 - 3 3 8", samples: 384},
		"yolo": {argv: []string{"yolo", "detect", "train", "model=yolo11n.yaml", "data=data.yaml", "epochs=2", "imgsz=64", "batch=8", "workers=2", "device=cpu", "project=runs", "nbs=8"},
			before: "ultralytics_data.py", framework: "ultralytics", last: "6 - 2 2 8", samples: 48, checkpoints: "last.pt@3 last.pt@6"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := newReal(t, python)
			if c.before != "" {
				o.ran(python, framework(t, c.before))
			}
			argv := slices.Clone(c.argv)
			for i, a := range argv {
				if strings.HasSuffix(a, ".py") {
					argv[i] = framework(t, a)
				}
			}
			if strings.HasSuffix(c.argv[0], ".py") {
				argv = append([]string{python}, argv...)
			} else {
				argv[0] = filepath.Join(filepath.Dir(python), argv[0])
			}
			f, _ := o.ran(argv...)
			want(t, "framework", f.Framework, c.framework)
			want(t, "last row", columns(o)[:strings.LastIndex(columns(o), " ")], c.last)
			want(t, "samples", fmt.Sprint(f.Samples), fmt.Sprint(c.samples))
			want(t, "checkpoints", written(f), c.checkpoints)
			want(t, "trainings", f.Training, max(1, c.trainings))
			if n := len(f.Checkpoints); n > 0 { // earlier ones may be deleted: frameworks keep the best
				if _, err := os.Stat(f.Checkpoints[n-1].Path); err != nil {
					t.Errorf("checkpoint: %v", err)
				}
			}
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}

// A training that is saved and stopped on request is resumed in the framework's own way and makes the remaining
// steps.
func TestRealSaveAndResume(t *testing.T) {
	python := conformancePython(t)
	torchrun := filepath.Join(filepath.Dir(python), "torchrun")
	cases := map[string]struct {
		start  []string
		before string
		resume func(o *observed, a Answer) []string
	}{
		"hugging face": {start: []string{python, framework(t, "hf_trainer.py"), "20"},
			resume: func(o *observed, a Answer) []string {
				return []string{python, framework(t, "hf_trainer.py"), "20", a.Path}
			}},
		"hugging face, two ranks": {start: []string{torchrun, "--nproc_per_node=2", framework(t, "hf_trainer.py"), "60"},
			resume: func(o *observed, a Answer) []string {
				return []string{torchrun, "--nproc_per_node=2", framework(t, "hf_trainer.py"), "60", a.Path}
			}},
		"lightning": {start: []string{python, framework(t, "lightning_fit.py"), "lightning", "400"},
			resume: func(o *observed, a Answer) []string {
				epochs := itoa(int(a.Step)/10 + 2)
				return []string{python, framework(t, "lightning_fit.py"), "lightning", epochs, a.Path}
			}},
		"keras": {start: []string{python, framework(t, "keras_fit.py"), "1000"},
			resume: func(o *observed, a Answer) []string {
				done := int(a.Step) / 13
				return []string{python, framework(t, "keras_fit.py"), itoa(done + 2), a.Path, itoa(done)}
			}},
		"yolo": {start: []string{filepath.Join(filepath.Dir(python), "yolo"), "detect", "train", "model=yolo11n.yaml", "data=data.yaml", "epochs=20", "imgsz=32", "batch=8",
			"workers=0", "device=cpu", "project=runs", "nbs=8", "plots=False", "val=False"}, before: "ultralytics_data.py",
			resume: func(o *observed, a Answer) []string {
				return []string{filepath.Join(filepath.Dir(python), "yolo"), "detect", "train", "resume", "model=" + a.Path, "device=cpu"}
			}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := newReal(t, python)
			if c.before != "" {
				o.ran(python, framework(t, c.before))
			}
			stop := o.background(o.in.Environ(o.env), c.start...)
			o.await("progress", func(f Facts) bool { return f.Step > 3 && f.CanSave && f.CanStop })
			a := o.answer(Request{Op: SaveAndStop})
			want(t, "answer", a.OK && a.Stopped, true)
			if out, code := stop(); code != 0 {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			f := o.await("end", func(f Facts) bool { return f.Ended })
			if s, err := os.Stat(a.Path); err != nil {
				t.Fatal(err)
			} else if !s.IsDir() && s.Size() == 0 {
				t.Error("the checkpoint is empty")
			}
			stopped := f.Step
			second, err := Install(t.TempDir(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			o.in, o.reader, o.rows = second, NewReader(second.Reports), nil
			f, _ = o.ran(c.resume(o, a)...)
			first, _ := o.rows[0].Row.Value(trainlog.Step)
			if first > a.Step+1 && name != "yolo" || len(f.Failures) > 0 {
				t.Errorf("stopped at %g, saved at %g, continued at %g; failures %+v", stopped, a.Step, first, f.Failures)
			}
			total, _ := o.rows[0].Row.Value(trainlog.TotalSteps)
			epochs, _ := o.rows[0].Row.Value(trainlog.TotalEpochs)
			want(t, "last epoch", o.last(trainlog.Epoch), epochs)
			if total > 0 {
				want(t, "last step", o.last(trainlog.Step), total)
			}
			t.Logf("stopped at step %g in %v, continued at %g to %g", a.Step, a.Took, first, o.last(trainlog.Step))
		})
	}
}

// A trial is not offered where a model is compiled for the number of threads, and refused where it has been compiled since.
func TestRealCompiledThreads(t *testing.T) {
	for name, c := range map[string]struct {
		at    int // the step before which the model is compiled
		offer bool
	}{"from the first step on": {0, false}, "later": {5, true}} {
		t.Run(name, func(t *testing.T) {
			o := newReal(t, conformancePython(t))
			stop := o.start(fmt.Sprintf(`
import os, torch
from torch._dynamo.utils import counters
torch.set_num_threads(2)
x = torch.randn(64, 64)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
n = 0
while not os.path.exists("stop"):
    if n == %d: model = torch.compile(model, backend="eager", fullgraph=True)
    optimizer.zero_grad(); model(x).pow(2).mean().backward(); optimizer.step()
    n += 1
print("graphs", counters["stats"]["unique_graphs"])
`, c.at))
			f := o.await("progress", func(f Facts) bool { return f.Step > 10 })
			want(t, "offered", f.CanSetThreads, c.offer)
			if f.CanSetThreads {
				want(t, "made", o.answer(Request{Op: Trial, Threads: 1, Limit: time.Minute}).OK, false)
			}
			o.write("stop", "")
			out, _ := stop()
			want(t, "output", strings.TrimSpace(out), "graphs 1")
		})
	}
}

func TestRealThreads(t *testing.T) {
	o := newReal(t, conformancePython(t))
	stop := o.start(`
import os, torch
torch.set_num_threads(2)
x = torch.randn(64, 64)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while not os.path.exists("stop"):
    optimizer.zero_grad(); model(x).pow(2).mean().backward(); optimizer.step()
print("threads", torch.get_num_threads())
`)
	o.await("progress", func(f Facts) bool { return f.Step > 10 && f.Threads == 2 })
	a := o.answer(Request{Op: Trial, Threads: 1, Limit: time.Minute})
	if !a.OK || a.Before <= 0 || a.During <= 0 || a.After <= 0 || a.Threads != 2 {
		t.Errorf("trial: %+v", a)
	}
	a = o.answer(Request{Op: SetThreads, Threads: 1})
	want(t, "threads", a.Threads, 1)
	o.await("progress", func(f Facts) bool { return f.Threads == 1 })
	o.write("stop", "")
	out, _ := stop()
	want(t, "output", strings.TrimSpace(out), "threads 1")
}

// A trial leaves no trace: MKL has no number of threads of its own after it, with which it is slower, or the one that it had, and pools
// that had different numbers have them again.
func TestRealTrialRestores(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		before  string
		mkl     int // the number of threads that MKL has for itself, before and after
	}{
		"nothing set":           {nil, "libraries.omp_set_num_threads(2)", 0},
		"set by the agent":      {[]string{"OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2", "OPENBLAS_NUM_THREADS=2"}, "", 0},
		"torch.set_num_threads": {nil, "torch.set_num_threads(2)", 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := newReal(t, conformancePython(t))
			o.env = append(o.env, c.environ...)
			stop := o.start(`
import ctypes, os, numpy, threadpoolctl, torch
libraries = ctypes.CDLL(torch._C.__file__)
` + c.before + `
threadpoolctl.threadpool_limits(limits=1, user_api="blas")
pools = lambda: sorted((p["prefix"], p["num_threads"]) for p in threadpoolctl.threadpool_info())
before = pools()
x = torch.randn(64, 64)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
tried = set()
while not os.path.exists("stop"):
    optimizer.zero_grad(); model(x).pow(2).mean().backward(); optimizer.step()
    tried.add((torch.get_num_threads(), libraries.mkl_get_max_threads()))
print(sorted(tried), "own", libraries.MKL_Set_Num_Threads_Local(0), before == pools() or (before, pools()))
`)
			o.await("progress", func(f Facts) bool { return f.Step > 10 && f.Threads == 2 })
			// On a busy machine it may be given up before a step is counted: that counts here as well.
			if a := o.answer(Request{Op: Trial, Threads: 1, Limit: time.Minute}); a.Threads != 2 || a.Tried != 1 {
				t.Errorf("trial: %+v", a)
			}
			o.write("stop", "")
			out, _ := stop()
			want(t, "output", strings.TrimSpace(out), fmt.Sprintf("[(1, 1), (2, 2)] own %d True", c.mkl))
		})
	}
}

// The observer does not change the result: the loss is identical to the last digit.
func TestRealSameResult(t *testing.T) {
	o := newReal(t, conformancePython(t))
	for _, script := range []string{"torch_loop.py", "lightning_fit.py"} {
		argv := []string{o.python, framework(t, script), "lightning", "2"}
		bare, code := o.exec(o.env, argv...)
		want(t, "exit code", code, 0)
		_, got := o.ran(argv...)
		want(t, "output", lastLine(got), lastLine(bare))
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Debian's PyTorch predates the global optimizer hooks.
func TestSystemTorch(t *testing.T) {
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import torch").Run(); err != nil {
		t.Skipf("%s has no torch", python)
	}
	for script, c := range map[string]struct {
		last      string
		gradients float64 // bytes: four of each parameter
	}{
		"torch_loop.py": {"64 - 4 4 64", 4 * (20*32 + 32 + 32*3 + 3)}, "torch_accumulate.py": {"16 - 2 2 32", 4 * (8 + 1)}, "torch_arrays.py": {"300 - - - -", 4 * (16*16 + 16)},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			o := newReal(t, python)
			f, _ := o.ran(python, framework(t, script))
			want(t, "last row", columns(o)[:strings.LastIndex(columns(o), " ")], c.last)
			want(t, "bytes of gradients", f.GradientBytes, c.gradients)
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}
