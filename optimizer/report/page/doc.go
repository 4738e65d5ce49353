// Package page writes results: a Document, which has the same text, numbers, tables and pictures in every format, as
// text for a terminal, as Markdown and as one self-contained HTML file; and values as JSON and rows as CSV. Formats is
// the registry of the formats of one kind of result.
//
// Pictures are a Chart (series, levels and moments over one horizontal axis), a Scatter, a Parallel or Estimates. They
// are inline SVG that adapts to light and dark pages through the classes of Style, shows a tooltip for every point and is
// accessible to screen readers. Numbers are formatted by one function per quantity (Duration, USD, GiB, Significant, …),
// so that all results use the same conventions.
//
// The package is independent of runs, simulations and predictions, and computes no statistics.
//
//	c := page.Chart{ID: "speed", Title: "Throughput", X: page.Axis{Name: "GPUs"}, Y: page.Axis{Name: "samples/s", Zero: true},
//		Series: []page.Series{{Name: "measured", Class: "s1", Points: points, One: page.Rate("")}}}
//	doc := page.Document{Title: "Scaling", Answers: answers, Sections: sections, Pictures: []page.Picture{c.Picture()}}
//	err := doc.HTML(w)
package page
