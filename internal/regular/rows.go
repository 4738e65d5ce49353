package regular

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// EachRow calls take for each row of a CSV file with a header, passing the values of the wanted columns in the order
// wanted. Errors contain the line number.
func EachRow(r *csv.Reader, want []string, take func(values []string) error) error {
	header, err := r.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("empty, want a header line")
		}
		return err
	}
	col := make([]int, len(want))
	for i, w := range want {
		if col[i] = slices.Index(header, w); col[i] < 0 {
			return fmt.Errorf("no column %q in the header %q", w, strings.Join(header, ","))
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // contains the line number
		}
		values := make([]string, len(want))
		for i, c := range col {
			values[i] = row[c]
		}
		if err := take(values); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// Rows yields the header of a table that a program writes while it is read, and then its rows. Damaged rows, and those with
// another number of fields than the header, are passed to damaged, which may be nil. The sequence ends at an error of r or in
// the header, which is its last element. A row is valid until the next one.
func Rows(r io.Reader, damaged func(error)) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		in := csv.NewReader(r)
		in.FieldsPerRecord, in.ReuseRecord = -1, true
		for width := 0; ; {
			row, err := in.Read()
			if err == io.EOF {
				return
			}
			parse := (*csv.ParseError)(nil)
			broken := width > 0 && errors.As(err, &parse)
			if err == nil && width > 0 && len(row) != width {
				line, _ := in.FieldPos(0)
				broken, err = true, fmt.Errorf("line %d: %d fields, want %d", line, len(row), width)
			}
			if broken {
				if damaged != nil {
					damaged(err)
				}
				continue
			}
			if !yield(row, err) || err != nil {
				return
			}
			width = len(row)
		}
	}
}

// LastRow returns the numbers in the last complete row of a table by column name; nil if no row is complete. It reads at most
// 64 KiB from either end of the file.
func LastRow(path string) map[string]float64 {
	f, err := Open(path, NoLimit)
	if err != nil {
		return nil
	}
	defer f.Close()
	buf := make([]byte, 64<<10) // more than several rows
	n, _ := f.ReadAt(buf, 0)
	header, rest, ok := strings.Cut(string(buf[:n]), "\n")
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err == nil && info.Size() > int64(len(buf)) {
		n, _ = f.ReadAt(buf, info.Size()-int64(len(buf)))
		rest = string(buf[:n])
	}
	lines := strings.Split(rest, "\n")
	if len(lines) < 2 { // the text after the last line feed is an incomplete row
		return nil
	}
	rows, err := csv.NewReader(strings.NewReader(header + "\n" + lines[len(lines)-2])).ReadAll()
	if err != nil || len(rows) != 2 {
		return nil
	}
	out := map[string]float64{}
	for i, name := range rows[0] {
		if v, err := strconv.ParseFloat(rows[1][i], 64); err == nil && !math.IsNaN(v) {
			out[name] = v
		}
	}
	return out
}
