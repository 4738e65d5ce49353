package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// offer is a candidate as the picture of the front needs it.
type offer struct {
	name                      string
	seconds, cost             sla.Interval
	resource                  float64
	feasible, onFront, chosen bool
}

// lastDecision is the first row of the last decision in the table. A decision is written within a moment and weighs
// each allocation once: where time passes or an allocation comes again, the next one begins.
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

// offers come from the table, of the last decision in it, or else from the plan.
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

// frontPicture is time × cost of all candidates: the front joined, the choice, the user's own configuration and the
// outcome marked, resource use as the size of a point.
func frontPicture(d *Data) picture {
	r := d.Record
	p := picture{ID: "front", Title: "Time and cost of every candidate (predicted)"}
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
	draw := func(z size, id string) template.HTML {
		x, y := frontAxes(xs, ys)
		z.fit(x, y)
		pic := newDrawing(z, id, p.Title, fmt.Sprintf("%s, %d on the Pareto front", plural(len(list), "candidate"), countFront(list)))
		pic.frontOf(r, list, b, ran, x, y)
		return pic.finish()
	}
	p.SVG, p.Narrow = draw(wideSize, "front"), draw(normalSize, "front-narrow")
	p.Keys = []key{{"ring", "chosen, with 90 % interval"}, {"disc", "Pareto front"}, {"disc quiet", "keeps the agreement"}, {"disc hollow", "not sure to keep it"}}
	if b != nil {
		p.Keys = append(p.Keys, key{"diamond", "your own configuration"})
	}
	if ran {
		p.Keys = append(p.Keys, key{"cross", "this run (measured)"})
	}
	p.Keys = append(p.Keys, key{"sizes", "size: share of the resources held"})
	return p
}

// frontOf draws the candidates, and above them what is marked.
func (d *drawing) frontOf(r *journal.Record, list []offer, b *journal.Baseline, ran bool, x, y *scale) {
	d.axes(x, y, "time of the whole run, "+x.unit, "cost of the whole run, USD")
	d.limits(r, x, y)
	d.front(list, x, y)
	for _, pass := range []bool{false, true} { // those on the front above the others
		for _, o := range list {
			if o.onFront == pass {
				d.offer(o, x, y)
			}
		}
	}
	words := &labels{d: d}
	var marks []func()
	mark := func(px, py, gap float64, text, class string, draw func()) {
		words.avoid(px, py, gap-3, gap-3)
		marks = append(marks, func() { draw(); words.put(px, py, gap, text, class) })
	}
	for _, o := range list {
		words.avoid(x.at(o.seconds.P50), y.at(o.cost.P50), 5, 5)
		if o.chosen {
			cx, cy := x.at(o.seconds.P50), y.at(o.cost.P50)
			words.avoid(cx, cy, math.Abs(x.at(o.seconds.P95)-x.at(o.seconds.P5))/2, 1)
			words.avoid(cx, cy, 1, math.Abs(y.at(o.cost.P95)-y.at(o.cost.P5))/2)
			mark(cx, cy, 14, "chosen", "chosen", func() { d.chosen(o, x, y) })
		}
	}
	if b != nil {
		at := point{x.at(b.Seconds.P50), y.at(b.CostUSD.P50)}
		mark(at.x, at.y, 11, "yours", "yours", func() {
			d.diamond(at.x, at.y, "your own configuration, "+given(b.Allocation)+"\ntime "+interval(b.Seconds, duration)+"\ncost "+interval(b.CostUSD, usd))
		})
	}
	if ran {
		at := point{x.at(float64(r.Outcome.Seconds)), y.at(float64(r.Outcome.CostUSD))}
		mark(at.x, at.y, 10, "this run", "ran", func() {
			d.cross(at.x, at.y, "this run, measured\ntime "+number(r.Outcome.Seconds, duration)+"\ncost "+number(r.Outcome.CostUSD, usd))
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

func frontAxes(xs, ys []float64) (x, y *scale) {
	const wide = 25 // a range of more than this factor is drawn on a logarithmic axis
	spreadOut := func(v []float64) bool { lo := minOf(v); return lo > 0 && maxOf(v)/lo > wide }
	if spreadOut(xs) {
		x = newScale(xs, 6, false, true)
		label := x.label
		x.unit, x.label = "seconds (logarithmic)", func(v float64) string { return label(v) }
	} else {
		room := (maxOf(xs) - minOf(xs)) * .05
		x = newTimeScale(append(xs, minOf(xs)-room, maxOf(xs)+room), 7, minOf(xs) < maxOf(xs)*.3, false)
	}
	y = newScale(append(ys, maxOf(ys)*1.05), 5, minOf(ys) < maxOf(ys)*.4 && !spreadOut(ys), spreadOut(ys))
	return x, y
}

// limits draws deadline and budget where they are in sight.
func (d *drawing) limits(r *journal.Record, x, y *scale) {
	if v := float64(r.SLA.DeadlineS); v > 0 && v > x.min && v < x.max {
		at := px(x.at(v))
		d.f(`<line class="level limit" x1="%s" x2="%s" y1="%g" y2="%g"/>`, at, at, y.to, y.from)
		d.f(`<text class="level-name halo limit end" x="%s" y="%g">deadline</text>`, px(x.at(v)-4), y.to+9)
	}
	if v := float64(r.SLA.BudgetUSD); v > 0 && v > y.min && v < y.max {
		at := px(y.at(v))
		d.f(`<line class="level limit" x1="%s" x2="%s" y1="%s" y2="%s"/>`, px(x.from), px(x.to), at, at)
		d.f(`<text class="level-name halo limit end" x="%s" y="%s">budget</text>`, px(x.to-4), px(y.at(v)-5))
	}
}

func (d *drawing) front(list []offer, x, y *scale) {
	var at []string
	for _, o := range list {
		if o.onFront {
			at = append(at, px(x.at(o.seconds.P50))+" "+px(y.at(o.cost.P50)))
		}
	}
	if len(at) > 1 {
		d.f(`<path class="front" d="M%s"/>`, strings.Join(at, "L"))
	}
}

func (d *drawing) offer(o offer, x, y *scale) {
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
		radius = 3 + 4.5*math.Sqrt(clamp(o.resource, 0, 1))
	}
	words := map[bool]string{true: "keeps the agreement", false: "not sure to keep the agreement"}[o.feasible]
	if o.onFront {
		words += ", on the Pareto front"
	}
	d.f(`<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s`, class, px(x.at(o.seconds.P50)), px(y.at(o.cost.P50)), px(radius), esc(o.name))
	d.f("\n%s\n%s\n%s\n%s</title></circle>", esc("time "+interval(o.seconds, duration)+", predicted"), esc("cost "+interval(o.cost, usd)+", predicted"),
		esc("resources "+share(o.resource)), esc(words))
}

// chosen draws the choice with the 90 % intervals of its time and cost.
func (d *drawing) chosen(o offer, x, y *scale) {
	cx, cy := x.at(o.seconds.P50), y.at(o.cost.P50)
	at := func(s *scale, v float64) float64 {
		return clamp(s.at(v), math.Min(s.from, s.to), math.Max(s.from, s.to))
	}
	d.f(`<path class="whisker" d="M%s %sH%sM%s %sV%s"/>`, px(at(x, o.seconds.P5)), px(cy), px(at(x, o.seconds.P95)), px(cx), px(at(y, o.cost.P5)), px(at(y, o.cost.P95)))
	d.f(`<circle class="ring" cx="%s" cy="%s" r="10"/>`, px(cx), px(cy))
}

func (d *drawing) diamond(cx, cy float64, title string) {
	d.f(`<path class="diamond" d="M%s %sl7 7l-7 7l-7 -7z"><title>%s</title></path>`, px(cx), px(cy-7), escLines(title))
}

func (d *drawing) cross(cx, cy float64, title string) {
	d.f(`<g class="cross"><title>%s</title><path class="halo-line" d="M%s %sl10 10m0 -10l-10 10"/><path d="M%s %sl10 10m0 -10l-10 10"/></g>`,
		escLines(title), px(cx-5), px(cy-5), px(cx-5), px(cy-5))
}

func escLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = esc(lines[i])
	}
	return strings.Join(lines, "\n")
}

// labels places words beside points so that they do not lie over each other.
type labels struct {
	d     *drawing
	taken [][4]float64
}

// avoid keeps words off a point.
func (l *labels) avoid(cx, cy, dx, dy float64) {
	l.taken = append(l.taken, [4]float64{cx - dx, cy - dy, cx + dx, cy + dy})
}

func (l *labels) put(cx, cy, gap float64, text, class string) {
	width, height := 7*float64(len(text)), 13.0
	type place struct {
		x, y   float64
		anchor string
	}
	places := []place{{cx, cy - gap, "mid"}, {cx, cy + gap + 11, "mid"}, {cx + gap, cy + 4, ""}, {cx - gap, cy + 4, "end"}, {cx + gap, cy - gap + 4, ""}, {cx + gap, cy + gap + 6, ""},
		{cx - gap, cy - gap + 4, "end"}, {cx - gap, cy + gap + 6, "end"}}
	best := places[0]
	for _, p := range places {
		left := p.x
		switch p.anchor {
		case "mid":
			left -= width / 2
		case "end":
			left -= width
		}
		box := [4]float64{left, p.y - height, left + width, p.y}
		free := box[0] >= marginLeft && box[2] <= l.d.width-4 && box[1] >= 2 && box[3] <= l.d.height-marginBottom
		for _, t := range l.taken {
			free = free && (box[2] < t[0] || box[0] > t[2] || box[3] < t[1] || box[1] > t[3])
		}
		if free {
			best = p
			l.taken = append(l.taken, box)
			break
		}
	}
	l.d.f(`<text class="mark halo %s %s" x="%s" y="%s">%s</text>`, best.anchor, class, px(best.x), px(best.y), esc(text))
}
