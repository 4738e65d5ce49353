package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"
)

//go:embed report.html.tmpl
var pageText string

//go:embed report.css
var styleText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"clean": clean,
	"mark":  func(l light) string { return l.mark() },
	"cells": func(g *grid) []titledRow { return g.titled() },
}).Parse(pageText))

type titledCell struct {
	cell
	Column string
	Right  bool
}

type titledRow []titledCell

// titled gives each cell the name of its column.
func (g *grid) titled() []titledRow {
	rows := make([]titledRow, len(g.Rows))
	for i, r := range g.Rows {
		for k, c := range r {
			rows[i] = append(rows[i], titledCell{c, g.Columns[k].Name, g.Columns[k].Right})
		}
	}
	return rows
}

// renderHTML writes one file that needs nothing else: no network, no script.
func renderHTML(w io.Writer, d *Data) error {
	list := pictures(d)
	events := map[string]bool{}
	for _, m := range moments(d) {
		events[m.class] = true
	}
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		document
		Style    template.CSS
		Front    picture
		Pictures []picture
		Events   map[string]bool
		RunID    string
		Missing  []string
	}{build(d), template.CSS(styleText), list[0], list[1:], events, d.Record.RunID, d.Missing})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.TrimLeft(b.String(), "\n"))
	return err
}
