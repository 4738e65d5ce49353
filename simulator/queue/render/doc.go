// Package render writes what came out of the simulation of a queue: as text for a terminal, as JSON, as a CSV of its jobs, as the
// tables of Batsim, and as a page. It simulates and compares nothing.
//
//	err := render.Write(os.Stdout, &render.Run{Run: run, Seed: 0}, "text")
package render

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/monitor"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/batsim"
)

// Run is a simulation with what a reader must know beside it.
type Run struct {
	*sweep.Run
	Source string   // where the jobs are from: "trace.swf.gz"; "" is nowhere
	WallS  float64  // real time that it took, s; NaN unknown
	Notes  []string // warnings
}

// formats are the ways to write a run. A new one is one function and one line here.
var formats = map[string]func(io.Writer, *Run) error{
	"csv":  func(w io.Writer, r *Run) error { return Jobs(w, r.Result) },
	"html": page,
	"json": asJSON,
	"text": text,
}

// Formats lists the names that Write knows.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Write writes a run in one of Formats.
func Write(w io.Writer, r *Run, format string) error {
	f, ok := formats[format]
	if !ok {
		return fmt.Errorf("write simulation: format %q is unknown, want one of %s", format, strings.Join(Formats(), ", "))
	}
	return f(w, r)
}

// JobColumns are the columns of Jobs.
var JobColumns = []string{"id", "submit_s", "start_s", "end_s", "procs", "state", "wait_s", "bounded_slowdown", "allocated"}

// Jobs writes the jobs of a result as CSV, with a header; what is unknown is empty.
func Jobs(w io.Writer, r *queue.Result) error {
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

// JobCells is a job in JobColumns.
func JobCells(o *queue.Outcome) []string {
	bounded := math.NaN()
	if ended(o) {
		bounded = o.BoundedSlowdown()
	}
	return []string{o.Job.Label(), cell(o.Job.Submit), cell(o.Start), cell(o.End), strconv.Itoa(o.Job.Procs), stateNames[o.State], cell(o.Wait()),
		cell(bounded), batsim.FormatIntervals(o.Cores)}
}

var stateNames = map[queue.State]string{queue.Waiting: "waiting", queue.Running: "running", queue.Completed: "completed",
	queue.Killed: "killed", queue.Rejected: "rejected"}

func ended(o *queue.Outcome) bool { return o.State == queue.Completed || o.State == queue.Killed }

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func cell(v float64) string {
	if !known(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
