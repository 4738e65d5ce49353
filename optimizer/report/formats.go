package report

import (
	"io"

	"trainopt/optimizer/report/page"
)

// formats is the registry of formats: one line each.
var formats = page.Formats[*data]{
	"text":     page.TextOf(build),
	"markdown": page.MarkdownOf(build),
	"json":     renderJSON,
	"html":     page.HTMLOf(pictured),
	"csv":      page.CSVOf(lines),
}

// Formats returns the names of the formats, sorted.
func Formats() []string { return formats.Names() }

// Render writes the report in one of the formats. The output depends only on the contents of the run directory.
func (data *data) Render(w io.Writer, format string) error {
	return formats.Write(w, "report of "+data.Record.RunID, data, format)
}
