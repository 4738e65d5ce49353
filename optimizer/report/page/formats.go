package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"trainopt/monitor"
)

// Formats contains the writers of one kind of result by format. A format is one line of a map literal.
//
//	var formats = page.Formats[*Run]{"csv": page.CSVOf(jobs), "html": page.HTMLOf(document), "json": page.JSONOf(value), "text": page.TextOf(document)}
type Formats[T any] map[string]func(io.Writer, T) error

// Names returns the formats, sorted.
func (f Formats[T]) Names() []string { return slices.Sorted(maps.Keys(f)) }

// Write writes a result in one of the formats, or nothing if that fails; what describes the result in errors.
func (f Formats[T]) Write(w io.Writer, what string, result T, format string) error {
	write, ok := f[format]
	if !ok {
		return fmt.Errorf("write %s as %q: unknown format, want one of %s", what, format, strings.Join(f.Names(), ", "))
	}
	var b bytes.Buffer
	if err := write(&b, result); err != nil {
		return fmt.Errorf("write %s as %s: %w", what, format, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// TextOf returns the writer of a document as text.
func TextOf[T any](document func(T) Document) func(io.Writer, T) error {
	return func(w io.Writer, v T) error { return document(v).Text(w) }
}

// MarkdownOf returns the writer of a document as Markdown.
func MarkdownOf[T any](document func(T) Document) func(io.Writer, T) error {
	return func(w io.Writer, v T) error { return document(v).markdown(w) }
}

// HTMLOf returns the writer of a document as HTML.
func HTMLOf[T any](document func(T) Document) func(io.Writer, T) error {
	return func(w io.Writer, v T) error { return document(v).HTML(w) }
}

// JSONOf returns the writer of a value as JSON.
func JSONOf[T, V any](value func(T) V) func(io.Writer, T) error { return as(JSON[V], value) }

// CSVOf returns the writer of rows as CSV.
func CSVOf[T any](rows func(T) [][]string) func(io.Writer, T) error { return as(CSV, rows) }

// as composes the writer of a value with the function that returns the value.
func as[T, V any](write func(io.Writer, V) error, of func(T) V) func(io.Writer, T) error {
	return func(w io.Writer, result T) error { return write(w, of(result)) }
}

// JSON writes a value as indented JSON, without escaping HTML.
func JSON[V any](w io.Writer, value V) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// CSV writes rows, the first of which is the head.
func CSV(w io.Writer, rows [][]string) error { return monitor.NewCSVWriter(w).WriteAll(rows) }

// CSVCell formats a number for CSV with significant digits, −1 for as many as it has; "" if unknown.
func CSVCell(v float64, digits int) string {
	if !Known(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// JSONNumber returns a number as JSON with significant digits, −1 for as many as it has; null if unknown.
func JSONNumber(v float64, digits int) ([]byte, error) {
	if !Known(v) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', digits, 64), nil
}

// Number is a value of a result. NaN and infinities are unknown and null in JSON; other values have nine significant
// digits.
type Number float64

// Known reports whether the value is known.
func (n Number) Known() bool { return Known(float64(n)) }

// MarshalJSON encodes an unknown value as null.
func (n Number) MarshalJSON() ([]byte, error) { return JSONNumber(float64(n), 9) }

// Exact is a Number with all significant digits.
type Exact float64

// MarshalJSON encodes an unknown value as null.
func (n Exact) MarshalJSON() ([]byte, error) { return JSONNumber(float64(n), -1) }
