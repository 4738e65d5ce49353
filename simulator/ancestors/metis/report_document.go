package metis

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
)

// width is the maximum line width of text output, in columns.
const width = 100

// listed and listedOnPages are the maximum numbers of kinds of nodes in text output and on pages.
const listed, listedOnPages = 20, 200

// title returns the method and the cluster in one line.
func (v *view) title() string {
	title := v.Method + " on " + v.cluster()
	if v.Compat {
		title += ", as the published code does"
	}
	return title
}

func (v *view) cluster() string {
	types := v.Problem.Types
	if len(types) == 1 {
		return fmt.Sprintf("%s of %d containers", counted(types[0].Count, "node"), types[0].Table.Capacity())
	}
	var words []string
	for _, t := range types {
		words = append(words, fmt.Sprintf("%d %s", t.Count, t.Name))
	}
	return strings.Join(words, " + ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (v *view) subtitle() string {
	s := v.What
	if m, err := Find(v.Method); err == nil && m.Random {
		s += fmt.Sprintf("; seed %d", v.Seed)
	}
	return s
}

func (v *view) predictor() string {
	if v.Told == nil {
		return "measured"
	}
	return v.Predictor
}

// facts returns the figures of a run for display.
func (v *view) facts() []page.Field {
	var out []page.Field
	add := func(name, format string, args ...any) {
		out = append(out, page.Field{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	add("mean RPS", "%s", fixed(v.worth.MeanRPS, 4))
	if v.Told != nil {
		add("predicted RPS", "%s", fixed(v.predicted.MeanRPS, 4))
	}
	if o := v.objective(); o != meanRPS && page.Known(v.Value) {
		add(o, "%s", figure(v.Value))
	}
	if page.Known(v.Bound) {
		add("at most", "%s", figure(v.Bound))
		add("gap to that", "%s", gap(v.Gap))
	}
	if v.worth.NodesUsed > 0 {
		add(fmt.Sprintf("RPS ≥ %g", v.Problem.Threshold()), "%s", percent(v.worth.SLOShare))
	}
	if len(v.Problem.Constraints) > 0 {
		add("wishes missed", "%s, by %s", figure(float64(v.worth.Instances)), figure(v.worth.Magnitude))
	}
	add("nodes used", "%d of %d", v.worth.NodesUsed, v.Problem.Nodes())
	if v.worth.Cost > 0 {
		add("cost", "%s", figure(v.worth.Cost))
	}
	if page.Known(v.SolveS) {
		add("solved in", "%s", span(v.SolveS))
	}
	return out
}

const meanRPS = "mean RPS"

// objective names the objective of the method's value.
func (v *view) objective() string {
	if m, err := Find(v.Method); err == nil && !m.Objective {
		return map[string]string{"medea": "−missed", "medea-worst": "−mean RPS"}[v.Method]
	}
	w := weights(v.Objective)
	if len(w) == 1 && w["rps"] == 1 {
		return meanRPS
	}
	var words []string
	for _, name := range []string{"rps", "slo", "vacant", "cost", "violations"} {
		if w[name] != 0 {
			words = append(words, fmt.Sprintf("%s=%g", name, w[name]))
		}
	}
	return strings.Join(words, ",")
}

// patterns returns a table of at most the given number of kinds of nodes.
func (v *view) patterns(most int) (t experiment.Table) {
	t = experiment.Table{Title: fmt.Sprintf("What nodes hold: %s", counted(len(v.groups), "kind"))}
	if len(v.Problem.Types) > 1 {
		t.Head = append(t.Head, "type")
	}
	t.Head = append(t.Head, "nodes")
	t.Head = append(t.Head, v.names...)
	t.Head = append(t.Head, "mean RPS", "served", "missed")
	rest := experiment.Table{}
	nodes := 0
	for i, g := range v.groups {
		if i >= most {
			nodes += g.nodes
			continue
		}
		var line []string
		if len(v.Problem.Types) > 1 {
			line = append(line, v.Problem.Types[g.kind].Name)
		}
		line = append(line, strconv.Itoa(g.nodes))
		for _, k := range g.counts {
			line = append(line, orDot(int(k)))
		}
		t.Lines = append(t.Lines, append(line, fixed(ratio(g.rps, g.size), 3), of(g.served, g.size), orDot(int(math.Round(g.missed)))))
	}
	if len(v.groups) > most {
		rest.Title = fmt.Sprintf("; %d are shown, %d nodes hold others", most, nodes)
	}
	t.Title += rest.Title
	return t
}

func of(k, n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", k, n)
}

func orDot(k int) string {
	if k == 0 {
		return "·"
	}
	return strconv.Itoa(k)
}

// byApp returns a table of throughput by app.
func (v *view) byApp() experiment.Table {
	t := experiment.Table{Title: "By app", Head: []string{"app", "containers", "mean RPS", fmt.Sprintf("RPS ≥ %g", v.Problem.Threshold())}}
	for i := range v.apps {
		a := &v.apps[i]
		t.Lines = append(t.Lines, []string{a.name, strconv.Itoa(a.containers), fixed(a.mean(), 3), percent(a.share())})
	}
	return t
}

// document returns the figures, the kinds of nodes, the apps and the notes of a placement.
func (v *view) document() page.Document {
	kinds, apps := block(v.patterns(listed)), block(v.byApp())
	if slices.ContainsFunc(kinds.Text[1:], func(l string) bool { return utf8.RuneCountInString(l) > width }) {
		kinds.Text = v.inWords()
	}
	notes := slices.Concat(v.Notes, v.Outcome.Notes)
	if len(notes) > 0 {
		apps.Text = append(apps.Text, "") // separates the notes
	}
	return page.Document{Layout: page.Listing, Title: v.title(), Subtitle: v.subtitle(),
		Sections: []page.Section{{Blocks: []page.Block{{Fields: v.facts()}, kinds, apps}, Notes: notes}}}
}

// inWords lists kinds of nodes if there are too many apps for a table.
func (v *view) inWords() []string {
	lines := []string{v.patterns(listed).Title}
	for _, g := range v.groups[:min(listed, len(v.groups))] {
		var words []string
		for a, k := range g.counts {
			if k > 0 {
				words = append(words, fmt.Sprintf("%d %s", k, v.names[a]))
			}
		}
		if words == nil {
			words = []string{"nothing"}
		}
		name := ""
		if len(v.Problem.Types) > 1 {
			name = " " + v.Problem.Types[g.kind].Name
		}
		text := page.Hang(fmt.Sprintf("  %5d%s × %s (mean RPS %s)", g.nodes, name, strings.Join(words, ", "), fixed(ratio(g.rps, g.size), 3)), "        ")
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	return lines
}

// block returns a table whose text has narrow columns; the first is left-aligned unless it contains numbers of nodes.
func block(t experiment.Table) page.Block {
	b := page.Block{Caption: t.Title, Table: page.Grid(t.Head, t.Lines), Text: []string{t.Title}}
	lines := append([][]string{t.Head}, t.Lines...)
	widths := make([]int, len(t.Head))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		row := ""
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 && t.Head[0] != "nodes" {
				row += "  " + cell + pad
			} else {
				row += "  " + pad + cell
			}
		}
		b.Text = append(b.Text, row)
	}
	return b
}

func fixed(v float64, digits int) string {
	if !page.Known(v) {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// figure formats a number with at most six digits.
func figure(v float64) string {
	if !page.Known(v) {
		return "unknown"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func percent(v float64) string {
	if !page.Known(v) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func gap(v float64) string {
	switch {
	case !page.Known(v):
		return "unknown"
	case v < 5e-9:
		return "0 %"
	}
	return strconv.FormatFloat(100*v, 'g', 2, 64) + " %"
}

func span(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.0f ms", max(1, 1000*s))
	case s < 120:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.1f min", s/60)
}
