package monitor

import (
	"encoding/csv"
	"io"
)

// csvWriter writes CSV that is safe to open in a spreadsheet or a terminal: encoding/csv with [PlainCell] applied to
// every cell.
type csvWriter struct {
	out *csv.Writer
	row []string
}

// NewCSVWriter returns a writer of CSV to w.
func NewCSVWriter(w io.Writer) *csvWriter { return &csvWriter{out: csv.NewWriter(w)} }

// Write writes one row, buffered until [csvWriter.Flush].
func (c *csvWriter) Write(cells []string) error {
	c.row = c.row[:0]
	for _, cell := range cells {
		c.row = append(c.row, PlainCell(cell))
	}
	return c.out.Write(c.row)
}

// WriteAll writes rows and flushes them.
func (c *csvWriter) WriteAll(rows [][]string) error {
	for _, r := range rows {
		if err := c.Write(r); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// Flush writes buffered rows to the underlying writer.
func (c *csvWriter) Flush() { c.out.Flush() }

// Error returns the first error of a Write or a Flush.
func (c *csvWriter) Error() error { return c.out.Error() }
