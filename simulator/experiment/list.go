package experiment

import (
	"encoding/json"
	"fmt"
	"strings"

	"trainopt/optimizer/report/page"
)

// List lists policies or methods, as text or JSON.
type List []Listed

// Listed is a policy or method with the lines of its description. Without a name it is the heading of those that follow.
type Listed struct {
	Name  string
	Lines []string
}

// Text returns one entry per line, or per paragraph if it has several lines.
func (l List) Text() string {
	var b strings.Builder
	grouped := false
	for _, e := range l {
		switch {
		case e.Name == "":
			if grouped = true; b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(page.Hang(e.Lines[0], "  "))
		case grouped:
			b.WriteString(page.Hang(fmt.Sprintf("  %-16s %s", e.Name, e.Lines[0]), strings.Repeat(" ", 19)))
		case len(e.Lines) == 1:
			fmt.Fprintf(&b, "%-10s  %s\n", e.Name, e.Lines[0])
		default:
			b.WriteString(e.Name + "\n")
			for _, line := range e.Lines {
				b.WriteString(page.Hang("  "+line, "    "))
			}
		}
	}
	return b.String()
}

// MarshalJSON returns an array of objects with the heading, the name and the description of each entry.
func (l List) MarshalJSON() ([]byte, error) {
	type entry struct {
		Group string `json:"group,omitempty"`
		Name  string `json:"name"`
		Text  string `json:"text"`
	}
	out, group := []entry{}, ""
	for _, e := range l {
		if e.Name == "" {
			group = e.Lines[0]
			continue
		}
		out = append(out, entry{group, e.Name, strings.Join(e.Lines, " ")})
	}
	return json.Marshal(out)
}
