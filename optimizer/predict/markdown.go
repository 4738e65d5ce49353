package predict

import (
	"fmt"
	"io"
	"strings"

	"trainopt/optimizer/chart"
)

var markdownEscape = strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "*", `\*`, "_", `\_`, "[", `\[`)

func inMarkdown(s string) string { return markdownEscape.Replace(chart.Clean(s)) }

// renderMarkdown writes for a wiki or an issue.
func renderMarkdown(w io.Writer, a *Answer) error {
	d := a.document()
	fmt.Fprintf(w, "# %s\n\n", inMarkdown(d.Title))
	if d.Sub != "" {
		fmt.Fprintf(w, "%s\n\n", inMarkdown(d.Sub))
	}
	fmt.Fprint(w, "| | |\n|---|---|\n")
	for _, f := range d.Fields {
		fmt.Fprintf(w, "| %s | %s |\n", f.Name, inMarkdown(f.Value))
	}
	for _, s := range d.Sections {
		fmt.Fprintf(w, "\n## %s\n\n", s.Title)
		if s.Intro != "" {
			fmt.Fprintf(w, "%s\n\n", inMarkdown(s.Intro))
		}
		for _, item := range s.Items {
			fmt.Fprintf(w, "- %s\n", inMarkdown(strings.TrimSpace(item)))
		}
		if s.Table != nil {
			markdownTable(w, s.Table)
		}
	}
	return nil
}

func markdownTable(w io.Writer, t *table) {
	fmt.Fprintf(w, "| | %s |\n|---", strings.Join(t.Columns, " | "))
	for k := range t.Columns {
		fmt.Fprint(w, map[bool]string{true: "|--:", false: "|---"}[k >= t.Right])
	}
	fmt.Fprintln(w, "|")
	for i, r := range t.Rows {
		cells := make([]string, len(r))
		for k, c := range r {
			cells[k] = inMarkdown(c)
		}
		fmt.Fprintf(w, "| %s | %s |\n", map[bool]string{true: "chosen", false: ""}[i == t.Marked], strings.Join(cells, " | "))
	}
}
