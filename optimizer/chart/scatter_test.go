package chart

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestScatter(t *testing.T) {
	s := Scatter{ID: "s", Title: "Runs", XName: "time", YName: "USD", TimeX: true, Keys: []Key{{Class: "disc", Name: "run"}},
		Marks: []Mark{{X: 10, Y: 1, Class: "on-front", Title: "<a>\nb", Ring: "fastest"}, {X: 20, Y: .5, Class: "hollow", Title: "c"}, {X: nan, Y: 1}, {X: 1, Y: nan}}}
	p := s.Picture()
	for what, want := range map[string]int{`class="offer`: 2, `class="ring"`: 1, "fastest": 1, "<a>": 0, "&lt;a&gt;\nb": 1, "NaN": 0, "seconds": 1} {
		if got := strings.Count(string(p.SVG), what); got != want {
			t.Errorf("%q is there %d times, want %d", what, got, want)
		}
	}
	if p.Narrow == "" || p.Empty != "" || len(p.Keys) != 1 {
		t.Errorf("%+v", p)
	}
	s.Marks = s.Marks[2:]
	s.Why = "nobody looked"
	if p := s.Picture(); p.Empty != "No data: nobody looked" || p.SVG != "" || p.Keys != nil {
		t.Errorf("%+v", p)
	}
}

// Wherever the points are, they lie inside the picture.
func TestScatterKeepsPointsInside(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(1e-9, 1e9), rapid.SampledFrom([]float64{0, 1, 1e12}))
	rapid.Check(t, func(t *rapid.T) {
		s := Scatter{ID: "s", Title: "t", TimeX: rapid.Bool().Draw(t, "time")}
		for range rapid.IntRange(1, 6).Draw(t, "n") {
			s.Marks = append(s.Marks, Mark{X: value.Draw(t, "x"), Y: value.Draw(t, "y"), Ring: "best"})
		}
		svg := string(s.Picture().SVG)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, `cx="-`) || strings.Contains(svg, `cy="-`) {
			t.Fatal(svg)
		}
	})
}

func TestBars(t *testing.T) {
	b := Bars{ID: "b", Title: "Cost", Why: "no prices", Rows: []Bar{
		{Name: "a", Text: "$3", Parts: []Part{{Value: 2, Class: "s1"}, {Value: 1, Class: "s2"}}},
		{Name: strings.Repeat("long", 20), Text: "no data", Parts: []Part{{Value: nan, Class: "s1"}}}}}
	svg := string(b.Picture().SVG)
	if n := strings.Count(svg, `class="bar`); n != 2 || strings.Contains(svg, "NaN") || !strings.Contains(svg, "…") || !strings.Contains(svg, "no data") {
		t.Errorf("%d bars, want the two parts of the first row and none of what is not known: %s", n, svg)
	}
	b.Rows = b.Rows[1:]
	if p := b.Picture(); p.Empty != "No data: no prices" {
		t.Errorf("%+v", p)
	}
}

func TestWhiskersStandAlone(t *testing.T) {
	c := &Chart{ID: "a", Title: "a", XName: "GPUs", Zero: true, Series: []Series{{Name: "x", Class: "s1", One: Significant, Points: line(1, 2, 4), Band: []Band{{X: 1, Lo: 1.5, Hi: 2.5}}, Whiskers: true}}}
	p := c.Picture()
	if strings.Count(string(p.SVG), `class="whisker s1"`) != 1 || strings.Contains(string(p.SVG), `class="band`) || !strings.Contains(p.Keys[0].Name, "90 % interval") {
		t.Errorf("%+v", p)
	}
}
