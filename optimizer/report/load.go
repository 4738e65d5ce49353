package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/chart"
)

// Data is what a run directory holds.
type Data struct {
	Record *journal.Record
	Dir    string
	// Agent is at work on the run now; nil when none is.
	Agent *journal.Holder
	// Missing says in words which tables are absent, damaged or empty; the report is complete without only
	// when it is empty.
	Missing []string

	samples, performance, allocations, slaMetrics, pareto *table
}

// The tables that a report uses, as package monitor names them.
const (
	samplesFile     = "samples.csv"
	performanceFile = "performance_metrics.csv"
	allocationsFile = "allocation_history.csv"
	slaFile         = "sla_metrics.csv"
	paretoFile      = "pareto_front.csv"
)

// Load reads a run directory. Only a run.json that cannot be read is an error; a table that is missing or
// damaged is said in Data.Missing, and what of it can be read is used.
func Load(dir string) (*Data, error) {
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		return nil, fmt.Errorf("load report: %w", err)
	}
	d := &Data{Record: rec, Dir: dir, Agent: journal.HolderOf(dir)}
	for _, t := range []struct {
		name string
		to   **table
	}{
		{samplesFile, &d.samples}, {performanceFile, &d.performance}, {allocationsFile, &d.allocations},
		{slaFile, &d.slaMetrics}, {paretoFile, &d.pareto},
	} {
		var why string
		*t.to, why = loadTable(filepath.Join(dir, t.name))
		if why != "" && !(why == noRows && mayBeEmpty(rec, t.name)) {
			d.Missing = append(d.Missing, t.name+": "+why)
		}
	}
	return d, nil
}

// table is a CSV file by column name.
type table struct {
	columns map[string]int
	rows    [][]string
}

// loadTable never fails: it gives what can be read, and says in words what could not.
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

func readTable(r io.Reader) (*table, string) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	header, err := in.Read()
	if err == io.EOF {
		return &table{}, "empty"
	}
	if err != nil {
		return &table{}, "header not readable: " + err.Error()
	}
	t := &table{columns: map[string]int{}}
	for i, name := range header {
		t.columns[strings.TrimSpace(name)] = i
	}
	bad, firstBad := 0, ""
	for {
		row, err := in.Read()
		if err == io.EOF {
			break
		}
		if err == nil && len(row) != len(header) {
			line, _ := in.FieldPos(0)
			err = fmt.Errorf("line %d: %d fields, want %d", line, len(row), len(header))
		}
		if err != nil {
			if bad++; bad == 1 {
				firstBad = err.Error()
			}
			var parse *csv.ParseError
			if !errors.As(err, &parse) && len(row) == 0 {
				break // the file itself can no longer be read
			}
			continue
		}
		t.rows = append(t.rows, row)
	}
	switch {
	case bad > 0:
		return t, fmt.Sprintf("%s left out (%s)", plural(bad, "damaged row"), firstBad)
	case len(t.rows) == 0:
		return t, noRows
	}
	return t, ""
}

// noRows is what readTable returns of a table with nothing but its header.
const noRows = "no rows"

// mayBeEmpty reports whether a run such as this one writes no rows into a table.
func mayBeEmpty(r *journal.Record, name string) bool {
	switch name {
	case slaFile:
		return !limited(r.SLA)
	case paretoFile:
		return r.Plan == nil || len(r.Plan.Candidates) == 0
	case performanceFile:
		return r.Outcome.Rows == 0
	}
	return false
}

// len is the number of rows.
func (t *table) len() int { return len(t.rows) }

// number is NaN where there is none.
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

func (t *table) yes(row int, column string) bool {
	b, _ := strconv.ParseBool(t.text(row, column))
	return b
}

// series is a column against time_s, or against x; rows without both are gaps (NaN).
func (t *table) series(x, column string) []chart.Point {
	points := make([]chart.Point, 0, t.len())
	for i := range t.rows {
		if at := t.number(i, x); !math.IsNaN(at) {
			points = append(points, chart.Point{X: at, Y: t.number(i, column)})
		}
	}
	return points
}
