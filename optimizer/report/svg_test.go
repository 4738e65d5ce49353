package report

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Axes: whatever the data, ticks ascend, are not many, and everything lies inside the frame.
func TestScales(t *testing.T) {
	finite := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(-1e9, 1e9), rapid.Float64Range(1e-9, 1e-6), rapid.SampledFrom([]float64{0, 1, 1e12, math.NaN()}))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(finite, 0, 12).Draw(t, "values")
		for name, s := range map[string]*scale{
			"plain": newScale(values, 4, false, false), "zero": newScale(values, 4, true, false), "log": newScale(positive(values), 6, false, true),
			"time": newTimeScale(positive(values), 6, true, true), "time, loose": newTimeScale(positive(values), 6, false, false),
		} {
			s.from, s.to = 50, 500
			if len(s.ticks) > 14 || len(s.ticks) < 1 {
				t.Fatalf("%s: %d ticks %v for %v", name, len(s.ticks), s.ticks, values)
			}
			for i, tick := range s.ticks {
				if !known(tick) || i > 0 && tick <= s.ticks[i-1] || s.label(tick) == "" {
					t.Fatalf("%s: ticks %v for %v", name, s.ticks, values)
				}
			}
			used := values
			if name != "plain" && name != "zero" {
				used = positive(values)
			}
			for _, v := range used {
				if name == "log" && v <= 0 || !known(v) {
					continue
				}
				if p := s.at(v); !(p >= 50-.01 && p <= 500.01) {
					t.Fatalf("%s: %v lies at pixel %v on [%v, %v]", name, v, p, s.min, s.max)
				}
			}
		}
	})
}

func positive(values []float64) []float64 {
	out := []float64{}
	for _, v := range values {
		if known(v) {
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
		for _, tick := range s.ticks {
			labels = append(labels, s.label(tick))
		}
		if got := strings.Join(labels, " "); got != c.labels || s.unit != c.unit {
			t.Errorf("%v s: %s %s, want %s %s", c.seconds, got, s.unit, c.labels, c.unit)
		}
	}
}

func line(values ...float64) []point {
	points := make([]point, len(values))
	for i, v := range values {
		points[i] = point{float64(i), v}
	}
	return points
}

func TestGapsAreNotBridged(t *testing.T) {
	c := &chart{ID: "a", Title: "a", zero: true, series: []series{{name: "x", class: "s1", one: significant, points: line(1, 2, nan, nan, 3, 4)}}}
	svg := string(c.picture().SVG)
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
		s    series
		want func([]point) bool
	}{
		"the peak of memory":   {series{keep: largest}, func(p []point) bool { return maxOf(ysOf(p)) == 1e6 }},
		"the last of the cost": {series{keep: last}, func(p []point) bool { return p[len(p)-1].y == 9999 }},
		"means in between":     {series{}, func(p []point) bool { return p[0].y > 10 && p[0].y < 40 }},
	} {
		c.s.points = line(values...)
		if p := c.s.thin(200); len(p) != 200 || !c.want(p) {
			t.Errorf("%s is lost (%d points)", name, len(p))
		}
	}
	s := series{step: true, points: line(8, 8, 8, 2, 2, 2, 2, 3, 3)}
	if p := s.thin(4); len(p) != 4 || p[1] != (point{3, 2}) || p[3] != (point{8, 3}) {
		t.Errorf("steps became %v", p)
	}
}

func ysOf(p []point) []float64 {
	var v []float64
	for _, q := range p {
		v = append(v, q.y)
	}
	return v
}

func TestPicturesOfOneAndOfEqualValues(t *testing.T) {
	for name, points := range map[string][]point{"one": line(5), "equal": line(5, 5, 5), "zero": line(0, 0), "one moment": {{3, 1}, {3, 2}}, "huge": line(1e15, -1e15), "tiny": line(1e-15, 2e-15)} {
		for _, c := range []*chart{
			{ID: "a", Title: "a", zero: true}, {ID: "b", Title: "b"}, {ID: "c", Title: "c", timeY: true, zero: true}, {ID: "d", Title: "d", xName: "epoch", top: 100},
		} {
			c.series = []series{{name: "x", class: "s1", one: significant, points: points, area: true}}
			p := c.picture()
			if p.Empty != "" || strings.Contains(string(p.SVG), "NaN") || strings.Contains(string(p.SVG), "Inf") {
				t.Errorf("%s, %s: %s %s", name, c.ID, p.Empty, p.SVG)
			}
		}
	}
	empty := &chart{ID: "a", Title: "a", why: "nobody looked", series: []series{{points: line(nan, nan)}}}
	if p := empty.picture(); p.Empty != "No data: nobody looked" || p.SVG != "" {
		t.Errorf("%+v", p)
	}
}

func TestFrontMarksWhatMatters(t *testing.T) {
	p := frontPicture(load(t, "finished"))
	for class, want := range map[string]int{`class="offer`: 16, `class="ring"`: 1, `class="diamond"`: 1, `class="cross"`: 1, `class="front"`: 1, `class="whisker"`: 1} {
		if got := strings.Count(string(p.SVG), class); got != want {
			t.Errorf("%s drawn %d times, want %d", class, got, want)
		}
	}
	if !strings.Contains(string(p.SVG), "2\u00a0CPU, 1\u00a0GiB") && !strings.Contains(string(p.SVG), "2 CPU, 1 GiB") {
		t.Error("points do not name their allocation")
	}
}

// Of a table with several decisions the last one counts; without a table the plan does.
func TestLastDecisionIsDrawn(t *testing.T) {
	head := headers[paretoFile] + "\n"
	line := func(at, cpus string) string { return at + ",0," + cpus + ",1,,1,2,3,1,2,3,.5,1,1,0\n" }
	for name, c := range map[string]struct {
		table string
		want  int
	}{
		"one":                            {line("33", "1") + line("33", "2") + line("33", "4"), 3},
		"each row at its own moment":     {line("33.1", "1") + line("33.2", "2") + line("33.3", "4"), 3},
		"again at once":                  {line("33.1", "1") + line("33.2", "2") + line("33.3", "1") + line("33.4", "2"), 2},
		"later, of other allocations":    {line("33", "1") + line("33", "2") + line("60", "4"), 1},
		"without times, the whole table": {line("", "1") + line("", "2"), 2},
	} {
		d := load(t, "nothing")
		d.pareto, _ = readTable(strings.NewReader(head + c.table))
		if got := len(offers(d)); got != c.want {
			t.Errorf("%s: %d offers, want %d", name, got, c.want)
		}
	}
	d := load(t, "finished")
	d.pareto = &table{}
	if got := len(offers(d)); got != 16 {
		t.Errorf("%d offers of the plan, want 16", got)
	}
}

func TestFirstLaunchIsNoChange(t *testing.T) {
	d := load(t, "nothing")
	d.allocations, _ = readTable(strings.NewReader(headers[allocationsFile] + "\n0.1,0,8,4,,,launch,probe\n20,0,2,4,,,launch,the plan\n30,0,3,4,,,live,behind\n40,0,4,4,,,recommended,advice\n"))
	var classes []string
	for _, m := range moments(d) {
		classes = append(classes, m.class)
	}
	if got := strings.Join(classes, " "); got != "restart live recommended" {
		t.Errorf("marked %q", got)
	}
}

func TestProcessorsAreCountedInWholes(t *testing.T) {
	c := &chart{ID: "a", Title: "a", zero: true, whole: true, series: []series{{name: "CPUs", class: "s1", one: count, step: true, points: line(2, 1)}}}
	_, y := c.axes()
	for _, tick := range y.ticks {
		if tick != math.Trunc(tick) {
			t.Errorf("%v CPUs on the axis", tick)
		}
	}
}
