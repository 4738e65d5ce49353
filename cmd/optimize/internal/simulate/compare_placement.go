package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
	"trainopt/simulator/experiment"
)

// comparePlacementOptions holds the flags of `compare placement`.
type comparePlacementOptions struct {
	comparison
	placementFlags
	sizes, batch, figure string
	processes            int
}

// defaultPlacementMethods lists the default methods, which run in seconds.
var defaultPlacementMethods = []string{"exact", "greedy", "medea", "paragon", "spread", "random"}

func comparePlacementCommand(e *cli.Env) *cobra.Command {
	o := &comparePlacementOptions{}
	cmd := &cobra.Command{
		Use: "placement", Short: "Methods to place containers, over batches: throughput, SLO, violations, nodes, time", Args: cobra.NoArgs,
		Long: `Place the same batches with several methods and compare them: means with 95 % intervals over batches (groups), paired tests.
Batches are those of Metis (--sizes, --groups; up to 400 containers on 81 nodes, from 1000 on 729) or the rows of a file
(--batch).

The objective, the limits and the given throughputs apply to the methods that support them, see optimize simulate placement
--list-methods; results are of the throughput table for all. The time of a method is measured while --processes batches are
placed concurrently. The same flags give the same bytes on any number of cores, except for times.

--figure NAME runs the experiment of a figure of Metis' paper and prints the published values beside ours. Figures:
` + metis.FigureNames(),
		Example: `  optimize compare placement
  optimize compare placement --methods exact,greedy,spread --sizes 200,300,400 --groups 0:29 --output placement.html
  optimize compare placement --methods exact,metis --sizes 200 --groups 0:4 --predictor forest
  optimize compare placement --figure example`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.placementFlags.add(e.Options(cmd))
	fs := o.Flags
	o.comparison.add(fs, defaultPlacementMethods)
	fs.StringSliceVar(&o.policies, "methods", defaultPlacementMethods, "methods to compare, `A,B,…`, see optimize simulate placement --list-methods")
	fs.StringVar(&o.seeds, "groups", "0:29", "batches of each size, or rows of --batch, `A:B` (both included) or a list; also the seed of random methods")
	o.policies, o.seeds = defaultPlacementMethods, "0:29"
	fs.Lookup("policies").Usage, fs.Lookup("seeds").Usage = "the same as --methods", "the same as --groups"
	fs.Lookup("seeds").DefValue = "0:29"
	fs.Lookup("jobs-out").Usage = "write each placement to `FILE` as CSV"
	fs.StringVar(&o.sizes, "sizes", "200", "containers of a batch, `A,B,…`: batches of Metis")
	fs.StringVar(&o.batch, "batch", "", "read batches from `FILE`, one per row")
	fs.IntVar(&o.processes, "processes", 0, "concurrent batches (default: one per core)")
	fs.StringVar(&o.figure, "figure", "", "run the experiment of a figure of the paper, and print both results")
	return cmd
}

// rules returns the flags that cannot be combined.
func (o *comparePlacementOptions) rules() []cli.Rule {
	return []cli.Rule{
		{If: o.figure != "", Except: "figure methods policies against groups seeds predictor episodes agent processes format output jobs-out", Conflict: "--figure"},
		{If: !slices.Contains(o.policies, "george"), Flags: "zones zone-budget apart", Requires: "george among --methods"},
		{If: o.batch != "", Flags: "sizes", Conflict: "--batch"},
	}
}

// run compares placement methods, either on the data of a published figure or on the workload given by flags.
func (o *comparePlacementOptions) run() error {
	var figure *metis.Figure
	if o.Changed("figure") {
		var err error
		if figure, err = metis.FindFigure(o.figure); err != nil {
			return cli.Usagef("--figure: %w", err)
		}
		if !o.Changed("methods", "policies") {
			o.policies = figure.Methods
		}
		if !o.Changed("groups", "seeds") {
			o.seeds = fmt.Sprintf("0:%d", figure.LastGroup)
		}
	}
	groups, err := o.check()
	if err != nil {
		return cli.Usage(err)
	}
	s, err := o.setup()
	if err != nil {
		return cli.Usage(placementError(err))
	}
	var c *metis.Comparison
	if figure != nil {
		c, err = figure.Comparison(o.figureOptions(groups, s))
	} else {
		c, err = o.byFlags(groups, s)
	}
	if err != nil {
		return cli.Usage(placementError(err))
	}
	c.Clock = o.Clock.Monotonic
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		c.Progress = progress
		r, err := c.Run(ctx)
		if r == nil {
			return nil, nil, err
		}
		if figure != nil {
			figure.Beside(c, r)
		}
		return r.Comparison, r.Write, err
	})
}

// check checks the flags and returns the groups of batches.
func (o *comparePlacementOptions) check() ([]uint64, error) {
	if err := errors.Join(o.Check(o.rules()...), wantProcesses(o.Options, o.processes)); err != nil {
		return nil, err
	}
	groups, err := o.resolve(o.Options)
	if err != nil {
		return nil, errors.New(strings.NewReplacer("--seeds", "--groups", "--policies", "--methods").Replace(err.Error()))
	}
	if len(o.policies) == 0 {
		return nil, errors.New("--methods: name at least one")
	}
	for _, name := range o.policies {
		if _, err := metis.Find(name); err != nil {
			return nil, fmt.Errorf("--methods: %w", err)
		}
	}
	return groups, nil
}

func (o *comparePlacementOptions) figureOptions(groups []uint64, s *metis.Setup) metis.FigureOptions {
	options := metis.FigureOptions{Groups: groups, Methods: o.policies, Against: o.against, Workers: o.processes, Options: s.Options}
	if s.Predicted != nil {
		options.Told = func(*place.Table) (*place.Table, error) { return s.Predicted.Types[0].Table, nil }
	}
	return options
}

// byFlags returns the comparison given by the flags, without a figure.
func (o *comparePlacementOptions) byFlags(groups []uint64, s *metis.Setup) (*metis.Comparison, error) {
	c := &metis.Comparison{Title: "Placement methods", XName: "containers", Methods: o.policies, Against: o.against, Workers: o.processes, Notes: s.Notes}
	if s.Predicted != nil {
		c.Notes = append(c.Notes, "methods were given throughputs by a "+s.Predictor)
	}
	if o.compat {
		c.Title += ", as published codes do"
	}
	if o.batch != "" {
		batches, err := place.ReadBatches(o.Path(o.batch), s.Apps())
		if err != nil {
			return nil, fmt.Errorf("--batch: %w", err)
		}
		if !o.Changed("groups", "seeds") {
			groups = groups[:min(len(groups), len(batches))]
		}
		return c, o.scenario(c, s, "rows of "+o.batch, 0, batches, groups)
	}
	if !slices.Equal(s.Apps(), place.MetisApps()) {
		return nil, fmt.Errorf("--sizes: batches of Metis are of %s, the table has %s: name a file by --batch", strings.Join(place.MetisApps(), ", "), strings.Join(s.Apps(), ", "))
	}
	sizes, err := parseCounts(o.sizes)
	if err != nil || slices.Contains(sizes, 0) {
		return nil, fmt.Errorf("--sizes %q: want numbers of containers", o.sizes)
	}
	for i, size := range sizes {
		if slices.Contains(sizes[:i], size) {
			return nil, fmt.Errorf("--sizes: %d is named twice", size)
		}
		batches, err := place.MetisBatches(size)
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		sized := s
		if o.nodeTypes == "" && o.existing == "" && !o.Changed("nodes") && size >= 1000 {
			sized = s.OnNodes(729)
		}
		if err := o.scenario(c, sized, fmt.Sprintf("%d containers on %d nodes", size, sized.Problem.Nodes()), float64(size), batches, groups); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// scenario adds a scenario with the given batches to a comparison.
func (o *comparePlacementOptions) scenario(c *metis.Comparison, s *metis.Setup, name string, x float64, batches [][]int, groups []uint64) error {
	scenario := metis.Scenario{Name: name, X: x, Options: s.Options}
	for _, g := range groups {
		if g >= uint64(len(batches)) {
			return fmt.Errorf("--groups: no group %d of %s, there are %d, counted from 0", g, name, len(batches))
		}
		batch := batches[g]
		if len(batch) != len(s.Apps()) {
			return fmt.Errorf("group %d of %s has %d counts, the table has %d apps", g, name, len(batch), len(s.Apps()))
		}
		at := metis.Case{Group: g}
		at.Problem, at.Told = s.WithBatch(batch)
		if err := wantFits(at.Problem); err != nil {
			return err
		}
		scenario.Cases = append(scenario.Cases, at)
	}
	c.Scenarios = append(c.Scenarios, scenario)
	return nil
}
