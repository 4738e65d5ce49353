package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/morl/gradient"
	runpkg "trainopt/optimizer/run"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue/render"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/batsim"
	"trainopt/simulator/workload/swf"
)

// simulatingQueue holds the flags of optimize simulate queue.
type simulatingQueue struct {
	queueFlags
	socketFlags
	filesFlags
	prefer                          string
	policy, backfill, window        string
	agent, inModel, outModel, logs  string
	jobstat                         string
	runs                            int
	seed                            uint64
	format, output, jobsOut, batsim string
	list                            bool
}

func simulateQueueCommand(e *env, c *common) *cobra.Command {
	f := &simulatingQueue{}
	cmd := &cobra.Command{
		Use: "queue [OPTIONS.json]", Short: "A batch queue: which job is next, which may overtake, where each runs", Args: cobra.MaximumNArgs(1),
		Long: `Simulates a batch queue. On a machine of equal processors (--trace, or generated jobs) an order
says which waiting job is next, and backfilling which may overtake it. On a platform of unequal
cores that share memory and bandwidth (--platform, --options) either an order with a placement
decides, or a pair of policies as HDeepRM has them, shortest-high_gflops say. Without any flag
` + fmt.Sprint(defaultQueueJobs) + ` jobs of Lublin's model are simulated.

It takes the place of RLScheduler's simulator (--as-published), of HDeepRM's launcher (--options,
--runs, --inmodel, --outmodel, --logs; a file of options as the only argument will do) and its
hdeeprm-jobstat (--jobstat size:p99), and of Batsim.

--json prints: schema, engine, policy, backfill, placement, seed, jobs[id, submit_s, start_s,
end_s, procs, allocated, state], mean_ and max_ of bounded_slowdown, slowdown, wait_s and
turnaround_s, utilization, makespan_s (the date of the last end), span_s, energy_joules,
dropped{reason: count}, events, wall_s, warnings[] and more; what is unknown is null.
Exit code 6: no job can be simulated, or jobs wait for ever.`,
		Example: `  optimize simulate queue
  optimize simulate queue --trace trace.swf.gz --policy f4 --jobs jobs.csv --out queue.html
  optimize simulate queue --trace trace.swf --policy sjf --as-published --window 1981:1024
  optimize simulate queue --platform gaia --workload trace.swf --policy saf --placement energy
  optimize simulate queue --platform mini --prefer slowdown=2,energy=1
  optimize simulate queue --batsim-endpoint tcp://*:28000 --policy sjf --backfill easy
  optimize simulate queue --options options.json --runs 100 --outmodel agent.json --logs logs
  optimize simulate queue --policies`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return render.Policies(e.stdout)
			}
			if len(args) == 1 {
				if err := f.positional(args[0]); err != nil {
					return usageError{err}
				}
			}
			return e.simulateQueue(cmd, c, f)
		},
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalizeQueue)
	f.queueFlags.add(fs)
	f.socketFlags.add(cmd)
	f.filesFlags.add(cmd)
	fs.StringVar(&f.prefer, "prefer", "", "try what there is and show the one of the front that this picks: balanced|time|cost|resource or slowdown=2,energy=1")
	fs.StringVar(&f.policy, "policy", "", "who decides: an order, a pair, rollout or a policy file, see --policies (default "+defaultPolicy+"; with --options their agent)")
	fs.StringVar(&f.backfill, "backfill", "", "none|easy|conservative|rlscheduler (default easy)")
	fs.StringVar(&f.window, "window", "", "only LENGTH jobs from number START on, `START:LENGTH`, as one episode")
	fs.StringVar(&f.agent, "agent", "", "of --options: classic|reinforce|a2c instead of what they say")
	fs.StringVar(&f.inModel, "inmodel", "", "policy `FILE` with which the agent of --options begins")
	fs.StringVar(&f.outModel, "outmodel", "", "write what it learned to `FILE`; may be that of --inmodel")
	fs.IntVar(&f.runs, "runs", 1, "simulations of the agent of --options, one after the other (hdeeprm-launch -nr)")
	fs.StringVar(&f.logs, "logs", "", "append rewards.log, losses.log, makespans.log, actions.log and probs.json of these in `DIR`")
	fs.StringVar(&f.jobstat, "jobstat", "", "print one number about the jobs, `FIELD:STAT`, size:p99 say")
	fs.BoolVar(&f.list, "policies", false, "list orders, pairs, backfills and placements, what each is and where it is from")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of everything that is random")
	fs.StringVar(&f.format, "format", "text", strings.Join(render.Formats(), "|")+" (default: by the name of --out)")
	fs.StringVarP(&f.output, "out", "o", "", "write to `FILE` instead of standard output")
	fs.StringVar(&f.jobsOut, "jobs", "", "write the jobs to `FILE` as CSV")
	fs.StringVar(&f.batsim, "batsim-out", "", "write PREFIX_jobs.csv and PREFIX_schedule.csv as Batsim does, `PREFIX`")
	return cmd
}

// positional parses an argument that hdeeprm-launch takes without a flag.
func (f *simulatingQueue) positional(arg string) error {
	switch {
	case strings.EqualFold(filepath.Ext(arg), ".py"):
		return fmt.Errorf("%s: agents in Python are not run here; --agent classic|reinforce|a2c are HDeepRM's own, and others drive the simulator over a socket", arg)
	case f.options != "":
		return fmt.Errorf("%s: --options names a file already", arg)
	}
	f.options = arg
	return nil
}

// launched reports whether the agent of an options file decides.
func (f *simulatingQueue) launched() bool {
	return f.policy == "" && f.prefer == "" && f.listen == "" && f.connect == "" && (f.options != "" || f.agent != "" || f.runs > 1 || f.inModel != "" || f.outModel != "")
}

func (f *simulatingQueue) check(cmd *cobra.Command) error {
	var errs []error
	if !f.launched() {
		errs = append(errs, f.only(cmd, "without the agent of --options, or with --policy", "agent", "runs", "inmodel", "outmodel", "logs"))
	} else {
		if !f.onPlatform() {
			errs = append(errs, errors.New("an agent of HDeepRM needs --platform or --options"))
		}
		errs = append(errs, f.only(cmd, "where the agent of --options decides", "window", "backfill", "placement"))
	}
	errs = append(errs, f.socketFlags.check(cmd), f.filesFlags.check(f, cmd))
	if f.prefer != "" {
		errs = append(errs, f.only(cmd, "with --prefer, which tries them", "policy", "backfill", "placement", "batsim-endpoint", "serve-batsim", "as-published"))
	}
	if f.runs < 1 {
		errs = append(errs, fmt.Errorf("--runs %d: want at least 1", f.runs))
	}
	switch f.agent {
	case "", "classic", "reinforce", "a2c":
	default:
		errs = append(errs, fmt.Errorf("--agent %q: want classic, reinforce or a2c; a policy file is --policy or --inmodel", f.agent))
	}
	return errors.Join(errs...)
}

// stat prints a statistic of the jobs, as hdeeprm-jobstat does.
func (e *env) stat(f *simulatingQueue, w *sweep.Workload) error {
	field, stat, _ := strings.Cut(f.jobstat, ":")
	v, err := batsim.FromJobs(w.Jobs, w.Procs).Stat(field, stat)
	if err != nil {
		return usageError{fmt.Errorf("--jobstat %s: %w", f.jobstat, err)}
	}
	_, err = fmt.Fprintf(e.stdout, "%v\n", v)
	return err
}

// simulateQueue checks the flags, reads the jobs and dispatches to the runner they select: a server for a remote
// simulator, an agent, a preference over all methods, or one policy.
func (e *env) simulateQueue(cmd *cobra.Command, common *common, f *simulatingQueue) error {
	format, err := formatOf(cmd, common, f.format, f.output, render.Formats())
	if err != nil {
		return usageError{err}
	}
	if err := f.check(cmd); err != nil {
		return usageError{err}
	}
	window, err := parseQueueWindow(f.window)
	if err != nil {
		return usageError{err}
	}
	switch f.agent {
	case "classic":
		f.set = append(f.set, "pybatsim.agent.type=CLASSIC")
	case "reinforce", "a2c":
		f.set = append(f.set, "pybatsim.agent.type=LEARNING", "pybatsim.agent.method="+f.agent)
	}
	if f.listen != "" {
		return e.runQueue(common, f, format, "", func(ctx context.Context, _ func(done, total int)) (*sweep.Run, error) { return e.serve(ctx, f) })
	}
	var preference sweep.Preference
	if f.prefer != "" {
		if preference, err = queuePreference(f.prefer); err != nil {
			return usageError{err}
		}
		if preference[sweep.ByDeadlines] > 0 && f.prefer != "balanced" {
			return usageError{fmt.Errorf("--prefer %s: jobs have no deadlines here; compare queue --deadlines FACTOR --prefer gives them some", f.prefer)}
		}
	}
	w, source, err := f.jobs(e, cmd, f.seed, cmd.Flags().Changed("seed"))
	switch {
	case errors.Is(err, swf.ErrNoJobs):
		return exitError{runpkg.CodeInfeasible, fmt.Errorf("simulate queue: %w", err)}
	case err != nil:
		return usageError{fmt.Errorf("simulate queue: %w", err)}
	case len(w.Jobs) == 0:
		return exitError{runpkg.CodeInfeasible, fmt.Errorf("simulate queue: %w: left out: %s", sweep.ErrNothing, reasons(w.Dropped))}
	case f.jobstat != "":
		return e.stat(f, w)
	}
	if f.launched() && w.Options != nil && !w.Options.Agent.Learning {
		if err := f.only(cmd, "to a classic agent: add --agent reinforce or a2c", "inmodel", "outmodel"); err != nil {
			return usageError{fmt.Errorf("simulate queue: %w", err)}
		}
	}
	if w.Options != nil {
		f.seed = uint64(w.Options.Seed)
	}
	part, err := w.Settle(window)
	if err != nil {
		return usageError{fmt.Errorf("simulate queue: --window %s: %w", f.window, err)}
	}
	run, err := f.runner(e, w, window, preference)
	if err != nil {
		return usageError{fmt.Errorf("simulate queue: --%w", err)}
	}
	if err := f.filesFlags.write(e, w, part); err != nil {
		return fmt.Errorf("simulate queue: %w", err)
	}
	return e.runQueue(common, f, format, source, run)
}

// runner returns the function that runs the simulation given by the flags.
func (f *simulatingQueue) runner(e *env, w *sweep.Workload, window sweep.Window, p sweep.Preference) (func(context.Context, func(done, total int)) (*sweep.Run, error), error) {
	switch {
	case f.launched():
		return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
			return e.launch(ctx, f, w, progress)
		}, nil
	case f.prefer != "":
		return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
			return f.preferred(ctx, w, window, p, progress)
		}, nil
	case f.connect != "":
		return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
			return e.askElsewhere(ctx, f, w, window, progress)
		}, nil
	}
	method, err := f.method(e, w, cmpOr(f.policy, defaultPolicy), f.backfill, f.seed)
	return func(ctx context.Context, progress func(done, total int)) (*sweep.Run, error) {
		method.Progress = progress
		return w.Run(ctx, method, window)
	}, err
}

// launch runs the agent of an options file.
func (e *env) launch(ctx context.Context, f *simulatingQueue, w *sweep.Workload, progress func(done, total int)) (*sweep.Run, error) {
	a := &w.Options.Agent
	l := sweep.Launch{Runs: f.runs, Train: a.Train, Input: cmpOr(f.inModel, a.InputModel), Output: cmpOr(f.outModel, a.OutputModel)}
	for _, path := range []*string{&l.Input, &l.Output} {
		if *path != "" {
			*path = inDir(e.dir, *path)
		}
	}
	if f.logs != "" {
		if err := os.MkdirAll(inDir(e.dir, f.logs), 0o755); err != nil {
			return nil, fmt.Errorf("--logs: %w", err)
		}
	}
	l.Say = func(k int, run hdeeprm.AgentRun) error {
		progress(k+1, f.runs)
		if f.logs == "" {
			return nil
		}
		return hdeeprm.AppendLogs(inDir(e.dir, f.logs), run)
	}
	r, err := w.Launch(ctx, sweep.Method{Seed: f.seed, Compat: f.compat}, l)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, gradient.ErrForeign) || errors.Is(err, gradient.ErrCorrupt) || errors.Is(err, gradient.ErrNewer) {
		err = usageError{fmt.Errorf("--inmodel: %w", err)}
	}
	return r, err
}

// runQueue runs the simulation under an interruptible context, maps its errors to exit codes and writes the result,
// also after an interrupt.
func (e *env) runQueue(common *common, f *simulatingQueue, format, source string, run func(context.Context, func(done, total int)) (*sweep.Run, error)) error {
	ctx, stop := e.untilSignal()
	defer stop()
	from := e.clock.Monotonic()
	bar := e.bar(common, "simulating")
	r, err := run(ctx, bar.at)
	bar.done()
	var broken interruptedBy
	switch {
	case err != nil && errors.As(context.Cause(ctx), &broken):
		err = exitError{broken.code(), fmt.Errorf("simulate queue: %w", broken)}
	case errors.Is(err, hdeeprm.ErrBlocked), errors.Is(err, sweep.ErrNothing):
		err = exitError{runpkg.CodeInfeasible, fmt.Errorf("simulate queue: %w", err)}
	case err != nil:
		err = fmt.Errorf("simulate queue: %w", err)
	}
	if r == nil {
		return err
	}
	if !f.launched() { // notes on the agent of the options file do not apply
		r.Workload.Notes = slices.DeleteFunc(r.Workload.Notes, func(n string) bool { return strings.Contains(n, "agent") })
	}
	out := &render.Run{Run: r, Source: source, WallS: (e.clock.Monotonic() - from).Seconds(), Notes: r.Workload.Notes}
	if broken.signal != nil {
		out.Notes = append(out.Notes, "interrupted: not all jobs ended")
	}
	return errors.Join(e.writeQueue(f, format, out), err)
}

func (e *env) writeQueue(f *simulatingQueue, format string, run *render.Run) error {
	if err := e.put(f.output, "simulation", func(w io.Writer) error { return render.Write(w, run, format) }); err != nil {
		return err
	}
	if f.jobsOut != "" {
		if err := e.put(f.jobsOut, "jobs", func(w io.Writer) error { return render.Jobs(w, run.Result) }); err != nil {
			return err
		}
	}
	if f.batsim == "" {
		return nil
	}
	o := batsim.TableOptions{Profile: run.Workload.Profile, SimulationTime: run.WallS}
	return errors.Join(
		e.put(f.batsim+"_jobs.csv", "Batsim's jobs", func(w io.Writer) error { return batsim.WriteJobs(w, run.Result, o) }),
		e.put(f.batsim+"_schedule.csv", "Batsim's schedule", func(w io.Writer) error { return batsim.WriteSchedule(w, run.Result, o) }))
}
