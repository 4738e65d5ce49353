package replay

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/report/page"
)

// formats is the registry of output formats, one line each.
var formats = page.Formats[*Audit]{
	"text":     page.TextOf((*Audit).document),
	"markdown": page.MarkdownOf((*Audit).document),
	"html":     page.HTMLOf((*Audit).Document),
	"json":     page.JSONOf(func(a *Audit) *Audit { return a }),
	"csv":      page.CSVOf((*Audit).lines),
}

// Formats returns the names of the formats of Render.
func Formats() []string { return formats.Names() }

// Render writes an audit as text, markdown, html, json or csv (one line for each job). The output depends on the audit
// alone.
func (a *Audit) Render(w io.Writer, format string) error {
	return formats.Write(w, "audit of a cluster", a, format)
}

func duration(n page.Exact) string { return page.Duration(float64(n)) }

func usd(n page.Exact) string { return page.USD(float64(n)) }

// percent formats a relative change.
func percent(n page.Exact) string { return page.Change(100 * float64(n)) }

// with formats an estimate and its interval.
func (e jobEstimate) with(format func(page.Exact) string) string {
	if i := e.interval(format); i != "" {
		return fmt.Sprintf("%s (%s)", format(e.Value), i)
	}
	return format(e.Value)
}

// interval formats the interval of an estimate; empty if it is unknown.
func (e jobEstimate) interval(format func(page.Exact) string) string {
	if !page.Known(float64(e.Value)) || !page.Known(float64(e.Lo)) {
		return ""
	}
	return format(e.Lo) + " … " + format(e.Hi)
}

// document converts an audit to a document.
func (a *Audit) document() page.Document {
	day := func(n page.Exact) string { return time.Unix(int64(n), 0).UTC().Format("2006-01-02 15:04:05") }
	d := page.Document{
		Title:    fmt.Sprintf("Audit of the cluster: %s under %s", page.Plural(a.Submitted, "job"), a.policyWords()),
		Subtitle: fmt.Sprintf("%s to %s UTC", day(a.From), day(a.Until)),
		Answers:  a.answers(),
		Sections: []page.Section{
			{ID: "fidelity", Title: "Live and simulated", Intro: fmt.Sprintf("The %s that completed, live and in a simulation of the same day with the rates and move costs that were measured; not compared while more than a tenth of all jobs have not ended, or if the devices were changed.", page.Plural(a.Compared, "job")),
				Blocks: []page.Block{{Table: a.fidelity()}}},
			{ID: "policies", Title: "Other policies on the same jobs", Intro: "Simulated, over all jobs that completed or have not ended. Intervals (95 %) contain other rates and move costs within their measured spread, and other jobs drawn from those of the day; not other arrival times. One day: 90 % of the simulations, each of all these jobs; decisions between nearly equal jobs make days differ.",
				Blocks: a.policies()},
			{ID: "calibration", Title: "Predictions of the scheduler", Blocks: []page.Block{{Table: a.calibration()}}},
			{ID: "waste", Title: "Device time without progress", Blocks: []page.Block{{Table: a.wasted()}}},
			a.faults(),
			a.returns(),
			a.shared(),
			{ID: "jobs", Title: "Jobs", Blocks: []page.Block{{Table: a.jobs()}}},
			{ID: "notes", Title: "Assumptions", Blocks: []page.Block{{Notes: a.Notes}}},
		},
	}
	return d
}

// policyWords names the policies of the day or, of many, the first and the number of those that followed.
func (a *Audit) policyWords() string {
	if n := len(a.Policies) - 1; n > 2 {
		return fmt.Sprintf("%s, then %d others in turn", a.Policies[0], n)
	}
	return strings.Join(a.Policies, ", then ")
}

// Document returns the audit as a document with the picture of the policies.
func (a *Audit) Document() page.Document {
	d := a.document()
	e := page.Estimates{Title: "Mean completion time by policy", Label: page.Duration, Why: "no policy could be simulated"}
	for _, equal := range a.equalPolicies() {
		if p := equal[0]; p.Failed == "" {
			e.Rows = append(e.Rows, page.Estimate{Name: named(equal), Mean: float64(p.MeanJCTS.Value), Lo: float64(p.MeanJCTS.Lo), Hi: float64(p.MeanJCTS.Hi), Text: duration(p.MeanJCTS.Value)})
		}
	}
	picture := e.Picture()
	d.Wide = &picture
	return d
}

// answers states the fidelity and the best policy.
func (a *Audit) answers() []page.Answer {
	out := page.Answer{Question: "Simulated", Light: page.Good}
	if change := (a.Simulated.MeanJCTS - a.Live.MeanJCTS) / a.Live.MeanJCTS; !page.Known(float64(change)) {
		out.Light, out.Text = page.Muted, fmt.Sprintf("not compared with live: %s completed, %d not ended", page.Plural(a.Compared, "job"), a.Running)
	} else {
		out.Text = fmt.Sprintf("mean completion time %s, live %s (%s)", duration(a.Simulated.MeanJCTS), duration(a.Live.MeanJCTS), percent(change))
		outside := a.Live.MeanJCTS < a.OneDay.Lo || a.Live.MeanJCTS > a.OneDay.Hi
		if !outside && math.Abs(float64(change)) > 0.01 {
			out.Text += fmt.Sprintf("; 90 %% of the simulations of the day are between %s and %s", duration(a.OneDay.Lo), duration(a.OneDay.Hi))
		}
		if math.Abs(float64(change)) > 0.05 && outside {
			out.Light = page.Warn
		}
	}
	return append([]page.Answer{out}, a.least()...)
}

// least states the policy with the least mean completion time, if any is known.
func (a *Audit) least() (out []page.Answer) {
	if len(a.Others) > 0 && page.Known(float64(a.Others[0].MeanJCTS.Value)) {
		best := a.Others[0]
		text := fmt.Sprintf("%s: mean completion time %s against the policy in force, both simulated", best.Policy, best.Change.with(percent))
		if best.InForce {
			text = best.Policy + ", the policy in force; no other one is better in the simulation"
		}
		if saved := float64(best.Saved.Value); saved > 0 && !best.InForce {
			text += fmt.Sprintf(", %s less in all", page.Duration(saved))
		}
		out = append(out, page.Answer{Question: "Least time", Text: text})
	}
	return out
}

func (a *Audit) fidelity() *page.Table {
	change := func(live, simulated page.Exact) string { return percent((simulated - live) / live) }
	l, s := a.Live, a.Simulated
	rows := [][]string{
		{"mean completion time", duration(l.MeanJCTS), duration(s.MeanJCTS), change(l.MeanJCTS, s.MeanJCTS)},
		{"median completion time", duration(l.MedianJCTS), duration(s.MedianJCTS), change(l.MedianJCTS, s.MedianJCTS)},
		{"makespan", duration(l.MakespanS), duration(s.MakespanS), change(l.MakespanS, s.MakespanS)},
		{"cost", usd(l.CostUSD), usd(s.CostUSD), change(l.CostUSD, s.CostUSD)},
		{"starts after the first", page.Count(float64(l.Moves)), page.Count(float64(s.Moves)), ""},
		{"absolute error of a job, median", "", "", strings.TrimPrefix(percent(a.MedianError), "+")},
	}
	if a.Deadlines > 0 && a.Running == 0 {
		rows = append(rows, []string{"deadlines kept", fmt.Sprintf("%s of %d", page.Count(float64(l.DeadlinesKept)), a.Deadlines), fmt.Sprintf("%.3g of %d", float64(s.DeadlinesKept), a.Deadlines), ""})
	}
	if a.Unfinished > 0 {
		rows = append(rows, []string{"deadlines of jobs that did not finish: missed", page.Count(float64(a.Unfinished)), "", ""})
	}
	return page.Grid([]string{"", "live", "simulated", "difference"}, rows)
}

// policies returns the tables of the policies, each with a row for those that are equal in every figure: their completion
// times, and the rest.
func (a *Audit) policies() []page.Block {
	times := &page.Table{Columns: append(page.Left("policy"), page.Right("mean completion time", "95 % interval", "one day", "change", "95 % interval")...), Named: true}
	rest := &page.Table{Columns: append(page.Left("policy"), page.Right("makespan", "cost", "finish-time fairness", "starts again")...), Named: true}
	if a.Deadlines > 0 {
		rest.Columns = append(rest.Columns, page.Right("deadlines kept")...)
	}
	var notes []string
	for _, equal := range a.equalPolicies() {
		p, name := equal[0], named(equal)
		if p.Failed != "" {
			notes = append(notes, fmt.Sprintf("%s: not simulated: %s", name, p.Failed))
			continue
		}
		if len(equal) > 1 {
			var names []string
			for _, q := range equal[1:] {
				names = append(names, q.Policy)
			}
			notes = append(notes, fmt.Sprintf("Equal to %s in every figure: %s.", p.Policy, strings.Join(names, ", ")))
		}
		number := func(n page.Exact) string { return page.Significant(float64(n)) }
		times.Rows = append(times.Rows, page.Row(name, duration(p.MeanJCTS.Value), p.MeanJCTS.interval(duration), fmt.Sprintf("%s … %s", duration(p.OneDay.Lo), duration(p.OneDay.Hi)), percent(p.Change.Value), p.Change.interval(percent)))
		row := []page.Cell{{Text: name}, {Text: duration(p.MakespanS.Value)}, {Text: usd(p.CostUSD.Value), Sub: p.CostUSD.interval(usd)},
			{Text: number(p.Fairness.Value), Sub: p.Fairness.interval(number)}, {Text: page.Count(float64(p.Moves))}}
		if a.Deadlines > 0 {
			row = append(row, page.Cell{Text: fmt.Sprintf("%.3g of %d", float64(p.DeadlinesKept.Value), a.Deadlines)})
		}
		rest.Rows = append(rest.Rows, row)
	}
	var blocks []page.Block
	if len(times.Rows) > 0 {
		blocks = []page.Block{{Table: times}, {Table: rest}}
	} else {
		notes = append(notes, "No policy was simulated.")
	}
	if notes != nil {
		blocks = append(blocks, page.Block{Notes: notes})
	}
	return blocks
}

// named returns the name of a group of equal policies.
func named(equal []policyAudit) string {
	name := equal[0].Policy
	if equal[0].InForce {
		name += " (live)"
	}
	if n := len(equal) - 1; n > 0 {
		name += fmt.Sprintf(" and %d equal", n)
	}
	return name
}

// equalPolicies groups the policies that are equal in every figure.
func (a *Audit) equalPolicies() (out [][]policyAudit) {
	group := map[string]int{}
	for _, p := range a.Others {
		figures := p
		figures.Policy, figures.InForce = "", false
		key := fmt.Sprint(figures) // NaN is equal to NaN
		if _, ok := group[key]; !ok {
			group[key] = len(out)
			out = append(out, nil)
		}
		out[group[key]] = append(out[group[key]], p)
	}
	return out
}

func (a *Audit) calibration() *page.Table {
	var rows [][]string
	for _, c := range []struct {
		name string
		calibration
	}{{"rates on the devices received", a.Rates}, {"move costs", a.MoveCosts}} {
		ratio := page.NoData
		if c.N > 0 {
			ratio = page.Significant(float64(c.MedianRatio))
		}
		rows = append(rows, []string{c.name, strconv.Itoa(c.N), ratio, strings.TrimPrefix(percent(c.MedianError), "+"), page.Share(float64(c.Within10))})
	}
	if st := a.Starts; st.N > 0 {
		rows = append(rows, []string{fmt.Sprintf("starts of waiting jobs: %s in their 90 %% interval", page.Share(float64(st.Within90))), strconv.Itoa(st.N), "",
			fmt.Sprintf("%s of a wait of %s", duration(st.MedianErrorS), duration(st.MedianWaitS)), ""})
	}
	return page.Grid([]string{"", "predictions", "seen / predicted, median", "absolute error, median", "within 10 %"}, rows)
}

func (a *Audit) wasted() *page.Table {
	w := a.Waste
	rows := [][]string{{"held by jobs", duration(w.HeldS), ""}}
	for _, r := range []struct {
		name string
		v    page.Exact
	}{{"starting", w.StartingS}, {"saving", w.SavingS}, {fmt.Sprintf("for steps lost (%d ends without a request)", w.Lost), w.RepeatedS}, {"free while jobs waited, at most", w.IdleS}} {
		rows = append(rows, []string{r.name, duration(r.v), page.Share(float64(r.v / w.HeldS))})
	}
	return page.Grid([]string{"", "device time", "of the time held"}, rows)
}

// faults is the section on faults.
func (a *Audit) faults() page.Section {
	s := page.Section{ID: "faults", Title: "Faults"}
	f, w := a.Faults, a.Waste
	if f == (faults{}) && w.Lost == 0 {
		s.Blocks = []page.Block{{Notes: []string{"None was recorded."}}}
		return s
	}
	s.Blocks = []page.Block{{Fields: page.Fields(
		"restarts of the server", strconv.Itoa(f.Restarts),
		"time without a server, at most", duration(f.UnservedS),
		"device time free in it, while jobs waited or had left", duration(f.UnservedIdleS),
		"device time of nodes that were down", duration(f.DownS),
		"lives that ended without a request", strconv.Itoa(w.Lost),
		"restarts of trainings that no policy decided", strconv.Itoa(f.Relaunches),
		"device time for steps lost", duration(w.RepeatedS))}}
	return s
}

// returns is the section on the return of unused devices.
func (a *Audit) returns() page.Section {
	s := page.Section{ID: "returned", Title: "Unused devices returned"}
	r := a.Returned
	if r == nil {
		s.Blocks = []page.Block{{Notes: []string{"No job had devices taken back."}}}
		return s
	}
	s.Blocks = []page.Block{{Fields: page.Fields(
		"jobs with fewer devices", fmt.Sprintf("%d, %d more were slower and have them again", r.Shrinks, r.Undone),
		"predicted by the scheduler", duration(r.PredictedS)+" earlier in all",
		"mean completion time without it, simulated", duration(r.WithoutS),
		"change of the simulated day by it", r.Change.with(percent))}}
	return s
}

func (a *Audit) jobs() *page.Table {
	t := &page.Table{Columns: append(page.Left("job", "state"), page.Right("starts", "live", "simulated", "error", "cost")...), Named: true, Long: true}
	for _, j := range a.Jobs {
		t.Rows = append(t.Rows, page.Row(fmt.Sprintf("%d %s", j.ID, page.Clean(j.Name)), j.State, strconv.Itoa(j.Starts), duration(j.JCTS), duration(j.SimulatedJCTS), percent(j.Error), page.USD(float64(j.CostUSD))))
	}
	return t
}

// lines returns the jobs as CSV.
func (a *Audit) lines() [][]string {
	out := [][]string{{"id", "name", "user", "state", "starts", "jct_s", "simulated_jct_s", "error", "deadline_s", "cost_usd"}}
	for _, j := range a.Jobs {
		out = append(out, []string{strconv.Itoa(j.ID), j.Name, j.User, j.State, strconv.Itoa(j.Starts), page.CSVCell(float64(j.JCTS), 3), page.CSVCell(float64(j.SimulatedJCTS), 3),
			page.CSVCell(float64(j.Error), 4), page.CSVCell(float64(j.DeadlineS), 3), page.CSVCell(float64(j.CostUSD), 6)})
	}
	return out
}
