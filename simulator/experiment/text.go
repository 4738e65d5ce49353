package experiment

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// textWidth is the maximum width of text in characters; it fits half of a wide terminal.
const textWidth = 100

// renderText writes the comparison for a terminal: an overview, the caller's tables, each headline metric with its
// intervals and tests, and the means of the details. Wide tables are split.
func renderText(w io.Writer, c *Comparison) error {
	var b bytes.Buffer
	tables := c.tables()
	if c.Fold {
		tables = tables[:1]
	}
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := t.text(&b); err != nil {
			return fmt.Errorf("write comparison as text: %w", err)
		}
	}
	if c.Fold && len(c.Also) > 0 {
		fmt.Fprintf(&b, "\n%d further tables, with intervals, tests and notes: as html, markdown, csv or json\n", len(c.Also))
	}
	var lines []string
	for _, l := range strings.Split(b.String(), "\n") {
		lines = append(lines, strings.TrimRight(l, " "))
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

// text writes one comparison of the document.
func (c *Comparison) text(b *bytes.Buffer) error {
	b.WriteString(Wrapped(c.title(), "") + Wrapped(c.subtitle(), ""))
	if g := c.overview(false); len(g.Lines) > 0 {
		b.WriteByte('\n')
		if err := textGrids(b, g); err != nil {
			return err
		}
	}
	for _, t := range c.Tables {
		b.WriteString("\n" + Wrapped(t.Title, ""))
		if err := textGrids(b, t.grid()); err != nil {
			return err
		}
	}
	for _, m := range c.shown() {
		if m.Detail {
			continue
		}
		b.WriteString("\n" + Wrapped(m.label()+": "+m.caption(), ""))
		if err := textGrids(b, c.metric(m)); err != nil {
			return err
		}
	}
	if g := c.overview(true); len(g.Lines) > 0 {
		b.WriteString("\ndetails, means\n")
		if err := textGrids(b, g); err != nil {
			return err
		}
		for _, m := range c.shown() {
			if m.Detail && m.caption() != "" {
				b.WriteString(Wrapped("  "+m.label()+": "+m.caption(), "    "))
			}
		}
	}
	for _, n := range c.Notes {
		b.WriteString(Wrapped("note: "+n, "  "))
	}
	return nil
}

// Wrapped breaks text at spaces so that lines have at most 100 characters, the width of all text output. Lines after
// the first start with indent; the last ends with a line feed.
func Wrapped(text, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > textWidth:
			b.WriteString("\n" + indent)
			at = len(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
	return b.String()
}

// textGrids writes a table, split into several below each other if it is too wide.
func textGrids(w io.Writer, g grid) error {
	if len(g.Lines) == 0 {
		return nil
	}
	for i, part := range g.within(textWidth) {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := textGrid(w, part); err != nil {
			return err
		}
	}
	return nil
}

// textGrid writes one table with the first column left-aligned and the others right-aligned.
func textGrid(w io.Writer, g grid) error {
	align := make([]tw.Align, len(g.Head))
	for i := range align {
		align[i] = tw.AlignRight
	}
	align[0] = tw.AlignLeft
	cell := tw.CellConfig{Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment: tw.CellAlignment{PerColumn: align}, Padding: tw.CellPadding{Global: tw.PaddingDefault}}
	t := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{Borders: tw.BorderNone, Symbols: tw.NewSymbols(tw.StyleLight),
			Settings: tw.Settings{Lines: tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On, ShowFooterLine: tw.Off},
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off, ShowHeader: tw.On, ShowFooter: tw.Off}}})),
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell}))
	t.Header(g.Head)
	if err := t.Bulk(g.Lines); err != nil {
		return err
	}
	return t.Render()
}

// renderMarkdown writes the same tables as GitHub Markdown.
func renderMarkdown(w io.Writer, c *Comparison) error {
	var b strings.Builder
	for i, t := range c.tables() {
		fmt.Fprintf(&b, "%s %s\n\n%s\n\n", strings.Repeat("#", min(i+1, 2)), escape(t.title()), escape(t.subtitle()))
		if g := t.overview(false); len(g.Lines) > 0 {
			markdownGrid(&b, g)
		}
		for _, more := range t.Tables {
			fmt.Fprintf(&b, "\n%s\n\n", escape(more.Title))
			markdownGrid(&b, more.grid())
		}
		for _, m := range t.shown() {
			if !m.Detail {
				fmt.Fprintf(&b, "\n**%s** — %s\n\n", escape(m.label()), escape(m.caption()))
				markdownGrid(&b, t.metric(m))
			}
		}
		if g := t.overview(true); len(g.Lines) > 0 {
			b.WriteString("\n**details, means**\n\n")
			markdownGrid(&b, g)
			b.WriteByte('\n')
			for _, m := range t.shown() {
				if m.Detail && m.caption() != "" {
					fmt.Fprintf(&b, "- %s: %s\n", escape(m.label()), escape(m.caption()))
				}
			}
		}
		b.WriteByte('\n')
		for _, n := range t.Notes {
			fmt.Fprintf(&b, "- %s\n", escape(n))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownGrid writes one table in Markdown.
func markdownGrid(b *strings.Builder, g grid) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + escape(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(g.Head)
	for i := range g.Head {
		b.WriteString(map[bool]string{true: "|---", false: "|---:"}[i == 0])
	}
	b.WriteString("|\n")
	for _, l := range g.Lines {
		line(l)
	}
}

// escape escapes the special characters of Markdown and HTML.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "\n", " ").Replace(s)
}
