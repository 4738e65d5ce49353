package observe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trainopt/monitor/trainlog"
)

// trainScript makes a given number of steps.
const trainScript = `
import sys, torch
optimizer = torch.optim.SGD()
for i in range(int(sys.argv[1])): optimizer.step()
`

// The environment visible to a script is the same with and without the observer.
func TestScriptSeesNothing(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.write("site/sitecustomize.py", "import builtins, sys\nbuiltins.site_path = list(sys.path)\n")
	o.write("site/usercustomize.py", "import builtins\nbuiltins.user = 1\n")
	o.env = setPath(o.env, filepath.Join(o.dir, "site"))
	script := `
import builtins, os, random, signal, subprocess, sys, threading
random.seed(1)
import torch, sitecustomize
print("sitecustomize", sitecustomize.__file__, builtins.site_path == sys.path[1:])
print(sys.path, sys.argv, sys.flags)
print(sorted((k, v) for k, v in os.environ.items()))
print(random.random(), threading.active_count(), signal.getsignal(signal.SIGTERM), sys.excepthook, sys.gettrace(), sys.getprofile())
print(sorted(os.listdir("/proc/self/fd")))
print(torch.__loader__.__class__, torch.__spec__.origin, torch.save.__name__, torch.utils.data.DataLoader.__init__.__qualname__)
print(subprocess.run(["sh", "-c", "echo path=$PYTHONPATH; env | grep -c OPTIMIZE_OBSERVE"], capture_output=True, text=True).stdout, flush=True)
os.system("echo path=$PYTHONPATH; env | grep -c OPTIMIZE_OBSERVE")
try: import no_such_module
except ImportError as e: print(e)
`
	bare, code := o.bare(script)
	want(t, "exit code", code, 0)
	got, code := o.run(script)
	want(t, "exit code", code, 0)
	want(t, "output", got, bare)
	if !strings.Contains(got, "path="+filepath.Join(o.dir, "site")) || !strings.Contains(got, "site/sitecustomize.py True") {
		t.Errorf("the user's own PYTHONPATH or sitecustomize is not in effect:\n%s", got)
	}
	o.env = setPath(o.env, "")
	bare, _ = o.bare(`import os, sys; print(sys.path, os.environ.get("PYTHONPATH"))`)
	got, _ = o.run(`import os, sys; print(sys.path, os.environ.get("PYTHONPATH"))`)
	want(t, "output without PYTHONPATH", got, bare)
	o.env = append(o.env, "PYTHONPATH=")
	const child = `import os, subprocess, sys; print(sys.path, os.environ.get("PYTHONPATH"), "sitecustomize" in sys.modules, flush=True)
if not sys.argv[1:]: subprocess.run([sys.executable, "script.py", "child"])`
	bare, _ = o.bare(child)
	got, _ = o.run(child)
	want(t, "output with an empty PYTHONPATH", got, bare)
}

// setPath prepends directories to the PYTHONPATH of env; an empty value removes the variable.
func setPath(env []string, dir string) []string {
	var out []string
	for _, item := range env {
		old, ok := strings.CutPrefix(item, "PYTHONPATH=")
		switch {
		case !ok:
			out = append(out, item)
		case dir != "":
			out = append(out, "PYTHONPATH="+dir+":"+old)
		}
	}
	return out
}

func TestFailingSitecustomize(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.write("site/sitecustomize.py", "raise RuntimeError('not ours')\n")
	o.env = setPath(o.env, filepath.Join(o.dir, "site"))
	bare, code := o.bare(trainScript, "3")
	want(t, "exit code", code, 0)
	got, code := o.run(trainScript, "3")
	want(t, "exit code", code, 0)
	want(t, "output", got, bare)
	if !strings.Contains(got, "not ours") {
		t.Errorf("the user's sitecustomize did not run: %s", got)
	}
	o.poll()
	want(t, "step", o.last(trainlog.Step), 3)
}

// Python children are observed regardless of how they are started; those that do not train report no progress.
func TestChildren(t *testing.T) {
	cases := map[string]string{
		"subprocess":             `subprocess.run([sys.executable, "train.py", "5"], check=True)`,
		"subprocess, own env":    `subprocess.run([sys.executable, "train.py", "5"], check=True, env={**os.environ, "X": "1"})`,
		"subprocess, no close":   `subprocess.run([sys.executable, "train.py", "5"], check=True, close_fds=False)`,
		"shell":                  `subprocess.run(sys.executable + " train.py 5", shell=True, check=True)`,
		"shell, chained":         `subprocess.run("cd . && exec " + sys.executable + " train.py 5", shell=True, check=True)`,
		"os.system":              `assert os.system(sys.executable + " train.py 5") == 0`,
		"launcher of workers":    `subprocess.run(["./raylet", "--workers=2", "--python_worker_command=" + sys.executable + " train.py 5"], check=True)`,
		"launcher":               `subprocess.run(["env", "Y=1", sys.executable, "train.py", "5"], check=True)`,
		"shell script":           `subprocess.run(["bash", "train.sh", "5"], check=True)`,
		"shell script with #!":   `subprocess.run(["./train.sh", "5"], check=True)`,
		"program with #! line":   `subprocess.run(["./program", "5"], check=True)`,
		"exec":                   `os.execv(sys.executable, [sys.executable, "train.py", "5"])`,
		"execvp":                 `os.execvp(sys.executable, [sys.executable, "train.py", "5"])`,
		"posix_spawn":            `os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "train.py", "5"], os.environ), 0)`,
		"grandchild":             `subprocess.run([sys.executable, "-c", "import subprocess, sys; subprocess.run([sys.executable, 'train.py', '5'])"], check=True)`,
		"multiprocessing, spawn": `p = multiprocessing.get_context("spawn").Process(target=train.train, args=(5,)); p.start(); p.join()`,
		"multiprocessing, fork":  `p = multiprocessing.get_context("fork").Process(target=train.train, args=(5,)); p.start(); p.join()`,
		"fork":                   "pid = os.fork()\n    if not pid: train.train(5); os._exit(0)\n    os.waitpid(pid, 0)",
		"thread":                 `th = threading.Thread(target=train.train, args=(5,)); th.start(); th.join()`,
	}
	for name, call := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			text := "import sys\ndef train(n):\n    import torch\n    optimizer = torch.optim.SGD()\n    for i in range(n): optimizer.step()\nif __name__ == '__main__': train(int(sys.argv[1]))\n"
			o.write("train.py", text)
			if err := os.Chmod(o.write("program", "#!"+o.python+"\n"+text), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(o.write("train.sh", "#!/bin/bash\nset -e\n'"+o.python+"' train.py $1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(o.write("raylet", "#!/bin/sh\nexec sh -c \"${2#*=}\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			f := o.must("import multiprocessing, os, subprocess, sys, threading, train\nif __name__ == '__main__':\n    " + call + "\n")
			want(t, "step", o.last(trainlog.Step), 5)
			want(t, "processes that train", len(f.Processes), 1)
			want(t, "ended", f.Ended, true)
		})
	}
}

// What is replaced or added can be pickled and copied as without the observer, by itself and with what contains it, and is
// read by processes without the observer.
func TestPickles(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	script := `
import copy, inspect, os, pickle, sys
import torch, transformers.trainer
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.trainer.trainer import Trainer
class Own(Callback): pass
for f in os.system, os._exit, os.execv, os.execve, os.posix_spawn, os.posix_spawnp, torch.save:
    assert pickle.loads(pickle.dumps(f)) is f and f.__doc__ == getattr(f, "__wrapped__", f).__doc__, f
first, last = Own(), Checkpoint()
trainer = Trainer(callbacks=[first, last])
assert trainer.callbacks[0] is first and trainer.callbacks[-1] is last, trainer.callbacks
callbacks = trainer.callbacks + transformers.trainer.Trainer().callback_handler.callbacks
for c in callbacks:
    for twin in pickle.loads(pickle.dumps(c)), copy.deepcopy(c):
        assert not type(twin).__module__.startswith("optimize"), twin
with open("callbacks", "wb") as f: pickle.dump([c for c in callbacks if type(c) is not Own], f)
print("pickled")
`
	out, code := o.run(script)
	want(t, "exit code", code, 0)
	want(t, "output", out, "pickled\n")
	out, code = o.bare(`import pickle; print(len(pickle.load(open("callbacks", "rb"))))`)
	want(t, "exit code", code, 0)
	want(t, "callbacks read without the observer", out, "3\n")
}

// A loader of several modules, as that of a zip file, loads those that are not watched as before.
func TestModulesInAZipFile(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import importlib.util, os, sys, zipfile
fakes = next(p for p in sys.path if os.path.isdir(os.path.join(p, "lightgbm")))
with zipfile.ZipFile("all.zip", "w") as z:
    for name in os.listdir(os.path.join(fakes, "lightgbm")):
        if name.endswith(".py"): z.write(os.path.join(fakes, "lightgbm", name), "lightgbm/" + name)
    z.writestr("other.py", "value = 1")
sys.path.insert(0, "all.zip")
assert "all.zip" in importlib.util.find_spec("lightgbm").origin
import other, lightgbm
assert other.value == 1 and "all.zip" in lightgbm.__file__
lightgbm.train({}, None, 6)
`)
	want(t, "step", o.last(trainlog.Step), 6)
	want(t, "failures", len(f.Failures), 0)
}

// An import hook before the observer's, as that of mlflow.autolog, may load a module by load_module of its loader.
func TestLoaderInAnImportHook(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import importlib.util, sys
class Chained:
    def __init__(self, loader): self.loader = loader
    def load_module(self, name): return self.loader.load_module(name)
class Hooks:
    busy = False
    def find_spec(self, name, path, target=None):
        if name != "lightgbm" or self.busy: return None
        self.busy = True
        spec = importlib.util.find_spec(name)
        spec.loader = Chained(spec.loader)
        return spec
sys.meta_path.insert(0, Hooks())
import lightgbm
lightgbm.train({}, None, 6)
`)
	want(t, "step", o.last(trainlog.Step), 6)
	want(t, "failures", len(f.Failures), 0)
}

// Where the agent has set PYTHONUNBUFFERED, a line is one write, unless the command line asks for single writes; where the user
// has set it, nothing changes.
func TestWholeLines(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.env = append(o.env, "PYTHONUNBUFFERED=1")
	const script = `
import socket, subprocess, sys
writes, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) # one message for each write
subprocess.run([sys.executable] + sys.argv[1:] + ["-c", "print('step', 1, 'loss', 0.5)"], stdout=end, check=True)
print(writes.recv(100))
print(type(sys.stdout.buffer), sys.stdout.name, sys.stdout.mode, sys.stdout.encoding, sys.stdout.errors, sys.stdout is sys.__stdout__)
`
	bare, _ := o.bare(script)
	lines := []string{"OPTIMIZE_OBSERVE_LINES=1"}
	for _, c := range []struct {
		settings []string
		args     []string
	}{{nil, nil}, {lines, []string{"-u"}}, {lines, []string{"-Wignore", "-Xutf8", "-u"}}} {
		o.in.Settings = c.settings
		got, _ := o.run(script, c.args...)
		want(t, strings.Join(c.args, " ")+": first write", strings.SplitN(got, "\n", 2)[0], strings.SplitN(bare, "\n", 2)[0])
	}
	got, _ := o.run(script, "-Wignore", "-Xutf8")
	whole := strings.NewReplacer(`b'step'`, `b'step 1 loss 0.5\n'`, "_io.FileIO", "_io.BufferedWriter").Replace(bare)
	want(t, "output", got, whole)
	// Python before 3.10 has no sys.orig_argv.
	o.env = append(o.env, "PYTHONUSERBASE="+o.dir)
	site, _ := o.bare("import site; print(site.getusersitepackages())")
	o.write(filepath.Join(strings.TrimPrefix(strings.TrimSpace(site), o.dir), "old.pth"), "import sys; vars(sys).pop('orig_argv', None)\n")
	got, _ = o.run(script, "-Wignore", "-Xutf8")
	want(t, "output without orig_argv", got, whole)
	got, _ = o.run(script, "-Xutf8", "-u")
	want(t, "output without orig_argv, -u", strings.SplitN(got, "\n", 2)[0], strings.SplitN(bare, "\n", 2)[0])
}

// A launcher's children are not observed if the script disables it, and a clean environment stays clean for other
// programs.
func TestChildSwitchedOff(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.write("train.py", trainScript)
	o.must(`
import os, subprocess, sys
subprocess.run([sys.executable, "train.py", "5"], check=True, env={**os.environ, "OPTIMIZE_OBSERVE": "off"})
out = subprocess.run(["/usr/bin/env"], env={"A": "1"}, capture_output=True, text=True).stdout
assert out == "A=1\n", out
`)
	want(t, "progress", len(o.rows), 0)
}

// The last state is reported regardless of how the process ends.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ending string
		code   int
	}{
		"exit":      {"pass", 0},
		"sys.exit":  {"sys.exit(3)", 3},
		"exception": {"raise ValueError('x')", 1},
		"os._exit":  {"os._exit(4)", 4},
		"interrupt": {"os.kill(os.getpid(), 2); time.sleep(60)", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			_, code := o.run("import os, sys, time"+trainScript+c.ending, "50")
			want(t, "exit code", code, c.code)
			f := o.poll()
			want(t, "step", o.last(trainlog.Step), 50)
			want(t, "ended", f.Ended, true)
		})
	}
}

// A killed training has done at least the work in its last checkpoint.
func TestKilledAfterACheckpoint(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	_, code := o.run(`
import os, torch
optimizer = torch.optim.SGD()
for step in range(1, 8):
    optimizer.step()
    if step % 3 == 0: torch.save({}, "last.pt")
os.kill(os.getpid(), 9)
`)
	want(t, "exit code", code, -1)
	f := o.poll()
	want(t, "checkpoints", written(f), "last.pt@3 last.pt@6")
	want(t, "step", o.last(trainlog.Step), 6)
	want(t, "ended", f.Ended, false)
}

// Warnings that the user turns into errors are not caused by the observer.
func TestWarningsAsErrors(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	out, code := o.exec(o.in.Environ(o.env), o.python, "-W", "error", "-bb", "-X", "dev", "-X", "warn_default_encoding", o.write("script.py", trainScript), "3")
	want(t, "exit code", code, 0)
	want(t, "output", out, "")
	o.poll()
	want(t, "step", o.last(trainlog.Step), 3)
}

func TestInterpreterOptions(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	script := o.write("script.py", "print('ran')\n")
	for _, options := range [][]string{{"-I"}, {"-E"}, {"-S"}, {"-Iu"}} {
		argv := append(append([]string{o.python}, options...), script)
		if WhyUnobservable(argv, o.env) == "" {
			t.Errorf("%v: Off does not say that the observer is off", options)
		}
		out, code := o.exec(o.in.Environ(o.env), argv...)
		want(t, "exit code", code, 0)
		want(t, "output", strings.TrimSpace(out), "ran")
	}
	o.env = append(o.env, "OPTIMIZE_OBSERVE=off")
	want(t, "off", WhyUnobservable([]string{o.python, script}, o.env) != "", true)
	out, code := o.run(trainScript, "3")
	want(t, "exit code "+out, code, 0)
	want(t, "reports", o.reports(), "")
}

func TestOff(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(program, []byte("#!/usr/bin/python3 -Es\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for argv, off := range map[string]bool{
		"python3 train.py": false, "python3 -u -m torch.distributed.run -I": false, "python3 -c -I": false, "python3 train.py -I": false,
		"python3 -I train.py": true, "python3 -uE train.py": true, "python3.11 -W ignore -S train.py": true, "python3 -Wignore -X dev -I x": true,
		"python3 -X -I": false, "env A=1 nice python3 -I x.py": true, "torchrun train.py -S": false, "bash train.sh": false, "": false,
		"/usr/bin/pypy3 -E x": true, "pythonista -I": false, program: true, program + " -x": true,
	} {
		want(t, argv, WhyUnobservable(strings.Fields(argv), nil) != "", off)
	}
	for text, off := range map[string]bool{
		"python3 train.py": false, "# PYTHONPATH=. python3 train.py\npython3 train.py": false, "PYTHONPATH=. python3 train.py": true,
		"cd src\nexport PYTHONPATH=$PWD\npython3 train.py": true, "export PYTHONPATH=.:$PYTHONPATH\npython3 train.py": false,
		"PYTHONPATH=lib\ntorchrun train.py": true, "python3 prepare.py\nPYTHONPATH=. python3 train.py": false, "echo PYTHONPATH": false,
	} {
		script := filepath.Join(t.TempDir(), "run.sh")
		if err := os.WriteFile(script, []byte("#!/usr/bin/env bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, argv := range [][]string{{script}, {"bash", script, "x"}, {"bash", "-c", text}} {
			want(t, strings.Join(argv, " ")+": "+text, WhyUnobservable(argv, nil) != "", off)
		}
	}
	want(t, "env PYTHONPATH", WhyUnobservable([]string{"env", "PYTHONPATH=.", "python3", "train.py"}, nil) != "", true)
	for argv, buffers := range map[string]bool{"python3 -I x.py": true, "python3 -EB x.py": true, "python3 -u -I x.py": false, "python3 -Iu x.py": false, "python3 -S x.py": false} {
		want(t, argv+" buffers", strings.Contains(WhyUnobservable(strings.Fields(argv), nil), "buffers its output"), buffers)
	}
}

// A failing hook is switched off and reported once; the training is unaffected.
func TestHookFailure(t *testing.T) {
	broken := map[string]struct{ file, text, hook string }{
		"a part is missing": {"torch/utils/data/dataloader.py", "class DataLoader: pass\nclass IterableDataset: pass\n", "torch.utils.data"},
		"a property raises": {"sitecustomize.py", `
import sys
def damage(*args):
    import torch.utils.data.dataloader as d
    d.DataLoader.batch_size = property(lambda self: 1 / 0, lambda self, v: None)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "damage_now": damage()
sys.meta_path.append(Finder())
`, "torch.utils.data.DataLoader"},
		"the count of batches raises": {"sitecustomize.py", `
import sys
def damage(*args):
    import torch, optimize_observer.pytorch
    optimize_observer.pytorch.Use.batches = property(lambda self: 1 / 0, lambda self, v: None)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "damage_now": damage()
sys.meta_path.append(Finder())
`, "torch.utils.data.next"},
	}
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			if b.file == "sitecustomize.py" {
				o.write("extra/"+b.file, b.text)
				o.env = setPath(o.env, filepath.Join(o.dir, "extra"))
			} else {
				fakes := filepath.Join(o.dir, "fakes")
				if err := os.CopyFS(fakes, os.DirFS("testdata/fakes")); err != nil {
					t.Fatal(err)
				}
				o.write("fakes/"+b.file, b.text)
				o.env = setPath(setPath(o.env, ""), "")
				o.env = append(o.env, "PYTHONPATH="+fakes)
			}
			f := o.must(`
import torch
try: import damage_now
except ImportError: pass
optimizer = torch.optim.SGD()
for epoch in range(3):
    for i in range(4): optimizer.step()
    if hasattr(torch.utils.data.DataLoader, "__len__"):
        try: list(torch.utils.data.DataLoader([1, 2]))
        except ZeroDivisionError: pass
`)
			want(t, "step", o.last(trainlog.Step), 12)
			if len(f.Failures) != 1 || f.Failures[0].Hook != b.hook {
				t.Errorf("failures: %+v", f.Failures)
			}
			want(t, "reported", strings.Count(o.reports(), `"failure"`), 1)
		})
	}
}

// The steps of a process whose reports cannot be written are unaffected.
func TestReportsGone(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	if err := os.RemoveAll(o.in.Reports); err != nil {
		t.Fatal(err)
	}
	out, code := o.run(trainScript+"print('done', i)", "7")
	want(t, "exit code", code, 0)
	want(t, "output", strings.TrimSpace(out), "done 6")
}

func TestWorkers(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		loader *Loader
		call   string
		want   string
	}{
		"unset":         {nil, "[1], 1, num_workers=3", "3 None False False"},
		"more":          {&Loader{Workers: 2}, "[1], 1", "2 None False False"},
		"all":           {&Loader{Workers: 2, Prefetch: 4, Persistent: &yes, PinMemory: &yes}, "[1], 1", "2 4 True True"},
		"positional":    {&Loader{Workers: 1, PinMemory: &no}, "[1], 1, None, None, None, 5, pin_memory=True", "1 None False False"},
		"none":          {&Loader{Workers: 0}, "[1], 1, num_workers=3, prefetch_factor=4, persistent_workers=True", "0 None False False"},
		"iterable data": {&Loader{Workers: 2}, "Stream(), 1", "0 None False False"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			o.in.Loader = c.loader
			out, code := o.run(`
import torch
class Stream(torch.utils.data.IterableDataset): pass
l = torch.utils.data.DataLoader(` + c.call + `)
print(l.num_workers, l.prefetch_factor, l.persistent_workers, l.pin_memory)
`)
			want(t, "exit code", code, 0)
			want(t, "loader", strings.TrimSpace(out), c.want)
		})
	}
}

// Ranks of one job: the progress is that of rank 0.
func TestRanks(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.write("train.py", trainScript)
	f := o.must(`
import os, subprocess, sys
ps = [subprocess.Popen([sys.executable, "train.py", str(10 + r)], env={**os.environ, "RANK": str(r), "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}) for r in range(3)]
sys.exit(sum(p.wait() for p in ps))
`)
	want(t, "step", o.last(trainlog.Step), 10)
	want(t, "world", f.WorldSize, 3)
	want(t, "processes", len(f.Processes), 3)
	ranks := ""
	for _, p := range f.Processes {
		ranks += strconv.Itoa(p.Rank) + ":" + strconv.FormatFloat(p.Step, 'g', -1, 64) + " "
	}
	for _, r := range []string{"0:10", "1:11", "2:12"} {
		if !strings.Contains(ranks, r) {
			t.Errorf("ranks: %s", ranks)
		}
	}
}

// TestRanksLeave: a script that leaves its process group at its end, as with mp.spawn, has trained in that group.
func TestRanksLeave(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import sys, types, torch
group = sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")
group.is_available, group.get_rank, group.get_world_size = lambda: True, lambda: 0, lambda: 2
group.is_initialized = lambda: True
optimizer = torch.optim.SGD()
for batch in torch.utils.data.DataLoader(list(range(20)), 2): optimizer.step()
group.is_initialized = lambda: False
`)
	want(t, "world", f.WorldSize, 2)
	want(t, "samples of a step", o.last(trainlog.BatchSize), 4)
}

// TestWarningsOnce: a script that repeats a warning shows it as often as without the observer, and one about its source is not
// shown again.
func TestWarningsOnce(t *testing.T) {
	t.Parallel()
	const script = `
import torch, warnings
pattern = "\\d"
optimizer = torch.optim.SGD()
def warn(): warnings.warn("once")
warn()
for epoch in range(3):
    for batch in torch.utils.data.DataLoader(list(range(10)), 2):
        warn()
        optimizer.step()
`
	o := newObserved(t)
	bare, _ := o.bare(script)
	observed, _ := o.run(script)
	want(t, "output", observed, bare)
	want(t, "warnings", strings.Count(observed, "UserWarning: once"), 1)
}
