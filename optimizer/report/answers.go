package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// build assembles the document of the whole report.
func build(d *data) page.Document {
	r := d.Record
	state, l := verdict(d)
	doc := page.Document{Title: titleOf(r), State: state, Light: l, Subtitle: r.RunID}
	if !r.StartedAt.IsZero() {
		doc.Subtitle += " · started " + r.StartedAt.Format("2006-01-02 15:04:05 MST")
	}
	doc.Answers = answers(d)
	doc.Tiles = tiles(d)
	for _, s := range []func(*data) page.Section{
		outputSection, slaSection, comparisonSection, slaChangeSection, predictionSection, optionsSection,
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

func stateOf(d *data) (string, page.Light) {
	r := d.Record
	switch r.State {
	case journal.Done:
		return "finished", page.Good
	case journal.Failed:
		return "failed", page.Bad
	case journal.Stopped:
		return "stopped", page.Warn
	case journal.Planned:
		return "planned only", page.Muted
	}
	if d.Agent != nil {
		return "running", page.Good
	}
	return "interrupted", page.Warn
}

// verdict returns the state of the run and the outcome of its SLA, with the light of both.
func verdict(d *data) (string, page.Light) {
	state, l := stateOf(d)
	if d.Record.State != journal.Done {
		return state, l
	}
	switch a := slaAnswer(d); a.Light {
	case page.Good:
		return state + ", SLA met", page.Good
	case page.Bad:
		return state + ", SLA missed", page.Bad
	}
	return state, l
}

func answers(d *data) []page.Answer {
	list := []page.Answer{finishedAnswer(d), slaAnswer(d), costAnswer(d), predictionAnswer(d), savingAnswer(d)}
	if p := d.Record.Power; p != nil {
		list = append(list, page.Answer{Question: "Power limit", Text: powerWords(p), Light: page.Muted})
	}
	if a, ok := riskAnswer(d); ok {
		list = append(list, a)
	}
	if a, ok := resumeAnswer(d); ok {
		list = append(list, a)
	}
	return list
}

func finishedAnswer(d *data) page.Answer {
	r := d.Record
	a := page.Answer{Question: "Finished"}
	_, a.Light = stateOf(d)
	after := ""
	if r.Outcome.Seconds.Known() {
		after = " after " + number(r.Outcome.Seconds, page.Duration)
	}
	switch a.Text = progress(r); {
	case r.State == journal.Done:
		a.Text = join("yes"+after, a.Text)
	case r.State == journal.Failed:
		a.Text = join("no, failed"+after+": "+exitWords(r), a.Text, prefixed("last output: ", lastLine(d)), inputAdvice(d))
	case r.State == journal.Stopped:
		a.Text = join("no, stopped"+after+": "+exitWords(r), a.Text)
	case r.State == journal.Planned:
		a.Text = "no, planned only: nothing was started"
	case d.Agent != nil:
		a.Text = join("not yet, running"+prefixed(" ", d.Agent.Place())+strings.Replace(after, " after ", " for ", 1), a.Text)
	default:
		a.Text = join("no, interrupted"+after+": no agent is running", a.Text)
	}
	return a
}

// inputAdvice returns how to pass input to a training that failed at its end, by the last output line of Python, or a terminal
// to one that asked for it.
func inputAdvice(d *data) string {
	switch last := lastLine(d); {
	case last == "":
	case last == "EOFError: EOF when reading a line" || last == "bdb.BdbQuit":
		return "a terminal is not passed on to a training, a pipe or file is (echo ANSWER | optimize …)"
	case strings.Contains(strings.Join(readTail(d.Dir).lines, "\n"), "Inappropriate ioctl for device"):
		return "the training asks for a terminal: --pty gives it one"
	}
	return ""
}

// join joins the non-empty parts.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}

// progress returns, for example, "12 of 40 epochs", and "" if the progress is unknown.
func progress(r *journal.Record) string {
	done, unit := r.Outcome.Epochs, r.Training.Unit
	switch unit {
	case "step":
		done = r.Outcome.Steps
	case "":
		unit = "epoch"
	}
	switch {
	case done.Known() && r.Training.TotalUnits > 0:
		return page.Count(float64(done)) + " of " + counted(r.Training.TotalUnits, unit)
	case done.Known():
		return counted(done, unit)
	case r.Outcome.Rows > 0:
		return page.Plural(r.Outcome.Rows, "row") + " in the training log"
	}
	return ""
}

// infeasible is the exit code of a run that was refused or stopped because no allocation was predicted to meet its
// limits.
const infeasible = 6

func exitWords(r *journal.Record) string {
	e := r.Exit
	if e == nil {
		return "no exit was recorded"
	}
	words := map[string]string{
		"killed": "killed from outside", "oom": "out of memory", "budget": "the budget was reached", "deadline": "the deadline was reached", "allocation": "the allocation ended", "lease": "the scheduler of the cluster took its devices back",
		"reclaimed": "the machine was reclaimed",
		"user":      "stopped by user", "start-failed": "could not be started", "lost": "ended without a record",
	}[e.Reason]
	switch {
	case r.ExitCode != nil && *r.ExitCode == infeasible:
		return "no allowed allocation was predicted to meet the " + e.Reason
	case e.Reason == "exited" && e.Signal != nil:
		words = "the training was ended by " + *e.Signal
	case e.Reason == "exited" && e.Code != nil:
		words = fmt.Sprintf("the training exited with code %d", *e.Code)
	case e.Reason == "killed" && strings.HasPrefix(e.Detail, "crashed"):
		words, _, _ = strings.Cut("the training "+e.Detail, "; ")
	case words == "":
		words = e.Reason
	case e.Signal != nil && e.Reason != "user": // the detail states how the user stopped it
		words += " (" + *e.Signal + ")"
	}
	if detail := newDetail(words, e); detail != "" {
		words += " (" + detail + ")"
	}
	return words
}

// newDetail returns the parts of an exit's detail that words does not contain already. Parts that repeat the signal,
// the exit code or each other are dropped.
func newDetail(words string, e *journal.Exit) string {
	var parts []string
	for _, part := range strings.Split(e.Detail, "; ") {
		known := part == "" || slices.Contains(parts, part) || part == "stopped on request" || strings.Contains(words, part) ||
			e.Signal != nil && part != *e.Signal && strings.Contains(part, *e.Signal) || e.Code != nil && strings.HasSuffix(part, fmt.Sprintf("code %d", *e.Code))
		if !known {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// slaAnswer lists the limits grouped by status, the worst status first. The light is that of the worst status.
func slaAnswer(d *data) page.Answer {
	a := page.Answer{Question: "SLA"}
	r := d.Record
	byStatus := map[sla.Status][]string{}
	for _, v := range r.SLA.Verdicts {
		name, one := Objective(v.Objective)
		byStatus[v.Status] = append(byStatus[v.Status], name+" "+one(v.Limit))
	}
	n := len(r.SLA.Verdicts)
	if n == 0 {
		a.Text, a.Light = "no limits set", page.Muted
		if limited(r.SLA) {
			a.Text = "limits are set; no verdict yet"
		}
		return a
	}
	switch {
	case len(byStatus[sla.Violated]) > 0:
		a.Light = page.Bad
	case len(byStatus[sla.AtRisk]) > 0:
		a.Light = page.Warn
	case len(byStatus[sla.Unknown]) > 0:
		a.Light = page.Muted
	default:
		a.Light = page.Good
	}
	var parts []string
	for _, status := range []sla.Status{sla.Violated, sla.AtRisk, sla.Met, sla.Unknown} {
		if list := byStatus[status]; len(list) > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s: %s", len(list), n, statusWord(r, status), strings.Join(list, ", ")))
		}
	}
	a.Text = join(parts...)
	return a
}

// statusWord returns the display form of a status. Only a run that is over meets or misses a limit; a running one is at
// best on track.
func statusWord(r *journal.Record, s sla.Status) string {
	switch {
	case s == sla.Met && r.Over():
		return "met"
	case s == sla.Met:
		return "on track"
	case s == sla.AtRisk:
		return "at risk"
	case s == sla.Violated:
		return "missed"
	case r.Over() && r.State != journal.Done:
		return "unknown (not finished)"
	case r.State == journal.Planned:
		return "unknown (not started)"
	}
	return "unknown (" + page.NoData + ")"
}

func limited(s journal.SLA) bool { return len(s.Agreed()) > 0 }

func costAnswer(d *data) page.Answer {
	r := d.Record
	a := page.Answer{Question: "Cost", Text: number(r.Outcome.CostUSD, page.USD)}
	if !r.Outcome.CostUSD.Known() {
		a.Light = page.Muted
		return a
	}
	if p := r.Outcome.ProbeCostUSD; p.Known() && p > 0 {
		a.Text += ", of which " + number(p, page.USD) + " for probes"
	}
	if b := r.SLA.LimitOf(sla.Cost); b.Known() {
		a.Text += fmt.Sprintf("; %s of the budget of %s", page.Percent(100*float64(r.Outcome.CostUSD/b)), number(b, page.USD))
	}
	return a
}

// predictionAnswer shows the predicted time and cost. For a finished run it adds which outcomes lie outside their 90
// % intervals.
func predictionAnswer(d *data) page.Answer {
	a := page.Answer{Question: "Predicted", Light: page.Muted, Text: "nothing was predicted"}
	if totalUnknown(d.Record) {
		a.Text = noTotal
		return a
	}
	p := d.Record.Plan
	if p == nil || p.Prediction == nil || !predicted(p.Prediction.Seconds) {
		if interrupted(d.Record) {
			a.Text = "no prediction: it was of a run without interruption, " + interruption(d.Record)
		}
		return a
	}
	a.Light = page.Dark
	a.Text = interval(p.Prediction.Seconds, page.Duration)
	if predicted(p.Prediction.CostUSD) {
		a.Text += " and " + interval(p.Prediction.CostUSD, page.USD)
	}
	if d.Record.State != journal.Done {
		return a
	}
	if d.Record.EndedEarly() {
		a.Text += fmt.Sprintf(" for %s, not compared: the training ended with %s", wholeJob(d.Record.Training), progress(d.Record))
		a.Light = page.Muted
		return a
	}
	var outside []string
	compared := false
	for _, c := range realised(d.Record) {
		if compared = compared || c.comparable; c.comparable && !c.inside {
			outside = append(outside, c.name)
		}
	}
	if len(outside) > 0 {
		a.Text, a.Light = a.Text+"; outside the 90 % intervals: "+strings.Join(outside, ", "), page.Warn
	} else if compared {
		a.Text, a.Light = a.Text+"; the outcome lies inside the 90 % intervals", page.Good
	}
	return a
}

// noTotal is the line for a run whose total amount of work is unknown.
const noTotal = "no prediction: the total amount of work is unknown (--epochs N or --steps N sets it)"

// totalUnknown reports whether a run did some work but its total was neither reported by the job nor given by the user.
func totalUnknown(r *journal.Record) bool {
	return r.Training.Unit != "" && !r.Training.TotalUnits.Known() && r.Handed.Epochs == 0
}

// realisation pairs a prediction with its outcome.
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
	p, o, whole := r.Plan.Prediction, r.Outcome, r.State == journal.Done && !r.EndedEarly()
	list := []realisation{
		{name: "time", predicted: p.Seconds, outcome: float64(r.RealisedSeconds()), one: page.Duration, comparable: whole},
		{name: "cost", predicted: p.CostUSD, outcome: float64(o.CostUSD), one: page.USD, comparable: whole},
		{name: "throughput", predicted: p.Throughput, outcome: float64(o.Throughput), one: rate(r), comparable: r.State == journal.Done},
	}
	for i := range list {
		c := &list[i]
		c.comparable = c.comparable && predicted(c.predicted) && page.Known(c.outcome)
		c.inside = c.comparable && c.outcome >= c.predicted.P5 && c.outcome <= c.predicted.P95
	}
	return list
}

func savingAnswer(d *data) page.Answer {
	r := d.Record
	a := page.Answer{Question: "vs. baseline", Light: page.Muted}
	if s := r.Spot; s != nil && s.SavingPct.Known() && r.State == journal.Done {
		a.Question, a.Text = "vs. on demand", fmt.Sprintf("cost %s against %s on demand alone, at the measured pace", change(-float64(s.SavingPct)), number(s.AloneUSD, page.USD))
		a.Light = changeLight(-s.SavingPct, nil)
		return a
	}
	c := r.Comparison
	if c.Basis != journal.BasisThisRun || !c.SecondsChangePct.Known() && !c.CostChangePct.Known() {
		a.Text = noComparison(r)
		return a
	}
	a.Text = "time " + changeWithInterval(c.SecondsChangePct, c.SecondsChange) + ", cost " + changeWithInterval(c.CostChangePct, c.CostChange) + ", for the same work"
	a.Light = trade(changeLight(c.SecondsChangePct, c.SecondsChange), changeLight(c.CostChangePct, c.CostChange))
	return a
}

// noComparison returns the reason why a run is not compared with its baseline.
func noComparison(r *journal.Record) string {
	switch {
	case r.State == journal.Planned:
		return "not measured: the run was not started"
	case r.State == journal.Running:
		return "compared when the run has finished"
	case r.State != journal.Done:
		return "not compared: the run did not finish"
	case r.Spot != nil && r.Spot.SavingPct.Known():
		return "compared with a machine on demand alone, see spot capacity"
	case r.Spot != nil:
		return "not compared: pace or start-up were not measured"
	}
	switch r.Comparison.Basis {
	case journal.BasisSame:
		return "ran at the baseline configuration"
	case journal.BasisDisturbed:
		return "not comparable: the load of other programs differed between the two measurements"
	case journal.BasisUnsteady:
		return "not comparable: the speed of the machine, or of the training at one allocation, changed during the run"
	case journal.BasisEarlier:
		b := r.Baseline
		return "not measured in this run; an earlier run at the baseline, under unknown conditions, gives " + interval(b.Seconds, page.Duration) +
			" and " + interval(b.CostUSD, page.USD) + " for the same work"
	}
	return "not measured: the baseline configuration was not timed"
}

// changeWithInterval formats a change with its 90 % interval: "−39.4 % (90 % CI −41.7 to −36.9 %)"; changes of ten times and
// more are written as a factor.
func changeWithInterval(n journal.Number, i *sla.Interval) string {
	if !n.Known() {
		return "not measured"
	}
	if i == nil || !page.Known(i.P5) || !page.Known(i.P95) {
		return change(float64(n))
	}
	return change(float64(n)) + " (90" + page.Blank + "% CI " + between(*i, change) + ")"
}

// changeLight rates the change of a quantity that should decrease: good or bad only if the sign holds over the whole
// interval.
func changeLight(n journal.Number, i *sla.Interval) page.Light {
	lo, hi := float64(n), float64(n)
	if i != nil && page.Known(i.P5) && page.Known(i.P95) {
		lo, hi = math.Min(lo, i.P5), math.Max(hi, i.P95)
	}
	switch {
	case !page.Known(lo):
		return page.Muted
	case hi < 0:
		return page.Good
	case lo > 0:
		return page.Bad
	}
	return page.Dark
}

// trade combines the lights of two changes: one good and one bad make a trade-off, which is neither.
func trade(a, b page.Light) page.Light {
	switch {
	case a == b:
		return a
	case a != page.Good && a != page.Bad:
		return b
	case b != page.Good && b != page.Bad:
		return a
	}
	return page.Dark
}
