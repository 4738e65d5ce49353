// Package chart renders the charts of HTML pages. A chart consists of series, levels and moments over one horizontal
// axis and is rendered to inline SVG that adapts to light and dark pages through CSS classes, shows a tooltip for every
// point and is accessible to screen readers. The package also contains the style sheet and the formatting of numbers
// and text, so that all pages and terminals use the same conventions.
//
// It is independent of runs, jobs and money, computes no statistics and writes no files: a page embeds what it returns.
//
//	c := chart.Chart{ID: "speed", Title: "Throughput", X: chart.Axis{Name: "GPUs"}, Y: chart.Axis{Name: "samples/s", Zero: true},
//		Series: []chart.Series{{Name: "measured", Class: "s1", Points: points, One: chart.Throughput}}}
//	picture := c.Picture() // picture.SVG goes into the page, below chart.Style
package chart
