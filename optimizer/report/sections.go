package report

import (
	"cmp"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// slaSection compares each limit with the measured or projected value and shows its verdict.
func slaSection(d *data) page.Section {
	s := page.Section{ID: "sla", Title: "SLA"}
	r := d.Record
	if len(r.SLA.Verdicts) == 0 {
		text := slaAnswer(d).Text
		s.Intro = strings.ToUpper(text[:1]) + text[1:] + "."
		return s
	}
	head := map[bool]string{true: "Measured", false: "So far"}[r.Over()]
	g := &page.Table{Columns: slices.Concat(page.Left("Objective"), page.Right("Limit", head, "Projected", "Excess"), page.Left("Verdict"))}
	for _, v := range r.SLA.Verdicts {
		name, one := Objective(v.Objective)
		value, projected, severity := page.NoData, "–", "–"
		if v.Value != nil {
			value = one(*v.Value)
		}
		if v.Projected != nil && predicted(*v.Projected) && !r.Over() {
			projected = interval(*v.Projected, one)
		}
		if v.Severity != nil && *v.Severity > 0 {
			severity = page.Share(*v.Severity)
		}
		g.Rows = append(g.Rows, with(page.Row(name, one(v.Limit), value, projected, severity, statusWord(r, v.Status)), statusLight(v.Status)))
	}
	s.Blocks = []page.Block{{Table: g}, {Notes: []string{"Compliance: " + complianceWords(r)}}}
	if r.SLA.Hash != "" {
		s.Blocks[1].Notes = append(s.Blocks[1].Notes, "SLA identifier: "+r.SLA.Hash+".")
	}
	return s
}

func complianceWords(r *journal.Record) string {
	if !r.SLA.Compliance.Known() {
		return "unknown, no limit has a verdict."
	}
	return number(r.SLA.Compliance, page.Share) + " of the limits that have a verdict."
}

// comparisonSection compares time, cost, throughput and compliance of the run with the baseline, for the same work.
func comparisonSection(d *data) page.Section {
	s := page.Section{ID: "comparison", Title: "Comparison with the baseline"}
	r := d.Record
	c := r.Comparison
	if c.Basis != journal.BasisThisRun {
		text := noComparison(r)
		s.Intro = strings.ToUpper(text[:1]) + text[1:] + "."
		return s
	}
	g := &page.Table{Columns: append(page.Left("For the same work"), page.Right("Baseline (predicted)", "This run", "Change", "90 % interval")...)}
	b := r.Baseline
	s.Intro = "Baseline: " + allocationText(b.Allocation) + ". Its pace was measured in this run and is projected to the work done; " +
		"the time and cost of this run include probes and restarts. The intervals cover the uncertainty of the baseline's pace."
	bounds := func(i *sla.Interval) string {
		if i == nil || !page.Known(i.P5) || !page.Known(i.P95) {
			return notMeasured
		}
		return between(*i, change)
	}
	add := func(name, before, now string, n journal.Number, i *sla.Interval) {
		g.Rows = append(g.Rows, page.Row(name, before, now, number(n, change), bounds(i)))
		if name != "throughput" && name != "compliance" {
			g.Rows[len(g.Rows)-1][3].Light = changeLight(n, i)
		}
	}
	add("time", interval(b.Seconds, page.Duration), number(r.Outcome.Seconds, page.Duration), c.SecondsChangePct, c.SecondsChange)
	add("cost", interval(b.CostUSD, page.USD), number(r.Outcome.CostUSD, page.USD), c.CostChangePct, c.CostChange)
	add("throughput", interval(b.Throughput, rate(r)), number(r.Outcome.Throughput, rate(r)), c.ThroughputChangePct, nil)
	add("compliance", number(b.Compliance, page.Share), number(r.SLA.Compliance, page.Share), c.ComplianceChangePct, nil)
	for _, i := range []int{2, 3} {
		g.Rows[i][4].Text = "–"
	}
	s.Blocks = []page.Block{{Table: g}}
	if c.Quality != "" {
		s.Blocks = append(s.Blocks, page.Block{Notes: []string{"Time/cost trade-off: " + c.Quality + "."}})
	}
	return s
}

// slaChangeSection compares the SLA results of the baseline configuration and of this run.
func slaChangeSection(d *data) page.Section {
	s := page.Section{ID: "sla-change", Title: "SLA: baseline and this run"}
	r := d.Record
	if r.Comparison.Basis != journal.BasisThisRun || len(r.SLA.Verdicts) == 0 {
		return s
	}
	g := &page.Table{Columns: slices.Concat(page.Left("Objective"), page.Right("Limit", "Baseline (predicted)"), page.Left("Baseline", "This run", "Change"))}
	for _, v := range r.SLA.Verdicts {
		before, text := baselineStatus(r, v)
		name, one := Objective(v.Objective)
		c := page.Row(name, one(v.Limit), text, statusWord(r, before), statusWord(r, v.Status), changeWord(before, v.Status))
		c[3].Light, c[4].Light = statusLight(before), statusLight(v.Status)
		g.Rows = append(g.Rows, c)
	}
	s.Blocks = []page.Block{{Table: g}}
	return s
}

func changeWord(before, after sla.Status) string {
	rank := map[sla.Status]int{sla.Violated: 1, sla.AtRisk: 2, sla.Met: 3}
	b, a := rank[before], rank[after]
	switch {
	case b == 0 || a == 0:
		return page.NoData
	case a == b:
		return "same"
	case b == 1 && a == 3:
		return "fixed"
	case a > b:
		return "better"
	case b == 3 && a == 1:
		return "newly missed"
	}
	return "worse"
}

// baselineStatus returns the status of the baseline for an objective, from its projection or, for an objective without
// one, from its measured segment.
func baselineStatus(r *journal.Record, v sla.Verdict) (sla.Status, string) {
	b := r.Baseline
	_, one := Objective(v.Objective)
	var p sla.Interval
	switch v.Objective {
	case sla.Time, sla.Cost:
		if !wholeWork(r) {
			return sla.Unknown, page.NoData
		}
		p = b.Seconds
		if v.Objective == sla.Cost {
			p = b.CostUSD
		}
	case sla.Throughput:
		p = b.Throughput
	default:
		for _, m := range timedSegments(r) {
			if m.LiveCut || !m.Allocation.SameShape(b.Allocation) {
				continue
			}
			x := float64(map[sla.Objective]journal.Number{sla.Memory: m.PeakMemoryGiB, sla.GPUUtil: m.GPUUtil, sla.CPUUtil: m.CPUUtil}[v.Objective])
			if page.Known(x) {
				if violates(v.Objective, x, v.Limit) {
					return sla.Violated, one(x) + " (measured)"
				}
				return sla.Met, one(x) + " (measured)"
			}
		}
	}
	if !predicted(p) {
		return sla.Unknown, page.NoData
	}
	best, worst := p.P5, p.P95
	if v.Objective == sla.Throughput {
		best, worst = worst, best
	}
	text := interval(p, one)
	switch {
	case violates(v.Objective, best, v.Limit):
		return sla.Violated, text
	case violates(v.Objective, worst, v.Limit):
		return sla.AtRisk, text
	}
	return sla.Met, text
}

func violates(o sla.Objective, x, limit float64) bool {
	if o == sla.Time || o == sla.Cost || o == sla.Memory {
		return x > limit
	}
	return x < limit
}

// timedSegments returns all timed segments at one allocation.
func timedSegments(r *journal.Record) []journal.Probe {
	if len(r.Measured) > 0 {
		return r.Measured
	}
	return r.Probes
}

// predictionSection compares each predicted quantity with its outcome. Only finished runs are scored.
func predictionSection(d *data) page.Section {
	s := page.Section{ID: "prediction", Title: "Predicted and actual"}
	r := d.Record
	list := realised(r)
	if len(list) == 0 {
		s.Intro = "Nothing was predicted."
		if totalUnknown(r) {
			s.Intro = strings.ToUpper(noTotal[:1]) + noTotal[1:] + "."
		}
		return s
	}
	made := r.Plan.AtS
	if r.Plan.Prediction != nil && r.Plan.Prediction.AtS > 0 {
		made = r.Plan.Prediction.AtS
	}
	s.Intro = "Predicted for the whole run, " + number(made, page.Duration) + " after its start."
	if !r.Plan.AtS.Known() {
		s.Intro = "Predicted for the whole run."
	}
	if waited := r.Outcome.Seconds - r.RealisedSeconds(); waited > 0 {
		s.Intro += " The actual time is without " + number(waited, page.Duration) + " of waiting for places, which the prediction does not include."
	}
	if !r.Over() {
		s.Intro += " The run has not ended."
	} else if r.State != journal.Done {
		s.Intro += " The run did not finish, so the prediction is not scored."
	}
	g := &page.Table{Columns: slices.Concat(page.Left("Quantity"), page.Right("Predicted", "90 % interval", "Actual", "Error"), page.Left("In interval"))}
	for _, c := range list {
		median, bounds, off, held, l := page.NoData, page.NoData, "–", "not scored", page.Muted
		if predicted(c.predicted) {
			median, bounds = c.one(c.predicted.P50), between(c.predicted, c.one)
		}
		switch {
		case c.inside:
			held, l = "yes", page.Good
		case c.comparable:
			held, l = "no", page.Bad
		}
		if c.comparable && c.predicted.P50 != 0 {
			off = change(100 * (c.outcome/c.predicted.P50 - 1))
		}
		g.Rows = append(g.Rows, with(page.Row(c.name, median, bounds, c.one(c.outcome), off, held), l))
	}
	s.Blocks = []page.Block{{Table: g}}
	return s
}

func resourceSection(d *data) page.Section {
	s := page.Section{ID: "resources", Title: "Resources over the run"}
	t := d.allocations
	if t.len() == 0 {
		s.Intro = "No data: the allocation history is empty or missing."
		return s
	}
	g := &page.Table{Columns: append(page.Right("At", "GPUs", "CPUs", "Memory", "Batch"), page.Left("Applied", "Why")...), Long: t.len() > 15}
	for i := range t.rows {
		g.Rows = append(g.Rows, page.Row(page.Duration(t.number(i, "time_s")), page.Count(t.number(i, "gpus")), page.Count(t.number(i, "cpus")),
			page.GiB(t.number(i, "memory_gib")), ownOr(t.number(i, "batch_size")), t.text(i, "applied"), t.text(i, "reason")))
	}
	s.Blocks = []page.Block{{Table: g}}
	return s
}

// ownOr formats a setting of the script; 0 and unknown mean that the script's own value applies.
func ownOr(v float64) string {
	if !page.Known(v) || v <= 0 {
		return "script's own"
	}
	return page.Count(v)
}

// decisionSection shows the plan, the actions on the allocation and the critic resets.
func decisionSection(d *data) page.Section {
	s := page.Section{ID: "decisions", Title: "Decisions"}
	r := d.Record
	if p := r.Plan; p != nil {
		s.Blocks = append(s.Blocks, page.Block{Caption: "The plan", Fields: page.Fields("decided", at(p.AtS), "by", p.Planner, "allocation", allocationText(p.Allocation),
			"reason", p.Reason, "binding constraint", cmp.Or(p.Binding, "none"))})
	}
	if len(r.Actions) > 0 {
		g := &page.Table{Columns: append(page.Right("At"), page.Left("Action", "From", "To", "Applied", "Why")...), Long: len(r.Actions) > 15}
		for _, a := range r.Actions {
			g.Rows = append(g.Rows, page.Row(number(a.AtS, page.Duration), a.Description, allocationText(a.From), allocationText(a.To), a.Applied, a.Reason))
		}
		s.Blocks = append(s.Blocks, page.Block{Caption: page.Plural(len(r.Actions), "action"), Table: g})
	} else if r.Plan != nil {
		s.Blocks = append(s.Blocks, page.Block{Notes: []string{"The allocation was not changed, and no change was recommended."}})
	}
	if len(r.PreferenceChanges) > 0 {
		g := &page.Table{Columns: append(page.Right("At"), page.Left("From", "To", "Outcome")...)}
		for _, c := range r.PreferenceChanges {
			g.Rows = append(g.Rows, page.Row(number(c.AtS, page.Duration), c.From.String(), c.To.String(), c.Answer))
		}
		s.Blocks = append(s.Blocks, page.Block{Caption: "Requested preferences", Table: g})
	}
	if len(r.CriticResets) > 0 {
		g := &page.Table{Columns: append(page.Right("At"), page.Left("Policy", "Trigger")...)}
		for _, c := range r.CriticResets {
			g.Rows = append(g.Rows, page.Row(number(c.AtS, page.Duration), c.Policy, c.Trigger))
		}
		s.Blocks = append(s.Blocks, page.Block{Caption: "Critic resets", Table: g})
	}
	return s
}

func at(n journal.Number) string {
	if !n.Known() {
		return page.NoData
	}
	return number(n, page.Duration) + " after the start"
}

// wasteSection lists the wasted spend by cause. Causes may overlap and therefore have no total. Idle processors and
// unused memory of a machine billed as a whole are omitted because releasing them saves nothing.
func wasteSection(d *data) page.Section {
	s := page.Section{ID: "waste", Title: "Wasted spend"}
	r := d.Record
	w := r.Waste
	g := &page.Table{Columns: slices.Concat(page.Left("Cause"), page.Right("Cost", "Share of the cost"), page.Left("Meaning"))}
	any := false
	for _, c := range []struct {
		name    string
		money   journal.Number
		what    string
		perUnit bool // a saving only if CPUs, GPUs and GiB are billed separately
	}{
		{"idle", w.Idle, "idle processors", true},
		{"input-bound", w.InputBound, "GPUs waiting for data", false},
		{"over-provisioned", w.OverProvisioned, "memory allocated beyond the measured need", true},
		{"restarts", w.Restarts, "from stop or failure until work resumed", false},
		{"failed", w.Failed, "work that was lost", false},
	} {
		if c.perUnit && wholeMachine(r) && !c.money.Known() {
			continue // idle CPUs and unused memory of a machine billed as a whole cost nothing extra
		}
		money, part := notMeasured, page.NoData
		if c.money.Known() {
			any, money = true, number(c.money, page.USD)
			if r.Outcome.CostUSD > 0 {
				part = page.Percent(100 * float64(c.money/r.Outcome.CostUSD))
			}
		}
		g.Rows = append(g.Rows, page.Row(c.name, money, part, c.what))
	}
	s.Intro = payerWords(r)
	if !any {
		s.Intro += " No waste was measured."
		return s
	}
	s.Intro += " Causes may overlap; they do not add up to a total."
	s.Blocks = []page.Block{{Table: g}}
	return s
}

func wholeMachine(r *journal.Record) bool { return r.Prices.Instance > 0 }

// payerWords describes how the machine is billed and therefore which unused resources could be saved.
func payerWords(r *journal.Record) string {
	if wholeMachine(r) {
		source := ""
		if r.Prices.Source != "" {
			source = " (" + r.Prices.Source + ")"
		}
		return "The machine is paid as a whole: " + page.USD(float64(r.Prices.Instance)) + "/h" + source + ". An unused CPU or GiB saves nothing."
	}
	words := prices(r.Prices.Rates, r.StartedAt)
	if words == page.NoData {
		return "No prices are known."
	}
	return "Resources are priced by unit (" + words + "): an unused CPU, GPU or GiB is worth something where units are paid for."
}
