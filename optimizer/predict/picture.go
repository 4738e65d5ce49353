package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
)

// picture plots time × cost of the options in the market of the question, with the front as a line and the intervals
// of the front.
func (a *answer) picture() page.Picture {
	limits := a.Question.limits()
	s := page.Scatter{ID: "options", Title: "Time and cost of every option (predicted)", XName: "time of the whole job", YName: "cost of the whole job, USD", TimeX: true,
		Intervals: true, XLimit: page.Level{Name: "deadline", Value: limits.seconds}, YLimit: page.Level{Name: "budget", Value: limits.usd},
		Keys: []page.Key{{Class: "ring", Name: "chosen"}, {Class: "disc", Name: "Pareto front, with 90 % intervals"}, {Class: "disc quiet", Name: "other"},
			{Class: "disc hollow", Name: "not sure to keep the limits"}, {Class: "sizes", Name: "size: share of the resources held"}}, Why: "no option fits"}
	var list []*option
	for i := range a.Options {
		if o := &a.Options[i]; o.among(a.Question.market()) {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b *option) int { return cmp.Compare(a.Seconds.P50, b.Seconds.P50) })
	for _, front := range []bool{false, true} { // options on the front above the others
		for _, o := range list {
			if o.OnFront == front {
				s.Marks = append(s.Marks, a.mark(o))
			}
		}
	}
	least := math.Inf(1)
	for _, o := range list { // not dominated in time and cost
		if o.OnFront && o.CostUSD.P50 < least {
			least = o.CostUSD.P50
			s.Edge = append(s.Edge, page.Point{X: o.Seconds.P50, Y: o.CostUSD.P50})
		}
	}
	s.About = fmt.Sprintf("%s, %d on the Pareto front", page.Plural(len(list), "option"), len(a.front()))
	return s.Picture()
}

// mark returns the mark of an option with its tooltip and, on the front, its intervals.
func (a *answer) mark(o *option) page.Mark {
	m := page.Mark{X: o.Seconds.P50, Y: o.CostUSD.P50, Radius: page.ShareRadius(o.Resource), Class: "quiet"}
	if o.OnFront {
		m.Class, m.Whiskers = "on-front", &page.Whiskers{XLo: o.Seconds.P5, XHi: o.Seconds.P95, YLo: o.CostUSD.P5, YHi: o.CostUSD.P95}
	}
	if !o.Feasible {
		m.Class += " hollow"
	}
	if o.Chosen {
		m.Ring = a.Configurations[o.Config].words()
	}
	lines := []string{a.optionWords(o), "time " + interval(o.Seconds, page.Duration), "cost " + interval(o.CostUSD, page.USD)}
	if a.Question.limits().any() {
		lines = append(lines, "keeps the limits with "+chanceWords(o.Chance))
	}
	if o.Lacks != "" {
		lines = append(lines, o.Lacks)
	}
	m.Title = strings.Join(lines, "\n")
	return m
}
