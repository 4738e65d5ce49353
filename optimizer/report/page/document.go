package page

// Document is a result independent of its format.
type Document struct {
	Layout   layout
	Title    string
	Subtitle string
	State    string // one or two words: "finished", "failed"; may be empty
	Light    Light  // of the whole document
	Answers  []Answer
	Tiles    []Tile
	Sections []Section

	// Pictures are shown in HTML only: Wide across the page, the others two per row.
	Wide     *Picture
	Pictures []Picture
	Marks    []LegendMark // legend of the marks used in several pictures
	Nothing  string       // reason shown if there are no pictures
	Footer   string
}

// layout arranges text and Markdown; HTML is the same in all layouts.
type layout int

const (
	// reportLayout has underlined headings and lists, at most 96 columns wide or as wide as the terminal.
	reportLayout layout = iota
	// Comparison has tables one below the other with their captions, and ends each section with its notes, at most 100
	// columns wide. Answers and tiles are omitted.
	Comparison
	// Listing is a Comparison whose title and subtitle continue indented.
	Listing
)

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

// LegendMark is a sign used in pictures and its meaning.
type LegendMark struct{ Sign, Name string }

// Section is a part with a heading.
type Section struct {
	ID, Title string // a section without a title continues the one before
	Intro     string // one sentence; may be empty
	Blocks    []Block
	Notes     []string // shown at the end; in the layouts Comparison and Listing and in HTML only
}

// Block is a part of a section: pictures, a list of fields, a list of sentences, verbatim lines, a table, in this order.
type Block struct {
	Caption string
	Intro   string // explanation of the caption; in the layouts Comparison and Listing and in HTML only
	// Wide is a picture across the page, Pictures are shown two per row; both in HTML only.
	Wide     *Picture
	Pictures []Picture
	Sketch   []string // a character drawing by line, shown in text only
	Fields   []Field
	Notes    []string
	Verbatim []string // fixed-pitch lines, such as the output of a program
	Table    *Table
	Legend   []Field  // explains the columns of the table; in the layouts Comparison and Listing and in HTML only
	Text     []string // replaces the block in the text of the layouts Comparison and Listing; nil: nothing is replaced
}

// wordless reports whether a block has no text; a sketch does not count as text.
func (b *Block) wordless() bool {
	return b.Caption == "" && len(b.Fields) == 0 && len(b.Notes) == 0 && len(b.Verbatim) == 0 && b.Table == nil && b.Text == nil
}

// Field is a named value.
type Field struct {
	Name, Value string
	Light       Light
	Note        string // an additional explanatory line; may be empty
}

// Table has rows of cells, each with as many cells as there are columns.
type Table struct {
	Caption string // for screen readers, in HTML only; empty: that of the block or the title of the section
	Columns []Column
	Rows    [][]Cell
	// Long tables are folded in HTML and truncated in text.
	Long bool
	// Folded tables are folded behind their caption in HTML and complete in text.
	Folded bool
	// Named tables have the name of each row in their first column.
	Named bool
	// Groups contains the numbers of adjacent columns, after the first, that are not separated when a wide table is
	// split in the layouts Comparison and Listing; nil: each column separately.
	Groups []int
}

// Grid returns a named table of plain cells whose other columns are numbers.
func Grid(head []string, lines [][]string) *Table {
	g := &Table{Columns: append(Left(head[:1]...), Right(head[1:]...)...), Named: true}
	for _, l := range lines {
		g.Rows = append(g.Rows, Row(l...))
	}
	return g
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

// Fields returns fields from alternating names and values.
func Fields(pairs ...string) []Field {
	f := make([]Field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		f = append(f, Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return f
}
