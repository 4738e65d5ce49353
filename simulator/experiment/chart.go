package experiment

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Chart is a line chart over one horizontal axis, for HTML pages.
type Chart struct {
	Title, Note string
	X, Y        Axis
	Lines       []Line
}

// Axis is one axis of a chart.
type Axis struct {
	Name string // including the unit
	Zero bool   // includes 0
	Log  bool   // logarithmic; only positive values are shown
	Max  float64
	// Share formats values in percent.
	Share bool
}

// Line is one line of a chart. Non-finite points interrupt it; at points beyond an axis' Max it is clipped to the
// edge.
type Line struct {
	Name   string
	Points []Point
	Dash   bool // a reference for comparison
	Dots   bool // mark each point
	Color  int  // 1…8; 0: by the index of the line
}

// Point is one point of a line.
type Point struct{ X, Y float64 }

// Distribution returns the empirical distribution function of the values as a line of at most 200 points; unknown
// values are omitted.
func Distribution(name string, values []float64) Line {
	sorted := known(values)
	line := Line{Name: name}
	const most = 200
	for k := range min(most, len(sorted)) {
		i := len(sorted) - 1
		if n := min(most, len(sorted)); n > 1 {
			i = k * (len(sorted) - 1) / (n - 1)
		}
		line.Points = append(line.Points, Point{sorted[i], float64(i+1) / float64(len(sorted))})
	}
	return line
}

// Size and margins of a chart, in its own units.
const (
	chartWidth, chartHeight = 860.0, 320.0
	chartLeft, chartRight   = 62.0, 20.0
	chartTop, chartBottom   = 12.0, 44.0
	chartColors             = 8
)

// scale maps the values of an axis to coordinates.
type scale struct {
	Axis
	lo, hi, from, to float64
}

// newScale returns a scale with an empty range for coordinates from … to.
func newScale(a Axis, from, to float64) scale {
	return scale{Axis: a, lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to}
}

// shows reports whether a value can be shown on the axis.
func (s *scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.Log || v > 0)
}

// raw returns the position of a value on the axis: its decimal logarithm on a logarithmic axis.
func (s *scale) raw(v float64) float64 {
	if s.Log {
		return math.Log10(v)
	}
	return v
}

// cover extends the range of the axis to include a value, up to Max.
func (s *scale) cover(v float64) {
	if s.Max > 0 {
		v = min(v, s.Max)
	}
	s.lo, s.hi = min(s.lo, s.raw(v)), max(s.hi, s.raw(v))
}

// widen includes 0 if requested and extends a range of zero length.
func (s *scale) widen() {
	if s.Zero && !s.Log {
		s.lo, s.hi = min(0, s.lo), max(0, s.hi)
	}
	if s.hi <= s.lo {
		s.lo, s.hi = s.lo-max(0.5, 0.05*math.Abs(s.lo)), s.hi+max(0.5, 0.05*math.Abs(s.hi))
	}
}

// at returns the coordinate of a value.
func (s *scale) at(v float64) string {
	return place(s.from + (s.raw(v)-s.lo)/(s.hi-s.lo)*(s.to-s.from))
}

// place formats a coordinate with one decimal.
func place(v float64) string { return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64) }

// ticks returns round values with their coordinates and labels.
func (s *scale) ticks() []chartTick {
	var out []chartTick
	add := func(v float64) {
		text := strconv.FormatFloat(v, 'g', 4, 64)
		if s.Share {
			text = strconv.FormatFloat(100*v, 'g', 4, 64) + " %"
		}
		out = append(out, chartTick{s.at(v), text})
	}
	if s.Log {
		step := math.Ceil((s.hi - s.lo) / 6)
		for k := math.Ceil(s.lo); k <= s.hi; k += max(1, step) {
			add(math.Pow(10, k))
		}
		if len(out) > 1 {
			return out
		}
		out = nil
		for _, v := range round(math.Pow(10, s.lo), math.Pow(10, s.hi)) {
			if v > 0 {
				add(v)
			}
		}
		return out
	}
	for _, v := range round(s.lo, s.hi) {
		add(v + 0)
	}
	return out
}

type chartTick struct{ At, Text string }

// chartPicture is the input of the chart template.
type chartPicture struct {
	Title, Note, XName, YName string
	Width, Height             float64
	Left, Right, Top, Bottom  float64
	XTicks, YTicks            []chartTick
	Lines                     []chartLine
	Empty                     bool
}

type chartLine struct {
	Name, Class, Path string
	Dots              []chartDot
}

type chartDot struct{ X, Y, Words string }

// picture computes the coordinates of the chart. It is marked as Empty if no point can be shown.
func (c *Chart) picture() chartPicture {
	p := chartPicture{Title: c.Title, Note: c.Note, XName: c.X.Name, YName: c.Y.Name, Width: chartWidth, Height: chartHeight,
		Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop, Bottom: chartHeight - chartBottom}
	x, y := newScale(c.X, p.Left, p.Right), newScale(c.Y, p.Bottom, p.Top)
	for _, l := range c.Lines {
		for _, q := range l.Points {
			if x.shows(q.X) && y.shows(q.Y) {
				x.cover(q.X)
				y.cover(q.Y)
			}
		}
	}
	if p.Empty = math.IsInf(x.lo, 0); p.Empty {
		return p
	}
	x.widen()
	y.widen()
	p.XTicks, p.YTicks = x.ticks(), y.ticks()
	for i, l := range c.Lines {
		p.Lines = append(p.Lines, l.draw(i, &x, &y))
	}
	return p
}

// draw returns the path of line i of a chart. Lines beyond the number of colours are dashed.
func (l *Line) draw(i int, x, y *scale) chartLine {
	color := l.Color
	if color == 0 {
		color = i%chartColors + 1
	}
	out := chartLine{Name: l.Name, Class: fmt.Sprintf("s%d", color)}
	if l.Dash || l.Color == 0 && i >= chartColors {
		out.Class += " dash"
	}
	var path strings.Builder
	open := false
	for k, q := range l.Points {
		if !x.shows(q.X) || !y.shows(q.Y) {
			open = false
			continue
		}
		over := func(p Point) bool { return x.Max > 0 && p.X > x.Max || y.Max > 0 && p.Y > y.Max }
		if over(q) { // clip at the edge
			if open {
				if e, ok := edge(l.Points[k-1], q, x.Max, y.Max); ok {
					path.WriteString("L" + x.at(e.X) + " " + y.at(e.Y))
				}
			}
			open = false
			continue
		}
		path.WriteString(map[bool]string{true: "L", false: "M"}[open] + x.at(q.X) + " " + y.at(q.Y))
		open = true
		if l.Dots {
			words := fmt.Sprintf("%s: %s at %s", l.Name, figure(q.Y), figure(q.X))
			out.Dots = append(out.Dots, chartDot{x.at(q.X), y.at(q.Y), words})
		}
	}
	out.Path = path.String()
	return out
}

// edge returns the point at which the segment from a to b leaves the limits; a limit of 0 is ignored.
func edge(a, b Point, maxX, maxY float64) (Point, bool) {
	t := 1.0
	if maxX > 0 && b.X > maxX {
		t = min(t, (maxX-a.X)/(b.X-a.X))
	}
	if maxY > 0 && b.Y > maxY {
		t = min(t, (maxY-a.Y)/(b.Y-a.Y))
	}
	return Point{a.X + t*(b.X-a.X), a.Y + t*(b.Y-a.Y)}, t >= 0
}
