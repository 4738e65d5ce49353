package report

import (
	"io"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// Brief writes the first screen of the report for a terminal of width columns (0: the default width): the answers, the
// last output of a failed training, and the choices of other preferences.
func (d *data) Brief(w io.Writer, width int) error {
	doc := build(d)
	doc.Sections = nil
	for _, s := range []page.Section{outputSection(d), briefOptions(d)} {
		if len(s.Blocks) > 0 {
			doc.Sections = append(doc.Sections, s)
		}
	}
	if width > 0 {
		return doc.TextWithin(w, width)
	}
	return doc.Text(w)
}

// LastOutput writes the end of the output of a failed training, and where the rest is; nothing for other runs.
func (d *data) LastOutput(w io.Writer, width int) error {
	if s := outputSection(d); s.Title != "" {
		return page.TextSections(w, width, s)
	}
	return nil
}

// Text writes the report for a terminal of width columns.
func (d *data) Text(w io.Writer, width int) error { return build(d).TextWithin(w, width) }

// Options writes the choice of each preference with its trade-offs, and all candidates, for a terminal of width columns; 0: no
// terminal.
func Options(w io.Writer, rec *journal.Record, width int) error {
	return page.TextSections(w, width, optionsSection(&data{Record: rec}))
}
