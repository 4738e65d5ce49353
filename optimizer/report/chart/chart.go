package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Series is one line of a chart. Class selects its colour in the style sheet.
type Series struct {
	Name   string
	Class  string // s1 … s4
	Points []Point
	One    func(float64) string
	Dashed bool // drawn dashed: a prediction
	Area   bool
	Step   bool
	Dense  bool // sampled data: points get no dots
	Keep   Keep
	Band   []Band // interval around the line; may be empty
	// Whiskers draws the band as one whisker per point, for separate measurements.
	Whiskers bool
}

// Keep selects the value that represents several points drawn as one.
type Keep int

const (
	Mean    Keep = iota
	Last         // for accumulating quantities
	Largest      // for quantities whose peak matters
)

// Band is an interval [Lo, Hi] at X.
type Band struct{ X, Lo, Hi float64 }

// Level is a horizontal line: a limit or the baseline.
type Level struct {
	Name  string
	Value float64
	Class string // limit, base
}

// Moment is a vertical mark: a restart, a live change or a recommendation.
type Moment struct {
	X     float64
	Class string // restart, live, recommended
	Title string
}

// Chart is one picture with a horizontal axis of time or, if XName is set, of another quantity.
type Chart struct {
	ID, Title string
	Unit      string // of the vertical axis
	Series    []Series
	Levels    []Level
	Moments   []Moment
	XName     string // name of the horizontal axis; empty: time
	Zero      bool   // include 0 in the vertical axis
	TimeY     bool   // the vertical axis is in seconds
	Whole     bool   // only integer ticks
	Top       float64
	Why       string // reason shown when the chart is empty
}

// Size is the drawing area of a picture, in the units of its view box; the page scales it.
type Size struct{ Width, Height float64 }

// NormalSize is the size of a picture of half the page width or on a narrow page, WideSize that of the full width.
var NormalSize, WideSize = Size{560, 264}, Size{1090, 380}

const (
	marginLeft, marginRight = 58.0, 16.0
	marginTop, marginBottom = 28.0, 40.0
	maxPoints               = 220 // per line; more cannot be distinguished
	hoverSlices             = 80
)

// Fit sets the pixel ranges of both axes.
func (z Size) Fit(x, y *Scale) {
	x.From, x.To = marginLeft, z.Width-marginRight
	y.From, y.To = z.Height-marginBottom, marginTop
}

// Key is an entry of the legend.
type Key struct{ Class, Name string }

// Picture is a rendered chart for the HTML templates.
type Picture struct {
	ID, Title string
	Keys      []Key
	SVG       template.HTML
	Narrow    template.HTML // variant for a narrow page; empty if SVG serves both
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

// Picture renders the chart. Long series are thinned according to Keep.
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

// HasValue reports whether any point has a known value.
func HasValue(points []Point) bool {
	for _, p := range points {
		if Known(p.Y) {
			return true
		}
	}
	return false
}

// axes returns the scales for the points, bands and moments. Levels above three times the data are ignored so that a
// distant limit does not flatten the lines. Top, if positive, fixes the upper end of the vertical axis.
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
	for _, l := range c.Levels { // a limit far above the data would flatten the lines
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

// describe returns a textual description of the chart for screen readers.
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

// Least returns the smallest known value, +Inf if there are no known values.
func Least(v []float64) float64 {
	m := math.Inf(1)
	for _, x := range v {
		if Known(x) {
			m = math.Min(m, x)
		}
	}
	return m
}

// Most returns the largest known value, −Inf if there are no known values.
func Most(v []float64) float64 {
	m := math.Inf(-1)
	for _, x := range v {
		if Known(x) {
			m = math.Max(m, x)
		}
	}
	return m
}

// thin reduces a series to at most n points, each representing a range of points according to Keep; a range without a
// known value remains a gap. A step series keeps all its changes instead.
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
