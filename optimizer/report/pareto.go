package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// frontPoint is a candidate with the values that the picture of the front shows.
type frontPoint struct {
	name                      string
	seconds, cost             sla.Interval
	resource                  float64
	feasible, onFront, chosen bool
}

// frontPoints returns the candidates of the last decision; none without a total, when no whole run is predicted.
func frontPoints(r *journal.Record) []frontPoint {
	var list []frontPoint
	if r.Plan != nil {
		for _, c := range r.Plan.Candidates {
			list = append(list, frontPoint{allocationText(c.Allocation), c.Seconds, c.CostUSD, c.Resource, meetsSLA(c), c.OnFront, c.Allocation.Same(r.Plan.Allocation)})
		}
	}
	return slices.DeleteFunc(list, func(o frontPoint) bool { return !predicted(o.seconds) || !predicted(o.cost) })
}

// frontPicture shows time × cost of all candidates: the front is joined; the choice, the baseline and the outcome are
// marked; the size of a point is its resource use.
func frontPicture(d *data) page.Picture {
	r, list := d.Record, frontPoints(d.Record)
	slices.SortStableFunc(list, func(a, b frontPoint) int { return cmp.Compare(a.seconds.P50, b.seconds.P50) })
	s := page.Scatter{ID: "front", Title: "Time and cost of every candidate (predicted)", XName: "time of the whole run", YName: "cost of the whole run, USD", TimeX: true,
		Intervals: true, XLimit: page.Level{Name: "deadline", Value: r.SLA.TimeMax.Seconds()}, YLimit: page.Level{Name: "budget", Value: r.SLA.CostMaxUSD},
		Keys: []page.Key{{Class: "ring", Name: "chosen, with 90 % interval"}, {Class: "disc", Name: "Pareto front"},
			{Class: "disc quiet", Name: "feasible"}, {Class: "disc hollow", Name: "at risk"}, {Class: "diamond", Name: "baseline"},
			{Class: "cross", Name: "this run (measured)"}, {Class: "sizes", Name: "size: share of the resources held"}}, Why: "nothing was predicted"}
	if len(list) == 0 {
		return s.Picture()
	}
	for _, front := range []bool{false, true} { // points on the front above the others
		for _, o := range list {
			if o.onFront == front {
				s.Marks = append(s.Marks, o.mark())
			}
		}
	}
	for _, o := range list {
		if o.onFront {
			s.Edge = append(s.Edge, page.Point{X: o.seconds.P50, Y: o.cost.P50})
		}
	}
	s.About = fmt.Sprintf("%s, %d on the Pareto front", page.Plural(len(list), "candidate"), len(s.Edge))
	if b := r.Baseline; b != nil && wholeWork(r) && predicted(b.Seconds) && predicted(b.CostUSD) {
		s.Marks = append(s.Marks, page.Mark{X: b.Seconds.P50, Y: b.CostUSD.P50, Shape: "diamond", Name: "baseline",
			Title: "baseline, " + allocationText(b.Allocation) + "\ntime " + interval(b.Seconds, page.Duration) + "\ncost " + interval(b.CostUSD, page.USD)})
	}
	if o := r.Outcome; r.State == journal.Done && o.Seconds.Known() && o.CostUSD.Known() {
		s.Marks = append(s.Marks, page.Mark{X: float64(o.Seconds), Y: float64(o.CostUSD), Shape: "cross", Name: "this run",
			Title: "this run, measured\ntime " + number(o.Seconds, page.Duration) + "\ncost " + number(o.CostUSD, page.USD)})
	}
	return s.Picture()
}

// mark returns the mark of a candidate with its tooltip; the chosen one has a ring and its intervals.
func (o *frontPoint) mark() page.Mark {
	m := page.Mark{X: o.seconds.P50, Y: o.cost.P50, Radius: page.ShareRadius(o.resource)}
	words := map[bool]string{true: "feasible", false: "at risk"}[o.feasible]
	switch {
	case o.onFront:
		m.Class = "on-front"
		words += ", on the Pareto front"
	case o.feasible:
		m.Class = "quiet"
	}
	if !o.feasible {
		m.Class = strings.TrimSpace(m.Class + " hollow")
	}
	if o.chosen {
		m.Ring, m.Whiskers = "chosen", &page.Whiskers{XLo: o.seconds.P5, XHi: o.seconds.P95, YLo: o.cost.P5, YHi: o.cost.P95}
	}
	m.Title = strings.Join([]string{o.name, "time " + interval(o.seconds, page.Duration) + ", predicted", "cost " + interval(o.cost, page.USD) + ", predicted", "resources " + page.Share(o.resource), words}, "\n")
	return m
}
