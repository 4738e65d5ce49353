package simulate

import (
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/report/page"
	"trainopt/simulator/cluster"
)

// simulateDecisionOptions holds the flags of `simulate decision`.
type simulateDecisionOptions struct {
	cli.Options
	cluster.DecisionConfig
	format cli.Format
}

func simulateDecisionCommand(e *cli.Env) *cobra.Command {
	o := &simulateDecisionOptions{}
	cmd := &cobra.Command{
		Use: "decision", Short: "One decision about many jobs: time, memory and proven loss", Args: cobra.NoArgs,
		Long: `Measure two decisions of a policy on a drawn cluster: the first, with all jobs waiting, and the next, after --changes jobs
ended and as many arrived while the others hold devices. Rates, lengths and, for policies that choose the number of
devices, speedups are drawn; jobs of a kind have equal rates. Policies that decide from what changed (srtf, best_match) do
so; all others decide from all jobs.

The loss is a proven bound: the policy's own objective is below its optimum by at most this share. For a policy that
proves none, it is unknown.

--json prints: schema, policy, seed, devices, types, jobs, kinds, changes, updates, first{seconds, cpu_seconds, placed_jobs,
max_loss}, next, peak_gib.`,
		Example: `  optimize simulate decision
  optimize simulate decision --policy sia --device-count 10000 --job-count 10000 --kind-count 0   # all jobs different`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	fs.StringVar(&o.Policy, "policy", "srtf", "policy, see optimize simulate rounds --list-policies")
	fs.IntVar(&o.Devices, "device-count", 100_000, "number of devices, divided evenly among the types")
	fs.IntVar(&o.Types, "type-count", 8, "number of types of device")
	fs.IntVar(&o.Jobs, "job-count", 1_000_000, "number of jobs")
	fs.IntVar(&o.Kinds, "kind-count", 200, "number of kinds of jobs; 0: all jobs are different")
	fs.IntVar(&o.Changes, "changes", 100, "number of jobs that end, and that arrive, before the next decision")
	fs.Uint64Var(&o.Seed, "seed", 0, "random seed")
	o.format.Add(fs, cluster.Formats())
	return cmd
}

func (o *simulateDecisionOptions) run() error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	if err := knownPolicy("--policy", o.Policy); err != nil {
		return cli.Usage(err)
	}
	if !o.Changed("changes") {
		o.Changes = min(o.Changes, max(o.Jobs, 0))
	}
	if err := o.Validate(); err != nil {
		return cli.Usage(err)
	}
	o.Clock, o.CPU = o.Options.Clock.Monotonic, func() time.Duration { u := usage(); return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }
	r, err := o.DecisionConfig.Measure()
	if err != nil {
		return err
	}
	if peak := usage().Maxrss; peak > 0 {
		r.PeakGiB = page.Exact(float64(peak) / (1 << 20))
	}
	return o.Write(o.format.File, "decision", func(w io.Writer) error { return r.Write(w, o.format.Name) })
}

// usage returns the processor time and the largest resident memory, in KiB, of this process so far; zero if they are unknown.
func usage() (u unix.Rusage) {
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u
}
