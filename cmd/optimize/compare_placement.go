package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis/figures"
	"trainopt/simulator/ancestors/metis/methods"
	"trainopt/simulator/experiment"
)

// comparingPlacement holds the flags of compare placement.
type comparingPlacement struct {
	comparing
	placementFlags
	sizes, batch, figure string
	processes            int
}

// comparedMethods lists the default methods, which run in seconds.
var comparedMethods = []string{"exact", "greedy", "medea", "paragon", "spread", "random"}

func comparePlacementCommand(e *env, c *common) *cobra.Command {
	f := &comparingPlacement{}
	cmd := &cobra.Command{
		Use: "placement", Short: "Ways to place containers, over batches: throughput, SLO, violations, nodes, time", Args: cobra.NoArgs,
		Long: `Places the same batches by several methods and compares them: means with 95 % intervals over batches (groups), paired tests.
Batches are those of Metis (--sizes, --groups; up to 400 containers on 81 nodes, from 1000 on 729) or the rows of a file (--batch).

The objective, limits and what methods know of throughputs hold for the methods that take them, see
optimize simulate placement --methods; figures are of the throughput table for all. The time that a method takes is measured while
--processes batches are placed at the same time. The same flags give the same bytes on any number of cores, times apart.

--figure NAME runs what a figure of Metis' paper shows, and prints the published values beside ours. Figures:
` + figures.List(),
		Example: `  optimize compare placement
  optimize compare placement --methods exact,greedy,spread --sizes 200,300,400 --groups 0:29 --out placement.html
  optimize compare placement --methods exact,metis --sizes 200 --groups 0:4 --predictor forest
  optimize compare placement --figure example`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.comparePlacement(cmd, c, f) },
	}
	f.comparing.add(cmd, comparedMethods)
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringSliceVar(&f.policies, "methods", comparedMethods, "what is compared, `A,B,…`, see optimize simulate placement --methods")
	fs.StringVar(&f.seeds, "groups", "0:29", "batches of each size, or rows of --batch, `A:B` (both included) or a list; methods that draw take it as seed")
	f.policies, f.seeds = comparedMethods, "0:29"
	fs.Lookup("policies").Usage, fs.Lookup("seeds").Usage = "the same as --methods", "the same as --groups"
	fs.Lookup("seeds").DefValue = "0:29"
	fs.Lookup("against").Usage = "with which of them all others are compared in pairs (default: the first)"
	fs.Lookup("jobs-out").Usage = "write every single placement to `FILE` as CSV"
	f.placementFlags.add(fs)
	fs.StringVar(&f.sizes, "sizes", "200", "containers of a batch, `A,B,…`: batches of Metis")
	fs.StringVar(&f.batch, "batch", "", "instead: `FILE` of batches, a row each")
	fs.IntVar(&f.processes, "processes", 0, "batches at the same time (default: one a core)")
	fs.StringVar(&f.figure, "figure", "", "run what a figure of the paper shows, and print both")
	return cmd
}

// figurePlacementFlags lists the flags that are valid with --figure.
var figurePlacementFlags = []string{"figure", "methods", "policies", "against", "groups", "seeds", "predictor", "episodes", "model", "processes",
	"format", "out", "jobs-out", "json", "quiet", "config", "state-dir", "log-level"}

// comparePlacement compares placement methods, either on the data of a published figure or on the workload given by
// flags.
func (e *env) comparePlacement(cmd *cobra.Command, common *common, f *comparingPlacement) error {
	var other error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if f.figure != "" && !slices.Contains(figurePlacementFlags, flag.Name) && other == nil {
			other = fmt.Errorf("--%s says nothing with --figure", flag.Name)
		}
	})
	if other != nil {
		return usageError{other}
	}
	var figure *figures.Figure
	if cmd.Flags().Changed("figure") {
		var err error
		if figure, err = figures.Find(f.figure); err != nil {
			return usageError{fmt.Errorf("--figure: %w", err)}
		}
		f.ofFigure(cmd, figure)
	}
	groups, err := f.check(cmd, common)
	if err != nil {
		return usageError{err}
	}
	p, err := f.prepare(e, cmd)
	if err != nil {
		return usageError{err}
	}
	var c *methods.Comparison
	if figure != nil {
		c, err = figure.Comparison(f.figureOptions(groups, p))
	} else {
		c, err = f.comparison(e, cmd, groups, p)
	}
	if err != nil {
		return asExit(err, func(err error) error { return usageError{err} })
	}
	c.Clock = e.clock.Monotonic
	return e.runComparison(common, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		c.Progress = progress
		r, err := methods.Compare(ctx, c)
		if r == nil {
			return nil, nil, err
		}
		if figure != nil {
			figure.Beside(c, r)
		}
		return r.Comparison, r.Write, err
	})
}

// ofFigure fills in defaults from a figure for flags that were not set.
func (f *comparingPlacement) ofFigure(cmd *cobra.Command, figure *figures.Figure) {
	changed := cmd.Flags().Changed
	if !changed("methods") && !changed("policies") {
		f.policies = figure.Methods
	}
	if !changed("groups") && !changed("seeds") {
		f.seeds = fmt.Sprintf("0:%d", figure.LastGroup)
	}
}

// check resolves the flags common to all comparisons and returns the groups of batches.
func (f *comparingPlacement) check(cmd *cobra.Command, common *common) ([]uint64, error) {
	groups, err := f.resolve(cmd, common)
	if err != nil {
		return nil, errors.New(strings.NewReplacer("--seeds", "--groups", "--policies", "--methods").Replace(err.Error()))
	}
	if len(f.policies) == 0 {
		return nil, errors.New("--methods: name at least one")
	}
	for _, name := range f.policies {
		if _, err := methods.Find(name); err != nil {
			return nil, fmt.Errorf("--methods: %w", err)
		}
	}
	if cmd.Flags().Changed("processes") && f.processes < 1 {
		return nil, fmt.Errorf("--processes %d: want at least 1", f.processes)
	}
	for _, name := range []string{"zones", "zone-budget", "apart"} {
		if cmd.Flags().Changed(name) && !slices.Contains(f.policies, "george") {
			return nil, fmt.Errorf("--%s says nothing without george among --methods", name)
		}
	}
	if f.batch != "" && cmd.Flags().Changed("sizes") {
		return nil, errors.New("--sizes says nothing with --batch")
	}
	return groups, nil
}

func (f *comparingPlacement) figureOptions(groups []uint64, p *placing) figures.Options {
	o := figures.Options{Groups: groups, Methods: f.policies, Against: f.against, Workers: f.processes, Options: p.options}
	if p.told != nil {
		o.Told = func(*place.Table) (*place.Table, error) { return p.told.Types[0].Table, nil }
	}
	return o
}

// comparison returns the comparison given by the flags, without a figure.
func (f *comparingPlacement) comparison(e *env, cmd *cobra.Command, groups []uint64, p *placing) (*methods.Comparison, error) {
	c := &methods.Comparison{Title: "Ways to place containers", XName: "containers", Methods: f.policies, Against: f.against, Workers: f.processes, Notes: p.notes}
	if p.told != nil {
		c.Notes = append(c.Notes, "methods knew throughputs by a "+p.predictor)
	}
	if f.compat {
		c.Title += ", as published codes do"
	}
	if f.batch != "" {
		batches, err := place.ReadBatches(inDir(e.dir, f.batch), p.apps())
		if err != nil {
			return nil, fmt.Errorf("--batch: %w", err)
		}
		if !cmd.Flags().Changed("groups") && !cmd.Flags().Changed("seeds") {
			groups = groups[:min(len(groups), len(batches))]
		}
		return c, f.scenario(c, p, "rows of "+f.batch, 0, batches, groups)
	}
	if !slices.Equal(p.apps(), place.MetisApps()) {
		return nil, fmt.Errorf("--sizes: batches of Metis are of %s, the table has %s: name others by --batch", strings.Join(place.MetisApps(), ", "), strings.Join(p.apps(), ", "))
	}
	sizes, err := parseCounts(f.sizes)
	if err != nil || slices.Contains(sizes, 0) {
		return nil, fmt.Errorf("--sizes %q: want numbers of containers", f.sizes)
	}
	for i, size := range sizes {
		if slices.Contains(sizes[:i], size) {
			return nil, fmt.Errorf("--sizes: %d is named twice", size)
		}
		batches, err := place.MetisBatches(size)
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		q := *p
		if f.nodeTypes == "" && f.existing == "" && !cmd.Flags().Changed("nodes") && size >= 1000 {
			q = q.onNodes(729)
		}
		if err := f.scenario(c, &q, fmt.Sprintf("%d containers on %d nodes", size, q.problem.Nodes()), float64(size), batches, groups); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// onNodes returns a copy with a different number of nodes.
func (p placing) onNodes(n int) placing {
	resized := func(q *place.Problem) *place.Problem {
		if q == nil {
			return nil
		}
		out := *q
		out.Types = slices.Clone(q.Types)
		out.Types[0].Count = n
		return &out
	}
	p.problem, p.told = resized(p.problem), resized(p.told)
	return p
}

// scenario adds a scenario with the given batches to a comparison.
func (f *comparingPlacement) scenario(c *methods.Comparison, p *placing, name string, x float64, batches [][]int, groups []uint64) error {
	s := methods.Scenario{Name: name, X: x, Options: p.options}
	for _, g := range groups {
		if g >= uint64(len(batches)) {
			return fmt.Errorf("--groups: no group %d of %s, there are %d, counted from 0", g, name, len(batches))
		}
		batch := batches[g]
		if len(batch) != len(p.apps()) {
			return fmt.Errorf("group %d of %s has %d counts, the table has %d apps", g, name, len(batch), len(p.apps()))
		}
		at := methods.Case{Group: g}
		at.Problem, at.Told = p.with(batch)
		if err := fits(at.Problem); err != nil {
			return err
		}
		s.Cases = append(s.Cases, at)
	}
	c.Scenarios = append(c.Scenarios, s)
	return nil
}
