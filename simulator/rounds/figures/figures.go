// Package figures runs what the figures of Gavel's paper (Narayanan et al., OSDI 2020) show, and puts the published values beside
// ours. It holds the published values; what is run is a sweep like any other.
//
//	f, err := figures.Find("8")
//	s, err := f.Sweep(figures.Options{Seeds: []uint64{0, 1, 2}, Compat: true})
//	o, err := sweep.Run(ctx, s)
//	f.Beside(o)
package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/simulator/experiment"
	"trainopt/simulator/platform"
	"trainopt/simulator/rounds"
	"trainopt/simulator/rounds/sweep"
	"trainopt/simulator/workload"
)

// Figure is a published figure.
type Figure struct {
	Name, Also string // what it is called; also what else
	About      string
	Lines      []Line
	// Best is the policy that our own mechanism, in a group of its own, is run with, which must know no more than Against, the one
	// whose published values stand beside it; "": none.
	Best, Against string

	file        string // in the repository
	first, step float64
	cluster     string // "" is 36 of each type
	note        string // on what was published
	multi       bool
	priorities  bool
	static      bool // all jobs come at once
}

// Line is a line of a figure: a policy, in one of several groups of runs ("" where there is only one).
type Line struct {
	Policy, Group, Metric string
	Hours                 []float64 // at first, first + step, first + 2·step, …
}

// Runtime is the name of figure 12, which is no sweep; see Decisions.
const Runtime = "runtime"

// runtimeAlso is what Runtime is also called.
const runtimeAlso = "12"

// unavailable are figures that cannot be run, and why.
var unavailable = map[string]string{
	"11": "it shows one run over time, of which the repository has no values",
}

// List says which figures there are, a line each.
func List() string {
	var b strings.Builder
	line := func(name, also, about string) {
		if also != "" {
			name += ", " + also
		}
		fmt.Fprintf(&b, "  %-16s %s\n", name, about)
	}
	for _, f := range published {
		line(f.Name, f.Also, f.About)
	}
	line(Runtime, runtimeAlso, "time that decisions take, by the number of jobs")
	return b.String()
}

// Find is a figure by one of its names. It is nil for Runtime.
func Find(name string) (*Figure, error) {
	name = strings.TrimPrefix(strings.ToLower(name), "figure")
	name = strings.TrimPrefix(strings.TrimSpace(name), "fig")
	if name == Runtime || name == runtimeAlso {
		return nil, nil
	}
	names := []string{}
	for i := range published {
		if f := &published[i]; f.Name == name || f.Also == name && name != "" {
			return f, nil
		}
		names = append(names, published[i].Name)
	}
	if why, ok := unavailable[name]; ok {
		return nil, fmt.Errorf("figure %s: %s", name, why)
	}
	return nil, fmt.Errorf("figure %q: unknown, want one of %s", name, strings.Join(append(names, Runtime), ", "))
}

// Options are how a figure is run. Seeds are needed; the zero value of anything else is what was published.
type Options struct {
	Seeds  []uint64
	Points int // at most so many loads, evenly spread; 0 is all
	Window rounds.Window
	Compat bool
	// Policies are those of its lines that are run; none is all.
	Policies []string
}

// Xs are the loads of the figure, at most n; 0 is all.
func (f *Figure) Xs(n int) []float64 {
	most := 0
	for _, l := range f.Lines {
		most = max(most, len(l.Hours))
	}
	return thinned(most, n, f.x)
}

// x is the load of the i-th value of a line, as it was published.
func (f *Figure) x(i int) float64 { return math.Round((f.first+float64(i)*f.step)*1e6) / 1e6 }

// thinned are at most n of the values of(0) … of(all−1), the last one and others evenly before it; 0 is all.
func thinned(all, n int, of func(int) float64) []float64 {
	if n <= 0 || n > all {
		n = all
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = of((i+1)*all/n - 1)
	}
	return out
}

// Sweep is what the figure shows.
func (f *Figure) Sweep(o Options) (*sweep.Sweep, error) {
	cluster, err := platform.Parse(cmp.Or(f.cluster, "v100=36,p100=36,k80=36"), nil)
	if err != nil {
		return nil, err
	}
	prices, err := platform.Prices("gavel")
	if err != nil {
		return nil, err
	}
	cluster.Price(prices)
	s := &sweep.Sweep{Title: "Gavel, " + f.About, Seeds: o.Seeds, XName: map[bool]string{true: "jobs", false: "jobs/h"}[f.static]}
	s.Notes = append(s.Notes, fmt.Sprintf("published: %s of the repository of Gavel, mean of seeds 0, 1 and 2, from an older version of its code; the version of 2022-01-15 itself gives values that differ from these by a few percent", f.file))
	if f.note != "" {
		s.Notes = append(s.Notes, f.note)
	}
	if !o.Compat {
		s.Notes = append(s.Notes, "ours is our mechanism; --compat simulates as the code of Gavel does")
	}
	if f.static && o.Compat {
		s.Notes = append(s.Notes, "fifo of that version assigns almost all jobs that wait together to V100, which the version behind the published values did not: --compat=false does what it intends")
	}
	groups, policies := []string{}, map[string][]string{}
	lines := f.lines(o.Compat)
	for _, p := range o.Policies {
		if !slices.ContainsFunc(lines, func(l Line) bool { return l.Policy == p }) {
			return nil, fmt.Errorf("figure %s has no line of %q", f.Name, p)
		}
	}
	for _, l := range lines {
		if len(o.Policies) > 0 && !slices.Contains(o.Policies, l.Policy) {
			continue
		}
		policies[l.Group] = append(policies[l.Group], l.Policy)
		if !slices.Contains(s.Policies, l.Policy) {
			s.Policies = append(s.Policies, l.Policy)
		}
		if !slices.Contains(groups, l.Group) {
			groups = append(groups, l.Group)
		}
	}
	window := o.Window
	if window == (rounds.Window{}) {
		window = rounds.Window{Start: 4000, End: 5000}
	} else if !f.static {
		s.Notes = append(s.Notes, fmt.Sprintf("ours are jobs %d to %d, published are jobs 4000 to 4999: the difference is also one of jobs", window.Start, window.End-1))
	}
	for _, group := range groups {
		for _, x := range f.Xs(o.Points) {
			c := rounds.Config{Devices: rounds.Devices(cluster), Compat: o.Compat}
			c.Generate = &workload.Options{MultiGPU: f.multi, MultiPriority: f.priorities}
			if f.static {
				c.Total = int(x)
			} else {
				c.Generate.Lambda, c.Window = workload.PerHour(x), window
			}
			if err := mechanism(group, &c); err != nil {
				return nil, err
			}
			s.Scenarios = append(s.Scenarios, sweep.Scenario{Name: joined(short(x)+" "+s.XName, group), Group: group, X: x, Config: c, Policies: policies[group]})
		}
	}
	return s, nil
}

// ours is the group of lines that our own mechanism is run for while others are run as by the code of Gavel.
const ours = "our mechanism"

// lines are the published ones and what ours does best, in a group of its own where the others are run as by Gavel's code.
func (f *Figure) lines(compat bool) []Line {
	i := slices.IndexFunc(f.Lines, func(l Line) bool { return l.Policy == f.Against })
	if i < 0 || !compat && slices.ContainsFunc(f.Lines, func(l Line) bool { return l.Policy == f.Best }) {
		return f.Lines
	}
	best := f.Lines[i]
	best.Policy, best.Group = f.Best, ""
	if compat {
		best.Group = ours
	}
	return append(slices.Clone(f.Lines), best)
}

// mechanism is what a group of lines has of its own: "ideal", "rounds of … s", or whether rates of pairs are "measured" or
// "estimated" as in figure 14.
func mechanism(group string, c *rounds.Config) error {
	switch text, ok := strings.CutPrefix(group, "rounds of "); {
	case group == "", group == "measured":
	case group == ours:
		c.Compat = false
	case group == "estimated":
		c.Profiling = rounds.Profiling{Share: 0.2, References: 16}
	case group == "ideal":
		c.Ideal = true
	case ok:
		v, err := strconv.ParseFloat(strings.TrimSuffix(text, " s"), 64)
		c.Interval = v
		return err
	default:
		return fmt.Errorf("group %q of a figure is unknown", group)
	}
	return nil
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// at is the published value at a load; NaN when there is none.
func (f *Figure) at(l *Line, x float64) float64 {
	i := int(math.Round((x - f.first) / f.step))
	if i < 0 || i >= len(l.Hours) {
		return math.NaN()
	}
	return l.Hours[i]
}

// name of a line among the lines of a figure.
func (f *Figure) name(l *Line) string {
	name := l.Policy
	if l.Group != "" {
		name += ", " + l.Group
	}
	if l.Policy == f.Best && f.Best != f.Against {
		name += " (published: " + f.Against + ")"
	}
	for class, metric := range map[string]string{"low priority": "mean_jct_low_s", "high priority": "mean_jct_high_s"} {
		if l.Metric == metric {
			name += ", " + class
		}
	}
	return name
}

// Beside puts the published values into the comparison of an outcome of Sweep: a table and a chart.
func (f *Figure) Beside(o *sweep.Outcome) {
	c := o.Comparison
	var xs []float64
	for i := range o.Scenarios {
		if o.Scenarios[i].Group == o.Scenarios[0].Group {
			xs = append(xs, o.Scenarios[i].X)
		}
	}
	t := experiment.Table{Title: f.About + ", hours: published, ours, and ours by published; – where a line has no value", Head: []string{o.XName}}
	for _, x := range xs {
		t.Head = append(t.Head, short(x))
	}
	chart := experiment.Chart{Title: f.About, Note: "dashed: published", X: experiment.Axis{Name: o.XName}, Y: experiment.Axis{Name: "hours", Zero: true, Max: f.ceiling()}}
	lines := f.lines(slices.ContainsFunc(o.Scenarios, func(s sweep.Scenario) bool { return s.Group == ours }))
	for i := range lines {
		l := &lines[i]
		if !slices.ContainsFunc(o.Scenarios, func(s sweep.Scenario) bool { return s.Group == l.Group && slices.Contains(s.Policies, l.Policy) }) {
			continue
		}
		if i < len(f.Lines) {
			theirs := experiment.Line{Name: f.name(l) + ", published", Dash: true, Color: i%8 + 1}
			for k, v := range l.Hours {
				theirs.Points = append(theirs.Points, experiment.Point{X: f.x(k), Y: v})
			}
			chart.Lines = append(chart.Lines, theirs)
		}
		ours := experiment.Line{Name: f.name(l), Dots: true, Color: i%8 + 1}
		rows := [3][]string{{f.name(l)}, {"  ours"}, {"  ours / published"}}
		for _, x := range xs {
			p, m := f.at(l, x), value(o, l, x)/3600
			ours.Points = append(ours.Points, experiment.Point{X: x, Y: m})
			rows[0], rows[1], rows[2] = append(rows[0], hours(p, 2)), append(rows[1], hours(m, 2)), append(rows[2], hours(m/p, 3))
		}
		chart.Lines = append(chart.Lines, ours)
		t.Lines = append(t.Lines, rows[:]...)
	}
	c.Tables, c.Fold = []experiment.Table{t}, true
	if len(o.Scenarios) > 1 {
		c.Charts = nil
	}
	c.Charts = append([]experiment.Chart{chart}, c.Charts...)
}

// ceiling is where the picture ends: a little above the published values, but not where one of them is far from all others.
func (f *Figure) ceiling() float64 {
	if f.static {
		return 0
	}
	return 100
}

// value is ours of a line at a load, seconds; NaN unless every seed has one.
func value(o *sweep.Outcome, l *Line, x float64) float64 {
	for k := range o.Scenarios {
		if s := &o.Scenarios[k]; s.Group == l.Group && s.X == x {
			r, ok := o.At(k).Row(l.Policy, l.Metric)
			if !ok || r.N < len(o.Seeds) {
				return math.NaN()
			}
			return float64(r.Mean)
		}
	}
	return math.NaN()
}

func hours(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
