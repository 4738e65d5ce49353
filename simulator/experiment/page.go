package experiment

import (
	"bytes"
	"html/template"
	"io"
	"slices"
)

// Page is a single-file page in the style of comparisons for other results: facts, charts, tables, notes.
type Page struct {
	Title, Subtitle string
	Facts           []Fact
	Charts          []Chart
	Tables          []Table
	Notes           []string
}

// Fact is a highlighted number.
type Fact struct{ Name, Value string }

// Write writes the page, which is self-contained: no network access, no script.
func (p *Page) Write(w io.Writer) error {
	var b bytes.Buffer
	err := pages.ExecuteTemplate(&b, "page", struct {
		*Page
		Style    template.CSS
		Pictures []chartPicture
	}{p, template.CSS(styleText), pictures(p.Charts)})
	if err != nil {
		return err
	}
	_, err = w.Write(bytes.TrimLeft(b.Bytes(), "\n"))
	return err
}

func pictures(charts []Chart) []chartPicture {
	var out []chartPicture
	for i := range charts {
		out = append(out, charts[i].picture())
	}
	return out
}

// known returns the finite values, sorted.
func known(values []float64) []float64 {
	out := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !Number(v).Known() })
	slices.Sort(out)
	return out
}
