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

// FormatNames returns the formats for display.
func FormatNames() string { return formats.Words() }

// Render writes an answer in one of the formats. The output depends on the answer alone.
func (a *Answer) Render(w io.Writer, format string) error {
	return formats.Write(w, "prediction of "+a.Question.subject(), a, format)
}
