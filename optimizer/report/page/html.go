package page

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": Clean,
	"first": func(g *Table, i int) bool { return i == 0 && g.Named },
	"mark":  func(l Light) string { return l.Mark() },
	"split": func(v string) [2]string { // a number and its unit
		figure, unit, ok := strings.Cut(Clean(v), Blank)
		if !ok || strings.Contains(unit, Blank) || v == NoData {
			return [2]string{Clean(v)}
		}
		return [2]string{figure, unit}
	},
	"cells": func(g *Table) []titledRow { return g.titled() },
}).Parse(figures + pageText))

type titledCell struct {
	Cell
	Column string
	Class  string
}

type titledRow []titledCell

// titled returns the rows with the column name of each cell and with the interval of a number below it.
func (g *Table) titled() []titledRow {
	rows := make([]titledRow, len(g.Rows))
	for i, r := range g.Rows {
		for k, c := range r {
			t := titledCell{Cell: c, Column: g.Columns[k].Name}
			if g.Columns[k].Right {
				t.Class = "r"
			}
			if c.Text == NoData {
				t.Class = strings.TrimSpace(t.Class + " nodata")
			}
			if figure, rest, ok := strings.Cut(c.Text, " ("); g.Columns[k].Right && ok && strings.HasSuffix(rest, ")") {
				t.Text, t.Sub = figure, strings.TrimSuffix(rest, ")")
			}
			rows[i] = append(rows[i], t)
		}
	}
	return rows
}

// Parts returns a copy of the templates of the parts of a page, for pages that contain documents: "summary" for the
// answers and the tiles of a Document, "section" for a Section, "pictures" for pictures, "table" for a Table.
func Parts() *template.Template { return template.Must(parts.Clone()) }

// parts is a copy of page that is never executed: an executed template cannot be cloned.
var parts = template.Must(page.Clone())

// Captioned gives each table without a caption that of its block or the title of its section.
func (d Document) Captioned() Document {
	d.Sections = slices.Clone(d.Sections)
	title := d.Title
	for i, s := range d.Sections {
		title = cmp.Or(s.Title, title)
		blocks := slices.Clone(s.Blocks)
		for k, b := range blocks {
			if b.Table != nil && b.Table.Caption == "" {
				table := *b.Table
				table.Caption = cmp.Or(b.Caption, title)
				blocks[k].Table = &table
			}
		}
		d.Sections[i].Blocks = blocks
	}
	return d
}

// HTML writes a self-contained HTML file, without scripts or network access.
func (doc Document) HTML(w io.Writer) error {
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Document
		Heading string
		Style   template.CSS
	}{doc.Captioned(), doc.heading(), template.CSS(Style)})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.TrimLeft(b.String(), "\n"))
	return err
}

// heading returns the title, followed by the state if set.
func (d *Document) heading() string {
	if d.State == "" {
		return d.Title
	}
	return d.Title + ": " + d.State
}
