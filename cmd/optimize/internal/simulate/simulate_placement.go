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

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
)

// simulatePlacementOptions holds the flags of `simulate placement`.
type simulatePlacementOptions struct {
	placementFlags
	format                                    cli.Format
	counts, batch, method, nodesOut, arrivals string
	migrate                                   int
	moveCost                                  float64
	seed                                      uint64
	list                                      bool
	estimateNote                              func(place.Placement) string
}

func simulatePlacementCommand(e *cli.Env) *cobra.Command {
	o := &simulatePlacementOptions{}
	cmd := &cobra.Command{
		Use: "placement", Short: "Placement of long-running, interfering containers on nodes, as in Metis", Args: cobra.NoArgs,
		Long: `Place a batch of containers on nodes. The throughput of a container depends on the other containers of its node, as given
by a table for every pattern of containers that a node can hold; that of Metis (SC 2020: seven apps, nodes of 8 containers)
is embedded. By default, the first of its batches of 200 containers is placed on 81 nodes, exactly.

Batches: --counts, --batch FILE[:ROW] (.npz of Metis or CSV; rows count from 0), or --batch metis:SIZE:GROUP (embedded).
With --predictor forest, methods are given only predicted throughputs; results are of the table.
--arrivals FILE simulates arriving and departing containers: each line is APP,+1 or APP,-1, and the oldest container departs
first; the final placement is printed.

Methods that learn return the best placement so far when interrupted (exit code 130).

--json prints: schema, engine, method, placement[[containers of each app] per node], mean_rps, slo_share,
violations{magnitude, instances}, nodes_used, bound, gap, solve_s, warnings[], seed, compat, batch, counts, nodes, node_types,
slo, objective, value, predictor, predicted_rps, cost, apps[app, containers, mean_rps, slo_share], curve[episode, seconds,
mean, best], notes[]. Bound and gap are of the method's objective, with the throughputs that it is given.

Exit code 6: the batch exceeds the capacity, or no placement meets the limits.`,
		Example: `  optimize simulate placement
  optimize simulate placement --nodes 81 --counts 27,32,12,37,30,34,28 --method metis
  optimize simulate placement --method greedy --output page.html
  optimize simulate placement --batch metis:1000:0 --method greedy --json
  optimize simulate placement --objective rps=1,vacant=0.5 --max-violations 20
  optimize simulate placement --list-methods`,
		RunE: func(*cobra.Command, []string) error {
			if o.list {
				return printList(o.Env, "methods", metis.List())
			}
			return o.run()
		},
	}
	o.add(e.Options(cmd))
	fs := o.Flags
	fs.StringVar(&o.counts, "counts", "", "containers of each app, `A,B`…, in the order of the table")
	fs.StringVar(&o.batch, "batch", "", "read the counts from `FILE[:ROW]` or metis:SIZE:GROUP")
	fs.StringVar(&o.method, "method", "exact", "method, see --list-methods")
	fs.BoolVar(&o.list, "list-methods", false, "list the methods with their sources")
	fs.Uint64Var(&o.seed, "seed", 0, "random seed of the method")
	fs.StringVar(&o.arrivals, "arrivals", "", "CSV `FILE` of arriving and departing containers: app, +1 or −1")
	fs.IntVar(&o.migrate, "migrate", 0, "with --arrivals: maximum number `N` of migrations after each line")
	fs.Float64Var(&o.moveCost, "move-cost", 0.1, "with --migrate: minimum gain of a migration")
	o.format.Add(fs, metis.Formats())
	fs.StringVar(&o.nodesOut, "nodes-out", "", "write the containers of each node to `FILE` as CSV")
	return cmd
}

// rules returns the flags that cannot be combined with the method.
func (o *simulatePlacementOptions) rules(m metis.Method) []cli.Rule {
	conflict := fmt.Sprintf("--method %s, see --list-methods", o.method)
	return []cli.Rule{
		{If: !m.Objective, Flags: "objective", Conflict: conflict},
		{If: !m.Limits, Flags: "max-violations min-slo max-nodes max-cost", Conflict: conflict},
		{If: !m.Learned, Flags: "episodes", Conflict: conflict},
		{If: o.method != "metis" && o.method != "divide-conquer", Flags: "agent", Conflict: conflict},
		{If: o.method != "george", Flags: "zones zone-budget apart", Conflict: conflict},
		{If: true, Flags: "migrate move-cost", Requires: "--arrivals"},
		{If: o.Changed("batch"), Flags: "counts", Conflict: "--batch"},
	}
}

// selectBatch returns the batch to place and its description.
func (o *simulatePlacementOptions) selectBatch(apps []string) (batch []int, description string, err error) {
	switch {
	case o.Changed("counts"):
		batch, err = parseCounts(o.counts)
	case o.Changed("batch"):
		batch, description, err = readBatch(o.Path, o.batch, apps)
	case slices.Equal(apps, place.MetisApps()):
		batch, description, err = readBatch(o.Path, "metis:200:0", apps)
	default:
		err = errors.New("name the batch: --counts or --batch")
	}
	if err == nil && len(batch) != len(apps) {
		err = fmt.Errorf("a batch of %d counts: the table has %d apps: %s", len(batch), len(apps), strings.Join(apps, ", "))
	}
	return batch, description, err
}

// readBatch reads a batch given as FILE, FILE:ROW or metis:SIZE:GROUP.
func readBatch(path func(string) string, text string, apps []string) ([]int, string, error) {
	if parts := strings.Split(text, ":"); parts[0] == place.EmbeddedData {
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
	batches, err := place.ReadBatches(path(file), apps)
	if err != nil {
		return nil, "", fmt.Errorf("--batch: %w", err)
	}
	if len(batches) == 0 {
		return nil, "", fmt.Errorf("--batch %q: no counts in the file", text)
	}
	if row < 0 || row >= len(batches) {
		return nil, "", fmt.Errorf("--batch %q: no row %d, the file has %d, counted from 0", text, row, len(batches))
	}
	return batches[row], fmt.Sprintf("row %d of %s", row, file), nil
}

// config returns the run given by the flags, without an outcome, and the options of the method.
func (o *simulatePlacementOptions) config() (*metis.Report, metis.Options, error) {
	m, err := metis.Find(o.method)
	if err != nil {
		return nil, metis.Options{}, fmt.Errorf("--method: %w", err)
	}
	if size, _, _ := strings.Cut(strings.TrimPrefix(o.batch, place.EmbeddedData+":"), ":"); !o.Changed("nodes") && strings.HasPrefix(o.batch, place.EmbeddedData+":") && len(size) > 3 {
		o.nodes = 729
	}
	if err := o.Check(o.rules(m)...); err != nil {
		return nil, metis.Options{}, err
	}
	s, err := o.setup()
	if err != nil {
		return nil, metis.Options{}, err
	}
	if m.Wishes && len(s.Problem.Constraints) == 0 {
		return nil, metis.Options{}, fmt.Errorf("--method %s uses only constraints on neighbours, and there are none", o.method)
	}
	if o.method == "metis" && (len(s.Problem.Types) > 1 || s.Problem.Existing != nil) {
		return nil, metis.Options{}, errors.New("--method metis: its sub-schedulers are for empty nodes of one type; divide-conquer has no such restriction")
	}
	if o.method == "metis" && o.model == "" && !(slices.Equal(s.Apps(), place.MetisApps()) && s.Problem.Types[0].Table.Capacity() == 8) {
		return nil, metis.Options{}, errors.New("--method metis: the embedded sub-schedulers are for the apps of Metis and nodes of 8; name others by --agent (optimize pretrain --env placement --table FILE), or use divide-conquer, which requires none")
	}
	batch, description, err := o.selectBatch(s.Apps())
	if err != nil {
		return nil, metis.Options{}, err
	}
	r := o.result(s)
	r.Method, r.Seed, r.Compat = o.method, o.seed, o.compat
	r.Problem, r.Told = s.WithBatch(batch)
	r.What = describeBatch(description, s.Apps(), r.Problem)
	if o.compat && m.Compat == "" {
		r.Notes = append(r.Notes, fmt.Sprintf("--compat has no effect on %s", o.method))
	}
	if err := wantFits(r.Problem); err != nil {
		return nil, metis.Options{}, err
	}
	s.Options.Seed = o.seed
	o.estimateNote = s.EstimateNote
	return r, s.Options, r.Problem.Validate()
}

// result returns the part of a run that the setup determines.
func (o *simulatePlacementOptions) result(s *metis.Setup) *metis.Report {
	return &metis.Report{Objective: s.Options.Objective, Predictor: s.Predictor, Notes: s.Notes}
}

func describeBatch(from string, apps []string, p *place.Problem) string {
	var counts []string
	n := 0
	for a, k := range p.Batch {
		n += k
		if k > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", k, apps[a]))
		}
	}
	if from == "" {
		from = fmt.Sprintf("%d containers", n)
	}
	if counts != nil {
		from += ": " + strings.Join(counts, ", ")
	}
	if p.Existing != nil {
		from += fmt.Sprintf("; %d are already running", p.Containers()-n)
	}
	return from
}

// run places one batch by one method and writes the result. After an interrupt it writes the best placement found so
// far, if any. With --arrivals it simulates a stream instead.
func (o *simulatePlacementOptions) run() error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	if o.arrivals != "" {
		return o.runArrivals()
	}
	r, options, err := o.config()
	if err != nil {
		return cli.Usage(placementError(err))
	}
	known := r.Problem
	if r.Told != nil {
		known = r.Told
	}
	elapsed, interrupt, err := o.Work("learning", func(ctx context.Context, progress func(done, total int)) (err error) {
		if o.episodes > 0 {
			options.Progress = func(n int) { progress(n, o.episodes) }
		}
		r.Outcome, err = metis.Place(ctx, o.method, known, options)
		return err
	})
	r.SolveS = elapsed.Seconds()
	if r.Outcome != nil {
		if note := o.estimateNote(r.Placement); note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	switch {
	case err == nil:
		return o.write(r)
	case interrupt == nil:
		return placementError(err)
	case r.Outcome == nil:
		return interrupt.Exitf("simulate placement: %w before any placement was found", interrupt)
	}
	r.Notes = append(r.Notes, "interrupted: the placement is the best so far")
	if err := o.write(r); err != nil {
		return err
	}
	return interrupt.Exitf("simulate placement: %w, the placement is the best so far", interrupt)
}

// runArrivals replays the lines of --arrivals by the greedy method.
func (o *simulatePlacementOptions) runArrivals() error {
	if err := o.Check(cli.Rule{If: true, Flags: "batch counts min-slo seed episodes agent zones zone-budget apart", Conflict: "--arrivals"}); err != nil {
		return cli.Usage(err)
	}
	if o.Changed("method") && o.method != "greedy" {
		return cli.Usagef("--method %s cannot be combined with --arrivals: arriving containers are placed by greedy", o.method)
	}
	if err := errors.Join(o.Want("migrate", o.migrate >= 0, "a number that is not negative"), o.Want("move-cost", o.moveCost >= 0, "a number that is not negative")); err != nil {
		return cli.Usage(err)
	}
	s, err := o.setup()
	if err != nil {
		return cli.Usage(placementError(err))
	}
	lines, err := metis.ReadArrivals(o.Path(o.arrivals), s.Apps())
	if err != nil {
		return cli.Usagef("--arrivals: %w", err)
	}
	known := s.Problem
	if s.Predicted != nil {
		known = s.Predicted
	}
	from := o.Clock.Monotonic()
	initial := *known
	initial.Batch = make([]int, len(s.Apps()))
	got, err := metis.Stream(&initial, lines, s.Options.Objective, s.Options.Limits, metis.StreamOptions{Migrations: o.migrate, MoveCost: o.moveCost})
	if err != nil {
		return cli.Usage(err)
	}
	r := o.result(s)
	r.Method = "greedy"
	r.Problem, r.Told = s.WithBatch(got.Batch)
	known, r.Problem.Existing = r.Problem, nil // containers that ran at the start could depart and migrate too
	if r.Told != nil {
		known, r.Told.Existing = r.Told, nil
	}
	r.Outcome = &metis.Outcome{Solution: place.Solution{Placement: got.Placement, Value: math.NaN(), Bound: math.NaN(), Gap: math.NaN()}}
	if w, err := known.Evaluate(r.Placement); err == nil {
		r.Value = r.Objective.Value(w, known.Nodes())
	}
	r.What = describeBatch(fmt.Sprintf("after %d lines of arrivals: %d arrived, %d departed, %d moved", len(lines), got.Arrived, got.Departed, got.Moved), s.Apps(), r.Problem)
	if got.Refused > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d containers were refused: no node had room within the limits", got.Refused))
	}
	if got.Absent > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("ignored departures of absent containers: %d", got.Absent))
	}
	r.SolveS = (o.Clock.Monotonic() - from).Seconds()
	return o.write(r)
}

func (o *simulatePlacementOptions) write(r *metis.Report) error {
	if err := o.Write(o.format.File, "placement", func(w io.Writer) error { return r.Write(w, o.format.Name) }); err != nil || o.nodesOut == "" {
		return err
	}
	return o.Write(o.nodesOut, "nodes", func(w io.Writer) error { return r.Write(w, "csv") })
}
