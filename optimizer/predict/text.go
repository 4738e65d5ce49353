package predict

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"trainopt/optimizer/chart"
)

const (
	textWidth = 100
	widest    = 28 // of a column of names
)

// renderText writes for a terminal.
func renderText(w io.Writer, a *Answer) error {
	d := a.document()
	wrap(w, "", d.Title)
	wrap(w, "", d.Sub)
	fmt.Fprintln(w)
	for _, f := range d.Fields {
		wrap(w, fmt.Sprintf("%-12s ", f.Name), f.Value)
	}
	for _, s := range d.Sections {
		fmt.Fprintf(w, "\n%s\n%s\n", strings.ToUpper(s.Title), strings.Repeat("─", twwidth.Width(s.Title)))
		if s.Intro != "" {
			wrap(w, "", s.Intro)
		}
		for _, item := range s.Items {
			if head, rest, ok := strings.Cut(item, " %  "); ok && len(head) == 3 { // a weight keeps its column
				wrap(w, head+" %  ", rest)
				continue
			}
			wrap(w, "- ", item)
		}
		if s.Table != nil {
			textTable(w, s.Table)
		}
	}
	return nil
}

// textTable writes a grid, the chosen row marked; names that are too wide for the line are cut.
func textTable(w io.Writer, t *table) {
	widths := make([]int, len(t.Columns))
	for k, name := range t.Columns {
		widths[k] = twwidth.Width(name)
		for _, r := range t.Rows {
			widths[k] = max(widths[k], twwidth.Width(r[k]))
		}
	}
	gap := "  "
	over := 2 + 2*(len(widths)-1) - textWidth
	for k := range widths {
		if k < t.Right {
			widths[k] = min(widths[k], widest)
		}
		over += widths[k]
	}
	if over > 0 {
		gap = " "
		widths[1] = max(8, widths[1]-max(0, over-len(widths)+1))
	}
	line := func(mark string, cells []string) {
		for k, cell := range cells {
			cell = clip(chart.Clean(cell), widths[k])
			pad := strings.Repeat(" ", widths[k]-twwidth.Width(cell))
			if k >= t.Right {
				cell = pad + cell
			} else {
				cell += pad
			}
			cells[k] = cell
		}
		fmt.Fprintln(w, strings.TrimRight(mark+strings.Join(cells, gap), " "))
	}
	line("  ", slices.Clone(t.Columns))
	for i, r := range t.Rows {
		line(map[bool]string{true: "> ", false: "  "}[i == t.Marked], slices.Clone(r))
	}
}

func clip(s string, width int) string {
	if twwidth.Width(s) <= width {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && twwidth.Width(string(r)) > width-1 {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// wrap writes text with a hanging indent as wide as the head.
func wrap(w io.Writer, head, text string) {
	line, indent := head, strings.Repeat(" ", twwidth.Width(head))
	empty := true
	for _, word := range strings.Fields(chart.Clean(text)) {
		if !empty && twwidth.Width(line)+1+twwidth.Width(word) > textWidth {
			fmt.Fprintln(w, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	if !empty || head == "" {
		fmt.Fprintln(w, line)
	}
}
