package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
)

// placementFlags holds the flags that define the placement problem and its objective.
type placementFlags struct {
	cli.Options
	table, predictor, existing, constraints, nodeTypes, objective, model, zones string
	nodes, capacity, episodes, maxNodes                                         int
	slo, maxMissed, minSLO, maxCost, zoneBudget                                 float64
	compat, apart                                                               bool
}

func (f *placementFlags) add(o cli.Options) {
	f.Options = o
	fs := o.Flags
	fs.IntVar(&f.nodes, "nodes", 81, "number of nodes (batches of Metis with 1000 containers or more: 729)")
	fs.IntVar(&f.capacity, "capacity", 0, "containers per node (default: the capacity of the table)")
	fs.StringVar(&f.nodeTypes, "node-types", "", "CSV `FILE` of node types: name,count,table,speed,cost,capacity")
	fs.StringVar(&f.table, "table", place.EmbeddedData, "throughputs: `FILE` (.npz of Metis, CSV with n_APP, rps_APP)")
	fs.StringVar(&f.predictor, "predictor", "measured", "`PREDICTOR` of the throughputs that methods are given: measured, forest (from a fifth of the patterns), forest:FILE")
	fs.Float64Var(&f.slo, "slo", 0.95, "minimum throughput of a served container, relative to alone")
	fs.StringVar(&f.existing, "existing", "", "CSV `FILE` of the running containers: a row of counts per node")
	fs.StringVar(&f.constraints, "constraints", "", "constraints on neighbours: `FILE`, metis, derived or none (default: metis, else derived)")
	fs.StringVar(&f.objective, "objective", "rps", "`TERM`: rps, slo, vacant, cost, violations, or weights rps=1,vacant=0.5")
	fs.Float64Var(&f.maxMissed, "max-violations", 0, "maximum violation of the constraints; 0: they are hard")
	fs.Float64Var(&f.minSLO, "min-slo", 0, "minimum share of served containers")
	fs.IntVar(&f.maxNodes, "max-nodes", 0, "maximum number of used nodes")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "maximum cost of the used nodes")
	fs.IntVar(&f.episodes, "episodes", 0, "episodes of methods that learn (default: by method)")
	fs.StringVar(&f.model, "agent", "", "agent `FILE` of the method metis, from optimize pretrain (default: embedded)")
	fs.StringVar(&f.zones, "zones", "", "for george: `APP=SHARE,…` may run on the first share of the nodes, or none")
	fs.Float64Var(&f.zoneBudget, "zone-budget", 0.05, "for george: share of the batch that may be outside its zone")
	fs.BoolVar(&f.apart, "apart", false, "for george: at most one container of an app per node")
	fs.BoolVar(&f.compat, "compat", false, "as the published code does, see --list-methods")
}

// dataPath returns the path of a file that may also be the name of embedded data or a word.
func (f *placementFlags) dataPath(name string) string {
	if slices.Contains([]string{"", "none", "derived", place.EmbeddedData}, name) {
		return name
	}
	return f.Path(name)
}

// setup reads all inputs except the batch.
func (f *placementFlags) setup() (*metis.Setup, error) {
	if err := errors.Join(
		f.Want("nodes", f.nodes >= 1, "at least 1"), f.Want("capacity", f.capacity >= 1 && f.capacity <= 255, "1 to 255"),
		f.Want("slo", f.slo > 0 && !math.IsInf(f.slo, 1), "a throughput above 0, relative to alone"), f.Want("episodes", f.episodes >= 1, "at least 1"),
		f.Want("zone-budget", f.zoneBudget >= 0 && f.zoneBudget <= 1, "0 to 1"), f.Want("max-nodes", f.maxNodes != 0, "more than 0"), f.Want("max-cost", f.maxCost != 0, "more than 0"),
		f.Check(cli.Rule{If: f.nodeTypes != "", Flags: "nodes capacity table", Conflict: "--node-types"})); err != nil {
		return nil, err
	}
	s := &metis.Setup{Problem: &place.Problem{SLO: f.slo}}
	var err error
	if s.Problem.Types, err = f.types(s); err != nil {
		return nil, err
	}
	if err := f.predict(s); err != nil {
		return nil, fmt.Errorf("--predictor %s: %w", f.predictor, err)
	}
	if err := s.Constrain(f.dataPath(f.constraints), f.compat); err != nil {
		return nil, fmt.Errorf("--constraints: %w", err)
	}
	if f.existing != "" {
		rows, err := place.ReadBatches(f.Path(f.existing), s.Apps())
		if err == nil {
			err = s.SetExisting(rows)
		}
		if err != nil {
			return nil, fmt.Errorf("--existing %s: %w", f.existing, err)
		}
	}
	return s, f.options(s)
}

// types returns the node types. Estimates complete a table of profile colocate, and any other if the predictor is a forest,
// for methods and evaluation alike.
func (f *placementFlags) types(s *metis.Setup) ([]place.NodeType, error) {
	if f.nodeTypes != "" {
		types, err := place.ReadNodeTypes(f.Path(f.nodeTypes), f.Path)
		if err != nil {
			err = fmt.Errorf("--node-types: %w", err)
		}
		return types, err
	}
	t, err := place.LoadTable(f.table, f.Path, f.capacity, 1)
	if err != nil && f.table != place.EmbeddedData {
		samples, sampleErr := place.ReadSamples(f.Path(f.table))
		if sampleErr != nil {
			return nil, fmt.Errorf("--table: %w", sampleErr)
		}
		if samples.Profiled || f.predictor == "forest" {
			capacity := f.capacity
			if capacity <= 0 {
				capacity = samples.Largest()
			}
			t, err = s.Complete(samples, capacity, f.table)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--table: %w", err)
	}
	return []place.NodeType{{Name: "node", Count: f.nodes, Table: t}}, nil
}

// predict sets the throughputs that methods are given: measured ones or those predicted by a forest.
func (f *placementFlags) predict(s *metis.Setup) error {
	kind, file, named := strings.Cut(f.predictor, ":")
	switch {
	case kind == "measured" && !named || kind == "forest" && !named && s.Estimated != nil: // the table itself is of a forest
		return nil
	case kind != "forest" || named && file == "":
		return errors.New("want measured, forest, or forest:FILE")
	case named:
		file = f.Path(file)
	}
	return s.Predict(file)
}

// options sets the objective, the limits and the options of the methods.
func (f *placementFlags) options(s *metis.Setup) error {
	s.Options = metis.Options{Compat: f.compat, Episodes: f.episodes, Clock: f.Clock.Monotonic, Apart: f.apart,
		Limits: place.Limits{SLOShare: f.minSLO, Nodes: f.maxNodes, Cost: f.maxCost}}
	if f.Changed("objective") {
		o, err := place.ParseObjective(f.objective)
		if err != nil {
			return fmt.Errorf("--%w", err)
		}
		if o.Cost != 0 && !slices.ContainsFunc(s.Problem.Types, func(t place.NodeType) bool { return t.Cost > 0 }) {
			return errors.New("--objective cost: no node has a cost, see --node-types")
		}
		if o.Missed != 0 && len(s.Problem.Constraints) == 0 {
			return errors.New("--objective violations: there are no constraints")
		}
		if o != (place.Objective{RPS: 1}) {
			s.Options.Objective = o
		}
	}
	if f.Changed("max-violations") {
		s.Options.Limits.MaxViolation = &f.maxMissed
	}
	if err := s.Options.Limits.Validate(); err != nil {
		return fmt.Errorf("--max-violations, --min-slo, --max-nodes, --max-cost: %w", err)
	}
	if f.Changed("zone-budget") {
		s.Options.Budget = f.zoneBudget
		if f.zoneBudget == 0 {
			s.Options.Budget = -1
		}
	}
	if f.Changed("zones") {
		var err error
		if s.Options.Zones, err = metis.ParseZones(f.zones, s.Apps()); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	if f.model == "" {
		return nil
	}
	file, err := regular.Open(f.Path(f.model), regular.Data)
	if err != nil {
		return fmt.Errorf("--agent: %w", err)
	}
	defer file.Close()
	if s.Options.Model, err = metis.LoadModel(file); err != nil {
		return fmt.Errorf("--agent: read %s: %w", f.model, err)
	}
	return nil
}

// wantFits returns an error with exit code 6 if a batch exceeds the capacity of the cluster.
func wantFits(p *place.Problem) error {
	if n := p.Containers(); n > p.Room() {
		nodes := fmt.Sprintf("%d nodes hold", p.Nodes())
		if p.Nodes() == 1 {
			nodes = "1 node holds"
		}
		return cli.Infeasiblef("place %d containers: %s %d", n, nodes, p.Room())
	}
	return nil
}

// placementError assigns placement errors their exit codes.
func placementError(err error) error {
	if errors.Is(err, place.ErrInfeasible) {
		return cli.Infeasiblef("%w", err)
	}
	return err
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
