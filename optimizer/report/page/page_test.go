package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	if got := Wrap("exceeds the budget (10 % of 22.2 GiB, 30 s) by some %", 20); !slices.Equal(got, []string{"exceeds the budget", "(10 % of 22.2 GiB,", "30 s) by some %"}) {
		t.Errorf("%q", got)
	}
	if got := Wrap("max_sum_throughput_normalized_by_cost ab_cdefghijklmnopqrst", 19); !slices.Equal(got, []string{"max_sum_throughput_", "normalized_by_cost", "ab_cdefghijklmnopqr", "st"}) {
		t.Errorf("%q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := Clean(rapid.String().Draw(t, "text"))
		width := rapid.IntRange(4, 40).Draw(t, "width")
		lines := Wrap(text, width)
		if got := strings.ReplaceAll(strings.Join(lines, ""), " ", ""); got != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%q became %q", text, lines)
		}
	})
}

// TestHostileText checks that text from scripts and logs neither moves the cursor nor becomes Markdown or HTML in any
// part of a document.
func TestHostileText(t *testing.T) {
	const hostile = "a\x1b[31m<script>alert(1)</script>|*b*\n# c"
	doc := Document{Title: hostile, Subtitle: hostile, State: "done", Light: Good, Footer: hostile,
		Answers: []Answer{{"Question", hostile, Warn}}, Tiles: []Tile{{hostile, hostile, hostile, Bad}},
		Sections: []Section{{ID: "s", Title: hostile, Intro: hostile, Blocks: []Block{
			{Caption: hostile, Fields: []Field{{Name: hostile, Value: hostile, Note: hostile}}}, {Notes: []string{hostile}}, {Verbatim: []string{hostile}},
			{Table: &Table{Columns: append(Left(hostile), Right("n")...), Rows: [][]Cell{{{Text: hostile}, {Text: "1", Light: Muted}}, {{Text: "2", Sub: hostile}, {Text: "3"}}}}},
		}}}}
	for name, render := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return doc.Text(b) },
		"markdown": func(b *bytes.Buffer) error { return doc.markdown(b) },
		"html":     func(b *bytes.Buffer) error { return doc.HTML(b) },
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Fatal(err)
		}
		out := b.String()
		if strings.Contains(out, "\x1b") || name != "text" && strings.Contains(out, "<script") {
			t.Errorf("%s: hostile text came through:\n%s", name, out)
		}
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(line, "# c") {
				t.Errorf("%s: a heading was smuggled in", name)
			}
			if w := twwidth.Width(line); name == "text" && w > textWidth+4 {
				t.Errorf("text is %d columns wide: %s", w, line)
			}
		}
		if n := strings.Count(strings.ToLower(out), "alert(1)"); n < 12 {
			t.Errorf("%s: shows the text %d times, want it in every part", name, n)
		}
	}
}

// TestLongTables checks that text shows the first rows and the number of omitted ones, and that Markdown and HTML show
// all rows.
func TestLongTables(t *testing.T) {
	table := &Table{Columns: Left("name"), Long: true}
	for range longRows + 3 {
		table.Rows = append(table.Rows, Row("value"))
	}
	doc := Document{Title: "Long", Sections: []Section{{Title: "All", Blocks: []Block{{Table: table}}}}}
	var text, html bytes.Buffer
	if err := doc.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := doc.HTML(&html); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "value"); n != longRows || !strings.Contains(text.String(), "3 rows more") {
		t.Errorf("text shows %d rows:\n%s", n, text.String())
	}
	if n := strings.Count(html.String(), ">value<"); n != longRows+3 {
		t.Errorf("HTML shows %d rows, want all %d", n, longRows+3)
	}
}

// TestPictures checks that pictures leave no trace in text and Markdown and appear at the right place in HTML.
func TestPictures(t *testing.T) {
	plain := Document{Title: "Runs", Sections: []Section{{ID: "a", Title: "One", Blocks: []Block{{Notes: []string{"first"}}, {Caption: "Numbers", Table: &Table{Columns: Left("name"), Rows: [][]Cell{Row("value")}}}}}}}
	drawn := plain
	drawn.Sections = []Section{plain.Sections[0]}
	table := *plain.Sections[0].Blocks[1].Table
	table.Folded = true
	drawn.Sections[0].Blocks = []Block{plain.Sections[0].Blocks[0], {Wide: &Picture{Title: "wide", SVG: "<svg id='w'></svg>"}, Pictures: []Picture{{Title: "small", Empty: "No data"}}},
		{Caption: "Numbers", Table: &table}}
	for name, render := range map[string]func(Document, io.Writer) error{"text": Document.Text, "markdown": Document.markdown} {
		var with, without bytes.Buffer
		if err := errors.Join(render(drawn, &with), render(plain, &without)); err != nil {
			t.Fatal(err)
		}
		if with.String() != without.String() {
			t.Errorf("%s: a picture changes the words:\n%s", name, with.String())
		}
	}
	var html bytes.Buffer
	if err := drawn.HTML(&html); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{"<li>first</li>", "<figcaption>wide</figcaption>", "<svg id='w'>", "<figcaption>small</figcaption>", "No data", "<summary>Numbers</summary>", ">value<"} {
		next := strings.Index(html.String()[at:], want)
		if next < 0 {
			t.Fatalf("no %s after byte %d:\n%s", want, at, html.String())
		}
		at += next
	}
}

// TestTextWithin checks that text and tables fit any width without losing a word, and that a sketch is copied
// unchanged.
func TestTextWithin(t *testing.T) {
	doc := Document{Title: "Some runs of a model", Subtitle: "that took their time", Answers: []Answer{{Question: "Chosen", Text: "two of them, at last"}},
		Sections: []Section{{Title: "All of the runs that there were", Blocks: []Block{{Sketch: []string{"a|", " |"}}, {Caption: "What they say of themselves", Fields: Fields("cost", "not a dollar"), Notes: []string{"nothing more is known of them"}},
			{Table: &Table{Columns: append(Left("what it is"), Right("money")...), Rows: [][]Cell{Row("the first of the runs", "1,000 USD")}}}}}}}
	for width := 30; width <= 120; width += 15 {
		var b bytes.Buffer
		if err := doc.TextWithin(&b, width); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if n := twwidth.Width(line); n > width {
				t.Errorf("%d columns in %d: %s", n, width, line)
			}
		}
		words := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range []string{"a| |", "two of them, at last", "nothing more is known of them"} {
			if !strings.Contains(words, want) {
				t.Errorf("%d columns: no %q in\n%s", width, want, b.String())
			}
		}
	}
}

// TestSubordinate checks that the secondary text of a cell appears in the formats that have room for it.
func TestSubordinate(t *testing.T) {
	doc := Document{Title: "Costs", Sections: []Section{{Title: "All", Blocks: []Block{{Table: &Table{Columns: Right("USD"), Rows: [][]Cell{{{Text: "5", Sub: "4 to 7"}}}}}}}}}
	for want, render := range map[string]func(Document, io.Writer) error{"5\n": Document.Text, "| 5 (4 to 7) |": Document.markdown, "<span>5</span><small>4 to 7</small>": Document.HTML} {
		var b bytes.Buffer
		if err := render(doc, &b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, b.String())
		}
	}
}

func TestSplit(t *testing.T) {
	g := Grid([]string{"p", "aa", "bb", "cc", "dd"}, [][]string{{"x", "1", "2", "3", "4"}})
	g.Groups = []int{1, 2, 1}
	for width, want := range map[int]string{
		100: "[p aa bb cc dd]",
		19:  "[p aa bb cc dd]", // 3 + 4·4
		18:  "[p aa bb cc] [p dd]",
		14:  "[p aa] [p bb cc] [p dd]",
		1:   "[p aa] [p bb cc] [p dd]", // groups are not split
	} {
		var got []string
		for _, part := range g.within(width) {
			cells := part.cells()
			got = append(got, fmt.Sprint(cells[0]))
			if len(cells[1]) != len(cells[0]) || cells[1][0] != "x" {
				t.Errorf("width %d: the line %v under %v", width, cells[1], cells[0])
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("width %d: %s, want %s", width, s, want)
		}
	}
}

// TestPlain checks the layouts Comparison and Listing.
func TestPlain(t *testing.T) {
	long := strings.Repeat("word ", 22) + "end"
	table := Grid([]string{"policy", "s"}, [][]string{{"a|b", "1"}})
	doc := Document{Layout: Listing, Title: long, Subtitle: "seed 0", Sections: []Section{
		{Blocks: []Block{{Fields: Fields("jobs", "3")}, {Pictures: []Picture{{Title: "p"}}}, {Caption: "wait", Intro: "in s", Table: table}, {Caption: "details", Table: table, Legend: Fields("s", "seconds")},
			{Caption: "in HTML", Table: table, Text: []string{"as", "drawn"}}}, Notes: []string{"last"}}, {ID: "b", Title: "More", Intro: "of it"}}}
	for want, render := range map[string]func(Document, io.Writer) error{
		strings.Repeat("word ", 19) + "word\n  word word end\nseed 0\n\njobs               3\n\nwait: in s\n": Document.Text,
		"\n  s: seconds\n\nas\ndrawn\nnote: last\n\nMore\nof it\n":                                            Document.Text,
		"\n\n**wait** — in s\n\n| policy | s |\n|---|---:|\n| a\\|b | 1 |\n":                                  Document.markdown,
		"\n\n- last\n## More\n\nof it\n\n":                                                                    Document.markdown,
		`<tr><th scope="row">a|b</th><td data-c="s" class="r">`:                                               Document.HTML,
		"<h3>Notes</h3>": Document.HTML,
	} {
		var b bytes.Buffer
		if err := render(doc, &b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, b.String())
		}
	}
}

// TestFormats checks that an unknown format names the known ones and that a failure writes nothing.
func TestFormats(t *testing.T) {
	f := Formats[int]{"csv": CSVOf(func(n int) [][]string { return [][]string{{"n"}, {fmt.Sprint(n)}} }), "json": JSONOf(func(n int) int { return n }),
		"text": func(w io.Writer, _ int) error {
			return errors.Join(io.ErrShortWrite, func() error { _, err := w.Write([]byte("half")); return err }())
		}}
	for format, want := range map[string]string{"csv": "n\n7\n", "json": "7\n", "text": "", "pdf": ""} {
		var b bytes.Buffer
		err := f.Write(&b, "result", 7, format)
		if b.String() != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", format, b.String(), err)
		}
		if format == "pdf" && !strings.Contains(err.Error(), "csv, json, text") {
			t.Error(err)
		}
	}
}

// TestPartsAfterAPage checks that the templates of the parts can be copied after a page was written: html/template
// refuses to copy what was executed.
func TestPartsAfterAPage(t *testing.T) {
	if err := (Document{Title: "a page"}).HTML(io.Discard); err != nil {
		t.Fatal(err)
	}
	if Parts().Lookup("section") == nil {
		t.Error("no template for sections")
	}
}
