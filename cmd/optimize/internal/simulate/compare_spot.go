package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

// compareSpotOptions holds the flags of compare spot.
type compareSpotOptions struct {
	comparison
	spotFlags
	traces            []string
	together          bool
	slack             string
	history           time.Duration
	starts, processes int
}

// defaultSpotPolicies lists the policies that are compared by default.
var defaultSpotPolicies = []string{"on-demand", "greedy", "uniform", "adaptive", "sliced", "optimum"}

// defaultSpotHistory is the time that policies that learn consider.
const defaultSpotHistory = 7 * 24 * time.Hour

func compareSpotCommand(e *cli.Env) *cobra.Command {
	o := &compareSpotOptions{}
	cmd := &cobra.Command{
		Use: "spot", Short: "Policies for a job with a deadline on spot capacity, over traces, starting times and deadlines", Args: cobra.NoArgs,
		Long: `Run the same jobs on spot capacity with several policies, over traces, starting times and deadlines, and compare them: cost
relative to on demand alone, with 95 % intervals and paired tests, missed deadlines, and the share of the gap to the optimum
that each closes, from greedy or the first policy of --against.

Capacity is that of --trace (all *.json and *.json.gz below a folder, in the layout of skypilot-org/spot-traces), each of
which counts as one seed because starting times within a trace are not independent; or it is generated once for each seed of
--seeds. Policies that learn see the capacity of the past week: the first job starts after --history. With --together the traces of a folder are zones, any of which the job may use. With several deadlines the JSON
contains a table of rows for each in "also". The same flags give the same bytes on any number of cores, except for wall_s.`,
		Example: `  optimize compare spot
  optimize compare spot --availability 1h:1h --policies greedy,uniform --slack 1.1,1.3 --seeds 0:19
  optimize compare spot --trace traces/ --slack 1.15,1.5,2 --starts 20 --output spot.html`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.spotFlags.add(e.Options(cmd))
	fs := o.Flags
	o.comparison.add(fs, defaultSpotPolicies)
	fs.Lookup("policies").Usage = "policies to compare, `A,B,…`, or all; see optimize simulate spot --list-policies"
	fs.Lookup("against").Usage = "policies with which all others are compared in pairs (default: greedy, else the first)"
	fs.StringSliceVar(&o.traces, "trace", nil, "measured capacity: `DIR`s or files")
	fs.BoolVar(&o.together, "together", false, "the traces of a folder are simultaneous zones")
	fs.StringVar(&o.slack, "slack", "1.15,1.5,2", "ratios of deadline to work, `A,B,…`")
	fs.IntVar(&o.starts, "starts", 10, "starting times, evenly spread over each trace or generated capacity")
	o.history = defaultSpotHistory
	cli.DurationVar(fs, &o.history, "history", "`DUR` of capacity before the first start, for policies that learn from it; without such policies the default is none")
	fs.IntVar(&o.processes, "processes", 0, "concurrent jobs (default: one per core)")
	return cmd
}

// slacks parses --slack. Each value must leave time for the work and one changeover.
func (o *compareSpotOptions) slacks(j capacity.Job) ([]float64, error) {
	var out []float64
	least := (j.WorkS + j.ChangeoverS) / j.WorkS
	for _, part := range strings.Split(o.slack, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0) || v > 1000 || slices.Contains(out, v) || len(out) == 100 {
			return nil, fmt.Errorf("--slack %q: want different numbers up to 1000, separated by commas", o.slack)
		}
		if j.DeadlineS = v * j.WorkS; !j.Feasible() {
			return nil, fmt.Errorf("--slack %v: no deadline can be met, since work and one changeover take %.4g × work", v, least)
		}
		out = append(out, v)
	}
	return out, nil
}

// names replaces the policies by their canonical names and requires at least one.
func (o *compareSpotOptions) names() error {
	if slices.Equal(o.policies, []string{"all"}) {
		o.policies = nil
		for _, m := range spot.Methods() {
			o.policies = append(o.policies, m.Name)
		}
	}
	for _, list := range []*[]string{&o.policies, &o.against} {
		for i, name := range *list {
			m, err := spot.Find(name)
			if err != nil {
				return fmt.Errorf("%s: %w", map[bool]string{true: "--policies", false: "--against"}[list == &o.policies], err)
			}
			(*list)[i] = m.Name
		}
	}
	if len(o.policies) == 0 {
		return errors.New("--policies: name at least one")
	}
	return nil
}

// markets returns the markets of the traces.
func (o *compareSpotOptions) markets() ([]spot.Market, error) {
	var out []spot.Market
	for _, dir := range o.traces {
		traces, err := capacity.Load(o.Path(dir))
		if err != nil {
			return nil, fmt.Errorf("--trace %s: %w", dir, err)
		}
		var groups [][]capacity.Trace
		for i, t := range traces {
			if o.together && i > 0 && path.Dir(t.Name) == path.Dir(traces[i-1].Name) {
				groups[len(groups)-1] = append(groups[len(groups)-1], t)
			} else {
				groups = append(groups, []capacity.Trace{t})
			}
		}
		for _, g := range groups {
			name := g[0].Name
			if o.together {
				name = fmt.Sprintf("%s (%d zones)", path.Dir(name), len(g))
			}
			m, err := spot.NewMarket(name, g...)
			if err != nil {
				return nil, fmt.Errorf("--trace %s: %w", dir, err)
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// cases returns the jobs to compare: a start time in each trace or in generated capacity, and a seed.
func (o *compareSpotOptions) cases(seeds []uint64, j capacity.Job, slack float64) ([]spot.Case, []string, error) {
	var out []spot.Case
	if o.traces == nil {
		span := slack * j.WorkS
		history := o.history.Seconds()
		for _, seed := range seeds {
			m, _, description, err := o.draw(history+float64(o.starts)*span, span, seed)
			if err != nil {
				return nil, nil, err
			}
			m.Name = fmt.Sprintf("seed %d", seed)
			for k := range o.starts {
				out = append(out, spot.Case{Market: m, From: int((history + float64(k)*span) / m.TickS), Seed: seed, Group: seed})
			}
			if seed == seeds[len(seeds)-1] {
				description, _, _ = strings.Cut(description, ", seed")
				return out, []string{description + " for each seed, not measured: the times with and without it are memoryless"}, nil
			}
		}
	}
	markets, err := o.markets()
	if err != nil {
		return nil, nil, err
	}
	draws := slices.ContainsFunc(o.policies, func(name string) bool { m, _ := spot.Find(name); return m.Drawn })
	if !draws || !o.Changed("seeds") {
		if len(seeds) > 1 && o.Changed("seeds") {
			return nil, nil, errors.New("--seeds: no policy is random, and with --trace no capacity is generated: want one seed")
		}
		seeds = seeds[:1]
	}
	wraps := 0
	for g, m := range markets {
		before := int(o.history.Seconds() / m.TickS)
		if o.Changed("history") && before >= m.Ticks() {
			return nil, nil, fmt.Errorf("--history %v: %s has only %.4g h", o.history, m.Name, float64(m.Ticks())*m.TickS/3600)
		}
		before = min(before, m.Ticks()/2)
		for k := range o.starts {
			from := before + k*(m.Ticks()-before)/o.starts
			if float64(from)*m.TickS+slack*j.WorkS > float64(m.Ticks())*m.TickS {
				wraps++
			}
			for _, seed := range seeds {
				out = append(out, spot.Case{Market: m, From: from, Seed: seed, Group: uint64(g)})
			}
		}
	}
	notes := []string{fmt.Sprintf("%d traces, %d starting times in each; each trace counts as one seed", len(markets), o.starts)}
	if o.history > 0 {
		notes[0] += fmt.Sprintf("; the first start is after %s, or half of a shorter trace", short(o.history.Seconds()))
	}
	if wraps > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d jobs may continue beyond the end of their trace (with the longest deadline), which is repeated from its beginning", wraps, o.starts*len(markets)))
	}
	return out, notes, nil
}

// prepare checks the flags and builds the cases.
func (o *compareSpotOptions) prepare() (*spot.Sweep, error) {
	if err := o.names(); err != nil {
		return nil, err
	}
	seeds, err := o.resolve(o.Options)
	if err != nil {
		return nil, err
	}
	rules := append(o.rules(o.traces), cli.Rule{If: o.traces == nil, Flags: "together", Requires: "--trace"})
	if err := errors.Join(o.Check(rules...), wantProcesses(o.Options, o.processes), o.Want("starts", o.starts >= 1 && o.starts <= maxSeeds, fmt.Sprintf("1 to %d", maxSeeds))); err != nil {
		return nil, err
	}
	j, prices, _, warnings, err := o.job()
	if err != nil {
		return nil, err
	}
	slacks, err := o.slacks(j)
	if err != nil {
		return nil, err
	}
	learns := slices.ContainsFunc(o.policies, func(name string) bool { m, _ := spot.Find(name); return m.Learns })
	if !learns && !o.Changed("history") {
		o.history = 0
	}
	cases, notes, err := o.cases(seeds, j, slices.Max(slacks))
	if err != nil {
		return nil, err
	}
	for i := range cases {
		words, err := o.price(&cases[i].Market, j)
		if err != nil {
			return nil, err
		}
		if words != "" && !slices.Contains(notes, words) && i < 5 {
			notes = append(notes, words)
		}
	}
	about := []string{fmt.Sprintf("%.4g h of work, changeovers of %.4g min; %s", j.WorkS/3600, j.ChangeoverS/60, prices)}
	return &spot.Sweep{Policies: o.policies, Against: o.against, Cases: cases, Job: j, Slacks: slacks, Title: "Jobs with a deadline on spot capacity",
		Notes: slices.Concat(about, notes, warnings), Workers: o.processes}, nil
}

func (o *compareSpotOptions) run() error {
	s, err := o.prepare()
	if err != nil {
		return cli.Usagef("compare spot: %w", err)
	}
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		s.Progress = progress
		result, ran, err := s.Compare(ctx)
		return result, func(w io.Writer) error { return spot.WriteJobs(w, ran) }, err
	})
}
