package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/launch/remote"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// Probe measures the training that a directory describes, on this machine, without changing its files: the process starts
// itself in name spaces of its own, makes the file systems read-only there, and then supervises the training. args are the
// directory and, for the later steps, the step.
func Probe(e *cli.Env, args []string) run.Code {
	steps := map[string]func(*cli.Env, string) error{"": separate, "enter": enter, "measure": measure}
	if len(args) == 1 {
		args = append(args, "")
	}
	if len(args) != 2 || steps[args[1]] == nil || !filepath.IsAbs(args[0]) {
		fmt.Fprintln(e.Stderr, "usage: DIRECTORY")
		return run.CodeUsage
	}
	if err := steps[args[1]](e, args[0]); err != nil {
		fmt.Fprintf(e.Stderr, "optimize: %v\n", err)
		if _, known := os.Stat(filepath.Join(args[0], run.ResultFile)); known != nil {
			run.ProbeResult{Why: err.Error()}.Write(args[0])
		}
		return run.CodeOurs
	}
	return run.CodeDone
}

// separate starts the next step in its own name spaces.
func separate(e *cli.Env, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "scratch"), 0o700); err != nil {
		return err
	}
	c := remote.Apart([]string{e.Self[0], remote.ProbeArg, dir, "enter"}, dir)
	if err := c.Start(); err != nil {
		return fmt.Errorf("the node does not let the training run apart from its files: %w", err)
	}
	signals, stop := e.Listen()
	defer stop()
	go func() {
		for s := range signals {
			c.Process.Signal(s)
		}
	}()
	c.Wait() // the result states what happened
	return nil
}

// enter makes the file systems read-only and starts the last step.
func enter(e *cli.Env, dir string) error {
	spec, err := run.ReadProbe(dir)
	if err != nil {
		return err
	}
	memory := 1.0
	if host, err := resources.Discover(context.Background(), resources.Roots{}); err == nil {
		memory = float64(host.Memory)
	}
	err = remote.EnterApart(dir, spec.Change, memory, []string{e.Self[0], remote.ProbeArg, dir, "measure"})
	return fmt.Errorf("the node does not let the training run apart from its files: %w", err)
}

// measure runs the training until its pace is measured.
func measure(e *cli.Env, dir string) error {
	spec, err := run.ReadProbe(dir)
	if err != nil {
		return err
	}
	if log := spec.Config.Log; log != "" { // its rows are those of the run
		if !filepath.IsAbs(log) {
			log = filepath.Join(spec.Config.Dir, log)
		}
		os.Remove(log)
	}
	signals, stop := e.Listen()
	defer stop()
	agent := run.Agent{Launcher: launch.Local{Self: e.Self}, Clock: e.Clock, Environ: e.Environ, Simulate: training.CalibratedEnvironment}
	result := agent.Run(context.Background(), spec.Config, signals)
	out := run.ProbeResult{}
	if rec := result.Record; rec != nil {
		if out.Unit = rec.Training.Unit; len(rec.Probes) > 0 {
			out.UnitSeconds = rec.Probes[0].UnitSeconds
		} else if rec.Exit != nil {
			out.Why = strings.TrimSuffix("the training ended there before it was measured: "+rec.Exit.Reason+", "+rec.Exit.Detail, ", ")
		}
	}
	if len(out.UnitSeconds) == 0 && out.Why == "" {
		out.Why = errors.Join(errors.New("the training was not measured there"), result.Err).Error()
	}
	return out.Write(dir)
}
