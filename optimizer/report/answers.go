package report

import (
	"fmt"
	"math"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// build puts the whole report together.
func build(d *Data) document {
	r := d.Record
	state, l := verdict(d)
	doc := document{Title: titleOf(r), State: state, Light: l, Subtitle: r.RunID}
	if !r.StartedAt.IsZero() {
		doc.Subtitle += " · started " + r.StartedAt.Format("2006-01-02 15:04:05 MST")
	}
	doc.Answers = answers(d)
	doc.Tiles = tiles(d)
	for _, s := range []func(*Data) section{
		agreementSection, comparisonSection, agreementChangeSection, predictionSection, optionsSection,
		resourceSection, decisionSection, wasteSection, recommendationSection, runSection, baselineSection,
		probeSection, modelSection, trainingSection, machineSection, warningSection,
	} {
		if s := s(d); len(s.Blocks) > 0 || s.Intro != "" {
			doc.Sections = append(doc.Sections, s)
		}
	}
	return doc
}

func titleOf(r *journal.Record) string {
	for _, t := range []string{r.Name, r.Script.Path} {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return "run"
}

// over reports whether the run will not change any more.
func over(r *journal.Record) bool {
	return r.State == journal.Done || r.State == journal.Failed || r.State == journal.Stopped
}

func stateOf(d *Data) (string, light) {
	r := d.Record
	switch r.State {
	case journal.Done:
		return "finished", good
	case journal.Failed:
		return "failed", bad
	case journal.Stopped:
		return "stopped", warn
	case journal.Planned:
		return "planned only", muted
	}
	if d.Agent != nil {
		return "running", good
	}
	return "interrupted", warn
}

// verdict is the state with what became of the agreement.
func verdict(d *Data) (string, light) {
	state, l := stateOf(d)
	if d.Record.State != journal.Done {
		return state, l
	}
	switch a := agreementAnswer(d); a.Light {
	case good:
		return state + ", agreement kept", good
	case bad:
		return state + ", agreement missed", bad
	}
	return state, l
}

func answers(d *Data) []answer {
	return []answer{finishedAnswer(d), agreementAnswer(d), costAnswer(d), predictionAnswer(d), savingAnswer(d)}
}

func finishedAnswer(d *Data) answer {
	r := d.Record
	a := answer{Question: "Finished"}
	_, a.Light = stateOf(d)
	after := ""
	if r.Outcome.Seconds.Known() {
		after = " after " + number(r.Outcome.Seconds, duration)
	}
	switch a.Text = progress(r); {
	case r.State == journal.Done:
		a.Text = join("yes"+after, a.Text)
	case r.State == journal.Failed:
		a.Text = join("no, failed"+after+": "+exitWords(r.Exit), a.Text)
	case r.State == journal.Stopped:
		a.Text = join("no, stopped"+after+": "+exitWords(r.Exit), a.Text)
	case r.State == journal.Planned:
		a.Text = "no, planned only: nothing was started"
	case d.Agent != nil:
		a.Text = join("not yet, running"+strings.Replace(after, " after ", " for ", 1), a.Text)
	default:
		a.Text = join("no, interrupted"+after+": no agent is at work on it (optimize runs resume "+r.RunID+")", a.Text)
	}
	return a
}

func join(parts ...string) string {
	kept := []string{}
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "; ")
}

// progress is "12 of 40 epochs", empty when unknown.
func progress(r *journal.Record) string {
	done, unit := r.Outcome.Epochs, r.Training.Unit
	if unit == "" {
		unit = "epoch"
	}
	if unit != "epoch" {
		done = journal.Unknown()
	}
	switch {
	case done.Known() && r.Training.TotalUnits > 0:
		return fmt.Sprintf("%s of %s", count(float64(done)), plural(int(r.Training.TotalUnits), unit))
	case done.Known():
		return count(float64(done)) + " " + unit + "s"
	case r.Outcome.Rows > 0:
		return plural(r.Outcome.Rows, "row") + " in the training log"
	}
	return ""
}

func exitWords(e *journal.Exit) string {
	if e == nil {
		return "no exit was recorded"
	}
	words := map[string]string{
		"killed": "it was killed by somebody else", "oom": "it ran out of memory and was killed",
		"budget": "the budget was used up", "deadline": "the deadline was reached", "user": "stopped by the user",
		"start-failed": "it could not be started", "lost": "it is gone without a record of its end",
	}[e.Reason]
	switch {
	case e.Reason == "exited" && e.Signal != nil:
		words = "the training died of " + *e.Signal
	case e.Reason == "exited" && e.Code != nil:
		words = fmt.Sprintf("the training exited with code %d", *e.Code)
	case words == "":
		words = e.Reason
	case e.Signal != nil:
		words += " (" + *e.Signal + ")"
	}
	if e.Detail != "" {
		words += " (" + e.Detail + ")"
	}
	return words
}

func agreementAnswer(d *Data) answer {
	a := answer{Question: "Agreement"}
	byStatus := map[sla.Status][]string{}
	for _, v := range d.Record.SLA.Verdicts {
		byStatus[v.Status] = append(byStatus[v.Status], objectiveName(v.Objective)+" "+quantity(v.Objective)(v.Limit))
	}
	n := len(d.Record.SLA.Verdicts)
	if n == 0 {
		a.Text, a.Light = "nothing was agreed, so nothing was promised", muted
		if agreed(d.Record.SLA) {
			a.Text = noData + ": there is no verdict yet"
		}
		return a
	}
	number := func(s sla.Status) int { return len(byStatus[s]) }
	list := func(s sla.Status) string { return strings.Join(byStatus[s], ", ") }
	parts := []string{}
	switch missed, risk, unknown := number(sla.Violated), number(sla.AtRisk), number(sla.Unknown); {
	case missed > 0:
		a.Light = bad
	case risk > 0:
		a.Light = warn
	case unknown > 0:
		a.Light = muted
	default:
		a.Light = good
	}
	if k := number(sla.Violated); k > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d missed: %s", k, n, list(sla.Violated)))
	}
	if k := number(sla.AtRisk); k > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d at risk: %s", k, n, list(sla.AtRisk)))
	}
	if k := number(sla.Met); k > 0 {
		what := map[bool]string{true: "kept", false: "kept so far"}[over(d.Record)]
		if k == n {
			parts = append(parts, fmt.Sprintf("all %d %s: %s", n, what, list(sla.Met)))
		} else {
			parts = append(parts, fmt.Sprintf("%d of %d %s", k, n, what))
		}
	}
	if k := number(sla.Unknown); k > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d without data: %s", k, n, list(sla.Unknown)))
	}
	a.Text = join(parts...)
	return a
}

func agreed(s journal.SLA) bool {
	for _, n := range []journal.Number{s.DeadlineS, s.BudgetUSD, s.MinThroughput, s.MaxMemoryGiB, s.MinGPUUtil, s.MinCPUUtil} {
		if n.Known() && n > 0 {
			return true
		}
	}
	return false
}

func costAnswer(d *Data) answer {
	r := d.Record
	a := answer{Question: "Cost", Text: number(r.Outcome.CostUSD, usd)}
	if !r.Outcome.CostUSD.Known() {
		a.Light = muted
		return a
	}
	if p := r.Outcome.ProbeCostUSD; p.Known() && p > 0 {
		a.Text += ", " + number(p, usd) + " of it for probes"
	}
	if b := r.SLA.BudgetUSD; b.Known() && b > 0 {
		a.Text += fmt.Sprintf("; %s of the budget of %s", share(float64(r.Outcome.CostUSD/b)), number(b, usd))
	}
	return a
}

func predictionAnswer(d *Data) answer {
	a := answer{Question: "Predicted", Light: muted, Text: "nothing was predicted"}
	p := d.Record.Plan
	if p == nil || p.Prediction == nil || !predicted(p.Prediction.Seconds) {
		return a
	}
	a.Light = dark
	a.Text = interval(p.Prediction.Seconds, duration)
	if predicted(p.Prediction.CostUSD) {
		a.Text += " and " + interval(p.Prediction.CostUSD, usd)
	}
	if d.Record.State != journal.Done {
		return a
	}
	held, of := 0, 0
	for _, c := range realised(d.Record) {
		if c.comparable {
			of++
			if c.inside {
				held++
			}
		}
	}
	switch {
	case of == 0:
	case held == of:
		a.Text, a.Light = a.Text+"; the outcome lies inside the 90 % intervals", good
	default:
		a.Text, a.Light = a.Text+fmt.Sprintf("; %d of %d outcomes lie outside the 90 %% intervals", of-held, of), warn
	}
	return a
}

// realisation sets one prediction beside what came.
type realisation struct {
	name       string
	predicted  sla.Interval
	outcome    float64
	one        func(float64) string
	comparable bool
	inside     bool
}

func realised(r *journal.Record) []realisation {
	if r.Plan == nil || r.Plan.Prediction == nil {
		return nil
	}
	p, o := r.Plan.Prediction, r.Outcome
	list := []realisation{
		{name: "time", predicted: p.Seconds, outcome: float64(o.Seconds), one: duration, comparable: r.State == journal.Done},
		{name: "cost", predicted: p.CostUSD, outcome: float64(o.CostUSD), one: usd, comparable: r.State == journal.Done},
		{name: "throughput", predicted: p.Throughput, outcome: float64(o.Throughput), one: throughput, comparable: over(r)},
	}
	for i := range list {
		c := &list[i]
		c.comparable = c.comparable && predicted(c.predicted) && known(c.outcome)
		c.inside = c.comparable && c.outcome >= c.predicted.P5 && c.outcome <= c.predicted.P95
	}
	return list
}

func savingAnswer(d *Data) answer {
	r := d.Record
	a := answer{Question: "Against yours", Text: "not measured", Light: muted}
	c := r.Comparison
	if !c.SecondsChangePct.Known() && !c.CostChangePct.Known() {
		if r.Baseline == nil {
			a.Text = "not measured: your own configuration was not timed"
		}
		return a
	}
	a.Text = "time " + moreOrLess(c.SecondsChangePct, c.SecondsChange) + ", cost " + moreOrLess(c.CostChangePct, c.CostChange) +
		" than your own configuration, for the same work"
	if !over(r) {
		a.Text += " (so far)"
	}
	a.Light = trade(changeLight(c.SecondsChangePct, c.SecondsChange), changeLight(c.CostChangePct, c.CostChange))
	return a
}

// moreOrLess writes a change in words: "57.4 % less (56.1 to 59.3 %)".
func moreOrLess(n journal.Number, i *sla.Interval) string {
	if !n.Known() {
		return "not measured"
	}
	v, word := float64(n), "more"
	if v < 0 {
		word = "less"
	}
	size := func(v float64) string { return strings.TrimLeft(change(v), "+−") }
	s := size(v) + " " + word
	if i == nil || !known(i.P5) || !known(i.P95) || i.P5 == i.P95 {
		return s
	}
	switch {
	case i.P5 >= 0:
		return s + " (" + between(*i, size) + ")"
	case i.P95 <= 0:
		return s + " (" + between(sla.Interval{P5: -i.P95, P95: -i.P5}, size) + ")"
	}
	return s + " (" + size(i.P5) + " less to " + size(i.P95) + " more)"
}

// changeLight judges a change of something that should become less: good and bad only when the whole interval
// says so.
func changeLight(n journal.Number, i *sla.Interval) light {
	lo, hi := float64(n), float64(n)
	if i != nil && known(i.P5) && known(i.P95) {
		lo, hi = math.Min(lo, i.P5), math.Max(hi, i.P95)
	}
	switch {
	case !known(lo):
		return muted
	case hi < 0:
		return good
	case lo > 0:
		return bad
	}
	return dark
}

// trade judges two changes together: one good and one bad is a trade, neither.
func trade(a, b light) light {
	switch {
	case a == b:
		return a
	case a != good && a != bad:
		return b
	case b != good && b != bad:
		return a
	}
	return dark
}

func tiles(d *Data) []tile {
	r := d.Record
	o, c := r.Outcome, r.Comparison
	list := []tile{
		{Label: "Time", Value: number(o.Seconds, duration), Note: limitNote("deadline", r.SLA.DeadlineS, duration), Light: verdictLight(r, sla.Time)},
		{Label: "Cost", Value: number(o.CostUSD, usd), Note: limitNote("budget", r.SLA.BudgetUSD, usd), Light: verdictLight(r, sla.Cost)},
		{Label: "Time vs yours", Value: number(c.SecondsChangePct, change), Note: intervalNote(c.SecondsChange), Light: changeLight(c.SecondsChangePct, c.SecondsChange)},
		{Label: "Cost vs yours", Value: number(c.CostChangePct, change), Note: intervalNote(c.CostChange), Light: changeLight(c.CostChangePct, c.CostChange)},
		{Label: "Throughput", Value: number(o.Throughput, throughput), Note: limitNote("at least", r.SLA.MinThroughput, throughput), Light: verdictLight(r, sla.Throughput)},
	}
	if usesGPU(r) {
		list = append(list, tile{Label: "GPU utilisation", Value: number(o.GPUUtil, percent), Note: "CPU " + number(o.CPUUtil, percent), Light: verdictLight(r, sla.GPUUtil)})
	} else {
		list = append(list, tile{Label: "CPU utilisation", Value: number(o.CPUUtil, percent), Note: "of the CPUs given", Light: verdictLight(r, sla.CPUUtil)})
	}
	list = append(list, tile{Label: "Peak memory", Value: number(o.PeakMemoryGiB, gib), Note: memoryNote(r), Light: verdictLight(r, sla.Memory)})
	for i := range list {
		switch v := list[i].Value; {
		case v == noData || v == "not measured":
			list[i].Light, list[i].Note = muted, ""
		case list[i].Light == muted: // measured, only not judged
			list[i].Light = dark
		}
	}
	return list
}

func limitNote(word string, n journal.Number, one func(float64) string) string {
	if !n.Known() || n <= 0 {
		return ""
	}
	return word + " " + number(n, one)
}

func intervalNote(i *sla.Interval) string {
	if i == nil || !known(i.P5) || !known(i.P95) {
		return ""
	}
	return "90 %: " + between(*i, change)
}

func memoryNote(r *journal.Record) string {
	if r.Plan == nil || r.Plan.Allocation.Memory <= 0 {
		return ""
	}
	return "of " + gib(float64(r.Plan.Allocation.Memory)) + " given"
}

func usesGPU(r *journal.Record) bool {
	return r.Outcome.GPUUtil.Known() || r.Plan != nil && r.Plan.Allocation.GPUs > 0
}

func verdictLight(r *journal.Record, o sla.Objective) light {
	for _, v := range r.SLA.Verdicts {
		if v.Objective == o {
			return statusLight(v.Status)
		}
	}
	return dark
}

func statusLight(s sla.Status) light {
	switch s {
	case sla.Met:
		return good
	case sla.AtRisk:
		return warn
	case sla.Violated:
		return bad
	}
	return muted
}
