package experiment

import (
	"bytes"
	"encoding/xml"
	"math"
	"regexp"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		chart Chart
		want  []string
	}{
		"from left to right, upwards": {Chart{X: Axis{Zero: true}, Y: Axis{Zero: true}, Lines: []Line{{Points: []Point{{0, 0}, {10, 5}}}}}, []string{"M62 276L840 12"}},
		"unknown values interrupt":    {Chart{Lines: []Line{{Points: []Point{{0, 0}, {1, 1}, {2, nan}, {3, 1}, {4, 0}}}}}, []string{"M62 276L256.5 12M645.5 12L840 276"}},
		"cut at the edge":             {Chart{Y: Axis{Zero: true, Max: 10}, Lines: []Line{{Points: []Point{{0, 0}, {1, 20}, {2, 30}}}}}, []string{"M62 276L256.5 12"}},
		"logarithmic": {Chart{X: Axis{Log: true}, Lines: []Line{{Points: []Point{{0, 7}, {1, 0}, {10, 1}, {100, 0}}}}},
			[]string{"M62 276L451 12L840 276"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.chart.picture()
			if p.Empty || len(p.Lines) != len(c.want) {
				t.Fatalf("empty %v, %d lines", p.Empty, len(p.Lines))
			}
			for i, want := range c.want {
				if p.Lines[i].Path != want {
					t.Errorf("line %d is %s, want %s", i, p.Lines[i].Path, want)
				}
			}
		})
	}
	if p := (&Chart{Lines: []Line{{Points: []Point{{nan, 1}}}}}).picture(); !p.Empty {
		t.Error("a chart of nothing is not empty")
	}
}

func TestDistribution(t *testing.T) {
	l := Distribution("d", []float64{3, math.NaN(), 1, 2, 4})
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

// TestPage checks that the page is well-formed, contains its input, and escapes it.
func TestPage(t *testing.T) {
	p := Page{Title: "<b>T</b>", Subtitle: "sub", Facts: []Fact{{"mean", "17 h"}}, Notes: []string{"a note"},
		Charts: []Chart{{Title: "C", Lines: []Line{{Name: "a<b", Dots: true, Points: []Point{{1, 2}, {2, 3}}}}}, {Title: "E"}},
		Tables: []Table{{Title: "jobs", Head: []string{"job", "s"}, Lines: [][]string{{"1", "2"}}}}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!DOCTYPE html>", "&lt;b&gt;T", "<dt>mean</dt><dd>17 h</dd>", "a&lt;b: 2", "<li>a note</li>", "Nothing to show", `class="line s1"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	d.Strict, d.AutoClose, d.Entity = true, nil, xml.HTMLEntity
	for {
		if _, err := d.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("not well-formed: %v", err)
			}
			break
		}
	}
}

// TestHours checks that text shows hours, with the unit in the name, and that files contain seconds.
func TestHours(t *testing.T) {
	m := Metric{Name: "jct_s", Unit: "s", Hours: true}
	c := Assemble([]string{"a"}, []Case{{Seed: 1}, {Seed: 2}}, Options{Metrics: []Metric{m}}, [][]map[string]float64{{{"jct_s": 7200}, {"jct_s": 14400}}})
	for format, want := range map[string]string{"text": "\n a 3.00 ", "markdown": "| jct (h) |", "html": "<h3>jct (h)</h3>", "csv": "jct_s,a,,10800,", "json": `"mean": 10800`} {
		var b bytes.Buffer
		if err := Render(&b, c, format); err != nil {
			t.Fatal(err)
		}
		if text := regexp.MustCompile(" +").ReplaceAllString(b.String(), " "); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q\n%s", format, want, text)
		}
	}
}

// TestFold checks that text omits the further tables and mentions the formats that contain them.
func TestFold(t *testing.T) {
	one := Assemble([]string{"a"}, []Case{{Seed: 1}}, Options{Title: "one", Metrics: []Metric{{Name: "x"}}}, [][]map[string]float64{{{"x": 1}}})
	c := &Comparison{Title: "all", Tables: []Table{{Title: "by load", Head: []string{"policy", "1"}, Lines: [][]string{{"a", "1"}}}}, Also: []*Comparison{one}, Fold: true}
	for format, there := range map[string]bool{"text": false, "html": true, "markdown": true, "csv": true} {
		var b bytes.Buffer
		if err := Render(&b, c, format); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "one") != there || !there && !strings.Contains(b.String(), "1 further tables") {
			t.Errorf("%s:\n%s", format, b.String())
		}
	}
}
