package cluster

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
)

// title returns a one-line description of the run.
func (r *RunView) title() string {
	title := fmt.Sprintf("%s on %s", r.Policy, clusterWords(r.Cluster))
	if r.Compat {
		title += ", as Gavel's code does"
	}
	return title
}

func (r *RunView) subtitle() string {
	s := r.What
	if r.Interval > 0 {
		s += fmt.Sprintf("; rounds of %g s", r.Interval)
	} else {
		s += "; no rounds: exactly the shares"
	}
	return s + fmt.Sprintf("; seed %d", r.Seed)
}

func clusterWords(c map[string]int) string {
	var words []string
	for name, n := range c {
		words = append(words, fmt.Sprintf("%d %s", n, name))
	}
	slices.SortFunc(words, func(a, b string) int {
		return strings.Compare(a[strings.IndexByte(a, ' '):], b[strings.IndexByte(b, ' '):])
	})
	return strings.Join(words, " + ")
}

// facts returns the figures of a run for display. Unknown figures are marked as such; those that do not apply are
// omitted.
func (r *RunView) facts() []page.Field {
	var out []page.Field
	add := func(name, format string, args ...any) {
		out = append(out, page.Field{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	ended, deadlines := 0, 0
	for i := range r.Jobs {
		if !math.IsNaN(float64(r.Jobs[i].JCTS)) {
			ended++
		}
		if r.Jobs[i].Missed != nil {
			deadlines++
		}
	}
	if ended == len(r.Jobs) {
		add("jobs", "%d, all ended", ended)
	} else {
		add("jobs", "%d, %d of them not done", len(r.Jobs), len(r.Jobs)-ended)
	}
	add("mean JCT", "%s", span(r.MeanJCTS))
	add("median JCT", "%s", span(r.P50JCTS))
	add("99th percentile", "%s", span(r.P99JCTS))
	add("makespan", "%s", span(r.MakespanS))
	add("utilization", "%s", percent(r.Utilization))
	if isKnown(r.CostUSD) {
		add("cost of all jobs", "%.2f USD", float64(r.CostUSD))
	} else {
		add("cost of all jobs", "unknown: no price of some device")
	}
	if isKnown(r.EnergyJoules) {
		add("energy", "at most %.1f kWh", float64(r.EnergyJoules)/3.6e6)
	}
	if deadlines > 0 {
		add("deadlines missed", "%d of %d", r.DeadlineMisses, deadlines)
	}
	if isKnown(r.LeaseExtensions) {
		add("devices kept", "%s of the times a job ran on", percent(r.LeaseExtensions))
	}
	if r.PauseS > 0 {
		add("lost to pauses", "%s of device time, %d times", span(r.PauseS), r.Pauses)
	}
	decisions := strconv.Itoa(r.Allocations)
	if isKnown(r.PolicyS) {
		decisions += fmt.Sprintf(" in %.3f s", float64(r.PolicyS))
	}
	add("decisions", "%s", decisions)
	if isKnown(r.WallS) {
		add("simulated", "%d events in %.3f s", r.Events, float64(r.WallS))
	}
	return out
}

// notes returns the reason for an early end, the warnings and the notes of a run.
func (r *RunView) notes() []string {
	var out []string
	if u := r.NotStable; u != nil {
		out = append(out, fmt.Sprintf("not stable: jobs in the cluster asked for %d devices at %.0f h, %d at %.0f h and %d at %.0f h; there are %d, and what arrived needs at least %.2f of them all the time",
			u.Demand[0], u.AtS[0]/3600, u.Demand[1], u.AtS[1]/3600, u.Demand[2], u.AtS[2]/3600, u.Devices, u.Load))
	} else if r.Stopped != "" {
		out = append(out, "ended early: "+r.Stopped)
	}
	if r.Stopped != "" {
		out = append(out, "figures are of the jobs that ended before that, which are the short ones")
	}
	return append(append(out, r.Warnings...), r.Notes...)
}

// document returns the figures and the notes of a run.
func (r *RunView) document() page.Document {
	return page.Document{Layout: page.Listing, Title: r.title(), Subtitle: r.subtitle(),
		Sections: []page.Section{{Blocks: []page.Block{{Fields: r.facts()}}, Notes: r.notes()}}}
}

func isKnown(n page.Exact) bool { return page.Known(float64(n)) }

// span formats a duration in seconds, minutes or hours.
func span(n page.Exact) string {
	switch v := float64(n); {
	case !isKnown(n):
		return "unknown"
	case v < 120:
		return fmt.Sprintf("%.1f s", v)
	case v < 7200:
		return fmt.Sprintf("%.1f min", v/60)
	default:
		return fmt.Sprintf("%.2f h", v/3600)
	}
}

func percent(n page.Exact) string {
	if !isKnown(n) {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n))
}
