package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

// ShareArg is the hidden first argument with which the binary starts itself as a task of an array job.
const ShareArg = "__share"

// siteFlags are the flags that select where the cells of a command are computed.
type siteFlags struct {
	engine   string
	args     []string
	parallel int
}

// local is the engine that is this process.
const local = "local"

func (s *siteFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&s.engine, "engine", local, "where the work is done: local|slurm (tasks of an array job)")
	fs.StringArrayVar(&s.args, "engine-arg", nil, "`OPTION` of the site, passed to sbatch: --partition=cpu, --time=60 (repeatable)")
	fs.IntVar(&s.parallel, "parallel", 0, "with --engine slurm: at most `N` tasks at the same time (default: no limit)")
}

// check returns an error for values and combinations that are not possible.
func (s *siteFlags) check(o cli.Options) error {
	return errors.Join(cli.WantOne("engine", s.engine, cli.EngineNames()...), o.Want("parallel", s.parallel >= 1, "at least 1"),
		o.Check(cli.Rule{If: s.engine == local, Flags: "engine-arg parallel", Requires: "--engine slurm"}))
}

// open returns the site, nil for this process, and a function that ends its use: after an error, the directory with the
// output of the tasks is kept.
func (s *siteFlags) open(e *cli.Env) (site experiment.Site, done func(err error), err error) {
	done = func(error) {}
	if e.Share != nil {
		return e.Share, done, nil
	}
	if s.engine == local || s.engine == "" {
		return nil, done, nil
	}
	eng, err := cli.OpenEngine(s.engine)
	if err != nil {
		return nil, done, cli.Usagef("--engine %q: %w", s.engine, err)
	}
	sweeps := filepath.Join(e.State(), "sweeps")
	err = journal.MakeStateDir(e.State())
	if err == nil {
		err = os.MkdirAll(sweeps, 0o700)
	}
	if err != nil {
		return nil, done, fmt.Errorf("prepare the sweep: %w", err)
	}
	dir, err := os.MkdirTemp(sweeps, time.Now().Format("20060102-150405-"))
	if err != nil {
		return nil, done, fmt.Errorf("prepare the sweep: %w", err)
	}
	a := &experiment.Array{Engine: eng, Dir: dir, Argv: []string{e.Self[0], ShareArg}, Command: experiment.Command{Args: e.Args}, WorkDir: e.Dir, Env: e.Environ,
		Parallel: s.parallel, Extra: s.args}
	if !e.Quiet {
		a.Log = func(text string) { fmt.Fprintf(e.Stderr, "optimize: %s\n", text) }
	}
	return a, func(err error) {
		failed := (*experiment.CellError)(nil)
		outputs, _ := fs.Glob(os.DirFS(dir), "*/output-*")
		if len(outputs) == 0 || err == nil || errors.Is(err, context.Canceled) && !errors.As(err, &failed) {
			os.RemoveAll(dir)
			os.Remove(sweeps) // unless there are others
		}
	}, nil
}

// outcome is the outcome of a command that is computed as one cell.
type outcome struct {
	Stdout, Message string
	Code            run.Code
}

// whole runs a command as one task of the site, with its output and exit code; without a site it runs here. An
// interrupt reaches the task as SIGTERM, and its outcome is awaited.
func (s *siteFlags) whole(e *cli.Env, name string, run func() error) error {
	site, done, err := s.open(e)
	if err != nil {
		return err
	}
	if site == nil {
		return run()
	}
	ctx, stop := context.Background(), func() {}
	if a, ok := site.(*experiment.Array); ok {
		ctx, stop = e.UntilSignal()
		if !e.Quiet {
			a.Echo = e.Stderr
		}
	}
	defer stop()
	results, err := experiment.Compute(experiment.On(ctx, site), 1, experiment.CellOptions{}, func(context.Context, int) (outcome, error) {
		stdout, out := e.Stdout, &bytes.Buffer{}
		e.Stdout = out
		err := run()
		e.Stdout = stdout
		o := outcome{Stdout: out.String(), Code: cli.ExitCode(err)}
		if err != nil {
			o.Message = err.Error()
		}
		return o, nil
	})
	done(err)
	interrupt, o := cli.Interrupted(ctx), results[0]
	switch {
	case interrupt != nil && (o == nil || o.Message == ""):
		return interrupt.Exitf("%s: %w; the job was cancelled", name, interrupt)
	case interrupt != nil:
		return errors.Join(e.Print(o.Stdout), interrupt.Exitf("%s", o.Message))
	case err != nil:
		return err
	case o.Code != 0:
		return errors.Join(e.Print(o.Stdout), cli.ExitError{Code: o.Code, Err: errors.New(o.Message)})
	}
	return e.Print(o.Stdout)
}
