package predict

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/report/chart"
)

// picture plots time × cost of the options in the market of the question, with the front as a line and the intervals
// of the choice.
func (a *Answer) picture() chart.Picture {
	p := chart.Picture{ID: "options", Title: "Time and cost of every option (predicted)"}
	var list []*Option
	var xs, ys []float64
	for i := range a.Options {
		o := &a.Options[i]
		if o.Fit == DoesNotFit || o.Market != a.Question.market() && o.Market != Owned {
			continue
		}
		list = append(list, o)
		xs, ys = append(xs, o.Seconds.P50), append(ys, o.CostUSD.P50)
		if o.OnFront || o.Chosen {
			xs, ys = append(xs, o.Seconds.P5, o.Seconds.P95), append(ys, o.CostUSD.P5, o.CostUSD.P95)
		}
	}
	if len(list) == 0 {
		p.Empty = "No option fits"
		return p
	}
	slices.SortStableFunc(list, func(a, b *Option) int { return cmp.Compare(a.Seconds.P50, b.Seconds.P50) })
	draw := func(z chart.Size, id string) template.HTML {
		d := drawing{answer: a, Drawing: chart.NewDrawing(z, id, p.Title, fmt.Sprintf("%s, %d on the Pareto front", chart.Plural(len(list), "option"), len(a.front())))}
		d.scales(xs, ys)
		z.Fit(d.x, d.y)
		d.options(list)
		return d.Finish()
	}
	p.SVG, p.Narrow = draw(chart.WideSize, p.ID), draw(chart.NormalSize, p.ID+"-narrow")
	p.Keys = []chart.Key{{Class: "ring", Name: "chosen"}, {Class: "disc", Name: "Pareto front, with 90 % intervals"}, {Class: "disc quiet", Name: "other"}}
	if a.Question.limits().any() {
		p.Keys = append(p.Keys, chart.Key{Class: "disc hollow", Name: "not sure to keep the limits"})
	}
	p.Keys = append(p.Keys, chart.Key{Class: "sizes", Name: "size: share of the resources held"})
	return p
}

// drawing is a plot of options; size is the unit of the time axis in seconds.
type drawing struct {
	*chart.Drawing
	answer *Answer
	x, y   *chart.Scale
	size   float64
}

// scales sets the axes, logarithmic where the values span more than a factor of wide.
func (d *drawing) scales(xs, ys []float64) {
	const wide = 25
	spreadOut := func(v []float64) bool { return chart.Most(v)/chart.Least(v) > wide }
	d.size = 1
	if spreadOut(xs) {
		u := timeUnit(math.Sqrt(chart.Least(xs) * chart.Most(xs)))
		inUnit := make([]float64, len(xs))
		for i, v := range xs {
			inUnit[i] = v / u.size
		}
		d.size, d.x = u.size, chart.NewScale(inUnit, 6, false, true)
		d.x.Unit = u.name + " (logarithmic)"
	} else {
		d.x = chart.NewTimeScale(append(xs, chart.Most(xs)*1.05), 7, chart.Least(xs) < chart.Most(xs)*.3, false)
	}
	d.y = chart.NewScale(append(ys, chart.Most(ys)*1.05), 5, chart.Least(ys) < chart.Most(ys)*.4 && !spreadOut(ys), spreadOut(ys))
	d.y.Unit = "USD"
	if d.y.Log {
		d.y.Unit += " (logarithmic)"
	}
}

func (d *drawing) px(seconds float64) float64 {
	return chart.Clamp(d.x.At(seconds/d.size), math.Min(d.x.From, d.x.To), math.Max(d.x.From, d.x.To))
}

func (d *drawing) py(usd float64) float64 {
	return chart.Clamp(d.y.At(usd), math.Min(d.y.From, d.y.To), math.Max(d.y.From, d.y.To))
}

// options draws the options in order of time, those of the front with their intervals above the others.
func (d *drawing) options(list []*Option) {
	d.Axes(d.x, d.y, "time of the whole job, "+d.x.Unit, "cost of the whole job, "+d.y.Unit)
	d.limits()
	var edge []string
	least := math.Inf(1)
	for _, o := range list { // not dominated in time and cost
		if o.OnFront && o.CostUSD.P50 < least {
			least = o.CostUSD.P50
			edge = append(edge, chart.Px(d.px(o.Seconds.P50))+" "+chart.Px(d.py(o.CostUSD.P50)))
		}
	}
	if len(edge) > 1 {
		d.F(`<path class="front" d="M%s"/>`, strings.Join(edge, "L"))
	}
	words := d.Labels()
	for _, pass := range []bool{false, true} {
		for _, o := range list {
			if o.OnFront == pass {
				d.option(o)
				words.Avoid(d.px(o.Seconds.P50), d.py(o.CostUSD.P50), 5, 5)
			}
		}
	}
	for _, o := range list {
		if o.Chosen {
			cx, cy := d.px(o.Seconds.P50), d.py(o.CostUSD.P50)
			d.F(`<circle class="ring" cx="%s" cy="%s" r="10"/>`, chart.Px(cx), chart.Px(cy))
			words.Avoid(cx, cy, 11, 11)
			words.Put(cx, cy, 14, d.answer.Configurations[o.Config].words(), "chosen")
		}
	}
}

// option draws one option as a circle with a tooltip; the intervals of the front are whiskers.
func (d *drawing) option(o *Option) {
	class := "offer quiet"
	if o.OnFront {
		class = "offer on-front"
		d.F(`<path class="whisker" opacity="%s" d="M%s %sH%sM%s %sV%s"/>`, map[bool]string{true: "1", false: "0.35"}[o.Chosen], chart.Px(d.px(o.Seconds.P5)), chart.Px(d.py(o.CostUSD.P50)),
			chart.Px(d.px(o.Seconds.P95)), chart.Px(d.px(o.Seconds.P50)), chart.Px(d.py(o.CostUSD.P5)), chart.Px(d.py(o.CostUSD.P95)))
	}
	if !o.Feasible {
		class += " hollow"
	}
	lines := []string{d.answer.optionWords(o), "time " + interval(o.Seconds, chart.Duration), "cost " + interval(o.CostUSD, chart.USD)}
	if d.answer.Question.limits().any() {
		lines = append(lines, "keeps the limits with "+chanceWords(o.Chance))
	}
	if o.Lacks != "" {
		lines = append(lines, o.Lacks)
	}
	d.F(`<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`, class, chart.Px(d.px(o.Seconds.P50)), chart.Px(d.py(o.CostUSD.P50)),
		chart.Px(3+4.5*math.Sqrt(chart.Clamp(o.Resource, 0, 1))), chart.EscLines(strings.Join(lines, "\n")))
}

// limits draws deadline and budget if they are within the axes.
func (d *drawing) limits() {
	l := d.answer.Question.limits()
	if v := l.seconds / d.size; v > 0 && v > d.x.Min && v < d.x.Max {
		at := d.x.At(v)
		d.F(`<line class="level limit" x1="%s" x2="%s" y1="%g" y2="%g"/>`, chart.Px(at), chart.Px(at), d.y.To, d.y.From)
		d.F(`<text class="level-name halo limit end" x="%s" y="%g">deadline</text>`, chart.Px(at-4), d.y.To+9)
	}
	if v := l.usd; v > 0 && v > d.y.Min && v < d.y.Max {
		at := d.y.At(v)
		d.F(`<line class="level limit" x1="%s" x2="%s" y1="%s" y2="%s"/>`, chart.Px(d.x.From), chart.Px(d.x.To), chart.Px(at), chart.Px(at))
		d.F(`<text class="level-name halo limit end" x="%s" y="%s">budget</text>`, chart.Px(d.x.To-4), chart.Px(at-5))
	}
}
