// Package runs contains the commands that start trainings and those that read finished and running ones: train, runs,
// report, logs, analyze, pareto and serve, and the command cluster: the live scheduler of many trainings on one machine or
// on an engine.
package runs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report"
	"trainopt/optimizer/run"
	"trainopt/simulator/training"
)

// Commands returns the commands of this package.
func Commands(e *cli.Env) []*cobra.Command {
	return []*cobra.Command{trainCommand(e), reportCommand(e), runsCommand(e), logsCommand(e), paretoCommand(e), analyzeCommand(e), metricsCommand(e),
		pythonModuleCommand(e), serveCommand(e), leaseCommand(e), clusterCommand(e)}
}

// trainOptions holds the flags of `train` that are not settings.
type trainOptions struct {
	cli.Options
	train                []string
	host                 string
	dryRun, explain, yes bool
	fresh                bool
	serve                string
}

func trainCommand(e *cli.Env) *cobra.Command {
	o := &trainOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Train,
		Use:     "train [SCRIPT] [flags] [-- SCRIPT ARGS… | -- COMMAND ARGS…]",
		Short:   "Run a training script under control of cost, time and resources",
		Long:    `Run a training script under control of cost, time and resources. Everything after -- is passed to the script.`,
		Example: `  optimize --train train.py --deadline 2h --budget 5
  optimize --train train.py --dry-run --explain     # plan only
  optimize --train train.py --prefer cost -- --lr 0.1
  optimize train -- torchrun --nproc_per_node=2 train.py
  optimize --engine slurm --engine-arg=--partition=gpu --train train.py`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	fs.StringArrayVar(&o.train, "train", nil, "the training `SCRIPT`; may be repeated")
	fs.StringVar(&o.host, "host", "", "plan for another machine: `FILE|CLOUD:TYPE` (with --dry-run)")
	fs.BoolVar(&o.dryRun, "dry-run", false, "plan only")
	fs.BoolVar(&o.explain, "explain", false, "print the reasons of the plan")
	fs.BoolVar(&o.yes, "yes", false, "ask no questions; start and continue even if no allocation is predicted to meet the limits, until the guard stops it")
	fs.BoolVar(&e.ShowOutput, "follow", false, "show the output of the job (in the live view also by the key o)")
	fs.BoolVar(&o.fresh, "fresh", false, "start a new run even if an orphaned run of the same training exists")
	fs.StringVar(&o.serve, "serve", "", "serve a local page of the runs meanwhile, at `ADDRESS` (default 127.0.0.1:8787; see optimize serve)")
	fs.Lookup("serve").NoOptDefVal = defaultListen
	cli.AddSettings(fs, nil)
	return cmd
}

// scripts splits the arguments into the scripts to train and the arguments after `--`.
func (o *trainOptions) scripts(cmd *cobra.Command, args []string) (scripts, rest []string, err error) {
	before := args
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		before, rest = args[:at], args[at:]
	}
	for _, a := range rest {
		dir, number, _ := strings.Cut(a, "/fd/")
		if fd, err := strconv.Atoi(number); err == nil && fd > 2 && (strings.HasSuffix(dir, "/dev") || strings.HasSuffix(dir, "/proc/self")) {
			return nil, nil, cli.Usagef("%s: of the descriptors, a training gets only its standard input: pipe the data to it, or write them to a file", cli.Quote(a))
		}
	}
	scripts = append(append([]string(nil), o.train...), before...)
	if len(scripts) == 0 && len(rest) == 0 {
		return nil, nil, cli.Usagef("nothing to train: name a script by --train SCRIPT, or a command after --")
	}
	for _, s := range scripts {
		if strings.TrimSpace(s) == "" {
			return nil, nil, cli.Usagef("--train: the name of the script is empty")
		}
		if hint := o.EqualsHint(cmd, s); (len(scripts) > 1 || hint != "") && !cli.Exists(o.Path(s)) { // found before the first one starts
			return nil, nil, cli.Usagef("find script %s: no such file; no script was started (arguments of the script follow --%s)", cli.Quote(s), hint)
		}
	}
	return scripts, rest, nil
}

// run runs each script in sequence with the same configuration and prints their records. The exit code is that of the
// first failure; an interrupt skips the remaining scripts.
func (o *trainOptions) run(cmd *cobra.Command, args []string) error {
	scripts, rest, err := o.scripts(cmd, args)
	if err != nil {
		return err
	}
	vals, err := o.ProjectSettings(o.Flags)
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := makeConfig(o, vals)
	if err != nil {
		return cli.Usage(err)
	}
	if o.dryRun { // a run creates the state directory
		if err := o.CheckState(); err != nil {
			return cli.Usage(err)
		}
	}
	if len(scripts) == 0 {
		scripts = []string{""}
	}
	if o.Changed("serve") {
		p, err := openPage(o.Env, "serve", o.serve, false, nil, nil)
		if err != nil {
			return err
		}
		defer p.close()
		cfg.NotifyLink = cmp.Or(cfg.NotifyLink, p.address)
		if !o.Quiet {
			fmt.Fprintf(o.Stderr, "page: %s (log in for stop and changes: %s)\n", p.address, p.login())
		}
	}
	var records []*journal.Record
	worst := error(nil)
	for _, s := range scripts {
		one := cfg
		one.Train, one.Args = s, rest
		res := o.runOne(one)
		if res.Record != nil {
			records = append(records, res.Record)
		}
		if res.Code != run.CodeDone && worst == nil {
			worst = cli.ExitError{Code: res.Code, Err: res.Err}
		} else if res.Err != nil && len(scripts) > 1 {
			fmt.Fprintf(o.Stderr, "optimize: %s: %v\n", s, res.Err)
		}
		if res.Code == run.CodeTryAgain || res.Code >= run.CodeInterrupt { // stopped by the user or with its Slurm job: do not start the others
			break
		}
	}
	if err := o.print(records, len(scripts)); err != nil {
		return err
	}
	return worst
}

// newAgent returns the agent of a run.
func newAgent(e *cli.Env, view run.View) run.Agent {
	return run.Agent{Launcher: launch.Local{Self: e.Self}, View: view, Clock: e.Clock, Environ: e.Environ, Lighten: e.Lighten, Simulate: training.CalibratedEnvironment,
		Site: siteOf(e), Batch: &slurm.Engine{}}
}

// jobInput returns the standard input of a training: that of this process, or nil for an empty one if it is a terminal.
// The job is in a session of its own and its prompts are not shown, so that it would take keys from the live view and the
// shell.
func jobInput(stdin any) *os.File {
	f, ok := stdin.(*os.File)
	if !ok || term.IsTerminal(int(f.Fd())) {
		return nil
	}
	if a, err := f.Stat(); err == nil {
		if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(a, null) {
			return nil
		}
	}
	return f
}

// runOne runs one training. If an orphaned run of the same training exists and --fresh is not set, it resumes that run
// instead, or starts a new one if it is not resumable, is a job of the cluster, or another process has taken it meanwhile.
func (o *trainOptions) runOne(cfg run.Config) run.Result {
	view := newView(o.Env)
	defer closeView(view)
	signals, stop := o.Listen()
	defer stop()
	agent := newAgent(o.Env, view)
	agent.Stdin = jobInput(o.Stdin)
	cfg.Anyway = o.yes
	if o.yes {
		agent.Confirm = func(string) bool { return true }
	} else if o.Interactive && !o.JSON {
		agent.Confirm = func(question string) bool { return confirm(o.Env, question, signals) }
	}
	if !cfg.DryRun && !o.fresh {
		if dir := agent.FindOrphanedRun(context.Background(), cfg, ofCluster); dir != "" {
			view.Event(run.Info, fmt.Sprintf("found the orphaned run %s of the same training: resuming it (--fresh starts a new run)", filepath.Base(dir)))
			res := agent.Resume(context.Background(), dir, run.Change{Config: &cfg, TimeMax: cfg.SLA.TimeMax, CostMaxUSD: cfg.SLA.CostMaxUSD, Notify: cfg.Notify, NotifyLink: cfg.NotifyLink}, signals)
			if taken := (*journal.LockedError)(nil); !errors.Is(res.Err, run.ErrNotResumable) && !errors.As(res.Err, &taken) {
				return res
			}
			view.Event(run.Warning, res.Err.Error()+"; starting a new run")
		}
	}
	res := agent.Run(context.Background(), cfg, signals)
	if !cfg.DryRun && res.Record != nil {
		o.RememberProject()
	}
	return res
}

// confirm asks a yes/no question; a signal means no.
func confirm(e *cli.Env, question string, signals <-chan os.Signal) bool {
	fmt.Fprintf(e.Stderr, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(e.Stdin).ReadString('\n')
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		return answer == "y" || answer == "yes"
	case <-signals:
		fmt.Fprintln(e.Stderr)
		return false
	}
}

// print prints the records as JSON, or a summary of several scripts.
func (o *trainOptions) print(records []*journal.Record, scripts int) error {
	switch {
	case len(records) == 0:
		return nil
	case o.JSON && scripts == 1:
		return o.PrintJSON(records[0])
	case o.JSON:
		return o.PrintJSON(records)
	case scripts > 1:
		return report.Summary(o.Stdout, records)
	}
	return nil
}
