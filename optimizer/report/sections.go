package report

import (
	"cmp"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// slaSection compares each limit with the measured or projected value and shows its verdict.
func slaSection(d *data) section {
	s := section{ID: "sla", Title: "SLA"}
	r := d.Record
	if len(r.SLA.Verdicts) == 0 {
		text := slaAnswer(d).Text
		s.Intro = strings.ToUpper(text[:1]) + text[1:] + "."
		return s
	}
	head := map[bool]string{true: "Measured", false: "So far"}[r.Over()]
	g := &grid{Columns: slices.Concat(left("Objective"), right("Limit", head, "Projected", "Excess"), left("Verdict"))}
	for _, v := range r.SLA.Verdicts {
		name, one := Objective(v.Objective)
		value, projected, severity := noData, "–", "–"
		if v.Value != nil {
			value = one(*v.Value)
		}
		if v.Projected != nil && predicted(*v.Projected) && !r.Over() {
			projected = interval(*v.Projected, one)
		}
		if v.Severity != nil && *v.Severity > 0 {
			severity = share(*v.Severity)
		}
		g.Rows = append(g.Rows, with(row(name, one(v.Limit), value, projected, severity, statusWord(r, v.Status)), statusLight(v.Status)))
	}
	s.Blocks = []block{{Table: g}, {Notes: []string{"Compliance: " + complianceWords(r)}}}
	if r.SLA.Hash != "" {
		s.Blocks[1].Notes = append(s.Blocks[1].Notes, "SLA identifier: "+r.SLA.Hash+".")
	}
	return s
}

func complianceWords(r *journal.Record) string {
	if !r.SLA.Compliance.Known() {
		return "unknown, no limit has a verdict."
	}
	return number(r.SLA.Compliance, share) + " of the limits that have a verdict."
}

// comparisonSection compares time, cost, throughput and compliance of the run with the baseline, for the same work.
func comparisonSection(d *data) section {
	s := section{ID: "comparison", Title: "Comparison with the baseline"}
	r := d.Record
	c := r.Comparison
	if c.Basis != journal.BasisThisRun {
		text := noComparison(r)
		s.Intro = strings.ToUpper(text[:1]) + text[1:] + "."
		return s
	}
	g := &grid{Columns: append(left("For the same work"), right("Baseline (predicted)", "This run", "Change", "90 % interval")...)}
	b := r.Baseline
	s.Intro = "Baseline: " + allocationText(b.Allocation) + ". Its pace was measured in this run and is projected to the work done; " +
		"the time and cost of this run include probes and restarts. The intervals cover the uncertainty of the baseline's pace."
	bounds := func(i *sla.Interval) string {
		if i == nil || !known(i.P5) || !known(i.P95) {
			return notMeasured
		}
		return between(*i, change)
	}
	add := func(name, before, now string, n journal.Number, i *sla.Interval) {
		g.Rows = append(g.Rows, row(name, before, now, number(n, change), bounds(i)))
		if name != "throughput" && name != "compliance" {
			g.Rows[len(g.Rows)-1][3].Light = changeLight(n, i)
		}
	}
	add("time", interval(b.Seconds, duration), number(r.Outcome.Seconds, duration), c.SecondsChangePct, c.SecondsChange)
	add("cost", interval(b.CostUSD, usd), number(r.Outcome.CostUSD, usd), c.CostChangePct, c.CostChange)
	add("throughput", interval(b.Throughput, rate(r)), number(r.Outcome.Throughput, rate(r)), c.ThroughputChangePct, nil)
	add("compliance", number(b.Compliance, share), number(r.SLA.Compliance, share), c.ComplianceChangePct, nil)
	for _, i := range []int{2, 3} {
		g.Rows[i][4].Text = "–"
	}
	s.Blocks = []block{{Table: g}}
	if c.Quality != "" {
		s.Blocks = append(s.Blocks, block{Notes: []string{"Time/cost trade-off: " + c.Quality + "."}})
	}
	return s
}

// slaChangeSection compares the SLA results of the baseline configuration and of this run.
func slaChangeSection(d *data) section {
	s := section{ID: "sla-change", Title: "SLA: baseline and this run"}
	r := d.Record
	if r.Comparison.Basis != journal.BasisThisRun || len(r.SLA.Verdicts) == 0 {
		return s
	}
	g := &grid{Columns: slices.Concat(left("Objective"), right("Limit", "Baseline (predicted)"), left("Baseline", "This run", "Change"))}
	for _, v := range r.SLA.Verdicts {
		before, text := baselineStatus(r, v)
		name, one := Objective(v.Objective)
		c := row(name, one(v.Limit), text, statusWord(r, before), statusWord(r, v.Status), changeWord(before, v.Status))
		c[3].Light, c[4].Light = statusLight(before), statusLight(v.Status)
		g.Rows = append(g.Rows, c)
	}
	s.Blocks = []block{{Table: g}}
	return s
}

func changeWord(before, after sla.Status) string {
	rank := map[sla.Status]int{sla.Violated: 1, sla.AtRisk: 2, sla.Met: 3}
	b, a := rank[before], rank[after]
	switch {
	case b == 0 || a == 0:
		return noData
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
			return sla.Unknown, noData
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
			if known(x) {
				if violates(v.Objective, x, v.Limit) {
					return sla.Violated, one(x) + " (measured)"
				}
				return sla.Met, one(x) + " (measured)"
			}
		}
	}
	if !predicted(p) {
		return sla.Unknown, noData
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
func predictionSection(d *data) section {
	s := section{ID: "prediction", Title: "Predicted and actual"}
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
	s.Intro = "Predicted for the whole run, " + number(made, duration) + " after its start."
	if !r.Plan.AtS.Known() {
		s.Intro = "Predicted for the whole run."
	}
	if !r.Over() {
		s.Intro += " The run has not ended."
	} else if r.State != journal.Done {
		s.Intro += " The run did not finish, so the prediction is not scored."
	}
	g := &grid{Columns: slices.Concat(left("Quantity"), right("Predicted", "90 % interval", "Actual", "Error"), left("In interval"))}
	for _, c := range list {
		median, bounds, off, held, l := noData, noData, "–", "not scored", muted
		if predicted(c.predicted) {
			median, bounds = c.one(c.predicted.P50), between(c.predicted, c.one)
		}
		switch {
		case c.inside:
			held, l = "yes", good
		case c.comparable:
			held, l = "no", bad
		}
		if c.comparable && c.predicted.P50 != 0 {
			off = change(100 * (c.outcome/c.predicted.P50 - 1))
		}
		g.Rows = append(g.Rows, with(row(c.name, median, bounds, c.one(c.outcome), off, held), l))
	}
	s.Blocks = []block{{Table: g}}
	return s
}

func resourceSection(d *data) section {
	s := section{ID: "resources", Title: "Resources over the run"}
	t := d.allocations
	if t.len() == 0 {
		s.Intro = "No data: the allocation history is empty or missing."
		return s
	}
	g := &grid{Columns: append(right("At", "GPUs", "CPUs", "Memory", "Batch"), left("Applied", "Why")...), Long: t.len() > 15}
	for i := range t.rows {
		g.Rows = append(g.Rows, row(duration(t.number(i, "time_s")), count(t.number(i, "gpus")), count(t.number(i, "cpus")),
			gib(t.number(i, "memory_gib")), ownOr(t.number(i, "batch_size")), t.text(i, "applied"), t.text(i, "reason")))
	}
	s.Blocks = []block{{Table: g}}
	return s
}

// ownOr formats a setting of the script; 0 and unknown mean that the script's own value applies.
func ownOr(v float64) string {
	if !known(v) || v <= 0 {
		return "script's own"
	}
	return count(v)
}

// decisionSection shows the plan, the actions on the allocation and the critic resets.
func decisionSection(d *data) section {
	s := section{ID: "decisions", Title: "Decisions"}
	r := d.Record
	if p := r.Plan; p != nil {
		s.Blocks = append(s.Blocks, block{Caption: "The plan", Fields: fields("decided", at(p.AtS), "by", p.Planner, "allocation", allocationText(p.Allocation),
			"reason", p.Reason, "binding constraint", cmp.Or(p.Binding, "none"))})
	}
	if len(r.Actions) > 0 {
		g := &grid{Columns: append(right("At"), left("Action", "From", "To", "Applied", "Why")...), Long: len(r.Actions) > 15}
		for _, a := range r.Actions {
			g.Rows = append(g.Rows, row(number(a.AtS, duration), a.Description, allocationText(a.From), allocationText(a.To), a.Applied, a.Reason))
		}
		s.Blocks = append(s.Blocks, block{Caption: plural(len(r.Actions), "action"), Table: g})
	} else if r.Plan != nil {
		s.Blocks = append(s.Blocks, block{Notes: []string{"The allocation was not changed, and no change was recommended."}})
	}
	if len(r.PreferenceChanges) > 0 {
		g := &grid{Columns: append(right("At"), left("From", "To", "Outcome")...)}
		for _, c := range r.PreferenceChanges {
			g.Rows = append(g.Rows, row(number(c.AtS, duration), c.From.String(), c.To.String(), c.Answer))
		}
		s.Blocks = append(s.Blocks, block{Caption: "Requested preferences", Table: g})
	}
	if len(r.CriticResets) > 0 {
		g := &grid{Columns: append(right("At"), left("Policy", "Trigger")...)}
		for _, c := range r.CriticResets {
			g.Rows = append(g.Rows, row(number(c.AtS, duration), c.Policy, c.Trigger))
		}
		s.Blocks = append(s.Blocks, block{Caption: "Critic resets", Table: g})
	}
	return s
}

func at(n journal.Number) string {
	if !n.Known() {
		return noData
	}
	return number(n, duration) + " after the start"
}

// wasteSection lists the wasted spend by cause. Causes may overlap and therefore have no total. Idle processors and
// unused memory of a machine billed as a whole are omitted because releasing them saves nothing.
func wasteSection(d *data) section {
	s := section{ID: "waste", Title: "Wasted spend"}
	r := d.Record
	w := r.Waste
	g := &grid{Columns: slices.Concat(left("Cause"), right("Cost", "Share of the cost"), left("Meaning"))}
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
		money, part := notMeasured, noData
		if c.money.Known() {
			any, money = true, number(c.money, usd)
			if r.Outcome.CostUSD > 0 {
				part = percent(100 * float64(c.money/r.Outcome.CostUSD))
			}
		}
		g.Rows = append(g.Rows, row(c.name, money, part, c.what))
	}
	s.Intro = payerWords(r)
	if !any {
		s.Intro += " No waste was measured."
		return s
	}
	s.Intro += " Causes may overlap; they do not add up to a total."
	s.Blocks = []block{{Table: g}}
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
		return "The machine is paid as a whole: " + usd(float64(r.Prices.Instance)) + "/h" + source + ". An unused CPU or GiB saves nothing."
	}
	words := prices(r.Prices.Rates, r.StartedAt)
	if words == noData {
		return "No prices are known."
	}
	return "Resources are priced by unit (" + words + "): an unused CPU, GPU or GiB is worth something where units are paid for."
}
