package page

import (
	"cmp"
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
	Link  string // address that a disc leads to; empty: none
	// Radius is in pixels; 0 means 5.
	Radius float64
	// Name is a label beside the point, omitted if it would overlap another; empty for none.
	Name string
	// Ring labels a ring around the point; empty for no ring.
	Ring string
	// Whiskers holds the intervals of both values, drawn pale if the mark has no ring; nil for none.
	Whiskers *Whiskers
	// Shape is "diamond" or "cross", always labelled with Name; empty: a disc.
	Shape string
	// Sign represents the point in a Sketch; empty means "·".
	Sign string
}

// ShareRadius returns the radius of a mark that shows a fraction of 1 by its size; unknown fractions are small.
func ShareRadius(fraction float64) float64 {
	if !Known(fraction) {
		return 4
	}
	return 3 + 4.5*math.Sqrt(clamp(fraction, 0, 1))
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
	XLimit       Level   // drawn if its value lies within the axis, as is YLimit; the zero Level is none
	YLimit       Level
	Intervals    bool // the axes include the whiskers
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
	p := Picture{ID: s.ID, Title: s.Title}
	marks := s.known()
	if len(marks) == 0 {
		p.Empty = emptyWords(s.Why)
		return p
	}
	p.Keys = keysOf(s.Keys, func(kind string) bool {
		return slices.ContainsFunc(marks, func(m Mark) bool { return m.shows(kind) })
	})
	p = p.Draw(cmp.Or(s.About, Plural(len(marks), "point")), func(drawing *Drawing) {
		x, y, xName, yName := s.axes(marks, 7, 5)
		drawing.Fit(x, y)
		d := plane{drawing, x, y}
		d.Axes(x, y, xName, yName)
		d.limits(s.XLimit, s.YLimit)
		d.edge(s.Edge)
		d.marks(marks)
	})
	if slices.ContainsFunc(marks, func(m Mark) bool { return m.Link != "" }) { // an image has no parts
		for _, svg := range []*template.HTML{&p.SVG, &p.Narrow} {
			*svg = template.HTML(strings.Replace(string(*svg), `role="img"`, `role="group"`, 1))
		}
	}
	return p
}

// keysOf returns the entries of a legend whose kind, the last word of their class, occurs in the picture.
func keysOf(keys []Key, occurs func(kind string) bool) []Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return !occurs(k.Class[strings.LastIndex(k.Class, " ")+1:]) })
}

// shows reports whether a mark has what a legend calls kind.
func (m Mark) shows(kind string) bool {
	switch kind {
	case "ring":
		return m.Ring != ""
	case "diamond", "cross":
		return m.Shape == kind
	case "sizes":
		return m.Radius != 0
	case "disc":
		return m.Shape == "" && (m.Class == "" || strings.Contains(m.Class, "on-front"))
	}
	return strings.Contains(m.Class, kind)
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

// limits draws a vertical and a horizontal line.
func (d plane) limits(across, up Level) {
	if v := across.Value; v > d.x.Min && v < d.x.Max && across.Name != "" {
		at := d.x.At(v)
		d.F(`<line class="level limit" x1="%s" x2="%s" y1="%g" y2="%g"/>`, Px(at), Px(at), d.y.To, d.y.From)
		d.F(`<text class="level-name halo limit end" x="%s" y="%g">%s</text>`, Px(at-4), d.y.To+9, Esc(across.Name))
	}
	if v := up.Value; v > d.y.Min && v < d.y.Max && up.Name != "" {
		at := d.y.At(v)
		d.F(`<line class="level limit" x1="%s" x2="%s" y1="%s" y2="%s"/>`, Px(d.x.From), Px(d.x.To), Px(at), Px(at))
		d.F(`<text class="level-name halo limit end" x="%s" y="%s">%s</text>`, Px(d.x.To-4), Px(at-5), Esc(up.Name))
	}
}

// marks draws the intervals, the points, the rings, the shapes, then the labels, those of rings first.
func (d plane) marks(marks []Mark) {
	words := d.labels()
	for _, m := range marks {
		d.whiskers(m)
	}
	for _, m := range marks {
		at, r := d.at(m), m.radius()
		words.avoid(at.X, at.Y, r, r)
		if m.Shape == "" {
			d.linked(m, func() {
				d.F(`<circle class="offer %s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`, Esc(m.Class), Px(at.X), Px(at.Y), Px(r), escLines(m.Title))
			})
		}
	}
	for _, m := range marks {
		if at, r := d.at(m), m.radius()+5; m.Ring != "" {
			d.F(`<circle class="ring" cx="%s" cy="%s" r="%s"/>`, Px(at.X), Px(at.Y), Px(r))
			words.avoid(at.X, at.Y, r+1, r+1)
		}
	}
	for _, m := range marks {
		d.shape(m)
	}
	for _, m := range marks {
		if at := d.at(m); m.Ring != "" {
			words.put(at.X, at.Y, m.radius()+9, m.Ring, "chosen")
		}
	}
	for _, m := range marks {
		switch at := d.at(m); {
		case m.Name == "":
		case m.Shape != "":
			words.put(at.X, at.Y, m.radius()+6, m.Name, m.Shape)
		default:
			words.try(at.X, at.Y, m.radius()+4, m.Name, "ran")
		}
	}
}

// linked draws a mark within its link, with a larger target for pointers.
func (d plane) linked(m Mark, draw func()) {
	if m.Link == "" {
		draw()
		return
	}
	at := d.at(m)
	d.F(`<a href="%s" aria-label="%s"><circle class="reach" cx="%s" cy="%s" r="12"/>`, Esc(m.Link), Esc(strings.ReplaceAll(m.Title, "\n", ", ")), Px(at.X), Px(at.Y))
	draw()
	d.F(`</a>`)
}

// shape draws a diamond or a cross.
func (d plane) shape(m Mark) {
	switch at := d.at(m); m.Shape {
	case "diamond":
		d.F(`<path class="diamond" d="M%s %sl7 7l-7 7l-7 -7z"><title>%s</title></path>`, Px(at.X), Px(at.Y-7), escLines(m.Title))
	case "cross":
		path := fmt.Sprintf("M%s %sl10 10m0 -10l-10 10", Px(at.X-5), Px(at.Y-5))
		d.F(`<g class="cross"><title>%s</title><path class="halo-line" d="%s"/><path d="%s"/></g>`, escLines(m.Title), path, path)
	}
}

func (d plane) at(m Mark) Point { return Point{d.x.At(m.X), d.y.At(m.Y)} }

// whiskers draws both intervals, clipped to the picture.
func (d plane) whiskers(m Mark) {
	if m.Whiskers == nil {
		return
	}
	end := func(s *Scale, v float64) string { return Px(s.At(clamp(v, s.Min, s.Max))) }
	at, w, pale := d.at(m), m.Whiskers, ""
	if m.Ring == "" {
		pale = ` opacity="0.35"`
	}
	d.F(`<path class="whisker"%s d="M%s %sH%sM%s %sV%s"/>`, pale, end(d.x, w.XLo), Px(at.Y), end(d.x, w.XHi), Px(at.X), end(d.y, w.YLo), end(d.y, w.YHi))
}

func (m Mark) radius() float64 { return cmp.Or(m.Radius, 5) }

// axes returns the scales for the marks, with about nx and ny ticks, and the axis titles.
func (s *Scatter) axes(marks []Mark, nx, ny int) (x, y *Scale, xName, yName string) {
	var xs, ys []float64
	for _, m := range marks {
		xs, ys = append(xs, m.X), append(ys, m.Y)
		if w := m.Whiskers; w != nil && s.Intervals {
			xs, ys = append(xs, w.XLo, w.XHi), append(ys, w.YLo, w.YHi)
		}
	}
	switch {
	case !s.TimeX:
		x = looseScale(xs, nx)
	case spread(xs) > wideSpread:
		x = newLogTimeScale(append(slices.Clone(xs), most(xs)*1.05))
	default:
		room := (most(xs) - least(xs)) * .05
		x = newTimeScale(append(slices.Clone(xs), least(xs)-room, most(xs)+room), nx, least(xs) < most(xs)*.3, false)
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
	if lo := least(v); lo > 0 {
		return most(v) / lo
	}
	return 0
}

// looseScale returns an axis with a margin around the data.
func looseScale(v []float64, n int) *Scale {
	lo, hi := least(v), most(v)
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

	runeWidth       = 6.5
	narrowRuneWidth = 8.1 // in the larger letters of a narrow page
)

// Picture renders the bars. Its height is proportional to the number of rows.
func (b *Bars) Picture() Picture {
	p := Picture{ID: b.ID, Title: b.Title}
	most := 0.0
	for _, r := range b.Rows {
		most = math.Max(most, r.length())
	}
	if most == 0 {
		p.Empty = emptyWords(b.Why)
		return p
	}
	p.Keys = keysOf(b.Keys, func(class string) bool {
		return slices.ContainsFunc(b.Rows, func(r Bar) bool {
			return slices.ContainsFunc(r.Parts, func(part Part) bool { return part.Class == class && part.Value > 0 })
		})
	})
	z := size{normalSize.Width, barStep*float64(len(b.Rows)) + 8}
	d := newDrawing(z, b.ID, b.Title, Plural(len(b.Rows), "bar"))
	room := z.Width - barName - barText
	for i, r := range b.Rows {
		top := 4 + barStep*float64(i)
		d.F(`<g><title>%s</title>`, escLines(r.Title))
		d.F(`<text class="end" x="%g" y="%s">%s</text>`, barName-8, Px(top+barHeight-1), Esc(d.shorten(r.Name, barName)))
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
	p.SVG = d.finish()
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

// shorten removes the middle of a name that is wider than width, where names differ least. Only pictures of the full width
// are never on a narrow page.
func (d *Drawing) shorten(s string, width float64) string {
	letter := runeWidth
	if d.Width < wideSize.Width {
		letter = narrowRuneWidth
	}
	r, n := []rune(Clean(s)), int(width/letter)
	if len(r) <= n {
		return string(r)
	}
	half := (n - 1) / 2
	return fmt.Sprintf("%s…%s", string(r[:half]), string(r[len(r)-half:]))
}
