package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// duration formats seconds with ordinary spaces, as in JSON.
func duration(s float64) string { return page.PlainBlanks(page.Duration(s)) }

// usd formats cents from a dollar, whole dollars from a thousand, and three significant digits below a dollar.
func usd(v float64) string {
	switch a := math.Abs(v); {
	case v < 0:
		return "-" + usd(-v)
	case a >= 999.5:
		return "$" + page.Thousands(v)
	case a >= 0.9995 || a == 0:
		return "$" + strconv.FormatFloat(a, 'f', 2, 64)
	}
	return "$" + page.Significant(v)
}

func points(v float64) string {
	n := page.Significant(100 * v)
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

// unit is the denominator of a rate.
type unit struct {
	size float64
	name string
}

// one returns the unit with its article.
func (u unit) one() string {
	if u.name == "hour" {
		return "per hour"
	}
	return "a " + u.name
}

// timeUnit returns the largest of hour, minute and second that the gain reaches.
func timeUnit(seconds float64) unit {
	switch {
	case seconds >= 3600:
		return unit{3600, "hour"}
	case seconds >= 60:
		return unit{60, "minute"}
	}
	return unit{1, "second"}
}

// readable returns the smallest time unit from u up at which a rate in USD per second is at least a tenth of a cent.
func readable(u unit, usdPerSecond float64) unit {
	for _, larger := range []unit{{60, "minute"}, {3600, "hour"}} {
		if larger.size > u.size && usdPerSecond > 0 && usdPerSecond*u.size < 1e-3 {
			u = larger
		}
	}
	return u
}

// moneyUnit returns a dollar, or the largest power of ten below it that the gain reaches.
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

// unitOf returns the unit of a trade's gain.
func unitOf(t trade) unit {
	switch t.Objective {
	case "time":
		return readable(timeUnit(float64(t.Gained)), float64(t.PerUnit.CostUSD))
	case "cost":
		return moneyUnit(float64(t.Gained))
	}
	return unit{0.01, "point of the resources"}
}

// tradeWords formats a trade in two clauses: the gain and its price, and the price per unit.
func tradeWords(t trade, to point) string {
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
	case math.Abs(gain/u.size-1) < 1e-3 || len(per) == 0: // the gain is one unit
		return text
	case gain < u.size: // the gain is less than a unit: only the rate
		return text + "; that is " + per[0] + " " + u.one()
	case t.Objective == "time" && t.Given.CostUSD > 0:
		return text + fmt.Sprintf("; each %s less costs %s more", u.name, strings.Join(per, " and "))
	default:
		return text + fmt.Sprintf("; each %s less takes %s more", u.name, strings.Join(per, " and "))
	}
}

// giving divides scaled amounts into increases and decreases, as text, without the objective itself and infinite
// values.
func giving(objective string, a pointAmounts, times float64) (more, less []string) {
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

// preferenceWords returns the name of a preset, if any, and the weights.
func preferenceWords(p plan.Preference) string {
	weights := fmt.Sprintf("time %.2g, cost %.2g, resources %.2g", p.Time, p.Cost, p.Resource)
	if name := p.String(); !strings.Contains(name, "=") {
		return name + " (" + weights + ")"
	}
	return weights
}

// countWords returns the number of points and the size of the front.
func (f *front) countWords() string {
	onFront := len(f.Points) - f.Dominated - f.Infeasible
	text := fmt.Sprintf("%s, %d on the front", page.Plural(len(f.Points), "point"), onFront)
	if f.Infeasible > 0 {
		text += fmt.Sprintf(", %d may miss the SLA", f.Infeasible)
	}
	return text
}

// chosenWords describes the choice.
func (f *front) chosenWords() string {
	p := f.Points[f.Chosen]
	text := fmt.Sprintf("%s: %s: %s, %s, %s of the resources", p.Label, p.Name, interval(p.Seconds, page.Duration), interval(p.CostUSD, usd), page.Share(p.Resource))
	if f.Predicted {
		text += "; predicted, with 90 % intervals"
	}
	return text
}

// given formats an allocation, without an unknown memory size.
func given(a resources.Allocation) string {
	if a.Memory <= 0 {
		return strings.Replace(a.String(), ", 0 GiB", "", 1)
	}
	return a.String()
}
