package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// document converts an answer to a document.
func (a *answer) document() page.Document {
	q := a.Question
	picture := a.picture()
	d := page.Document{Title: "Prediction for " + page.Clean(q.subject()), Subtitle: jobWords(q.Job, q.Batch), Answers: a.answers(), Wide: &picture,
		Footer: "All numbers are predicted unless they are said to be measured; intervals are from the 5th to the 95th percentile. Prices are those of the dated catalogue."}
	add := func(id, title, intro string, b page.Block) {
		if b.Table != nil && len(b.Table.Rows) > 0 || len(b.Notes) > 0 {
			d.Sections = append(d.Sections, page.Section{ID: id, Title: title, Intro: intro, Blocks: []page.Block{b}})
		}
	}
	add("basis", "What it rests on", "", page.Block{Table: a.basisTable()})
	add("options", "The choices", joined(a.frontIntro(), a.marksWords(a.cut(a.front()))), page.Block{Table: a.table(a.front(), false)})
	add("on-demand", "Cheapest that fit, on demand", a.marksWords(a.cut(a.OnDemand)), page.Block{Table: a.table(a.OnDemand, false)})
	add("spot", "Cheapest that fit, spot", joined("expected interruptions are in time and cost; the last column is what those cost", a.marksWords(a.cut(a.SpotCapacity))), page.Block{Table: a.table(a.SpotCapacity, true)})
	var changes []string
	for _, c := range a.Changes {
		changes = append(changes, c.Words)
	}
	add("changes", "What would change the choice", "", page.Block{Notes: changes})
	add("notes", "Notes", "", page.Block{Notes: a.Notes})
	return d
}

// Marks of options in tables.
const (
	unchecked = " ?" // its requirements are unknown
	beyond    = " *" // its speed is extrapolated
)

// marksWords returns a legend of the marks that occur in a list of options.
func (a *answer) marksWords(list []int) string {
	var lacks, far string
	for _, i := range list {
		o := &a.Options[i]
		if o.Fit == notChecked && lacks == "" {
			lacks = "?:" + page.Blank + o.Lacks
		}
		if a.extrapolated(o) {
			far = "*:" + page.Blank + "its speed is beyond what was measured"
		}
	}
	return joined(lacks, far)
}

func (a *answer) extrapolated(o *option) bool {
	return len(a.Configurations[o.Config].Rate.Extrapolates) > 0
}

// joined joins the non-empty texts.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// answers returns the headline results. Without a chosen option, only the reason and the amount of work are listed.
func (a *answer) answers() []page.Answer {
	q := a.Question
	var list []page.Answer
	add := func(name, format string, args ...any) {
		list = append(list, page.Answer{Question: name, Text: fmt.Sprintf(format, args...)})
	}
	if a.Chosen < 0 {
		add("Chosen", "nothing: %s", a.Nearest)
		add("Work", "%s", a.Work.words())
		return list
	}
	o, c := &a.Options[a.Chosen], a.chosenConfiguration()
	price := ""
	if dated := o.dated(); dated != "" {
		price = ", price of " + dated + cost.AgeWords(dated, q.Today)
	}
	add("Chosen", "%s, %s per hour%s (preference %s)", a.optionWords(o), page.USD(float64(o.Hourly)), price, preferenceWords(q.Preference))
	add("Time", "%s", interval(o.Seconds, page.Duration))
	spent := interval(o.CostUSD, page.USD)
	if o.Interruption > 0 {
		spent += fmt.Sprintf(", of that %s for interruptions", page.USD(float64(o.Interruption)))
	}
	add("Cost", "%s", spent)
	if l := q.limits(); l.any() {
		words := fmt.Sprintf("%s: kept with a probability of %s", l.words(), chanceWords(o.Chance))
		if !a.Feasible {
			words += "; " + a.Nearest
		}
		add("Limits", "%s", words)
		list[len(list)-1].Light = light(a.Feasible)
	}
	if known(c.Throughput) {
		add("Throughput", "%s samples/s", interval(c.Throughput, page.Significant))
	} else if a.Work.Quantity != transfer.Trainings {
		add("Speed", "%s %s per hour", interval(scaled(c.Rate.Value, 3600), page.Significant), a.Work.Unit)
	}
	if c.GPUs > 0 {
		add("GPU memory", "%s", peakWords(c.GPUPeak, float64(o.Offer.GPUMemory)))
	}
	add("Memory", "%s", peakWords(c.HostPeak, float64(o.Offer.Memory)))
	add("Resources", "%s of the most %s that any choice holds", page.Share(o.Resource), map[bool]string{true: "GPUs", false: "CPUs"}[c.GPUs > 0])
	add("Work", "%s", a.Work.words())
	add("Basis", "%s", basisWords(a.Basis, c.Rate.Prior))
	add("Spread", "%s", a.spreadWords())
	return list
}

// peakWords formats a predicted memory peak with the capacity in GiB, 0 for an unknown one.
func peakWords(peak sla.Interval, has float64) string {
	gib := func(v float64) string { return page.Significant(v) + " GiB" }
	if !known(peak) {
		return "peak not known: fit not checked"
	}
	text := "peak " + interval(peak, gib)
	if has > 0 {
		text += ", of " + gib(has)
	}
	return text
}

// spreadWords describes the sources of uncertainty in the time and the expected effect of a probe.
func (a *answer) spreadWords() string {
	u := a.Uncertainty
	var parts []string
	for _, p := range []struct {
		name  string
		share float64
	}{{"the speed", u.Rate}, {"the amount of work", u.Work}, {"the start-up", u.Startup}} {
		if p.share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", p.name, 100*p.share))
		}
	}
	text := "from " + strings.Join(parts, ", ")
	if len(parts) == 0 {
		text = "none: the time is exact"
	}
	if p := u.Probe; p != nil {
		text += fmt.Sprintf("; a probe on %s would leave %s to %s of undisturbed time, now %s", p.Configuration.words(), page.Duration(p.Seconds.P5), page.Duration(p.Seconds.P95), ends(a.chosenConfiguration().Seconds, page.Duration))
	}
	return text
}

// mostGrounds limits the listed grounds.
const mostGrounds = 6

// basisTable returns a table of the grounds of the choice.
func (a *answer) basisTable() *page.Table {
	t := &page.Table{Columns: append(page.Right("share", "similarity"), page.Left("measured")...)}
	for i := range a.Basis {
		g := &a.Basis[i]
		if i == mostGrounds {
			t.Rows = append(t.Rows, page.Row("", "", fmt.Sprintf("… %d more (all: --format json)", len(a.Basis)-i)))
			break
		}
		t.Rows = append(t.Rows, page.Row(page.Share(g.Weight), strconv.FormatFloat(g.Similarity, 'f', 2, 64), g.words()))
	}
	return t
}

// front returns the positions of the options on the front and the chosen one, fastest first.
func (a *answer) front() []int {
	var list []int
	for i := range a.Options {
		if a.Options[i].OnFront || i == a.Chosen {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(i, j int) int {
		o, p := &a.Options[i], &a.Options[j]
		return cmp.Or(cmp.Compare(o.Seconds.P50, p.Seconds.P50), cmp.Compare(o.CostUSD.P50, p.CostUSD.P50), cmp.Compare(o.Resource, p.Resource))
	})
	return list
}

func (a *answer) frontIntro() string {
	weighed := stat.Count(a.Options, func(o option) bool { return o.among(a.Question.market()) })
	text := fmt.Sprintf("%s weighed; these are best in time, cost or resources", page.Plural(weighed, "option"))
	if a.Question.limits().any() && a.Feasible {
		text += " of those that keep the limits"
	}
	return text
}

// mostRows limits the rows of a displayed table.
const mostRows = 12

// cut returns the rows of a list to display: of a long list, those around the chosen option.
func (a *answer) cut(list []int) []int {
	from := min(max(0, slices.Index(list, a.Chosen)-mostRows/2), max(0, len(list)-mostRows))
	return list[from:min(len(list), from+mostRows)]
}

// table returns a table of options, optionally with the cost of interruptions.
func (a *answer) table(list []int, interruptions bool) *page.Table {
	unit, limited := timeUnit(a.median()), a.Question.limits().any()
	t := &page.Table{Columns: append(page.Left("configuration", "machine"), page.Right("$/h", "priced", unit.name+" (P5–P95)", "USD (P5–P95)")...)}
	if limited {
		t.Columns = append(t.Columns, page.Right("keeps")...)
	}
	if interruptions {
		t.Columns = append(t.Columns, page.Right("for those")...)
	}
	for _, i := range a.cut(list) {
		o := &a.Options[i]
		name := a.Configurations[o.Config].words()
		if o.Fit == notChecked {
			name += unchecked
		}
		if a.extrapolated(o) {
			name += beyond
		}
		if i == a.Chosen {
			name = "▸ " + name
		}
		row := page.Row(strings.ReplaceAll(name, " ", page.Blank), o.Machine, dollars(float64(o.Hourly)), month(o.dated()), compact(scaled(o.Seconds, 1/unit.size), page.Significant), compact(o.CostUSD, dollars))
		if limited {
			row = append(row, page.Cell{Text: chanceWords(o.Chance), Light: light(o.Feasible)})
		}
		if interruptions {
			row = append(row, page.Cell{Text: dollars(float64(o.Interruption))})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// month returns the year and the month of a date, which in a table leave room for the rest.
func month(dated string) string { return dated[:min(len(dated), len("2006-01"))] }

func light(ok bool) page.Light {
	if ok {
		return page.Good
	}
	return page.Bad
}

func (a *answer) median() float64 {
	if a.Chosen >= 0 {
		return a.Options[a.Chosen].Seconds.P50
	}
	return a.Configurations[0].Seconds.P50
}

// unit is the unit of a column; size is in seconds.
type unit struct {
	size float64
	name string
}

// timeUnit returns the unit of a column of times.
func timeUnit(seconds float64) unit {
	switch {
	case seconds >= 3*86400:
		return unit{86400, "days"}
	case seconds >= 5400:
		return unit{3600, "hours"}
	case seconds >= 120:
		return unit{60, "minutes"}
	}
	return unit{1, "seconds"}
}

// compact formats an interval as "2.13 (1.68–2.86)".
func compact(i sla.Interval, one func(float64) string) string {
	if i.P5 == i.P95 {
		return one(i.P50)
	}
	return fmt.Sprintf("%s (%s–%s)", one(i.P50), one(i.P5), one(i.P95))
}

// dollars formats an amount without its sign: three significant digits, cents from one to ten dollars.
func dollars(v float64) string {
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	return page.Significant(v)
}
