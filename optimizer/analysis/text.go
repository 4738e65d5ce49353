package analysis

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"trainopt/optimizer/chart"
)

const (
	textWidth  = 98 // columns, at most
	longBroken = 12 // violations that are shown
	longCurves = 4  // curves of a model that are shown
)

// overlapWords go with the findings.
const overlapWords = "The same dollar may appear under several findings: they do not add up."

// writeText writes for a terminal of 100 columns.
func writeText(w io.Writer, r *Report) error {
	t := &terminal{}
	t.line("", r.headline())
	if r.Runs > 0 {
		t.line("", r.subtitle())
		t.section("Time and money")
		t.table(r.moneyTable())
		t.prices(r)
		t.section("Use of what was given")
		t.table(r.useTable())
	}
	for i := range r.Models {
		t.model(&r.Models[i])
	}
	if len(r.Findings) > 0 {
		t.section("Where money goes without work")
		t.line("", overlapWords)
		for _, f := range r.Findings {
			t.finding(f)
		}
	}
	if r.Agreement != nil && r.Runs > 0 {
		t.agreement(r.Agreement)
	}
	if len(r.Notes) > 0 {
		t.section("Notes")
	}
	for _, n := range r.Notes {
		t.line("- ", n)
	}
	_, err := io.WriteString(w, chart.PlainBlanks(t.b.String()))
	return err
}

// terminal writes wrapped lines and tables.
type terminal struct{ b bytes.Buffer }

func (t *terminal) section(title string) {
	fmt.Fprintf(&t.b, "\n%s\n%s\n", strings.ToUpper(title), strings.Repeat("─", utf8.RuneCountInString(title)))
}

// line writes a text after a head, wrapped, further lines indented as far as the head.
func (t *terminal) line(head, text string) {
	indent := utf8.RuneCountInString(head)
	at := indent
	t.b.WriteString(head)
	for i, word := range strings.Split(chart.Clean(text), " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > textWidth:
			t.b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		case i > 0:
			t.b.WriteByte(' ')
			at++
		}
		for indent+n > textWidth { // a word that no line holds
			runes := []rune(word)
			cut := textWidth - at
			t.b.WriteString(string(runes[:cut]) + "\n" + strings.Repeat(" ", indent))
			word, n, at = string(runes[cut:]), n-cut, indent
		}
		t.b.WriteString(word)
		at += n
	}
	t.b.WriteByte('\n')
}

// table writes columns as wide as they need, words to the left, numbers to the right; the first column gives way, then the
// widest word.
func (t *terminal) table(g grid) {
	rows := append([][]string{g.Columns}, g.Rows...)
	widths := make([]int, len(g.Columns))
	sum := 0
	for k := range widths {
		for _, r := range rows {
			widths[k] = max(widths[k], utf8.RuneCountInString(r[k]))
		}
		sum += widths[k] + 2
	}
	for sum-2 > textWidth-2 {
		widest := 0
		for k := range widths {
			if k < max(1, g.Left) && widths[k] > widths[widest] {
				widest = k
			}
		}
		if widths[widest] <= 8 {
			break
		}
		widths[widest]--
		sum--
	}
	for i, r := range rows {
		var line strings.Builder
		for k, text := range r {
			text = clip(text, widths[k])
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(text))
			if k >= g.Left {
				text = pad + text
			} else {
				text += pad
			}
			line.WriteString("  " + text)
		}
		t.b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if i == 0 {
			t.b.WriteString("  " + strings.Repeat("─", sum-2) + "\n")
		}
	}
}

// clip cuts a text in its middle.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	if width < 3 {
		return string(r[:width])
	}
	head := (width - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(width-1-head):])
}

func (t *terminal) prices(r *Report) {
	for _, p := range r.Totals.Prices {
		t.line("  ", chart.Plural(p.Runs, "run")+" "+p.Words)
	}
	if r.Totals.Unpriced > 0 {
		t.line("  ", chart.Plural(r.Totals.Unpriced, "run")+" without a price")
	}
}

func (t *terminal) model(g *Group) {
	t.section(clip(g.name(), textWidth))
	t.line("", g.Work.words())
	for _, b := range g.Best {
		t.line(fmt.Sprintf("  %-18s ", measures[b.By]), b.value()+": "+b.Config)
		t.line(strings.Repeat(" ", 21), b.support())
	}
	for i := range g.Curves {
		if i == longCurves {
			fmt.Fprintf(&t.b, "\n  … %s more: --format html or json\n", chart.Plural(len(g.Curves)-i, "curve"))
			break
		}
		t.b.WriteByte('\n')
		t.line("", g.Curves[i].title()+":")
		t.table(g.Curves[i].table())
	}
}

func (t *terminal) finding(f Finding) {
	name := f.Model
	if f.Dataset != "" {
		name += " on " + f.Dataset
	}
	t.line("- ", name+": "+causes[f.Cause])
	t.line("    evidence  ", f.Evidence)
	if lost := f.lost(); lost != "" {
		t.line("    money     ", lost)
	}
	t.line("    try       ", f.Advice)
}

func (t *terminal) agreement(a *Agreement) {
	t.section("Limits")
	t.table(a.termTable())
	if len(a.Broken) == 0 {
		return
	}
	g := a.brokenTable()
	left := len(g.Rows) - longBroken
	if left > 0 {
		g.Rows = g.Rows[:longBroken]
	}
	t.b.WriteByte('\n')
	t.table(g)
	if left > 0 {
		fmt.Fprintf(&t.b, "  … %d more: --format html or json\n", left)
	}
}
