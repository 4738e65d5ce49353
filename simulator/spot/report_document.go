package spot

import (
	"fmt"
	"math"

	"trainopt/optimizer/report/page"
)

// facts returns the main numbers.
func (r *Report) facts() []page.Field {
	o := r.Outcome
	var out []page.Field
	add := func(name, format string, args ...any) {
		out = append(out, page.Field{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	alone := r.Job.AloneUSD()
	add("cost", "%.2f USD", o.USD)
	switch saving := 1 - o.USD/alone; {
	case alone == 0:
		add("on demand alone", "%.2f USD", alone)
	case saving < 0:
		add("on demand alone", "%.2f USD", alone)
		add("lost", "%.1f %%", -100*saving)
	default:
		add("on demand alone", "%.2f USD", alone)
		add("saved", "%.1f %%", 100*saving)
	}
	if r.Optimum == nil {
		add("optimum", "none: nothing is in time")
	} else {
		add("optimum", "%.2f USD", r.Optimum.USD)
	}
	switch {
	case !o.Finished():
		add("deadline", "missed: not done after %s, %s of work left", span(20*r.Job.DeadlineS), span(r.Job.WorkS-o.DoneS))
	case o.Missed:
		add("deadline", "missed by %s", span(o.ElapsedS-r.Job.DeadlineS))
	default:
		add("deadline", "met, %s early", span(r.Job.DeadlineS-o.ElapsedS))
	}
	add("on spot capacity", "%s", span(o.SpotS))
	add("on demand", "%s", span(o.OnDemandS))
	add("waiting", "%s", span(o.WaitS))
	add("machines started", "%d", o.Starts)
	add("in changeovers", "%s", span(o.ChangeoverS))
	add("reclaimed", "%d", o.Taken)
	if r.Job.CheckpointS > 0 {
		add("work lost", "%s", span(o.LostS))
	}
	return out
}

// document returns the facts, the comparison with other policies and the warnings.
func (r *Report) document() page.Document {
	s := page.Section{Blocks: []page.Block{{Fields: r.facts()}}, Notes: r.Warnings}
	if len(r.Others) > 0 {
		s.Blocks = append(s.Blocks, r.comparison())
	}
	return page.Document{
		Layout: page.Listing, Sections: []page.Section{s},
		Title: fmt.Sprintf("%s: %s of work in %s", r.Policy, span(r.Job.WorkS), span(r.Job.DeadlineS)),
		Subtitle: fmt.Sprintf("%s; capacity %.0f %% of the time until the deadline; changeovers of %s; %s",
			r.Capacity, 100*r.available(), span(r.Job.ChangeoverS), r.Prices),
	}
}

// comparison compares the same job under all policies.
func (r *Report) comparison() page.Block {
	head := []string{"policy", "USD", "of on demand", "on spot", "on demand", "starts", "deadline"}
	var lines [][]string
	for _, o := range r.Others {
		verdict := "met"
		if o.Outcome.Missed {
			verdict = "missed"
		}
		share := "unknown"
		if v := o.Outcome.USD / r.Job.AloneUSD(); !math.IsNaN(v) {
			share = fmt.Sprintf("%.1f %%", 100*v)
		}
		lines = append(lines, []string{o.Policy, fmt.Sprintf("%.2f", o.Outcome.USD), share, span(o.Outcome.SpotS), span(o.Outcome.OnDemandS), fmt.Sprint(o.Outcome.Starts), verdict})
	}
	b := page.Block{Caption: "The same job by other policies", Table: page.Grid(head, lines)}
	for i, o := range r.Others {
		if o.Policy == r.Policy {
			b.Table.Rows[i][0].Text += " (this page)"
		}
	}
	for _, l := range append([][]string{head}, lines...) {
		b.Text = append(b.Text, fmt.Sprintf("%-10s %10s %13s %10s %10s %7s  %s", l[0], l[1], l[2], l[3], l[4], l[5], l[6]))
	}
	return b
}

// span formats a duration in a suitable unit.
func span(seconds float64) string {
	switch v := math.Abs(seconds); {
	case v < 120:
		return fmt.Sprintf("%.4g s", seconds)
	case v < 7200:
		return fmt.Sprintf("%.4g min", seconds/60)
	default:
		return fmt.Sprintf("%.4g h", seconds/3600)
	}
}
