package report

import "io"

func renderHTML(w io.Writer, d *Data) error { return nil }

type point struct{ x, y float64 }
