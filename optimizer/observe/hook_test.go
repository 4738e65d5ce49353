package observe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writeHook writes the module beside the script of the job.
func (o *observed) writeHook() {
	o.t.Helper()
	var b bytes.Buffer
	if err := WriteHook(&b); err != nil {
		o.t.Fatal(err)
	}
	o.write("optimize_hook.py", b.String())
}

const hookScript = `
import sys, time
import optimize_hook
saved = []
def save(path):
    saved.append(path)
    open(path, "w").close()
with optimize_hook.run(total=50, data_count=100, save=save) as r:
    for i in range(50):
        optimize_hook.step(samples=10, loss=1.0 / (i + 1), accuracy=object())
        if i % 10 == 9:
            r.epoch(val_loss=float(i))
    r.checkpoint("model.bin", 0.5)
@optimize_hook.run(total=3)
def second():
    for i in range(3):
        optimize_hook.step()
second(); second()
print(optimize_hook.active(), "torch" in sys.modules)
`

// TestHook: the module reports the same training with the observer in the process, and without it by its own copy; it does
// nothing outside of optimize.
func TestHook(t *testing.T) {
	for name, env := range map[string]func(o *observed) []string{
		"observer in the process": func(o *observed) []string { return o.in.Environ(o.env) },
		"own copy":                func(o *observed) []string { return append(o.env, dirVariable+"="+o.in.Reports) },
	} {
		o := newObserved(t)
		o.writeHook()
		out, code := o.exec(env(o), o.python, o.write("script.py", hookScript))
		if code != 0 || out != "True False\n" {
			t.Fatalf("%s: exit %d: %s", name, code, out)
		}
		o.poll()
		f := o.reader.Facts()
		if f.Framework != "optimize_hook" || f.Unit != "step" || f.Training != 3 || f.Step != 3 || !f.Ended || len(f.Failures) > 0 || o.reader.Lost() > 0 {
			t.Errorf("%s: %+v", name, f)
		}
		if len(f.Checkpoints) != 1 || !strings.HasSuffix(f.Checkpoints[0].Path, "/model.bin") || f.Checkpoints[0].Step != 50 {
			t.Errorf("%s: %+v", name, f.Checkpoints)
		}
		var last Progress
		for _, p := range o.rows {
			if p.Training == 1 {
				last = p
			}
		}
		v := last.Row.Values()
		if v["step"] != 50.0 || v["total_steps"] != 50.0 || v["epoch"] != 5.0 || last.Samples != 500 || v["batch_size"] != 10.0 || v["train_loss"] != 0.02 || v["test_loss"] != 49.0 {
			t.Errorf("%s: %v, %g samples", name, v, last.Samples)
		}
	}
	o := newObserved(t)
	o.writeHook()
	for name, env := range map[string][]string{"alone": o.env, "off": append(o.in.Environ(o.env), "OPTIMIZE_OBSERVE=off"), "no directory": append(o.env, dirVariable+"=/nowhere")} {
		if out, code := o.exec(env, o.python, o.write("script.py", hookScript)); code != 0 || out != "False False\n" {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
	}
	if files, _ := os.ReadDir(o.in.Reports); len(files) > 0 {
		t.Errorf("reports of a process outside of optimize: %v", files)
	}
}

// TestHookWithPyTorch: the copy of the observer in the module counts a loop of the script like the observer.
func TestHookWithPyTorch(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]func(o *observed) []string{
		"observer in the process": func(o *observed) []string { return o.in.Environ(o.env) },
		"own copy":                func(o *observed) []string { return append(o.env, dirVariable+"="+o.in.Reports) },
	} {
		o := newObserved(t)
		o.writeHook()
		if out, code := o.exec(env(o), o.python, o.write("script.py", `
import optimize_hook, torch
optimize_hook.active()
optimizer, loader = torch.optim.SGD(), torch.utils.data.DataLoader(list(range(20)), 2)
for epoch in range(3):
    for batch in loader: optimizer.step()
`)); code != 0 {
			t.Fatalf("%s: exit %d: %s", name, code, out)
		}
		f := o.poll()
		if len(o.rows) == 0 || len(f.Failures) > 0 {
			t.Fatalf("%s: %+v", name, f)
		}
		want(t, name, columns(o), "30 - 3 3 2 -")
	}
}

// TestHookSavesOnRequest: a request for a checkpoint and the end reaches the user's function.
func TestHookSavesOnRequest(t *testing.T) {
	o := newObserved(t)
	o.writeHook()
	stop := o.background(o.in.Environ(o.env), o.python, o.write("script.py", `
import time, optimize_hook
def save(path):
    with open(path, "w") as f: f.write("state")
with optimize_hook.run(save=save) as r:
    while not r.should_stop:
        time.sleep(0.01)
        r.step(samples=4)
print("left the loop")
`))
	o.await("a training that can save", func(f Facts) bool { return f.CanStop })
	if a := o.answer(Request{Op: SaveAndStop}); !a.OK || !a.Stopped {
		t.Fatalf("%+v", a)
	}
	if out, code := stop(); code != 0 || out != "left the loop\n" {
		t.Fatalf("exit %d: %s", code, out)
	}
	f := o.reader.Facts()
	if len(f.Checkpoints) != 1 {
		t.Fatalf("%+v", f)
	}
	if data, err := os.ReadFile(f.Checkpoints[0].Path); err != nil || string(data) != "state" {
		t.Errorf("%s, %v", data, err)
	}
}

// TestHookCallbacks: each framework's training is reported once, with and without the observer in the process.
func TestHookCallbacks(t *testing.T) {
	python := conformancePython(t)
	for name, script := range map[string]string{
		"keras": `
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy, optimize_hook
m = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
m.compile("sgd", "mse")
m.fit(numpy.ones((64, 4)), numpy.ones((64, 1)), batch_size=8, epochs=3, verbose=0, callbacks=[optimize_hook.KerasCallback()])
`,
		"lightning": `
import torch, lightning.pytorch as pl, optimize_hook
class M(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 1)
    def training_step(self, b, i): return self.l(b[0]).mean()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(64, 4)), batch_size=8)
pl.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
           callbacks=[optimize_hook.LightningCallback()]).fit(M(), data)
`,
		"huggingface": `
import torch, transformers, optimize_hook
class M(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None): return {"loss": self.l(x).mean()}
data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(64)]
args = transformers.TrainingArguments("out", num_train_epochs=3, per_device_train_batch_size=8, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
transformers.Trainer(M(), args, train_dataset=data, callbacks=[optimize_hook.HuggingFaceCallback()]).train()
`,
	} {
		for kind, env := range map[string]func(o *observed) []string{
			"observer":     func(o *observed) []string { return o.in.Environ(o.env) },
			"own copy":     func(o *observed) []string { return append(o.env, dirVariable+"="+o.in.Reports) },
			"no optimizer": func(o *observed) []string { return o.env },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				o := newObserved(t)
				o.env = append(o.env, "PYTHONPATH="+o.dir)
				o.writeHook()
				if out, code := o.exec(env(o), python, o.write("script.py", script)); code != 0 {
					t.Fatalf("exit %d: %s", code, out)
				}
				o.poll()
				f := o.reader.Facts()
				if kind == "no optimizer" {
					if f.Framework != "" {
						t.Errorf("%+v", f)
					}
					return
				}
				if f.Step != 24 || f.Training != 1 || f.SamplesPerStep != 8 || len(f.Failures) > 0 {
					t.Errorf("%+v", f)
				}
			})
		}
	}
}

// TestHookDisplay: a run is displayed from the JSON of the program; every text is escaped, and an error is a text too.
func TestHookDisplay(t *testing.T) {
	o := newObserved(t)
	o.writeHook()
	program := o.write("optimize", "#!/bin/sh\n[ \"$2\" = bad ] && { echo '{\"error\":\"no <such> run\",\"exit\":2}' >&2; exit 2; }\ncat "+filepath.Join(o.dir, "record.json")+"\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	o.write("record.json", `{"state":"running","answers":[{"question":"Cost","answer":"$0.10 & more"}],"record":{"run_id":"r1","command":["python3","<b>.py"],
"outcome":{"epochs":null,"steps":5},"training":{"total_units":10,"unit":"step"},"plan":{"allocation":{"gpus":1,"cpus":2,"memory_gib":4}}}}`)
	out, code := o.bare("import optimize_hook, sys\nr = optimize_hook.Run('r1', program=" + `"` + program + `"` + ")\nprint(r._repr_html_())\nprint(r)\n" +
		"print(optimize_hook.Run('bad', program='" + program + "')._repr_html_())\nprint(optimize_hook.Run(program='/no/where'))\n")
	for _, want := range []string{"<caption>Run r1</caption>", "&lt;b&gt;.py", "5 of 10 steps", "Cost           $0.10 & more", "$0.10 &amp; more", "1 GPU, 2 CPU, 4 GiB", "<p>no &lt;such&gt; run</p>", "Run('latest'): run /no/where:"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code != 0 || strings.Contains(out, "<b>.py</td>") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// TestHookSources: the file compiles, and no source ends its own quotation.
func TestHookSources(t *testing.T) {
	o := newObserved(t)
	o.writeHook()
	if out, err := exec.Command(o.python, "-W", "error", "-m", "py_compile", filepath.Join(o.dir, "optimize_hook.py")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
