package experiment

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
)

// formats contains the writer of each format. A new one is one line here.
var formats = page.Formats[*Comparison]{
	"csv":      page.CSVOf((*Comparison).lines),
	"html":     page.HTMLOf(func(c *Comparison) page.Document { return c.document(true) }),
	"json":     page.JSONOf(func(c *Comparison) *Comparison { return c }),
	"markdown": page.MarkdownOf(func(c *Comparison) page.Document { return c.document(false) }),
	"text":     page.TextOf((*Comparison).folded),
}

// Formats lists the formats supported by Render.
func Formats() []string { return formats.Names() }

// Render writes a comparison in one of Formats.
func (c *Comparison) Render(w io.Writer, format string) error {
	return formats.Write(w, "comparison", c, format)
}

// document returns an overview, the caller's tables, each headline metric with its intervals and tests, and the means
// of the details, for the comparison and each further one. Pictured, it has the caller's charts before the metrics and
// a plot of each metric.
func (c *Comparison) document(pictured bool) page.Document {
	d := page.Document{Layout: page.Comparison, Title: c.title(), Subtitle: c.subtitle()}
	for i, t := range c.tables() {
		s := t.section(pictured)
		if i > 0 {
			s.ID, s.Title, s.Intro = fmt.Sprintf("t%d", i), t.title(), t.subtitle()
		}
		d.Sections = append(d.Sections, s)
	}
	return d
}

// folded returns the document for a terminal.
func (c *Comparison) folded() page.Document {
	d := c.document(false)
	if c.Fold && len(c.Also) > 0 {
		more := fmt.Sprintf("%d further tables, with intervals, tests and notes: as html, markdown, csv or json", len(c.Also))
		d.Sections = append(d.Sections[:1], page.Section{Blocks: []page.Block{{Text: []string{more}}}})
	}
	return d
}

// section returns the tables of one comparison.
func (c *Comparison) section(pictured bool) page.Section {
	s := page.Section{Notes: c.Notes}
	if g := c.overview(false); g != nil {
		s.Blocks = append(s.Blocks, page.Block{Table: g})
	}
	for _, t := range c.Tables {
		s.Blocks = append(s.Blocks, page.Block{Caption: t.Title, Table: page.Grid(t.Head, t.Lines)})
	}
	if pictured && len(c.Charts) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Pictures: page.Pictures(c.Charts)})
	}
	for i := range c.Pictures {
		if pictured {
			s.Blocks = append(s.Blocks, page.Block{Wide: &c.Pictures[i]})
		}
	}
	details := page.Block{Caption: "details, means", Table: c.overview(true), Legend: []page.Field{}}
	for _, m := range c.shown() {
		if !m.Detail {
			b := page.Block{Caption: m.Label(), Intro: m.caption(), Table: c.metric(m)}
			if pictured {
				p := c.estimates(m)
				b.Wide = &p
			}
			s.Blocks = append(s.Blocks, b)
		} else if m.caption() != "" {
			details.Legend = append(details.Legend, page.Field{Name: m.Label(), Value: m.caption()})
		}
	}
	if details.Table != nil {
		s.Blocks = append(s.Blocks, details)
	}
	return s
}

// estimates plots the mean of each policy in a metric.
func (c *Comparison) estimates(m Metric) page.Picture {
	unit, _ := m.scale() // of the axis, whose steps are round numbers
	label := func(v float64) string { return m.show(Number(v * unit)) }
	if m.Unit == "share" { // without trailing zeros
		label = func(v float64) string { return strings.Replace(fmt.Sprintf("%.4g %%", 100*v), "-", "−", 1) }
	}
	e := page.Estimates{Title: m.Label() + ", means and 95 % intervals", Label: label, Plain: m.Unit != "share", Why: "no policy has a value"}
	for _, p := range c.Policies {
		r, _ := c.Row(p, m.Name)
		if r.N == 0 {
			r.Mean = Number(math.NaN())
		}
		e.Rows = append(e.Rows, page.Estimate{Name: p, Mean: float64(r.Mean) / unit, Lo: float64(r.Lo) / unit, Hi: float64(r.Hi) / unit, Text: m.show(r.Mean)})
	}
	return e.Picture()
}

// lines returns rows, then pairs, as one table: kind is "row" or "pair"; unknown numbers are empty.
func (c *Comparison) lines() [][]string {
	plain := func(n Number) string { return page.CSVCell(float64(n), 6) }
	lines := [][]string{{"kind", "table", "metric", "policy", "against", "value", "lo", "hi", "min", "max", "p", "p_holm", "n"}}
	for _, t := range c.tables() {
		for _, r := range t.Rows {
			lines = append(lines, []string{"row", t.Title, r.Metric, r.Policy, "", plain(r.Mean), plain(r.Lo), plain(r.Hi), plain(r.Min), plain(r.Max), "", "", strconv.Itoa(r.N)})
		}
		for _, p := range t.Paired {
			lines = append(lines, []string{"pair", t.Title, p.Metric, p.A, p.B, plain(p.Difference), plain(p.Lo), plain(p.Hi), "", "", plain(p.P), plain(p.PHolm), strconv.Itoa(p.N)})
		}
	}
	return lines
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
	return fmt.Sprintf("%d policies, %s from %s; 95 %% intervals (BCa bootstrap over seeds); %s", len(c.Policies), page.Plural(c.Cases, "case"), page.Plural(c.Seeds, "seed"), test)
}

// tested reports whether there are enough seeds for a meaningful test.
func (c *Comparison) tested() bool { return c.Seeds >= enoughSeeds }

// shown returns the metrics in which any policy has a value.
func (c *Comparison) shown() []Metric {
	return slices.DeleteFunc(slices.Clone(c.Definitions), func(m Metric) bool {
		return !slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Metric == m.Name && r.N > 0 })
	})
}

// overview returns the means of all policies in the headline metrics, or in the details; nil without any.
func (c *Comparison) overview(detail bool) *page.Table {
	head := []string{"policy"}
	var lines [][]string
	var of []Metric
	for _, m := range c.shown() {
		if m.Detail == detail {
			of, head = append(of, m), append(head, m.Label())
		}
	}
	if len(of) == 0 || len(c.Policies) == 0 {
		return nil
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
		lines = append(lines, line)
	}
	return page.Grid(head, lines)
}

// metric returns the table of one headline metric with its intervals and tests.
func (c *Comparison) metric(m Metric) *page.Table {
	head, groups := []string{m.Label(), "mean", "95 % interval", "worst", "n"}, []int{4}
	var lines [][]string
	group := 2 // columns per pair
	if c.tested() {
		group = 3
	}
	for _, b := range c.Against {
		head = append(head, []string{"− " + b, "95 % interval", "p"}[:group]...)
		groups = append(groups, group)
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
		lines = append(lines, line)
	}
	g := page.Grid(head, lines)
	g.Groups = groups
	return g
}

// Label returns the displayed name of a metric: its name as words, with the unit.
func (m Metric) Label() string {
	name, unit := cmp.Or(m.Title, m.Name), ""
	if end, ok := map[string]string{"s": "_s", "USD": "_usd", "J": "_joules"}[m.Unit]; ok {
		_, shown := m.scale()
		name, unit = strings.TrimSuffix(name, end), " ("+shown+")"
	}
	words := strings.Split(name, "_")
	for i, w := range words {
		if slices.Contains([]string{"jct", "rps", "slo"}, w) {
			words[i] = strings.ToUpper(w)
		}
	}
	return strings.Join(words, " ") + unit
}

// scale returns the unit in which the values of a metric are displayed, and its size in the unit of the metric.
func (m Metric) scale() (size float64, unit string) {
	switch {
	case m.Hours:
		return 3600, "h"
	case m.Unit == "J":
		return 1e6, "MJ"
	}
	return 1, m.Unit
}

// caption returns a one-line explanation of a metric.
func (m Metric) caption() string {
	parts := []string{}
	if m.Means != "" {
		parts = append(parts, m.Means)
	}
	if m.Unit != "" && m.Unit != "share" && !strings.HasSuffix(m.Label(), ")") {
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
	sign := ""
	if m.Change && n > 0 {
		sign = "+"
	}
	if m.Unit == "share" {
		return sign + figure(100*float64(n)) + " %"
	}
	size, _ := m.scale()
	return sign + figure(float64(n)/size)
}

// signed formats a difference with its sign.
func (m Metric) signed(n Number) string {
	m.Change = true
	return m.show(n)
}

// between formats an interval in the unit of show.
func (m Metric) between(lo, hi Number) string {
	if !lo.Known() || !hi.Known() {
		return "–"
	}
	if m.Unit == "share" {
		return figure(100*float64(lo)) + " … " + figure(100*float64(hi)) + " %"
	}
	size, _ := m.scale()
	return figure(float64(lo)/size) + " … " + figure(float64(hi)/size)
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
