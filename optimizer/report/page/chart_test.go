package page

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var nan = math.NaN()

// TestScales checks for arbitrary data that ticks ascend, are few, and lie inside the frame.
func TestScales(t *testing.T) {
	finite := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(-1e9, 1e9), rapid.Float64Range(1e-9, 1e-6), rapid.SampledFrom([]float64{0, 1, 1e12, 2.121995791e-314, math.NaN()}))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(finite, 0, 12).Draw(t, "values")
		for name, s := range map[string]*Scale{
			"plain": NewScale(values, 4, false, false), "zero": NewScale(values, 4, true, false), "log": NewScale(positive(values), 6, false, true),
			"time": newTimeScale(positive(values), 6, true, true), "time, loose": newTimeScale(positive(values), 6, false, false),
		} {
			s.From, s.To = 50, 500
			if len(s.Ticks) > 14 || len(s.Ticks) < 1 {
				t.Fatalf("%s: %d ticks %v for %v", name, len(s.Ticks), s.Ticks, values)
			}
			for i, tick := range s.Ticks {
				if !Known(tick) || i > 0 && tick <= s.Ticks[i-1] || s.Label(tick) == "" {
					t.Fatalf("%s: ticks %v for %v", name, s.Ticks, values)
				}
			}
			used := values
			if name != "plain" && name != "zero" {
				used = positive(values)
			}
			for _, v := range used {
				if name == "log" && v <= 0 || !Known(v) {
					continue
				}
				if p := s.At(v); !(p >= 50-.01 && p <= 500.01) {
					t.Fatalf("%s: %v lies at pixel %v on [%v, %v]", name, v, p, s.Min, s.Max)
				}
			}
		}
	})
}

func positive(values []float64) []float64 {
	out := []float64{}
	for _, v := range values {
		if Known(v) {
			out = append(out, math.Abs(v))
		}
	}
	return out
}

func TestTimeTicksAreWholeUnits(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		unit    string
		labels  string
	}{
		{50, "seconds", "0 10 20 30 40 50"},
		{172, "seconds", "0 30 60 90 120 150"},
		{3240, "minutes", "0 10 20 30 40 50"},
		{36000, "hours", "0 2 4 6 8 10"},
		{0.5, "seconds", "0 0.1 0.2 0.3 0.4 0.5"},
	} {
		s := newTimeScale([]float64{0, c.seconds}, 6, true, true)
		var labels []string
		for _, tick := range s.Ticks {
			labels = append(labels, s.Label(tick))
		}
		if got := strings.Join(labels, " "); got != c.labels || s.Unit != c.unit {
			t.Errorf("%v s: %s %s, want %s %s", c.seconds, got, s.Unit, c.labels, c.unit)
		}
	}
}

func line(values ...float64) []Point {
	points := make([]Point, len(values))
	for i, v := range values {
		points[i] = Point{float64(i), v}
	}
	return points
}

func TestGapsAreNotBridged(t *testing.T) {
	c := &Chart{ID: "a", Title: "a", Y: Axis{Zero: true}, Series: []Series{{Name: "x", Class: "s1", One: Significant, Points: line(1, 2, nan, nan, 3, 4)}}}
	svg := string(c.Picture().SVG)
	_, path, _ := strings.Cut(svg, `<path class="line s1" d="`)
	path, _, _ = strings.Cut(path, `"`)
	if strings.Count(path, "M") != 2 {
		t.Errorf("a gap in the data is drawn over: %s", path)
	}
	if strings.Contains(svg, "NaN") {
		t.Error("NaN in the picture")
	}
}

func TestThinKeepsWhatMatters(t *testing.T) {
	values := make([]float64, 10000)
	for i := range values {
		values[i] = float64(i)
	}
	values[5555] = 1e6
	for name, c := range map[string]struct {
		s    Series
		want func([]Point) bool
	}{
		"the peak of memory":   {Series{Keep: Largest}, func(p []Point) bool { return most(ysOf(p)) == 1e6 }},
		"the last of the cost": {Series{Keep: Last}, func(p []Point) bool { return p[len(p)-1].Y == 9999 }},
		"means in between":     {Series{}, func(p []Point) bool { return p[0].Y > 10 && p[0].Y < 40 }},
	} {
		c.s.Points = line(values...)
		if p := c.s.thin(200); len(p) != 200 || !c.want(p) {
			t.Errorf("%s is lost (%d points)", name, len(p))
		}
	}
	s := Series{Step: true, Points: line(8, 8, 8, 2, 2, 2, 2, 3, 3)}
	if p := s.thin(4); len(p) != 4 || p[1] != (Point{3, 2}) || p[3] != (Point{8, 3}) {
		t.Errorf("steps became %v", p)
	}
}

func ysOf(p []Point) []float64 {
	var v []float64
	for _, q := range p {
		v = append(v, q.Y)
	}
	return v
}

func TestPicturesOfOneAndOfEqualValues(t *testing.T) {
	for name, points := range map[string][]Point{"one": line(5), "equal": line(5, 5, 5), "zero": line(0, 0), "one moment": {{3, 1}, {3, 2}}, "huge": line(1e15, -1e15), "tiny": line(1e-15, 2e-15)} {
		for _, c := range []*Chart{
			{ID: "a", Title: "a", Y: Axis{Zero: true}}, {ID: "b", Title: "b"}, {ID: "c", Title: "c", Y: Axis{Time: true, Zero: true}}, {ID: "d", Title: "d", X: Axis{Name: "epoch"}, Y: Axis{Top: 100}},
		} {
			c.Series = []Series{{Name: "x", Class: "s1", One: Significant, Points: points, Area: true}}
			p := c.Picture()
			if p.Empty != "" || strings.Contains(string(p.SVG), "NaN") || strings.Contains(string(p.SVG), "Inf") {
				t.Errorf("%s, %s: %s %s", name, c.ID, p.Empty, p.SVG)
			}
		}
	}
	empty := &Chart{ID: "a", Title: "a", Why: "nobody looked", Series: []Series{{Points: line(nan, nan)}}}
	if p := empty.Picture(); p.Empty != "No data: nobody looked" || p.SVG != "" {
		t.Errorf("%+v", p)
	}
}

func TestProcessorsAreCountedInWholes(t *testing.T) {
	c := &Chart{ID: "a", Title: "a", Y: Axis{Zero: true, Whole: true}, Series: []Series{{Name: "CPUs", Class: "s1", One: Count, Step: true, Points: line(2, 1)}}}
	_, y := c.axes()
	for _, tick := range y.Ticks {
		if tick != math.Trunc(tick) {
			t.Errorf("%v CPUs on the axis", tick)
		}
	}
}

// path returns the path of the line of a class.
func path(svg, class string) string {
	_, p, _ := strings.Cut(svg, `<path class="line `+class+`" d="`)
	p, _, _ = strings.Cut(p, `"`)
	return p
}

// TestAxes checks the direction, the scales and the limits of both axes, for lines whose ends are the corners.
func TestAxes(t *testing.T) {
	for name, c := range map[string]struct {
		chart Chart
		want  string
	}{
		"from left to right, upwards": {Chart{X: Axis{Name: "x", Zero: true}, Y: Axis{Zero: true}, Series: []Series{{Points: []Point{{0, 0}, {10, 8}}}}}, "M58 224L544 28"},
		"unknown values interrupt":    {Chart{X: Axis{Name: "x"}, Series: []Series{{Points: []Point{{0, 0}, {1, 2}, {nan, 1}, {3, 2}, {4, 0}}}}}, "M58 224L179.5 28M422.5 28L544 224"},
		"limited":                     {Chart{X: Axis{Name: "x"}, Y: Axis{Zero: true, Max: 10}, Series: []Series{{Points: []Point{{0, 0}, {1, 20}, {2, 30}}}}}, "M58 224L179.5 28"},
		"logarithmic":                 {Chart{X: Axis{Name: "x", Log: true}, Series: []Series{{Points: []Point{{0, 7}, {1, 0}, {10, 2}, {100, 0}}}}}, "M58 224L301 28L544 224"},
	} {
		c.chart.Title = name
		svg := string(c.chart.Picture().SVG)
		if got := path(svg, "s1"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if !strings.Contains(svg, `role="img" aria-label="`+name) || strings.Contains(svg, "NaN") {
			t.Errorf("%s: %s", name, svg)
		}
	}
	loose := Chart{X: Axis{Name: "x"}, Y: Axis{Share: true}, Series: []Series{{Points: line(.25, .5), Loose: true}, {Points: line(.1), Pieces: true}}}
	p := loose.Picture()
	if svg := string(p.SVG); strings.Count(svg, "<circle") != 2 || path(svg, "s1") != "" || !strings.Contains(svg, "25.0\u00a0%") || p.Keys[0].Class != "s1 dot" || p.Keys[1].Class != "s2" {
		t.Errorf("%v: %s", p.Keys, svg)
	}
}

func TestDistribution(t *testing.T) {
	l := Distribution("d", []float64{3, nan, 1, 2, 4})
	if want := []Point{{1, 0.25}, {2, 0.5}, {3, 0.75}, {4, 1}}; len(l.Points) != 4 || l.Points[0] != want[0] || l.Points[1] != want[1] || l.Points[3] != want[3] {
		t.Errorf("%v, want %v", l.Points, want)
	}
	many := make([]float64, 5000)
	for i := range many {
		many[i] = float64(i)
	}
	l = Distribution("d", many)
	if n := len(l.Points); n != 200 || l.Points[n-1] != (Point{4999, 1}) || l.Points[0] != (Point{0, 1.0 / 5000}) {
		t.Errorf("%d points from %v to %v", n, l.Points[0], l.Points[n-1])
	}
	if l := Distribution("d", []float64{7}); len(l.Points) != 1 || l.Points[0] != (Point{7, 1}) {
		t.Errorf("%v of one value", l.Points)
	}
	if l := Distribution("d", nil); len(l.Points) != 0 {
		t.Errorf("%v of nothing", l.Points)
	}
}

func TestEstimates(t *testing.T) {
	e := Estimates{Title: "wait", Label: Significant, Why: "none ran", Rows: []Estimate{{Name: "a<b", Mean: 2, Lo: 1, Hi: 3, Text: "2 s"}, {Name: "one case", Mean: 4, Lo: nan, Hi: nan, Text: "4 s"}, {Name: "unknown", Mean: nan, Lo: nan, Hi: nan, Text: "–"}}}
	p := e.Picture()
	for what, want := range map[string]int{"<circle": 2, `class="range`: 1, "a<b": 0, "one case": 3, "NaN": 0, "(1.00 to 3.00)": 1} {
		if got := strings.Count(string(p.SVG), what); got != want {
			t.Errorf("%q is there %d times, want %d: %s", what, got, want, p.SVG)
		}
	}
	e.Rows = e.Rows[2:]
	if p := e.Picture(); p.Empty != "No data: none ran" || p.SVG != "" {
		t.Errorf("%+v", p)
	}
}

// TestEstimateTicksDoNotOverlap checks that long ticks are fewer where the axis is short.
func TestEstimateTicksDoNotOverlap(t *testing.T) {
	e := Estimates{Title: "time", Label: Duration, Rows: []Estimate{{Name: "a", Mean: 274, Lo: 271.8, Hi: 276.2, Text: "4 m 34 s"}}}
	p := e.Picture()
	if wide, narrow := strings.Count(string(p.SVG), `class="tick`), strings.Count(string(p.Narrow), `class="tick`); wide < 5 || narrow > 4 {
		t.Errorf("%d ticks on a wide page, %d on a narrow one", wide, narrow)
	}
}
