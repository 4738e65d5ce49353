package report

import (
	"io"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/page"
)

// renderText writes the report for a terminal.
func renderText(w io.Writer, d *Data) error { return page.Text(w, build(d)) }

// Brief writes the first screen of the report for a terminal: the answers, and the options with what each gives up.
func Brief(w io.Writer, d *Data) error {
	doc := build(d)
	doc.Sections = nil
	if s := optionsSection(d); len(s.Blocks) > 0 || s.Intro != "" {
		doc.Sections = []section{s}
	}
	return page.Text(w, doc)
}

// Options writes what each preference would choose and what it gives up, and the allocations that were weighed.
func Options(w io.Writer, rec *journal.Record) error {
	return page.TextSections(w, optionsSection(&Data{Record: rec}))
}
