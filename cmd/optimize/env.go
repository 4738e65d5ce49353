package main

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/term"

	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

// keeperArg is the hidden first argument with which the binary starts itself as the keeper of a job.
const keeperArg = "__keeper"

// env contains all external inputs and outputs, so that the whole command line runs inside a test.
type env struct {
	args    []string // without the program name
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
	dir     string   // working directory
	self    []string // command that starts the binary as keeper
	// listen starts to receive the user's signals. Until then, and in commands that run no job, signals have their
	// default effect.
	listen func() (signals <-chan os.Signal, stop func())
	clock  run.Clock
	// width returns the width of the terminal on stderr, 0 if stderr is not a terminal; ask reports whether a question
	// can be answered on stdin.
	width func() int
	ask   bool
	// lighten minimises the footprint of the process for supervision until heavy is called; nil disables this.
	lighten func() (heavy func())
}

func (e *env) getenv(name string) string {
	prefix := name + "="
	for i := len(e.environ) - 1; i >= 0; i-- {
		if len(e.environ[i]) >= len(prefix) && e.environ[i][:len(prefix)] == prefix {
			return e.environ[i][len(prefix):]
		}
	}
	return ""
}

// listen subscribes to the signals that stop a run and returns a function that ends the subscription.
func listen() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores the hang-up signal; keep it ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() { signal.Stop(signals) }
}

// lighten limits the process to one CPU, because passing small work items between threads costs more than the work, and
// returns the memory used for planning to the system.
func lighten() (heavy func()) {
	runtime.GOMAXPROCS(1)
	launch.ReleaseMemory()
	return runtime.SetDefaultGOMAXPROCS
}

// processEnv returns the environment of this process.
func processEnv() *env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	e := &env{
		args: os.Args[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), dir: dir, self: []string{self, keeperArg}, listen: listen, clock: run.SystemClock{}, lighten: lighten,
		ask: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
	}
	e.width = func() int {
		fd := int(os.Stderr.Fd())
		if !term.IsTerminal(fd) || e.getenv("TERM") == "dumb" {
			return 0
		}
		w, _, err := term.GetSize(fd)
		if err != nil || w <= 0 {
			return 80
		}
		return w
	}
	return e
}
