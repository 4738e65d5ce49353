package sweep

import (
	"io"
	"math"
	"strconv"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
)

// RunView is a simulation with information for its reader.
//
//	view := &sweep.RunView{Run: run, WallS: math.NaN()}
//	err := view.Write(os.Stdout, "text")
type RunView struct {
	*Run
	Source string   // origin of the jobs: "trace.swf.gz"; "" means unknown
	WallS  float64  // elapsed real time, s; NaN means unknown
	Notes  []string // warnings
}

// formats is the registry of output formats. A new format is one line here.
var formats = page.Formats[*RunView]{
	"csv":  page.CSVOf(func(r *RunView) [][]string { return jobs(r.Result) }),
	"html": page.HTMLOf((*RunView).pictured),
	"json": page.JSONOf((*RunView).record),
	"text": page.TextOf((*RunView).document),
}

// Formats returns the names that RunView.Write accepts, sorted.
func Formats() []string { return formats.Names() }

// Write writes a run in one of Formats.
func (r *RunView) Write(w io.Writer, format string) error {
	return formats.Write(w, "simulation", r, format)
}

// jobColumns are the columns of Jobs.
var jobColumns = []string{"id", "submit_s", "start_s", "end_s", "procs", "state", "wait_s", "bounded_slowdown", "allocated"}

// Jobs writes the jobs of a result as CSV with a header; unknown values are empty.
func Jobs(w io.Writer, r *queue.Result) error { return page.CSV(w, jobs(r)) }

func jobs(r *queue.Result) [][]string {
	lines := [][]string{jobColumns}
	for i := range r.Jobs {
		lines = append(lines, jobCells(&r.Jobs[i]))
	}
	return lines
}

// jobCells returns the values of a job in jobColumns.
func jobCells(o *queue.Outcome) []string {
	bounded := math.NaN()
	if o.Ran() {
		bounded = o.BoundedSlowdown()
	}
	return []string{o.Job.Label(), cell(o.Job.Submit), cell(o.Start), cell(o.End), strconv.Itoa(o.Job.Procs), stateNames[o.State], cell(o.Wait()),
		cell(bounded), hdeeprm.FormatIntervals(o.Cores)}
}

var stateNames = map[queue.State]string{queue.Waiting: "waiting", queue.Running: "running", queue.Completed: "completed",
	queue.Killed: "killed", queue.Rejected: "rejected"}

func cell(v float64) string { return page.CSVCell(v, -1) }
