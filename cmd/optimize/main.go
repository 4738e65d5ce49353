// Command optimize runs unmodified training scripts at lower cost within the user's limits: it measures the training,
// plans under a deadline and a budget, supervises the run, and reports limits, predictions and actual costs. See
// docs/architecture.md for the structure of the repository.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cmd/optimize/internal/runs"
	"trainopt/cmd/optimize/internal/simulate"
	"trainopt/optimizer/colocate"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/launch/remote"
	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

// keeperArg is the hidden first argument with which the binary starts itself as the keeper of a job.
const keeperArg = "__keeper"

// today, if a build sets it (-ldflags "-X main.today=2026-11-01"), is the date that all commands see, for outputs that
// can be compared on any day.
var today string

func main() {
	if len(os.Args) > 1 && os.Args[1] == keeperArg {
		os.Exit(launch.KeeperMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == runs.NodeArg {
		os.Exit(remote.Node(os.Args[2:], []string{processEnv().Self[0], keeperArg}))
	}
	if len(os.Args) > 1 && os.Args[1] == remote.ProbeArg {
		os.Exit(int(runs.Probe(processEnv(), os.Args[2:])))
	}
	if len(os.Args) > 1 && os.Args[1] == colocate.CyclesArg {
		os.Exit(colocate.RunCycles(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == simulate.ShareArg {
		os.Exit(int(executeShare(processEnv())))
	}
	os.Exit(int(execute(processEnv())))
}

// executeShare runs a task of an array job: the command that was started elsewhere, of which this process does a share.
func executeShare(e *cli.Env) run.Code {
	share, command, err := experiment.Open(e.Args[1:])
	if err != nil {
		fmt.Fprintf(e.Stderr, "optimize: %v\n", err)
		return run.CodeUsage
	}
	// Slurm does not necessarily bind a job to its CPUs.
	if cpus, err := strconv.Atoi(e.Getenv("SLURM_CPUS_ON_NODE")); err == nil && cpus > 0 {
		runtime.GOMAXPROCS(cpus)
	}
	e.Args, e.Share, e.Stdout = command.Args, share, io.Discard
	if code := execute(e); !share.Finished() {
		return max(code, run.CodeOurs)
	}
	return run.CodeDone
}

// processEnv returns the environment of this process.
func processEnv() *cli.Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	e := &cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Dir: dir, Self: []string{self, keeperArg}, Listen: listen, Clock: clock(), Lighten: lighten,
		Interactive: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
	}
	e.Width = func() int {
		fd := int(os.Stderr.Fd())
		if !term.IsTerminal(fd) || e.Getenv("TERM") == "dumb" {
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

// datedClock shows another date than the machine's clock.
type datedClock struct {
	run.SystemClock
	shift time.Duration
}

func (c datedClock) Now() time.Time { return c.SystemClock.Now().Add(c.shift) }

// clock returns the machine's clock; where today is set, it starts at noon of that day.
func clock() run.Clock {
	day, err := time.ParseInLocation(time.DateOnly, today, time.Local)
	if err != nil {
		return run.SystemClock{}
	}
	return datedClock{shift: time.Until(day.Add(12 * time.Hour))}
}

// listen subscribes to the signals that stop a run and returns a function that ends the subscription. Until then a pipe
// whose reader has ended, as of "| head", does not end the process, which has a training to supervise.
func listen() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores the hang-up signal; keep it ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	broken := make(chan os.Signal, 1) // writes fail instead; not ignored, which the training would inherit
	signal.Notify(broken, syscall.SIGPIPE)
	return signals, func() { signal.Stop(signals); signal.Stop(broken) }
}

// lighten limits the process to one CPU, because passing small work items between threads costs more than the work, and
// returns the memory used for planning to the system.
func lighten() (heavy func()) {
	runtime.GOMAXPROCS(1)
	launch.ReleaseMemory()
	return runtime.SetDefaultGOMAXPROCS
}
