package metis

// The figures reproduce those and the tables of Metis (Wang et al., SC 2020) and add the published values to
// the results. It contains the published values; the runs are ordinary comparisons.
//
//	f, err := metis.FindFigure("medium")
//	c, err := f.Comparison(metis.FigureOptions{Groups: []uint64{0, 1, 2}})
//	r, err := c.Run(ctx)
//	f.Beside(c, r)

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/experiment"
)

// Figure is a published figure or table.
type Figure struct {
	Name, About, XName string
	Methods            []string // default methods
	LastGroup          int      // groups 0 to LastGroup are run by default
	Published          []line
	Notes              []string
	settings           []setting
}

// line holds the published values of a method in a metric.
type line struct {
	Method, Metric, What string
	Values               []float64 // by setting; NaN if not published
}

// setting is a point on the x axis of a figure.
type setting struct {
	name      string
	x         float64
	size      int
	nodes     int
	batch     []int // replaces size
	slo       float64
	objective place.Objective
	sample    float64 // share of the patterns known to methods; 0 means all
	pairs     bool    // the known patterns include those of pairs
}

// FigureOptions are the options of running a figure. Except for Groups, the zero value is the published setting.
type FigureOptions struct {
	Groups  []uint64
	Methods []string
	Against []string
	// Told returns the throughputs known to methods, given a table; nil means all of it, except in figures that vary
	// this knowledge.
	Told    func(*place.Table) (*place.Table, error)
	Options Options
	Workers int
}

// FindFigure returns the figure with the given name.
func FindFigure(name string) (*Figure, error) {
	f, ok := figures[name]
	if !ok {
		return nil, fmt.Errorf("figure %q: unknown, want one of %s", name, strings.Join(slices.Sorted(maps.Keys(figures)), ", "))
	}
	f.Name = name
	return &f, nil
}

// FigureNames describes all figures, one per line.
func FigureNames() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		fmt.Fprintf(&b, "  %-14s %s\n", name, figures[name].About)
	}
	return b.String()
}

// Comparison returns the comparison that reproduces the figure.
func (f *Figure) Comparison(o FigureOptions) (*Comparison, error) {
	c := &Comparison{Title: f.About, XName: f.XName, Methods: o.Methods, Against: o.Against, Workers: o.Workers, Notes: slices.Clone(f.Notes)}
	if c.Methods == nil {
		c.Methods = f.Methods
	}
	for i := range f.settings {
		s, err := f.settings[i].scenario(o)
		if err != nil {
			return nil, fmt.Errorf("figure %s: %w", f.Name, err)
		}
		c.Scenarios = append(c.Scenarios, s)
	}
	return c, nil
}

// scenario returns the cases of a setting: one per group, or the setting's own batch. If methods do not know the
// whole table, each case also has the problem with the known throughputs.
func (s *setting) scenario(o FigureOptions) (Scenario, error) {
	out := Scenario{Name: s.name, X: s.x, Options: o.Options}
	if s.objective != (place.Objective{}) {
		out.Options.Objective = s.objective
	}
	table := place.MetisTable()
	told := o.Told
	if s.sample > 0 {
		told = func(t *place.Table) (*place.Table, error) { return predicted(t, s.sample, 42, s.pairs) }
	}
	var known *place.Table
	if told != nil {
		var err error
		if known, err = told(table); err != nil {
			return out, err
		}
	}
	batches := [][]int{s.batch}
	groups := []uint64{0}
	if s.batch == nil {
		var err error
		if batches, err = place.MetisBatches(s.size); err != nil {
			return out, err
		}
		groups = o.Groups
	}
	for _, g := range groups {
		if g >= uint64(len(batches)) {
			return out, fmt.Errorf("no group %d of %d containers, there are %d", g, s.size, len(batches))
		}
		p := &place.Problem{Types: []place.NodeType{{Name: "node", Count: s.nodes, Table: table}}, Batch: batches[g], Constraints: place.MetisConstraints(), SLO: s.slo}
		at := Case{Group: g, Problem: p}
		if known != nil {
			q := *p
			q.Types = []place.NodeType{{Name: "node", Count: s.nodes, Table: known}}
			at.Told = &q
		}
		out.Cases = append(out.Cases, at)
	}
	return out, nil
}

// Beside adds the published values to a result: a table and a chart for each published metric.
func (f *Figure) Beside(c *Comparison, r *Result) {
	if r == nil || r.Comparison == nil {
		return
	}
	var tables []experiment.Table
	var charts []page.Chart
	var metrics []string
	for _, l := range f.Published {
		if !slices.Contains(metrics, l.Metric) {
			metrics = append(metrics, l.Metric)
		}
	}
	for _, metric := range metrics {
		tables = append(tables, f.table(c, r, metric))
		if len(f.settings) > 1 {
			charts = append(charts, f.chart(c, r, metric))
		}
	}
	r.Tables, r.Charts, r.Fold = append(tables, slices.DeleteFunc(r.Tables, func(t experiment.Table) bool {
		return slices.ContainsFunc(metrics, func(m string) bool { return strings.HasPrefix(t.Title, m+":") })
	})...), charts, true
}

// table returns the published values of a metric with those of the compared methods below.
func (f *Figure) table(c *Comparison, r *Result, metric string) experiment.Table {
	t := experiment.Table{Title: metric + ": published, and ours as mean with half the 95 % interval", Head: []string{f.XName}}
	for i := range f.settings {
		t.Head = append(t.Head, strconv.FormatFloat(f.settings[i].x, 'g', 5, 64))
	}
	row := func(method string) []string {
		line := []string{method}
		for i := range f.settings {
			line = append(line, r.Words(i, method, metric))
		}
		return line
	}
	shown := map[string]bool{}
	for _, l := range f.Published {
		if l.Metric != metric {
			continue
		}
		line := []string{l.Method + ", published" + l.What}
		for _, v := range l.Values {
			line = append(line, value(metric, v))
		}
		t.Lines = append(t.Lines, line)
		for _, m := range c.Methods {
			if !shown[m] && (m == l.Method || strings.HasPrefix(m, l.Method+"-")) {
				shown[m] = true
				t.Lines = append(t.Lines, row(m))
			}
		}
	}
	for _, m := range c.Methods {
		if !shown[m] {
			t.Lines = append(t.Lines, row(m))
		}
	}
	return t
}

func value(metric string, v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case metric == "slo_share" || metric == "free_nodes":
		return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
	case metric == "solve_s":
		return strconv.FormatFloat(v, 'g', 4, 64) + " s"
	case metric == "violated":
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

func (f *Figure) chart(c *Comparison, r *Result, metric string) page.Chart {
	out := page.Chart{Title: metric, Note: "dashed: published", X: page.Axis{Name: f.XName},
		Y: page.Axis{Name: metric, Share: metric == "slo_share" || metric == "free_nodes", Log: metric == "solve_s"}}
	classes := map[string]string{}
	for i, m := range c.Methods {
		classes[m] = page.Class(i)
		out.Series = append(out.Series, r.Line(c, m, metric, classes[m]))
	}
	for _, l := range f.Published {
		if l.Metric != metric {
			continue
		}
		theirs := page.Series{Name: l.Method + ", published", Dashed: true, Class: classes[l.Method]}
		for k, v := range l.Values {
			theirs.Points = append(theirs.Points, page.Point{X: f.settings[k].x, Y: v})
		}
		out.Series = append(out.Series, theirs)
	}
	return out
}
