package cluster

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/report/page"
)

var formats = page.Formats[*decisionResult]{
	"json": page.JSONOf(func(r *decisionResult) *decisionResult { return r }),
	"text": page.TextOf((*decisionResult).document),
}

// Formats returns the names of the formats of decisionResult.Write.
func Formats() []string { return formats.Names() }

// Write writes a result in one of Formats.
func (r *decisionResult) Write(w io.Writer, format string) error {
	return formats.Write(w, "decision", r, format)
}

func (r *decisionResult) document() page.Document {
	kinds := fmt.Sprintf("%d kinds", r.Kinds)
	if r.Kinds == 0 {
		kinds = "all different"
	}
	from := "from all jobs"
	if r.Updates {
		from = fmt.Sprintf("from the %d jobs that ended and the %d that arrived", r.Changes, r.Changes)
	}
	fields := append(r.First.fields("first decision", "all jobs wait"), r.Next.fields("next decision", from)...)
	if isKnown(r.PeakGiB) {
		fields = append(fields, page.Field{Name: "memory of the process", Value: fmt.Sprintf("%.2f GiB at most, with the jobs", float64(r.PeakGiB))})
	}
	return page.Document{
		Layout: page.Listing, Title: fmt.Sprintf("%s on %d devices of %d types", r.Policy, r.Devices, r.Types),
		Subtitle: fmt.Sprintf("%d drawn jobs, %s; seed %d", r.Jobs, kinds, r.Seed),
		Sections: []page.Section{{Blocks: []page.Block{{Fields: fields}}}},
	}
}

func (s *decisionStep) fields(name, note string) []page.Field {
	return []page.Field{
		{Name: name, Value: fmt.Sprintf("%s real, %s of processor time", seconds(s.Seconds), seconds(s.CPUSeconds)), Note: note},
		{Name: "  jobs with devices", Value: fmt.Sprint(s.Placed)},
		{Name: "  below the optimum", Value: loss(s.MaxLoss)},
	}
}

func seconds(n page.Exact) string {
	if !isKnown(n) {
		return "unknown"
	}
	return fmt.Sprintf("%.3g s", float64(n))
}

func loss(n page.Exact) string {
	switch v := 100 * float64(n); {
	case !isKnown(n):
		return "unknown: the policy proves no bound"
	case v < 1e-6:
		return "at most 0.000001 %"
	default:
		return fmt.Sprintf("at most %.2g %%", v)
	}
}

// RunView is the result of a simulation with the information required to interpret it.
//
//	view := &cluster.RunView{Result: result, What: "100 jobs at once"}
//	err := view.Write(os.Stdout, "text")
type RunView struct {
	*Result
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

// RunFormats returns the names of the formats of RunView.Write.
func RunFormats() []string { return runFormats.Names() }

// Write writes the run in one of RunFormats.
func (r *RunView) Write(w io.Writer, format string) error {
	return runFormats.Write(w, "simulation", r, format)
}

// record returns the JSON form of the run.
func (r *RunView) record() any {
	return struct {
		*Result
		Workload  string     `json:"workload"`
		IntervalS page.Exact `json:"interval_s"`
	}{r.Result, r.What, page.Exact(orUnknown(r.Interval))}
}

func orUnknown(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// jobColumns are the columns of Jobs.
var jobColumns = []string{"id", "arrival_s", "jct_s", "deadline_s", "missed", "cost_usd", "energy_joules"}

// WriteJobs writes the jobs of a result as CSV with a header; unknown values are empty.
func (r *Result) WriteJobs(w io.Writer) error { return page.CSV(w, jobs(r)) }

func jobs(r *Result) [][]string {
	lines := [][]string{jobColumns}
	for i := range r.Jobs {
		lines = append(lines, jobCells(&r.Jobs[i]))
	}
	return lines
}

// jobCells returns the cells of a job in the order of jobColumns.
func jobCells(j *jobResult) []string {
	cell := func(n page.Exact) string { return page.CSVCell(float64(n), -1) }
	missed := ""
	if j.Missed != nil {
		missed = strconv.FormatBool(*j.Missed)
	}
	return []string{strconv.Itoa(j.ID), cell(j.ArrivalS), cell(j.JCTS), cell(j.DeadlineS), missed, cell(j.CostUSD), cell(j.EnergyJoules)}
}

// slowest is the number of jobs listed on a page.
const slowest = 15

// pictured returns the document of a run with the distribution of its completion times, its utilization over time and
// its slowest jobs.
func (r *RunView) pictured() page.Document {
	d := r.document()
	d.Title = "Simulated cluster: " + d.Title
	d.Sections[0].Blocks[0].Intro = "JCT, the job completion time, is the time from the arrival of a job to its completion. The makespan ends with the last job."
	charts := []page.Chart{{
		Title: "Completion times", Note: "cumulative share of the jobs by time from arrival to completion",
		X: page.Axis{Name: "hours", Log: true}, Y: page.Axis{Name: "share of jobs", Zero: true, Share: true},
		Series: []page.Series{page.Distribution(r.Policy, hoursText(r.Result))},
	}, utilizationChart("share of the devices of a type that are taken", deviceLines(r.Result))}
	d.Sections[0].Blocks = append(d.Sections[0].Blocks, page.Block{Pictures: page.Pictures(charts)})
	jobs := slices.DeleteFunc(slices.Clone(r.Jobs), func(j jobResult) bool { return math.IsNaN(float64(j.JCTS)) })
	slices.SortStableFunc(jobs, func(a, b jobResult) int { return cmp.Compare(b.JCTS, a.JCTS) })
	var lines [][]string
	for _, j := range jobs[:min(slowest, len(jobs))] {
		lines = append(lines, []string{strconv.Itoa(j.ID), span(j.ArrivalS), span(j.JCTS), dollars(j.CostUSD), verdict(&j)})
	}
	if len(lines) > 0 {
		d.Sections[0].Blocks = append(d.Sections[0].Blocks, page.Block{Caption: "The slowest jobs", Table: page.Grid([]string{"job", "arrived", "took", "cost", "deadline"}, lines)})
	}
	return d
}

// hoursText returns the completion times of the jobs of a result, in hours and in order; NaN where a job did not end.
func hoursText(r *Result) []float64 {
	out := make([]float64, len(r.Jobs))
	for i := range r.Jobs {
		out[i] = float64(r.Jobs[i].JCTS) / 3600
	}
	return out
}

func dollars(n page.Exact) string {
	if !isKnown(n) {
		return "unknown"
	}
	return strconv.FormatFloat(float64(n), 'f', 2, 64) + " USD"
}

func verdict(j *jobResult) string {
	switch {
	case j.Missed == nil:
		return "none"
	case *j.Missed:
		return "missed"
	}
	return "met"
}
