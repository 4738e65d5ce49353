package hdeeprm

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

// table is a CSV file with a header.
type table struct {
	names  []string
	column map[string]int
	rows   [][]string
}

// readTable reads a CSV file; column names are trimmed.
func readTable(r io.Reader) (*table, error) {
	c := csv.NewReader(r)
	c.LazyQuotes = true
	all, err := c.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it is empty")
	}
	t := &table{names: all[0], column: map[string]int{}, rows: all[1:]}
	for i, name := range t.names {
		t.names[i] = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		t.column[t.names[i]] = i
	}
	return t, nil
}

// text returns a trimmed field; "" if the column is missing.
func (t *table) text(row int, name string) string {
	i, ok := t.column[name]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.rows[row][i])
}

// number returns a finite number; NaN if the field is empty or the column is missing.
func (t *table) number(row int, name string) (float64, error) {
	text := t.text(row, name)
	if text == "" {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s: %q is not a number", name, text)
	}
	return v, nil
}

// compared is the number of compared columns of two schedules.
const compared = 8

// scheduleMetric is one number of two schedules.
type scheduleMetric struct {
	Name string
	A, B float64
}

// CompareSchedules compares the first eight numeric columns of two schedule tables (out_schedule.csv), as plotted by
// hdeeprm-metrics: energy, makespan, and the largest and mean slowdown, turnaround and wait. Columns are matched by
// name; a column missing in the second table is an error.
func CompareSchedules(a, b io.Reader) ([]scheduleMetric, error) {
	first, err := readTable(a)
	if err != nil {
		return nil, fmt.Errorf("compare schedules: the first: %w", err)
	}
	second, err := readTable(b)
	if err != nil {
		return nil, fmt.Errorf("compare schedules: the second: %w", err)
	}
	if len(first.rows) == 0 || len(second.rows) == 0 {
		return nil, errors.New("compare schedules: a table has no numbers")
	}
	var out []scheduleMetric
	for _, name := range first.names {
		v, err := first.number(0, name)
		if err != nil || math.IsNaN(v) || slices.ContainsFunc(out, func(m scheduleMetric) bool { return m.Name == name }) {
			continue // not numeric, such as the version
		}
		if _, ok := second.column[name]; !ok {
			return nil, fmt.Errorf("compare schedules: the second has no column %s", name)
		}
		w, err := second.number(0, name)
		if err != nil {
			return nil, fmt.Errorf("compare schedules: the second: %w", err)
		}
		if out = append(out, scheduleMetric{name, v, w}); len(out) == compared {
			break
		}
	}
	if len(out) == 0 {
		return nil, errors.New("compare schedules: the first has no numeric columns")
	}
	return out, nil
}
