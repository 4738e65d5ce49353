package front

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/chart"
	"trainopt/resources"
	"trainopt/sla"
)

// duration writes seconds with usual blanks, as the words in the JSON form have them.
func duration(s float64) string { return chart.PlainBlanks(chart.Duration(s)) }

// usd writes cents from a dollar up, whole dollars from a thousand up, three significant digits below a dollar.
func usd(v float64) string {
	switch a := math.Abs(v); {
	case v < 0:
		return "-" + usd(-v)
	case a >= 999.5:
		return "$" + chart.Thousands(v)
	case a >= 0.9995 || a == 0:
		return "$" + strconv.FormatFloat(a, 'f', 2, 64)
	}
	return "$" + chart.Significant(v)
}

func points(v float64) string {
	n := chart.Significant(100 * v)
	if n == "1.00" {
		return "1 point"
	}
	return strings.TrimSuffix(strings.TrimSuffix(n, "0"), ".") + " points"
}

func interval(i sla.Interval, one func(float64) string) string {
	if i.P5 == i.P95 {
		return one(i.P50)
	}
	return one(i.P50) + " (" + ends(i, one) + ")"
}

func ends(i sla.Interval, one func(float64) string) string { return one(i.P5) + " to " + one(i.P95) }

// unit is what a rate is given per.
type unit struct {
	size float64
	name string
}

// one is the unit with its article.
func (u unit) one() string {
	if u.name == "hour" {
		return "an hour"
	}
	return "a " + u.name
}

// timeUnit is the largest of hour, minute and second of which at least one is gained.
func timeUnit(seconds float64) unit {
	switch {
	case seconds >= 3600:
		return unit{3600, "hour"}
	case seconds >= 60:
		return unit{60, "minute"}
	}
	return unit{1, "second"}
}

// readable is the smallest of the units from this one up in which a rate in USD per second is not below a tenth of a cent.
func readable(u unit, usdPerSecond float64) unit {
	for _, larger := range []unit{{60, "minute"}, {3600, "hour"}} {
		if larger.size > u.size && usdPerSecond > 0 && usdPerSecond*u.size < 1e-3 {
			u = larger
		}
	}
	return u
}

// moneyUnit is a dollar, or the power of ten below of which at least one is gained.
func moneyUnit(v float64) unit {
	size := min(1, math.Pow(10, math.Floor(math.Log10(v)+1e-9)))
	switch {
	case size == 1:
		return unit{1, "dollar"}
	case size > 0.009:
		return unit{size, map[bool]string{true: "$0.10", false: "cent"}[size > 0.09]}
	case size < 1e-6:
		return unit{size, "$" + strconv.FormatFloat(size, 'g', 3, 64)}
	}
	return unit{size, "$" + strconv.FormatFloat(size, 'f', -1, 64)}
}

// unitOf is the unit in which a trade gains.
func unitOf(t Trade) unit {
	switch t.Objective {
	case "time":
		return readable(timeUnit(float64(t.Gained)), float64(t.PerUnit.CostUSD))
	case "cost":
		return moneyUnit(float64(t.Gained))
	}
	return unit{0.01, "point of the resources"}
}

// tradeWords says a trade in two clauses: what the move gains and gives, and the price of one unit.
func tradeWords(t Trade, to Point) string {
	gain := float64(t.Gained)
	gained := map[string]string{"time": duration(gain) + " less", "cost": usd(gain) + " less", "resource": points(gain) + " of the resources less"}[t.Objective]
	more, less := giving(t.Objective, t.Given, 1)
	text := fmt.Sprintf("%s to %s, %s: %s", t.From, t.To, to.Name, gained)
	if len(less) > 0 {
		text += " and " + strings.Join(less, " and ") + " less"
	}
	text += " for " + strings.Join(more, " and ") + " more"
	u := unitOf(t)
	switch per, _ := giving(t.Objective, t.PerUnit, u.size); {
	case math.Abs(gain/u.size-1) < 1e-3 || len(per) == 0: // the move is the unit
		return text
	case gain < u.size: // less than a unit is gained: only the rate
		return text + "; that is " + per[0] + " " + u.one()
	case t.Objective == "time" && t.Given.CostUSD > 0:
		return text + fmt.Sprintf("; each %s less costs %s more", u.name, strings.Join(per, " and "))
	default:
		return text + fmt.Sprintf("; each %s less takes %s more", u.name, strings.Join(per, " and "))
	}
}

// giving splits amounts times a factor into what is more and what is less, in words, leaving out the objective itself and
// what is too large for a number.
func giving(objective string, a Amounts, times float64) (more, less []string) {
	for _, x := range []struct {
		name  string
		value journal.Number
		words func(float64) string
	}{{"time", a.Seconds, duration}, {"cost", a.CostUSD, usd}, {"resource", a.Resource, func(v float64) string { return points(v) + " of the resources" }}} {
		switch v := float64(x.value) * times; {
		case x.name == objective || math.IsInf(v, 0):
		case v > 0:
			more = append(more, x.words(v))
		case v < 0:
			less = append(less, x.words(-v))
		}
	}
	return more, less
}

// preferenceWords names a preset, and says the weights.
func preferenceWords(p plan.Preference) string {
	weights := fmt.Sprintf("time %.2g, cost %.2g, resources %.2g", p.Time, p.Cost, p.Resource)
	if name := p.String(); !strings.Contains(name, "=") {
		return name + " (" + weights + ")"
	}
	return weights
}

// countWords says how many points there are and how many the front has.
func (f *Front) countWords() string {
	onFront := len(f.Points) - f.Dominated - f.Infeasible
	text := fmt.Sprintf("%s, %d on the front", chart.Plural(len(f.Points), "point"), onFront)
	if f.Infeasible > 0 {
		text += fmt.Sprintf(", %d may miss the SLA", f.Infeasible)
	}
	return text
}

// chosenWords describes the choice.
func (f *Front) chosenWords() string {
	p := f.Points[f.Chosen]
	text := fmt.Sprintf("%s: %s: %s, %s, %s of the resources", p.Label, p.Name, interval(p.Seconds, chart.Duration), interval(p.CostUSD, usd), chart.Share(p.Resource))
	if f.Predicted {
		text += "; predicted, with 90 % intervals"
	}
	return text
}

// given writes an allocation; memory that is not known is left out.
func given(a resources.Allocation) string {
	if a.Memory <= 0 {
		return strings.Replace(a.String(), ", 0 GiB", "", 1)
	}
	return a.String()
}
