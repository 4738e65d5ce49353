package predict

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// plural formats a count, which may be fractional, with its noun.
func plural(n float64, word string) string {
	if n != 1 {
		word += "s"
	}
	return page.Count(n) + " " + word
}

// interval formats the median with the ends in parentheses.
func interval(i sla.Interval, one func(float64) string) string {
	switch {
	case !known(i):
		return page.NoData
	case i.P5 == i.P95:
		return one(i.P50)
	}
	return one(i.P50) + " (" + ends(i, one) + ")"
}

func ends(i sla.Interval, one func(float64) string) string {
	return one(i.P5) + " to " + one(i.P95)
}

// words returns the display name of a configuration: "4 × T4", "2 machines of 8 × A100 40GB", "16 CPUs".
func (c *configuration) words() string {
	text := fmt.Sprintf("%d × %s", c.GPUs, c.GPU)
	if c.GPUs == 0 {
		text = page.Plural(c.CPUs, "CPU")
	}
	if c.Nodes > 1 {
		text = fmt.Sprintf("%d machines of %s", c.Nodes, text)
	}
	return text
}

// optionWords returns the display name of an option: "4 × T4, aws:g4dn.12xlarge, on demand".
func (a *answer) optionWords(o *option) string {
	return fmt.Sprintf("%s, %s, %s", a.Configurations[o.Config].words(), o.Machine, o.Market)
}

// chanceWords formats a probability without claiming certainty.
func chanceWords(p float64) string {
	switch {
	case p > 0.995:
		return "> 99 %"
	case p < 0.005:
		return "< 1 %"
	}
	return strconv.FormatFloat(100*p, 'f', 0, 64) + " %"
}

func preferenceWords(p plan.Preference) string {
	name := p.String()
	if strings.Contains(name, "=") {
		return "weights " + name
	}
	return name
}

// deadlineUp formats seconds rounded up to a plausible deadline.
func deadlineUp(seconds float64) string {
	step := 1.0
	switch {
	case seconds >= 48*3600-600:
		step = 3600
	case seconds >= 36000:
		step = 600
	case seconds >= 600:
		step = 60
	}
	return page.Duration(math.Ceil(seconds/step) * step)
}

// budgetUp formats an amount rounded up to three significant digits.
func budgetUp(v float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return "$" + strconv.FormatFloat(math.Ceil(v/unit-1e-9)*unit, 'f', max(0, int(-math.Floor(math.Log10(unit)+1e-9))), 64)
}

// percent formats the relative change, without sign.
func percent(now, was float64) string { return fmt.Sprintf("%.0f %%", 100*math.Abs(now/was-1)) }

// jobWords describes the training.
func jobWords(j history.Job, batch float64) string {
	var parts []string
	add := func(text, value string) {
		if value != "" {
			parts = append(parts, text+value)
		}
	}
	add("model ", j.Model)
	if j.Family != j.Model {
		add("family ", j.Family)
	}
	add("data set ", j.Dataset)
	add("framework ", j.Framework)
	for _, n := range []struct {
		value float64
		word  string
	}{{j.Params, " parameters"}, {j.Layers, " layers"}, {j.DataCount, " samples per epoch"}, {j.DataSizeMB, " MB"}, {batch, " samples per batch"}} {
		if !math.IsNaN(n.value) {
			parts = append(parts, page.Count(n.value)+n.word)
		}
	}
	return strings.Join(parts, ", ")
}

// words describes the amount of work.
func (w *work) words() string {
	text := w.Words
	if w.Amount.P5 != w.Amount.P95 {
		text += fmt.Sprintf(": %s to %s %s", page.Significant(w.Amount.P5), page.Significant(w.Amount.P95), w.Unit)
	}
	return text
}

// boundsWords describes the bounds of the question.
func (q *Question) boundsWords() string {
	kind := "with GPUs"
	if q.CPUOnly {
		kind = "without GPUs"
	}
	text := "among " + page.Plural(len(q.Machines), "machine") + " has what is allowed: " + kind
	for _, r := range []struct {
		name string
		resources.Range
	}{{"GPUs", q.GPUs}, {"CPUs", q.CPUs}} {
		switch {
		case r.Max == Unbounded:
			text += fmt.Sprintf(", at least %d %s", r.Min, r.name)
		case r.Max > 0:
			text += fmt.Sprintf(", %d to %d %s", r.Min, r.Max, r.name)
		}
	}
	if q.OneGPU {
		text += ", one GPU (nothing in the script spreads work over several)"
	}
	return text
}

// spotWords describes the assumptions about spot capacity.
func (a *answer) spotWords() string {
	i := a.Interruptions
	words := "a job that is not known to resume begins again each time"
	switch r := a.Question.Resumable; {
	case r != nil && *r:
		words = fmt.Sprintf("the job resumes from its last checkpoint, %s ago on average, after %s", page.Duration(i.LostHours*3600), page.Duration(i.RestartHours*3600))
	case r != nil:
		words = "a job that does not resume begins again each time"
	}
	return i.Assumed + "; " + words
}

// words describes the limits.
func (l limits) words() string {
	var parts []string
	if l.seconds > 0 {
		parts = append(parts, "deadline "+page.Duration(l.seconds))
	}
	if l.usd > 0 {
		parts = append(parts, "budget "+page.USD(l.usd))
	}
	return strings.Join(parts, " and ")
}
