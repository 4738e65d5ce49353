package report

import (
	"fmt"
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

// offers come from the table, of the last decision in it, or else from the plan.
func offers(d *Data) []offer {
	t := d.pareto
	var list []offer
	last := math.Inf(-1)
	for i := range t.rows {
		last = math.Max(last, t.number(i, "time_s"))
	}
	for i := range t.rows {
		if at := t.number(i, "time_s"); known(last) && at != last {
			continue
		}
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
		list = append(list, offer{a.String(), iv("seconds"), iv("cost_usd"), t.number(i, "resource"), t.yes(i, "feasible"), t.yes(i, "on_front"), t.yes(i, "chosen")})
	}
	if len(list) == 0 && d.Record.Plan != nil {
		for _, c := range d.Record.Plan.Candidates {
			list = append(list, offer{c.Allocation.String(), c.Seconds, c.CostUSD, c.Resource, c.Feasible, c.OnFront, c.Allocation.Same(d.Record.Plan.Allocation)})
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
	p := picture{ID: "front", Title: "Time and cost of every candidate (predicted)", Wide: true}
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
	if b != nil && predicted(b.Seconds) && predicted(b.CostUSD) {
		xs, ys = append(xs, b.Seconds.P50), append(ys, b.CostUSD.P50)
	} else {
		b = nil
	}
	ran := r.State == journal.Done && r.Outcome.Seconds.Known() && r.Outcome.CostUSD.Known()
	if ran {
		xs, ys = append(xs, float64(r.Outcome.Seconds)), append(ys, float64(r.Outcome.CostUSD))
	}
	x, y := frontAxes(xs, ys)
	sort.SliceStable(list, func(i, j int) bool { return list[i].seconds.P50 < list[j].seconds.P50 })
	pic := newDrawing(p.ID, p.Title, fmt.Sprintf("%s, %d on the Pareto front", plural(len(list), "candidate"), countFront(list)))
	pic.axes(x, y, "time of the whole run, "+x.unit, "cost of the whole run, USD")
	pic.limits(r, x, y)
	pic.front(list, x, y)
	for _, pass := range []bool{false, true} { // those on the front above the others
		for _, o := range list {
			if o.onFront == pass {
				pic.offer(o, x, y)
			}
		}
	}
	labels := &labels{d: pic}
	for _, o := range list {
		if o.chosen {
			pic.chosen(o, x, y)
			labels.put(x.at(o.seconds.P50), y.at(o.cost.P50), 14, "chosen", "chosen")
		}
	}
	if b != nil {
		pic.diamond(x.at(b.Seconds.P50), y.at(b.CostUSD.P50), "your own configuration, "+b.Allocation.String()+"\ntime "+interval(b.Seconds, duration)+"\ncost "+interval(b.CostUSD, usd))
		labels.put(x.at(b.Seconds.P50), y.at(b.CostUSD.P50), 11, "yours", "yours")
		p.Keys = append(p.Keys, key{"diamond", "your own configuration"})
	}
	if ran {
		pic.cross(x.at(float64(r.Outcome.Seconds)), y.at(float64(r.Outcome.CostUSD)), "this run, measured\ntime "+number(r.Outcome.Seconds, duration)+"\ncost "+number(r.Outcome.CostUSD, usd))
		labels.put(x.at(float64(r.Outcome.Seconds)), y.at(float64(r.Outcome.CostUSD)), 10, "this run", "ran")
		p.Keys = append(p.Keys, key{"cross", "this run (measured)"})
	}
	p.Keys = append([]key{{"ring", "chosen, with 90 % interval"}, {"disc", "Pareto front"}, {"disc quiet", "keeps the agreement"}, {"disc hollow", "not sure to keep it"}}, p.Keys...)
	p.Keys = append(p.Keys, key{"sizes", "size: share of the resources held"})
	p.SVG = pic.finish()
	return p
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
		x = newTimeScale(append(xs, minOf(xs)-room, maxOf(xs)+room), 7, minOf(xs) < maxOf(xs)*.25, false)
	}
	y = newScale(ys, 5, !spreadOut(ys), spreadOut(ys))
	x.from, x.to = marginLeft, chartWidth-marginRight
	y.from, y.to = chartHeight-marginBottom, marginTop
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

func (l *labels) put(cx, cy, gap float64, text, class string) {
	width, height := 7*float64(len(text)), 13.0
	type place struct {
		x, y   float64
		anchor string
	}
	places := []place{{cx, cy - gap - 2, "mid"}, {cx + gap, cy + 4, ""}, {cx, cy + gap + 11, "mid"}, {cx - gap, cy + 4, "end"}, {cx + gap, cy - gap, ""}, {cx + gap, cy + gap + 8, ""}}
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
		free := box[0] >= marginLeft && box[2] <= chartWidth-4 && box[1] >= 2 && box[3] <= chartHeight-marginBottom
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
