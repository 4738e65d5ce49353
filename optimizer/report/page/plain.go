package page

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/tw"
)

// plainWidth is the maximum width of text in the layouts Comparison and Listing, in characters; it fits half of a wide
// terminal.
const plainWidth = 100

// fieldWidth is the width of the names of fields in the layouts Comparison and Listing.
const fieldWidth = 18

// plainText writes a document in the layout Comparison or Listing.
func plainText(w io.Writer, doc *Document) error {
	indent := map[layout]string{Listing: "  "}[doc.Layout]
	var b bytes.Buffer
	b.WriteString(Hang(doc.Title, indent) + Hang(doc.Subtitle, indent))
	for _, s := range doc.Sections {
		if s.Title != "" {
			b.WriteString("\n" + Hang(s.Title, indent) + Hang(s.Intro, indent))
		}
		for i := range s.Blocks {
			if err := s.Blocks[i].plainText(&b); err != nil {
				return err
			}
		}
		for _, n := range s.Notes {
			b.WriteString(Hang("note: "+n, "  "))
		}
	}
	_, err := io.WriteString(&trimmed{w: w}, b.String())
	return err
}

// plainText writes a block below an empty line: its caption and its table, or its fields.
func (b *Block) plainText(w *bytes.Buffer) error {
	if b.wordless() {
		return nil
	}
	w.WriteByte('\n')
	if b.Text != nil {
		w.WriteString(strings.Join(b.Text, "\n") + "\n")
		return nil
	}
	switch {
	case b.Intro != "":
		w.WriteString(Hang(b.Caption+": "+b.Intro, ""))
	case b.Caption != "":
		w.WriteString(Hang(b.Caption, ""))
	}
	if b.Table != nil {
		if err := b.Table.plainText(w); err != nil {
			return err
		}
	}
	for _, f := range b.Fields {
		w.WriteString(Hang(fmt.Sprintf("%-*s %s", fieldWidth, f.Name, f.Value), strings.Repeat(" ", fieldWidth+1)))
	}
	for _, f := range b.Legend {
		w.WriteString(Hang("  "+f.Name+": "+f.Value, "    "))
	}
	return nil
}

// Hang breaks text at spaces so that lines have at most 100 characters. Lines after the first start with indent; the
// last ends with a line feed.
func Hang(text, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > plainWidth:
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

// plainText writes a table, split into several below each other if it is too wide.
func (g *Table) plainText(w *bytes.Buffer) error {
	if len(g.Rows) == 0 {
		return nil
	}
	for i, part := range g.within(plainWidth) {
		if i > 0 {
			w.WriteByte('\n')
		}
		if err := layOut(w, part.Columns, part.cells(), tw.Behavior{}); err != nil {
			return err
		}
	}
	return nil
}

// cells returns the head and the rows as text.
func (g *Table) cells() [][]string {
	out := make([][]string, len(g.Rows)+1)
	for _, c := range g.Columns {
		out[0] = append(out[0], c.Name)
	}
	for i, r := range g.Rows {
		for _, c := range r {
			out[i+1] = append(out[i+1], c.Text)
		}
	}
	return out
}

// within splits a table wider than width characters into narrower ones, each starting with the first column.
func (g *Table) within(width int) []*Table {
	sizes := make([]int, len(g.Columns))
	for _, l := range g.cells() {
		for i, c := range l {
			sizes[i] = max(sizes[i], utf8.RuneCountInString(c)+2) // with a space on both sides
		}
	}
	groups := g.Groups
	if groups == nil {
		groups = slices.Repeat([]int{1}, max(0, len(g.Columns)-1))
	}
	var out []*Table
	var columns []int
	used, at := 0, 1
	flush := func() {
		part := &Table{Rows: make([][]Cell, len(g.Rows))}
		for _, c := range append([]int{0}, columns...) {
			part.Columns = append(part.Columns, g.Columns[c])
			for i := range g.Rows {
				part.Rows[i] = append(part.Rows[i], g.Rows[i][c])
			}
		}
		out, columns, used = append(out, part), nil, 0
	}
	for _, n := range groups {
		size := 0
		for c := at; c < at+n; c++ {
			size += sizes[c]
		}
		if len(columns) > 0 && sizes[0]+used+size > width {
			flush()
		}
		for ; n > 0; n, at = n-1, at+1 {
			columns = append(columns, at)
		}
		used += size
	}
	flush()
	return out
}

// plainMarkdown writes a document in the layout Comparison or Listing as GitHub-flavoured Markdown.
func plainMarkdown(w io.Writer, doc *Document) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", plainEscape(doc.Title), plainEscape(doc.Subtitle))
	for _, s := range doc.Sections {
		if s.Title != "" {
			fmt.Fprintf(&b, "## %s\n\n%s\n\n", plainEscape(s.Title), plainEscape(s.Intro))
		}
		for _, bl := range s.Blocks {
			bl.plainMarkdown(&b)
		}
		b.WriteByte('\n')
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "- %s\n", plainEscape(n))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// plainMarkdown writes the caption and the table of a block, and the explanation of its columns.
func (b *Block) plainMarkdown(w *bytes.Buffer) {
	switch caption := plainEscape(b.Caption); {
	case b.Intro != "":
		fmt.Fprintf(w, "\n**%s** — %s\n\n", caption, plainEscape(b.Intro))
	case b.Legend != nil:
		fmt.Fprintf(w, "\n**%s**\n\n", caption)
	case caption != "":
		fmt.Fprintf(w, "\n%s\n\n", caption)
	}
	if b.Table != nil {
		markdownHead(w, b.Table, plainEscape)
		for _, row := range b.Table.Rows {
			for _, c := range row {
				w.WriteString("| " + plainEscape(c.Text) + " ")
			}
			w.WriteString("|\n")
		}
	}
	if b.Legend != nil {
		w.WriteByte('\n')
	}
	for _, f := range b.Legend {
		fmt.Fprintf(w, "- %s: %s\n", plainEscape(f.Name), plainEscape(f.Value))
	}
}

// plainEscape escapes the special characters of Markdown and HTML that occur in names and units.
func plainEscape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "\n", " ").Replace(s)
}
