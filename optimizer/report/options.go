package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// optionsSection shows the choice of each preference with its trade-offs, and all candidates.
func optionsSection(d *data) page.Section {
	s := page.Section{ID: "options", Title: "Alternatives and trade-offs"}
	r := d.Record
	if r.Plan == nil {
		return page.Section{}
	}
	if len(r.Plan.Options) == 0 {
		s.Intro = "No alternatives were predicted."
		if totalUnknown(r) {
			s.Intro = "No alternatives: " + strings.TrimPrefix(noTotal, "no prediction: ") + "."
		}
		return s
	}
	if outOfMemory(r) {
		s.Intro = "No alternatives: they were predicted for a memory that did not suffice."
		return s
	}
	if interrupted(r) {
		s.Intro = "No alternatives: they were predicted for a run without interruption, " + interruption(r) + "."
		return s
	}
	p := r.Preference
	s.Intro = fmt.Sprintf("Preference: time %s, cost %s, resources %s. All values are predicted; changes are relative to the choice.",
		page.Share(p.Time), page.Share(p.Cost), page.Share(p.Resource))
	if hasChance(r.SLA) {
		s.Intro += " Chance: probability of meeting the limits on time and cost."
	}
	if limited(r.SLA) && slices.ContainsFunc(r.Plan.Candidates, func(c plan.Candidate) bool { return c.Slower }) {
		s.Intro += " Slower: than the baseline, so that only a preference selects it."
	}
	again := func(c plan.Candidate) bool { return c.Again }
	if note := againNote(slices.ContainsFunc(r.Plan.Candidates, again)); note != "" {
		s.Intro += " " + note
	}
	s.Blocks = append(s.Blocks, page.Block{Table: optionTable(r)})
	if len(r.Plan.Candidates) > 0 {
		s.Blocks = append(s.Blocks, candidates(r))
	}
	return s
}

// interrupted reports whether a run was resumed, or its training restarted, without a new plan: the predictions of its plan are of a run without
// interruption, under the limits before it.
func interrupted(r *journal.Record) bool {
	return r.Plan != nil && r.Plan.Prediction == nil && r.Outcome.Restarts > 0
}

// interruption states what interrupted a run.
func interruption(r *journal.Record) string {
	if r.Plan.Interrupted == "restarted" {
		return "the training was restarted during this run"
	}
	return "this run was resumed"
}

// hasChance reports whether the SLA has a limit for which plans predict a probability.
func hasChance(s journal.SLA) bool {
	return s.TimeMax > 0 || s.CostMaxUSD > 0
}

// slaColumns returns the columns of a table of candidates that rate them against the SLA; none without limits.
func slaColumns(s journal.SLA) []string {
	var names []string
	if hasChance(s) {
		names = append(names, "Chance")
	}
	if limited(s) {
		names = append(names, "SLA")
	}
	return names
}

func slaCells(s journal.SLA, c plan.Candidate) []string {
	var cells []string
	if hasChance(s) {
		cells = append(cells, page.Share(c.Chance))
	}
	if limited(s) {
		cells = append(cells, feasibility(c))
	}
	return cells
}

// briefOptions shows the choices of other preferences in few columns; it is empty if all preferences agree.
func briefOptions(d *data) page.Section {
	r := d.Record
	if r.Plan == nil || outOfMemory(r) || interrupted(r) {
		return page.Section{}
	}
	options := mergedOptions(r.Plan.Options)
	if len(options) < 2 {
		return page.Section{}
	}
	g := &page.Table{Columns: append(page.Left("Prefer", "Allocation"), page.Right("Time", "Cost")...)}
	if limited(r.SLA) {
		g.Columns = append(g.Columns, page.Left("SLA")...)
	}
	for _, o := range options {
		cells := []string{chosenMark(o.Prefer, o.Candidate, r.Plan), candidateName(o.Candidate), interval(o.Candidate.Seconds, page.Duration), interval(o.Candidate.CostUSD, page.USD)}
		if limited(r.SLA) {
			word := feasibility(o.Candidate)
			if hasChance(r.SLA) {
				word += ", " + page.Share(o.Candidate.Chance)
			}
			cells = append(cells, word)
		}
		g.Rows = append(g.Rows, candidateRow(r.SLA, o.Candidate, cells))
	}
	s := page.Section{ID: "options", Title: "Alternatives (predicted)", Blocks: []page.Block{{Table: g}}}
	s.Intro = againNote(slices.ContainsFunc(options, func(o plan.Option) bool { return o.Candidate.Again }))
	return s
}

// againNote explains the times of allocations at which the job would begin again.
func againNote(any bool) string {
	if !any {
		return ""
	}
	return "Begun again: a move there starts the training from its beginning; time and cost contain those until the plan, and all work."
}

// candidateName returns the name of a row: the allocation, and whether the job would begin again there.
func candidateName(c plan.Candidate) string {
	if c.Again {
		return allocationText(c.Allocation) + ", begun again"
	}
	return allocationText(c.Allocation)
}

// chosenMark marks the name of the row of the chosen candidate.
func chosenMark(name string, c plan.Candidate, p *journal.Plan) string {
	if c.Allocation.Same(p.Allocation) {
		name += " ← chosen"
	}
	return name
}

func optionTable(r *journal.Record) *page.Table {
	g := &page.Table{Columns: slices.Concat(page.Left("Prefer", "Allocation"), page.Right("Time", "Cost", "Time change", "Cost change", "Resources change"), page.Left(slaColumns(r.SLA)...))}
	for _, o := range mergedOptions(r.Plan.Options) {
		cells := append([]string{chosenMark(o.Prefer, o.Candidate, r.Plan), candidateName(o.Candidate), interval(o.Candidate.Seconds, page.Duration), interval(o.Candidate.CostUSD, page.USD),
			optionChange(o.SecondsPct), optionChange(o.CostPct), optionChange(o.ResourcePct)}, slaCells(r.SLA, o.Candidate)...)
		g.Rows = append(g.Rows, candidateRow(r.SLA, o.Candidate, cells))
	}
	return g
}

// candidateRow returns a row; if the SLA has limits, its light shows the feasibility of the candidate.
func candidateRow(s journal.SLA, c plan.Candidate, cells []string) []page.Cell {
	switch {
	case !limited(s):
		return page.Row(cells...)
	case meetsSLA(c):
		return with(page.Row(cells...), page.Good)
	}
	return with(page.Row(cells...), page.Bad)
}

// mergedOptions merges the preferences that choose the same allocation.
func mergedOptions(options []plan.Option) []plan.Option {
	var out []plan.Option
	for _, o := range options {
		i := slices.IndexFunc(out, func(x plan.Option) bool { return x.Candidate.Allocation.Same(o.Candidate.Allocation) })
		if i < 0 {
			out = append(out, o)
		} else {
			out[i].Prefer += ", " + o.Prefer
		}
	}
	if len(out) == 1 && len(options) > 1 {
		out[0].Prefer = "all preferences"
	}
	return out
}

func optionChange(p *float64) string {
	if p == nil {
		return page.NoData
	}
	return change(*p)
}

// meetsSLA reports whether a candidate is predicted to meet the SLA, also one that was excluded only as slower than the
// baseline.
func meetsSLA(c plan.Candidate) bool { return c.Feasible || c.Slower && len(c.Breaks) == 0 }

// feasibility describes whether a candidate is predicted to meet the SLA.
func feasibility(c plan.Candidate) string {
	switch {
	case c.Feasible:
		return "feasible"
	case meetsSLA(c):
		return "feasible, slower"
	case len(c.Breaks) == 0:
		return "at risk"
	}
	names := make([]string, len(c.Breaks))
	for i, b := range c.Breaks {
		names[i] = map[sla.Objective]string{sla.Time: "deadline", sla.Cost: "budget"}[b]
		if names[i] == "" {
			names[i] = string(b)
		}
	}
	return strings.Join(names, ", ") + " at risk"
}

// candidates returns the table of all candidates, the Pareto front first, then by predicted time.
func candidates(r *journal.Record) page.Block {
	p := r.Plan
	list := slices.Clone(p.Candidates)
	slices.SortStableFunc(list, func(a, b plan.Candidate) int {
		if a.OnFront != b.OnFront {
			return map[bool]int{true: -1, false: 1}[a.OnFront]
		}
		return cmp.Compare(a.Seconds.P50, b.Seconds.P50)
	})
	g := &page.Table{Columns: slices.Concat(page.Left("Allocation"), page.Right("Time", "Cost", "Resources"), page.Left("Pareto front"), page.Left(slaColumns(r.SLA)...)), Long: len(list) > 8}
	for _, c := range list {
		front := ""
		if c.OnFront {
			front = "yes"
		}
		cells := append([]string{chosenMark(candidateName(c), c, p), interval(c.Seconds, page.Duration), interval(c.CostUSD, page.USD), page.Share(c.Resource), front}, slaCells(r.SLA, c)...)
		g.Rows = append(g.Rows, candidateRow(r.SLA, c, cells))
	}
	return page.Block{Caption: "All " + page.Plural(len(list), "candidate") + " (predicted), the Pareto front first", Table: g}
}
