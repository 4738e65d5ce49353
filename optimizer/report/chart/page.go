package chart

import (
	_ "embed"
	"html"
	"strings"
)

// Style is the style sheet of a page with pictures, tables and tiles, in light and dark: the classes of this package and
// those of package page.
//
//go:embed page.css
var Style string

// Figures are the templates "keys", the legend of a Picture, and "picture", the inside of its <figure>. Their set needs the
// function "clean", which is Clean.
//
//go:embed figures.html.tmpl
var Figures string

// File is the picture as an SVG file of its own, for the wide page, with the style sheet in it; empty when there is nothing
// to see.
func (p Picture) File() string {
	rest, ok := strings.CutPrefix(string(p.SVG), "<svg ")
	head, body, found := strings.Cut(rest, ">")
	if !ok || !found {
		return ""
	}
	style := html.EscapeString(Style + "svg { background: var(--card); font-family: system-ui, \"Noto Sans\", \"Liberation Sans\", Arial, sans-serif; }\n")
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<svg xmlns="http://www.w3.org/2000/svg" ` + head + "><style>" + style + "</style>" + body + "\n"
}
