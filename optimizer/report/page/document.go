// Package page writes what a person reads: a Document, the same words, numbers, tables and pictures as text for a terminal,
// as Markdown and as one HTML file that needs nothing else.
//
// It knows nothing of runs or predictions, computes nothing and chooses no words; how single numbers are written is package
// chart's.
//
//	doc := page.Document{Title: "Calibration", Answers: answers, Sections: sections}
//	err := page.HTML(w, doc)
package page

import (
	"trainopt/optimizer/report/chart"
)

// Document is a result before it has a format.
type Document struct {
	Title    string
	Subtitle string
	State    string // one word or two: "finished", "failed"; may be empty
	Light    Light  // of the whole
	Answers  []Answer
	Tiles    []Tile
	Sections []Section

	// Pictures are shown in HTML only: Wide over the whole page, the others two in a row.
	Wide     *chart.Picture
	Pictures []chart.Picture
	Marks    []Mark // legend of what is marked in several pictures
	Nothing  string // why there is nothing to draw, when that is so
	Footer   string
}

// Light is the colour of a judgement; the words beside it say the same.
type Light string

const (
	Dark  Light = "" // no judgement
	Good  Light = "good"
	Warn  Light = "warn"
	Bad   Light = "bad"
	Muted Light = "muted" // no data
)

// Mark is the light as a character, for those who see no colours.
func (l Light) Mark() string {
	return map[Light]string{Good: "✓", Warn: "!", Bad: "✗", Muted: "·"}[l]
}

// Answer is one of the lines that come first.
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

// Mark is a sign in pictures and its meaning.
type Mark struct{ Sign, Name string }

// Section is a part with a heading.
type Section struct {
	ID, Title string
	Intro     string // a sentence, may be empty
	Blocks    []Block
}

// Block is a part of a section: pictures, a list of fields, a list of sentences, verbatim lines, a table, in this order.
type Block struct {
	Caption string
	// Wide is a picture over the whole page, Pictures are two in a row; both are shown in HTML only.
	Wide     *chart.Picture
	Pictures []chart.Picture
	Sketch   []string // a picture in characters, line by line, shown in text only
	Fields   []Field
	Notes    []string
	Verbatim []string // lines in a fixed pitch, such as the output of a program
	Table    *Table
}

// wordless reports whether there is nothing to read in a block; a sketch is not read.
func (b *Block) wordless() bool {
	return b.Caption == "" && len(b.Fields) == 0 && len(b.Notes) == 0 && len(b.Verbatim) == 0 && b.Table == nil
}

// Field is a named value.
type Field struct {
	Name, Value string
	Light       Light
	Note        string // a further line that says more, may be empty
}

// Table has one row of cells, as many as columns, for each thing.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Long tables are folded in HTML, and cut in text.
	Long bool
	// Folded tables are behind their caption in HTML, and whole in text.
	Folded bool
}

// Behind reports whether a table is behind its caption in HTML.
func (g *Table) Behind() bool { return g.Long || g.Folded }

// Column is the head of a column.
type Column struct {
	Name  string
	Right bool // numbers
}

// Cell is one entry of a table.
type Cell struct {
	Text  string
	Light Light
	Sub   string // smaller, below the text in HTML, in brackets in Markdown, not in text
}

// Left are columns of words.
func Left(names ...string) []Column { return columns(false, names) }

// Right are columns of numbers.
func Right(names ...string) []Column { return columns(true, names) }

func columns(right bool, names []string) []Column {
	c := make([]Column, len(names))
	for i, n := range names {
		c[i] = Column{n, right}
	}
	return c
}

// Row is a row of plain cells.
func Row(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, t := range texts {
		cells[i].Text = t
	}
	return cells
}

// With gives the last cell of a row a light.
func With(cells []Cell, l Light) []Cell {
	cells[len(cells)-1].Light = l
	return cells
}

// Fields are names and values in turn.
func Fields(pairs ...string) []Field {
	f := make([]Field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		f = append(f, Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return f
}
