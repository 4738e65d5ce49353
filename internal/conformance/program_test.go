package conformance

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	pythonFlag = flag.String("python", os.Getenv("OPTIMIZE_CONFORMANCE_PYTHON"), "interpreter whose environment has the frameworks; empty: skip")
	binaryFlag = flag.String("binary", "", "the program; empty: build it")
	lengthFlag = flag.String("length", "short", "short, half or full trainings")
	quickFlag  = flag.Bool("quick", false, "only the subset for every change")
	timingFlag = flag.Bool("timing", false, "fail on wrong rates and missed intervals too: on a quiet machine alone")
	updateFlag = flag.Bool("update", false, "write the tables into the documents")
)

// runLimit is the timeout of a run; on a loaded machine a run may take ten times its usual duration.
const runLimit = 20 * time.Minute

// interpreter returns the Python interpreter of the suite and skips the test if none was given.
func interpreter(t *testing.T) string {
	t.Helper()
	if *pythonFlag == "" {
		t.Skip("no Python environment named: set OPTIMIZE_CONFORMANCE_PYTHON or -python (make conformance builds one)")
	}
	path, err := filepath.Abs(*pythonFlag)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("-python: %v", err)
	}
	return path
}

// missingModule returns the first module of a list that the interpreter cannot find, or "" if all are present.
var missingModule = func() func(python, modules string) string {
	found := map[string]bool{}
	return func(python, modules string) string {
		for _, m := range strings.Fields(modules) {
			if _, known := found[m]; !known {
				check := fmt.Sprintf("import importlib.util, sys; sys.exit(importlib.util.find_spec(%q) is None)", m)
				found[m] = exec.Command(python, "-c", check).Run() == nil
			}
			if !found[m] {
				return m
			}
		}
		return ""
	}
}()

// built is the path of the binary that buildProgram compiled, "" before it runs.
var built string

// buildProgram returns the path of the binary: the one given by -binary, or one compiled into a temporary directory.
var buildProgram = sync.OnceValues(func() (string, error) {
	if *binaryFlag != "" {
		return filepath.Abs(*binaryFlag)
	}
	dir, err := os.MkdirTemp("", "optimize-conformance-")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, "optimize")
	out, err := exec.Command("go", "build", "-o", built, "../../cmd/optimize").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return built, nil
})

func TestMain(m *testing.M) {
	if os.Getenv(loadVariable) != "" {
		burn()
	}
	flag.Parse()
	code := m.Run()
	if built != "" {
		os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// workplace is a fresh folder with the files of one training and a fresh state directory beside it.
type workplace struct {
	t        *testing.T
	training training
	python   string
	program  string
	dir      string
	state    string
	truth    string
	counted  bool // the training records its counts
}

// newWorkplace copies the trainings into a temporary directory, adds a decoy log of another training and runs the
// preparation command. It skips the test if a Python module is missing.
func newWorkplace(t *testing.T, tr training) *workplace {
	t.Helper()
	python := interpreter(t)
	if m := missingModule(python, tr.modules); m != "" {
		t.Skipf("%s lacks the module %s", python, m)
	}
	program, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	w := &workplace{t: t, training: tr, python: python, program: program, dir: filepath.Join(root, "work"),
		state: filepath.Join(root, "state"), truth: filepath.Join(root, "truth"), counted: true}
	if err := os.CopyFS(w.dir, os.DirFS("trainings")); err != nil {
		t.Fatal(err)
	}
	// A recently modified, complete log of another training, which must not be followed.
	decoy := "epoch,total_epochs,data_count,epoch_time,train_loss\n98,99,50000,3.0,0.12\n99,99,50000,3.0,0.11\n"
	if err := os.WriteFile(filepath.Join(w.dir, "other_run.csv"), []byte(decoy), 0o600); err != nil {
		t.Fatal(err)
	}
	if tr.prepare != "" {
		cmd := w.command(strings.Fields(tr.prepare))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tr.prepare, err, out)
		}
	}
	return w
}

// command returns a command as a user's shell would start it in the workplace: output to a pipe, buffered Python, no
// input.
func (w *workplace) command(argv []string) *exec.Cmd {
	bin := filepath.Dir(w.python)
	name := argv[0]
	switch {
	case name == "python":
		name = w.python
	case !strings.Contains(name, "/"):
		if path := filepath.Join(bin, name); fileExists(path) {
			name = path
		}
	}
	cmd := exec.Command(name, argv[1:]...)
	cmd.Dir = w.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	unset := []string{"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PATH"} // the Python environment of a plain shell
	for _, v := range os.Environ() {
		if key, _, _ := strings.Cut(v, "="); !slices.Contains(unset, key) && !strings.HasPrefix(key, "OPTIMIZE") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=", "XDG_STATE_HOME="+filepath.Join(w.dir, "state"), "HF_HUB_OFFLINE=1", "YOLO_OFFLINE=true",
		"YOLO_CONFIG_DIR="+filepath.Join(filepath.Dir(w.dir), "yolo"),
		"TORCHINDUCTOR_CACHE_DIR="+filepath.Join(filepath.Dir(w.dir), "inductor")) // an interrupted compilation corrupts a shared cache
	if w.counted {
		cmd.Env = append(cmd.Env, "TRUTH_FILE="+w.truth)
	}
	return cmd
}

// wrapped returns the command line that runs the training under the optimizer: flags, then the script with its
// arguments or the command.
func (w *workplace) wrapped(length int, flags ...string) []string {
	argv := w.training.argv(length)
	out := append([]string{w.program, "--state-dir", w.state, "--quiet", "train"}, flags...)
	if argv[0] == "python" {
		return append(append(out, argv[1], "--"), argv[2:]...)
	}
	return append(append(out, "--"), argv...)
}

// process is a started command and its captured output.
type process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	done   chan struct{} // closed on exit
}

func (w *workplace) start(argv []string) *process {
	w.t.Helper()
	p := &process{cmd: w.command(argv), output: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is checked by wait
		close(p.done)
	}()
	w.t.Cleanup(p.end)
	return p
}

// end interrupts a process that is still running, so that the optimizer stops its training, and kills it after a
// minute.
func (p *process) end() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// wait returns the exit code; a process that exceeds runLimit fails the test.
func (w *workplace) wait(p *process) int {
	w.t.Helper()
	select {
	case <-p.done:
	case <-time.After(runLimit):
		p.end()
		w.t.Fatalf("%v runs for longer than %v\n%s", p.cmd.Args, runLimit, tail(p.output))
	}
	return p.cmd.ProcessState.ExitCode()
}

func (w *workplace) run(argv []string) (code int, output string) {
	p := w.start(argv)
	return w.wait(p), tail(p.output)
}

func (w *workplace) truthSoFar() truth {
	w.t.Helper()
	f, err := os.Open(w.truth)
	if err != nil {
		return nil
	}
	defer f.Close()
	tr, err := readTruth(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return tr
}

func (w *workplace) record() *record {
	w.t.Helper()
	r, err := readRecord(w.state)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// hasCheckpoint reports whether the training has written a checkpoint.
func (w *workplace) hasCheckpoint() bool {
	for _, p := range alternatives(w.training.checkpoint) {
		if found, _ := filepath.Glob(filepath.Join(w.dir, p)); len(found) > 0 {
			return true
		}
	}
	return false
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tail returns the end of a long output.
func tail(b *bytes.Buffer) string {
	const most = 3000
	if s := b.String(); len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return b.String()
}

// length returns the length of the training selected by -length.
func (tr training) length(t *testing.T) int {
	t.Helper()
	switch *lengthFlag {
	case "short":
		return tr.short
	case "half":
		return max(tr.short, tr.full/2)
	case "full":
		return tr.full
	}
	t.Fatalf("-length %q: want short, half or full", *lengthFlag)
	return 0
}
