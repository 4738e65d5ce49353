package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Series is one line of a chart.
type Series struct {
	Name   string
	Class  string // s1 … s8, the colour; empty: by position
	Points []Point
	One    func(float64) string // formats a value; nil: as the axis
	Dashed bool                 // drawn dashed: a prediction, or a reference for comparison
	Area   bool
	Step   bool
	Dense  bool   // sampled data: points get no dots
	Sign   string // letter at the end of the line, for series that colour alone would distinguish; empty: none
	Pieces bool   // separate pieces: no point is thinned or gets a dot
	Loose  bool   // separate points: no line
	Keep   keep
	Band   []Band // interval around the line; may be empty
	// Whiskers draws the band as one whisker per point, for separate measurements.
	Whiskers bool
}

// classes is the number of colours.
const classes = 8

// Class returns the colour of the series at a position. Colours repeat after the eighth.
func Class(i int) string { return fmt.Sprintf("s%d", i%classes+1) }

// keep selects the value that represents several points drawn as one.
type keep int

const (
	meanOfSamples keep = iota
	Last               // for accumulating quantities
	Largest            // for quantities whose peak matters
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

// Axis is one axis of a Chart.
type Axis struct {
	Name  string  // with the unit
	Zero  bool    // includes 0
	Log   bool    // logarithmic: values ≤ 0 are not shown
	Time  bool    // values are seconds; the name is that of the unit
	Whole bool    // ticks are integers
	Share bool    // fractions of 1, labelled in percent
	Top   float64 // upper end; 0: by the values
	Max   float64 // of the vertical axis: lines end there; 0: no limit
}

// shows reports whether a value can be shown.
func (a *Axis) shows(v float64) bool { return Known(v) && (!a.Log || v > 0) }

// one returns the default format of values.
func (a *Axis) one() func(float64) string {
	switch {
	case a.Share:
		return func(v float64) string { return WithUnit(100*v, "%") }
	case a.Time:
		return Duration
	}
	return Significant
}

// Chart is a line chart. A horizontal axis without a name is the time since the start, in seconds.
type Chart struct {
	ID, Title string // the ID is unique in the page; it may be empty
	Note      string // explanation below the title; may be empty
	X, Y      Axis
	Series    []Series
	Levels    []Level
	Moments   []Moment
	Why       string // reason shown when the chart is empty
}

// size is the drawing area of a picture, in the units of its view box; the page scales it.
type size struct{ Width, Height float64 }

// normalSize is the size of a picture of half the page width or on a narrow page, wideSize that of the full width.
var normalSize, wideSize = size{560, 264}, size{1090, 380}

const (
	marginLeft, marginRight = 58.0, 16.0
	marginTop, marginBottom = 28.0, 40.0
	maxPoints               = 240 // per line; more cannot be distinguished
	hoverSlices             = 80
)

// Fit sets the pixel ranges of both axes.
func (z size) Fit(x, y *Scale) {
	x.From, x.To = marginLeft, z.Width-marginRight
	y.From, y.To = z.Height-marginBottom, marginTop
}

// Key is an entry of the legend.
type Key struct{ Class, Name string }

// Picture is a rendered chart for the HTML templates.
type Picture struct {
	ID, Title string
	Note      string // explanation below the title; may be empty
	Keys      []Key
	SVG       template.HTML
	Narrow    template.HTML // variant for a narrow page; empty if SVG serves both
	Empty     string
}

// emptyWords is shown instead of an empty picture; why may be empty.
func emptyWords(why string) string { return strings.TrimSuffix("No data: "+why, ": ") }

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
	p := Picture{ID: c.ID, Title: c.Title, Note: c.Note}
	c = c.prepared()
	if c.Empty() {
		p.Empty = emptyWords(c.Why)
		return p
	}
	for _, s := range c.Series {
		if slices.ContainsFunc(s.Points, func(p Point) bool { return Known(p.Y) }) {
			p.Keys = append(p.Keys, s.key())
		}
	}
	x, y := c.axes()
	b := newDrawing(normalSize, c.ID, c.Title, c.describe())
	unit := c.Y.Name
	if c.Y.Time {
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
	p.SVG = b.finish()
	return p
}

// Pictures renders charts.
func Pictures(charts []Chart) []Picture {
	out := make([]Picture, len(charts))
	for i := range charts {
		out[i] = charts[i].Picture()
	}
	return out
}

// key returns the legend of a series.
func (s *Series) key() Key {
	k := Key{s.Class, s.Name}
	switch {
	case s.Dashed:
		k.Class += " dashed"
	case s.Loose:
		k.Class += " dot"
	}
	if len(s.Band) > 1 || s.Whiskers && len(s.Band) > 0 {
		k.Name += ", with 90 % interval"
	}
	return k
}

// prepared returns the chart with the defaults of its series and with the points to be drawn.
func (c *Chart) prepared() *Chart {
	out := *c
	out.Series = slices.Clone(c.Series)
	for i := range out.Series {
		s := &out.Series[i]
		if s.Class == "" {
			s.Class = Class(i)
		}
		if s.One == nil {
			s.One = c.Y.one()
		}
		s.Points = c.shown(s.Points)
		if !s.Pieces {
			s.Points = s.thin(maxPoints)
		}
	}
	return &out
}

// shown returns the points of a line as they are drawn: a value that cannot be shown is a gap, and a line that exceeds
// the limit of the vertical axis ends there.
func (c *Chart) shown(points []Point) []Point {
	out := make([]Point, 0, len(points))
	for _, p := range points {
		n := len(out)
		switch {
		case !c.X.shows(p.X):
			if n > 0 {
				out = append(out, Point{out[n-1].X, math.NaN()})
			}
			continue
		case !c.Y.shows(p.Y):
			p.Y = math.NaN()
		case c.Y.Max > 0 && p.Y > c.Y.Max:
			if n > 0 && Known(out[n-1].Y) {
				q := out[n-1]
				out = append(out, Point{q.X + (p.X-q.X)*(c.Y.Max-q.Y)/(p.Y-q.Y), c.Y.Max})
			}
			p.Y = math.NaN()
		}
		out = append(out, p)
	}
	return out
}

// axes returns the scales for the points, bands and moments. Levels above three times the data are ignored so that a
// distant limit does not flatten the lines.
func (c *Chart) axes() (x, y *Scale) {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			if Known(p.Y) {
				xs, ys = append(xs, p.X), append(ys, p.Y)
			} else if c.Y.Max > 0 { // above the limit, as a rule
				xs = append(xs, p.X)
			}
		}
		for _, b := range s.Band {
			ys = append(ys, b.Hi)
			if !c.Y.Zero {
				ys = append(ys, b.Lo)
			}
		}
	}
	for _, m := range c.Moments {
		xs = append(xs, m.X)
	}
	data := most(ys)
	for _, l := range c.Levels { // a limit far above the data would flatten the lines
		if l.Value <= 3*data {
			ys = append(ys, l.Value)
		}
	}
	if c.Y.Top > 0 {
		ys = append(ys, c.Y.Top)
	}
	x, y = c.X.across(xs), c.Y.up(ys)
	normalSize.Fit(x, y)
	return x, y
}

// across returns the scale of a horizontal axis, which ends where the data ends.
func (a *Axis) across(values []float64) *Scale {
	switch {
	case a.Name == "":
		return newTimeScale(values, 6, true, true)
	case a.Log:
		return NewScale(values, 6, false, true)
	case a.Zero:
		values = append(values, 0)
	}
	s := NewScale(values, 7, false, false)
	s.Min, s.Max = least(values), most(values)
	if s.Max == s.Min {
		s.Max++
	}
	slack := 1e-9 * (s.Max - s.Min)
	s.Ticks = slices.DeleteFunc(s.Ticks, func(t float64) bool { return t < s.Min-slack || t > s.Max+slack })
	a.label(s)
	return s
}

// up returns the scale of a vertical axis.
func (a *Axis) up(values []float64) *Scale {
	if a.Time {
		return newTimeScale(values, 4, a.Zero, false)
	}
	ticks := 4
	if a.Share {
		ticks = 5 // of 20 %
	}
	s := NewScale(values, ticks, a.Zero, a.Log)
	if a.Whole && len(s.Ticks) > 1 && s.Ticks[1]-s.Ticks[0] < 1 {
		s.ticksEvery(1)
	}
	if a.Top > 0 {
		s.Max = a.Top
	}
	a.label(s)
	return s
}

// label formats the ticks of shares in percent.
func (a *Axis) label(s *Scale) {
	if a.Share {
		s.Label = func(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) + Blank + "%" }
	}
}

func (c *Chart) xTitle(x *Scale) string {
	if c.X.Name != "" {
		return c.X.Name
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
			parts = append(parts, fmt.Sprintf("%s: from %s to %s, last %s", s.Name, s.One(least(v)), s.One(most(v)), s.One(v[len(v)-1])))
		}
	}
	if n := len(c.Moments); n > 0 {
		parts = append(parts, Plural(n, "change")+" marked")
	}
	return strings.Join(parts, "; ")
}

// least returns the smallest known value, +Inf if there are no known values.
func least(v []float64) float64 {
	m := math.Inf(1)
	for _, x := range v {
		if Known(x) {
			m = math.Min(m, x)
		}
	}
	return m
}

// most returns the largest known value, −Inf if there are no known values.
func most(v []float64) float64 {
	m := math.Inf(-1)
	for _, x := range v {
		if Known(x) {
			m = math.Max(m, x)
		}
	}
	return m
}

// Distribution returns the empirical distribution function of the values as a line; unknown values are omitted.
func Distribution(name string, values []float64) Series {
	sorted := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !Known(v) })
	slices.Sort(sorted)
	s := Series{Name: name, Dense: true}
	const most = 200
	for k := range min(most, len(sorted)) {
		i := len(sorted) - 1
		if n := min(most, len(sorted)); n > 1 {
			i = k * (len(sorted) - 1) / (n - 1)
		}
		s.Points = append(s.Points, Point{sorted[i], float64(i+1) / float64(len(sorted))})
	}
	return s
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

func (k keep) of(points []Point) Point {
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
