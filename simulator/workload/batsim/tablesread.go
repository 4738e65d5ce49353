package batsim

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

// jobRow is one line of a table of jobs. Times are in s; missing times are NaN, as in rejected jobs.
type jobRow struct {
	ID, Workload, Profile string
	Submit                float64
	Resources             int
	Walltime              float64 // 0: none
	Success               bool
	State                 string // for example "COMPLETED_SUCCESSFULLY"; "" if the table has no states
	Start, End            float64
	Cores                 []int32
	Energy                float64 // J; NaN if unknown
	Metadata              string
}

// readJobs reads a table of jobs of any Batsim version: columns in any order, unknown ones ignored, success and states
// optional. Errors name the line and the column.
func readJobs(r io.Reader) ([]jobRow, error) {
	t, err := readTable(r)
	if err != nil {
		return nil, fmt.Errorf("read table of jobs: %w", err)
	}
	for _, need := range []string{"job_id", "submission_time", "starting_time", "finish_time"} {
		if _, ok := t.column[need]; !ok {
			return nil, fmt.Errorf("read table of jobs: no column %s", need)
		}
	}
	rows := make([]jobRow, 0, len(t.rows))
	for i := range t.rows {
		row, err := t.job(i)
		if err != nil {
			return nil, fmt.Errorf("read table of jobs: line %d: %w", i+2, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

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

// job decodes row i in the columns of any version.
func (t *table) job(i int) (jobRow, error) {
	j := jobRow{ID: t.text(i, "job_id"), Workload: t.text(i, "workload_name"), Profile: t.text(i, "profile"),
		State: t.text(i, "final_state"), Metadata: t.text(i, "metadata")}
	var errs []error
	number := func(name string) float64 {
		v, err := t.number(i, name)
		errs = append(errs, err)
		return v
	}
	j.Submit, j.Start, j.End = number("submission_time"), number("starting_time"), number("finish_time")
	if math.IsNaN(j.Submit) {
		errs = append(errs, errors.New("submission_time is missing"))
	}
	resources := number("requested_number_of_resources")
	if _, old := t.column["requested_number_of_processors"]; old { // version 2
		resources = number("requested_number_of_processors")
	}
	if resources >= 0 && resources < 1<<31 {
		j.Resources = int(resources)
	}
	if v := number("requested_time"); v > 0 {
		j.Walltime = v
	}
	if j.Energy = number("consumed_energy"); j.Energy < 0 {
		j.Energy = math.NaN()
	}
	switch text := t.text(i, "success"); text {
	case "1":
		j.Success = true
	case "0", "":
		j.Success = text == "" && j.State == "COMPLETED_SUCCESSFULLY"
	default:
		errs = append(errs, fmt.Errorf("success: %q is neither 0 nor 1", text))
	}
	allocated := "allocated_resources"
	if _, old := t.column["allocated_processors"]; old {
		allocated = "allocated_processors"
	}
	var err error
	if j.Cores, err = ParseIntervals(t.text(i, allocated)); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", allocated, err))
	}
	return j, errors.Join(errs...)
}

// compared is the number of compared columns of two schedules.
const compared = 8

// Metric is one number of two schedules.
type Metric struct {
	Name string
	A, B float64
}

// Compare compares the first eight numeric columns of two schedule tables (out_schedule.csv), as plotted by
// hdeeprm-metrics: energy, makespan, and the largest and mean slowdown, turnaround and wait. Columns are matched by
// name; a column missing in the second table is an error.
func Compare(a, b io.Reader) ([]Metric, error) {
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
	var out []Metric
	for _, name := range first.names {
		v, err := first.number(0, name)
		if err != nil || math.IsNaN(v) || slices.ContainsFunc(out, func(m Metric) bool { return m.Name == name }) {
			continue // not numeric, such as the version
		}
		if _, ok := second.column[name]; !ok {
			return nil, fmt.Errorf("compare schedules: the second has no column %s", name)
		}
		w, err := second.number(0, name)
		if err != nil {
			return nil, fmt.Errorf("compare schedules: the second: %w", err)
		}
		if out = append(out, Metric{name, v, w}); len(out) == compared {
			break
		}
	}
	if len(out) == 0 {
		return nil, errors.New("compare schedules: the first has no numeric columns")
	}
	return out, nil
}
