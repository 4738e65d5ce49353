package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// data is the content of a run directory.
type data struct {
	Record *journal.Record
	Dir    string
	// Agent is the agent currently working on the run; nil if none.
	Agent *journal.Holder
	// Missing describes the tables that are absent, damaged or empty. The report is complete only if it is empty.
	Missing []string

	samples, performance, allocations, slaMetrics *table
}

// Names of the tables that a report reads, as written by package monitor.
const (
	samplesFile     = "samples.csv"
	performanceFile = "performance_metrics.csv"
	allocationsFile = "allocation_history.csv"
	slaFile         = "sla_metrics.csv"
)

// Load reads a run directory. Only an unreadable run.json is an error. A missing or damaged table is listed in
// data.Missing, and its readable rows are used.
func Load(dir string) (*data, error) {
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		return nil, fmt.Errorf("load report: %w", err)
	}
	d := &data{Record: rec, Dir: dir, Agent: journal.HolderOf(dir)}
	for _, t := range []struct {
		name string
		to   **table
	}{
		{samplesFile, &d.samples}, {performanceFile, &d.performance}, {allocationsFile, &d.allocations},
		{slaFile, &d.slaMetrics},
	} {
		var why string
		*t.to, why = loadTable(filepath.Join(dir, t.name))
		if why != "" && !(why == noRows && mayBeEmpty(rec, t.name)) {
			d.Missing = append(d.Missing, t.name+": "+why)
		}
	}
	return d, nil
}

// table is a CSV file indexed by column name.
type table struct {
	columns map[string]int
	rows    [][]string
}

// loadTable returns the readable part of a table and a description of any problem. It never fails.
func loadTable(path string) (*table, string) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &table{}, "not there"
	}
	if err != nil {
		return &table{}, err.Error()
	}
	defer f.Close()
	return readTable(f)
}

// readTable reads a CSV table with a header. It skips rows that cannot be parsed or have the wrong number of fields,
// and returns a description of the first problem, or "" if all rows are valid.
func readTable(r io.Reader) (*table, string) {
	t := &table{}
	bad, firstBad := 0, error(nil)
	for row, err := range regular.Rows(r, func(err error) { bad, firstBad = bad+1, cmp.Or(firstBad, err) }) {
		switch {
		case t.columns != nil && err == nil:
			t.rows = append(t.rows, slices.Clone(row))
		case t.columns != nil: // the file itself is no longer readable
			bad, firstBad = bad+1, cmp.Or(firstBad, err)
		case err != nil:
			return t, "header not readable: " + err.Error()
		default:
			t.columns = map[string]int{}
			for i, name := range row {
				t.columns[strings.TrimSpace(name)] = i
			}
		}
	}
	switch {
	case t.columns == nil:
		return t, "empty"
	case bad > 0:
		return t, fmt.Sprintf("%s left out (%v)", page.Plural(bad, "damaged row"), firstBad)
	case len(t.rows) == 0:
		return t, noRows
	}
	return t, ""
}

// noRows is the description that readTable returns for a table with only a header.
const noRows = "no rows"

// mayBeEmpty reports whether such a run may legitimately leave a table without rows.
func mayBeEmpty(r *journal.Record, name string) bool {
	switch name {
	case slaFile:
		return !limited(r.SLA)
	case performanceFile:
		return r.Outcome.Rows == 0
	}
	return false
}

// len returns the number of rows.
func (t *table) len() int { return len(t.rows) }

// number returns the value of a cell, NaN if it is missing or not finite.
func (t *table) number(row int, column string) float64 {
	v, err := strconv.ParseFloat(t.text(row, column), 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

func (t *table) text(row int, column string) string {
	i, ok := t.columns[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.rows[row][i])
}

// series returns a column against time_s, or against column x; rows without both values are gaps (NaN).
func (t *table) series(x, column string) []page.Point {
	points := make([]page.Point, 0, t.len())
	for i := range t.rows {
		if at := t.number(i, x); !math.IsNaN(at) {
			points = append(points, page.Point{X: at, Y: t.number(i, column)})
		}
	}
	return points
}
