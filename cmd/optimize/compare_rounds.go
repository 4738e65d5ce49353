package main

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

	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/cluster"
	"trainopt/simulator/cluster/sweep"
	"trainopt/simulator/experiment"
	"trainopt/simulator/workload"
)

// comparingRounds holds the flags of compare rounds.
type comparingRounds struct {
	comparing
	roundsFlags
	clusters                       []string
	rates, static, timeout, figure string
	processes, points              int
	fairness                       bool
}

func compareRoundsCommand(e *env, c *common) *cobra.Command {
	f := &comparingRounds{}
	cmd := &cobra.Command{
		Use: "rounds", Short: "Policies of a cluster that divides time in rounds, over loads and seeds",
		Long: `Runs several policies on the same jobs, with several seeds, at several loads, and compares them: means with 95 % intervals,
paired tests; as a page also completion times against the load, their distribution, and that of finish-time fairness.

A run that is not stable has no figures, and higher loads of that policy and seed are not tried. With several loads the JSON
has a table of rows for each in "also". The same flags give the same bytes on any number of cores (wall_s apart).

--figure NAME runs what a figure of the paper shows, and prints the published values beside ours. Figures:
` + sweep.Figures() + `
For the options of the original's sweep scripts (run_sweep_continuous.py, run_sweep_static.py, sweep_policy_runtimes.py):

` + gavelOptionTable(),
		Example: `  optimize compare rounds --policies fifo,fifo_perf,isolated --static 50,100,200
  optimize compare rounds --policies max_min_fairness,max_min_fairness_perf --rates 0:6:16 --window 4000:5000 --out las.html
  optimize compare rounds --policies all --trace jobs.trace.gz --cluster v100=8,p100=16,k80=24 --seeds 0
  optimize compare rounds --figure 8 --points 4 --seeds 0 --out figure8.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := gavelOption(cmd); err != nil {
				return usageError{err}
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("figure") {
				return e.compareFigure(cmd, c, f)
			}
			return e.compareRounds(cmd, c, f)
		},
	}
	f.comparing.add(cmd, []string{"fifo", "fifo_perf", "max_min_fairness", "max_min_fairness_perf"})
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.Lookup("seeds").DefValue, f.seeds = "0:2", "0:2"
	fs.Lookup("policies").Usage = "what is compared, `A,B,…`, or all"
	fs.Lookup("against").Usage = "with which of them all others are compared in pairs (default: the first)"
	f.roundsFlags.add(fs)
	fs.StringArrayVar(&f.clusters, "cluster", []string{defaultCluster}, "how many devices of which types; may be repeated")
	fs.StringVar(&f.rates, "rates", "", "jobs that arrive in an hour, `A:B:N` (N from A to B, 0 left out) or a list")
	fs.StringVar(&f.static, "static", "", "so many jobs, all there at the start, `A:B:N` or a list (default 100)")
	fs.StringVar(&f.timeout, "timeout", "", "a run may take `DUR` of real time")
	fs.IntVar(&f.processes, "processes", 0, "runs at the same time (default: one a core)")
	fs.BoolVar(&f.fairness, "fairness", true, "run isolated too, to tell finish-time fairness")
	fs.StringVar(&f.figure, "figure", "", "run what a figure of the paper shows, and print both")
	fs.IntVar(&f.points, "points", 0, "of a figure: at most `N` loads (default: all)")
	addGavelOptions(fs)
	return cmd
}

// prepare returns the sweep without its scenarios, and the job source. It checks all flags.
func (f *comparingRounds) prepare(e *env, cmd *cobra.Command, c *common) (*sweep.Sweep, *jobsOf, error) {
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range f.policies {
		if err := knownPolicy("--policies", p); err != nil {
			return nil, nil, err
		}
	}
	s := &sweep.Sweep{Policies: f.policies, Against: f.against, Seeds: seeds, Fairness: f.fairness, Workers: f.processes}
	if cmd.Flags().Changed("processes") && f.processes < 1 {
		return nil, nil, fmt.Errorf("--processes %d: want at least 1", f.processes)
	}
	if f.timeout != "" {
		v, err := parseSpan(f.timeout)
		if err != nil || v == 0 {
			return nil, nil, fmt.Errorf("--timeout %q: want a duration such as 10m, or seconds, above 0", f.timeout)
		}
		s.Timeout = time.Duration(v * float64(time.Second))
		s.Notes = append(s.Notes, fmt.Sprintf("a run that takes longer than %v of real time has no figures, which depends on the machine", s.Timeout))
	}
	jobs, err := f.jobs(e, cmd)
	if err != nil {
		return nil, nil, err
	}
	jobs.base.Clock = nil // exclude everything that depends on the machine
	s.Notes = append(s.Notes, jobs.notes...)
	return s, jobs, nil
}

// scenarios adds every load on every cluster to the sweep.
func (f *comparingRounds) scenarios(e *env, cmd *cobra.Command, s *sweep.Sweep, jobs *jobsOf) error {
	loads, err := f.loads(cmd, jobs)
	if err != nil {
		return err
	}
	s.XName = map[bool]string{true: "jobs/h", false: "jobs"}[f.rates != ""]
	for i, text := range f.clusters {
		if slices.Contains(f.clusters[:i], text) {
			return fmt.Errorf("--cluster %s: named twice", text)
		}
		group := ""
		if len(f.clusters) > 1 {
			group = text
		}
		for _, load := range loads {
			c := load.Config
			var note string
			o := *jobs
			o.base = c
			if c.Devices, note, err = f.devices(e, &o, text); err != nil {
				return err
			}
			if err := validate(c, f.policies[0]); err != nil {
				return err
			}
			name := load.Name
			if group != "" {
				name += " on " + text
			}
			s.Scenarios = append(s.Scenarios, sweep.Scenario{Name: name, Group: group, X: load.X, Config: c})
			if note != "" && !slices.Contains(s.Notes, note) {
				s.Notes = append(s.Notes, note)
			}
		}
	}
	s.Title = "Policies on " + strings.Join(f.clusters, " and ")
	if f.compat {
		s.Title += ", as Gavel's code does"
	}
	return nil
}

func validate(c cluster.Config, policy string) error {
	c.Policy = policy
	return c.Validate()
}

// loads returns one scenario per load, without the cluster: a trace, arrival rates, or numbers of jobs present at the
// start.
func (f *comparingRounds) loads(cmd *cobra.Command, jobs *jobsOf) ([]sweep.Scenario, error) {
	if jobs.trace != nil {
		return []sweep.Scenario{{Name: jobs.words, X: float64(len(jobs.trace.Jobs)), Config: jobs.base}}, nil
	}
	if f.rates != "" && f.static != "" {
		return nil, errors.New("--static says nothing with --rates: either jobs arrive or all are there at the start")
	}
	if f.rates == "" && f.window != "" {
		return nil, errors.New("--window says nothing without --rates or --trace")
	}
	var out []sweep.Scenario
	if f.rates != "" {
		rates, err := parseLoads("--rates", f.rates)
		if err != nil {
			return nil, err
		}
		for _, r := range rates {
			c := jobs.base
			g := *c.Generate
			g.Lambda = workload.PerHour(r)
			c.Generate = &g
			if c.Window == (cluster.Window{}) {
				c.Window = cluster.Window{Start: 4000, End: 5000}
			}
			out = append(out, sweep.Scenario{Name: fmt.Sprintf("%.4g %s an hour", r, jobs.words), X: r, Config: c})
		}
		return out, nil
	}
	counts := []float64{defaultStatic}
	if f.static != "" {
		var err error
		if counts, err = parseLoads("--static", f.static); err != nil {
			return nil, err
		}
	}
	for _, n := range counts {
		c := jobs.base
		c.Total = int(n)
		if float64(c.Total) != n || c.Total < 1 {
			return nil, fmt.Errorf("--static %s: %v is no number of jobs", f.static, n)
		}
		out = append(out, sweep.Scenario{Name: fmt.Sprintf("%d %s at once", c.Total, jobs.words), X: n, Config: c})
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

func (e *env) compareRounds(cmd *cobra.Command, c *common, f *comparingRounds) error {
	if cmd.Flags().Changed("points") {
		return usageError{errors.New("--points says nothing without --figure")}
	}
	if slices.Equal(f.policies, []string{"all"}) {
		f.policies = share.Names()
	}
	s, jobs, err := f.prepare(e, cmd, c)
	if err != nil {
		return usageError{err}
	}
	if err := f.scenarios(e, cmd, s, jobs); err != nil {
		return usageError{err}
	}
	return e.runSweep(c, f, s, func(*sweep.Outcome) {})
}

// runSweep runs a sweep and writes it together with the additions of finish. The failure of a policy is reported after
// all other results are written.
func (e *env) runSweep(c *common, f *comparingRounds, s *sweep.Sweep, finish func(*sweep.Outcome)) error {
	var failed error
	err := e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		s.Progress = progress
		o, err := sweep.Run(ctx, s)
		finish(o)
		if ctx.Err() == nil {
			failed, err = err, nil
		}
		return o.Comparison, o.WriteJobs, err
	})
	return errors.Join(err, failed)
}
