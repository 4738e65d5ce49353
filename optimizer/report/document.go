package report

// document is a report before it has a format: the same words and numbers in text, markdown and HTML.
type document struct {
	Title    string
	Subtitle string
	State    string // one word or two: "finished", "failed"
	Light    light  // of the whole run
	Answers  []answer
	Tiles    []tile
	Sections []section
}

// light is the colour of a judgement; the words beside it say the same.
type light string

const (
	dark  light = "" // no judgement
	good  light = "good"
	warn  light = "warn"
	bad   light = "bad"
	muted light = "muted" // no data
)

// mark is the light as a character, for those who see no colours.
func (l light) mark() string {
	return map[light]string{good: "✓", warn: "!", bad: "✗", muted: "·"}[l]
}

// answer is one of the lines that come first.
type answer struct {
	Question string // "Finished?"
	Text     string
	Light    light
}

// tile is a key figure.
type tile struct {
	Label, Value, Note string
	Light              light
}

type section struct {
	ID, Title string
	Intro     string // a sentence, may be empty
	Blocks    []block
}

// block is one of: a list of fields, a table, a list of sentences.
type block struct {
	Caption string
	Fields  []field
	Table   *grid
	Notes   []string
}

type field struct {
	Name, Value string
	Light       light
}

type grid struct {
	Columns []column
	Rows    [][]cell
	// Long tables are folded in HTML.
	Long bool
}

type column struct {
	Name  string
	Right bool // numbers
}

type cell struct {
	Text  string
	Light light
}

func left(names ...string) []column  { return columns(false, names) }
func right(names ...string) []column { return columns(true, names) }

func columns(right bool, names []string) []column {
	c := make([]column, len(names))
	for i, n := range names {
		c[i] = column{n, right}
	}
	return c
}

func row(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, t := range texts {
		cells[i].Text = t
	}
	return cells
}

// with gives the last cell of a row a light.
func with(cells []cell, l light) []cell {
	cells[len(cells)-1].Light = l
	return cells
}

func fields(pairs ...string) []field {
	f := make([]field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		f = append(f, field{Name: pairs[i], Value: pairs[i+1]})
	}
	return f
}
