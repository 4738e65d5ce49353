package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/morl/network"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/swf"
)

// simulateQueueOptions holds the flags of `simulate queue`.
type simulateQueueOptions struct {
	queueFlags
	socketFlags
	filesFlags
	format                         cli.Format
	prefer                         string
	policy, backfill, window       string
	agent, inModel, outModel, logs string
	jobstat                        string
	runs                           int
	seed                           uint64
	jobsOut, batsim                string
	list                           bool
}

func simulateQueueCommand(e *cli.Env) *cobra.Command {
	o := &simulateQueueOptions{}
	cmd := &cobra.Command{
		Use: "queue [OPTIONS.json]", Short: "A batch queue: order, backfilling and placement of jobs", Args: cobra.MaximumNArgs(1),
		Long: `Simulate a batch queue. On a machine of equal processors (--trace, or generated jobs) an order selects the next waiting job
and backfilling the jobs that may overtake it. On a platform of heterogeneous cores that share memory and bandwidth
(--platform, --options), decisions are made by an order with a placement, or by a pair of policies as in HDeepRM, such as
shortest-high_gflops. By default, ` + fmt.Sprint(defaultQueueJobs) + ` jobs of Lublin's model are simulated.

It replaces RLScheduler's simulator (--as-published), HDeepRM's launcher (--options, --runs, --inmodel, --outmodel, --logs; or
a file of options as the only argument) and its hdeeprm-jobstat (--jobstat size:p99), and Batsim.

--json prints: schema, engine, policy, backfill, placement, seed, jobs[id, submit_s, start_s,
end_s, procs, allocated, state], mean_ and max_ of bounded_slowdown, slowdown, wait_s and
turnaround_s, utilization, makespan_s (the date of the last end), span_s, energy_joules,
dropped{reason: count}, events, wall_s, warnings[] and more; unknown values are null.

Exit code 6: no job can be simulated, or jobs wait forever.`,
		Example: `  optimize simulate queue
  optimize simulate queue --trace trace.swf.gz --policy f4 --jobs-out jobs.csv --output queue.html
  optimize simulate queue --trace trace.swf --policy sjf --as-published --window 1981:1024
  optimize simulate queue --platform gaia --workload trace.swf --policy saf --placement energy
  optimize simulate queue --platform mini --prefer slowdown=2,energy=1
  optimize simulate queue --batsim-endpoint tcp://*:28000 --policy sjf --backfill easy
  optimize simulate queue --options options.json --runs 100 --outmodel agent.json --logs logs
  optimize simulate queue --list-policies`,
		RunE: func(_ *cobra.Command, args []string) error {
			if o.list {
				return printList(o.Env, "policies", sweep.PolicyList())
			}
			if len(args) == 1 {
				if err := o.positional(args[0]); err != nil {
					return cli.Usage(err)
				}
			}
			return o.run()
		},
	}
	o.queueFlags.add(e.Options(cmd))
	fs := o.Flags
	o.socketFlags.add(fs)
	o.filesFlags.add(fs)
	fs.StringVar(&o.prefer, "prefer", "", "run many methods and show the one of their Pareto front that is preferred: balanced|time|cost|resource or slowdown=2,energy=1")
	fs.StringVar(&o.policy, "policy", "", "an order, a pair, rollout or a policy file, see --list-policies (default "+defaultPolicy+"; with --options their agent)")
	fs.StringVar(&o.backfill, "backfill", "", "none|easy|conservative|rlscheduler (default easy)")
	fs.StringVar(&o.window, "window", "", "only LENGTH jobs from number START on, `START:LENGTH`, as one episode")
	fs.StringVar(&o.agent, "algorithm", "", "replace the agent of --options: classic|reinforce|a2c")
	fs.StringVar(&o.inModel, "inmodel", "", "initial policy `FILE` of the agent of --options")
	fs.StringVar(&o.outModel, "outmodel", "", "write the trained agent to `FILE`; may be that of --inmodel")
	fs.IntVar(&o.runs, "runs", 1, "consecutive simulations of the agent of --options (hdeeprm-launch -nr)")
	fs.StringVar(&o.logs, "logs", "", "append to rewards.log, losses.log, makespans.log, actions.log and probs.json in `DIR`")
	fs.StringVar(&o.jobstat, "jobstat", "", "print one statistic of the jobs, `FIELD:STAT`, such as size:p99")
	fs.BoolVar(&o.list, "list-policies", false, "list orders, pairs, backfillings and placements with their sources")
	fs.Uint64Var(&o.seed, "seed", 0, "random seed")
	o.format.Add(fs, sweep.Formats())
	fs.StringVar(&o.jobsOut, "jobs-out", "", "write the jobs to `FILE` as CSV")
	fs.StringVar(&o.batsim, "batsim-out", "", "write PREFIX_jobs.csv and PREFIX_schedule.csv as Batsim does, `PREFIX`")
	return cmd
}

// positional parses an argument that hdeeprm-launch takes without a flag.
func (o *simulateQueueOptions) positional(arg string) error {
	switch {
	case strings.EqualFold(filepath.Ext(arg), ".py"):
		return fmt.Errorf("%s: Python agents are not supported; --algorithm classic|reinforce|a2c are HDeepRM's own, and others can drive the simulator over a socket", arg)
	case o.options != "":
		return fmt.Errorf("%s cannot be combined with --options: both name the options", arg)
	}
	o.options = arg
	return nil
}

// launched reports whether the agent of an options file decides.
func (o *simulateQueueOptions) launched() bool {
	return o.policy == "" && o.prefer == "" && o.listen == "" && o.connect == "" && (o.options != "" || o.agent != "" || o.runs > 1 || o.inModel != "" || o.outModel != "")
}

// rules returns the flags that cannot be combined.
func (o *simulateQueueOptions) rules() []cli.Rule {
	const ofAgent = "algorithm runs inmodel outmodel logs"
	return slices.Concat([]cli.Rule{
		{If: !o.launched(), Flags: ofAgent, Requires: "the agent of --options, without --policy"},
		{If: o.launched(), Flags: "window backfill placement", Conflict: "the agent of --options"},
		{If: o.prefer != "", Flags: "policy backfill placement batsim-endpoint serve-batsim as-published", Conflict: "--prefer"},
	}, o.socketFlags.rules(), o.filesFlags.rules(o))
}

func (o *simulateQueueOptions) check() error {
	errs := []error{o.Check(o.rules()...), o.socketFlags.check(), o.Want("runs", o.runs >= 1, "at least 1"),
		o.Want("workload-version", o.version == 3 || o.version == 5, "3 or 5")}
	if o.launched() && !o.onPlatform() {
		errs = append(errs, errors.New("an agent of HDeepRM requires --platform or --options"))
	}
	switch o.agent {
	case "":
	case "classic":
		o.set = append(o.set, "pybatsim.agent.type=CLASSIC")
	case "reinforce", "a2c":
		o.set = append(o.set, "pybatsim.agent.type=LEARNING", "pybatsim.agent.method="+o.agent)
	default:
		errs = append(errs, fmt.Errorf("--algorithm %q: want classic, reinforce or a2c; a policy file is --policy or --inmodel", o.agent))
	}
	return errors.Join(errs...)
}

// stat prints a statistic of the jobs, as hdeeprm-jobstat does.
func (o *simulateQueueOptions) stat(w *sweep.Workload) error {
	field, stat, _ := strings.Cut(o.jobstat, ":")
	v, err := hdeeprm.FromJobs(w.Jobs, w.Procs).Stat(field, stat)
	if err != nil {
		return cli.Usagef("--jobstat %s: %w", o.jobstat, err)
	}
	return o.PrintResult(fmt.Sprint(v), map[string]any{"statistic": o.jobstat, "value": v})
}

// queueRunner runs a simulation.
type queueRunner func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error)

// run checks the flags, reads the jobs and runs the simulation that they select.
func (o *simulateQueueOptions) run() error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return cli.Usage(err)
	}
	window, err := parseQueueWindow(o.window)
	if err != nil {
		return cli.Usage(err)
	}
	if o.listen != "" {
		return o.simulate("", func(ctx context.Context, _ func(done, total int)) (*sweep.Run, error) { return o.serve(ctx) })
	}
	w, source, err := o.jobs(o.seed, o.Changed("seed"))
	switch {
	case errors.Is(err, swf.ErrNoJobs):
		return cli.Infeasiblef("simulate queue: %w", err)
	case err != nil:
		return cli.Usagef("simulate queue: %w", err)
	case len(w.Jobs) == 0:
		return cli.Infeasiblef("simulate queue: %w: left out: %s", sweep.ErrNothing, reasons(w.Dropped))
	case o.jobstat != "":
		return o.stat(w)
	}
	if err := o.Check(cli.Rule{If: o.launched() && w.Options != nil && !w.Options.Agent.Learning, Flags: "inmodel outmodel", Requires: "an agent that learns: add --algorithm reinforce or a2c"}); err != nil {
		return cli.Usagef("simulate queue: %w", err)
	}
	if w.Options != nil {
		o.seed = uint64(w.Options.Seed)
	}
	part, err := w.Settle(window)
	if err != nil {
		return cli.Usagef("simulate queue: --window %s: %w", o.window, err)
	}
	runner, err := o.runner(w, window)
	if err != nil {
		return cli.Usagef("simulate queue: --%w", err)
	}
	if err := o.filesFlags.write(o.Env, w, part); err != nil {
		return fmt.Errorf("simulate queue: %w", err)
	}
	return o.simulate(source, runner)
}

// runner returns the function that runs the simulation given by the flags: an agent, a preference over many methods, the
// decisions of another process, or one policy. Errors start with the name of a flag.
func (o *simulateQueueOptions) runner(w *sweep.Workload, window sweep.Window) (queueRunner, error) {
	switch {
	case o.launched():
		return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
			return o.launch(ctx, w, progress)
		}, nil
	case o.prefer != "":
		p, err := sweep.ParseNamed(o.prefer)
		if err != nil {
			return nil, fmt.Errorf("prefer %w", err)
		}
		if p[sweep.ByDeadlines] > 0 && o.prefer != "balanced" {
			return nil, fmt.Errorf("prefer %s: the jobs have no deadlines; compare queue --deadlines FACTOR --prefer sets some", o.prefer)
		}
		return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
			return w.Best(ctx, sweep.Method{Seed: o.seed, Compat: o.compat, Objective: o.objective, Progress: progress}, window, p)
		}, nil
	case o.connect != "":
		return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
			return o.simulateRemoteDecisions(ctx, w, window, progress)
		}, nil
	}
	method, err := o.method(w, cmp.Or(o.policy, defaultPolicy), o.backfill, o.seed)
	return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
		method.Progress = progress
		return w.Run(ctx, method, window)
	}, err
}

// launch runs the agent of an options file.
func (o *simulateQueueOptions) launch(ctx context.Context, w *sweep.Workload, progress func(done, total int)) (*sweep.Run, error) {
	a := &w.Options.Agent
	l := sweep.Launch{Runs: o.runs, Train: a.Train, Input: cmp.Or(o.inModel, a.InputModel), Output: cmp.Or(o.outModel, a.OutputModel)}
	for _, path := range []*string{&l.Input, &l.Output} {
		if *path != "" {
			*path = o.Path(*path)
		}
	}
	if o.logs != "" {
		if err := os.MkdirAll(o.Path(o.logs), 0o755); err != nil {
			return nil, fmt.Errorf("--logs: %w", err)
		}
	}
	l.Say = func(k int, run hdeeprm.AgentRun) error {
		progress(k+1, o.runs)
		if o.logs == "" {
			return nil
		}
		return run.AppendLogs(o.Path(o.logs))
	}
	r, err := w.Launch(ctx, sweep.Method{Seed: o.seed, Compat: o.compat}, l)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, network.ErrForeign) || errors.Is(err, network.ErrCorrupt) || errors.Is(err, network.ErrNewer) {
		err = cli.Usagef("--inmodel: %w", err)
	}
	return r, err
}

// simulate runs the simulation, maps its errors to exit codes and writes the result, also after an interrupt.
func (o *simulateQueueOptions) simulate(source string, runner queueRunner) error {
	var r *sweep.Run
	elapsed, interrupt, err := o.Work("simulating", func(ctx context.Context, progress func(done, total int)) (err error) {
		r, err = runner(ctx, progress)
		return err
	})
	interrupted := err != nil && interrupt != nil
	var preference sweep.PreferenceError
	switch {
	case interrupted:
		err = interrupt.Exitf("simulate queue: %w", interrupt)
	case errors.Is(err, hdeeprm.ErrBlocked), errors.Is(err, sweep.ErrNothing):
		err = cli.Infeasiblef("simulate queue: %w", err)
	case errors.As(err, &preference):
		err = cli.Usagef("simulate queue: --prefer: %w", err)
	case err != nil:
		err = fmt.Errorf("simulate queue: %w", err)
	}
	if r == nil {
		return err
	}
	if !o.launched() { // notes on the agent of the options file do not apply
		r.Workload.Notes = slices.DeleteFunc(r.Workload.Notes, func(n string) bool { return strings.Contains(n, "agent") })
	}
	out := &sweep.RunView{Run: r, Source: source, WallS: elapsed.Seconds(), Notes: r.Workload.Notes}
	if interrupted {
		out.Notes = append(out.Notes, "interrupted: not all jobs ended")
	}
	return errors.Join(o.write(out), err)
}

func (o *simulateQueueOptions) write(run *sweep.RunView) error {
	for _, output := range []struct {
		wanted     bool
		file, what string
		write      func(io.Writer) error
	}{
		{true, o.format.File, "simulation", func(w io.Writer) error { return run.Write(w, o.format.Name) }},
		{o.jobsOut != "", o.jobsOut, "jobs", func(w io.Writer) error { return sweep.Jobs(w, run.Result) }},
		{o.batsim != "", o.batsim + "_jobs.csv", "Batsim's jobs", func(w io.Writer) error { return hdeeprm.WriteJobs(w, run.Result, run.Workload.Profile) }},
		{o.batsim != "", o.batsim + "_schedule.csv", "Batsim's schedule", func(w io.Writer) error { return hdeeprm.WriteSchedule(w, run.Result, run.WallS) }},
	} {
		if output.wanted {
			if err := o.Write(output.file, output.what, output.write); err != nil {
				return err
			}
		}
	}
	return nil
}
