package run

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"trainopt/internal/duration"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/report/chart"
	"trainopt/sla"
)

const (
	// steadyRisk is the number of consecutive evaluations in which a limit must be at risk before a message is sent.
	steadyRisk = 3
	// lastDelivery bounds the wait for messages at the end of a run.
	lastDelivery = 5 * time.Second
)

// notices sends the messages about a run.
type notices struct {
	sender *notify.Sender        // nil without targets
	risk   map[sla.Objective]int // consecutive evaluations at risk
}

// openNotices prepares the targets of messages and reports those to which none can be sent.
func (r *run) openNotices() {
	if len(r.Config.Notify) == 0 {
		return
	}
	for _, t := range r.Config.Notify {
		if problem := t.Check(); problem != "" {
			r.event(Warning, "%s", problem)
		}
	}
	r.notices = notices{sender: notify.NewSender(r.Config.Notify), risk: map[sla.Objective]int{}}
}

// closeNotices waits for the last messages for a bounded time.
func (r *run) closeNotices() {
	if r.notices.sender != nil {
		for _, failure := range r.notices.sender.Close(lastDelivery) {
			r.View.Event(Warning, failure)
		}
	}
}

// tell sends a message once per run and key. What was sent is stored before, so that a message that another agent may
// have delivered is not repeated.
func (r *run) tell(event notify.Event, key, text string, limit *sla.Verdict) {
	if r.notices.sender == nil || slices.Contains(r.Notified, key) {
		return
	}
	r.Notified = append(r.Notified, key)
	r.saveState()
	m := notify.Message{Event: event, At: r.Clock.Now().UTC(), RunID: r.rec.RunID, Name: r.rec.Name, State: string(r.rec.State), Limit: limit,
		Text: chart.PlainBlanks(text), Command: "optimize report " + shellWord(r.dir.Dir()), Link: r.pageLink()}
	seconds, usd := r.elapsed().Seconds(), r.spent()
	m.Seconds, m.CostUSD = &seconds, &usd
	r.notices.sender.Send(m)
}

// shellWord quotes a path for a shell, if necessary.
func shellWord(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,=") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// pageLink returns the address of the run's page; empty if the user gave none.
func (r *run) pageLink() string {
	link := r.Config.NotifyLink
	switch {
	case link == "":
		return ""
	case strings.Contains(link, "{run}"):
		return strings.ReplaceAll(link, "{run}", url.PathEscape(r.rec.RunID))
	}
	return strings.TrimRight(link, "/") + "/runs/" + url.PathEscape(r.rec.RunID)
}

// tellPlan sends the first plan.
func (r *run) tellPlan(p *journal.Plan) {
	text := fmt.Sprintf("plan: %s", p.Allocation)
	if q := p.Prediction; q != nil {
		text += "; predicted " + withInterval(q.Seconds, duration.Text) + " for " + withInterval(q.CostUSD, chart.USD)
	} else {
		text += "; the whole run is not predicted: the total amount of work is not known"
	}
	r.tell(notify.Planned, "plan", text, nil)
}

// withInterval formats a prediction with its 90 % interval.
func withInterval(v sla.Interval, format func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", format(v.P50), format(v.P5), format(v.P95))
}

// tellLimits sends the limits that are at risk or missed. A projection only puts a limit at risk; while the run continues,
// a limit is missed if its measured value has passed it for good, as time, cost and peak memory do.
func (r *run) tellLimits(final bool) {
	if r.notices.sender == nil {
		return
	}
	for i := range r.verdicts {
		v := &r.verdicts[i]
		grows := v.Objective == sla.Time || v.Objective == sla.Cost || v.Objective == sla.Memory
		passed := v.Value != nil && grows && *v.Value > v.Limit
		switch {
		case v.Status == sla.Violated && (final || passed):
			r.tell(notify.Missed, "missed:"+string(v.Objective), limitText(v, "missed"), v)
			continue
		case final || v.Status != sla.AtRisk && v.Status != sla.Violated || len(r.Progress.Observations()) == 0:
			r.notices.risk[v.Objective] = 0
			continue
		}
		if r.notices.risk[v.Objective]++; r.notices.risk[v.Objective] >= steadyRisk {
			r.tell(notify.AtRisk, "at-risk:"+string(v.Objective), limitText(v, "at risk"), v)
		}
	}
	for _, failure := range r.notices.sender.Failures() {
		r.event(Warning, "%s", failure)
	}
}

// limitText describes a limit and what is measured or projected.
func limitText(v *sla.Verdict, what string) string {
	format := func(x float64) string { return fmt.Sprintf("%.4g %s", x, v.Unit) }
	switch v.Objective {
	case sla.Time:
		format = duration.Text
	case sla.Cost:
		format = chart.USD
	}
	names := map[sla.Objective]string{sla.Time: "deadline", sla.Cost: "budget", sla.Throughput: "throughput", sla.Memory: "memory limit",
		sla.GPUUtil: "GPU utilisation", sla.CPUUtil: "CPU utilisation"}
	text := fmt.Sprintf("%s of %s %s", names[v.Objective], format(v.Limit), what)
	if early := v.Value != nil && (v.Objective == sla.Time || v.Objective == sla.Cost) && *v.Value <= v.Limit; early && v.Projected == nil {
		text += ": the run was stopped at " + format(*v.Value)
	} else if v.Projected != nil {
		text += ": projected " + withInterval(*v.Projected, format)
	} else if v.Value != nil {
		text += ": measured " + format(*v.Value)
	}
	return text
}

// tellEnd sends the end of the run, after its last record.
func (r *run) tellEnd() {
	e := r.ended
	r.tellLimits(true)
	if e.state == journal.Failed {
		r.tell(notify.Failed, "failure", "the training failed: "+endText(e), nil)
	}
	text := string(e.state)
	if e.state != journal.Done {
		text += " (" + endText(e) + ")"
	}
	text += fmt.Sprintf(" after %s for %s", duration.Text(r.elapsed().Seconds()), chart.USD(r.spent()))
	if e.state == journal.Done && len(r.verdicts) > 0 {
		text += map[bool]string{true: "; every limit is met", false: "; not every limit is met"}[!slices.ContainsFunc(r.verdicts, func(v sla.Verdict) bool { return v.Status != sla.Met })]
	}
	r.tell(notify.Ended, "end:"+string(e.state), text, nil)
}

// endText describes why a run ended early.
func endText(e *ending) string {
	switch {
	case e.exit != nil && e.state == journal.Failed:
		return describeExit(*e.exit)
	case e.detail != "":
		return e.reason + ": " + e.detail
	}
	return e.reason
}
