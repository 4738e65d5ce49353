package report

import (
	"trainopt/optimizer/report/page"
)

// Parts of a report are the parts of every page.
type (
	document = page.Document
	light    = page.Light
	answer   = page.Answer
	tile     = page.Tile
	section  = page.Section
	block    = page.Block
	grid     = page.Table
	cell     = page.Cell
)

const (
	dark  = page.Dark
	good  = page.Good
	warn  = page.Warn
	bad   = page.Bad
	muted = page.Muted
)

var (
	left   = page.Left
	right  = page.Right
	row    = page.Row
	fields = page.Fields
)

// with sets the light of the last cell of a row and returns the row.
func with(cells []cell, l light) []cell {
	cells[len(cells)-1].Light = l
	return cells
}
