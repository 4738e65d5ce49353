package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/chart"
	"trainopt/resources"
	"trainopt/sla"
)

// offer is a candidate with the values that the picture of the front shows.
type offer struct {
	name                      string
	seconds, cost             sla.Interval
	resource                  float64
	feasible, onFront, chosen bool
}

// lastDecision returns the index of the first row of the last decision in the table. The rows of one decision have
// nearly the same time and each allocation once; a later time or a repeated allocation starts the next decision.
func lastDecision(t *table) int {
	const moment = 2.0 // s
	first := 0
	seen := map[string]bool{}
	for i := range t.rows {
		what := strings.Join([]string{t.text(i, "gpus"), t.text(i, "cpus"), t.text(i, "memory_gib"), t.text(i, "batch_size"), t.text(i, "num_workers")}, "/")
		if seen[what] || i > 0 && t.number(i, "time_s")-t.number(i-1, "time_s") > moment {
			first, seen = i, map[string]bool{}
		}
		seen[what] = true
	}
	return first
}

// offers returns the candidates of the last decision in the table or, without a table, of the plan.
func offers(d *Data) []offer {
	t := d.pareto
	var list []offer
	for i := lastDecision(t); i < t.len(); i++ {
		iv := func(name string) sla.Interval {
			return sla.Interval{P5: t.number(i, name+"_p5"), P50: t.number(i, name+"_p50"), P95: t.number(i, name+"_p95")}
		}
		whole := func(name string) int {
			if v := t.number(i, name); known(v) {
				return int(v)
			}
			return 0
		}
		a := resources.Allocation{GPUs: whole("gpus"), CPUs: whole("cpus"), BatchSize: whole("batch_size")}
		if v := t.number(i, "memory_gib"); known(v) {
			a.Memory = resources.GiB(v)
		}
		list = append(list, offer{given(a), iv("seconds"), iv("cost_usd"), t.number(i, "resource"), t.yes(i, "feasible"), t.yes(i, "on_front"), t.yes(i, "chosen")})
	}
	if len(list) == 0 && d.Record.Plan != nil {
		for _, c := range d.Record.Plan.Candidates {
			list = append(list, offer{given(c.Allocation), c.Seconds, c.CostUSD, c.Resource, c.Feasible, c.OnFront, c.Allocation.Same(d.Record.Plan.Allocation)})
		}
	}
	kept := list[:0]
	for _, o := range list {
		if predicted(o.seconds) && predicted(o.cost) {
			kept = append(kept, o)
		}
	}
	return kept
}

// frontPicture shows time × cost of all candidates: the front is joined; the choice, the baseline and the outcome are
// marked; the size of a point is the resource use.
func frontPicture(d *Data) chart.Picture {
	r := d.Record
	p := chart.Picture{ID: "front", Title: "Time and cost of every candidate (predicted)"}
	list := offers(d)
	if len(list) == 0 {
		p.Empty = "No data: nothing was predicted"
		return p
	}
	var xs, ys []float64
	for _, o := range list {
		xs, ys = append(xs, o.seconds.P50), append(ys, o.cost.P50)
		if o.chosen {
			xs, ys = append(xs, o.seconds.P5, o.seconds.P95), append(ys, o.cost.P5, o.cost.P95)
		}
	}
	b := r.Baseline
	if b != nil && wholeWork(r) && predicted(b.Seconds) && predicted(b.CostUSD) {
		xs, ys = append(xs, b.Seconds.P50), append(ys, b.CostUSD.P50)
	} else {
		b = nil
	}
	ran := r.State == journal.Done && r.Outcome.Seconds.Known() && r.Outcome.CostUSD.Known()
	if ran {
		xs, ys = append(xs, float64(r.Outcome.Seconds)), append(ys, float64(r.Outcome.CostUSD))
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].seconds.P50 < list[j].seconds.P50 })
	draw := func(z chart.Size, id string) template.HTML {
		x, y := frontAxes(xs, ys)
		z.Fit(x, y)
		pic := frontDrawing{chart.NewDrawing(z, id, p.Title, fmt.Sprintf("%s, %d on the Pareto front", plural(len(list), "candidate"), countFront(list)))}
		pic.frontOf(r, list, b, ran, x, y)
		return pic.Finish()
	}
	p.SVG, p.Narrow = draw(chart.WideSize, "front"), draw(chart.NormalSize, "front-narrow")
	p.Keys = []chart.Key{{Class: "ring", Name: "chosen, with 90 % interval"}, {Class: "disc", Name: "Pareto front"},
		{Class: "disc quiet", Name: "feasible"}, {Class: "disc hollow", Name: "at risk"}}
	if b != nil {
		p.Keys = append(p.Keys, chart.Key{Class: "diamond", Name: "baseline"})
	}
	if ran {
		p.Keys = append(p.Keys, chart.Key{Class: "cross", Name: "this run (measured)"})
	}
	p.Keys = append(p.Keys, chart.Key{Class: "sizes", Name: "size: share of the resources held"})
	return p
}

// frontDrawing draws a Pareto front.
type frontDrawing struct{ *chart.Drawing }

// frontOf draws the candidates and the marked points above them.
func (d frontDrawing) frontOf(r *journal.Record, list []offer, b *journal.Baseline, ran bool, x, y *chart.Scale) {
	d.Axes(x, y, "time of the whole run, "+x.Unit, "cost of the whole run, USD")
	d.limits(r, x, y)
	d.front(list, x, y)
	for _, pass := range []bool{false, true} { // points on the front above the others
		for _, o := range list {
			if o.onFront == pass {
				d.offer(o, x, y)
			}
		}
	}
	words := d.Labels()
	var marks []func()
	mark := func(px, py, gap float64, text, class string, draw func()) {
		words.Avoid(px, py, gap-3, gap-3)
		marks = append(marks, func() { draw(); words.Put(px, py, gap, text, class) })
	}
	for _, o := range list {
		words.Avoid(x.At(o.seconds.P50), y.At(o.cost.P50), 5, 5)
		if o.chosen {
			cx, cy := x.At(o.seconds.P50), y.At(o.cost.P50)
			words.Avoid(cx, cy, math.Abs(x.At(o.seconds.P95)-x.At(o.seconds.P5))/2, 1)
			words.Avoid(cx, cy, 1, math.Abs(y.At(o.cost.P95)-y.At(o.cost.P5))/2)
			mark(cx, cy, 14, "chosen", "chosen", func() { d.chosen(o, x, y) })
		}
	}
	if b != nil {
		at := chart.Point{X: x.At(b.Seconds.P50), Y: y.At(b.CostUSD.P50)}
		mark(at.X, at.Y, 11, "baseline", "baseline", func() {
			d.diamond(at.X, at.Y, "baseline, "+given(b.Allocation)+"\ntime "+interval(b.Seconds, duration)+"\ncost "+interval(b.CostUSD, usd))
		})
	}
	if ran {
		at := chart.Point{X: x.At(float64(r.Outcome.Seconds)), Y: y.At(float64(r.Outcome.CostUSD))}
		mark(at.X, at.Y, 10, "this run", "ran", func() {
			d.cross(at.X, at.Y, "this run, measured\ntime "+number(r.Outcome.Seconds, duration)+"\ncost "+number(r.Outcome.CostUSD, usd))
		})
	}
	for _, m := range marks {
		m()
	}
}

func countFront(list []offer) int {
	n := 0
	for _, o := range list {
		if o.onFront {
			n++
		}
	}
	return n
}

func frontAxes(xs, ys []float64) (x, y *chart.Scale) {
	const wide = 25 // a larger ratio of largest to smallest value makes the axis logarithmic
	spreadOut := func(v []float64) bool { lo := chart.Least(v); return lo > 0 && chart.Most(v)/lo > wide }
	if spreadOut(xs) {
		x = chart.NewScale(xs, 6, false, true)
		label := x.Label
		x.Unit, x.Label = "seconds (logarithmic)", func(v float64) string { return label(v) }
	} else {
		room := (chart.Most(xs) - chart.Least(xs)) * .05
		x = chart.NewTimeScale(append(xs, chart.Least(xs)-room, chart.Most(xs)+room), 7, chart.Least(xs) < chart.Most(xs)*.3, false)
	}
	y = chart.NewScale(append(ys, chart.Most(ys)*1.05), 5, chart.Least(ys) < chart.Most(ys)*.4 && !spreadOut(ys), spreadOut(ys))
	return x, y
}

// limits draws deadline and budget if they lie within the axes.
func (d frontDrawing) limits(r *journal.Record, x, y *chart.Scale) {
	if v := r.SLA.TimeMax.Seconds(); v > 0 && v > x.Min && v < x.Max {
		at := chart.Px(x.At(v))
		d.F(`<line class="level limit" x1="%s" x2="%s" y1="%g" y2="%g"/>`, at, at, y.To, y.From)
		d.F(`<text class="level-name halo limit end" x="%s" y="%g">deadline</text>`, chart.Px(x.At(v)-4), y.To+9)
	}
	if v := r.SLA.CostMaxUSD; v > 0 && v > y.Min && v < y.Max {
		at := chart.Px(y.At(v))
		d.F(`<line class="level limit" x1="%s" x2="%s" y1="%s" y2="%s"/>`, chart.Px(x.From), chart.Px(x.To), at, at)
		d.F(`<text class="level-name halo limit end" x="%s" y="%s">budget</text>`, chart.Px(x.To-4), chart.Px(y.At(v)-5))
	}
}

func (d frontDrawing) front(list []offer, x, y *chart.Scale) {
	var at []string
	for _, o := range list {
		if o.onFront {
			at = append(at, chart.Px(x.At(o.seconds.P50))+" "+chart.Px(y.At(o.cost.P50)))
		}
	}
	if len(at) > 1 {
		d.F(`<path class="front" d="M%s"/>`, strings.Join(at, "L"))
	}
}

func (d frontDrawing) offer(o offer, x, y *chart.Scale) {
	class := "offer"
	switch {
	case o.onFront:
		class += " on-front"
	case o.feasible:
		class += " quiet"
	}
	if !o.feasible {
		class += " hollow"
	}
	radius := 4.0
	if known(o.resource) {
		radius = 3 + 4.5*math.Sqrt(chart.Clamp(o.resource, 0, 1))
	}
	words := map[bool]string{true: "feasible", false: "at risk"}[o.feasible]
	if o.onFront {
		words += ", on the Pareto front"
	}
	d.F(`<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s`, class, chart.Px(x.At(o.seconds.P50)), chart.Px(y.At(o.cost.P50)), chart.Px(radius), chart.Esc(o.name))
	d.F("\n%s\n%s\n%s\n%s</title></circle>", chart.Esc("time "+interval(o.seconds, duration)+", predicted"), chart.Esc("cost "+interval(o.cost, usd)+", predicted"),
		chart.Esc("resources "+share(o.resource)), chart.Esc(words))
}

// chosen draws the chosen candidate with the 90 % intervals of its time and cost.
func (d frontDrawing) chosen(o offer, x, y *chart.Scale) {
	cx, cy := x.At(o.seconds.P50), y.At(o.cost.P50)
	at := func(s *chart.Scale, v float64) float64 {
		return chart.Clamp(s.At(v), math.Min(s.From, s.To), math.Max(s.From, s.To))
	}
	d.F(`<path class="whisker" d="M%s %sH%sM%s %sV%s"/>`, chart.Px(at(x, o.seconds.P5)), chart.Px(cy), chart.Px(at(x, o.seconds.P95)), chart.Px(cx), chart.Px(at(y, o.cost.P5)), chart.Px(at(y, o.cost.P95)))
	d.F(`<circle class="ring" cx="%s" cy="%s" r="10"/>`, chart.Px(cx), chart.Px(cy))
}

func (d frontDrawing) diamond(cx, cy float64, title string) {
	d.F(`<path class="diamond" d="M%s %sl7 7l-7 7l-7 -7z"><title>%s</title></path>`, chart.Px(cx), chart.Px(cy-7), chart.EscLines(title))
}

func (d frontDrawing) cross(cx, cy float64, title string) {
	d.F(`<g class="cross"><title>%s</title><path class="halo-line" d="M%s %sl10 10m0 -10l-10 10"/><path d="M%s %sl10 10m0 -10l-10 10"/></g>`,
		chart.EscLines(title), chart.Px(cx-5), chart.Px(cy-5), chart.Px(cx-5), chart.Px(cy-5))
}
