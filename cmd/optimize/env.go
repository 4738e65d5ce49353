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

// keeperArg is the hidden first argument by which the binary runs itself again as the keeper of a job.
const keeperArg = "__keeper"

// env is everything that comes from outside, so that the whole command line runs inside a test.
type env struct {
	args    []string // without the program's name
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
	dir     string   // working directory
	self    []string // how the binary runs itself as keeper
	// listen begins to take the user's signals; before, and in commands that run no job, they end the program as usual.
	listen func() (signals <-chan os.Signal, stop func())
	clock  run.Clock
	// width is the terminal's width on stderr, 0 when it is not a terminal; ask is true when a question
	// can be answered on stdin.
	width func() int
	ask   bool
	// lighten makes the process as small as supervising allows, until heavy is called; nil leaves it as it is.
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

func listen() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup a hang-up stays ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() { signal.Stop(signals) }
}

// lighten leaves one core to this process, because handing little work from thread to thread costs more than the work, and
// gives back the memory that planning needed.
func lighten() (heavy func()) {
	runtime.GOMAXPROCS(1)
	launch.ReleaseMemory()
	return runtime.SetDefaultGOMAXPROCS
}

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
