package front

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

const (
	narrowest = 40
	widest    = 120
	plotRows  = 14
)

// renderText writes for a terminal of that many columns: what is chosen, the front, a picture of it, and what one gives up.
func renderText(w io.Writer, f *Front, width int) error {
	if width <= 0 {
		width = 80
	}
	width = min(max(width, narrowest), widest)
	wrap(w, width, "", "Pareto front of "+clean(f.Subject)+": "+f.countWords())
	if f.Basis != "" {
		wrap(w, width, "", clean(f.Basis))
	}
	fmt.Fprintln(w)
	wrap(w, width, "preferred  ", preferenceWords(f.Preferred))
	wrap(w, width, "chosen     ", clean(f.chosenWords()))
	fmt.Fprintln(w)
	f.table(w, width)
	if len(f.Points) > 1 {
		fmt.Fprintln(w)
		f.plot(w, width)
	}
	if lines := f.tradeLines(); len(lines) > 0 {
		fmt.Fprintln(w, "\nWhat one gives up at the chosen point:")
		for _, l := range lines {
			wrap(w, width, "  ", clean(l))
		}
	}
	if len(f.Notes) > 0 {
		fmt.Fprintln(w)
		for _, n := range f.Notes {
			wrap(w, width, "note: ", clean(n))
		}
	}
	return nil
}

// table shows the front, columns as they fit. A long front is cut around the chosen point.
func (f *Front) table(w io.Writer, width int) {
	head := []string{"", "", "allocation", "time", "cost", "resources", f.rateName()}
	rows := [][]string{head}
	all := f.rows()
	from, to := window(all)
	for _, r := range all[from:to] {
		mark := " "
		if r.Chosen {
			mark = ">"
		}
		name := r.Name
		if r.Taken && !r.Chosen {
			name += " (the run's plan)"
		}
		rows = append(rows, []string{mark, r.Label, name, r.Time, r.Cost, r.Resource, r.Rate})
	}
	widths, over := columnWidths(rows, width)
	rates := len(f.Steps) > 0 && over <= 0
	if !rates { // nothing to say, or no room to say it
		for i := range rows {
			rows[i] = rows[i][:6]
		}
		widths, over = columnWidths(rows, width)
	}
	widths[2] = max(10, widths[2]-max(0, over))
	for i, r := range rows {
		var b strings.Builder
		for k, cell := range r {
			cell = clip(cell, widths[k])
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell))
			if k >= 3 {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString(cell + map[bool]string{true: " ", false: "  "}[k == 0])
		}
		fmt.Fprintln(w, clip(strings.TrimRight(b.String(), " "), width))
		if i == 0 && from > 0 {
			fmt.Fprintf(w, "   … %d faster\n", from)
		}
	}
	if rest := len(all) - to; rest > 0 {
		fmt.Fprintf(w, "   … %d slower (all: --format csv)\n", rest)
	}
	if rates {
		wrap(w, width, "", f.rateWords())
	}
}

// columnWidths gives the width that each column needs, and by how much the row is then too wide.
func columnWidths(rows [][]string, width int) (widths []int, over int) {
	widths = make([]int, len(rows[0]))
	over = -3 - width // the first gap is one blank, the last none
	for k := range widths {
		for _, r := range rows {
			widths[k] = max(widths[k], utf8.RuneCountInString(r[k]))
		}
		over += widths[k] + 2
	}
	return widths, over
}

// window is the part of a long front around the chosen point.
func window(rows []row) (from, to int) {
	const most = 16
	if len(rows) <= most {
		return 0, len(rows)
	}
	for i, r := range rows {
		if r.Chosen {
			from = min(max(0, i-most/2), len(rows)-most)
		}
	}
	return from, from + most
}

// plot draws time × cost in characters: letters are the front, [X] is chosen, dots are dominated, crosses may break
// the agreement.
func (f *Front) plot(w io.Writer, width int) {
	x, y := f.axes(5, 4)
	yLabels := 0
	for _, t := range y.ticks {
		yLabels = max(yLabels, utf8.RuneCountInString(y.label(t)))
	}
	columns := width - yLabels - 3
	grid := make([][]rune, plotRows)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", columns))
	}
	cell := func(p Point) (r, c int) {
		return plotRows - 1 - cellOf(y, p.CostUSD.P50, plotRows), cellOf(x, p.Seconds.P50, columns)
	}
	var shown struct{ dot, cross, several bool }
	for _, p := range f.Points { // what is off the front below
		if r, c := cell(p); !p.OnFront {
			grid[r][c] = '·'
			if !p.Feasible && f.Infeasible > 0 {
				grid[r][c], shown.cross = 'x', true
			} else {
				shown.dot = true
			}
		}
	}
	for _, p := range f.Points {
		if r, c := cell(p); p.OnFront && !p.Chosen {
			mark, _ := utf8.DecodeRuneInString(p.Label)
			if len(p.Label) > 1 || grid[r][c] >= 'A' && grid[r][c] <= 'Z' || grid[r][c] == '*' {
				mark, shown.several = '*', true
			}
			grid[r][c] = mark
		}
	}
	chosen := f.Points[f.Chosen]
	r, c := cell(chosen)
	put(grid[r], c-1, "["+clip(chosen.Label, 2)+"]")
	fmt.Fprintf(w, "cost, %s%s\n", y.unit, logarithmic(y))
	ticks := map[int]string{}
	for _, t := range y.ticks {
		ticks[plotRows-1-cellOf(y, t, plotRows)] = y.label(t)
	}
	for i, line := range grid {
		edge := "│"
		if ticks[i] != "" {
			edge = "┤"
		}
		fmt.Fprintf(w, "%*s %s%s\n", yLabels, ticks[i], edge, strings.TrimRight(string(line), " "))
	}
	base, names := []rune(strings.Repeat("─", columns)), []rune(strings.Repeat(" ", columns+8))
	free := 0
	for _, t := range x.ticks {
		c, text := cellOf(x, t, columns), x.label(t)
		base[c] = '┴'
		if start := c - len(text)/2; start >= free && start+len(text) <= columns {
			put(names, start, text)
			free = start + len(text) + 2
		}
	}
	fmt.Fprintf(w, "%*s └%s\n%*s  %s\n", yLabels, "", string(base), yLabels, "", strings.TrimRight(string(names), " "))
	title := "time, " + x.unit + logarithmic(x)
	fmt.Fprintf(w, "%*s\n", width, title)
	keys := "[" + chosen.Label + "] chosen, letters: the front"
	if shown.several {
		keys += ", *: several or beyond Z"
	}
	if shown.dot {
		keys += ", ·: dominated"
	}
	if shown.cross {
		keys += ", x: may break the agreement"
	}
	wrap(w, width, "", keys)
}

func logarithmic(a axis) string {
	if a.log {
		return " (logarithmic)"
	}
	return ""
}

func cellOf(a axis, v float64, cells int) int {
	return min(max(int(math.Round(a.at(v)*float64(cells-1))), 0), cells-1)
}

// put writes text into a line where it fits.
func put(line []rune, from int, text string) {
	runes := []rune(text)
	from = min(max(from, 0), max(0, len(line)-len(runes)))
	copy(line[from:], runes)
}

func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(width-1, 0)]) + "…"
}

// wrap writes text with a hanging indent as wide as the head.
func wrap(w io.Writer, width int, head, text string) {
	line, indent := head, strings.Repeat(" ", utf8.RuneCountInString(head))
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(w, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, line)
}
