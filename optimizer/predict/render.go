package predict

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
)

// formats is the registry of output formats, one function and one line each.
var formats = map[string]func(io.Writer, *Answer) error{
	"text":     func(w io.Writer, a *Answer) error { return page.Text(w, a.document()) },
	"json":     renderJSON,
	"csv":      renderCSV,
	"html":     func(w io.Writer, a *Answer) error { return page.HTML(w, a.document()) },
	"markdown": func(w io.Writer, a *Answer) error { return page.Markdown(w, a.document()) },
}

// Known reports whether Render supports the format.
func Known(format string) bool { return formats[format] != nil }

// FormatNames returns the formats for display.
func FormatNames() string { return strings.Join(slices.Sorted(maps.Keys(formats)), ", ") }

// Render writes an answer in one of the formats. The output depends on the answer alone.
func Render(w io.Writer, a *Answer, format string) error {
	render := formats[format]
	if render == nil {
		return fmt.Errorf("render prediction as %q: unknown format, want one of %s", format, FormatNames())
	}
	var b bytes.Buffer
	if err := render(&b, a); err != nil {
		return fmt.Errorf("render prediction of %s as %s: %w", a.Question.subject(), format, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
