package observe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
)

// start runs a script in the background; stop waits for its end and returns its output and exit code.
func (o *observed) start(script string, args ...string) (stop func() (string, int)) {
	o.t.Helper()
	argv := append([]string{o.python, o.write("script.py", script)}, args...)
	return o.background(o.in.Environ(o.env), argv...)
}

func (o *observed) background(env []string, argv ...string) (stop func() (string, int)) {
	o.t.Helper()
	cmd, out := o.command(env, argv...)
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	o.t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	return func() (string, int) {
		select {
		case <-ended:
		case <-time.After(patience):
			o.t.Fatalf("the job does not end")
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
}

// answer sends a request and waits for its answer.
func (o *observed) answer(q Request) Answer {
	o.t.Helper()
	id, err := o.reader.Request(q)
	if err != nil {
		o.t.Fatal(err)
	}
	var a Answer
	o.await("answer", func(Facts) (ok bool) { a, ok = o.reader.Answer(id); return ok })
	return a
}

// Save and stop on request, against the stand-ins: the training ends early in the framework's own way.
func TestSaveAndStop(t *testing.T) {
	cases := map[string]struct {
		script string
		path   string // of the request
		saved  string // base name of the checkpoint; * is any number
		short  bool   // more than one epoch is trained before the stop, or the stop follows the end of one
	}{
		"transformers": {script: `
import transformers.trainer, torch
t = transformers.trainer.Trainer(epochs=10000, save_every=10**9); t.train(pause=0.02); print("steps", t.state.global_step)`, saved: "checkpoint-*", short: true},
		"lightning": {script: `
import lightning.pytorch.trainer.trainer as m
t = m.Trainer(max_epochs=10, batches=10000); t.fit(pause=0.02); print("steps", t.global_step)`, saved: "optimize-step=*.ckpt"},
		"keras": {script: `
import keras.src.models.model as m
t = m.Model(); t.fit(10**6, epochs=3, pause=0.02); print("steps", 1)`, saved: "optimize-step-*.keras"},
		"keras/path": {script: `
import keras.src.models.model as m
t = m.Model(); t.fit(10**6, epochs=3, pause=0.02); print("steps", 1)`, path: "asked.keras", saved: "asked.keras"},
		"keras/thread pool": {script: `
import keras.src.models.model as m
t = m.Model(); t.fit(10**6, epochs=3, pause=0.02, pool=True); print("steps", 1)`, saved: "optimize-step-*.keras"},
		"ultralytics": {script: `
import ultralytics.engine.trainer as m
t = m.BaseTrainer(10000); t.train(pause=0.02); print("steps", t.epoch)`, saved: "optimize-epoch-*.pt", short: true},
		"xgboost": {script: `
import xgboost
xgboost.train({}, None, 10**6, pause=0.02); print("steps", 1)`, saved: "optimize-round-*.json"},
		"lightgbm": {script: `
import lightgbm
m = lightgbm.train({}, None, 10**6, pause=0.02); print("steps", m.best_iteration)`, saved: "optimize-round-*.txt"},
		"stable-baselines3": {script: `
import stable_baselines3.common.base_class as b
a = b.BaseAlgorithm(); a.learn(10**6, pause=0.02); print("steps", a.num_timesteps)`, saved: "optimize-timestep-*.zip"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			stop := o.start(c.script)
			o.await("progress", func(f Facts) bool { return f.Step > 1 && f.CanSave && f.CanStop })
			if c.path != "" {
				c.path = filepath.Join(o.dir, c.path)
			}
			first := o.answer(Request{Op: save, Path: c.path})
			want(t, "saved", first.OK && !first.Stopped, true)
			a := o.answer(Request{Op: SaveAndStop, Path: c.path})
			want(t, "saved and stopped", a.OK && a.Stopped, true)
			if ok, _ := filepath.Match(c.saved, filepath.Base(a.Path)); !ok {
				t.Errorf("checkpoint %s, want %s", a.Path, c.saved)
			}
			if text, err := os.ReadFile(a.Path); err == nil && strings.HasPrefix(string(text), "stripped") {
				t.Error("the checkpoint was stripped")
			} else if _, err := os.Stat(a.Path); err != nil {
				t.Error(err)
			}
			out, code := stop()
			want(t, "exit code", code, 0)
			if !strings.Contains(out, "steps ") {
				t.Errorf("the script did not continue after its training: %s", out)
			}
			f := o.await("end", func(f Facts) bool { return f.Ended })
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
			if epoch := o.last(trainlog.Epoch); !c.short && epoch >= 1 {
				t.Errorf("%g epochs of a training that was stopped within the first one", epoch)
			}
			// A restarted agent finds the same answers and continues with higher ids.
			again := NewReader(o.in.Reports)
			again.Poll(time.Now())
			if b, ok := again.Answer(a.ID); !ok || b != a {
				t.Errorf("after a restart: %+v, want %+v", b, a)
			}
			want(t, "last id", again.lastID, a.ID)
			if _, err := again.Request(Request{Op: save}); !errors.Is(err, errUnable) {
				t.Errorf("a finished training takes a request: %v", err)
			}
		})
	}
}

const endlessScript = `
import os, time, torch
optimizer = torch.optim.SGD()
while not os.path.exists("stop"):
    time.sleep(0.002 * SLOWNESS)
    optimizer.step()
`

func TestThreadRequests(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	stop := o.start(strings.Replace(endlessScript, "SLOWNESS", "5 * torch.get_num_threads()", 1)) // one thread is fastest, also on a busy machine
	f := o.await("progress", func(f Facts) bool { return f.Step > 1 })
	want(t, "can save", f.CanSave, false)
	if _, err := o.reader.Request(Request{Op: save}); !errors.Is(err, errUnable) {
		t.Errorf("a loop of the script's own takes a save: %v", err)
	}
	a := o.answer(Request{Op: SetThreads, Threads: 3})
	want(t, "threads", a.Threads, 3)
	want(t, "before", a.ThreadsBefore, 4)
	a = o.answer(Request{Op: Trial, Threads: 1, Limit: time.Minute})
	want(t, "trial", a.OK && !a.GivenUp, true)
	want(t, "threads after the trial", a.Threads, 3)
	if a.During <= 0 || a.During >= a.Before || a.During >= a.After {
		t.Errorf("one thread is not faster: %+v", a)
	}
	a = o.answer(Request{Op: Trial, Threads: 500, Limit: time.Minute})
	want(t, "given up", a.GivenUp, true)
	want(t, "threads after the trial", a.Threads, 3)
	o.write("stop", "")
	if out, code := stop(); code != 0 {
		t.Error(out)
	}
}

// A training that torch.compile has compiled for its number of threads keeps it.
func TestCompiledThreads(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	stop := o.start(`
import sys, types
def steps(): return sys.modules["optimize_observer.core"].observer.training.step
` + strings.Replace(endlessScript, "SLOWNESS", "1", 1) + `
    if steps() == 5:
        dynamo = sys.modules["torch._dynamo.utils"] = types.ModuleType("torch._dynamo.utils")
        dynamo.counters = {"stats": {"unique_graphs": 1}}
print("threads", torch.get_num_threads())
`)
	o.await("progress", func(f Facts) bool { return f.Step > 5 })
	for _, q := range []Request{{Op: Trial, Threads: 1, Limit: time.Minute}, {Op: SetThreads, Threads: 1}} {
		a := o.answer(q)
		want(t, "reason", a.Reason, "torch.compile would compile the model again")
		want(t, "done", a.OK, false)
	}
	o.write("stop", "")
	out, _ := stop()
	want(t, "output", strings.TrimSpace(out), "threads 4")
}

// A training that ends during a trial answers it and keeps its thread count.
func TestTrialAbandoned(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	stop := o.start(strings.Replace(endlessScript, "SLOWNESS", "1", 1) + "print(torch.get_num_threads())\n")
	o.await("progress", func(f Facts) bool { return f.Step > 1 })
	id, err := o.reader.Request(Request{Op: Trial, Threads: 1, Limit: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	o.write("stop", "")
	stop()
	o.await("end", func(f Facts) bool { return f.Ended })
	if a, ok := o.reader.Answer(id); ok && a.OK && a.Threads != 4 {
		t.Errorf("answer %+v", a)
	}
}

// Files in place of a request are ignored.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	stop := o.start(strings.Replace(endlessScript, "SLOWNESS", "1", 1))
	f := o.await("progress", func(f Facts) bool { return f.Step > 1 })
	path := filepath.Join(o.in.Reports, "request-"+itoa(f.PID)+".json")
	for _, text := range []string{"", "{", "[]", `{"id":"x"}`, `{"id":-1,"op":"threads","threads":1}`, strings.Repeat("x", 1<<20), `{"id":900,"op":"rm"}`} {
		if err := replaceFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		before := f.Step
		f = o.await("progress", func(f Facts) bool { return f.Step > before })
	}
	o.await("answer", func(Facts) bool { a, ok := o.reader.Answer(900); return ok && !a.OK })
	a := o.answer(Request{Op: SetThreads, Threads: 2})
	want(t, "answered", a.OK && a.ID == 901, true)
	o.write("stop", "")
	stop()
}

// All ranks stop at the same step.
func TestRanksAgree(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.write("train.py", `
import transformers.trainer, torch
t = transformers.trainer.Trainer(output_dir="out-" + __import__("os").environ["RANK"], epochs=10000, save_every=10**9)
t.train(pause=0.02)
print("steps", t.state.global_step)
`)
	stop := o.start(`
import os, subprocess, sys
ps = [subprocess.Popen([sys.executable, "train.py"], env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2", "MASTER_PORT": "29500"}) for r in range(2)]
sys.exit(sum(p.wait() for p in ps))
`)
	o.await("progress", func(f Facts) bool { return f.CanSave && len(f.Processes) == 2 })
	a := o.answer(Request{Op: SaveAndStop})
	want(t, "stopped", a.OK && a.Stopped, true)
	out, code := stop()
	want(t, "exit code", code, 0)
	lines := strings.Fields(strings.ReplaceAll(out, "steps", ""))
	if len(lines) != 2 || lines[0] != lines[1] {
		t.Errorf("the ranks stopped at different steps: %s", out)
	}
}

// A rank does not stop alone.
func TestRankMissing(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.env = append(o.env, "RANK=0", "WORLD_SIZE=2", "MASTER_PORT=29500")
	stop := o.start(strings.Replace(endlessScript, "SLOWNESS", "1", 1))
	o.await("progress", func(f Facts) bool { return f.Step > 1 })
	a := o.answer(Request{Op: SetThreads, Threads: 2})
	want(t, "done", a.OK, false)
	want(t, "reason", a.Reason, "not all ranks are observed")
	o.write("stop", "")
	stop()
}

// TestTermination checks that a training in a Slurm job survives the SIGTERM of the job until it is asked to save, dies of it
// if it is not asked, and leaves a handler of the script alone.
func TestTermination(t *testing.T) {
	const train = `
import transformers.trainer, torch
t = transformers.trainer.Trainer(epochs=10000, save_every=10**9); t.train(pause=0.02); print("steps", t.state.global_step)`
	for name, c := range map[string]struct {
		script string
		job    bool // the environment is that of a Slurm job
		ask    bool
		twice  bool
		code   int
		out    string
	}{
		"asked":          {script: train, job: true, ask: true, out: "steps "},
		"not asked":      {script: train, job: true, code: -1},
		"asked twice":    {script: train, job: true, twice: true, code: -1},
		"no job":         {script: train, code: -1},
		"handler of its": {script: "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))" + train, job: true, code: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			if c.job {
				o.env = append(o.env, "SLURM_JOB_ID=1")
			}
			stop := o.start(c.script)
			f := o.await("progress", func(f Facts) bool { return f.Step > 1 && f.CanSave && f.CanStop })
			if err := syscall.Kill(f.PID, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if c.ask {
				want(t, "saved and stopped", o.answer(Request{Op: SaveAndStop}).Stopped, true)
			}
			for range map[bool]int{true: 20}[c.twice] {
				time.Sleep(50 * time.Millisecond)
				syscall.Kill(f.PID, syscall.SIGTERM) // it may be dead already
			}
			out, code := stop()
			want(t, "exit code", code, c.code)
			if !strings.Contains(out, c.out) {
				t.Errorf("output %q, want %q", out, c.out)
			}
		})
	}
}

// TestEndDuringASave checks that a signal to end that arrives within a save takes effect once the checkpoint is complete and
// reported, that a handler of the script is called at once, and that a child of the save is not affected.
func TestEndDuringASave(t *testing.T) {
	const save = `
import os, signal, sys, torch
class Path:
    within = True
    def __fspath__(self):
        if self.within:
            self.within = False
            during()
        return "model.pt"
def during():
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    print("within", os.path.exists("model.pt"), flush=True)
def fork():
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(7)
    print("child", os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
SCRIPT
try:
    torch.save({}, Path())
except KeyboardInterrupt:
    print("interrupted")
print(open("model.pt").read(), before == [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)])
`
	for name, c := range map[string]struct {
		script, signal, out string
		code                int
	}{
		"SIGTERM":     {signal: "SIGTERM", out: "within False\n", code: -1},
		"SIGINT":      {signal: "SIGINT", out: "within False\ninterrupted\nstate True\n"},
		"no signal":   {script: "during = lambda: None", signal: "SIGINT", out: "state True\n"},
		"own handler": {script: "signal.signal(signal.SIGTERM, lambda *_: print('own')); before[0] = signal.getsignal(signal.SIGTERM)", signal: "SIGTERM", out: "own\nwithin False\nstate True\n"},
		"child":       {script: "during = fork", signal: "SIGTERM", out: "child 15\nstate True\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			out, code := o.run(strings.Replace(save, "SCRIPT", c.script, 1), c.signal)
			want(t, "output", out, c.out)
			want(t, "exit code", code, c.code)
			saved, err := os.ReadFile(filepath.Join(o.dir, "model.pt"))
			want(t, "checkpoint", string(saved), "state")
			if err != nil {
				t.Error(err)
			}
			want(t, "reported", strings.Contains(o.reports(), "model.pt"), true)
		})
	}
}
