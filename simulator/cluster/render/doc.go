// Package render writes the result of a simulation in rounds: as text for a terminal, as JSON, as a CSV of its jobs,
// and as an HTML page. It neither simulates nor compares; package sweep compares several runs.
//
//	err := render.Write(os.Stdout, &render.Run{Result: result, What: "100 jobs at once"}, "text")
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/monitor"
	"trainopt/simulator/cluster"
)

// Run is a result with the information required to interpret it.
type Run struct {
	*cluster.Result
	What     string  // short description of the jobs
	Interval float64 // length of a round in seconds; 0: no rounds
	Notes    []string
}

// formats contains the writers by format. A new format is one function and one line here.
var formats = map[string]func(io.Writer, *Run) error{
	"csv":  func(w io.Writer, r *Run) error { return Jobs(w, r.Result) },
	"html": page,
	"json": asJSON,
	"text": text,
}

// Formats returns the names of the formats supported by Write.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Write writes a run in one of Formats.
func Write(w io.Writer, r *Run, format string) error {
	f, ok := formats[format]
	if !ok {
		return fmt.Errorf("write simulation: format %q is unknown, want one of %s", format, strings.Join(Formats(), ", "))
	}
	return f(w, r)
}

func asJSON(w io.Writer, r *Run) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*cluster.Result
		Workload  string         `json:"workload"`
		IntervalS cluster.Number `json:"interval_s"`
	}{r.Result, r.What, cluster.Number(orUnknown(r.Interval))})
}

func orUnknown(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// JobColumns are the columns of Jobs.
var JobColumns = []string{"id", "arrival_s", "jct_s", "deadline_s", "missed", "cost_usd", "energy_joules"}

// Jobs writes the jobs of a result as CSV with a header; unknown values are empty.
func Jobs(w io.Writer, r *cluster.Result) error {
	out := monitor.NewCSVWriter(w)
	lines := [][]string{JobColumns}
	for i := range r.Jobs {
		lines = append(lines, JobCells(&r.Jobs[i]))
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("write jobs as CSV: %w", err)
	}
	return nil
}

// JobCells returns the cells of a job in the order of JobColumns.
func JobCells(j *cluster.JobResult) []string {
	cell := func(n cluster.Number) string {
		if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return ""
	}
	missed := ""
	if j.Missed != nil {
		missed = strconv.FormatBool(*j.Missed)
	}
	return []string{strconv.Itoa(j.ID), cell(j.ArrivalS), cell(j.JCTS), cell(j.DeadlineS), missed, cell(j.CostUSD), cell(j.EnergyJoules)}
}
