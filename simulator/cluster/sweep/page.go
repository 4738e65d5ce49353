package sweep

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/report/chart"
	"trainopt/optimizer/report/page"
	"trainopt/simulator/cluster"
)

// slowest is the number of jobs listed on a page.
const slowest = 15

// pictured returns the document of a run with the distribution of its completion times, its utilization over time and
// its slowest jobs.
func (r *RunView) pictured() page.Document {
	d := r.document()
	charts := []chart.Chart{{
		Title: "Completion times", Note: "share of the jobs that took at most so long, from arrival to completion",
		X: chart.Axis{Name: "hours", Log: true}, Y: chart.Axis{Name: "share of jobs", Zero: true, Share: true},
		Series: []chart.Series{chart.Distribution(r.Policy, hoursText(r.Result))},
	}, utilizationChart("share of the devices of a type that are taken", deviceLines(r.Result))}
	d.Sections[0].Blocks = append(d.Sections[0].Blocks, page.Block{Pictures: chart.Pictures(charts)})
	jobs := slices.DeleteFunc(slices.Clone(r.Jobs), func(j cluster.JobResult) bool { return math.IsNaN(float64(j.JCTS)) })
	slices.SortStableFunc(jobs, func(a, b cluster.JobResult) int { return cmp.Compare(b.JCTS, a.JCTS) })
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
func hoursText(r *cluster.Result) []float64 {
	out := make([]float64, len(r.Jobs))
	for i := range r.Jobs {
		out[i] = float64(r.Jobs[i].JCTS) / 3600
	}
	return out
}

func dollars(n cluster.Number) string {
	if !isKnown(n) {
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
