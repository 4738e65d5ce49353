package page

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"
)

// markdown writes a document as GitHub-flavoured Markdown.
func (doc Document) markdown(w io.Writer) error {
	if doc.Layout != reportLayout {
		return plainMarkdown(w, &doc)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", escape(doc.heading()))
	if doc.Subtitle != "" {
		fmt.Fprintf(&b, "%s\n\n", escape(doc.Subtitle))
	}
	for _, a := range doc.Answers {
		mark := ""
		if m := a.Light.Mark(); m != "" {
			mark = m + " "
		}
		fmt.Fprintf(&b, "- %s**%s:** %s\n", mark, a.Question, escape(a.Text))
	}
	for _, s := range doc.Sections {
		fmt.Fprintf(&b, "\n## %s\n", escape(s.Title))
		if s.Intro != "" {
			fmt.Fprintf(&b, "\n%s\n", escape(s.Intro))
		}
		for _, bl := range s.Blocks {
			if bl.wordless() {
				continue
			}
			if bl.Caption != "" {
				fmt.Fprintf(&b, "\n**%s**\n", escape(bl.Caption))
			}
			b.WriteByte('\n')
			if len(bl.Fields) > 0 {
				b.WriteString("| | |\n|---|---|\n")
			}
			for _, f := range bl.Fields {
				value := escape(f.Value)
				if f.Note != "" {
					value += "<br>" + escape(f.Note)
				}
				fmt.Fprintf(&b, "| %s | %s |\n", escape(f.Name), value)
			}
			for _, n := range bl.Notes {
				fmt.Fprintf(&b, "- %s\n", escape(n))
			}
			if len(bl.Verbatim) > 0 {
				b.WriteString("<pre>\n")
				for _, line := range bl.Verbatim {
					b.WriteString(verbatim(line) + "\n")
				}
				b.WriteString("</pre>\n")
			}
			if bl.Table != nil {
				markdownTable(&b, bl.Table)
			}
		}
	}
	_, err := io.WriteString(w, PlainBlanks(b.String()))
	return err
}

// verbatim escapes a line within <pre> so that it stays inert even where a renderer interprets Markdown there.
func verbatim(line string) string {
	var b strings.Builder
	for _, c := range Clean(line) {
		if strings.ContainsRune("\\`*_[]|~#!", c) {
			fmt.Fprintf(&b, "&#%d;", c)
		} else {
			b.WriteString(html.EscapeString(string(c)))
		}
	}
	return b.String()
}

func markdownTable(b *bytes.Buffer, g *Table) {
	markdownHead(b, g, escape)
	for _, r := range g.Rows {
		for _, c := range r {
			text := escape(c.Text)
			if c.Sub != "" {
				text += " (" + escape(c.Sub) + ")"
			}
			if m := c.Light.Mark(); m != "" {
				text = m + " " + text
			}
			fmt.Fprintf(b, "| %s ", text)
		}
		b.WriteString("|\n")
	}
}

func markdownHead(b *bytes.Buffer, g *Table, escape func(string) string) {
	for _, c := range g.Columns {
		fmt.Fprintf(b, "| %s ", escape(c.Name))
	}
	b.WriteString("|\n")
	for _, c := range g.Columns {
		b.WriteString(map[bool]string{false: "|---", true: "|---:"}[c.Right])
	}
	b.WriteString("|\n")
}

// escape escapes text so that it is not interpreted as Markdown or HTML.
func escape(s string) string {
	var b strings.Builder
	for _, c := range Clean(s) {
		switch c {
		case '<':
			b.WriteString("&lt;")
			continue
		case '>':
			b.WriteString("&gt;")
			continue
		case '&':
			b.WriteString("&amp;")
			continue
		case '\\', '`', '*', '_', '[', ']', '|', '~', '#', '!':
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
