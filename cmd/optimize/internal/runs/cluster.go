package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/wording"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/place"
	"trainopt/optimizer/schedule/share"
	"trainopt/resources"
)

// clusterCommand returns the command.
func clusterCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", GroupID: cli.Cluster,
		Short: "Schedule many trainings on one machine or on Slurm",
		Long:  `Schedule many trainings on one machine or on Slurm, by any policy of optimize simulate rounds. See docs/cluster.md.`,
		Example: `  optimize cluster serve --policy srtf &
  optimize cluster submit --train train.py --deadline 8h -- --lr 0.1
  optimize cluster jobs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(clusterServeCommand(e), submitCommand(e), jobsCommand(e), policyCommand(e), drainCommand(e), cancelCommand(e), clusterReportCommand(e))
	return cmd
}

type clusterServeOptions struct {
	cli.Options
	engine     string
	engineArgs []string
	policy     string
	round      string
	devices    string
	slots      int
	seed       int64
	shrink     bool
	pairs      string
}

func clusterServeCommand(e *cli.Env) *cobra.Command {
	o := &clusterServeOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the scheduler of a state directory",
		Long: `Start the scheduler of a state directory. It runs in the foreground, until a signal or optimize cluster drain; the jobs
then run on for one and a half rounds, and the next server adopts them.`,
		Example: `  optimize cluster serve --policy srtf
  optimize cluster serve --slots 4 --round 1m
  optimize cluster serve --engine slurm --engine-arg=--partition=gpu --policy max_min_fairness_perf`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.Options = e.Options(cmd)
	f := o.Flags
	f.StringVar(&o.engine, "engine", "local", "where jobs run: local|slurm")
	f.StringArrayVar(&o.engineArgs, "engine-arg", nil, "`OPTION` of the site, passed to sbatch: --partition=gpu, --account=x (repeatable)")
	f.StringVar(&o.policy, "policy", "", "policy, see optimize simulate rounds --list-policies (default: that of the last server, else "+defaultPolicy+")")
	f.StringVar(&o.round, "round", "6m", "longest time between two decisions, `DUR`, and the length of a lease")
	f.StringVar(&o.devices, "devices", "", "device types instead of the discovered ones, `TYPE=N[@SPEED],…`: a100=4@1,v100=4@0.5")
	f.IntVar(&o.slots, "slots", 0, "equal parts of a machine without GPUs, `N` (default: its CPUs)")
	f.BoolVar(&o.shrink, "shrink", true, "take devices that a job does not use back at its next checkpoint, if other jobs gain by it")
	f.StringVar(&o.pairs, "pairs", "", "table of optimize profile colocate, CSV `FILE`, for pairs that were not measured yet: apps are jobs of the same name")
	f.Int64Var(&o.seed, "seed", 0, "seed of policies that draw random numbers")
	cli.CompleteFlag(cmd, "policy", share.Names)
	return cmd
}

// defaultPolicy shares the time of the devices fairly, with regard to their speeds.
const defaultPolicy = "max_min_fairness_perf"

func (o *clusterServeOptions) run() error {
	round, err := cli.ParseDuration(o.round)
	if err != nil || round < time.Second {
		return cli.Usagef("--round %q: want at least 1s, such as 6m", o.round)
	}
	if o.policy == "" {
		last, _, _ := cluster.ReadServer(o.State())
		o.policy = cmp.Or(last.Policy, defaultPolicy)
	}
	if err := checkPolicy("--policy", o.policy); err != nil {
		return err
	}
	devices, err := parseDevices(o.devices)
	if err != nil {
		return cli.Usagef("--devices: %w", err)
	}
	if err := o.Check(
		cli.Rule{If: o.engine != "local" || len(devices) > 0, Flags: "slots", Conflict: "--engine slurm or --devices"},
		cli.Rule{If: o.engine == "local", Flags: "engine-arg", Requires: "--engine slurm"},
	); err != nil {
		return cli.Usage(err)
	}
	if o.Changed("slots") && o.slots < 1 {
		return cli.Usagef("--slots %d: want at least 1", o.slots)
	}
	var pairs map[[2]string]float64
	if o.Changed("pairs") {
		if pairs, err = readPairs(o.Path(o.pairs)); err != nil {
			return cli.Usagef("--pairs: %w", err)
		}
	}
	site, err := o.site(devices)
	if err != nil {
		return err
	}
	signals, stop := o.Listen()
	defer stop()
	agent := newAgent(o.Env, run.Quiet{})
	agent.Lighten = nil
	err = cluster.Serve(cluster.Config{StateDir: o.State(), Site: site, Policy: o.policy, Stated: o.Changed("policy"), Round: round, Seed: o.seed, Shrink: o.shrink, Pairs: pairs, Agent: agent, Message: o.message,
		Ready: func() {
			o.message(fmt.Sprintf("serving %s on %s, policy %s, rounds of %s", o.State(), describe(site.Devices()), o.policy, o.round))
		}}, signals)
	if errors.Is(err, cluster.ErrServed) {
		return cli.Usage(fmt.Errorf("%w; optimize cluster policy NAME changes its policy, and optimize cluster drain stops it", err))
	}
	return err
}

// readPairs returns the rates of apps beside one container of another app, or of the same one, relative to those alone, from
// a table of optimize profile colocate.
func readPairs(path string) (map[[2]string]float64, error) {
	table, err := place.ReadSamples(path)
	if err != nil {
		return nil, err
	}
	pairs := map[[2]string]float64{}
	for row, counts := range table.Counts {
		var apps []int
		for app, n := range counts {
			apps = append(apps, slices.Repeat([]int{app}, int(n))...)
		}
		if len(apps) != 2 {
			continue
		}
		for i, app := range apps {
			if v := table.RPS[row][app]; v > 0 {
				pairs[[2]string{table.Apps[app], table.Apps[apps[1-i]]}] = min(v, 1)
			}
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("read %s: it contains no pattern of two containers", path)
	}
	return pairs, nil
}

// message prints a line about what happens.
func (o *clusterServeOptions) message(line string) {
	if !o.Quiet {
		fmt.Fprintf(o.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), cli.OneLine(line))
	}
}

func describe(devices []cluster.Device) string {
	var parts []string
	for _, d := range devices {
		parts = append(parts, fmt.Sprintf("%d %s", d.Count, d.Name))
	}
	return strings.Join(parts, ", ")
}

// site opens where the jobs run.
func (o *clusterServeOptions) site(devices []cluster.Device) (cluster.Site, error) {
	if o.engine == "local" {
		host, err := resources.Discover(context.Background(), resources.Roots{})
		if err != nil {
			return nil, fmt.Errorf("read what this machine offers: %w", err)
		}
		site, err := cluster.NewLocal(host, o.slots, devices)
		return site, cli.Usage(err)
	}
	eng, err := cli.OpenEngine(o.engine)
	if err != nil {
		return nil, cli.Usagef("--engine %q: %w", o.engine, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list := eng.Offers
	if c, ok := eng.(interface {
		Configured(context.Context) ([]engine.Offer, error)
	}); ok {
		list = c.Configured
	}
	offers, err := list(ctx)
	if err != nil {
		return nil, fmt.Errorf("--engine %s: %w", o.engine, err)
	}
	site, err := cluster.NewNodes(o.engine, o.engineArgs, offers, list, devices, func(ctx context.Context, offer engine.Offer, cfg run.Config, gpus bool) (run.Site, error) {
		return siteAt(ctx, o.Env, eng, offers, offer, cfg, gpus)
	})
	return site, cli.Usage(err)
}

// parseDevices reads "a100=4@1,v100=4@0.5".
func parseDevices(text string) ([]cluster.Device, error) {
	if text == "" {
		return nil, nil
	}
	var out []cluster.Device
	for _, part := range strings.Split(text, ",") {
		name, rest, ok := strings.Cut(strings.TrimSpace(part), "=")
		count, speed, stated := strings.Cut(rest, "@")
		n, err := strconv.Atoi(count)
		if !ok || name == "" || err != nil || n < 1 || strings.ContainsAny(name, " /\\:") {
			return nil, fmt.Errorf("%q: want TYPE=N or TYPE=N@SPEED, such as a100=4", part)
		}
		d := cluster.Device{Name: name, Count: n}
		if stated {
			if d.Speed, err = strconv.ParseFloat(speed, 64); err != nil || !(d.Speed > 0 && d.Speed < 1e9) {
				return nil, fmt.Errorf("%q: want a speed above 0, relative to the other types", part)
			}
		}
		if slices.ContainsFunc(out, func(o cluster.Device) bool { return o.Name == name }) {
			return nil, fmt.Errorf("%q: the type is named twice", part)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b cluster.Device) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// checkPolicy returns a usage error for an unknown policy.
func checkPolicy(what, name string) error {
	_, err := share.New(name, share.Options{})
	if err == nil || strings.HasPrefix(name, "allox") {
		return cli.Usage(err)
	}
	near := ""
	if best := cli.Nearest(name, share.Names()); wording.Distance(name, best) <= 1+len(name)/4 {
		near = fmt.Sprintf(", nearest known is %s", best)
	}
	return cli.Usagef("%s %q: unknown%s; optimize simulate rounds --list-policies lists all", what, name, near)
}

// requireServer returns an error that says how to start a server, if no server has ever been started.
func requireServer(e *cli.Env) (cluster.Server, bool, error) {
	s, alive, err := cluster.ReadServer(e.State())
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, cli.Usagef("no cluster is served with the state directory %s: start one by optimize cluster serve", e.State())
	}
	return s, alive, err
}

func policyCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy [NAME]", Short: "Show or change the policy of the running scheduler", Args: cobra.MaximumNArgs(1), ValidArgs: share.Names(),
		Example: `  optimize cluster policy
  optimize cluster policy max_min_fairness_perf    # from now on`,
		RunE: func(_ *cobra.Command, args []string) error {
			s, alive, err := requireServer(e)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return e.PrintResult(s.Policy, map[string]any{"policy": s.Policy, "served": alive})
			}
			if err := checkPolicy("policy", args[0]); err != nil {
				return err
			}
			if err := cluster.SetPolicy(e.State(), args[0]); err != nil {
				return err
			}
			if !alive {
				return e.PrintResult(fmt.Sprintf("no server runs: %s applies once one is started by optimize cluster serve without --policy", args[0]), map[string]any{"policy": args[0], "served": false})
			}
			return e.PrintResult(fmt.Sprintf("policy %s, until now %s", args[0], s.Policy), map[string]any{"policy": args[0], "served": true})
		},
	}
	_ = e.Options(cmd)
	return cmd
}

func drainCommand(e *cli.Env) *cobra.Command {
	var save bool
	cmd := &cobra.Command{
		Use: "drain", Short: "Admit no more jobs, and stop the scheduler when the admitted ones have ended", Args: cobra.NoArgs,
		Example: `  optimize cluster drain`,
		RunE: func(*cobra.Command, []string) error {
			_, alive, err := requireServer(e)
			if err != nil {
				return err
			}
			if !alive {
				return cli.Usagef("drain cluster: no server runs; jobs wait until one is started by optimize cluster serve")
			}
			text := "draining: no more jobs are admitted"
			if save {
				text = "draining: jobs that keep their work save and stop, and the next server continues them; others run to their end"
			}
			if err := cluster.Drain(e.State(), save); err != nil {
				return err
			}
			return e.PrintResult(text, map[string]any{"save": save})
		},
	}
	o := e.Options(cmd)
	o.Flags.BoolVar(&save, "save", false, "save and stop the running jobs, for the next server to continue")
	return cmd
}

func cancelCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel JOB…", Short: "Save and stop jobs for good", Args: cobra.MinimumNArgs(1),
		Example: `  optimize cluster cancel 3 4`,
		RunE: func(_ *cobra.Command, args []string) error {
			_, alive, _ := cluster.ReadServer(e.State()) // damaged or absent: the next server cancels them
			var ids []int
			for _, a := range args {
				id, err := strconv.Atoi(a)
				if err != nil {
					return cli.Usagef("job %q: want a number of optimize cluster jobs", a)
				}
				j, _, err := cluster.ReadJob(e.State(), id)
				switch {
				case errors.Is(err, fs.ErrNotExist):
					return cli.Usagef("job %d: does not exist; optimize cluster jobs lists them", id)
				case j == nil:
					return err
				case j.State.Ended():
					return cli.Usagef("job %d has ended: %s", id, j.State)
				}
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
			for _, id := range ids {
				if err := cluster.Cancel(e.State(), id); err != nil {
					return err
				}
			}
			if !alive {
				return e.PrintResult("no server runs: the cancellation applies once one is started by optimize cluster serve", map[string]any{"jobs": ids, "served": false})
			}
			return e.PrintResult(fmt.Sprintf("cancelling %s: running jobs save first", page.Plural(len(ids), "job")), map[string]any{"jobs": ids, "served": true})
		},
	}
	_ = e.Options(cmd)
	return cmd
}
