package chart

import _ "embed"

// Style is the style sheet of a page with pictures, tables and tiles, in light and dark: the classes of this package and
// those of the report's page.
//
//go:embed page.css
var Style string

// Figures are the templates "keys", the legend of a Picture, and "picture", the inside of its <figure>. Their set needs the
// function "clean", which is Clean.
//
//go:embed figures.html.tmpl
var Figures string
