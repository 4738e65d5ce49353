package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/simulator/cluster"
	"trainopt/simulator/cluster/render"
	"trainopt/simulator/workload"
)

// simulating holds the flags of optimize simulate rounds.
type simulating struct {
	roundsFlags
	policy, cluster, format, output, jobsOut string
	rate                                     float64
	static                                   int
	seed                                     int64
	list                                     bool
}

// defaultStatic is the default number of jobs present at the start.
const defaultStatic = 100

func simulateRoundsCommand(e *env, c *common) *cobra.Command {
	f := &simulating{}
	cmd := &cobra.Command{
		Use: "rounds", Short: "A cluster that divides time among training jobs in rounds, as Gavel does", Args: cobra.NoArgs,
		Long: `Simulates a cluster of several types of accelerators that divides time among training jobs in rounds of some minutes. A policy
says which share of time each job gets on each type; the mechanism turns shares into rounds. --compat simulates as the
published code of Gavel (OSDI 2020) does, to its last quirk; without, the same policies run in a mechanism that wastes less.

Jobs come from a trace (--trace), are drawn at a rate (--rate, with figures of the jobs of --window), or are all there at the
start (--static). Without any of them ` + fmt.Sprint(defaultStatic) + ` jobs are drawn that are all there at the start. Throughputs of 26 kinds of
training on V100, P100 and K80 are in the binary.

--json prints: schema, engine, policy, seed, compat, cluster, jobs[id, arrival_s, jct_s, deadline_s, missed, cost_usd,
energy_joules], mean_jct_s, p50_jct_s, p99_jct_s, makespan_s, utilization, timeline, cost_usd, energy_joules,
deadline_misses, lease_extensions, pauses, pause_s, allocations, policy_s, events, wall_s, stopped, not_stable, warnings[], workload,
interval_s.
Exit code 1: not stable (jobs arrive faster than the policy gets them done), with the evidence; what is known is printed.`,
		Example: `  optimize simulate rounds --policy fifo_perf
  optimize simulate rounds --rate 4 --window 400:500 --policy max_min_fairness_perf --compat
  optimize simulate rounds --trace jobs.trace.gz --cluster v100=8,p100=16,k80=24 --policy min_total_duration_perf --jobs jobs.csv
  optimize simulate rounds --policies`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return render.Policies(e.stdout)
			}
			return e.simulateRounds(cmd, c, f)
		},
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	f.add(fs)
	fs.StringVar(&f.cluster, "cluster", defaultCluster, "how many devices of which types")
	fs.StringVar(&f.policy, "policy", "max_min_fairness_perf", "who decides, see --policies")
	fs.BoolVar(&f.list, "policies", false, "list the policies, what each does and must know")
	fs.Float64Var(&f.rate, "rate", 0, "jobs that arrive in an hour, until those of --window have ended")
	fs.IntVar(&f.static, "static", 0, "so many jobs, all there at the start")
	fs.Int64Var(&f.seed, "seed", 0, "seed of everything that is random")
	fs.StringVar(&f.format, "format", "text", strings.Join(render.Formats(), "|")+" (default: by the name of --out)")
	fs.StringVarP(&f.output, "out", "o", "", "write to `FILE` instead of standard output")
	fs.StringVar(&f.jobsOut, "jobs", "", "write the jobs to `FILE` as CSV")
	return cmd
}

// formatOf returns the output format selected by flags.
func formatOf(cmd *cobra.Command, c *common, format, output string, known []string) (string, error) {
	switch {
	case cmd.Flags().Changed("format"):
	case c.json:
		format = "json"
	default:
		byName := map[string]string{".csv": "csv", ".html": "html", ".htm": "html", ".json": "json"}
		if f, ok := byName[strings.ToLower(filepath.Ext(output))]; ok {
			format = f
		}
	}
	if !slices.Contains(known, format) {
		return "", fmt.Errorf("--format %q: unknown, want one of %s", format, strings.Join(known, ", "))
	}
	return format, nil
}

// config returns the configuration given by the flags, a description of the jobs, and notes.
func (f *simulating) config(e *env, cmd *cobra.Command) (c cluster.Config, what string, notes []string, err error) {
	if err := knownPolicy("--policy", f.policy); err != nil {
		return c, "", nil, err
	}
	jobs, err := f.jobs(e, cmd)
	if err != nil {
		return c, "", nil, err
	}
	c = jobs.base
	what = jobs.words
	if jobs.trace == nil {
		load, err := f.load(cmd, &c)
		if err != nil {
			return c, "", nil, err
		}
		what = load + " " + what
		jobs.base = c
	}
	var note string
	if c.Devices, note, err = f.devices(e, jobs, f.cluster); err != nil {
		return c, "", nil, err
	}
	c.Policy, c.Seed = f.policy, f.seed
	if c.Window != (cluster.Window{}) {
		what += fmt.Sprintf(", figures of jobs %d to %d", c.Window.Start, c.Window.End-1)
	}
	if note != "" {
		jobs.notes = append(jobs.notes, note)
	}
	return c, what, jobs.notes, c.Validate()
}

// load sets the arrival rate or the number of generated jobs and returns a description.
func (f *simulating) load(cmd *cobra.Command, c *cluster.Config) (string, error) {
	rate, static := cmd.Flags().Changed("rate"), cmd.Flags().Changed("static")
	switch {
	case rate && static:
		return "", errors.New("--static says nothing with --rate: either jobs arrive or all are there at the start")
	case rate && (!(f.rate > 0) || math.IsInf(f.rate, 1)):
		return "", fmt.Errorf("--rate %v: want more than 0 jobs in an hour", f.rate)
	case static && f.static < 1:
		return "", fmt.Errorf("--static %d: want at least 1 job", f.static)
	case !rate && f.window != "":
		return "", errors.New("--window says nothing without --rate or --trace")
	}
	c.Generate.Seed = f.seed
	if rate {
		c.Generate.Lambda = workload.PerHour(f.rate)
		if c.Window == (cluster.Window{}) {
			c.Window = cluster.Window{Start: 4000, End: 5000}
		}
		return fmt.Sprintf("%g an hour:", f.rate), nil
	}
	c.Total = defaultStatic
	if static {
		c.Total = f.static
	}
	return fmt.Sprintf("%d at once:", c.Total), nil
}

// simulateRounds runs the simulation and writes its result. After an interrupt it writes the result so far.
func (e *env) simulateRounds(cmd *cobra.Command, common *common, f *simulating) error {
	format, err := formatOf(cmd, common, f.format, f.output, render.Formats())
	if err != nil {
		return usageError{err}
	}
	c, what, notes, err := f.config(e, cmd)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := e.untilSignal()
	defer stop()
	bar := e.bar(common, "simulating")
	c.Progress = func(p cluster.Progress) { bar.at(p.Done, p.Window) }
	r, err := cluster.Run(ctx, c)
	bar.done()
	if r == nil {
		return err
	}
	run := &render.Run{Result: r, What: what, Notes: notes}
	if !c.Ideal {
		run.Interval = c.Interval
	}
	var broken interruptedBy
	if interrupted := errors.As(context.Cause(ctx), &broken); err != nil && interrupted {
		err = exitError{broken.code(), fmt.Errorf("simulate rounds: %w at %.0f h of simulated time", broken, float64(r.MakespanS)/3600)}
	}
	return errors.Join(e.writeSimulation(f, format, run), err)
}

func (e *env) writeSimulation(f *simulating, format string, run *render.Run) error {
	if err := e.put(f.output, "simulation", func(w io.Writer) error { return render.Write(w, run, format) }); err != nil || f.jobsOut == "" {
		return err
	}
	return e.put(f.jobsOut, "jobs", func(w io.Writer) error { return render.Jobs(w, run.Result) })
}
