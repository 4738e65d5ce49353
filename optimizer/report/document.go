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
	with   = page.With
	fields = page.Fields
)
