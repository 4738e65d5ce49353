package page

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"sort"
	"strings"
)

// Charts are written here rather than with gonum/plot, whose SVG has fixed colours and sizes and no titles. These adapt
// to light and dark pages through CSS classes, show a tooltip for every Point and are accessible to screen readers.

// Point is a data point; a NaN Y is a gap.
type Point struct{ X, Y float64 }

// Drawing is an SVG writer. All text in it is escaped by Esc.
type Drawing struct {
	b strings.Builder
	size
}

// newDrawing starts a picture with a title and a description for screen readers. The id is unique in the page; it may
// be empty.
func newDrawing(z size, id, title, description string) *Drawing {
	d := &Drawing{size: z}
	if id == "" {
		d.F(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, z.Width, z.Height, Esc(title+": "+description))
		return d
	}
	d.F(`<svg viewBox="0 0 %g %g" role="img" aria-labelledby="%s-t %s-d" preserveAspectRatio="xMidYMid meet">`, z.Width, z.Height, id, id)
	d.F(`<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, Esc(title), id, Esc(description))
	return d
}

// Draw draws a picture for a wide and for a narrow page; about is its description for screen readers.
func (p Picture) Draw(about string, draw func(d *Drawing)) Picture {
	one := func(z size, id string) template.HTML {
		d := newDrawing(z, id, p.Title, about)
		draw(d)
		return d.finish()
	}
	narrow := ""
	if p.ID != "" {
		narrow = p.ID + "-narrow"
	}
	p.SVG, p.Narrow = one(wideSize, p.ID), one(normalSize, narrow)
	return p
}

// F appends SVG formatted as by fmt.Fprintf.
func (d *Drawing) F(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// finish closes the picture and returns it.
func (d *Drawing) finish() template.HTML {
	d.b.WriteString("</svg>")
	return template.HTML(d.b.String()) // every text in it was escaped by Esc
}

// Esc escapes text for SVG and removes control characters.
func Esc(s string) string { return html.EscapeString(Clean(s)) }

// Px formats a coordinate.
func Px(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// Axes draws both axes with their ticks and titles. Size.Fit must have set their pixel ranges.
func (d *Drawing) Axes(x, y *Scale, xTitle, yTitle string) {
	for _, t := range y.Ticks {
		if t > y.Max+1e-9*math.Abs(y.Max) {
			continue
		}
		at := y.At(t)
		class := "grid"
		if t == y.Min {
			class = "axis"
		}
		d.F(`<line class="%s" x1="%g" x2="%g" y1="%s" y2="%s"/>`, class, marginLeft, d.Width-marginRight, Px(at), Px(at))
		d.F(`<text class="tick end" x="%g" y="%s">%s</text>`, marginLeft-8, Px(at+4), Esc(y.Label(t)))
	}
	for _, t := range x.Ticks {
		at := x.At(t)
		d.F(`<line class="axis" x1="%s" x2="%s" y1="%g" y2="%g"/>`, Px(at), Px(at), d.Height-marginBottom, d.Height-marginBottom+4)
		d.F(`<text class="tick mid" x="%s" y="%g">%s</text>`, Px(at), d.Height-marginBottom+17, Esc(x.Label(t)))
	}
	d.F(`<text class="unit" x="%g" y="%g">%s</text>`, 4.0, 13.0, Esc(yTitle))
	d.F(`<text class="unit end" x="%g" y="%g">%s</text>`, d.Width-marginRight, d.Height-6, Esc(xTitle))
}

// bandOf draws the interval of a series, as whiskers or as a filled band clipped to the vertical axis. A band is
// thinned to maxPoints.
func (d *Drawing) bandOf(s Series, x, y *Scale) {
	if s.Whiskers {
		for _, b := range s.Band {
			at, lo, hi := x.At(b.X), clamp(y.At(b.Lo), y.To, y.From), clamp(y.At(b.Hi), y.To, y.From)
			d.F(`<path class="whisker %s" d="M%s %sV%sM%s %sh6M%s %sh6"/>`, s.Class, Px(at), Px(lo), Px(hi), Px(at-3), Px(lo), Px(at-3), Px(hi))
		}
		return
	}
	bands := s.Band
	if len(bands) > maxPoints {
		step := float64(len(bands)) / maxPoints
		var fewer []Band
		for i := range maxPoints {
			fewer = append(fewer, bands[int(float64(i)*step)])
		}
		bands = append(fewer, bands[len(bands)-1])
	}
	if len(bands) < 2 {
		return
	}
	d.F(`<path class="band %s" d="`, s.Class)
	for i, b := range bands {
		d.F("%s%s %s", map[bool]string{true: "M", false: "L"}[i == 0], Px(x.At(b.X)), Px(clamp(y.At(b.Hi), y.To, y.From)))
	}
	for i := len(bands) - 1; i >= 0; i-- {
		d.F("L%s %s", Px(x.At(bands[i].X)), Px(clamp(y.At(bands[i].Lo), y.To, y.From)))
	}
	d.F(`Z"/>`)
}

// clamp returns v limited to [lo, hi].
func clamp(v, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, v)) }

// levels draws the horizontal lines and returns their labels, which the caller draws on top of everything.
func (d *Drawing) levels(c *Chart, x, y *Scale) string {
	names, levels := &Drawing{}, c.Levels
	sort.SliceStable(levels, func(i, j int) bool { return levels[i].Value > levels[j].Value })
	above := math.Inf(-1)
	for _, l := range levels {
		if !Known(l.Value) || l.Value < y.Min || l.Value > y.Max*(1+1e-9) {
			continue
		}
		at := y.At(l.Value)
		d.F(`<line class="level %s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, l.Class, Px(x.From), Px(x.To), Px(at), Px(at))
		label := at - 5
		if label < above+13 || label < y.To-6 {
			label = math.Max(above+13, at+14)
		}
		above = label
		side, edge := "end", x.To-4
		if right := c.clearance(label, .72, 1, x, y); right < 12 && c.clearance(label, 0, .28, x, y) > right {
			side, edge = "start", x.From+6
		}
		names.F(`<text class="level-name halo %s %s" x="%s" y="%s">%s</text>`, side, l.Class, Px(edge), Px(label), Esc(l.Name))
	}
	return names.b.String()
}

// clearance returns the minimum distance in pixels between the lines of the chart and a height, over a range of the
// horizontal axis.
func (c *Chart) clearance(height, from, to float64, x, y *Scale) float64 {
	free := math.Inf(1)
	for _, s := range c.Series {
		for _, p := range s.Points {
			if at := (x.At(p.X) - x.From) / (x.To - x.From); Known(p.Y) && at >= from && at <= to {
				free = math.Min(free, math.Abs(y.At(p.Y)-(height-4)))
			}
		}
	}
	return free
}

func (d *Drawing) moment(m Moment, x *Scale) {
	at := Px(x.At(m.X))
	d.F(`<line class="moment %s" x1="%s" x2="%s" y1="%g" y2="%g"/>`, m.Class, at, at, marginTop, d.Height-marginBottom)
}

// momentHandle draws the hover target of a moment, which must be on top of everything.
func (d *Drawing) momentHandle(m Moment, x *Scale) {
	at := x.At(m.X)
	d.F(`<g class="handle %s"><title>%s</title><rect class="reach" x="%s" y="%g" width="14" height="16"/>`, m.Class, Esc(m.Title), Px(at-7), marginTop-12)
	d.F(`<path d="M%s %gl4 -6h-8z"/></g>`, Px(at), marginTop)
}

// lineOf draws a series as a path, with the area below it if Area is set. An unknown value, or a value ≤ 0 on a
// logarithmic axis, interrupts the line. Short series of separate measurements get dots.
func (d *Drawing) lineOf(s Series, x, y *Scale) {
	path, open := &strings.Builder{}, false
	var first, last Point
	area := &strings.Builder{}
	closeArea := func() {
		if s.Area && open {
			fmt.Fprintf(area, "L%s %sL%s %sZ", Px(x.At(last.X)), Px(y.From), Px(x.At(first.X)), Px(y.From))
		}
	}
	for _, p := range s.Points {
		if !Known(p.Y) || y.Log && p.Y <= 0 {
			closeArea()
			open = false
			continue
		}
		px1, py1 := Px(x.At(p.X)), Px(clamp(y.At(p.Y), y.To, y.From))
		for _, b := range []*strings.Builder{path, area} {
			switch {
			case !open:
				fmt.Fprintf(b, "M%s %s", px1, py1)
			case s.Step:
				fmt.Fprintf(b, "L%s %sL%s %s", px1, Px(y.At(last.Y)), px1, py1)
			default:
				fmt.Fprintf(b, "L%s %s", px1, py1)
			}
		}
		if !open {
			first = p
		}
		open, last = true, p
	}
	closeArea()
	if s.Area {
		d.F(`<path class="area %s" d="%s"/>`, s.Class, area)
	}
	dash, radius := "", 2.4
	if s.Dashed {
		dash = " dashed"
	}
	if s.Loose {
		radius = 4
	} else {
		d.F(`<path class="line %s%s" d="%s"/>`, s.Class, dash, path)
	}
	if s.Sign != "" && open {
		d.F(`<text class="sign halo %s" x="%s" y="%s">%s</text>`, s.Class, Px(x.At(last.X)+3), Px(clamp(y.At(last.Y), y.To, y.From)+4), Esc(s.Sign))
	}
	if s.Loose || len(s.Points) <= 60 && !s.Step && !s.Area && !s.Dashed && !s.Dense && !s.Pieces {
		for _, p := range s.Points {
			if Known(p.Y) {
				d.F(`<circle class="dot %s" cx="%s" cy="%s" r="%g"/>`, s.Class, Px(x.At(p.X)), Px(clamp(y.At(p.Y), y.To, y.From)), radius)
			}
		}
	}
}

// hover covers the chart with transparent slices; the tooltip of each lists the values in it and in the two beside it.
func (d *Drawing) hover(c *Chart, x *Scale) {
	n := hoverSlices
	width := (x.To - x.From) / float64(n)
	indexes := make([]int, len(c.Series))
	d.F(`<g class="hover">`)
	for i := range n {
		part := func(of float64) float64 { return x.value((float64(i) + of) / float64(n)) }
		from, mid, to := part(-.5), part(.5), part(1.5)
		var lines []string
		at := mid
		for k, s := range c.Series {
			best := -1
			for j := indexes[k]; j < len(s.Points) && s.Points[j].X <= to; j++ {
				indexes[k] = j
				if Known(s.Points[j].Y) && (s.Points[j].X >= from || s.Step) &&
					(best < 0 || math.Abs(s.Points[j].X-mid) < math.Abs(s.Points[best].X-mid)) {
					best = j
				}
			}
			if best >= 0 {
				if !s.Step {
					at = s.Points[best].X
				}
				lines = append(lines, s.Name+": "+s.One(s.Points[best].Y))
			}
		}
		if len(lines) == 0 {
			continue
		}
		head := Duration(at)
		if c.X.Name != "" {
			head = c.X.Name + " " + Count(at)
		}
		d.F(`<rect x="%s" y="%g" width="%s" height="%g"><title>%s`, Px(x.From+width*float64(i)), marginTop, Px(width), d.Height-marginBottom-marginTop, Esc(head))
		for _, l := range lines {
			d.F("\n%s", Esc(l))
		}
		d.F(`</title></rect>`)
	}
	d.F(`</g>`)
}
