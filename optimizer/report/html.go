package report

import (
	"slices"

	"trainopt/optimizer/report/page"
)

// pictured returns the document of a run with its charts.
func pictured(d *data) page.Document {
	doc := build(d)
	list := pictures(d)
	doc.Wide, doc.Pictures = &list[0], list[1:]
	if !slices.ContainsFunc(list, func(p page.Picture) bool { return p.Empty == "" }) {
		doc.Nothing = "Nothing was recorded of this run, so there is nothing to draw."
	}
	events := map[string]bool{}
	for _, m := range moments(d) {
		events[m.Class] = true
	}
	for _, m := range []struct {
		class string
		mark  page.LegendMark
	}{
		{"restart", page.LegendMark{Sign: "▼", Name: "started again"}},
		{"live", page.LegendMark{Sign: "▼", Name: "changed while running (dashed)"}},
		{"recommended", page.LegendMark{Sign: "▽", Name: "advice, not applied (dotted)"}},
	} {
		if events[m.class] {
			doc.Marks = append(doc.Marks, m.mark)
		}
	}
	doc.Footer = d.Record.RunID + " · all numbers are measured unless they are marked as predicted; intervals are from the 5th to the 95th percentile."
	if len(d.Missing) > 0 {
		doc.Footer += " Some tables of this run are missing or damaged, see the warnings."
	}
	return doc
}
