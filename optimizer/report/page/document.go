// Package page writes a Document, which has the same text, numbers, tables and pictures in every format: as text for a
// terminal, as Markdown and as one self-contained HTML file.
//
// It is independent of runs and predictions, computes nothing and supplies no wording; package chart formats single
// numbers.
//
//	doc := page.Document{Title: "Calibration", Answers: answers, Sections: sections}
//	err := page.HTML(w, doc)
package page

import (
	"trainopt/optimizer/report/chart"
)

// Document is a result independent of its format.
type Document struct {
	Title    string
	Subtitle string
	State    string // one or two words: "finished", "failed"; may be empty
	Light    Light  // of the whole document
	Answers  []Answer
	Tiles    []Tile
	Sections []Section

	// Pictures are shown in HTML only: Wide across the page, the others two per row.
	Wide     *chart.Picture
	Pictures []chart.Picture
	Marks    []Mark // legend of the marks used in several pictures
	Nothing  string // reason shown if there are no pictures
	Footer   string
}

// Light is the colour of a rating; the text beside it has the same content.
type Light string

const (
	Dark  Light = "" // no judgement
	Good  Light = "good"
	Warn  Light = "warn"
	Bad   Light = "bad"
	Muted Light = "muted" // no data
)

// Mark returns the light as a character, for output without colours.
func (l Light) Mark() string {
	return map[Light]string{Good: "✓", Warn: "!", Bad: "✗", Muted: "·"}[l]
}

// Answer is one of the first lines of a document.
type Answer struct {
	Question string // "Finished"
	Text     string
	Light    Light
}

// Tile is a key figure.
type Tile struct {
	Label, Value, Note string
	Light              Light
}

// Mark is a sign used in pictures and its meaning.
type Mark struct{ Sign, Name string }

// Section is a part with a heading.
type Section struct {
	ID, Title string
	Intro     string // one sentence; may be empty
	Blocks    []Block
}

// Block is a part of a section: pictures, a list of fields, a list of sentences, verbatim lines, a table, in this order.
type Block struct {
	Caption string
	// Wide is a picture across the page, Pictures are shown two per row; both in HTML only.
	Wide     *chart.Picture
	Pictures []chart.Picture
	Sketch   []string // a character drawing by line, shown in text only
	Fields   []Field
	Notes    []string
	Verbatim []string // fixed-pitch lines, such as the output of a program
	Table    *Table
}

// wordless reports whether a block has no text; a sketch does not count as text.
func (b *Block) wordless() bool {
	return b.Caption == "" && len(b.Fields) == 0 && len(b.Notes) == 0 && len(b.Verbatim) == 0 && b.Table == nil
}

// Field is a named value.
type Field struct {
	Name, Value string
	Light       Light
	Note        string // an additional explanatory line; may be empty
}

// Table has rows of cells, each with as many cells as there are columns.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Long tables are folded in HTML and truncated in text.
	Long bool
	// Folded tables are folded behind their caption in HTML and complete in text.
	Folded bool
}

// Behind reports whether a table is folded behind its caption in HTML.
func (g *Table) Behind() bool { return g.Long || g.Folded }

// Column is the header of a column.
type Column struct {
	Name  string
	Right bool // right-aligned, for numbers
}

// Cell is one entry of a table.
type Cell struct {
	Text  string
	Light Light
	Sub   string // secondary text: below Text in HTML, in brackets in Markdown, omitted in text
}

// Left returns left-aligned columns, for text.
func Left(names ...string) []Column { return columns(false, names) }

// Right returns right-aligned columns, for numbers.
func Right(names ...string) []Column { return columns(true, names) }

func columns(right bool, names []string) []Column {
	c := make([]Column, len(names))
	for i, n := range names {
		c[i] = Column{n, right}
	}
	return c
}

// Row returns a row of plain cells.
func Row(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, t := range texts {
		cells[i].Text = t
	}
	return cells
}

// With sets the light of the last cell of a row and returns the row.
func With(cells []Cell, l Light) []Cell {
	cells[len(cells)-1].Light = l
	return cells
}

// Fields returns fields from alternating names and values.
func Fields(pairs ...string) []Field {
	f := make([]Field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		f = append(f, Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return f
}
