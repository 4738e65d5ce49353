package metis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/experiment"
)

// Comparison describes a comparison of methods on the same batches.
type Comparison struct {
	Title, XName string
	Methods      []string
	Against      []string // baselines; nil means the first method
	Scenarios    []Scenario
	Workers      int // concurrent batches; 0 means one per core
	// Clock measures the time of methods; nil means no times.
	Clock    func() time.Duration
	Progress func(done, total int)
	Notes    []string
}

// Scenario is a set of batches that are compared with each other.
type Scenario struct {
	Name  string
	X     float64 // position in charts
	Cases []Case
	// Options apply to the methods that support them; the group of the case is added to the seed.
	Options Options
}

// Case is one batch.
type Case struct {
	Group         uint64
	Problem, Told *place.Problem // Told has the throughputs known to methods; nil means Problem
}

// single is the result of one method on one case.
type single struct {
	Scenario, Method string
	Group            uint64
	Values           map[string]float64 // by metric; nil without a placement
	Reason           string             // reason for the missing placement
}

// Result is the result of a comparison: a table per scenario, and every single placement.
type Result struct {
	*experiment.Comparison
	Each    []*experiment.Comparison // by scenario; nil for a scenario that was not run
	Singles []single
}

// measures are the metrics of comparison. A new metric is one line here.
var measures = []struct {
	experiment.Metric
	of func(r *measured) float64
}{
	{experiment.Metric{Name: "mean_rps", Better: experiment.Higher, Means: "throughput of a container relative to alone, mean over containers"}, func(r *measured) float64 { return r.worth.MeanRPS }},
	{experiment.Metric{Name: "slo_share", Unit: "share", Better: experiment.Higher, Means: "of containers that have at least the SLO's throughput"}, func(r *measured) float64 { return r.worth.SLOShare }},
	{experiment.Metric{Name: "violations", Better: experiment.Lower, Means: "by how much wishes about neighbours are missed, weighted, in all"}, func(r *measured) float64 { return r.worth.Magnitude }},
	{experiment.Metric{Name: "solve_s", Unit: "s", Better: experiment.Lower, Means: "time that the method took; depends on the machine and what else runs there"}, func(r *measured) float64 { return r.seconds }},
	{experiment.Metric{Name: "nodes_used", Better: experiment.Lower, Detail: true, Means: "nodes that hold anything"}, func(r *measured) float64 { return float64(r.worth.NodesUsed) }},
	{experiment.Metric{Name: "free_nodes", Unit: "share", Better: experiment.Higher, Detail: true, Means: "of nodes that hold nothing"}, func(r *measured) float64 { return float64(r.worth.Vacant) / float64(r.nodes) }},
	{experiment.Metric{Name: "violated", Better: experiment.Lower, Detail: true, Means: "wishes of containers that are missed"}, func(r *measured) float64 { return float64(r.worth.Instances) }},
	{experiment.Metric{Name: "cost", Better: experiment.Lower, Detail: true, Means: "of nodes that are used"}, func(r *measured) float64 {
		if !r.priced {
			return math.NaN()
		}
		return r.worth.Cost
	}},
	{experiment.Metric{Name: "predicted_rps", Better: experiment.Higher, Detail: true, Means: "mean RPS as the method believed it to be"}, func(r *measured) float64 { return r.predicted }},
	{experiment.Metric{Name: "gap", Better: experiment.Lower, Detail: true, Means: "relative distance to the bound that the method proved, in its own objective"}, func(r *measured) float64 { return r.gap }},
}

// measured is the evaluation of one placement, from which the metrics are computed.
type measured struct {
	worth                   place.Metrics
	predicted, gap, seconds float64
	nodes                   int
	priced                  bool
}

// Run runs every method on every case. A case without a placement has no values for that method, which is noted.
// Except for times, the result is independent of the number of workers. When ctx is cancelled, Compare returns the
// complete results with the error.
func (c *Comparison) Run(ctx context.Context) (*Result, error) {
	for _, name := range c.Methods {
		if _, err := Find(name); err != nil {
			return nil, err
		}
	}
	r := &Result{Each: make([]*experiment.Comparison, len(c.Scenarios))}
	total, done := 0, 0
	for i := range c.Scenarios {
		total += len(c.Scenarios[i].Cases)
	}
	var failed error
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		cases := make([]experiment.Case, len(s.Cases))
		for k := range s.Cases {
			cases[k] = experiment.Case{Name: fmt.Sprintf("group %d", s.Cases[k].Group), Seed: s.Cases[k].Group}
		}
		o := experiment.Options{Engine: "placement", Title: s.Name, Against: c.Against, Workers: c.Workers}
		for _, m := range measures {
			o.Metrics = append(o.Metrics, m.Metric)
		}
		if c.Progress != nil {
			o.Progress = func(n, _ int) { c.Progress(done+n, total) }
		}
		each, singles, err := experiment.Run(ctx, c.Methods, cases, o, func(ctx context.Context, method string, k int) (map[string]float64, single, error) {
			one, err := c.single(ctx, s, method, k)
			return one.Values, one, err
		})
		done += len(s.Cases)
		r.Each[i] = each
		for m := range c.Methods {
			for _, of := range singles {
				if of != nil {
					r.Singles = append(r.Singles, of[m])
				}
			}
		}
		if each != nil {
			each.Notes = append(each.Notes, r.reasons(c.Methods, s.Name)...)
		}
		if err != nil {
			failed = err
			break
		}
	}
	r.assemble(c)
	return r, failed
}

// single runs one method on one case. The method receives the known throughputs, and the placement is evaluated with
// the true ones. An infeasible case is a result with a reason, not an error.
func (c *Comparison) single(ctx context.Context, s *Scenario, method string, k int) (single, error) {
	at := &s.Cases[k]
	out := single{Scenario: s.Name, Method: method, Group: at.Group}
	o := s.Options
	o.Seed += at.Group
	o.Clock, o.Progress, o.Workers = c.Clock, nil, 1
	m := all[method]
	if !m.Objective {
		o.Objective = place.Objective{}
	}
	if !m.Limits {
		o.Limits = place.Limits{}
	}
	known := at.Problem
	if at.Told != nil {
		known = at.Told
	}
	from := time.Duration(0)
	if c.Clock != nil {
		from = c.Clock()
	}
	found, err := Place(ctx, method, known, o)
	if errors.Is(err, place.ErrInfeasible) {
		out.Reason = err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	r := measured{gap: found.Gap, seconds: math.NaN(), predicted: math.NaN(), nodes: at.Problem.Nodes(),
		priced: slices.ContainsFunc(at.Problem.Types, func(t place.NodeType) bool { return t.Cost > 0 })}
	if c.Clock != nil {
		r.seconds = (c.Clock() - from).Seconds()
	}
	if r.worth, err = at.Problem.Evaluate(found.Placement); err != nil {
		return out, err
	}
	if at.Told != nil {
		w, err := at.Told.Evaluate(found.Placement)
		if err != nil {
			return out, err
		}
		r.predicted = w.MeanRPS
	}
	out.Values = map[string]float64{}
	for i := range measures {
		out.Values[measures[i].Name] = measures[i].of(&r)
	}
	return out, nil
}

// reasons returns notes on the methods that found no placement in a scenario.
func (r *Result) reasons(names []string, scenario string) []string {
	var out []string
	for _, name := range names {
		n, first := 0, ""
		for _, one := range r.Singles {
			if one.Scenario == scenario && one.Method == name && one.Values == nil {
				if n++; n == 1 {
					first = one.Reason
				}
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s found no placement for %d of the groups: %s", name, n, first))
		}
	}
	return out
}

// assemble combines the scenarios.
func (r *Result) assemble(c *Comparison) {
	each := slices.DeleteFunc(slices.Clone(r.Each), func(e *experiment.Comparison) bool { return e == nil })
	if len(each) == 0 {
		return
	}
	if len(c.Scenarios) == 1 {
		r.Comparison = each[0]
		r.Title = c.Title + ": " + c.Scenarios[0].Name
		r.Notes = append(slices.Clone(c.Notes), r.Notes...)
		r.Tables = []experiment.Table{r.byScenario(c, measures[0].Metric)}
		return
	}
	r.Comparison = &experiment.Comparison{Schema: 1, Engine: "placement", Title: c.Title, Metrics: []string{}, Rows: []experiment.Row{}, Paired: []experiment.Pair{},
		Policies: c.Methods, Against: each[0].Against, Definitions: []experiment.Metric{}, WallS: experiment.Number(math.NaN()), Notes: c.Notes, Also: each, Fold: len(each) > 3}
	for i, e := range r.Each {
		if e != nil {
			r.Seeds, r.Cases = max(r.Seeds, e.Seeds), r.Cases+len(c.Scenarios[i].Cases)
		}
	}
	for _, m := range measures[:4] {
		r.Tables = append(r.Tables, r.byScenario(c, m.Metric))
		r.Charts = append(r.Charts, r.chart(c, m.Metric))
	}
}

// byScenario returns a table of one metric by method and scenario.
func (r *Result) byScenario(c *Comparison, m experiment.Metric) experiment.Table {
	t := experiment.Table{Title: m.Name + ": " + m.Means + "; ± is half the 95 % interval", Head: []string{c.XName}}
	for i := range c.Scenarios {
		t.Head = append(t.Head, short(c.Scenarios[i].X))
	}
	for _, name := range c.Methods {
		line := []string{name}
		for i := range c.Scenarios {
			line = append(line, r.Words(i, name, m.Name))
		}
		t.Lines = append(t.Lines, line)
	}
	return t
}

// Words formats the mean of a method's metric in a scenario, with the half-width of its interval; "–" if unknown.
func (r *Result) Words(scenario int, method, metric string) string {
	row, ok := r.at(scenario, method, metric)
	if !ok || !row.Mean.Known() {
		return "–"
	}
	factor, digits, unit := 1.0, 4, ""
	switch metric {
	case "slo_share", "free_nodes":
		factor, digits, unit = 100, 1, " %"
	case "violations", "violated", "nodes_used":
		digits = 1
	case "solve_s":
		unit = " s"
	}
	show := func(v float64) string {
		if metric == "solve_s" {
			return strconv.FormatFloat(v, 'g', 2, 64)
		}
		return strconv.FormatFloat(factor*v, 'f', digits, 64)
	}
	text := show(float64(row.Mean))
	if half := float64(row.Hi-row.Lo) / 2; !math.IsNaN(half) && metric != "solve_s" {
		text += " ±" + show(half)
	}
	return text + unit
}

func (r *Result) at(scenario int, method, metric string) (experiment.Row, bool) {
	if r.Each[scenario] == nil {
		return experiment.Row{}, false
	}
	return r.Each[scenario].Row(method, metric)
}

func (r *Result) chart(c *Comparison, m experiment.Metric) page.Chart {
	out := page.Chart{Title: m.Name, Note: m.Means, X: page.Axis{Name: c.XName}, Y: page.Axis{Name: m.Name, Share: m.Unit == "share", Log: m.Name == "solve_s"}}
	for i, name := range c.Methods {
		out.Series = append(out.Series, r.Line(c, name, m.Name, page.Class(i)))
	}
	return out
}

// line returns the mean of a method's metric over the scenarios, in the colour of a class.
func (r *Result) Line(c *Comparison, method, metric, class string) page.Series {
	line := page.Series{Name: method, Class: class}
	for i := range c.Scenarios {
		y := math.NaN()
		if row, ok := r.at(i, method, metric); ok {
			y = float64(row.Mean)
		}
		line.Points = append(line.Points, page.Point{X: c.Scenarios[i].X, Y: y})
	}
	return line
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }

// Write writes every single placement as CSV; unknown values are empty.
func (r *Result) Write(w io.Writer) error {
	head := []string{"scenario", "method", "group"}
	for i := range measures {
		head = append(head, measures[i].Name)
	}
	lines := [][]string{append(head, "reason")}
	for _, one := range r.Singles {
		line := []string{one.Scenario, one.Method, strconv.FormatUint(one.Group, 10)}
		for i := range measures {
			cell := ""
			if v, ok := one.Values[measures[i].Name]; ok && !math.IsNaN(v) {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			line = append(line, cell)
		}
		lines = append(lines, append(line, one.Reason))
	}
	return page.CSV(w, lines)
}
