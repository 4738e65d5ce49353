package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Mark is one point of a Scatter.
type Mark struct {
	X, Y float64
	// Class is "on-front", "quiet" or "hollow".
	Class string
	Title string // tooltip; may have several lines
	// Radius is in pixels; 0 means 5.
	Radius float64
	// Name is a label beside the point, omitted if it would overlap another; empty for none.
	Name string
	// Ring labels a ring around the point; empty for no ring.
	Ring string
	// Whiskers holds the intervals of both values, drawn if the mark has a ring; nil for none.
	Whiskers *Whiskers
	// Sign represents the point in a Sketch; empty means "·".
	Sign string
}

// Whiskers holds the ends of the intervals of a Mark.
type Whiskers struct{ XLo, XHi, YLo, YHi float64 }

// Scatter is a picture of points in the plane, such as the time and cost of runs; later marks are drawn above earlier
// ones. An axis is logarithmic if its values span more than a factor of 25.
type Scatter struct {
	ID, Title    string
	About        string // description for screen readers; empty: the number of points
	XName, YName string
	TimeX        bool // X is in seconds
	Marks        []Mark
	Edge         []Point // points joined by a line below the marks
	Keys         []Key
	Why          string // reason shown when the picture is empty
}

// known returns the marks that have known values.
func (s *Scatter) known() []Mark {
	var list []Mark
	for _, m := range s.Marks {
		if Known(m.X) && Known(m.Y) {
			list = append(list, m)
		}
	}
	return list
}

// Picture renders the scatter for a wide and for a narrow page. Marks with unknown values are omitted.
func (s *Scatter) Picture() Picture {
	p := Picture{ID: s.ID, Title: s.Title, Keys: s.Keys}
	marks := s.known()
	if len(marks) == 0 {
		p.Empty, p.Keys = "No data", nil
		if s.Why != "" {
			p.Empty += ": " + s.Why
		}
		return p
	}
	about := s.About
	if about == "" {
		about = Plural(len(marks), "point")
	}
	draw := func(z Size, id string) template.HTML {
		x, y, xName, yName := s.axes(marks, 7, 5)
		z.Fit(x, y)
		d := plane{NewDrawing(z, id, s.Title, about), x, y}
		d.Axes(x, y, xName, yName)
		d.edge(s.Edge)
		d.marks(marks)
		return d.Finish()
	}
	p.SVG, p.Narrow = draw(WideSize, s.ID), draw(NormalSize, s.ID+"-narrow")
	return p
}

// plane is a drawing with its scales.
type plane struct {
	*Drawing
	x, y *Scale
}

func (d plane) edge(points []Point) {
	var at []string
	for _, p := range points {
		at = append(at, Px(d.x.At(p.X))+" "+Px(d.y.At(p.Y)))
	}
	if len(at) > 1 {
		d.F(`<path class="front" d="M%s"/>`, strings.Join(at, "L"))
	}
}

// marks draws the points, then the rings, then the labels, those of rings first.
func (d plane) marks(marks []Mark) {
	words := d.Labels()
	for _, m := range marks {
		at, r := d.at(m), m.radius()
		words.Avoid(at.X, at.Y, r, r)
		d.F(`<circle class="offer %s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`, Esc(m.Class), Px(at.X), Px(at.Y), Px(r), EscLines(m.Title))
	}
	for _, m := range marks {
		if at, r := d.at(m), m.radius()+5; m.Ring != "" {
			d.whiskers(m)
			d.F(`<circle class="ring" cx="%s" cy="%s" r="%s"/>`, Px(at.X), Px(at.Y), Px(r))
			words.Avoid(at.X, at.Y, r+1, r+1)
		}
	}
	for _, m := range marks {
		if at := d.at(m); m.Ring != "" {
			words.Put(at.X, at.Y, m.radius()+9, m.Ring, "chosen")
		}
	}
	for _, m := range marks {
		if at := d.at(m); m.Name != "" {
			words.Try(at.X, at.Y, m.radius()+4, m.Name, "ran")
		}
	}
}

func (d plane) at(m Mark) Point { return Point{d.x.At(m.X), d.y.At(m.Y)} }

// whiskers draws both intervals, clipped to the picture.
func (d plane) whiskers(m Mark) {
	if m.Whiskers == nil {
		return
	}
	end := func(s *Scale, v float64) string { return Px(s.At(Clamp(v, s.Min, s.Max))) }
	at, w := d.at(m), m.Whiskers
	d.F(`<path class="whisker" d="M%s %sH%sM%s %sV%s"/>`, end(d.x, w.XLo), Px(at.Y), end(d.x, w.XHi), Px(at.X), end(d.y, w.YLo), end(d.y, w.YHi))
}

func (m Mark) radius() float64 {
	if m.Radius > 0 {
		return m.Radius
	}
	return 5
}

// axes returns the scales for the marks, with about nx and ny ticks, and the axis titles.
func (s *Scatter) axes(marks []Mark, nx, ny int) (x, y *Scale, xName, yName string) {
	var xs, ys []float64
	for _, m := range marks {
		xs, ys = append(xs, m.X), append(ys, m.Y)
	}
	switch {
	case !s.TimeX:
		x = looseScale(xs, nx)
	case spread(xs) > wideSpread:
		x = newLogTimeScale(append(slices.Clone(xs), Most(xs)*1.05))
	default:
		room := (Most(xs) - Least(xs)) * .05
		x = NewTimeScale(append(slices.Clone(xs), Least(xs)-room, Most(xs)+room), nx, Least(xs) < Most(xs)*.3, false)
	}
	y = looseScale(ys, ny)
	name := func(name string, of *Scale) string {
		if of.Unit != "" {
			name += ", " + of.Unit
		}
		if of.Log {
			name += " (logarithmic)"
		}
		return name
	}
	return x, y, name(s.XName, x), name(s.YName, y)
}

// wideSpread is the ratio of largest to smallest value above which an axis is logarithmic.
const wideSpread = 25

// spread returns the ratio of the largest to the smallest value, or 0 if not all values are positive.
func spread(v []float64) float64 {
	if lo := Least(v); lo > 0 {
		return Most(v) / lo
	}
	return 0
}

// looseScale returns an axis with a margin around the data.
func looseScale(v []float64, n int) *Scale {
	lo, hi := Least(v), Most(v)
	log := spread(v) > wideSpread
	if room := (hi - lo) * .1; !log && lo > room {
		lo -= room
	}
	return NewScale(append(slices.Clone(v), lo, hi*1.05), n, lo < hi*.4 && !log, log)
}

// Bar is one row of Bars.
type Bar struct {
	Name  string
	Parts []Part
	Text  string // the formatted value, to the right of the bar
	Title string // tooltip
}

// Part is a segment of a bar.
type Part struct {
	Value float64 // ≥ 0; an unknown value is not drawn
	Class string  // s1 … s4
}

// Bars is a picture with one horizontal bar per row, starting at 0.
type Bars struct {
	ID, Title string
	Rows      []Bar
	Keys      []Key
	Why       string
}

const (
	barStep   = 26.0
	barHeight = 13.0
	barName   = 170.0 // width of the names
	barText   = 96.0  // width of the values
	nameRunes = 26
)

// Picture renders the bars. Its height is proportional to the number of rows.
func (b *Bars) Picture() Picture {
	p := Picture{ID: b.ID, Title: b.Title, Keys: b.Keys}
	most := 0.0
	for _, r := range b.Rows {
		most = math.Max(most, r.length())
	}
	if most == 0 {
		p.Empty, p.Keys = "No data", nil
		if b.Why != "" {
			p.Empty += ": " + b.Why
		}
		return p
	}
	z := Size{NormalSize.Width, barStep*float64(len(b.Rows)) + 8}
	d := NewDrawing(z, b.ID, b.Title, Plural(len(b.Rows), "bar"))
	room := z.Width - barName - barText
	for i, r := range b.Rows {
		top := 4 + barStep*float64(i)
		d.F(`<g><title>%s</title>`, EscLines(r.Title))
		d.F(`<text class="end" x="%g" y="%s">%s</text>`, barName-8, Px(top+barHeight-1), Esc(shorten(r.Name)))
		at := barName
		for _, part := range r.Parts {
			if width := part.Value / most * room; Known(part.Value) && width > 0 {
				d.F(`<rect class="bar %s" x="%s" y="%s" width="%s" height="%g"/>`, Esc(part.Class), Px(at), Px(top+2), Px(math.Max(width, 1)), barHeight)
				at += width
			}
		}
		d.F(`<text x="%s" y="%s">%s</text></g>`, Px(at+6), Px(top+barHeight-1), Esc(r.Text))
	}
	d.F(`<line class="axis" x1="%g" x2="%g" y1="0" y2="%g"/>`, barName, barName, z.Height)
	p.SVG = d.Finish()
	return p
}

func (r Bar) length() float64 {
	sum := 0.0
	for _, p := range r.Parts {
		if Known(p.Value) && p.Value > 0 {
			sum += p.Value
		}
	}
	return sum
}

// shorten removes the middle of a long name, where names differ least.
func shorten(s string) string {
	r := []rune(Clean(s))
	if len(r) <= nameRunes {
		return string(r)
	}
	half := (nameRunes - 1) / 2
	return fmt.Sprintf("%s…%s", string(r[:half]), string(r[len(r)-half:]))
}
