package sweep

import (
	"io"
	"slices"

	"trainopt/optimizer/report/page"
)

// readable is the maximum number of utilization lines, which fluctuate, in one chart.
const readable = 3

// Picture adds charts of the first case to a comparison.
func (o *Outcome) Picture() {
	var queues, used, slowdowns []page.Series
	for i, m := range o.Methods {
		if len(o.Runs[i]) == 0 || o.Runs[i][0] == nil {
			continue
		}
		r := o.Runs[i][0]
		queues, used, slowdowns = append(queues, queueLine(m.Name, r)), append(used, utilizationLine(m.Name, r)), append(slowdowns, slowdownLine(m.Name, r))
	}
	if len(queues) == 0 {
		return
	}
	all := []page.Chart{slowdownChart(slowdowns...), queueChart(queues...)}
	if len(used) <= readable {
		all = append(all, utilizationChart(used...))
	}
	for i := range all {
		if len(o.Cases) > 1 {
			all[i].Note += "; " + o.Cases[0].Name
		}
	}
	o.Comparison.Charts = append(o.Comparison.Charts, all...)
}

// WriteJobs writes every job of every kept run as CSV.
func (o *Outcome) WriteJobs(w io.Writer) error {
	lines := [][]string{append([]string{"policy", "case"}, jobColumns...)}
	for i, m := range o.Methods {
		for k, c := range o.Cases {
			if r := o.Runs[i][k]; r != nil {
				for j := range r.Jobs {
					lines = append(lines, slices.Concat([]string{m.Name, c.Name}, jobCells(&r.Jobs[j])))
				}
			}
		}
	}
	return page.CSV(w, lines)
}
