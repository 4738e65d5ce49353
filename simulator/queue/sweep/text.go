package sweep

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/queue"
)

// title returns the policy and the machine in one line.
func (r *RunView) title() string {
	machine := fmt.Sprintf("%d equal processors", r.Procs)
	if r.Tree != nil {
		machine = fmt.Sprintf("%d cores of %d processors in %d nodes", r.Tree.Cores, len(r.Tree.Processors), len(r.Tree.Nodes))
	}
	return fmt.Sprintf("%s on %s", r.Method.Policy, machine)
}

// words describes the workload and the window.
func (r *RunView) words() string {
	s := r.Workload.Name
	if r.Source != "" {
		s += " of " + r.Source
	}
	if r.Window.Length < len(r.Workload.Jobs) {
		s = fmt.Sprintf("%v of %s", r.Window, s)
	}
	return s
}

// subtitle returns the workload, the scheduling method and the seed.
func (r *RunView) subtitle() string {
	how := map[string]string{"none": "no backfilling", "easy": "EASY backfilling", "conservative": "conservative backfilling",
		"rlscheduler": "backfilling as RLScheduler does it", "elsewhere": "decided elsewhere"}[r.Method.Backfill]
	if r.Method.Placement != "" {
		how += ", placement " + r.Method.Placement
	}
	if r.Method.AsPublished {
		how += ", as published"
	}
	if r.Method.Compat {
		how += ", as HDeepRM's code does"
	}
	return fmt.Sprintf("%s; %s; seed %d", r.words(), how, r.Method.Seed)
}

// facts returns the figures of a run; unknown values are omitted.
func (r *RunView) facts() []page.Field {
	var out []page.Field
	add := func(name, format string, args ...any) {
		out = append(out, page.Field{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	s := r.Summary()
	add("jobs", "%s", jobsInWords(&s))
	add("bounded slowdown", "mean %s, largest %s", figure(s.BoundedSlowdown.Mean), figure(s.BoundedSlowdown.Max))
	add("slowdown", "mean %s, largest %s", figure(s.Slowdown.Mean), figure(s.Slowdown.Max))
	add("wait", "mean %s, longest %s", span(s.Wait.Mean), span(s.Wait.Max))
	add("turnaround", "mean %s, longest %s", span(s.Turnaround.Mean), span(s.Turnaround.Max))
	add("makespan", "%s from the first submission", span(s.Span))
	add("utilization", "%s", percent(s.Utilization))
	if r.Method.AsPublished {
		add("as published", "utilization %s, until the last start", percent(s.PublishedUtilization))
	}
	if page.Known(s.Energy) {
		add("energy", "%s", joules(s.Energy))
	}
	if c := r.Counts; c != nil {
		add("decisions", "%d, %d of them ended for lack of cores, %d of memory", c.Decisions, c.CoreBubbles, c.MemoryBubbles)
	}
	if n := len(r.Learned); n > 0 {
		first, last := r.Learned[0], r.Learned[n-1]
		if n == 1 {
			add("reward", "%s", figure(last.Reward))
		} else {
			add("runs", "%d; reward %s in the first, %s in the last", n, figure(first.Reward), figure(last.Reward))
		}
		if page.Known(last.Loss) {
			add("loss", "%s", figure(last.Loss))
		}
	}
	simulated := fmt.Sprintf("%d events", r.Events)
	if page.Known(r.WallS) {
		simulated += fmt.Sprintf(" in %.3f s", r.WallS)
	}
	add("simulated", "%s", simulated)
	return out
}

func jobsInWords(s *queue.Summary) string {
	if s.Jobs == s.Completed {
		return fmt.Sprintf("%d, all ended", s.Jobs)
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{s.Completed, "ended"}, {s.Killed, "killed at their limit"}, {s.Rejected, "rejected"}, {s.Unfinished, "not done"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("%d: %s", s.Jobs, strings.Join(parts, ", "))
}

// notes returns the numbers of dropped jobs by reason, and the warnings.
func (r *RunView) notes() []string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(r.Dropped)) {
		if n := r.Dropped[reason]; n > 0 {
			jobs := "jobs"
			if n == 1 {
				jobs = "job"
			}
			out = append(out, fmt.Sprintf("%d %s left out: %s", n, jobs, reason))
		}
	}
	return append(out, r.Notes...)
}

// document returns the figures and the notes of a run.
func (r *RunView) document() page.Document {
	return page.Document{Layout: page.Listing, Title: r.title(), Subtitle: r.subtitle(),
		Sections: []page.Section{{Blocks: []page.Block{{Fields: r.facts()}}, Notes: r.notes()}}}
}

func figure(v float64) string {
	switch {
	case !page.Known(v):
		return "unknown"
	case v >= 1e5 || v <= -1e5:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// span formats a duration, s, in a readable unit.
func span(v float64) string {
	switch {
	case !page.Known(v):
		return "unknown"
	case v < 120:
		return fmt.Sprintf("%.1f s", v)
	case v < 7200:
		return fmt.Sprintf("%.1f min", v/60)
	case v < 100*3600:
		return fmt.Sprintf("%.2f h", v/3600)
	default:
		return fmt.Sprintf("%.1f days", v/86400)
	}
}

func percent(v float64) string {
	if !page.Known(v) {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func joules(v float64) string {
	if v < 1e6 {
		return fmt.Sprintf("%.2f J", v)
	}
	return fmt.Sprintf("%.2f MJ (%.2f kWh)", v/1e6, v/3.6e6)
}
