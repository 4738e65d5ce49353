package runs

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/cluster"
	"trainopt/simulator/replay"
)

type clusterReportOptions struct {
	cli.Options
	format   cli.Format
	policies []string
	draws    int
	seed     int64
}

func clusterReportCommand(e *cli.Env) *cobra.Command {
	o := &clusterReportOptions{}
	cmd := &cobra.Command{
		Use: "report [DIR]", Short: "Audit the cluster: live against simulated, and what every other policy would have given", Args: cobra.MaximumNArgs(1),
		Long: `Audit the cluster of a state directory (default: --state-dir), from the log of its events; it may be running. The same jobs are
simulated, by the code that decided live, with the rates and move costs that were measured: under the policy of the day, and under
all others. The report also compares the scheduler's predictions with what was seen, and adds up the device time without progress.

--json prints: schema, from, until, policies[], submitted, compared, running, deadlines, live{mean_jct_s, median_jct_s, makespan_s, cost_usd,
deadlines_kept, moves}, simulated{…}, one_day{value, lo, hi}, median_job_error, jobs[], others[policy, in_force, mean_jct_s{value, lo, hi}, one_day, change, saved_s,
makespan_s, cost_usd, finish_time_fairness, worst_finish_time_fairness, deadlines_kept, moves, failed], rates{n, median_ratio,
median_error, within_10_percent}, move_costs{…}, pairs[jobs, names, device, gpus, seconds, rates, gain_device_s], waste{…}, notes[].`,
		Example: `  optimize cluster report
  optimize cluster report --policies srtf,fifo_perf --json
  optimize cluster report /scratch/team/.optimize -o day.html`,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.Options = e.Options(cmd)
	o.format.Add(o.Flags, replay.Formats())
	o.Flags.StringSliceVar(&o.policies, "policies", nil, "`NAMES` of the policies to compare with (default: all; those that co-locate jobs if pairs were measured)")
	o.Flags.IntVar(&o.draws, "draws", 20, "simulations of each policy, `N`, with rates and move costs drawn from their spread")
	o.Flags.Int64Var(&o.seed, "seed", 0, "seed of the draws")
	return cmd
}

func (o *clusterReportOptions) run(args []string) error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	if o.draws < 1 || o.draws > 1000 {
		return cli.Usagef("--draws %d: want 1 to 1000", o.draws)
	}
	for _, name := range o.policies {
		if err := checkPolicy("--policies", name); err != nil {
			return err
		}
	}
	dir := o.State()
	if len(args) > 0 {
		dir = args[0]
	}
	day, err := readDay(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	var audit *replay.Audit
	_, interrupt, err := o.Work("simulating", func(ctx context.Context, progress func(done, total int)) (err error) {
		audit, err = day.Audit(ctx, replay.Options{Policies: o.policies, Draws: o.draws, Seed: uint64(o.seed), Progress: progress})
		return err
	})
	if interrupt != nil {
		return interrupt.Exitf("%v", interrupt)
	}
	if err != nil {
		return err
	}
	return writeDocument(o.Env, o.format, "audit", audit.Document().TextWithin, audit.Render)
}

// readDay reads the events of the cluster of a state directory.
func readDay(dir string) (*replay.Day, error) {
	events, torn, err := cluster.ReadEvents(dir, 0)
	if err != nil {
		return nil, err
	}
	day, err := replay.NewDay(events)
	if err == nil {
		day.Torn += torn
	}
	return day, err
}
