package report

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

func agreementSection(d *Data) section {
	s := section{ID: "agreement", Title: "Agreement"}
	r := d.Record
	if len(r.SLA.Verdicts) == 0 {
		text := agreementAnswer(d).Text
		s.Intro = strings.ToUpper(text[:1]) + text[1:] + "."
		return s
	}
	head := map[bool]string{true: "Measured", false: "So far"}[over(r)]
	g := &grid{Columns: append(left("Agreed"), right("Limit", head, "Predicted at the end", "Excess")...)}
	g.Columns = append(g.Columns, left("Verdict")...)
	for _, v := range r.SLA.Verdicts {
		one := quantity(v.Objective)
		value, projected, severity := noData, "–", "–"
		if v.Value != nil {
			value = one(*v.Value)
		}
		if v.Projected != nil && predicted(*v.Projected) && !over(r) {
			projected = interval(*v.Projected, one)
		}
		if v.Severity != nil && *v.Severity > 0 {
			severity = share(*v.Severity)
		}
		g.Rows = append(g.Rows, with(row(objectiveName(v.Objective), one(v.Limit), value, projected, severity, statusWord(v.Status)), statusLight(v.Status)))
	}
	s.Blocks = []block{{Table: g}, {Notes: []string{"Compliance: " + number(r.SLA.Compliance, share) + " of the agreed terms with data are met."}}}
	if r.SLA.Hash != "" {
		s.Blocks[1].Notes = append(s.Blocks[1].Notes, "The agreement was fixed at the start ("+r.SLA.Hash+").")
	}
	return s
}

func statusWord(s sla.Status) string {
	switch s {
	case sla.Met:
		return "met"
	case sla.AtRisk:
		return "at risk"
	case sla.Violated:
		return "violated"
	}
	return noData
}

func comparisonSection(d *Data) section {
	s := section{ID: "comparison", Title: "Compared with your own configuration"}
	r := d.Record
	c := r.Comparison
	g := &grid{Columns: append(left("Per unit of the same work"), right("Yours (predicted)", "This run", "Change", "90 % interval")...)}
	var seconds, cost, rate sla.Interval
	var compliance journal.Number
	if b := r.Baseline; b != nil {
		seconds, cost, rate, compliance = b.Seconds, b.CostUSD, b.Throughput, b.Compliance
		s.Intro = "Yours: " + given(b.Allocation) + ". Its pace was measured and is projected to the work that this run did; " +
			"the run is counted with all it paid for, probes and restarts included."
	} else {
		s.Intro = "Your own configuration was not timed, so there is nothing to compare with."
		return s
	}
	bounds := func(i *sla.Interval) string {
		if i == nil || !known(i.P5) || !known(i.P95) {
			return "not measured"
		}
		return between(*i, change)
	}
	add := func(name, yours, now string, n journal.Number, i *sla.Interval) {
		g.Rows = append(g.Rows, row(name, yours, now, number(n, change), bounds(i)))
		if name != "throughput" && name != "compliance" {
			g.Rows[len(g.Rows)-1][3].Light = changeLight(n, i)
		}
	}
	add("time", interval(seconds, duration), number(r.Outcome.Seconds, duration), c.SecondsChangePct, c.SecondsChange)
	add("cost", interval(cost, usd), number(r.Outcome.CostUSD, usd), c.CostChangePct, c.CostChange)
	add("throughput", interval(rate, throughput), number(r.Outcome.Throughput, throughput), c.ThroughputChangePct, nil)
	add("compliance", number(compliance, share), number(r.SLA.Compliance, share), c.ComplianceChangePct, nil)
	for _, i := range []int{2, 3} {
		g.Rows[i][4].Text = "–"
	}
	s.Blocks = []block{{Table: g}}
	if c.Quality != "" {
		s.Blocks = append(s.Blocks, block{Notes: []string{"Judgement of the trade of time against total cost: " + c.Quality + "."}})
	}
	return s
}

// agreementChangeSection is the agreement under the user's own configuration and under this run.
func agreementChangeSection(d *Data) section {
	s := section{ID: "agreement-change", Title: "Agreement before and after"}
	r := d.Record
	if r.Baseline == nil || len(r.SLA.Verdicts) == 0 {
		return s
	}
	g := &grid{Columns: append(left("Agreed"), right("Limit", "Yours (predicted)")...)}
	g.Columns = append(g.Columns, left("Yours", "This run", "Change")...)
	for _, v := range r.SLA.Verdicts {
		before, text := baselineStatus(r, v)
		c := row(objectiveName(v.Objective), quantity(v.Objective)(v.Limit), text, statusWord(before), statusWord(v.Status), changeWord(before, v.Status))
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
		return "newly violated"
	}
	return "worse"
}

// baselineStatus judges the user's own configuration by its projection, and what the projection does not say by its
// own measured stretch.
func baselineStatus(r *journal.Record, v sla.Verdict) (sla.Status, string) {
	b, one := r.Baseline, quantity(v.Objective)
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
		for _, m := range stretches(r) {
			if !m.Allocation.SameShape(b.Allocation) {
				continue
			}
			x := float64(map[sla.Objective]journal.Number{sla.Memory: m.PeakMemoryGiB, sla.GPUUtil: m.GPUUtil, sla.CPUUtil: m.CPUUtil}[v.Objective])
			if known(x) {
				if broken(v.Objective, x, v.Limit) {
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
	case broken(v.Objective, best, v.Limit):
		return sla.Violated, text
	case broken(v.Objective, worst, v.Limit):
		return sla.AtRisk, text
	}
	return sla.Met, text
}

func broken(o sla.Objective, x, limit float64) bool {
	if o == sla.Time || o == sla.Cost || o == sla.Memory {
		return x > limit
	}
	return x < limit
}

// stretches are all timed stretches at one allocation.
func stretches(r *journal.Record) []journal.Probe {
	if len(r.Measured) > 0 {
		return r.Measured
	}
	return r.Probes
}

func predictionSection(d *Data) section {
	s := section{ID: "prediction", Title: "Predicted and realised"}
	r := d.Record
	list := realised(r)
	if len(list) == 0 {
		s.Intro = "Nothing was predicted for this run."
		return s
	}
	made := r.Plan.AtS
	if r.Plan.Prediction != nil && r.Plan.Prediction.AtS > 0 {
		made = r.Plan.Prediction.AtS
	}
	s.Intro = "The prediction was made " + number(made, duration) + " after the start, for the whole run."
	if !r.Plan.AtS.Known() {
		s.Intro = "The prediction is for the whole run."
	}
	if !over(r) {
		s.Intro += " The run is not over."
	} else if r.State != journal.Done {
		s.Intro += " The run did not reach its end, so its time and cost cannot be held against it."
	}
	g := &grid{Columns: append(left("What"), right("Predicted", "90 % interval", "Realised", "Off by")...)}
	g.Columns = append(g.Columns, left("Interval held")...)
	for _, c := range list {
		median, bounds, off, held, l := noData, noData, "–", "not comparable", muted
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

func optionsSection(d *Data) section {
	s := section{ID: "options", Title: "The options and what each gives up"}
	r := d.Record
	if r.Plan == nil {
		return section{}
	}
	p := r.Preference
	s.Intro = fmt.Sprintf("Preference of this run: time %s, cost %s, resources %s. Changes are against the choice, all predicted; chance is that of keeping the agreed time and cost.",
		share(p.Time), share(p.Cost), share(p.Resource))
	if len(r.Plan.Options) == 0 {
		s.Intro = "No options were predicted: the planner had no model."
	} else {
		g := &grid{Columns: append(left("Prefer", "Allocation"), right("Time", "Cost", "Time", "Cost", "Resources", "Chance")...)}
		g.Columns = append(g.Columns, left("Agreement")...)
		g.Columns[2].Name, g.Columns[3].Name = "Time (predicted)", "Cost (predicted)"
		for _, o := range r.Plan.Options {
			chosen := o.Candidate.Allocation.Same(r.Plan.Allocation)
			name := o.Prefer
			if chosen {
				name += " ← chosen"
			}
			c := row(name, given(o.Candidate.Allocation), interval(o.Candidate.Seconds, duration), interval(o.Candidate.CostUSD, usd),
				optionChange(o.SecondsPct), optionChange(o.CostPct), optionChange(o.ResourcePct), share(o.Candidate.Chance), agreementWord(o.Candidate))
			g.Rows = append(g.Rows, with(c, feasibleLight(o.Candidate)))
		}
		s.Blocks = append(s.Blocks, block{Table: g})
	}
	if len(r.Plan.Candidates) > 0 {
		s.Blocks = append(s.Blocks, candidates(r.Plan))
	}
	return s
}

func optionChange(p *float64) string {
	if p == nil {
		return noData
	}
	return change(*p)
}

func feasibleLight(c plan.Candidate) light {
	if c.Feasible {
		return good
	}
	return bad
}

// agreementWord says whether a candidate keeps the agreement, by the model.
func agreementWord(c plan.Candidate) string {
	if c.Feasible {
		return "kept"
	}
	if len(c.Breaks) == 0 {
		return "not sure"
	}
	names := make([]string, len(c.Breaks))
	for i, b := range c.Breaks {
		names[i] = string(b)
	}
	return "not sure: " + strings.Join(names, ", ")
}

func candidates(p *journal.Plan) block {
	list := slices.Clone(p.Candidates)
	slices.SortStableFunc(list, func(a, b plan.Candidate) int {
		switch {
		case a.OnFront != b.OnFront && a.OnFront:
			return -1
		case a.OnFront != b.OnFront:
			return 1
		case a.Seconds.P50 < b.Seconds.P50:
			return -1
		case a.Seconds.P50 > b.Seconds.P50:
			return 1
		}
		return 0
	})
	g := &grid{Columns: append(left("Allocation"), right("Time (predicted)", "Cost (predicted)", "Resources", "Chance")...), Long: len(list) > 8}
	g.Columns = append(g.Columns, left("Front", "Agreement")...)
	for _, c := range list {
		name := given(c.Allocation)
		if c.Allocation.Same(p.Allocation) {
			name += " ← chosen"
		}
		front := ""
		if c.OnFront {
			front = "yes"
		}
		g.Rows = append(g.Rows, with(row(name, interval(c.Seconds, duration), interval(c.CostUSD, usd), share(c.Resource), share(c.Chance), front, agreementWord(c)), feasibleLight(c)))
	}
	return block{Caption: "All " + plural(len(list), "candidate") + " that were weighed, the Pareto front first", Table: g}
}

func resourceSection(d *Data) section {
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

// ownOr is a setting of the script, where 0 or nothing leaves its own value.
func ownOr(v float64) string {
	if !known(v) || v <= 0 {
		return "script's own"
	}
	return count(v)
}

func decisionSection(d *Data) section {
	s := section{ID: "decisions", Title: "Decisions and their reasons"}
	r := d.Record
	if p := r.Plan; p != nil {
		binding := p.Binding
		if binding == "" {
			binding = "none"
		}
		s.Blocks = append(s.Blocks, block{Caption: "The plan", Fields: fields("decided", at(p.AtS), "by", p.Planner, "allocation", given(p.Allocation),
			"reason", p.Reason, "binding constraint", binding)})
	}
	if len(r.Actions) > 0 {
		g := &grid{Columns: append(right("At"), left("Action", "From", "To", "Applied", "Why")...), Long: len(r.Actions) > 15}
		for _, a := range r.Actions {
			g.Rows = append(g.Rows, row(number(a.AtS, duration), a.Description, given(a.From), given(a.To), a.Applied, a.Reason))
		}
		s.Blocks = append(s.Blocks, block{Caption: plural(len(r.Actions), "action"), Table: g})
	} else if r.Plan != nil {
		s.Blocks = append(s.Blocks, block{Notes: []string{"No change of allocation was made or advised during the run."}})
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

func wasteSection(d *Data) section {
	s := section{ID: "waste", Title: "Waste by cause"}
	r := d.Record
	w := r.Waste
	g := &grid{Columns: append(left("Cause"), right("Money", "Of the cost")...)}
	g.Columns = append(g.Columns, left("What it means")...)
	any := false
	for _, c := range []struct {
		name  string
		money journal.Number
		what  string
	}{
		{"idle", w.Idle, "processors that were paid for and did nothing"},
		{"input-bound", w.InputBound, "accelerators that waited for data"},
		{"over-provisioned", w.OverProvisioned, "memory given beyond the measured need"},
		{"restarts", w.Restarts, "from the request to stop until work went on"},
		{"failed", w.Failed, "work that was lost"},
	} {
		part := noData
		if c.money.Known() && r.Outcome.CostUSD > 0 {
			part = percent(100 * float64(c.money/r.Outcome.CostUSD))
		}
		any = any || c.money.Known()
		money := "not measured"
		if c.money.Known() {
			money = number(c.money, usd)
		}
		g.Rows = append(g.Rows, row(c.name, money, part, c.what))
	}
	if !any {
		s.Intro = "Not measured."
		return s
	}
	s.Intro = "Causes may overlap; they do not add up to a total."
	s.Blocks = []block{{Table: g}}
	return s
}
