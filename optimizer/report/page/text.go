package page

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

const (
	textWidth = 96 // default width of the text format, in columns
	longRows  = 12 // number of rows shown of a long table
)

// Text writes a document for a terminal, at most 96 columns wide in the layout Report.
func (doc Document) Text(w io.Writer) error { return doc.TextWithin(w, textWidth) }

// TextWithin writes a document for a terminal of width columns.
func (doc Document) TextWithin(w io.Writer, width int) error {
	if doc.Layout != reportLayout {
		return plainText(w, &doc)
	}
	t := terminal{width: width}
	t.hang("", Clean(doc.heading()))
	if doc.Subtitle != "" {
		t.hang("", Clean(doc.Subtitle))
	}
	if len(doc.Answers) > 0 {
		t.WriteByte('\n')
	}
	for _, a := range doc.Answers {
		mark := a.Light.Mark()
		if mark == "" {
			mark = " "
		}
		t.hang(fmt.Sprintf("%s %-13s ", mark, Clean(a.Question)), Clean(a.Text))
	}
	return t.sections(w, doc.Sections)
}

// TextSections writes only sections, at most width columns wide; 0: 96.
func TextSections(w io.Writer, width int, sections ...Section) error {
	t := terminal{width: cmp.Or(width, textWidth)}
	return t.sections(w, sections)
}

// Text writes only a table.
func (g *Table) Text(w io.Writer) error { return textTable(w, g, textWidth) }

// terminal is a text buffer with a maximum line width.
type terminal struct {
	bytes.Buffer
	width int
}

// sections appends sections and writes the buffer to w.
func (t *terminal) sections(w io.Writer, sections []Section) error {
	for _, s := range sections {
		if err := t.section(s); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, PlainBlanks(t.String()))
	return err
}

func (t *terminal) section(s Section) error {
	title := strings.ToUpper(Clean(s.Title))
	t.WriteByte('\n')
	t.hang("", title)
	t.WriteString(strings.Repeat("─", min(twwidth.Width(title), t.width)) + "\n")
	if s.Intro != "" {
		t.hang("", Clean(s.Intro))
	}
	first := s.Intro == ""
	for _, bl := range s.Blocks {
		if bl.wordless() && len(bl.Sketch) == 0 {
			continue
		}
		if !first {
			t.WriteByte('\n')
		}
		first = false
		if err := t.block(bl); err != nil {
			return err
		}
	}
	return nil
}

// block writes the parts of a block in the order of its fields: caption, sketch, fields with aligned values, notes,
// verbatim lines and the table, of which a long one is truncated to longRows.
func (t *terminal) block(bl Block) error {
	if bl.Caption != "" {
		t.hang("", Clean(bl.Caption)+":")
	}
	for _, line := range bl.Sketch {
		t.WriteString(line + "\n")
	}
	width := 0
	for _, f := range bl.Fields {
		width = max(width, twwidth.Width(Clean(f.Name)))
	}
	for _, f := range bl.Fields {
		name := Clean(f.Name)
		head := "  " + name + strings.Repeat(" ", width-twwidth.Width(name)+2)
		t.hang(head, Clean(f.Value))
		if f.Note != "" {
			t.hang(strings.Repeat(" ", twwidth.Width(head)), Clean(f.Note))
		}
	}
	for _, n := range bl.Notes {
		t.hang("  - ", Clean(n))
	}
	for _, line := range bl.Verbatim {
		t.hang("  ", Clean(line))
	}
	g := bl.Table
	if g == nil {
		return nil
	}
	left := len(g.Rows) - longRows
	if g.Long && left > 0 {
		g = &Table{Columns: g.Columns, Rows: g.Rows[:longRows]}
	}
	if err := textTable(t, g, t.width); err != nil {
		return err
	}
	if g != bl.Table {
		fmt.Fprintf(t, " … %s more; all are in the other formats\n", Plural(left, "row"))
	}
	return nil
}

// hang writes a head followed by wrapped text, with continuation lines indented to the width of the head.
func (t *terminal) hang(head, text string) {
	indent := twwidth.Width(head)
	for i, line := range Wrap(text, t.width-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		t.WriteString(strings.TrimRight(head+line, " ") + "\n")
	}
}

// units are not separated from the number before them.
var units = []string{"%", "s", "m", "h", "d", "KiB", "MiB", "GiB", "TiB"}

// unbroken splits a text at blanks, but not at those between a number and its unit, also of an interval ("1 s–2 s"), and
// within a duration ("1 m 04 s"). Text of reports has no-break spaces there already.
func unbroken(text string) []string {
	words := strings.Split(text, " ")
	out := words[:1]
	for _, word := range words[1:] {
		last := &out[len(out)-1]
		bare := strings.TrimRight(word, ".,;:)")
		unit, _, _ := strings.Cut(bare, "–")
		if endsIn(*last, unicode.IsDigit) && slices.Contains(units, unit) ||
			len(bare) == 2 && endsIn(bare, unicode.IsDigit) && slices.ContainsFunc([]string{" m", " h", " d"}, func(s string) bool { return strings.HasSuffix(*last, s) }) {
			*last += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// endsIn reports whether the last byte of a text is a character of a class.
func endsIn(text string, class func(rune) bool) bool {
	return text != "" && class(rune(text[len(text)-1]))
}

// Wrap breaks a text into lines of at most width columns, within a word only if necessary: then after its last "_", "-" or
// "/", unless that leaves less than half of the line.
func Wrap(text string, width int) []string {
	width = max(width, 1)
	var lines []string
	line := ""
	for _, word := range unbroken(text) {
		for twwidth.Width(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			cut := fitting(word, width)
			if after := strings.LastIndexAny(word[:cut], "_-/") + 1; after >= (cut+1)/2 {
				cut = after
			}
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		switch {
		case line == "":
			line = word
		case twwidth.Width(line)+1+twwidth.Width(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// fitting returns the number of bytes of a word that fit into width columns: whole characters, at least one.
func fitting(word string, width int) int {
	columns := 0
	for i, c := range word {
		columns += twwidth.Width(string(c))
		if columns > width && i > 0 {
			return i
		}
	}
	return len(word)
}

const columnGap = 2

// textTable lays out a table within a width; columns that are too wide are wrapped.
func textTable(w io.Writer, g *Table, width int) error {
	cells := make([][]string, 0, len(g.Rows)+1)
	head := make([]string, len(g.Columns))
	for i, c := range g.Columns {
		head[i] = Clean(c.Name)
	}
	cells = append(cells, head)
	for _, r := range g.Rows {
		line := make([]string, len(r))
		for i, c := range r {
			line[i] = Clean(c.Text)
			if m := c.Light.Mark(); m != "" {
				line[i] = m + Blank + line[i]
			}
		}
		cells = append(cells, line)
	}
	widths := fit(cells, width-2-columnGap*(len(head)-1))
	for _, line := range cells {
		for i := range line {
			line[i] = strings.Join(Wrap(line[i], widths[i]), "\n")
		}
	}
	return layOut(&trimmed{w: w}, g.Columns, cells, tw.Behavior{TrimSpace: tw.Off})
}

// layOut writes the head and the rows of a table below each other, with a line between.
func layOut(w io.Writer, columns []Column, cells [][]string, behavior tw.Behavior) error {
	align := make([]tw.Align, len(columns))
	for i, c := range columns {
		align[i] = tw.AlignLeft
		if c.Right {
			align[i] = tw.AlignRight
		}
	}
	cell := tw.CellConfig{Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment: tw.CellAlignment{PerColumn: align}, Padding: tw.CellPadding{Global: tw.PaddingDefault}}
	t := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{Borders: tw.BorderNone, Symbols: tw.NewSymbols(tw.StyleLight),
			Settings: tw.Settings{Lines: tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On, ShowFooterLine: tw.Off},
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off, ShowHeader: tw.On, ShowFooter: tw.Off}}})),
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell, Behavior: behavior}))
	t.Header(cells[0])
	if err := t.Bulk(cells[1:]); err != nil {
		return err
	}
	return t.Render()
}

// fit gives each column its natural width, then shrinks the widest column until the sum fits. Words of up to 40 columns, such
// as names of policies, are broken only if the table does not fit otherwise.
func fit(cells [][]string, total int) []int {
	widths, least := make([]int, len(cells[0])), make([]int, len(cells[0]))
	for _, line := range cells {
		for i, c := range line {
			widths[i] = max(widths[i], twwidth.Width(c))
			for _, word := range strings.Split(c, " ") {
				least[i] = max(least[i], min(twwidth.Width(word), 40))
			}
		}
	}
	excess := -total
	for _, w := range widths {
		excess += w
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 { // words must be broken, the longest first
			widest = slices.Index(widths, slices.Max(widths))
			least[widest]--
		}
		widths[widest]--
	}
	for i := range widths {
		widths[i] = max(widths[i], 1)
	}
	return widths
}

// trimmed is a writer that removes trailing spaces from every line.
type trimmed struct {
	w io.Writer
}

func (t *trimmed) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if _, err := io.WriteString(t.w, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}
