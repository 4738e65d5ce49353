// Package chart draws the pictures of the HTML pages: a chart is series, levels and moments over one horizontal axis, and
// becomes inline SVG that follows the reader's light or dark page through CSS classes, names every point on hover and
// speaks to screen readers. It also has the page's style sheet and the way numbers and text are written for people, so that
// all pages and terminals read alike.
//
// It knows nothing of runs, jobs or money, computes no statistics, and draws no files: a page embeds what it returns.
//
//	c := chart.Chart{ID: "speed", Title: "Throughput", Unit: "samples/s", XName: "GPUs", Zero: true,
//		Series: []chart.Series{{Name: "measured", Class: "s1", Points: points, One: chart.Throughput}}}
//	picture := c.Picture() // picture.SVG goes into the page, below chart.Style
package chart
