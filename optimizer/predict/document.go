package predict

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/chart"
	"trainopt/optimizer/history/transfer"
	"trainopt/sla"
)

// document is an answer in words, as text, Markdown and HTML show it.
type document struct {
	Title, Sub string
	Fields     []field
	Sections   []section
}

type field struct{ Name, Value string }

type section struct {
	ID, Title string
	Intro     string
	Table     *table
	Items     []string
}

// table is a grid of words; columns from Right on are numbers.
type table struct {
	Columns []string
	Right   int
	Rows    [][]string
	Marked  int // the row of the chosen option; −1 none
}

// document puts an answer into words.
func (a *Answer) document() document {
	q := a.Question
	d := document{Title: "Prediction for " + chart.Clean(q.subject()), Sub: jobWords(q.Job, q.Batch), Fields: a.fields()}
	add := func(s section) {
		if s.Table != nil && len(s.Table.Rows) > 0 || len(s.Items) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	add(section{ID: "basis", Title: "What it rests on", Items: a.basisItems()})
	add(section{ID: "options", Title: "The choices", Intro: a.frontIntro(), Table: a.table(a.front())})
	add(section{ID: "ondemand", Title: "Cheapest that fit, on demand", Intro: a.checkedWords(a.OnDemand), Table: a.table(a.OnDemand)})
	add(section{ID: "spot", Title: "Cheapest that fit, spot", Intro: "expected interruptions are in time and cost; the column “for them” is what they cost", Table: a.spotTable()})
	var changes []string
	for _, c := range a.Changes {
		changes = append(changes, c.Words)
	}
	add(section{ID: "changes", Title: "What would change the choice", Items: changes})
	add(section{ID: "notes", Title: "Notes", Items: a.Notes})
	return d
}

// checkedWords explains the mark of options whose fit could not be checked.
func (a *Answer) checkedWords(list []int) string {
	for _, i := range list {
		if o := &a.Options[i]; o.Fit == NotSeen {
			return "?: " + o.Lacks
		}
	}
	return ""
}

// fields are the answer itself.
func (a *Answer) fields() []field {
	q := a.Question
	list := []field{{"work", a.Work.workWords()}}
	add := func(name, format string, args ...any) { list = append(list, field{name, fmt.Sprintf(format, args...)}) }
	if a.Chosen < 0 {
		add("chosen", "nothing: %s", a.Nearest)
		return list
	}
	o, c := &a.Options[a.Chosen], a.chosenConfiguration()
	add("chosen", "%s, %s an hour (preference %s)", a.optionWords(o), usd(float64(o.Hourly)), preferenceWords(q.Preference))
	add("time", "%s", interval(o.Seconds, duration))
	cost := interval(o.CostUSD, usd)
	if o.Interruption > 0 {
		cost += fmt.Sprintf(", of that %s for interruptions", usd(float64(o.Interruption)))
	}
	add("cost", "%s", cost)
	if known(c.Throughput) {
		add("throughput", "%s samples/s", interval(c.Throughput, significant))
	} else if a.Work.Quantity != transfer.Trainings {
		add("speed", "%s %s an hour", interval(scaled(c.Rate.Value, 3600), significant), a.Work.Unit)
	}
	if c.GPUs > 0 {
		add("GPU memory", "%s", peakWords(c.GPUPeak, float64(o.Offer.GPUMemory)))
	}
	add("memory", "%s", peakWords(c.HostPeak, float64(o.Offer.Memory)))
	add("resources", "%s of the most that any choice holds", chart.PlainBlanks(chart.Share(o.Resource)))
	if l := q.limits(); l.any() {
		words := fmt.Sprintf("%s: kept with a probability of %s", l.words(), chanceWords(o.Chance))
		if !a.Feasible {
			words += "; " + a.Nearest
		}
		add("limits", "%s", words)
	}
	add("basis", "%s", basisWords(a.Basis, c.Rate.Prior))
	add("spread", "%s", a.spreadWords())
	return list
}

func peakWords(peak sla.Interval, has float64) string {
	gib := func(v float64) string { return significant(v) + " GiB" }
	if !known(peak) {
		return "peak not known: fit not checked"
	}
	text := "peak " + interval(peak, gib)
	if has > 0 {
		text += ", of " + gib(has)
	}
	return text
}

// spreadWords says where the width of the time comes from, and what a probe would do to it.
func (a *Answer) spreadWords() string {
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
		text += fmt.Sprintf("; a probe on %s would leave %s to %s of undisturbed time, now %s", p.Configuration.words(), duration(p.Seconds.P5), duration(p.Seconds.P95), ends(a.chosenConfiguration().Seconds, duration))
	}
	return text
}

// mostGrounds bounds how many are listed.
const mostGrounds = 6

func (a *Answer) basisItems() []string {
	var out []string
	for i := range a.Basis {
		g := &a.Basis[i]
		if i == mostGrounds {
			out = append(out, fmt.Sprintf("… %d more (all: --format json)", len(a.Basis)-i))
			break
		}
		out = append(out, fmt.Sprintf("%3.0f %%  %s; similarity %.2f", 100*g.Weight, g.words(), g.Similarity))
	}
	return out
}

// front are the positions of the options on the front, the fastest first, and the chosen one.
func (a *Answer) front() []int {
	var list []int
	for i := range a.Options {
		if a.Options[i].OnFront || i == a.Chosen {
			list = append(list, i)
		}
	}
	sortBy(list, func(i int) []float64 {
		o := &a.Options[i]
		return []float64{o.Seconds.P50, o.CostUSD.P50, o.Resource}
	})
	return list
}

func (a *Answer) frontIntro() string {
	text := fmt.Sprintf("%s weighed %s; these are best in time, cost or resources", chart.Plural(len(a.Options), "option"), a.Question.market())
	count := 0
	for _, o := range a.Options {
		if o.Market == a.Question.market() || o.Market == Owned {
			count++
		}
	}
	text = strings.Replace(text, chart.Plural(len(a.Options), "option"), chart.Plural(count, "option"), 1)
	if a.Question.limits().any() && a.Feasible {
		text += " of those that keep the limits"
	}
	return text
}

// mostRows bounds a table for people.
const mostRows = 12

// table shows options; a long list is cut around the chosen one.
func (a *Answer) table(list []int) *table {
	unit := timeUnit(a.median())
	t := &table{Columns: []string{"configuration", "machine", "$/h", unit.name + " (P5–P95)", "USD (P5–P95)"}, Right: 2, Marked: -1}
	limited := a.Question.limits().any()
	if limited {
		t.Columns = append(t.Columns, "keeps")
	}
	from := 0
	for k, i := range list {
		if i == a.Chosen {
			from = min(max(0, k-mostRows/2), max(0, len(list)-mostRows))
		}
	}
	for _, i := range list[from:min(len(list), from+mostRows)] {
		o := &a.Options[i]
		name := a.Configurations[o.Config].words()
		if o.Fit == NotSeen {
			name += " ?"
		}
		row := []string{name, o.Machine, price3(float64(o.Hourly)), compact(scaled(o.Seconds, 1/unit.size), significant), compact(o.CostUSD, price3)}
		if limited {
			row = append(row, chanceWords(o.Chance))
		}
		if i == a.Chosen {
			t.Marked = len(t.Rows)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// spotTable has what interruptions cost beside.
func (a *Answer) spotTable() *table {
	t := a.table(a.SpotCapacity)
	t.Columns = append(t.Columns, "for them")
	for k := range t.Rows {
		t.Rows[k] = append(t.Rows[k], price3(float64(a.Options[a.SpotCapacity[k]].Interruption)))
	}
	return t
}

func (a *Answer) median() float64 {
	if a.Chosen >= 0 {
		return a.Options[a.Chosen].Seconds.P50
	}
	return a.Configurations[0].Seconds.P50
}

type unit struct {
	size float64
	name string
}

// timeUnit is what a column of times is written in.
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

// compact writes an interval as "2.13 (1.68–2.86)".
func compact(i sla.Interval, one func(float64) string) string {
	if i.P5 == i.P95 {
		return one(i.P50)
	}
	return fmt.Sprintf("%s (%s–%s)", one(i.P50), one(i.P5), one(i.P95))
}

// price3 writes money without its sign: cents from a dollar up, three significant digits below and whole dollars from a thousand.
func price3(v float64) string {
	if v >= 1 && v < 999.5 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	return significant(v)
}

// sortBy sorts positions by their keys, smallest first, stable.
func sortBy(list []int, keys func(int) []float64) {
	slices.SortStableFunc(list, func(i, j int) int { return slices.Compare(keys(i), keys(j)) })
}
