package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/cluster"
	"trainopt/simulator/experiment"
	"trainopt/simulator/workload"
)

// compareRoundsOptions holds the flags of `compare rounds`.
type compareRoundsOptions struct {
	comparison
	roundsFlags
	clusters                       []string
	rates, static, timeout, figure string
	processes, points              int
	fairness                       bool
	drawn                          string
}

func compareRoundsCommand(e *cli.Env) *cobra.Command {
	o := &compareRoundsOptions{}
	cmd := &cobra.Command{
		Use: "rounds", Short: "Policies of a cluster that shares time in rounds, over loads and seeds",
		Long: `Run several policies on the same jobs, with several seeds and loads, and compare them: means with 95 % intervals and paired
tests; as a page also completion times by load, their distribution, and that of finish-time fairness.

An unstable run has no results, and higher loads of that policy and seed are not tried. With several loads the JSON contains
a table of rows for each in "also". The same flags give the same bytes on any number of cores, except for wall_s.

With --drawn, or with an agent (see simulate rounds), also the measures by which agents are trained, the preferences over them,
and the Pareto front.

--figure NAME runs the experiment of a figure of the paper and prints the published values beside ours. Figures:
` + cluster.Figures() + `
The options of the original sweep scripts (run_sweep_continuous.py, run_sweep_static.py, sweep_policy_runtimes.py):

` + gavelOptionTable(),
		Example: `  optimize compare rounds --policies fifo,fifo_perf,isolated --static 50,100,200
  optimize compare rounds --policies max_min_fairness,max_min_fairness_perf --arrival-rates 0:6:16 --window 4000:5000 --output las.html
  optimize compare rounds --policies all --trace jobs.trace.gz --cluster v100=8,p100=16,k80=24 --seeds 0
  optimize compare rounds --drawn unseen --policies sia,cheapest,agent:balanced --agent cluster.agent --seeds 0:19 --output front.html
  optimize compare rounds --figure 8 --points 4 --seeds 0 --output figure8.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := gavelOption(cmd); err != nil {
				return cli.Usage(err)
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.roundsFlags.add(e.Options(cmd))
	fs := o.Flags
	o.comparison.add(fs, []string{"fifo", "fifo_perf", "max_min_fairness", "max_min_fairness_perf"})
	fs.Lookup("seeds").DefValue, o.seeds = "0:2", "0:2"
	fs.Lookup("policies").Usage = "policies to compare, `A,B,…`, or all"
	fs.StringArrayVar(&o.clusters, "cluster", []string{defaultCluster}, "number of devices by type; may be repeated")
	fs.StringVar(&o.rates, "arrival-rates", "", "arrivals per hour, `A:B:N` (N from A to B, without 0) or a list")
	fs.StringVar(&o.static, "static", "", "numbers of jobs, all present at the start, `A:B:N` or a list (default 100)")
	fs.StringVar(&o.drawn, "drawn", "", "draw a cluster and its jobs for each seed: training|unseen (as for pretrain --env cluster, with other seeds, or other clusters and loads)")
	fs.StringVar(&o.timeout, "timeout", "", "maximum real time of a run, `DUR`")
	fs.IntVar(&o.processes, "processes", 0, "concurrent runs (default: one per core)")
	fs.BoolVar(&o.fairness, "fairness", true, "also run isolated, to compute finish-time fairness")
	fs.StringVar(&o.figure, "figure", "", "run the experiment of a figure of the paper, and print both results")
	fs.IntVar(&o.points, "points", 0, "with --figure: at most `N` loads (default: all)")
	addGavelOptions(fs)
	return cmd
}

// prepare returns the sweep without its scenarios, and the job source. It checks all flags.
func (o *compareRoundsOptions) prepare() (*cluster.Sweep, *workloadSource, error) {
	seeds, err := o.resolve(o.Options)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range o.policies {
		if err := o.checkPolicy("--policies", p); err != nil {
			return nil, nil, err
		}
	}
	s := &cluster.Sweep{Policies: o.policies, Against: o.against, Seeds: seeds, Fairness: o.fairness, Workers: o.processes, Chooser: o.chooser}
	if err := wantProcesses(o.Options, o.processes); err != nil {
		return nil, nil, err
	}
	if o.timeout != "" {
		v, err := parseSeconds(o.timeout)
		if err != nil || v == 0 {
			return nil, nil, fmt.Errorf("--timeout %q: want a duration such as 10m, or seconds, above 0", o.timeout)
		}
		s.Timeout = time.Duration(v * float64(time.Second))
		s.Notes = append(s.Notes, fmt.Sprintf("a run that takes longer than %v of real time has no results, which depends on the machine", s.Timeout))
	}
	source, err := o.source()
	if err != nil {
		return nil, nil, err
	}
	source.base.Clock = nil // exclude everything that depends on the machine
	s.Notes = append(s.Notes, source.notes...)
	return s, source, nil
}

// scenarios adds every load on every cluster to the sweep.
func (o *compareRoundsOptions) scenarios(s *cluster.Sweep, source *workloadSource) error {
	loads, err := o.loads(source)
	if err != nil {
		return err
	}
	s.XName = map[bool]string{true: "jobs/h", false: "jobs"}[o.rates != ""]
	for i, text := range o.clusters {
		if slices.Contains(o.clusters[:i], text) {
			return fmt.Errorf("--cluster %s: named twice", text)
		}
		group := ""
		if len(o.clusters) > 1 {
			group = text
		}
		for _, load := range loads {
			c := load.Config
			var note string
			if c.Devices, note, err = o.devices(c, text); err != nil {
				return err
			}
			if err := o.validate(c); err != nil {
				return err
			}
			name := load.Name
			if group != "" {
				name += " on " + text
			}
			s.Scenarios = append(s.Scenarios, cluster.Scenario{Name: name, Group: group, X: load.X, Config: c})
			if note != "" && !slices.Contains(s.Notes, note) {
				s.Notes = append(s.Notes, note)
			}
		}
	}
	s.Title = "Policies on " + strings.Join(o.clusters, " and ")
	if o.compat {
		s.Title += ", as Gavel's code does"
	}
	return nil
}

func (o *compareRoundsOptions) validate(c cluster.Config) error {
	c.Policy, c.Choose = o.policies[0], o.chooser(o.policies[0])
	return c.Validate()
}

// loads returns one scenario per load, without the cluster: a trace, arrival rates, or numbers of jobs present at the
// start.
func (o *compareRoundsOptions) loads(source *workloadSource) ([]cluster.Scenario, error) {
	if source.trace != nil {
		return []cluster.Scenario{{Name: source.description, X: float64(len(source.trace.Jobs)), Config: source.base}}, nil
	}
	var out []cluster.Scenario
	if o.rates != "" {
		rates, err := parseLoads("--arrival-rates", o.rates)
		if err != nil {
			return nil, err
		}
		for _, r := range rates {
			c := source.base
			g := *c.Generate
			g.Lambda = workload.PerHour(r)
			c.Generate = &g
			if c.Window == (cluster.Window{}) {
				c.Window = cluster.Window{Start: 4000, End: 5000}
			}
			out = append(out, cluster.Scenario{Name: fmt.Sprintf("%.4g %s per hour", r, source.description), X: r, Config: c})
		}
		return out, nil
	}
	counts := []float64{defaultStatic}
	if o.static != "" {
		var err error
		if counts, err = parseLoads("--static", o.static); err != nil {
			return nil, err
		}
	}
	for _, n := range counts {
		c := source.base
		c.Total = int(n)
		if float64(c.Total) != n || c.Total < 1 {
			return nil, fmt.Errorf("--static %s: %v is not a number of jobs", o.static, n)
		}
		out = append(out, cluster.Scenario{Name: fmt.Sprintf("%d %s at once", c.Total, source.description), X: n, Config: c})
	}
	return out, nil
}

// parseLoads parses "A:B:N", N numbers from A to B without 0, or a list of ascending numbers.
func parseLoads(flag, text string) ([]float64, error) {
	fail := func() ([]float64, error) {
		return nil, fmt.Errorf("%s %q: want A:B:N, N numbers from A to B, or a list of ascending numbers above 0, at most %d", flag, text, maxLoads)
	}
	var out []float64
	if parts := strings.Split(text, ":"); len(parts) > 1 {
		if len(parts) != 3 {
			return fail()
		}
		a, err1 := strconv.ParseFloat(parts[0], 64)
		b, err2 := strconv.ParseFloat(parts[1], 64)
		n, err3 := strconv.Atoi(parts[2])
		if err1 != nil || err2 != nil || err3 != nil || !(a >= 0 && b > a) || math.IsInf(b, 1) || n < 2 || n > maxLoads {
			return fail()
		}
		for i := range n {
			if v := a + (b-a)*float64(i)/float64(n-1); v > 0 {
				out = append(out, v)
			}
		}
		return out, nil
	}
	for _, part := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0) || math.IsInf(v, 1) || len(out) == maxLoads || len(out) > 0 && v <= out[len(out)-1] {
			return fail()
		}
		out = append(out, v)
	}
	return out, nil
}

// maxLoads limits the number of loads of one comparison.
const maxLoads = 1000

// run compares policies on the jobs given by the flags, or by a published figure.
func (o *compareRoundsOptions) run() error {
	if o.Changed("figure") {
		return o.runFigure()
	}
	if o.Changed("points") {
		return cli.Usagef("--points requires --figure")
	}
	if slices.Equal(o.policies, []string{"all"}) {
		o.policies = share.Names()
	}
	s, source, err := o.prepare()
	switch {
	case err != nil:
	case o.Changed("drawn"):
		err = errors.Join(o.drawnScenario(s), o.preferences(s))
	default:
		err = o.scenarios(s, source)
		if err == nil && o.agent != "" && o.fairness {
			err = o.preferences(s)
		}
	}
	if err != nil {
		return cli.Usage(err)
	}
	return o.sweep(s, func(*cluster.Outcome) {})
}

// sweep runs a sweep and writes it together with the additions of finish. The failure of a policy is reported after all
// other results are written.
func (o *compareRoundsOptions) sweep(s *cluster.Sweep, finish func(*cluster.Outcome)) error {
	var failed error
	err := o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		s.Progress = progress
		out, err := s.Run(ctx)
		finish(out)
		if ctx.Err() == nil {
			failed, err = err, nil
		}
		return out.Comparison, out.WriteJobs, err
	})
	return errors.Join(err, failed)
}
