package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"sort"
	"strings"
)

// The pictures are written here rather than with gonum/plot: its SVG has fixed colours, sizes and no titles, while these
// follow the reader's light or dark page through CSS classes, name every point on hover, and speak to screen readers.

type point struct{ x, y float64 }

// drawing writes SVG. All text goes through text(), which escapes it.
type drawing struct {
	b strings.Builder
	size
}

func newDrawing(z size, id, title, description string) *drawing {
	d := &drawing{size: z}
	d.f(`<svg viewBox="0 0 %g %g" role="img" aria-labelledby="%s-t %s-d" preserveAspectRatio="xMidYMid meet">`, z.width, z.height, id, id)
	d.f(`<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, esc(title), id, esc(description))
	return d
}

func (d *drawing) f(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *drawing) finish() template.HTML {
	d.b.WriteString("</svg>")
	return template.HTML(d.b.String()) // every text in it was escaped by esc
}

// esc makes text safe inside SVG.
func esc(s string) string { return html.EscapeString(clean(s)) }

func px(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

func (d *drawing) axes(x, y *scale, xTitle, yTitle string) {
	for _, t := range y.ticks {
		if t > y.max*(1+1e-9) {
			continue
		}
		at := y.at(t)
		class := "grid"
		if t == y.min {
			class = "axis"
		}
		d.f(`<line class="%s" x1="%g" x2="%g" y1="%s" y2="%s"/>`, class, marginLeft, d.width-marginRight, px(at), px(at))
		d.f(`<text class="tick end" x="%g" y="%s">%s</text>`, marginLeft-8, px(at+4), esc(y.label(t)))
	}
	for _, t := range x.ticks {
		at := x.at(t)
		d.f(`<line class="axis" x1="%s" x2="%s" y1="%g" y2="%g"/>`, px(at), px(at), d.height-marginBottom, d.height-marginBottom+4)
		d.f(`<text class="tick mid" x="%s" y="%g">%s</text>`, px(at), d.height-marginBottom+17, esc(x.label(t)))
	}
	d.f(`<text class="unit" x="%g" y="%g">%s</text>`, 4.0, 13.0, esc(yTitle))
	d.f(`<text class="unit end" x="%g" y="%g">%s</text>`, d.width-marginRight, d.height-6, esc(xTitle))
}

func (d *drawing) bandOf(s series, x, y *scale) {
	bands := s.band
	if len(bands) > maxPoints {
		step := float64(len(bands)) / maxPoints
		var fewer []band
		for i := range maxPoints {
			fewer = append(fewer, bands[int(float64(i)*step)])
		}
		bands = append(fewer, bands[len(bands)-1])
	}
	if len(bands) < 2 {
		return
	}
	d.f(`<path class="band %s" d="`, s.class)
	for i, b := range bands {
		d.f("%s%s %s", map[bool]string{true: "M", false: "L"}[i == 0], px(x.at(b.x)), px(clamp(y.at(b.hi), y.to, y.from)))
	}
	for i := len(bands) - 1; i >= 0; i-- {
		d.f("L%s %s", px(x.at(bands[i].x)), px(clamp(y.at(bands[i].lo), y.to, y.from)))
	}
	d.f(`Z"/>`)
}

func clamp(v, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, v)) }

// levels draws the lines and returns their names, which belong above everything.
func (d *drawing) levels(c *chart, x, y *scale) string {
	names, levels := &drawing{}, c.levels
	sort.SliceStable(levels, func(i, j int) bool { return levels[i].value > levels[j].value })
	above := math.Inf(-1)
	for _, l := range levels {
		if !known(l.value) || l.value < y.min || l.value > y.max*(1+1e-9) {
			continue
		}
		at := y.at(l.value)
		d.f(`<line class="level %s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, l.class, px(x.from), px(x.to), px(at), px(at))
		label := at - 5
		if label < above+13 || label < y.to-6 {
			label = math.Max(above+13, at+14)
		}
		above = label
		side, edge := "end", x.to-4
		if right := c.clearance(label, .72, 1, x, y); right < 12 && c.clearance(label, 0, .28, x, y) > right {
			side, edge = "start", x.from+6
		}
		names.f(`<text class="level-name halo %s %s" x="%s" y="%s">%s</text>`, side, l.class, px(edge), px(label), esc(l.name))
	}
	return names.b.String()
}

// clearance is how far the lines keep from a height, in pixels, over a part of the axis.
func (c *chart) clearance(height, from, to float64, x, y *scale) float64 {
	free := math.Inf(1)
	for _, s := range c.series {
		for _, p := range s.points {
			if at := (p.x - x.min) / (x.max - x.min); known(p.y) && at >= from && at <= to {
				free = math.Min(free, math.Abs(y.at(p.y)-(height-4)))
			}
		}
	}
	return free
}

func (d *drawing) moment(m moment, x *scale) {
	at := px(x.at(m.x))
	d.f(`<line class="moment %s" x1="%s" x2="%s" y1="%g" y2="%g"/>`, m.class, at, at, marginTop, d.height-marginBottom)
}

// momentHandle is what one points at: it lies above everything.
func (d *drawing) momentHandle(m moment, x *scale) {
	at := x.at(m.x)
	d.f(`<g class="handle %s"><title>%s</title><rect class="reach" x="%s" y="%g" width="14" height="16"/>`, m.class, esc(m.title), px(at-7), marginTop-12)
	d.f(`<path d="M%s %gl4 -6h-8z"/></g>`, px(at), marginTop)
}

func (d *drawing) lineOf(s series, x, y *scale) {
	path, open := &strings.Builder{}, false
	var first, last, before point
	area := &strings.Builder{}
	closeArea := func() {
		if s.area && open {
			fmt.Fprintf(area, "L%s %sL%s %sZ", px(x.at(last.x)), px(y.from), px(x.at(first.x)), px(y.from))
		}
	}
	for _, p := range s.points {
		if !known(p.y) || y.log && p.y <= 0 {
			closeArea()
			open = false
			continue
		}
		px1, py1 := px(x.at(p.x)), px(clamp(y.at(p.y), y.to, y.from))
		for _, b := range []*strings.Builder{path, area} {
			switch {
			case !open:
				fmt.Fprintf(b, "M%s %s", px1, py1)
			case s.step:
				fmt.Fprintf(b, "L%s %sL%s %s", px1, px(y.at(before.y)), px1, py1)
			default:
				fmt.Fprintf(b, "L%s %s", px1, py1)
			}
		}
		if !open {
			first = p
		}
		open, last, before = true, p, p
	}
	closeArea()
	if s.area {
		d.f(`<path class="area %s" d="%s"/>`, s.class, area)
	}
	dash := ""
	if s.dashed {
		dash = " dashed"
	}
	d.f(`<path class="line %s%s" d="%s"/>`, s.class, dash, path)
	if len(s.points) <= 60 && !s.step && !s.area && !s.dashed && !s.dense {
		for _, p := range s.points {
			if known(p.y) {
				d.f(`<circle class="dot %s" cx="%s" cy="%s" r="2.4"/>`, s.class, px(x.at(p.x)), px(clamp(y.at(p.y), y.to, y.from)))
			}
		}
	}
}

// hover lays invisible slices over a chart; each names the values below it.
func (d *drawing) hover(c *chart, x *scale) {
	n := hoverSlices
	width := (x.to - x.from) / float64(n)
	indexes := make([]int, len(c.series))
	d.f(`<g class="hover">`)
	for i := range n {
		mid := x.min + (x.max-x.min)*(float64(i)+.5)/float64(n)
		half := (x.max - x.min) / float64(n)
		var lines []string
		at := mid
		for k, s := range c.series {
			best := -1
			for j := indexes[k]; j < len(s.points) && s.points[j].x <= mid+half; j++ {
				indexes[k] = j
				if known(s.points[j].y) && (math.Abs(s.points[j].x-mid) <= half || s.step) &&
					(best < 0 || math.Abs(s.points[j].x-mid) < math.Abs(s.points[best].x-mid)) {
					best = j
				}
			}
			if best >= 0 {
				if !s.step {
					at = s.points[best].x
				}
				lines = append(lines, s.name+": "+s.one(s.points[best].y))
			}
		}
		if len(lines) == 0 {
			continue
		}
		head := duration(at)
		if c.xName != "" {
			head = c.xName + " " + count(math.Round(at))
		}
		d.f(`<rect x="%s" y="%g" width="%s" height="%g"><title>%s`, px(x.from+width*float64(i)), marginTop, px(width), d.height-marginBottom-marginTop, esc(head))
		for _, l := range lines {
			d.f("\n%s", esc(l))
		}
		d.f(`</title></rect>`)
	}
	d.f(`</g>`)
}
