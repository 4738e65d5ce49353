package predict

import (
	"io"

	"trainopt/optimizer/report/page"
)

// formats is the registry of output formats, one line each.
var formats = page.Formats[*Answer]{
	"text":     page.TextOf((*Answer).document),
	"json":     renderJSON,
	"csv":      page.CSVOf((*Answer).lines),
	"html":     page.HTMLOf((*Answer).document),
	"markdown": page.MarkdownOf((*Answer).document),
}

// Formats returns the names of the formats, sorted.
func Formats() []string { return formats.Names() }

// Render writes an answer in one of the formats. The output depends on the answer alone.
func (a *Answer) Render(w io.Writer, format string) error {
	return formats.Write(w, "prediction of "+a.Question.subject(), a, format)
}
