package regular

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
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
