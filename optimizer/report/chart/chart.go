package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Series is one line of a chart. The class picks its colour from the style sheet.
type Series struct {
	Name   string
	Class  string // s1 … s4
	Points []Point
	One    func(float64) string
	Dashed bool // predicted
	Area   bool
	Step   bool
	Dense  bool // sampled: single points need no dot
	Keep   Keep
	Band   []Band // around it, may be empty
	// Whiskers draws the band as one whisker at each of its points, for measurements that are apart.
	Whiskers bool
}

// Keep says what stays of a stretch of points that is drawn as one.
type Keep int

const (
	Mean    Keep = iota
	Last         // what accumulates
	Largest      // where the peak counts
)

type Band struct{ X, Lo, Hi float64 }

// Level is a horizontal line: an agreed limit, the baseline.
type Level struct {
	Name  string
	Value float64
	Class string // limit, base
}

// Moment is a vertical mark: a restart, a change, advice.
type Moment struct {
	X     float64
	Class string // restart, live, recommended
	Title string
}

// Chart is one picture with a time (or epoch) axis.
type Chart struct {
	ID, Title string
	Unit      string // of the vertical axis
	Series    []Series
	Levels    []Level
	Moments   []Moment
	XName     string // of the horizontal axis when it is not time
	Zero      bool   // 0 is on the vertical axis
	TimeY     bool   // seconds
	Whole     bool   // only whole numbers
	Top       float64
	Why       string // why there is nothing to see
}

// Size is the drawing area of a picture, in the units of its view box; the page scales it.
type Size struct{ Width, Height float64 }

// NormalSize is that of a picture of half the page or a narrow one, WideSize that of the whole width.
var NormalSize, WideSize = Size{560, 264}, Size{1090, 380}

const (
	marginLeft, marginRight = 58.0, 16.0
	marginTop, marginBottom = 28.0, 40.0
	maxPoints               = 220 // of one line; more cannot be seen
	hoverSlices             = 80
)

// Fit gives the axes their pixels.
func (z Size) Fit(x, y *Scale) {
	x.From, x.To = marginLeft, z.Width-marginRight
	y.From, y.To = z.Height-marginBottom, marginTop
}

// Key is an entry of the legend.
type Key struct{ Class, Name string }

// Picture is a chart as HTML wants it.
type Picture struct {
	ID, Title string
	Keys      []Key
	SVG       template.HTML
	Narrow    template.HTML // the same for a narrow page, empty when SVG does for both
	Empty     string
}

// Empty reports whether there is nothing to draw.
func (c *Chart) Empty() bool {
	for _, s := range c.Series {
		for _, p := range s.Points {
			if Known(p.X) && Known(p.Y) {
				return false
			}
		}
	}
	return true
}

// Picture draws the chart. Of long series it keeps what can be seen: see Keep.
func (c *Chart) Picture() Picture {
	p := Picture{ID: c.ID, Title: c.Title}
	if c.Empty() {
		p.Empty = "No data"
		if c.Why != "" {
			p.Empty += ": " + c.Why
		}
		return p
	}
	for i := range c.Series {
		c.Series[i].Points = c.Series[i].thin(maxPoints)
		s := c.Series[i]
		class := s.Class
		if s.Dashed {
			class += " dashed"
		}
		if HasValue(s.Points) {
			name := s.Name
			if len(s.Band) > 1 || s.Whiskers && len(s.Band) > 0 {
				name += ", with 90 % interval"
			}
			p.Keys = append(p.Keys, Key{class, name})
		}
	}
	x, y := c.axes()
	b := NewDrawing(NormalSize, c.ID, c.Title, c.describe())
	unit := c.Unit
	if c.TimeY {
		unit = y.Unit
	}
	b.Axes(x, y, c.xTitle(x), unit)
	for _, s := range c.Series {
		b.bandOf(s, x, y)
	}
	names := b.levels(c, x, y)
	for _, m := range c.Moments {
		b.moment(m, x)
	}
	for _, s := range c.Series {
		b.lineOf(s, x, y)
	}
	b.b.WriteString(names)
	b.hover(c, x)
	for _, m := range c.Moments {
		b.momentHandle(m, x)
	}
	p.SVG = b.Finish()
	return p
}

// HasValue reports whether any of the points is known.
func HasValue(points []Point) bool {
	for _, p := range points {
		if Known(p.Y) {
			return true
		}
	}
	return false
}

func (c *Chart) axes() (x, y *Scale) {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			if Known(p.Y) {
				xs, ys = append(xs, p.X), append(ys, p.Y)
			}
		}
		for _, b := range s.Band {
			ys = append(ys, b.Hi)
			if !c.Zero {
				ys = append(ys, b.Lo)
			}
		}
	}
	for _, m := range c.Moments {
		xs = append(xs, m.X)
	}
	data := Most(ys)
	for _, l := range c.Levels { // a limit far above the data would flatten it
		if l.Value <= 3*data {
			ys = append(ys, l.Value)
		}
	}
	if c.Top > 0 {
		ys = append(ys, c.Top)
	}
	if c.XName == "" {
		x = NewTimeScale(xs, 6, true, true)
	} else {
		x = NewScale(xs, 7, false, false)
		x.Min, x.Max = Least(xs), math.Max(Most(xs), Least(xs)+1)
		var inside []float64
		for _, t := range x.Ticks {
			if t >= x.Min && t <= x.Max {
				inside = append(inside, t)
			}
		}
		x.Ticks = inside
	}
	if c.TimeY {
		y = NewTimeScale(ys, 4, c.Zero, false)
	} else {
		y = NewScale(ys, 4, c.Zero, false)
		if c.Whole && len(y.Ticks) > 1 && y.Ticks[1]-y.Ticks[0] < 1 {
			y.ticksEvery(1)
		}
	}
	if c.Top > 0 {
		y.Max = c.Top
	}
	NormalSize.Fit(x, y)
	return x, y
}

func (c *Chart) xTitle(x *Scale) string {
	if c.XName != "" {
		return c.XName
	}
	return x.Unit + " since the start"
}

// describe says in words what a picture shows.
func (c *Chart) describe() string {
	var parts []string
	for _, s := range c.Series {
		var v []float64
		for _, p := range s.Points {
			if Known(p.Y) {
				v = append(v, p.Y)
			}
		}
		if len(v) > 0 {
			parts = append(parts, fmt.Sprintf("%s: from %s to %s, last %s", s.Name, s.One(Least(v)), s.One(Most(v)), s.One(v[len(v)-1])))
		}
	}
	if n := len(c.Moments); n > 0 {
		parts = append(parts, Plural(n, "change")+" marked")
	}
	return strings.Join(parts, "; ")
}

// Least is the smallest known value, +Inf of none.
func Least(v []float64) float64 {
	m := math.Inf(1)
	for _, x := range v {
		if Known(x) {
			m = math.Min(m, x)
		}
	}
	return m
}

// Most is the largest known value, −Inf of none.
func Most(v []float64) float64 {
	m := math.Inf(-1)
	for _, x := range v {
		if Known(x) {
			m = math.Max(m, x)
		}
	}
	return m
}

// thin makes one Point of a stretch where there are more than can be seen; a stretch without a value stays a gap.
// Of steps it keeps those where something changes.
func (s Series) thin(n int) []Point {
	points := s.Points
	if s.Step {
		var out []Point
		for i, p := range points {
			if i == 0 || i == len(points)-1 || p.Y != points[i-1].Y && (Known(p.Y) || Known(points[i-1].Y)) {
				out = append(out, p)
			}
		}
		return out
	}
	if len(points) <= n {
		return points
	}
	out := make([]Point, 0, n)
	for i := range n {
		out = append(out, s.Keep.of(points[i*len(points)/n:(i+1)*len(points)/n]))
	}
	return out
}

func (k Keep) of(points []Point) Point {
	var known []Point
	for _, p := range points {
		if !math.IsNaN(p.Y) {
			known = append(known, p)
		}
	}
	if len(known) == 0 {
		return points[0]
	}
	switch k {
	case Last:
		return known[len(known)-1]
	case Largest:
		return slices.MaxFunc(known, func(a, b Point) int { return cmp.Compare(a.Y, b.Y) })
	}
	var sum Point
	for _, p := range known {
		sum.X, sum.Y = sum.X+p.X, sum.Y+p.Y
	}
	return Point{sum.X / float64(len(known)), sum.Y / float64(len(known))}
}
