package page

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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
	s.Keys = []Key{{Class: "ring"}, {Class: "disc"}, {Class: "disc quiet"}, {Class: "disc hollow"}, {Class: "diamond"}, {Class: "cross"}, {Class: "sizes"}}
	for i, want := range []string{"ring,disc,disc hollow", "disc hollow"} { // what occurs
		s.Marks = s.Marks[i:]
		var classes []string
		for _, k := range s.Picture().Keys {
			classes = append(classes, k.Class)
		}
		if got := strings.Join(classes, ","); got != want {
			t.Errorf("legend %s, want %s", got, want)
		}
	}
	s.Marks = s.Marks[1:]
	s.Why = "nobody looked"
	if p := s.Picture(); p.Empty != "No data: nobody looked" || p.SVG != "" || p.Keys != nil {
		t.Errorf("%+v", p)
	}
}

// TestScatterKeepsPointsInside checks that all points are drawn inside the picture.
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
	b.Keys = []Key{{Class: "block s1"}, {Class: "block s3"}}
	if keys := b.Picture().Keys; len(keys) != 1 || keys[0].Class != "block s1" {
		t.Errorf("legend %v, want that of the parts that occur", keys)
	}
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
	c := &Chart{ID: "a", Title: "a", X: Axis{Name: "GPUs"}, Y: Axis{Zero: true}, Series: []Series{{Name: "x", Class: "s1", One: Significant, Points: line(1, 2, 4), Band: []Band{{X: 1, Lo: 1.5, Hi: 2.5}}, Whiskers: true}}}
	p := c.Picture()
	if strings.Count(string(p.SVG), `class="whisker s1"`) != 1 || strings.Contains(string(p.SVG), `class="band`) || !strings.Contains(p.Keys[0].Name, "90 % interval") {
		t.Errorf("%+v", p)
	}
}

// runs returns three marks on an edge, one of them ringed, and one off it, from an hour to two days.
func runs() *Scatter {
	return &Scatter{ID: "a", Title: "a", XName: "time", YName: "USD", TimeX: true, Edge: []Point{{3600, 32}, {7200, 20}},
		Marks: []Mark{{X: 170000, Y: 40, Class: "quiet"}, {X: 3600, Y: 32, Class: "on-front", Name: "A", Sign: "A"}, {X: 3610, Y: 32.01, Class: "on-front", Name: "B", Sign: "B"},
			{X: 90000, Y: 20, Class: "on-front", Ring: "C chosen", Sign: "C", Radius: 8, Whiskers: &Whiskers{XLo: 1, XHi: 1e9, YLo: 10, YHi: 50}}, {X: nan, Y: 1, Sign: "Z"}}}
}

func TestScatterOfAFront(t *testing.T) {
	front := runs()
	front.Marks = append(front.Marks, slices.Repeat([]Mark{{X: 50000, Y: 25, Name: "several"}}, 30)...)
	if n := strings.Count(string(front.Picture().SVG), ">several<"); n == 0 || n > 8 {
		t.Errorf("%d names at one point, want those that lie on no other", n)
	}
	svg := string(runs().Picture().SVG)
	for _, want := range []string{`<path class="front" d="M`, `r="13"`, `>C chosen<`, `>A<`, ">time, hours (logarithmic)<", `class="whisker" d="M58 `} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
	if strings.Count(svg, "<circle class=\"offer") != 4 || strings.Contains(svg, "NaN") {
		t.Error("want every known point and no other")
	}
}

func TestSketch(t *testing.T) {
	lines := runs().Sketch(60)
	drawn := strings.Join(lines, "\n")
	if len(lines) != sketchRows+4 || strings.Count(drawn, "*") != 1 || strings.ContainsAny(drawn, "ABZ") || strings.Count(drawn, "[C]") != 1 || strings.Count(drawn, "·") != 1 {
		t.Errorf("want A and B as one, C ringed, a dot:\n%s", drawn)
	}
	ringed := &Scatter{Marks: []Mark{{X: 1, Y: 1, Ring: "chosen", Sign: "C"}, {X: 1, Y: 1, Sign: "A"}, {X: 2, Y: 2}}}
	if drawn := strings.Join(ringed.Sketch(60), "\n"); !strings.Contains(drawn, "[C]") {
		t.Errorf("what is ringed lies below another:\n%s", drawn)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 60 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &Scatter{TimeX: rapid.Bool().Draw(t, "time")}
		value := rapid.OneOf(rapid.Float64Range(0, 1e9), rapid.SampledFrom([]float64{0, 1, nan}))
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			s.Marks = append(s.Marks, Mark{X: value.Draw(t, "x"), Y: value.Draw(t, "y"), Sign: rapid.SampledFrom([]string{"", "A", "AB", "x"}).Draw(t, "sign"), Ring: rapid.SampledFrom([]string{"", "r"}).Draw(t, "ring")})
		}
		width := rapid.IntRange(40, 120).Draw(t, "width")
		for _, l := range s.Sketch(width) {
			if n := utf8.RuneCountInString(l); n > width {
				t.Fatalf("%d columns in %d: %s", n, width, l)
			}
		}
	})
}

func TestFile(t *testing.T) {
	file := runs().Picture().File()
	d := xml.NewDecoder(strings.NewReader(file))
	texts := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts += string(text)
		}
	}
	if !strings.Contains(texts, "svg .offer.on-front { fill: var(--s1)") || !strings.Contains(texts, "C chosen") {
		t.Error("want the style sheet and the picture in one file")
	}
	if f := (Picture{Empty: "No data"}).File(); f != "" {
		t.Errorf("%q of nothing", f)
	}
}

func TestScatterLinks(t *testing.T) {
	s := Scatter{ID: "x", Title: "t", Marks: []Mark{{X: 1, Y: 1, Title: "a\n<b>", Link: "#one\"<"}, {X: 2, Y: 2, Title: "plain"}}}
	svg := string(s.Picture().SVG)
	if strings.Count(svg, "<a href=") != 1 || !strings.Contains(svg, `href="#one&#34;&lt;" aria-label="a, &lt;b&gt;"`) || !strings.Contains(svg, `role="group"`) {
		t.Error(svg)
	}
	s.Marks[0].Link = ""
	if svg := string(s.Picture().SVG); strings.Contains(svg, "<a ") || !strings.Contains(svg, `role="img"`) {
		t.Error(svg)
	}
}

func TestParallel(t *testing.T) {
	p := Parallel{ID: "p", Title: "runs", Lines: []Thread{{"one", "s1", "A"}, {"two <", "s2", "B"}},
		Axes: []Coordinate{{Name: "CPUs", Values: []float64{1, 4}}, {Name: "nothing", Values: []float64{math.NaN(), math.NaN()}}, {Name: "cost", One: USD, Values: []float64{2, math.NaN()}}, {Name: "same", Values: []float64{7, 7}}}}
	svg := string(p.Picture().SVG)
	if strings.Count(svg, `class="thread`) != 2 || strings.Contains(svg, "nothing") || strings.Contains(svg, "NaN") || !strings.Contains(svg, "$2.00") || !strings.Contains(svg, "B two &lt;") {
		t.Error(svg)
	}
	if strings.Count(svg, "ruler") != 3 {
		t.Errorf("%d axes, want 3", strings.Count(svg, "ruler"))
	}
	p.Axes = p.Axes[:1]
	if p.Picture().Empty == "" {
		t.Error("one axis is drawn")
	}
}

// TestNamesFitNarrowPages: names fit the column of a picture also in the letters of a narrow page.
func TestNamesFitNarrowPages(t *testing.T) {
	long := strings.Repeat("longname", 10)
	e := Estimates{Title: "Times", Label: Duration, Rows: []Estimate{{Name: long, Mean: 2, Lo: 1, Hi: 3, Text: "2 s"}}}
	p := e.Picture()
	for svg, letter := range map[string]float64{string(p.SVG): runeWidth, string(p.Narrow): narrowRuneWidth} {
		m := regexp.MustCompile(`<text class="end" x="([0-9.]+)"[^>]*>(long[^<]*)</text>`).FindStringSubmatch(svg)
		if m == nil {
			t.Fatal(svg)
		}
		if x, err := strconv.ParseFloat(m[1], 64); err != nil || float64(utf8.RuneCountInString(m[2]))*letter > x {
			t.Errorf("%q ends at %s", m[2], m[1])
		}
	}
}
