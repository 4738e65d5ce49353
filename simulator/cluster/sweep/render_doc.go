package sweep

// WriteRun writes the result of a simulation in rounds: as text for a terminal, as JSON, as a CSV of its jobs,
// and as an HTML page. It neither simulates nor compares; package sweep compares several runs.
//
//	err := sweep.WriteRun(os.Stdout, &sweep.RunView{Result: result, What: "100 jobs at once"}, "text")

import (
	"io"
	"math"
	"strconv"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/cluster"
)

// RunView is a result with the information required to interpret it.
type RunView struct {
	*cluster.Result
	What     string  // short description of the jobs
	Interval float64 // length of a round in seconds; 0: no rounds
	Notes    []string
}

// runFormats contains the writers by format. A new format is one line here.
var runFormats = page.Formats[*RunView]{
	"csv":  page.CSVOf(func(r *RunView) [][]string { return jobs(r.Result) }),
	"html": page.HTMLOf((*RunView).pictured),
	"json": page.JSONOf((*RunView).record),
	"text": page.TextOf((*RunView).document),
}

// RunFormats returns the names of the formats supported by Write.
func RunFormats() []string { return runFormats.Names() }

// WriteRun writes a run in one of Formats.
func WriteRun(w io.Writer, r *RunView, format string) error {
	return runFormats.Write(w, "simulation", r, format)
}

// record returns the JSON form of the run.
func (r *RunView) record() any {
	return struct {
		*cluster.Result
		Workload  string         `json:"workload"`
		IntervalS cluster.Number `json:"interval_s"`
	}{r.Result, r.What, cluster.Number(orUnknown(r.Interval))}
}

func orUnknown(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// jobColumns are the columns of Jobs.
var jobColumns = []string{"id", "arrival_s", "jct_s", "deadline_s", "missed", "cost_usd", "energy_joules"}

// Jobs writes the jobs of a result as CSV with a header; unknown values are empty.
func Jobs(w io.Writer, r *cluster.Result) error { return page.CSV(w, jobs(r)) }

func jobs(r *cluster.Result) [][]string {
	lines := [][]string{jobColumns}
	for i := range r.Jobs {
		lines = append(lines, jobCells(&r.Jobs[i]))
	}
	return lines
}

// jobCells returns the cells of a job in the order of jobColumns.
func jobCells(j *cluster.JobResult) []string {
	cell := func(n cluster.Number) string { return page.CSVCell(float64(n), -1) }
	missed := ""
	if j.Missed != nil {
		missed = strconv.FormatBool(*j.Missed)
	}
	return []string{strconv.Itoa(j.ID), cell(j.ArrivalS), cell(j.JCTS), cell(j.DeadlineS), missed, cell(j.CostUSD), cell(j.EnergyJoules)}
}
