package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// figure is a figure of Gavel's paper (Narayanan et al., OSDI 2020) with its published values, beside which ours are
// placed:
//
//	f, err := FindFigure("8")
//	s, err := f.Sweep(FigureOptions{Seeds: []uint64{0, 1, 2}, Compat: true})
//	o, err := Run(ctx, s)
//	f.Beside(o)
type figure struct {
	Name, Also string // names of the figure
	About      string
	Lines      []figureLine
	// Best is the policy that is run with our own mechanism, in a separate group; it must use no more information
	// than Against, the policy whose published values it is compared with. "": none.
	Best, Against string

	file        string // in the repository
	first, step float64
	cluster     string // "": 36 of each type
	note        string // remark on the published values
	multi       bool
	priorities  bool
	static      bool // all jobs arrive simultaneously
}

// figureLine is a line of a figure: a policy in one of several groups of runs ("" if there is only one).
type figureLine struct {
	Policy, Group, Metric string
	Hours                 []float64 // at first, first + step, first + 2·step, …
}

// solverRuntime is the name of figure 12, which is not a sweep; see Decisions.
const solverRuntime = "runtime"

// runtimeAlso is the alternative name of solverRuntime.
const runtimeAlso = "12"

// unavailable contains the figures that cannot be run, with the reason.
var unavailable = map[string]string{
	"11": "it shows one run over time, of which the repository has no values",
}

// Figures returns the available figures, one per line.
func Figures() string {
	var b strings.Builder
	line := func(name, also, about string) {
		if also != "" {
			name += ", " + also
		}
		fmt.Fprintf(&b, "  %-16s %s\n", name, about)
	}
	for _, f := range published() {
		line(f.Name, f.Also, f.About)
	}
	line(solverRuntime, runtimeAlso, "time that decisions take, by the number of jobs")
	return b.String()
}

// FindFigure returns a figure by one of its names. It returns nil without error for Runtime.
func FindFigure(name string) (*figure, error) {
	name = strings.TrimPrefix(strings.ToLower(name), "figure")
	name = strings.TrimPrefix(strings.TrimSpace(name), "fig")
	if name == solverRuntime || name == runtimeAlso {
		return nil, nil
	}
	names := []string{}
	for i := range published() {
		if f := &published()[i]; f.Name == name || f.Also == name && name != "" {
			return f, nil
		}
		names = append(names, published()[i].Name)
	}
	if why, ok := unavailable[name]; ok {
		return nil, fmt.Errorf("figure %s: %s", name, why)
	}
	return nil, fmt.Errorf("figure %q: unknown, want one of %s", name, strings.Join(append(names, solverRuntime), ", "))
}

// FigureOptions determine how a figure is run. Seeds are required; the zero value of all other fields reproduces the
// publication.
type FigureOptions struct {
	Seeds  []uint64
	Points int // maximum number of loads, evenly spread; 0: all
	Window Window
	Compat bool
	// Policies selects lines by policy; empty: all.
	Policies []string
}

// Xs returns at most n loads of the figure; 0: all.
func (f *figure) Xs(n int) []float64 {
	most := 0
	for _, l := range f.Lines {
		most = max(most, len(l.Hours))
	}
	return thinned(most, n, f.x)
}

// x returns the load of the i-th value of a line, as published.
func (f *figure) x(i int) float64 { return math.Round((f.first+float64(i)*f.step)*1e6) / 1e6 }

// thinned returns at most n of the values of(0) … of(all−1): the last one and others evenly spread before it; 0: all.
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

// Sweep returns the sweep that reproduces the figure.
func (f *figure) Sweep(o FigureOptions) (*Sweep, error) {
	machines, err := platform.Parse(cmp.Or(f.cluster, "v100=36,p100=36,k80=36"), nil)
	if err != nil {
		return nil, err
	}
	prices, err := platform.Prices("gavel")
	if err != nil {
		return nil, err
	}
	machines.Price(prices)
	s := &Sweep{Title: "Gavel, " + f.About, Seeds: o.Seeds, XName: map[bool]string{true: "jobs", false: "jobs/h"}[f.static]}
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
	// Policies by group of lines.
	groups, policies := []string{}, map[string][]string{}
	lines := f.lines(o.Compat)
	for _, p := range o.Policies {
		if !slices.ContainsFunc(lines, func(l figureLine) bool { return l.Policy == p }) {
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
	if window == (Window{}) {
		window = Window{Start: 4000, End: 5000}
	} else if !f.static {
		s.Notes = append(s.Notes, fmt.Sprintf("ours are jobs %d to %d, published are jobs 4000 to 4999: the difference is also one of jobs", window.Start, window.End-1))
	}
	// One scenario for each group and load.
	for _, group := range groups {
		for _, x := range f.Xs(o.Points) {
			c := Config{Devices: Devices(machines), Compat: o.Compat}
			c.Generate = &workload.Options{MultiGPU: f.multi, MultiPriority: f.priorities}
			if f.static {
				c.Total = int(x)
			} else {
				c.Generate.Lambda, c.Window = workload.PerHour(x), window
			}
			if err := figureMechanism(group, &c); err != nil {
				return nil, err
			}
			s.Scenarios = append(s.Scenarios, Scenario{Name: strings.TrimSuffix(short(x)+" "+s.XName+", "+group, ", "), Group: group, X: x, Config: c, Policies: policies[group]})
		}
	}
	return s, nil
}

// ours is the group of the line that uses our own mechanism while the others use the code of Gavel.
const ours = "our mechanism"

// lines returns the published lines and that of our best policy, in a separate group if the others use Gavel's code.
func (f *figure) lines(compat bool) []figureLine {
	i := slices.IndexFunc(f.Lines, func(l figureLine) bool { return l.Policy == f.Against })
	if i < 0 || !compat && slices.ContainsFunc(f.Lines, func(l figureLine) bool { return l.Policy == f.Best }) {
		return f.Lines
	}
	best := f.Lines[i]
	best.Policy, best.Group = f.Best, ""
	if compat {
		best.Group = ours
	}
	return append(slices.Clone(f.Lines), best)
}

// figureMechanism applies the setting of a group of lines: "ideal", "rounds of … s", or "measured" or "estimated" rates of
// pairs as in figure 14.
func figureMechanism(group string, c *Config) error {
	switch text, ok := strings.CutPrefix(group, "rounds of "); {
	case group == "", group == "measured":
	case group == ours:
		c.Compat = false
	case group == "estimated":
		c.Profiling = Profiling{Share: 0.2, References: 16}
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

// at returns the published value at a load; NaN if none exists.
func (f *figure) at(l *figureLine, x float64) float64 {
	i := int(math.Round((x - f.first) / f.step))
	if i < 0 || i >= len(l.Hours) {
		return math.NaN()
	}
	return l.Hours[i]
}

// name returns the label of a line.
func (f *figure) name(l *figureLine) string {
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

// Beside adds the published values to the comparison of an outcome of Sweep: a table and a chart.
func (f *figure) Beside(o *Outcome) {
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
	picture := page.Chart{Title: f.About, Note: "dashed: published", X: page.Axis{Name: o.XName}, Y: page.Axis{Name: "hours", Zero: true, Max: map[bool]float64{false: 100}[f.static]}} // slightly above the published values except for outliers
	lines := f.lines(slices.ContainsFunc(o.Scenarios, func(s Scenario) bool { return s.Group == ours }))
	for i := range lines {
		l := &lines[i]
		if !slices.ContainsFunc(o.Scenarios, func(s Scenario) bool { return s.Group == l.Group && slices.Contains(s.Policies, l.Policy) }) {
			continue
		}
		// Only lines of the figure have published values.
		if i < len(f.Lines) {
			theirs := page.Series{Name: f.name(l) + ", published", Dashed: true, Class: page.Class(i)}
			for k, v := range l.Hours {
				theirs.Points = append(theirs.Points, page.Point{X: f.x(k), Y: v})
			}
			picture.Series = append(picture.Series, theirs)
		}
		ours := page.Series{Name: f.name(l), Class: page.Class(i)}
		rows := [3][]string{{f.name(l)}, {"  ours"}, {"  ours / published"}}
		for _, x := range xs {
			p, m := f.at(l, x), value(o, l, x)/3600
			ours.Points = append(ours.Points, page.Point{X: x, Y: m})
			rows[0], rows[1], rows[2] = append(rows[0], hours(p, 2)), append(rows[1], hours(m, 2)), append(rows[2], hours(m/p, 3))
		}
		picture.Series = append(picture.Series, ours)
		t.Lines = append(t.Lines, rows[:]...)
	}
	c.Tables, c.Fold = []experiment.Table{t}, true
	if len(o.Scenarios) > 1 {
		c.Charts = nil
	}
	c.Charts = append([]page.Chart{picture}, c.Charts...)
}

// value returns our value of a line at a load in seconds; NaN unless every seed has one.
func value(o *Outcome, l *figureLine, x float64) float64 {
	if k := o.find(l.Group, x); k >= 0 {
		if r, ok := o.At(k).Row(l.Policy, l.Metric); ok && r.N == len(o.Seeds) {
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
