package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
)

// formats is the registry of formats: one file and one line each.
var formats = map[string]func(io.Writer, *Data) error{
	"text":     renderText,
	"markdown": func(w io.Writer, d *Data) error { return page.Markdown(w, build(d)) },
	"json":     renderJSON,
	"html":     renderHTML,
	"csv":      renderCSV,
}

// Known reports whether Render supports the format.
func Known(format string) bool { return formats[format] != nil }

// FormatNames returns the names of the formats for display: "csv, html, json, markdown, text".
func FormatNames() string {
	names := []string{}
	for name := range formats {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Render writes the report in one of the formats. The output depends only on the contents of the run directory.
func Render(w io.Writer, data *Data, format string) error {
	render := formats[format]
	if render == nil {
		return fmt.Errorf("render report as %q: unknown format, want one of %s", format, FormatNames())
	}
	if err := render(w, data); err != nil {
		return fmt.Errorf("render report of %s as %s: %w", data.Record.RunID, format, err)
	}
	return nil
}
