package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue"
)

// meanSummary returns the mean of summaries in the metrics that the front compares.
func meanSummary(all []queue.Summary) queue.Summary {
	out := queue.Summary{}
	n := float64(len(all))
	for _, s := range all {
		out.Jobs += s.Jobs
		out.Completed += s.Completed
		out.Killed += s.Killed
		out.Rejected += s.Rejected
		out.Unfinished += s.Unfinished
		out.Deadlines += s.Deadlines
		out.DeadlineMisses += s.DeadlineMisses
		out.BoundedSlowdown.Mean += s.BoundedSlowdown.Mean / n
		out.Energy += s.Energy / n
		out.Utilization += s.Utilization / n
	}
	return out
}

// AddFront adds the Pareto front of the methods to the outcome, and the method selected by the preference; a nil
// preference selects none.
func (o *Outcome) AddFront(preference *Preference) error {
	results := map[string]queue.Summary{}
	for i, m := range o.Methods {
		var all []queue.Summary
		for _, r := range o.Runs[i] {
			if r != nil {
				all = append(all, r.Summary())
			}
		}
		if len(all) > 0 {
			results[m.Name] = meanSummary(all)
		}
	}
	f, err := frontOf(results)
	if errors.Is(err, errNoFront) {
		return nil
	}
	if err != nil {
		return err
	}
	chosen := ""
	if preference != nil {
		c, err := f.Choose(f.Restrict(*preference))
		if err != nil {
			if preference[ByDeadlines] > 0 && !f.Known[ByDeadlines] {
				err = fmt.Errorf("%w; --deadlines sets some", err)
			}
			return PreferenceError{Err: err}
		}
		chosen = c.Name
		o.Comparison.Notes = append(o.Comparison.Notes, fmt.Sprintf("the preference %v selects %s", f.Restrict(*preference), c.Name))
	}
	o.Comparison.Tables = append(o.Comparison.Tables, frontTable(f, chosen))
	o.Comparison.Charts = append(o.Comparison.Charts, frontChart(f)...)
	return nil
}

// longFront is the maximum size of a front that is shown together with the dominated points.
const longFront = 12

// frontTable returns the points of a front as a table.
func frontTable(f *front, chosen string) experiment.Table {
	t := experiment.Table{Title: "Pareto front: methods that no other dominates in these metrics", Head: []string{"policy"}}
	for i, name := range criterionNames {
		if f.Known[i] {
			t.Head = append(t.Head, map[string]string{"slowdown": "bounded slowdown", "energy": "energy (MJ)", "utilization": "machine idle (%)",
				"deadlines": "deadlines missed (%)"}[name])
		}
	}
	t.Head = append(t.Head, "front")
	short, dominated := len(f.Points) > longFront, 0
	for _, p := range f.Points {
		if short && !p.OnFront {
			dominated++
			continue
		}
		line := []string{p.Name}
		for i := range criterionNames {
			if f.Known[i] {
				line = append(line, frontCell(criterion(i), p.Vector[i]))
			}
		}
		mark := ""
		if p.OnFront {
			mark = "yes"
		}
		if p.Name == chosen {
			mark = "selected"
		}
		t.Lines = append(t.Lines, append(line, mark))
	}
	if dominated > 0 {
		t.Title += fmt.Sprintf("; %d others are dominated", dominated)
	}
	return t
}

func frontCell(m criterion, v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case m == byEnergy:
		return fmt.Sprintf("%.4g", v/1e6)
	case m == bySlowdown:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", 100*v)
}

// frontChart returns a chart of the front in slowdown and energy, or nil if one of them is unknown.
func frontChart(f *front) []page.Chart {
	if !f.Known[bySlowdown] || !f.Known[byEnergy] {
		return nil
	}
	on, off := page.Series{Name: "on the front", Loose: true}, page.Series{Name: "dominated", Class: "s4", Loose: true}
	var names []string
	for _, p := range f.Points {
		q := page.Point{X: p.Vector[byEnergy] / 1e6, Y: p.Vector[bySlowdown]}
		if p.OnFront {
			on.Points, names = append(on.Points, q), append(names, p.Name)
		} else {
			off.Points = append(off.Points, q)
		}
	}
	for _, s := range []page.Series{on, off} {
		slices.SortFunc(s.Points, func(a, b page.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return []page.Chart{{Title: "Slowdown and energy", Note: "each method once; on the front: " + strings.Join(names, ", "),
		X: page.Axis{Name: "energy (MJ)"}, Y: page.Axis{Name: "mean bounded slowdown", Log: true}, Series: []page.Series{on, off}}}
}
