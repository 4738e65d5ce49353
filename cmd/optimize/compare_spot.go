package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

// comparingSpot holds the flags of compare spot.
type comparingSpot struct {
	comparing
	spotFlags
	traces            []string
	together          bool
	slack             string
	starts, processes int
}

// comparedSpot lists the policies that are compared by default.
var comparedSpot = []string{"on-demand", "greedy", "uniform", "sliced", "optimum"}

func compareSpotCommand(e *env, c *common) *cobra.Command {
	f := &comparingSpot{}
	cmd := &cobra.Command{
		Use: "spot", Short: "Policies for a job with a deadline on spot capacity, over traces, starting times and deadlines", Args: cobra.NoArgs,
		Long: `Runs the same jobs on spot capacity by several policies, over traces, starting times and deadlines, and
compares them: cost of what on demand alone costs, with 95 % intervals and paired tests, deadlines
missed, and how much of the gap between greedy and the optimum each closes.

Capacity is that of --traces (all *.json and *.json.gz below a folder, in the layout of
skypilot-org/spot-traces), each of which counts as one seed, since starting times within a trace are
not independent; or it is drawn once for each seed of --seeds. With --together the traces of a folder
are zones of which the job may use any. With several deadlines the JSON has a table of rows for each
in "also". The same flags give the same bytes on any number of cores (wall_s apart).`,
		Example: `  optimize compare spot
  optimize compare spot --availability 1h:1h --policies greedy,uniform --slack 1.1,1.3 --seeds 0:19
  optimize compare spot --traces traces/ --slack 1.15,1.5,2 --starts 20 --out spot.html`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.compareSpot(cmd, c, f) },
	}
	f.comparing.add(cmd, comparedSpot)
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.Lookup("policies").Usage = "what is compared, `A,B,…`, or all; see optimize simulate spot --policies"
	fs.Lookup("against").Usage = "with which of them all others are compared in pairs (default: greedy, else the first)"
	fs.StringSliceVar(&f.traces, "traces", nil, "measured capacity: `DIR`s or files")
	fs.BoolVar(&f.together, "together", false, "traces of a folder are zones at the same time")
	f.spotFlags.add(fs)
	fs.StringVar(&f.slack, "slack", "1.15,1.5,2", "deadlines by work, `A,B,…`")
	fs.IntVar(&f.starts, "starts", 10, "starting times in each trace, evenly over it, or of each drawn capacity")
	fs.IntVar(&f.processes, "processes", 0, "jobs at the same time (default: one a core)")
	return cmd
}

// slacks parses --slack. Each value must leave time for the work and one changeover.
func (f *comparingSpot) slacks(j spot.Job) ([]float64, error) {
	var out []float64
	least := (j.WorkS + j.ChangeoverS) / j.WorkS
	for _, part := range strings.Split(f.slack, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0) || v > 1000 || slices.Contains(out, v) || len(out) == 100 {
			return nil, fmt.Errorf("--slack %q: want different numbers up to 1000, with commas", f.slack)
		}
		if j.DeadlineS = v * j.WorkS; !j.Feasible() {
			return nil, fmt.Errorf("--slack %v: nothing is in time, since work and one changeover take %.4g × work", v, least)
		}
		out = append(out, v)
	}
	return out, nil
}

// names replaces the policies by their canonical names and requires at least one.
func (f *comparingSpot) names() error {
	if slices.Equal(f.policies, []string{"all"}) {
		f.policies = nil
		for _, m := range spot.Methods() {
			f.policies = append(f.policies, m.Name)
		}
	}
	for _, list := range []*[]string{&f.policies, &f.against} {
		for i, name := range *list {
			m, err := spot.Find(name)
			if err != nil {
				return fmt.Errorf("%s: %w", map[bool]string{true: "--policies", false: "--against"}[list == &f.policies], err)
			}
			(*list)[i] = m.Name
		}
	}
	if len(f.policies) == 0 {
		return errors.New("--policies: name at least one")
	}
	return nil
}

// markets returns the markets of the traces.
func (f *comparingSpot) markets(e *env, cmd *cobra.Command) ([]spot.Market, error) {
	if err := notWithTraces(cmd, "--traces"); err != nil {
		return nil, err
	}
	var out []spot.Market
	for _, dir := range f.traces {
		traces, err := spot.Load(inDir(e.dir, dir))
		if err != nil {
			return nil, fmt.Errorf("--traces %s: %w", dir, err)
		}
		var groups [][]spot.Trace
		for i, t := range traces {
			if f.together && i > 0 && path.Dir(t.Name) == path.Dir(traces[i-1].Name) {
				groups[len(groups)-1] = append(groups[len(groups)-1], t)
			} else {
				groups = append(groups, []spot.Trace{t})
			}
		}
		for _, g := range groups {
			name := g[0].Name
			if f.together {
				name = fmt.Sprintf("%s (%d zones)", path.Dir(name), len(g))
			}
			m, err := spot.NewMarket(name, g...)
			if err != nil {
				return nil, fmt.Errorf("--traces %s: %w", dir, err)
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// cases returns the jobs to compare: a start time in each trace or in generated capacity, and a seed.
func (f *comparingSpot) cases(e *env, cmd *cobra.Command, seeds []uint64, j spot.Job, slack float64) ([]spot.Case, []string, error) {
	var out []spot.Case
	if f.traces == nil {
		if f.together {
			return nil, nil, errors.New("--together says nothing without --traces")
		}
		span := slack * j.WorkS
		for _, seed := range seeds {
			m, _, words, err := f.draw(float64(f.starts)*span, span, seed)
			if err != nil {
				return nil, nil, err
			}
			m.Name = fmt.Sprintf("seed %d", seed)
			for k := range f.starts {
				out = append(out, spot.Case{Market: m, From: int(float64(k) * span / m.TickS), Seed: seed, Group: seed})
			}
			if seed == seeds[len(seeds)-1] {
				words, _, _ = strings.Cut(words, ", seed")
				return out, []string{words + " for each seed, not measured: times with and without it follow each other without memory"}, nil
			}
		}
	}
	markets, err := f.markets(e, cmd)
	if err != nil {
		return nil, nil, err
	}
	draws := slices.ContainsFunc(f.policies, func(name string) bool { m, _ := spot.Find(name); return m.Drawn })
	if !draws || !cmd.Flags().Changed("seeds") {
		if len(seeds) > 1 && cmd.Flags().Changed("seeds") {
			return nil, nil, errors.New("--seeds: no policy draws, and with --traces no capacity is drawn: want one seed")
		}
		seeds = seeds[:1]
	}
	wraps := 0
	for g, m := range markets {
		for k := range f.starts {
			from := k * m.Ticks() / f.starts
			if float64(from)*m.TickS+slack*j.WorkS > float64(m.Ticks())*m.TickS {
				wraps++
			}
			for _, seed := range seeds {
				out = append(out, spot.Case{Market: m, From: from, Seed: seed, Group: uint64(g)})
			}
		}
	}
	notes := []string{fmt.Sprintf("%d traces, %d starting times in each; where seeds are counted, each trace is one", len(markets), f.starts)}
	if wraps > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d jobs may go on beyond the end of their trace (with the longest deadline), which begins again there", wraps, f.starts*len(markets)))
	}
	return out, notes, nil
}

// prepare checks the flags and builds the cases.
func (f *comparingSpot) prepare(e *env, cmd *cobra.Command, c *common) (*spot.Sweep, error) {
	if err := f.names(); err != nil {
		return nil, err
	}
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("processes") && f.processes < 1 {
		return nil, fmt.Errorf("--processes %d: want at least 1", f.processes)
	}
	if f.starts < 1 || f.starts > maxSeeds {
		return nil, fmt.Errorf("--starts %d: want 1 to %d", f.starts, maxSeeds)
	}
	j, words, _, warnings, err := f.job(e, cmd, c)
	if err != nil {
		return nil, err
	}
	slacks, err := f.slacks(j)
	if err != nil {
		return nil, err
	}
	cases, notes, err := f.cases(e, cmd, seeds, j, slices.Max(slacks))
	if err != nil {
		return nil, err
	}
	about := []string{fmt.Sprintf("%.4g h of work, changeovers of %.4g min; %s", j.WorkS/3600, j.ChangeoverS/60, words)}
	return &spot.Sweep{Policies: f.policies, Against: f.against, Cases: cases, Job: j, Slacks: slacks, Title: "Jobs with a deadline on spot capacity",
		Notes: slices.Concat(about, notes, warnings), Workers: f.processes}, nil
}

func (e *env) compareSpot(cmd *cobra.Command, c *common, f *comparingSpot) error {
	s, err := f.prepare(e, cmd, c)
	if err != nil {
		return usageError{fmt.Errorf("compare spot: %w", err)}
	}
	return e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		s.Progress = progress
		comparison, ran, err := s.Compare(ctx)
		return comparison, func(w io.Writer) error { return spot.WriteJobs(w, ran) }, err
	})
}
