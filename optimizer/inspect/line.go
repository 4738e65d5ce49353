package inspect

import (
	"path/filepath"
	"slices"
	"strings"
)

// line is a parsed command line: launchers, then the program with its arguments.
type line struct {
	argv      []string
	launchers []launcher // outermost first
	script    string     // Python or shell script, as on the command line
	module    string     // of python -m
	code      string     // of python -c or bash -c
	program   string     // base name of any other program: "yolo"
	shell     bool       // script or code is run by a shell
	args      int        // index of the program's first argument
}

// launcher is a program that starts the training processes, such as torchrun.
type launcher struct {
	name     string
	from, to int // argv[from:to] are its own arguments
}

// wrappers run the command that follows them.
var wrappers = set("nohup", "nice", "ionice", "time", "timeout", "env", "sudo", "srun", "taskset", "numactl", "stdbuf", "unbuffer",
	"xvfb-run", "uv", "poetry", "conda", "mamba", "micromamba", "pipenv", "pdm", "hatch", "rye", "chrt", "setsid", "nvprof", "nsys",
	"ncu", "py-spy", "viztracer", "coverage", "kernprof", "memray", "scalene", "ddtrace-run", "opentelemetry-instrument", "strace", "perf",
	"flock", "tini", "dumb-init", "systemd-run", "script", "exec", "command", "prlimit", "cgexec", "unshare", "doas", "eatmydata")

// starters are the wrappers that start several processes.
var starters = set("mpirun", "mpiexec", "horovodrun")

// programs are installed training commands, by name.
var programs = set("trl", "yolo", "ultralytics", "lightgbm", "xgboost", "litgpt", "axolotl", "llamafactory-cli", "autotrain", "fairseq-train", "tune")

// launcherModules maps modules run by python -m to launchers.
var launcherModules = map[string]string{"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
	"accelerate.commands.launch": "accelerate", "accelerate": "accelerate", "deepspeed": "deepspeed", "deepspeed.launcher.runner": "deepspeed",
	"horovod.runner": "horovodrun"}

// runnerModules are the modules that run the script or module that follows them.
var runnerModules = set("pdb", "cProfile", "coverage", "trace", "memory_profiler", "kernprof", "scalene", "torch.utils.bottleneck")

var shells = set("sh", "bash", "dash", "zsh", "ksh", "ash")

// launchers start a Python script given among their arguments.
var launchers = set("torchrun", "accelerate", "deepspeed", "horovodrun", "ipython", "composer", "colossalai")

// isPythonName reports whether n is a Python interpreter: python, python3, python3.11, pypy3.
func isPythonName(n string) bool {
	return strings.HasPrefix(n, "python") && strings.Trim(n[len("python"):], "0123456789.w-d") == "" || strings.HasPrefix(n, "pypy")
}

// pythonCommand is the Python program of a command line.
type pythonCommand struct {
	script string // path of the script as written
	module string // of -m
	code   string // of -c
	args   []string
}

// findPython finds the Python program in an argv: after environment assignments, wrappers (nohup, srun …) and
// launchers (torchrun, accelerate launch, python -m torch.distributed.run).
func findPython(argv []string) (pythonCommand, bool) {
	l := readLine(argv)
	if l.shell || l.script == "" && l.module == "" && l.code == "" {
		return pythonCommand{}, false
	}
	return pythonCommand{script: l.script, module: l.module, code: l.code, args: argv[l.args:]}, true
}

// readLine parses a command line. It reads no file. It skips environment assignments, options and wrappers, collects
// launchers from the outermost to the innermost, and stops at the first script, module, inline code or program.
func readLine(argv []string) line {
	l := line{argv: argv, args: len(argv)}
	first := 0
	for first < len(argv) && strings.Contains(argv[first], "=") && isShellName(argv[first][:strings.IndexByte(argv[first], '=')]) {
		first++
	}
	for i := first; i < len(argv); i++ {
		w := argv[i]
		n := filepath.Base(w)
		switch {
		case strings.HasPrefix(w, "-") || strings.Contains(w, "="):
		case isPythonName(n):
			return l.interpreter(i+1, true)
		case launchers[n]:
			return l.interpreter(l.launch(n, i+1), false)
		case starters[n]:
			l.launch(n, i+1)
		case shells[n]:
			l.shellScript(i + 1)
			return l
		case strings.HasSuffix(w, ".py"):
			l.close(i)
			l.script, l.args = w, i+1
			return l
		case fileKind(w, nil) == kindShell:
			l.close(i)
			l.script, l.shell, l.args = w, true, i+1
			return l
		case programs[n] || i == first && !wrappers[n]:
			l.close(i)
			l.program, l.args = n, i+1
			return l
		}
	}
	if first < len(argv) {
		l.program, l.args = filepath.Base(argv[first]), first+1
	}
	return l
}

// launch records a launcher whose arguments start at i and returns the index of its first argument.
func (l *line) launch(name string, i int) int {
	l.close(i - 1)
	if name == "accelerate" && i < len(l.argv) && l.argv[i] == "launch" {
		i++
	}
	if name == "mpiexec" {
		name = "mpirun"
	}
	l.launchers = append(l.launchers, launcher{name, i, len(l.argv)})
	return i
}

// close ends the arguments of the innermost launcher before index i.
func (l *line) close(i int) {
	if n := len(l.launchers); n > 0 && l.launchers[n-1].to == len(l.argv) {
		l.launchers[n-1].to = i
	}
}

// interpreter parses the arguments after Python or a launcher, up to the script, module or code.
func (l line) interpreter(from int, python bool) line {
	for i := from; i < len(l.argv); i++ {
		w := l.argv[i]
		next := i+1 < len(l.argv)
		switch {
		case python && w == "-c" && next:
			l.close(i)
			l.code, l.args = l.argv[i+1], i+2
			return l
		case (w == "-m" || w == "--module") && next:
			m := l.argv[i+1]
			if name, ok := launcherModules[m]; ok {
				return l.interpreter(l.launch(name, i+2), false)
			}
			if runnerModules[m] {
				python = false
				i++
				continue
			}
			l.close(i)
			l.module, l.args = m, i+2
			return l
		case strings.HasSuffix(w, ".py") && !strings.HasPrefix(w, "-"):
			l.close(i)
			l.script, l.args = w, i+1
			return l
		case python && (w == "-W" || w == "-X"):
			i++
		case !python && (isPythonName(filepath.Base(w)) && !strings.HasPrefix(w, "-")):
			python = true
		case !python && programs[filepath.Base(w)]: // accelerate launch --no_python trl sft
			l.close(i)
			l.program, l.args = filepath.Base(w), i+1
			return l
		case w == unknown && slices.ContainsFunc(l.argv[i:], func(a string) bool { return strings.HasSuffix(a, ".py") }): // options
		case python && !strings.HasPrefix(w, "-"):
			l.close(i)
			l.script, l.args = w, i+1 // a script without .py
			return l
		}
	}
	return l
}

// shellScript parses the arguments after a shell.
func (l *line) shellScript(from int) {
	for i := from; i < len(l.argv); i++ {
		w := l.argv[i]
		switch {
		case strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") && i+1 < len(l.argv):
			l.close(from - 1)
			l.code, l.shell, l.args = l.argv[i+1], true, i+2
			return
		case !strings.HasPrefix(w, "-"):
			l.close(from - 1)
			l.script, l.shell, l.args = w, true, i+1
			return
		}
	}
}

// shellArguments returns the values of $1 and the following parameters in the shell script or the text of sh -c.
func (l *line) shellArguments() []string {
	args := l.argv[min(l.args, len(l.argv)):]
	if l.code != "" && len(args) > 0 { // sh -c TEXT NAME ARGUMENTS…
		args = args[1:]
	}
	return args
}

// localRanks returns the number of local training processes that the launchers of a command line start: torchrun,
// python -m torch.distributed.run, accelerate, deepspeed, mpirun and horovodrun; 1 without one. gpus and cpus are the
// device counts for launchers with one process per device ("auto", "gpu", "cpu").
func localRanks(argv []string, gpus, cpus int) int {
	ranks := 1
	for _, l := range readLine(argv).launchers {
		ranks *= l.ranks(argv, gpus, cpus)
	}
	return ranks
}

// rankOptions are the options of a launcher that set its number of processes.
var rankOptions = map[string][]string{
	"torchrun": {"nproc_per_node"}, "accelerate": {"num_processes"}, "deepspeed": {"num_gpus"},
	"mpirun": {"c", "np", "n"}, "horovodrun": {"num_proc", "np"}, "composer": {"n", "nproc"}, "colossalai": {"nproc_per_node"},
}

// ranks returns the number of processes that the launcher starts on this machine, at least 1.
func (l launcher) ranks(argv []string, gpus, cpus int) int {
	stated, machines, several := "", 1.0, false
	for _, w := range l.words(argv) {
		switch {
		case slices.Contains(rankOptions[l.name], w.name) && w.value != "":
			stated = w.value
		case l.name == "accelerate" && w.name == "num_machines":
			if v, ok := amount(w.value); ok {
				machines = v
			}
		case l.name == "accelerate" && w.name == "multi_gpu":
			several = true
		}
	}
	n := 1.0
	switch v, ok := amount(stated); {
	case ok:
		n = v / machines
	case stated == "gpu" || stated == "auto" && gpus > 0 || stated == "" && (l.name == "deepspeed" || l.name == "composer" || several):
		n = float64(gpus)
	case stated == "cpu" || stated == "auto":
		n = float64(cpus)
	}
	return max(1, int(n))
}

// words returns the launcher's own options.
func (l launcher) words(argv []string) []word {
	return readWords(argv, l.from, l.to, launcherToggles)
}

var launcherToggles = set("standalone", "no_python", "run_path", "module", "m", "multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "allow_run_as_root",
	"oversubscribe", "quiet", "verbose", "v", "bind_to_none", "debug", "mps", "tpu")
