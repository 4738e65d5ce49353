package page

import (
	_ "embed"
	"html"
	"strings"
)

// Style is the style sheet of a page with pictures, tables and tiles, for light and dark mode. It contains the classes
// of documents and of charts.
//
//go:embed page.css
var Style string

// figures contains the templates "keys", the legend of a Picture, and "picture", the content of its <figure>. The
// template set must provide the function "clean", which is Clean.
//
//go:embed figures.html.tmpl
var figures string

// File returns the wide picture as a self-contained SVG file with the style sheet embedded, or "" if the picture is
// empty.
func (p Picture) File() string {
	rest, ok := strings.CutPrefix(string(p.SVG), "<svg ")
	head, body, found := strings.Cut(rest, ">")
	if !ok || !found {
		return ""
	}
	style := html.EscapeString(Style + "svg { background: var(--card); font-family: system-ui, \"Noto Sans\", \"Liberation Sans\", Arial, sans-serif; }\n")
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<svg xmlns="http://www.w3.org/2000/svg" ` + head + "><style>" + style + "</style>" + body + "\n"
}

// Rows draws a picture of the width of the page whose height depends on its content; about is its description for screen
// readers.
func (p Picture) Rows(about string, height float64, draw func(d *Drawing)) *Picture {
	d := newDrawing(size{wideSize.Width, height}, p.ID, p.Title, about)
	draw(d)
	p.SVG = d.finish()
	return &p
}
