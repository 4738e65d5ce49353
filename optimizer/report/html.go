package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"

	"trainopt/optimizer/chart"
)

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"clean": clean,
	"mark":  func(l light) string { return l.mark() },
	"split": func(v string) [2]string { // a figure and its unit
		figure, unit, ok := strings.Cut(clean(v), nb)
		if !ok || strings.Contains(unit, nb) || v == noData {
			return [2]string{clean(v)}
		}
		return [2]string{figure, unit}
	},
	"cells": func(g *grid) []titledRow { return g.titled() },
}).Parse(chart.Figures + pageText))

type titledCell struct {
	cell
	Sub    string // the interval, below the figure
	Column string
	Right  bool
}

type titledRow []titledCell

// titled gives each cell the name of its column.
func (g *grid) titled() []titledRow {
	rows := make([]titledRow, len(g.Rows))
	for i, r := range g.Rows {
		for k, c := range r {
			t := titledCell{cell: c, Column: g.Columns[k].Name, Right: g.Columns[k].Right}
			if figure, rest, ok := strings.Cut(c.Text, " ("); t.Right && ok && strings.HasSuffix(rest, ")") {
				t.Text, t.Sub = figure, strings.TrimSuffix(rest, ")")
			}
			rows[i] = append(rows[i], t)
		}
	}
	return rows
}

// renderHTML writes one file that needs nothing else: no network, no script.
func renderHTML(w io.Writer, d *Data) error {
	list := pictures(d)
	events := map[string]bool{}
	for _, m := range moments(d) {
		events[m.Class] = true
	}
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		document
		Style template.CSS
		// NoPictures: none of them has data.
		NoPictures bool
		Front      chart.Picture
		Pictures   []chart.Picture
		Events     map[string]bool
		RunID      string
		Missing    []string
	}{build(d), template.CSS(chart.Style), allEmpty(list), list[0], list[1:], events, d.Record.RunID, d.Missing})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.TrimLeft(b.String(), "\n"))
	return err
}

func allEmpty(list []chart.Picture) bool {
	for _, p := range list {
		if p.Empty == "" {
			return false
		}
	}
	return true
}
