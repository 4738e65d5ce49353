package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cmd/optimize/internal/simulate"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

// agentVariable makes the test binary act as optimize: a real agent process that can be killed.
const agentVariable = "TRAINOPT_TEST_AGENT"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == keeperArg {
		os.Exit(launch.KeeperMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == simulate.ShareArg {
		os.Exit(int(executeShare(processEnv())))
	}
	if os.Getenv(agentVariable) != "" {
		os.Unsetenv(agentVariable)
		os.Exit(int(execute(processEnv())))
	}
	if signal.Ignored(os.Interrupt) { // in the background of a script; a signal caught here has its default action in the processes of the tests
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	// Most tests wait for trainings of a fixed pace rather than for a processor. An explicit -parallel has precedence.
	_ = flag.Set("test.parallel", strconv.Itoa(max(8, 2*runtime.NumCPU())))
	os.Exit(m.Run())
}

// world is a directory in which the command line is run.
type world struct {
	t       *testing.T
	dir     string
	signals chan os.Signal
	environ []string
	// Of agents in processes of their own; nil: empty.
	stdin, stderr *os.File
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, dir: t.TempDir(), signals: make(chan os.Signal, 4), environ: append(cleanEnviron(), "XDG_STATE_HOME="+t.TempDir())}
}

// cleanEnviron returns the environment without variables that would affect the test.
func cleanEnviron() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "OPTIMIZE") {
			out = append(out, kv)
		}
	}
	return out
}

// run executes one command line in this process.
func (w *world) run(args ...string) (code run.Code, stdout, stderr string) {
	w.t.Helper()
	var out, errs bytes.Buffer
	e := &cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: w.environ, Dir: w.dir,
		Self: []string{os.Args[0], keeperArg}, Clock: run.SystemClock{}, Width: func() int { return 0 }}
	e.Listen = func() (<-chan os.Signal, func()) { return w.signals, func() {} }
	if !hasStateDir(args) {
		e.Environ = append(append([]string{}, w.environ...), "OPTIMIZE_STATE_DIR="+w.state())
	}
	code = execute(e)
	return code, out.String(), errs.String()
}

func hasStateDir(args []string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, "--state-dir") {
			return true
		}
	}
	return false
}

func (w *world) state() string { return filepath.Join(w.dir, ".optimize") }

// record runs a command with --json and returns the run record.
func (w *world) record(args ...string) (run.Code, *journal.Record, string) {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"--json"}, args...)...)
	rec := &journal.Record{}
	if err := json.Unmarshal([]byte(out), rec); err != nil {
		w.t.Fatalf("exit %d, output is not a record: %v\nstdout: %s\nstderr: %s", code, err, out, errs)
	}
	return code, rec, errs
}

func (w *world) write(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// agent starts an agent in a process of its own.
func (w *world) agent(args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = w.dir
	if w.stdin != nil {
		cmd.Stdin = w.stdin
	}
	if w.stderr != nil {
		cmd.Stderr = w.stderr
	}
	cmd.Env = append(append([]string{}, w.environ...), agentVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// patience bounds the waits of a test; it expires only if the test fails.
const patience = 5 * time.Minute

// latest waits until the newest run satisfies ok and returns its directory.
func (w *world) latest(what string, ok func(dir string, rec *journal.Record) bool) string {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		entries, _ := journal.List(w.state())
		for _, en := range entries {
			if en.Record != nil && ok(en.Dir, en.Record) {
				return en.Dir
			}
		}
		time.Sleep(30 * time.Millisecond)
	}
	w.t.Fatalf("no run became %s within %v", what, patience)
	return ""
}

func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
}
