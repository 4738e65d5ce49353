package analysis

import (
	"encoding/json"
	"io"
	"math"

	"trainopt/optimizer/report/page"
)

// formats is the registry of output formats, one line each.
var formats = page.Formats[*Report]{
	"text":     page.TextOf(func(r *Report) page.Document { return r.document(longCurves) }),
	"json":     writeJSON,
	"csv":      page.CSVOf((*Report).lines),
	"html":     page.HTMLOf(func(r *Report) page.Document { return r.document(math.MaxInt) }),
	"markdown": page.MarkdownOf(func(r *Report) page.Document { return r.document(math.MaxInt) }),
}

// Formats returns the names of the formats of a report, sorted.
func Formats() []string { return formats.Names() }

// Render writes a report in one of the formats. The output depends on the report alone.
func (r *Report) Render(w io.Writer, format string) error {
	return formats.Write(w, "analysis", r, format)
}

func writeJSON(w io.Writer, r *Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// Document returns a report as a document with all curves.
func (r *Report) Document() page.Document { return r.document(math.MaxInt) }
