package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/internal/regular"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/place"
	"trainopt/optimizer/schedule/place/interference"
	"trainopt/simulator/ancestors/metis/learned"
	"trainopt/simulator/ancestors/metis/methods"
)

// metisData is the flag value that selects the embedded data instead of a file.
const metisData = "metis"

// placementFlags holds the flags that define the placement problem and its objective.
type placementFlags struct {
	table, predictor, existing, constraints, nodeTypes, objective, model, zones string
	nodes, capacity, episodes, maxNodes                                         int
	slo, maxMissed, minSLO, maxCost, zoneBudget                                 float64
	compat, apart                                                               bool
}

func (f *placementFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.nodes, "nodes", 81, "number of nodes (batches of Metis from 1000 on: 729)")
	fs.IntVar(&f.capacity, "capacity", 0, "containers that a node holds (default: as many as the table has)")
	fs.StringVar(&f.nodeTypes, "node-types", "", "CSV `FILE` of node types: name,count,table,speed,cost,capacity")
	fs.StringVar(&f.table, "table", metisData, "throughputs: `FILE` (.npz of Metis, CSV with n_APP, rps_APP)")
	fs.StringVar(&f.predictor, "predictor", "measured", "what methods know: `measured`, forest (of a fifth), forest:FILE")
	fs.Float64Var(&f.slo, "slo", 0.95, "throughput from which on a container is served")
	fs.StringVar(&f.existing, "existing", "", "CSV `FILE` of what runs already: a row of counts for each node")
	fs.StringVar(&f.constraints, "constraints", "", "wishes: `FILE`, metis, derived or none (default: metis, else derived)")
	fs.StringVar(&f.objective, "objective", "rps", "`WHAT`: rps, slo, vacant, cost, violations, or rps=1,vacant=0.5")
	fs.Float64Var(&f.maxMissed, "max-violations", 0, "wishes may be missed by so much; 0: they are hard")
	fs.Float64Var(&f.minSLO, "min-slo", 0, "at least this share of containers is served")
	fs.IntVar(&f.maxNodes, "max-nodes", 0, "at most so many nodes are used")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "nodes that are used cost at most so much")
	fs.IntVar(&f.episodes, "episodes", 0, "that methods play which learn (default: by method)")
	fs.StringVar(&f.model, "model", "", "`FILE` of sub-schedulers for metis (default: in the binary)")
	fs.StringVar(&f.zones, "zones", "", "for george: `APP=SHARE,…` may run on the first share of the nodes, or none")
	fs.Float64Var(&f.zoneBudget, "zone-budget", 0.05, "for george: share of the batch that may be outside")
	fs.BoolVar(&f.apart, "apart", false, "for george: a node holds at most one container of an app")
	fs.BoolVar(&f.compat, "compat", false, "as the published code does, see --methods")
}

// placing is the problem given by the flags, without a batch.
type placing struct {
	problem, told *place.Problem // told: the problem with predicted throughputs, as seen by the method; nil if the method sees the measured ones
	predictor     string
	options       methods.Options
	notes         []string
}

// with returns the problem for a batch, in its measured and its predicted form.
func (p *placing) with(batch []int) (problem, told *place.Problem) {
	a := *p.problem
	a.Batch = batch
	if p.told == nil {
		return &a, nil
	}
	b := *p.told
	b.Batch = batch
	return &a, &b
}

// apps returns the names of the apps.
func (p *placing) apps() []string { return p.problem.Types[0].Table.Apps() }

// prepare reads all inputs except the batch.
func (f *placementFlags) prepare(e *env, cmd *cobra.Command) (*placing, error) {
	changed := cmd.Flags().Changed
	switch {
	case f.nodes < 1:
		return nil, fmt.Errorf("--nodes %d: want at least 1", f.nodes)
	case changed("capacity") && (f.capacity < 1 || f.capacity > 255):
		return nil, fmt.Errorf("--capacity %d: want 1 to 255", f.capacity)
	case !(f.slo > 0) || math.IsInf(f.slo, 1):
		return nil, fmt.Errorf("--slo %v: want a throughput above 0, relative to alone", f.slo)
	case changed("episodes") && f.episodes < 1:
		return nil, fmt.Errorf("--episodes %d: want at least 1", f.episodes)
	}
	for _, name := range []string{"nodes", "capacity", "table"} {
		if f.nodeTypes != "" && changed(name) {
			return nil, fmt.Errorf("--%s says nothing with --node-types", name)
		}
	}
	p := &placing{problem: &place.Problem{SLO: f.slo}}
	var err error
	if p.problem.Types, err = f.types(e, p); err != nil {
		return nil, err
	}
	for _, step := range []func(*env, *cobra.Command, *placing) error{f.predict, f.wish, f.load, f.aim, f.zone} {
		if err := step(e, cmd, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// types returns the node types. If the table is incomplete and the predictor is a forest, the forest's completion
// replaces the table for methods and evaluation alike.
func (f *placementFlags) types(e *env, p *placing) ([]place.NodeType, error) {
	if f.nodeTypes != "" {
		return readNodeTypes(e, inDir(e.dir, f.nodeTypes))
	}
	t, err := readTable(e, f.table, f.capacity, 1)
	if err != nil && f.predictor == "forest" && f.table != metisData {
		s, sampleErr := place.ReadSamples(inDir(e.dir, f.table))
		if sampleErr != nil {
			return nil, fmt.Errorf("--table: %w", sampleErr)
		}
		if t, err = methods.Grown(s, f.capacityOf(s)); err == nil {
			p.notes = append(p.notes, fmt.Sprintf("%s has not all patterns: all figures are of a forest that was grown from it", f.table))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--table: %w", err)
	}
	return []place.NodeType{{Name: "node", Count: f.nodes, Table: t}}, nil
}

func (f *placementFlags) capacityOf(s *place.Samples) int {
	if f.capacity > 0 {
		return f.capacity
	}
	return largest(s)
}

// largest returns the largest number of containers in a sample.
func largest(s *place.Samples) int {
	most := 0
	for _, counts := range s.Counts {
		n := 0
		for _, k := range counts {
			n += int(k)
		}
		most = max(most, n)
	}
	return most
}

// readTable reads a throughput table and scales it by speed; capacity 0 keeps the capacity of the table.
func readTable(e *env, name string, capacity int, speed float64) (*place.Table, error) {
	t := place.MetisTable()
	if name != metisData {
		s, err := place.ReadSamples(inDir(e.dir, name))
		if err != nil {
			return nil, err
		}
		if capacity == 0 {
			capacity = largest(s)
		}
		if t, err = s.Table(capacity); err != nil {
			return nil, fmt.Errorf("%s: %w; --predictor forest guesses the rest", name, err)
		}
	}
	if capacity > t.Capacity() {
		return nil, fmt.Errorf("%s has patterns of up to %d containers, not of %d; --predictor forest guesses", name, t.Capacity(), capacity)
	}
	if capacity == 0 || capacity == t.Capacity() {
		capacity = t.Capacity()
		if speed == 1 {
			return t, nil
		}
	}
	return place.NewTable(t.Apps(), capacity, func(counts []uint8, rps []float64) {
		for a, v := range t.RPS(t.Index(counts)) {
			rps[a] = speed * v
		}
	})
}

// nodeTypeColumns lists the columns of a file of node types; the first two are required.
var nodeTypeColumns = []string{"name", "count", "table", "speed", "cost", "capacity"}

// readNodeTypes reads node types with the columns name, count and optionally table (a file, or metis), speed (a factor
// on throughputs), cost and capacity.
func readNodeTypes(e *env, path string) ([]place.NodeType, error) {
	fail := func(format string, args ...any) ([]place.NodeType, error) {
		return nil, fmt.Errorf("--node-types: read %s: "+format, append([]any{filepath.Base(path)}, args...)...)
	}
	f, err := place.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--node-types: %w", err)
	}
	defer f.Close()
	in := csv.NewReader(f)
	head, err := in.Read()
	if err != nil {
		return fail("head: %w", err)
	}
	column := map[string]int{}
	for i, name := range head {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(nodeTypeColumns, name) {
			return fail("column %q: unknown, want %s", name, strings.Join(nodeTypeColumns, ", "))
		}
		column[name] = i
	}
	for _, name := range nodeTypeColumns[:2] {
		if _, ok := column[name]; !ok {
			return fail("no column %q", name)
		}
	}
	var out []place.NodeType
	for {
		row, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fail("%w", err)
		}
		t, err := nodeType(e, func(name string) string {
			if i, ok := column[name]; ok {
				return strings.TrimSpace(row[i])
			}
			return ""
		})
		if err != nil {
			line, _ := in.FieldPos(0)
			return fail("line %d: %w", line, err)
		}
		if out != nil && !slices.Equal(t.Table.Apps(), out[0].Table.Apps()) {
			line, _ := in.FieldPos(0)
			return fail("line %d: the table has apps %s, the first has %s", line, strings.Join(t.Table.Apps(), ", "), strings.Join(out[0].Table.Apps(), ", "))
		}
		out = append(out, t)
	}
	if out == nil {
		return fail("no node types")
	}
	return out, nil
}

// nodeType parses a line of a file of node types.
func nodeType(e *env, cell func(string) string) (t place.NodeType, err error) {
	t.Name = cell("name")
	if t.Count, err = strconv.Atoi(cell("count")); err != nil || t.Count < 0 {
		return t, fmt.Errorf("count %q: want a whole number that is not negative", cell("count"))
	}
	number := func(name string, otherwise float64) float64 {
		v := otherwise
		if text := cell(name); text != "" && err == nil {
			if v, err = strconv.ParseFloat(text, 64); err != nil || !(v >= 0) || math.IsInf(v, 1) {
				err = fmt.Errorf("%s %q: want a number that is not negative", name, text)
			}
		}
		return v
	}
	speed, capacity := number("speed", 1), number("capacity", 0)
	t.Cost = number("cost", 0)
	if err == nil && (capacity != math.Trunc(capacity) || capacity > 255) {
		err = fmt.Errorf("capacity %v: want a whole number up to 255", capacity)
	}
	if err != nil {
		return t, err
	}
	table := cell("table")
	if table == "" {
		table = metisData
	}
	t.Table, err = readTable(e, table, int(capacity), speed)
	return t, err
}

// predict sets the throughputs visible to methods: measured ones or those predicted by a forest.
func (f *placementFlags) predict(e *env, _ *cobra.Command, p *placing) error {
	kind, file, named := strings.Cut(f.predictor, ":")
	switch {
	case kind == "measured" && !named || kind == "forest" && !named && p.notes != nil:
		return nil
	case kind != "forest" || named && file == "":
		return fmt.Errorf("--predictor %q: want measured, forest, or forest:FILE", f.predictor)
	case len(p.problem.Types) > 1:
		return errors.New("--predictor: a forest is for one type of node")
	}
	truth := p.problem.Types[0].Table
	p.predictor = "forest of a fifth of the patterns"
	guess := func() (*place.Table, error) { return methods.Predicted(truth, 0.2, 42, true) }
	if named {
		s, err := place.ReadSamples(inDir(e.dir, file))
		if err != nil {
			return fmt.Errorf("--predictor: %w", err)
		}
		if !slices.Equal(s.Apps, truth.Apps()) {
			return fmt.Errorf("--predictor: %s has apps %s, the table has %s", file, strings.Join(s.Apps, ", "), strings.Join(truth.Apps(), ", "))
		}
		p.predictor = fmt.Sprintf("forest of the %d patterns in %s", len(s.Counts), filepath.Base(file))
		guess = func() (*place.Table, error) { return methods.Grown(s, truth.Capacity()) }
	}
	t, err := guess()
	if err != nil {
		return fmt.Errorf("--predictor: %w", err)
	}
	told := *p.problem
	told.Types = slices.Clone(told.Types)
	told.Types[0].Table = t
	p.told = &told
	return nil
}

// wish reads the constraints.
func (f *placementFlags) wish(e *env, _ *cobra.Command, p *placing) error {
	source, metis := f.constraints, slices.Equal(p.apps(), place.MetisApps())
	if source == "" {
		source = map[bool]string{true: metisData, false: "derived"}[metis]
	}
	var out []place.Constraint
	switch source {
	case "none":
	case metisData:
		if !metis {
			return fmt.Errorf("--constraints metis: they are for %s, the table has %s", strings.Join(place.MetisApps(), ", "), strings.Join(p.apps(), ", "))
		}
		out = place.MetisConstraints()
	case "derived":
		rows, err := interference.FromTable(p.problem.Types[0].Table, interference.Options{Others: !f.compat})
		if err != nil && f.constraints != "" {
			return fmt.Errorf("--constraints derived: %w", err)
		}
		if err != nil {
			p.notes = append(p.notes, fmt.Sprintf("no wishes about neighbours: %v", err))
		}
		out = interference.Constraints(rows)
	default:
		file, err := place.Open(inDir(e.dir, source))
		if err != nil {
			return fmt.Errorf("--constraints: %w", err)
		}
		defer file.Close()
		if out, err = interference.ReadConstraints(file); err != nil {
			return fmt.Errorf("--constraints: read %s: %w", source, err)
		}
		for i, c := range out {
			if max(c.App, c.Neighbour) >= len(p.apps()) {
				return fmt.Errorf("--constraints: %s: wish %d is of apps %d and %d, there are %d", source, i+1, c.App+1, c.Neighbour+1, len(p.apps()))
			}
		}
	}
	p.problem.Constraints = out
	if p.told != nil {
		p.told.Constraints = out
	}
	return nil
}

// load reads the containers that already run.
func (f *placementFlags) load(e *env, _ *cobra.Command, p *placing) error {
	if f.existing == "" {
		return nil
	}
	rows, err := place.ReadBatches(inDir(e.dir, f.existing), p.apps())
	if err != nil {
		return fmt.Errorf("--existing: %w", err)
	}
	if len(rows) != p.problem.Nodes() {
		return fmt.Errorf("--existing: %s has %d rows, the cluster has %d nodes", f.existing, len(rows), p.problem.Nodes())
	}
	typeOf := p.problem.TypeOf()
	for n, counts := range rows {
		if len(counts) != len(p.apps()) {
			return fmt.Errorf("--existing: %s, node %d: %d counts, the table has %d apps", f.existing, n+1, len(counts), len(p.apps()))
		}
		room, node := p.problem.Types[typeOf[n]].Table.Capacity(), make([]uint8, len(counts))
		size := 0
		for a, k := range counts {
			if size += k; size > room {
				return fmt.Errorf("--existing: %s, node %d: more containers than the %d that it holds", f.existing, n+1, room)
			}
			node[a] = uint8(k)
		}
		p.problem.Existing = append(p.problem.Existing, node)
	}
	if p.told != nil {
		p.told.Existing = p.problem.Existing
	}
	return nil
}

// aim sets the objective and the limits of the methods.
func (f *placementFlags) aim(e *env, cmd *cobra.Command, p *placing) error {
	changed := cmd.Flags().Changed
	p.options = methods.Options{Compat: f.compat, Episodes: f.episodes, Clock: e.clock.Monotonic}
	if changed("objective") {
		o, err := parseObjective(f.objective)
		if err != nil {
			return err
		}
		priced := slices.ContainsFunc(p.problem.Types, func(t place.NodeType) bool { return t.Cost > 0 })
		if !priced && o.Cost != 0 {
			return errors.New("--objective cost: no node has a cost, see --node-types")
		}
		if o.Missed != 0 && len(p.problem.Constraints) == 0 {
			return errors.New("--objective violations: there are no constraints")
		}
		if o != (place.Objective{RPS: 1}) {
			p.options.Objective = o
		}
	}
	l := place.Limits{SLOShare: f.minSLO, Nodes: f.maxNodes, Cost: f.maxCost}
	if changed("max-violations") {
		l.Missed = &f.maxMissed
	}
	for name, zero := range map[string]bool{"max-nodes": f.maxNodes == 0, "max-cost": f.maxCost == 0} {
		if zero && changed(name) {
			return fmt.Errorf("--%s 0: want more than 0", name)
		}
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("--max-violations, --min-slo, --max-nodes, --max-cost: %w", err)
	}
	p.options.Limits = l
	if f.model == "" {
		return nil
	}
	file, err := regular.Open(inDir(e.dir, f.model), regular.Data)
	if err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	defer file.Close()
	if p.options.Model, err = learned.Load(file); err != nil {
		return fmt.Errorf("--model: read %s: %w", f.model, err)
	}
	return nil
}

// parseObjective parses one word, or weights such as rps=1,vacant=0.5.
func parseObjective(text string) (place.Objective, error) {
	var o place.Objective
	weights := map[string]*float64{"rps": &o.RPS, "slo": &o.SLO, "vacant": &o.Vacant, "cost": &o.Cost, "violations": &o.Missed}
	for _, part := range strings.Split(text, ",") {
		name, value, weighed := strings.Cut(strings.TrimSpace(part), "=")
		w := weights[name]
		if w == nil {
			return o, fmt.Errorf("--objective %q: want rps, slo, vacant, cost, violations, each once, or weights such as rps=1,vacant=0.5", text)
		}
		delete(weights, name)
		*w = 1
		if weighed {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
				return o, fmt.Errorf("--objective %q: want a weight other than 0 for %s", text, name)
			}
			*w = v
		}
	}
	return o, nil
}

// fits returns an error with exit code 6 if a batch exceeds the capacity of the cluster.
func fits(p *place.Problem) error {
	room := 0
	for _, t := range p.Types {
		room += t.Count * t.Table.Capacity()
	}
	if n := p.Containers(); n > room {
		return exitError{run.CodeInfeasible, fmt.Errorf("place %d containers: %d nodes hold %d", n, p.Nodes(), room)}
	}
	return nil
}
