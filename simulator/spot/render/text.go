package render

import (
	"fmt"
	"io"
	"math"
	"strings"

	"trainopt/simulator/experiment"
)

func (r *Run) title() string {
	return fmt.Sprintf("%s: %s of work in %s", r.Policy, span(r.Job.WorkS), span(r.Job.DeadlineS))
}

func (r *Run) subtitle() string {
	return fmt.Sprintf("%s; capacity %.0f %% of the time until the deadline; changeovers of %s; %s", r.Capacity, 100*r.available(), span(r.Job.ChangeoverS), r.Prices)
}

// facts returns the main numbers.
func (r *Run) facts() []experiment.Fact {
	o := r.Outcome
	var out []experiment.Fact
	add := func(name, format string, args ...any) {
		out = append(out, experiment.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
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
	add("taken away", "%d", o.Taken)
	return out
}

// table compares the same job under all policies.
func (r *Run) table() experiment.Table {
	t := experiment.Table{Title: "The same job by other policies", Head: []string{"policy", "USD", "of on demand", "on spot", "on demand", "starts", "deadline"}}
	for _, o := range r.Others {
		verdict := "met"
		if o.Outcome.Missed {
			verdict = "missed"
		}
		share := "unknown"
		if v := o.Outcome.USD / r.Job.AloneUSD(); !math.IsNaN(v) {
			share = fmt.Sprintf("%.1f %%", 100*v)
		}
		t.Lines = append(t.Lines, []string{o.Policy, fmt.Sprintf("%.2f", o.Outcome.USD), share, span(o.Outcome.SpotS), span(o.Outcome.OnDemandS), fmt.Sprint(o.Outcome.Starts), verdict})
	}
	return t
}

// text writes the facts, the comparison with other policies and the warnings.
func text(w io.Writer, r *Run) error {
	var b strings.Builder
	b.WriteString(experiment.Wrapped(r.title(), "  ") + experiment.Wrapped(r.subtitle(), "  ") + "\n")
	for _, f := range r.facts() {
		fmt.Fprintf(&b, "%-18s %s\n", f.Name, f.Value)
	}
	if t := r.table(); len(t.Lines) > 0 {
		b.WriteByte('\n')
		for _, line := range append([][]string{t.Head}, t.Lines...) {
			fmt.Fprintf(&b, "%-10s %10s %13s %10s %10s %7s  %s\n", line[0], line[1], line[2], line[3], line[4], line[5], line[6])
		}
	}
	for _, n := range r.Warnings {
		b.WriteString(experiment.Wrapped("note: "+n, "  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
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
