package render

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"

	"trainopt/simulator/cluster"
	"trainopt/simulator/experiment"
)

// slowest is the number of jobs listed on a page.
const slowest = 15

// page writes a run as an HTML page with its distribution of completion times, its utilization over time and its
// slowest jobs.
func page(w io.Writer, r *Run) error {
	p := experiment.Page{Title: r.title(), Subtitle: r.subtitle(), Facts: r.facts(), Notes: r.notes()}
	p.Charts = []experiment.Chart{{
		Title: "Completion times", Note: "share of the jobs that took at most so long, from arrival to completion",
		X: experiment.Axis{Name: "hours", Log: true}, Y: experiment.Axis{Name: "share of jobs", Zero: true, Share: true},
		Lines: []experiment.Line{experiment.Distribution(r.Policy, Hours(r.Result))},
	}, UtilizationChart("share of the devices of a type that are taken", deviceLines(r.Result))}
	jobs := slices.DeleteFunc(slices.Clone(r.Jobs), func(j cluster.JobResult) bool { return math.IsNaN(float64(j.JCTS)) })
	slices.SortStableFunc(jobs, func(a, b cluster.JobResult) int { return cmp.Compare(b.JCTS, a.JCTS) })
	t := experiment.Table{Title: "The slowest jobs", Head: []string{"job", "arrived", "took", "cost", "deadline"}}
	for _, j := range jobs[:min(slowest, len(jobs))] {
		t.Lines = append(t.Lines, []string{strconv.Itoa(j.ID), span(j.ArrivalS), span(j.JCTS), dollars(j.CostUSD), verdict(&j)})
	}
	if len(t.Lines) > 0 {
		p.Tables = append(p.Tables, t)
	}
	return p.Write(w)
}

// Hours returns the completion times of the jobs of a result, in hours and in order; NaN where a job did not end.
func Hours(r *cluster.Result) []float64 {
	out := make([]float64, len(r.Jobs))
	for i := range r.Jobs {
		out[i] = float64(r.Jobs[i].JCTS) / 3600
	}
	return out
}

func dollars(n cluster.Number) string {
	if !known(n) {
		return "unknown"
	}
	return strconv.FormatFloat(float64(n), 'f', 2, 64) + " USD"
}

func verdict(j *cluster.JobResult) string {
	switch {
	case j.Missed == nil:
		return "none"
	case *j.Missed:
		return "missed"
	}
	return "met"
}
