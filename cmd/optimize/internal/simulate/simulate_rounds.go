package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// simulateRoundsOptions holds the flags of `simulate rounds`.
type simulateRoundsOptions struct {
	roundsFlags
	policy, cluster, jobsOut string
	format                   cli.Format
	rate                     float64
	static                   int
	seed                     int64
	list                     bool
}

// defaultStatic is the default number of jobs present at the start.
const defaultStatic = 100

func simulateRoundsCommand(e *cli.Env) *cobra.Command {
	o := &simulateRoundsOptions{}
	cmd := &cobra.Command{
		Use: "rounds", Short: "A cluster that shares time among training jobs in rounds, as Gavel does", Args: cobra.NoArgs,
		Long: `Simulate a cluster with several types of accelerators whose time is shared among training jobs in rounds of some minutes.
A policy computes the share of time of each job on each type; the mechanism converts shares to rounds. --compat simulates
exactly as the published code of Gavel (OSDI 2020) does; by default, the same policies run in a mechanism that wastes less.

Jobs are read from a trace (--trace), generated at a rate (--arrival-rate, with the results of the jobs of --window), or generated
and all present at the start (--static). By default, ` + fmt.Sprint(defaultStatic) + ` jobs are present at the start. The binary contains throughputs of 26
types of training on V100, P100 and K80.

With --agent, the policy agent:PREFERENCE chooses among ` + strings.Join(cluster.Choices, ", ") + `
during the run, by a preference such as time, balanced or time+cost=3 over ` + strings.Join(cluster.Objectives, ", ") + `; mix:POLICY+POLICY=2 chooses at random.

--json prints: schema, engine, policy, seed, compat, cluster, jobs[id, arrival_s, jct_s, deadline_s, missed, cost_usd,
energy_joules], mean_jct_s, p50_jct_s, p99_jct_s, makespan_s, utilization, timeline, cost_usd, energy_joules,
deadline_misses, lease_extensions, pauses, pause_s, allocations, policy_s, events, wall_s, stopped, not_stable, warnings[], workload,
interval_s.

Exit code 1: unstable load (jobs arrive faster than the policy completes them); the evidence and the results so far are
printed.`,
		Example: `  optimize simulate rounds --policy fifo_perf
  optimize simulate rounds --arrival-rate 4 --window 400:500 --policy max_min_fairness_perf --compat
  optimize simulate rounds --trace jobs.trace.gz --cluster v100=8,p100=16,k80=24 --policy min_total_duration_perf --jobs-out jobs.csv
  optimize simulate rounds --policy agent:time+cost --agent cluster.agent --arrival-rate 4 --window 400:500
  optimize simulate rounds --list-policies`,
		RunE: func(*cobra.Command, []string) error {
			if o.list {
				return printList(o.Env, "policies", cluster.PolicyList())
			}
			return o.run()
		},
	}
	o.add(e.Options(cmd))
	fs := o.Flags
	fs.StringVar(&o.cluster, "cluster", defaultCluster, "number of devices by type")
	fs.StringVar(&o.policy, "policy", "max_min_fairness_perf", "policy, see --list-policies")
	fs.BoolVar(&o.list, "list-policies", false, "list the policies with their required information")
	fs.Float64Var(&o.rate, "arrival-rate", 0, "arrivals per hour, until the jobs of --window have ended")
	fs.IntVar(&o.static, "static", 0, "number of jobs, all present at the start")
	fs.Int64Var(&o.seed, "seed", 0, "random seed")
	o.format.Add(fs, cluster.RunFormats())
	fs.StringVar(&o.jobsOut, "jobs-out", "", "write the jobs to `FILE` as CSV")
	return cmd
}

// config returns the configuration given by the flags, a description of the jobs, and notes.
func (o *simulateRoundsOptions) config() (c cluster.Config, description string, notes []string, err error) {
	unused := cli.Rule{If: !strings.HasPrefix(o.policy, agentPrefix), Flags: "agent", Requires: "--policy agent:PREFERENCE"}
	if err := errors.Join(o.checkPolicy("--policy", o.policy), o.Check(unused)); err != nil {
		return c, "", nil, err
	}
	source, err := o.source()
	if err != nil {
		return c, "", nil, err
	}
	c = source.base
	description = source.description
	if source.trace == nil {
		load, err := o.load(&c)
		if err != nil {
			return c, "", nil, err
		}
		description = load + " " + description
	}
	var note string
	if c.Devices, note, err = o.devices(c, o.cluster); err != nil {
		return c, "", nil, err
	}
	c.Policy, c.Seed, c.Choose = o.policy, o.seed, o.chooser(o.policy)
	if c.Window != (cluster.Window{}) {
		description += fmt.Sprintf(", figures of jobs %d to %d", c.Window.Start, c.Window.End-1)
	}
	if note != "" {
		source.notes = append(source.notes, note)
	}
	return c, description, source.notes, c.Validate()
}

// load sets the arrival rate or the number of generated jobs and returns a description.
func (o *simulateRoundsOptions) load(c *cluster.Config) (string, error) {
	if err := errors.Join(o.Want("arrival-rate", o.rate > 0 && !math.IsInf(o.rate, 1), "more than 0 jobs per hour"), o.Want("static", o.static >= 1, "at least 1 job")); err != nil {
		return "", err
	}
	c.Generate.Seed = o.seed
	if o.Changed("arrival-rate") {
		c.Generate.Lambda = workload.PerHour(o.rate)
		if c.Window == (cluster.Window{}) {
			c.Window = cluster.Window{Start: 4000, End: 5000}
		}
		return fmt.Sprintf("%g per hour:", o.rate), nil
	}
	c.Total = defaultStatic
	if o.Changed("static") {
		c.Total = o.static
	}
	return fmt.Sprintf("%d at once:", c.Total), nil
}

// run runs the simulation and writes its result. After an interrupt it writes the result so far.
func (o *simulateRoundsOptions) run() error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	c, description, notes, err := o.config()
	if err != nil {
		return cli.Usage(err)
	}
	var r *cluster.Result
	_, interrupt, err := o.Work("simulating", func(ctx context.Context, progress func(done, total int)) (err error) {
		c.Progress = func(p cluster.Progress) { progress(p.Done, p.Window) }
		r, err = cluster.Run(ctx, c)
		return err
	})
	if r == nil {
		return err
	}
	result := &cluster.RunView{Result: r, What: description, Notes: notes}
	if !c.Ideal {
		result.Interval = c.Interval
	}
	if err != nil && interrupt != nil {
		err = interrupt.Exitf("simulate rounds: %w at %.0f h of simulated time", interrupt, float64(r.MakespanS)/3600)
	}
	written := o.Write(o.format.File, "simulation", func(w io.Writer) error { return result.Write(w, o.format.Name) })
	if written == nil && o.jobsOut != "" {
		written = o.Write(o.jobsOut, "jobs", func(w io.Writer) error { return r.WriteJobs(w) })
	}
	return errors.Join(written, err)
}
