package evaluate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// formats are the ways to write a comparison. A new one is one function and one line here.
var formats = map[string]func(io.Writer, *Comparison) error{
	"csv":      renderCSV,
	"html":     renderHTML,
	"json":     renderJSON,
	"markdown": renderMarkdown,
	"text":     renderText,
}

// Formats lists the names that Render knows.
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
	out := csv.NewWriter(w)
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

// tables are the comparison and those that follow it.
func (c *Comparison) tables() []*Comparison { return append([]*Comparison{c}, c.Also...) }

// title is what the table is called.
func (c *Comparison) title() string {
	if c.Title != "" {
		return c.Title
	}
	return c.Engine
}

// subtitle says what the table rests on.
func (c *Comparison) subtitle() string {
	return fmt.Sprintf("%d policies, %d cases from %d seeds; 95 %% intervals (BCa bootstrap over seeds); p: sign-flip test over seeds, Holm-corrected in each metric",
		len(c.Policies), c.Cases, c.Seeds)
}

// grid is a table ready to be written: the first column is text, the others are figures.
type grid struct {
	Head  []string
	Lines [][]string
}

// shown are the metrics in which any policy has a value.
func (c *Comparison) shown() []Metric {
	return slices.DeleteFunc(slices.Clone(c.Definitions), func(m Metric) bool {
		return !slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Metric == m.Name && r.N > 0 })
	})
}

// overview is the means of all policies in the headline metrics, or in the details.
func (c *Comparison) overview(detail bool) grid {
	g := grid{Head: []string{"policy"}}
	var of []Metric
	for _, m := range c.shown() {
		if m.Detail == detail {
			of = append(of, m)
			g.Head = append(g.Head, m.Name)
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

// metric is one headline metric with its intervals and tests.
func (c *Comparison) metric(m Metric) grid {
	g := grid{Head: []string{m.Name, "mean", "95 % interval", "worst", "n"}}
	for _, b := range c.Against {
		g.Head = append(g.Head, "− "+b, "95 % interval", "p")
	}
	for _, policy := range c.Policies {
		r, _ := c.Row(policy, m.Name)
		worst := r.Max
		if m.Better == Higher {
			worst = r.Min
		}
		line := []string{policy, m.show(r.Mean), m.between(r.Lo, r.Hi), m.show(worst), strconv.Itoa(r.N)}
		for _, b := range c.Against {
			p, ok := c.Pair(policy, b, m.Name)
			if !ok {
				line = append(line, "", "", "")
				continue
			}
			line = append(line, m.signed(p.Difference), m.between(p.Lo, p.Hi), probability(p.PHolm))
		}
		g.Lines = append(g.Lines, line)
	}
	return g
}

// caption explains a metric in a line.
func (m Metric) caption() string {
	parts := []string{}
	if m.Means != "" {
		parts = append(parts, m.Means)
	}
	if m.Unit != "" && m.Unit != "share" {
		parts = append(parts, "in "+m.Unit)
	}
	if m.Better != Neither {
		parts = append(parts, string(m.Better)+" is better")
	}
	return strings.Join(parts, "; ")
}

// show prints a value with three significant digits; shares in percent.
func (m Metric) show(n Number) string {
	if !n.Known() {
		return "–"
	}
	if m.Unit == "share" {
		return figure(100*float64(n)) + " %"
	}
	return figure(float64(n))
}

func (m Metric) signed(n Number) string {
	s := m.show(n)
	if n > 0 && n.Known() {
		return "+" + s
	}
	return s
}

func (m Metric) between(lo, hi Number) string {
	if !lo.Known() || !hi.Known() {
		return "–"
	}
	if m.Unit == "share" {
		return figure(100*float64(lo)) + " … " + figure(100*float64(hi)) + " %"
	}
	return figure(float64(lo)) + " … " + figure(float64(hi))
}

// figure has three significant digits, without an exponent between 0.001 and a million.
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

func probability(p Number) string {
	switch {
	case !p.Known():
		return "–"
	case p < 0.0005:
		return "< 0.001"
	}
	return strconv.FormatFloat(float64(p), 'f', 3, 64)
}
