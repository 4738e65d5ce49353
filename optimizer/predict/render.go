package predict

import (
	"io"

	"trainopt/optimizer/report/page"
)

// formats is the registry of output formats, one line each.
var formats = page.Formats[*answer]{
	"text":     page.TextOf((*answer).document),
	"json":     renderJSON,
	"csv":      page.CSVOf((*answer).lines),
	"html":     page.HTMLOf((*answer).document),
	"markdown": page.MarkdownOf((*answer).document),
}

// Formats returns the names of the formats, sorted.
func Formats() []string { return formats.Names() }

// Render writes an answer in one of the formats. The output depends on the answer alone.
func (a *answer) Render(w io.Writer, format string) error {
	return formats.Write(w, "prediction of "+a.Question.subject(), a, format)
}
