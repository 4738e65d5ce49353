package measured

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// eachRow calls take for each row of a CSV file with a header, passing the values of the wanted columns in the order
// wanted. Errors contain the line number.
func eachRow(r *csv.Reader, want []string, take func(values []string) error) error {
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

// number parses a finite number.
func number(s string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("%q is not a finite number", s)
	}
	return x, err
}

// whole parses an integer from 1 to a billion; "20.0" is accepted.
func whole(s string) (int, error) {
	x, err := number(s)
	if err != nil || x < 1 || x > 1e9 || x != math.Trunc(x) {
		return 0, fmt.Errorf("%q, want a whole number from 1", s)
	}
	return int(x), nil
}
