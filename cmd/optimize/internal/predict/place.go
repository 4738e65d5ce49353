package predict

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat/combin"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/wording"
	"trainopt/optimizer/colocate"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
)

// placeOptions holds the flags of `profile place`.
type placeOptions struct {
	measureFlags
	table, method, against, out string
	counts                      []string
	nodes, capacity, orders     int
}

func placeCommand(e *cli.Env) *cobra.Command {
	o := &placeOptions{}
	cmd := &cobra.Command{
		Use: "place --spec FILE --table TABLE --nodes N --counts A,B…", Short: "Run a placement for real and compare it with its prediction", Args: cobra.NoArgs,
		Long: `Place containers by a table of profile colocate, run every node of the placement for real, one after another on the CPUs of
the specification, and compare the measured throughput with the predicted one; the same for another placement, round-robin by
default. Measurements are those of profile colocate: duets with containers alone, repeated until the intervals are narrow, the
nodes of both placements in random order. Nodes with the same pattern share their measurements.

Several --counts are several batches, whose mean is reported. round-robin, binpack and other rules that look at no throughputs
depend on the order of the apps: --orders 24 reports their mean over all orders of four apps, or over 24 random ones of more.

--json prints: schema, seconds, placements[method, orders, nodes[[containers of each app]] of all batches and orders,
predicted_rps, predicted_lo, predicted_hi, estimated_nodes, measured_rps, measured_lo, measured_hi, error], predicted_gain, gain,
gain_lo, gain_hi (over the other placement). Values that are not known are null.`,
		Example: `  optimize profile place --spec apps.yaml --table table.csv --nodes 4 --counts 2,2,2,2 --orders 24 --timeout 20m
  optimize profile place --spec apps.yaml --table table.csv --nodes 4 --counts 1,2,3,2 --counts 3,2,1,2`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.add(e.Options(cmd))
	fs := o.Flags
	fs.StringVar(&o.table, "table", "", "table `FILE` of profile colocate")
	fs.IntVar(&o.nodes, "nodes", 0, "number of nodes")
	fs.StringArrayVar(&o.counts, "counts", nil, "containers of each app, `A,B`…, in the order of the specification (repeatable: several batches)")
	fs.IntVar(&o.orders, "orders", 1, "maximum number of orders of the apps, over which rules that depend on it are averaged")
	fs.IntVar(&o.capacity, "capacity", 0, "maximum number of containers of a node (default: the largest pattern of the table)")
	fs.StringVar(&o.method, "method", "exact", "method of the placement, see simulate placement --list-methods")
	fs.StringVar(&o.against, "against", "round-robin", "method of the other placement, or none")
	fs.StringVarP(&o.out, "output", "o", "", "also write the measured patterns to `FILE`, CSV")
	return cmd
}

// placed is a placement by a method.
type placed struct {
	method              string
	orders              int             // of the apps
	placement           place.Placement // of all batches and orders
	predicted, measured colocate.Estimate
	estimated           int // nodes whose pattern the table does not contain
}

// problem reads the flags and the table.
func (o *placeOptions) problem() (spec *colocate.Spec, dir string, rows []colocate.Row, batches []*place.Problem, estimated []bool, err error) {
	if spec, dir, err = o.readSpec(); err != nil {
		return
	}
	var errs []error
	if o.table == "" {
		errs = append(errs, errors.New("--table is required: a table of profile colocate"))
	}
	if o.nodes < 1 {
		errs = append(errs, fmt.Errorf("--nodes %d: want at least 1", o.nodes))
	}
	errs = append(errs, o.Want("capacity", o.capacity >= 1 && o.capacity <= 255, "1 to 255"), o.Want("orders", o.orders >= 1 && o.orders <= 1000, "1 to 1000"))
	if len(o.counts) == 0 {
		o.counts = []string{""}
	}
	for _, text := range o.counts {
		batch, err := parseCounts(text, spec.Names())
		batches, errs = append(batches, &place.Problem{Batch: batch}), append(errs, err)
	}
	if err = errors.Join(errs...); err != nil {
		return
	}
	if rows, err = o.readRows("table", o.table, spec.Names(), false); err != nil {
		return
	}
	samples := colocate.Samples(spec.Names(), rows)
	if o.capacity == 0 {
		o.capacity = samples.Largest()
	}
	t, estimated, err := samples.CompleteTable(o.capacity, place.ForestOptions{})
	if err != nil {
		err = fmt.Errorf("--table %s: %w", o.table, err)
		return
	}
	for _, p := range batches {
		p.Types = []place.NodeType{{Name: "node", Count: o.nodes, Table: t}}
		if n := p.Containers(); n > p.Room() {
			err = cli.Infeasiblef("place %d containers: %d nodes hold %d", n, p.Nodes(), p.Room())
		}
	}
	return
}

// place places all batches by a method: by a rule, which looks at no throughputs, in several orders of the apps.
func (o *placeOptions) place(name string, batches []*place.Problem) (*placed, error) {
	method, err := metis.Find(name)
	if err != nil {
		return nil, err
	}
	n, rng := len(batches[0].Batch), rand.New(rand.NewPCG(o.seed, 3))
	orders := [][]int{slices.Sorted(slices.Values(rng.Perm(n)))}
	if rule := !method.Objective && !method.Wishes; rule && n < 8 && combin.NumPermutations(n, n) <= o.orders {
		orders = combin.Permutations(n, n)
	} else if rule {
		for len(orders) < o.orders {
			orders = append(orders, rng.Perm(n))
		}
	}
	a := &placed{method: name, orders: len(orders)}
	for _, p := range batches {
		for _, order := range orders {
			ordered := place.Problem{Types: p.Types}
			for _, app := range order {
				ordered.Batch = append(ordered.Batch, p.Batch[app])
			}
			out, err := metis.Place(context.Background(), name, &ordered, metis.Options{Seed: o.seed, Clock: o.Clock.Monotonic})
			if err != nil {
				return nil, fmt.Errorf("place by %s: %w", name, err)
			}
			for _, node := range out.Placement {
				counts := make([]uint8, n)
				for i, app := range order {
					counts[app] = node[i]
				}
				a.placement = append(a.placement, counts)
			}
		}
	}
	return a, nil
}

// parseCounts parses the counts of a batch.
func parseCounts(text string, apps []string) ([]int, error) {
	var out []int
	total := 0
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 || n > 1<<20 {
			return nil, fmt.Errorf("--counts %q: want whole numbers that are not negative, of %s", text, strings.Join(apps, ", "))
		}
		out, total = append(out, n), total+n
	}
	if len(out) != len(apps) || total == 0 {
		return nil, fmt.Errorf("--counts %q: want %d numbers, not all 0, of %s", text, len(apps), strings.Join(apps, ", "))
	}
	return out, nil
}

// run places, measures and prints.
func (o *placeOptions) run() error {
	spec, dir, rows, batches, estimated, err := o.problem()
	if err != nil {
		return cli.Usage(err)
	}
	names := []string{o.method}
	if o.against != "none" {
		names = append(names, o.against)
	}
	var all []*placed
	table, patterns := batches[0].Types[0].Table, map[string]bool{}
	for _, name := range names {
		a, err := o.place(name, batches)
		if err != nil {
			return cli.Usage(err)
		}
		all = append(all, a)
		for _, counts := range a.placement {
			at := table.Index(counts)
			if at > 0 {
				patterns[string(counts)] = true
			}
			if estimated[at] {
				a.estimated++
			}
		}
		a.predicted = colocate.MeanRPS(a.placement, predictions(table, rows))
	}
	p, err := o.profile(spec.Names(), o.capacity)
	if err != nil {
		return cli.Usage(err)
	}
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		p.Only = append(p.Only, []uint8(pattern))
	}
	m, done, err := o.measurer(spec, dir)
	if err != nil {
		return cli.Usage(err)
	}
	defer done()
	p.Measure = m
	elapsed, err := o.measure("profile place", "", p, o.out)
	if err != nil {
		return err
	}
	for _, a := range all {
		a.measured = colocate.MeanRPS(a.placement, p.Rows())
	}
	if o.JSON {
		return o.PrintJSON(document(all, elapsed.Seconds()))
	}
	return o.text(spec.Names(), all, p, elapsed.Seconds())
}

// predictions returns a row for every pattern of a table: a measured one with its interval, or an estimate without.
func predictions(t *place.Table, rows []colocate.Row) []colocate.Row {
	out := make([]colocate.Row, 0, t.Patterns())
	for at := range t.Patterns() {
		r := colocate.Row{Counts: t.Counts(at), Cycles: 1}
		for _, v := range t.RPS(at) {
			r.RPS = append(r.RPS, colocate.Estimate{Mean: v, Lo: math.NaN(), Hi: math.NaN()})
		}
		out = append(out, r)
	}
	return append(out, rows...) // the last row of a pattern is used
}

// gain returns the measured throughput of the first placement relative to the second, with the interval of a quotient of
// independent values.
func gain(a, b colocate.Estimate) colocate.Estimate {
	mean := a.Mean / b.Mean
	half := mean * math.Hypot(a.Half()/a.Mean, b.Half()/b.Mean)
	return colocate.Estimate{Mean: mean, Lo: mean - half, Hi: mean + half}
}

// number returns a value for JSON: null if it is not known.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v = math.Round(1e4*v) / 1e4
	return &v
}

// document returns the result as JSON.
func document(all []*placed, seconds float64) any {
	var placements []map[string]any
	for _, a := range all {
		nodes := make([][]int, len(a.placement))
		for i, counts := range a.placement {
			for _, k := range counts {
				nodes[i] = append(nodes[i], int(k))
			}
		}
		placements = append(placements, map[string]any{"method": a.method, "orders": a.orders, "nodes": nodes, "estimated_nodes": a.estimated,
			"predicted_rps": number(a.predicted.Mean), "predicted_lo": number(a.predicted.Lo), "predicted_hi": number(a.predicted.Hi),
			"measured_rps": number(a.measured.Mean), "measured_lo": number(a.measured.Lo), "measured_hi": number(a.measured.Hi),
			"error": number(a.measured.Mean/a.predicted.Mean - 1)})
	}
	out := map[string]any{"schema": 1, "seconds": math.Round(1000*seconds) / 1000, "placements": placements, "predicted_gain": nil, "gain": nil, "gain_lo": nil, "gain_hi": nil}
	if len(all) > 1 {
		g := gain(all[0].measured, all[1].measured)
		out["predicted_gain"] = number(all[0].predicted.Mean/all[1].predicted.Mean - 1)
		out["gain"], out["gain_lo"], out["gain_hi"] = number(g.Mean-1), number(g.Lo-1), number(g.Hi-1)
	}
	return out
}

// text prints the result.
func (o *placeOptions) text(apps []string, all []*placed, p *colocate.Profile, seconds float64) error {
	means := &page.Table{Columns: append(page.Left("placement"), page.Right("predicted", "measured", "error", "nodes estimated")...), Named: true}
	nodes := &page.Table{Columns: append(page.Left("placement", "nodes with"), page.Right("nodes", "measured rps")...), Named: true}
	measured := map[string]colocate.Row{}
	for _, r := range p.Rows() {
		measured[string(r.Counts)] = r
	}
	for _, a := range all {
		means.Rows = append(means.Rows, page.Row(a.method, withInterval(a.predicted), withInterval(a.measured),
			page.Change(100*(a.measured.Mean/a.predicted.Mean-1)), strconv.Itoa(a.estimated)))
		kinds := map[string]int{}
		for _, counts := range a.placement {
			kinds[string(counts)]++
		}
		name := a.method
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			label, rps := colocate.Label(apps, []uint8(kind)), "no data"
			if r, ok := measured[kind]; ok {
				rps = speeds(apps, r)
			}
			if label == "" {
				label, rps = "nothing", ""
			}
			nodes.Rows = append(nodes.Rows, page.Row(name, label, strconv.Itoa(kinds[kind]), rps))
			name = ""
		}
	}
	notes := []string{"Mean throughput of a container relative to one alone on a node, with 90 % intervals."}
	for _, a := range all {
		if len(a.placement) > o.nodes {
			notes = append(notes, fmt.Sprintf("%s: mean over %d batches × %d orders of the apps.", a.method, len(o.counts), a.orders))
		}
	}
	if n := p.Missing(); n > 0 {
		notes = append(notes, fmt.Sprintf("The budget is spent: %d patterns were not measured.", n))
	}
	subtitle := "measured in " + wording.Duration(seconds)
	if len(all) > 1 {
		g := gain(all[0].measured, all[1].measured)
		if !math.IsNaN(g.Mean) {
			subtitle += fmt.Sprintf("; %s gives %s times the throughput of %s, predicted %.3f", all[0].method, withInterval(g), all[1].method, all[0].predicted.Mean/all[1].predicted.Mean)
		}
	}
	return (page.Document{Layout: page.Listing, Title: fmt.Sprintf("%d nodes, run for real", o.nodes), Subtitle: subtitle,
		Sections: []page.Section{{Title: "Predicted and measured", Blocks: []page.Block{{Table: means}, {Table: nodes}}, Notes: notes}}}).Text(o.Stdout)
}
