package experiment

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"trainopt/monitor"
)

// formats contains the writer of each format. A new one is one function and one line here.
var formats = map[string]func(io.Writer, *Comparison) error{
	"csv":      renderCSV,
	"html":     renderHTML,
	"json":     renderJSON,
	"markdown": renderMarkdown,
	"text":     renderText,
}

// Formats lists the formats supported by Render.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Render writes a comparison in one of Formats.
func Render(w io.Writer, c *Comparison, format string) error {
	f, ok := formats[format]
	if !ok {
		return fmt.Errorf("write comparison: format %q is unknown, want one of %s", format, strings.Join(Formats(), ", "))
	}
	return f(w, c)
}

func renderJSON(w io.Writer, c *Comparison) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// renderCSV writes rows, then pairs, as one table: kind is "row" or "pair"; unknown numbers are empty.
func renderCSV(w io.Writer, c *Comparison) error {
	out := monitor.NewCSVWriter(w)
	plain := func(n Number) string {
		if !n.Known() {
			return ""
		}
		return strconv.FormatFloat(float64(n), 'g', 6, 64)
	}
	lines := [][]string{{"kind", "table", "metric", "policy", "against", "value", "lo", "hi", "min", "max", "p", "p_holm", "n"}}
	for _, t := range c.tables() {
		for _, r := range t.Rows {
			lines = append(lines, []string{"row", t.Title, r.Metric, r.Policy, "", plain(r.Mean), plain(r.Lo), plain(r.Hi), plain(r.Min), plain(r.Max), "", "", strconv.Itoa(r.N)})
		}
		for _, p := range t.Paired {
			lines = append(lines, []string{"pair", t.Title, p.Metric, p.A, p.B, plain(p.Difference), plain(p.Lo), plain(p.Hi), "", "", plain(p.P), plain(p.PHolm), strconv.Itoa(p.N)})
		}
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("write comparison as CSV: %w", err)
	}
	return nil
}

// tables returns the comparison followed by its further comparisons.
func (c *Comparison) tables() []*Comparison { return append([]*Comparison{c}, c.Also...) }

// title returns the title of the table, the engine by default.
func (c *Comparison) title() string {
	if c.Title != "" {
		return c.Title
	}
	return c.Engine
}

// enoughSeeds is the number of seeds from which p-values are shown: with four seeds the sign-flip test cannot return
// less than 0.125, whatever the difference.
const enoughSeeds = 5

// subtitle describes the data and methods of the table.
func (c *Comparison) subtitle() string {
	test := "p: sign-flip test over seeds, Holm-corrected in each metric"
	if !c.tested() {
		test = fmt.Sprintf("too few seeds for a test (below %d)", enoughSeeds)
	}
	return fmt.Sprintf("%d policies, %d cases from %d seeds; 95 %% intervals (BCa bootstrap over seeds); %s", len(c.Policies), c.Cases, c.Seeds, test)
}

// tested reports whether there are enough seeds for a meaningful test.
func (c *Comparison) tested() bool { return c.Seeds >= enoughSeeds }

// grid is a formatted table: the first column is text, the others are numbers.
type grid struct {
	Head  []string
	Lines [][]string
	// Groups contains the numbers of adjacent columns, after the first, that are not separated when a wide table is
	// split; nil: each column separately.
	Groups []int
}

// grid returns the formatted table.
func (t *Table) grid() grid { return grid{Head: t.Head, Lines: t.Lines} }

// within splits a table wider than width characters into narrower ones, each starting with the first column.
func (g grid) within(width int) []grid {
	sizes := make([]int, len(g.Head))
	for _, l := range append([][]string{g.Head}, g.Lines...) {
		for i, c := range l {
			sizes[i] = max(sizes[i], utf8.RuneCountInString(c)+2) // with a space on both sides
		}
	}
	groups := g.Groups
	if groups == nil {
		groups = slices.Repeat([]int{1}, max(0, len(g.Head)-1))
	}
	var out []grid
	var columns []int
	used, at := 0, 1
	flush := func() {
		part := grid{Lines: make([][]string, len(g.Lines))}
		for _, c := range append([]int{0}, columns...) {
			part.Head = append(part.Head, g.Head[c])
			for i := range g.Lines {
				part.Lines[i] = append(part.Lines[i], g.Lines[i][c])
			}
		}
		out, columns, used = append(out, part), nil, 0
	}
	for _, n := range groups {
		size := 0
		for c := at; c < at+n; c++ {
			size += sizes[c]
		}
		if len(columns) > 0 && sizes[0]+used+size > width {
			flush()
		}
		for ; n > 0; n, at = n-1, at+1 {
			columns = append(columns, at)
		}
		used += size
	}
	flush()
	return out
}

// shown returns the metrics in which any policy has a value.
func (c *Comparison) shown() []Metric {
	return slices.DeleteFunc(slices.Clone(c.Definitions), func(m Metric) bool {
		return !slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Metric == m.Name && r.N > 0 })
	})
}

// overview returns the means of all policies in the headline metrics, or in the details.
func (c *Comparison) overview(detail bool) grid {
	g := grid{Head: []string{"policy"}}
	var of []Metric
	for _, m := range c.shown() {
		if m.Detail == detail {
			of = append(of, m)
			g.Head = append(g.Head, m.label())
		}
	}
	if len(of) == 0 {
		return grid{}
	}
	for _, p := range c.Policies {
		line := []string{p}
		for _, m := range of {
			r, _ := c.Row(p, m.Name)
			if r.N == 0 {
				r.Mean = Number(math.NaN())
			}
			line = append(line, m.show(r.Mean))
		}
		g.Lines = append(g.Lines, line)
	}
	return g
}

// metric returns the table of one headline metric with its intervals and tests.
func (c *Comparison) metric(m Metric) grid {
	g := grid{Head: []string{m.label(), "mean", "95 % interval", "worst", "n"}, Groups: []int{4}}
	group := 2 // columns per pair
	if c.tested() {
		group = 3
	}
	for _, b := range c.Against {
		g.Head = append(g.Head, []string{"− " + b, "95 % interval", "p"}[:group]...)
		g.Groups = append(g.Groups, group)
	}
	for _, policy := range c.Policies {
		r, _ := c.Row(policy, m.Name)
		worst := r.Max
		if m.Better == Higher {
			worst = r.Min
		}
		line := []string{policy, m.show(r.Mean), m.between(r.Lo, r.Hi), m.show(worst), strconv.Itoa(r.N)}
		for _, b := range c.Against {
			cells := []string{"", "", ""}
			if p, ok := c.Pair(policy, b, m.Name); ok {
				cells = []string{m.signed(p.Difference), m.between(p.Lo, p.Hi), p.probability()}
			}
			line = append(line, cells[:group]...)
		}
		g.Lines = append(g.Lines, line)
	}
	return g
}

// label returns the displayed name of a metric, with the unit if it is converted.
func (m Metric) label() string {
	if m.Hours {
		return strings.TrimSuffix(m.Name, "_s") + " (h)"
	}
	return m.Name
}

// caption returns a one-line explanation of a metric.
func (m Metric) caption() string {
	parts := []string{}
	if m.Means != "" {
		parts = append(parts, m.Means)
	}
	switch {
	case m.Hours:
		parts = append(parts, "in h")
	case m.Unit != "" && m.Unit != "share":
		parts = append(parts, "in "+m.Unit)
	}
	if m.Better != Neither {
		parts = append(parts, string(m.Better)+" is better")
	}
	return strings.Join(parts, "; ")
}

// show formats a value with three significant digits; shares in percent.
func (m Metric) show(n Number) string {
	if !n.Known() {
		return "–"
	}
	if m.Unit == "share" {
		return figure(100*float64(n)) + " %"
	}
	if m.Hours {
		n /= 3600
	}
	return figure(float64(n))
}

// signed formats a difference with its sign.
func (m Metric) signed(n Number) string {
	s := m.show(n)
	if n > 0 && n.Known() {
		return "+" + s
	}
	return s
}

// between formats an interval in the unit of show.
func (m Metric) between(lo, hi Number) string {
	if !lo.Known() || !hi.Known() {
		return "–"
	}
	if m.Unit == "share" {
		return figure(100*float64(lo)) + " … " + figure(100*float64(hi)) + " %"
	}
	if m.Hours {
		lo, hi = lo/3600, hi/3600
	}
	return figure(float64(lo)) + " … " + figure(float64(hi))
}

// figure formats a value with three significant digits, without an exponent between 0.001 and a million.
func figure(v float64) string {
	if v == 0 || math.Abs(v) < 5e-10 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits > 5 || digits < -4 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', max(0, digits), 64)
	return strings.Replace(s, "-", "−", 1)
}

// probability formats the corrected p-value, or "too few" below enoughSeeds.
func (p Pair) probability() string {
	switch {
	case !p.PHolm.Known():
		return "–"
	case p.Seeds < enoughSeeds:
		return "too few"
	case p.PHolm < 0.0005:
		return "< 0.001"
	}
	return strconv.FormatFloat(float64(p.PHolm), 'f', 3, 64)
}
