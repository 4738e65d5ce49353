package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis/methods"
)

// simulatingPlacement holds the flags of optimize simulate placement.
type simulatingPlacement struct {
	placementFlags
	counts, batch, method, format, output, nodesOut, arrivals string
	migrate                                                   int
	moveCost                                                  float64
	seed                                                      uint64
	list                                                      bool
}

func simulatePlacementCommand(e *env, c *common) *cobra.Command {
	f := &simulatingPlacement{}
	cmd := &cobra.Command{
		Use: "placement", Short: "Long-running containers that disturb each other, placed on nodes, as Metis does", Args: cobra.NoArgs,
		Long: `Places a batch of containers on nodes. How fast a container is depends on what else is on its node, which a table of throughputs
says for every pattern of containers that a node can hold; that of Metis (SC 2020: seven apps, nodes of 8 containers) is in the
binary. Without flags the first of its batches of 200 containers is placed on 81 nodes, exactly.

Batches: --counts, --batch FILE[:ROW] (.npz of Metis or CSV; rows count from 0), or --batch metis:SIZE:GROUP from the binary.
With --predictor forest methods know predicted throughputs only; figures are of the table.
--arrivals FILE has containers come and go: a line APP,+1 or APP,-1 for each, of which the oldest goes; the placement at the
end is printed.

Methods that learn give the best so far when interrupted (exit code 130).

--json prints: schema, engine, method, placement[[containers of each app] per node], mean_rps, slo_share,
violations{magnitude, instances}, nodes_used, bound, gap, solve_s, warnings[], seed, compat, batch, counts, nodes, node_types,
slo, objective, value, predictor, predicted_rps, cost, apps[app, containers, mean_rps, slo_share], curve[episode, seconds,
mean, best], notes[]. Bound and gap are of the method's objective, with what it knew of throughputs.
Exit code 6: the batch does not fit, or no placement keeps the limits.`,
		Example: `  optimize simulate placement
  optimize simulate placement --nodes 81 --counts 27,32,12,37,30,34,28 --method metis
  optimize simulate placement --method greedy --out page.html
  optimize simulate placement --batch metis:1000:0 --method greedy --json
  optimize simulate placement --objective rps=1,vacant=0.5 --max-violations 20
  optimize simulate placement --methods`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return methods.List(e.stdout)
			}
			return e.simulatePlacement(cmd, c, f)
		},
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringVar(&f.counts, "counts", "", "containers of each app, `A,B`…, in the table's order")
	fs.StringVar(&f.batch, "batch", "", "of counts: `FILE[:ROW]` or metis:SIZE:GROUP")
	f.placementFlags.add(fs)
	fs.StringVar(&f.method, "method", "exact", "who places, see --methods")
	fs.BoolVar(&f.list, "methods", false, "list the methods, what each does and where it is from")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of methods that draw or learn")
	fs.StringVar(&f.arrivals, "arrivals", "", "CSV `FILE` of containers that come and go: app, +1 or −1")
	fs.IntVar(&f.migrate, "migrate", 0, "with --arrivals: `N` containers may move after each line")
	fs.Float64Var(&f.moveCost, "move-cost", 0.1, "with --migrate: what a move must gain")
	fs.StringVar(&f.format, "format", "text", strings.Join(methods.Formats(), "|")+" (default: by the name of --out)")
	fs.StringVarP(&f.output, "out", "o", "", "write to `FILE` instead of standard output")
	fs.StringVar(&f.nodesOut, "nodes-out", "", "write what each node holds to `FILE` as CSV")
	return cmd
}

// theBatch returns the batch to place and its description.
func (f *simulatingPlacement) theBatch(e *env, cmd *cobra.Command, apps []string) (batch []int, words string, err error) {
	named, counted := cmd.Flags().Changed("batch"), cmd.Flags().Changed("counts")
	switch {
	case named && counted:
		return nil, "", errors.New("--counts says nothing with --batch")
	case counted:
		if batch, err = parseCounts(f.counts); err != nil {
			return nil, "", err
		}
	case named || slices.Equal(apps, place.MetisApps()):
		name := f.batch
		if !named {
			name = "metis:200:0"
		}
		if batch, words, err = readBatch(e, name, apps); err != nil {
			return nil, "", err
		}
	default:
		return nil, "", errors.New("name the batch: --counts or --batch")
	}
	if len(batch) != len(apps) {
		return nil, "", fmt.Errorf("a batch of %d counts: the table has %d apps: %s", len(batch), len(apps), strings.Join(apps, ", "))
	}
	return batch, words, nil
}

func parseCounts(text string) ([]int, error) {
	var out []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 || n > 1<<24 {
			return nil, fmt.Errorf("--counts %q: want whole numbers that are not negative, one for each app", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// readBatch reads a batch given as FILE, FILE:ROW or metis:SIZE:GROUP.
func readBatch(e *env, text string, apps []string) ([]int, string, error) {
	if parts := strings.Split(text, ":"); parts[0] == metisData {
		var size, group int
		var err1, err2 error
		if len(parts) > 1 {
			size, err1 = strconv.Atoi(parts[1])
		}
		if len(parts) > 2 {
			group, err2 = strconv.Atoi(parts[2])
		}
		if err := errors.Join(err1, err2); err != nil || len(parts) < 2 || len(parts) > 3 {
			return nil, "", fmt.Errorf("--batch %q: want metis:SIZE:GROUP, such as metis:200:0", text)
		}
		batches, err := place.MetisBatches(size)
		if err != nil {
			return nil, "", fmt.Errorf("--batch %q: %w", text, err)
		}
		if group < 0 || group >= len(batches) {
			return nil, "", fmt.Errorf("--batch %q: want a group from 0 to %d", text, len(batches)-1)
		}
		return batches[group], fmt.Sprintf("group %d of %d containers of Metis", group, size), nil
	}
	file, row := text, 0
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil {
			return nil, "", fmt.Errorf("--batch %q: want FILE or FILE:ROW", text)
		}
		file, row = text[:i], n
	}
	batches, err := place.ReadBatches(inDir(e.dir, file), apps)
	if err != nil {
		return nil, "", fmt.Errorf("--batch: %w", err)
	}
	if row < 0 || row >= len(batches) {
		return nil, "", fmt.Errorf("--batch %q: no row %d, the file has %d, counted from 0", text, row, len(batches))
	}
	return batches[row], fmt.Sprintf("row %d of %s", row, file), nil
}

// config returns the run given by the flags, without an outcome.
func (f *simulatingPlacement) config(e *env, cmd *cobra.Command) (*methods.Report, *placing, error) {
	m, err := methods.Find(f.method)
	if err != nil {
		return nil, nil, fmt.Errorf("--method: %w", err)
	}
	if !cmd.Flags().Changed("nodes") {
		if size, _, _ := strings.Cut(strings.TrimPrefix(f.batch, metisData+":"), ":"); strings.HasPrefix(f.batch, metisData+":") && len(size) > 3 {
			f.nodes = 729
		}
	}
	p, err := f.prepare(e, cmd)
	if err != nil {
		return nil, nil, err
	}
	for name, ok := range map[string]bool{"objective": m.Objective, "max-violations": m.Limits, "min-slo": m.Limits, "max-nodes": m.Limits, "max-cost": m.Limits,
		"episodes": m.Learned, "model": f.method == "metis" || f.method == "divide-conquer",
		"zones": f.method == "george", "zone-budget": f.method == "george", "apart": f.method == "george"} {
		if !ok && cmd.Flags().Changed(name) {
			return nil, nil, fmt.Errorf("--%s says nothing with --method %s, see --methods", name, f.method)
		}
	}
	if m.Wishes && len(p.problem.Constraints) == 0 {
		return nil, nil, fmt.Errorf("--method %s knows nothing but wishes about neighbours, and there are none", f.method)
	}
	if f.method == "metis" && (len(p.problem.Types) > 1 || p.problem.Existing != nil) {
		return nil, nil, errors.New("--method metis: its sub-schedulers are for empty nodes of one type; divide-conquer takes any")
	}
	if f.method == "metis" && f.model == "" && !(slices.Equal(p.apps(), place.MetisApps()) && p.problem.Types[0].Table.Capacity() == 8) {
		return nil, nil, errors.New("--method metis: the sub-schedulers in the binary are for the apps of Metis and nodes of 8; name others by --model (optimize pretrain --env placement --table FILE), or take divide-conquer, which needs none")
	}
	batch, words, err := f.theBatch(e, cmd, p.apps())
	if err != nil {
		return nil, nil, err
	}
	r := &methods.Report{Method: f.method, Seed: f.seed, Compat: f.compat, Objective: p.options.Objective, Limits: p.options.Limits, Predictor: p.predictor, Notes: p.notes}
	r.Problem, r.Told = p.with(batch)
	r.What = batchWords(words, p.apps(), r.Problem)
	if f.compat && m.Compat == "" {
		r.Notes = append(r.Notes, fmt.Sprintf("--compat changes nothing of %s", f.method))
	}
	if err := fits(r.Problem); err != nil {
		return nil, nil, err
	}
	return r, p, r.Problem.Validate()
}

func batchWords(from string, apps []string, p *place.Problem) string {
	var words []string
	n := 0
	for a, k := range p.Batch {
		n += k
		if k > 0 {
			words = append(words, fmt.Sprintf("%d %s", k, apps[a]))
		}
	}
	if from == "" {
		from = fmt.Sprintf("%d containers", n)
	}
	if words != nil {
		from += ": " + strings.Join(words, ", ")
	}
	if p.Existing != nil {
		from += fmt.Sprintf("; %d run already", p.Containers()-n)
	}
	return from
}

// asExit assigns placement errors their exit codes.
func asExit(err error, fallback func(error) error) error {
	var exit exitError
	switch {
	case err == nil || errors.As(err, &exit):
		return err
	case errors.Is(err, place.ErrInfeasible):
		return exitError{run.CodeInfeasible, err}
	}
	return fallback(err)
}

// simulatePlacement places one batch by one method and writes the result. After an interrupt it writes the best
// placement found so far, if any. With --arrivals it simulates a stream instead.
func (e *env) simulatePlacement(cmd *cobra.Command, common *common, f *simulatingPlacement) error {
	format, err := formatOf(cmd, common, f.format, f.output, methods.Formats())
	if err != nil {
		return usageError{err}
	}
	if f.arrivals != "" {
		return e.simulateArrivals(cmd, f, format)
	}
	for _, name := range []string{"migrate", "move-cost"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s says nothing without --arrivals", name)}
		}
	}
	r, p, err := f.config(e, cmd)
	if err != nil {
		return asExit(err, func(err error) error { return usageError{err} })
	}
	ctx, stop := e.untilSignal()
	defer stop()
	o := p.options
	o.Seed = f.seed
	from := e.clock.Monotonic()
	bar := e.bar(common, "learning")
	if f.episodes > 0 {
		o.Progress = func(n int) { bar.at(n, f.episodes) }
	}
	known := r.Problem
	if r.Told != nil {
		known = r.Told
	}
	r.Outcome, err = methods.Place(ctx, f.method, known, o)
	bar.done()
	r.SolveS = (e.clock.Monotonic() - from).Seconds()
	var broken interruptedBy
	if err != nil && errors.As(context.Cause(ctx), &broken) {
		if r.Outcome == nil {
			return exitError{broken.code(), fmt.Errorf("simulate placement: %w, nothing was placed so far", broken)}
		}
		r.Notes = append(r.Notes, "interrupted: the placement is the best so far")
		if err := e.writePlacement(f, format, r); err != nil {
			return err
		}
		return exitError{broken.code(), fmt.Errorf("simulate placement: %w, the placement is the best so far", broken)}
	}
	if err != nil {
		return asExit(err, func(err error) error { return err })
	}
	return e.writePlacement(f, format, r)
}

func (e *env) writePlacement(f *simulatingPlacement, format string, r *methods.Report) error {
	if err := e.put(f.output, "placement", func(w io.Writer) error { return r.Write(w, format) }); err != nil || f.nodesOut == "" {
		return err
	}
	return e.put(f.nodesOut, "nodes", func(w io.Writer) error { return r.Write(w, "csv") })
}
