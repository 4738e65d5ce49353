package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// series is one line of a chart. The class picks its colour from the style sheet.
type series struct {
	name   string
	class  string // s1 … s4
	points []point
	one    func(float64) string
	dashed bool // predicted
	area   bool
	step   bool
	dense  bool // sampled: single points need no dot
	keep   keep
	band   []band // around it, may be empty
}

// keep says what stays of a stretch of points that is drawn as one.
type keep int

const (
	mean    keep = iota
	last         // what accumulates
	largest      // where the peak counts
)

type band struct{ x, lo, hi float64 }

// level is a horizontal line: an agreed limit, the baseline.
type level struct {
	name  string
	value float64
	class string // limit, base
}

// moment is a vertical mark: a restart, a change, advice.
type moment struct {
	x     float64
	class string // restart, live, recommended
	title string
}

// chart is one picture with a time (or epoch) axis.
type chart struct {
	ID, Title string
	unit      string // of the vertical axis
	series    []series
	levels    []level
	moments   []moment
	xName     string // of the horizontal axis when it is not time
	zero      bool   // 0 is on the vertical axis
	timeY     bool   // seconds
	whole     bool   // only whole numbers
	top       float64
	why       string // why there is nothing to see
}

// size is the drawing area of a picture; the page scales it.
type size struct{ width, height float64 }

var normalSize, wideSize = size{560, 264}, size{1090, 380}

const (
	marginLeft, marginRight = 58.0, 16.0
	marginTop, marginBottom = 28.0, 40.0
	maxPoints               = 220 // of one line; more cannot be seen
	hoverSlices             = 80
)

// fit gives the axes their pixels.
func (z size) fit(x, y *scale) {
	x.from, x.to = marginLeft, z.width-marginRight
	y.from, y.to = z.height-marginBottom, marginTop
}

// Key is an entry of the legend.
type key struct{ Class, Name string }

// picture is a chart as HTML wants it.
type picture struct {
	ID, Title string
	Keys      []key
	SVG       template.HTML
	Narrow    template.HTML // the same for a narrow page, empty when SVG does for both
	Empty     string
}

func (c *chart) empty() bool {
	for _, s := range c.series {
		for _, p := range s.points {
			if known(p.x) && known(p.y) {
				return false
			}
		}
	}
	return true
}

func (c *chart) picture() picture {
	p := picture{ID: c.ID, Title: c.Title}
	if c.empty() {
		p.Empty = "No data"
		if c.why != "" {
			p.Empty += ": " + c.why
		}
		return p
	}
	for i := range c.series {
		c.series[i].points = c.series[i].thin(maxPoints)
		s := c.series[i]
		class := s.class
		if s.dashed {
			class += " dashed"
		}
		if hasValue(s.points) {
			name := s.name
			if len(s.band) > 1 {
				name += ", with 90 % interval"
			}
			p.Keys = append(p.Keys, key{class, name})
		}
	}
	x, y := c.axes()
	b := newDrawing(normalSize, c.ID, c.Title, c.describe())
	unit := c.unit
	if c.timeY {
		unit = y.unit
	}
	b.axes(x, y, c.xTitle(x), unit)
	for _, s := range c.series {
		b.bandOf(s, x, y)
	}
	names := b.levels(c, x, y)
	for _, m := range c.moments {
		b.moment(m, x)
	}
	for _, s := range c.series {
		b.lineOf(s, x, y)
	}
	b.b.WriteString(names)
	b.hover(c, x)
	for _, m := range c.moments {
		b.momentHandle(m, x)
	}
	p.SVG = b.finish()
	return p
}

func hasValue(points []point) bool {
	for _, p := range points {
		if known(p.y) {
			return true
		}
	}
	return false
}

func (c *chart) axes() (x, y *scale) {
	var xs, ys []float64
	for _, s := range c.series {
		for _, p := range s.points {
			if known(p.y) {
				xs, ys = append(xs, p.x), append(ys, p.y)
			}
		}
		for _, b := range s.band {
			ys = append(ys, b.hi)
			if !c.zero {
				ys = append(ys, b.lo)
			}
		}
	}
	for _, m := range c.moments {
		xs = append(xs, m.x)
	}
	data := maxOf(ys)
	for _, l := range c.levels { // a limit far above the data would flatten it
		if l.value <= 3*data {
			ys = append(ys, l.value)
		}
	}
	if c.top > 0 {
		ys = append(ys, c.top)
	}
	if c.xName == "" {
		x = newTimeScale(xs, 6, true, true)
	} else {
		x = newScale(xs, 7, false, false)
		x.min, x.max = minOf(xs), math.Max(maxOf(xs), minOf(xs)+1)
		var inside []float64
		for _, t := range x.ticks {
			if t >= x.min && t <= x.max {
				inside = append(inside, t)
			}
		}
		x.ticks = inside
	}
	if c.timeY {
		y = newTimeScale(ys, 4, c.zero, false)
	} else {
		y = newScale(ys, 4, c.zero, false)
		if c.whole && len(y.ticks) > 1 && y.ticks[1]-y.ticks[0] < 1 {
			y.ticksEvery(1)
		}
	}
	if c.top > 0 {
		y.max = c.top
	}
	normalSize.fit(x, y)
	return x, y
}

func (c *chart) xTitle(x *scale) string {
	if c.xName != "" {
		return c.xName
	}
	return x.unit + " since the start"
}

// describe says in words what a picture shows.
func (c *chart) describe() string {
	var parts []string
	for _, s := range c.series {
		var v []float64
		for _, p := range s.points {
			if known(p.y) {
				v = append(v, p.y)
			}
		}
		if len(v) > 0 {
			parts = append(parts, fmt.Sprintf("%s: from %s to %s, last %s", s.name, s.one(minOf(v)), s.one(maxOf(v)), s.one(v[len(v)-1])))
		}
	}
	if n := len(c.moments); n > 0 {
		parts = append(parts, plural(n, "change")+" marked")
	}
	return strings.Join(parts, "; ")
}

func minOf(v []float64) float64 {
	m := math.Inf(1)
	for _, x := range v {
		if known(x) {
			m = math.Min(m, x)
		}
	}
	return m
}

func maxOf(v []float64) float64 {
	m := math.Inf(-1)
	for _, x := range v {
		if known(x) {
			m = math.Max(m, x)
		}
	}
	return m
}

// thin makes one point of a stretch where there are more than can be seen; a stretch without a value stays a gap.
// Of steps it keeps those where something changes.
func (s series) thin(n int) []point {
	points := s.points
	if s.step {
		var out []point
		for i, p := range points {
			if i == 0 || i == len(points)-1 || p.y != points[i-1].y && (known(p.y) || known(points[i-1].y)) {
				out = append(out, p)
			}
		}
		return out
	}
	if len(points) <= n {
		return points
	}
	out := make([]point, 0, n)
	for i := range n {
		out = append(out, s.keep.of(points[i*len(points)/n:(i+1)*len(points)/n]))
	}
	return out
}

func (k keep) of(points []point) point {
	var known []point
	for _, p := range points {
		if !math.IsNaN(p.y) {
			known = append(known, p)
		}
	}
	if len(known) == 0 {
		return points[0]
	}
	switch k {
	case last:
		return known[len(known)-1]
	case largest:
		return slices.MaxFunc(known, func(a, b point) int { return cmp.Compare(a.y, b.y) })
	}
	var sum point
	for _, p := range known {
		sum.x, sum.y = sum.x+p.x, sum.y+p.y
	}
	return point{sum.x / float64(len(known)), sum.y / float64(len(known))}
}
