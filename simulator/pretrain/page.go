package pretrain

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

//go:embed curves.html.tmpl
var pageText string

//go:embed curves.css
var styleText string

var page = template.Must(template.New("curves").Parse(pageText))

// line is one curve of a chart.
type line struct {
	Name  string
	Class string // s1 … s4: its colour
	Dash  bool   // a reference for comparison
	value func(p *Point) float64
}

// chart is one diagram over the steps.
type chart struct {
	Title, Note string
	log, whole  bool
	Lines       []line
	Empty       bool
	SVG         template.HTML
}

// charts returns the diagrams of the page.
func (r *Result) charts() []chart {
	utility := chart{Title: "Expected utility", Note: "mean over preferences, of the measured agent", Lines: []line{
		{Name: "agent", Class: "s1", value: func(p *Point) float64 { return p.ExpectedUtility }}}}
	if r.Jobs != nil {
		utility.Note = "mean over preferences and jobs that were not trained on"
		utility.Lines = append(utility.Lines, line{Name: "performance model alone", Class: "s2", Dash: true, value: func(p *Point) float64 { return p.Model }},
			line{Name: "own configuration", Class: "s3", Dash: true, value: func(p *Point) float64 { return p.Own }})
	}
	returns := chart{Title: "Return of the training's episodes", Note: "while exploring, under preferences drawn at random"}
	if r.Jobs != nil {
		returns.Note = "while exploring; 0 is what the performance model predicted"
	}
	for i, o := range r.Objectives {
		returns.Lines = append(returns.Lines, line{Name: o, Class: fmt.Sprintf("s%d", i%6+1), value: func(p *Point) float64 {
			if i >= len(p.Returns) {
				return math.NaN()
			}
			return p.Returns[i]
		}})
	}
	return []chart{
		{Title: "Hypervolume", Note: "of the measured front, above (" + strings.Join(figures(r.Reference), ", ") + ")",
			Lines: []line{{Name: "hypervolume", Class: "s1", value: func(p *Point) float64 { return p.Hypervolume }}}},
		utility,
		{Title: "Points on the front", whole: true, Lines: []line{{Name: "points", Class: "s1", value: func(p *Point) float64 { return float64(p.FrontSize) }}}},
		{Title: "Loss of the critics", Note: "moving average, logarithmic", log: true,
			Lines: []line{{Name: "loss", Class: "s1", value: func(p *Point) float64 { return p.Loss }}}},
		returns,
	}
}

// WriteHTML writes the curve as a self-contained page: no network access, no script.
func (r *Result) WriteHTML(w io.Writer) error {
	list := r.charts()
	for i := range list {
		list[i].draw(r.Curve)
	}
	facts := [][2]string{{"steps", grouped(r.Steps)}, {"kept", "step " + grouped(r.Meta.Stats.Steps)}, {"seed", strconv.FormatUint(r.Meta.Seed, 10)}}
	if r.Known {
		facts = append(facts, [2]string{"hypervolume", figure(r.Hypervolume)}, [2]string{"expected utility", figure(r.ExpectedUtility)})
	}
	if j := r.Jobs; j != nil {
		facts = append(facts, [2]string{"over the performance model", fmt.Sprintf("%+.5f ± %.5f", j.OverModel, 2*j.OverModelSE)})
	}
	if !math.IsNaN(r.WallSeconds) {
		facts = append(facts, [2]string{"time", fmt.Sprintf("%.0f s", r.WallSeconds)})
	}
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Agent, Env  string
		Interrupted bool
		Facts       [][2]string
		Charts      []chart
		Front       [][]string
		Objectives  []string
		Style       template.CSS
	}{r.Meta.Agent, r.Meta.Env, r.Steps < r.Of, facts, list, r.frontRows(), r.Objectives, template.CSS(styleText)})
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// frontRows returns the formatted points of the front.
func (r *Result) frontRows() [][]string {
	var rows [][]string
	for _, p := range r.Front {
		rows = append(rows, figures(p))
	}
	return rows
}

func figures(v []float64) []string {
	var out []string
	for _, x := range v {
		out = append(out, figure(x))
	}
	return out
}

// Size and margins of a chart, in its own units.
const (
	wide, high           = 560.0, 250.0
	left, right          = 62.0, 26.0
	top, bottom          = 12.0, 34.0
	mostDots             = 120
	logFloor, logDecades = 1e-12, 8.0
	ticksAcross, ticksUp = 5, 5
	pixel                = 10.0 // coordinates are rounded to a tenth of a unit
)

// axis maps values to pixels.
type axis struct {
	lo, hi, from, to float64
	log              bool
}

// at returns the coordinate of a value.
func (a axis) at(v float64) string {
	if a.log {
		v = math.Log10(max(v, logFloor))
	}
	return strconv.FormatFloat(math.Round(pixel*(a.from+(v-a.lo)/(a.hi-a.lo)*(a.to-a.from)))/pixel, 'f', -1, 64)
}

// draw renders the chart as SVG. A chart without values is marked as Empty.
func (c *chart) draw(points []Point) {
	x, y := axis{from: left, to: wide - right, lo: math.Inf(1), hi: math.Inf(-1)}, axis{from: high - bottom, to: top, lo: math.Inf(1), hi: math.Inf(-1), log: c.log}
	for i := range points {
		for _, l := range c.Lines {
			if v, ok := c.shown(l, &points[i]); ok {
				if c.log {
					v = math.Log10(max(v, logFloor))
				}
				y.lo, y.hi = min(y.lo, v), max(y.hi, v)
				x.lo, x.hi = min(x.lo, float64(points[i].Steps)), max(x.hi, float64(points[i].Steps))
			}
		}
	}
	if c.Empty = math.IsInf(x.lo, 0); c.Empty {
		return
	}
	x.widen()
	y.widen()
	if c.log {
		y.lo, y.hi = max(math.Floor(y.lo), math.Ceil(y.hi)-logDecades), math.Ceil(y.hi)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, wide, high, template.HTMLEscapeString(c.Title+" over the steps"))
	c.grid(&b, x, y)
	for _, l := range c.Lines {
		c.line(&b, l, points, x, y)
	}
	b.WriteString("</svg>")
	c.SVG = template.HTML(b.String())
}

// widen extends an axis of zero length.
func (a *axis) widen() {
	if a.hi <= a.lo {
		a.lo, a.hi = a.lo-max(0.5, 0.05*math.Abs(a.lo)), a.hi+max(0.5, 0.05*math.Abs(a.hi))
	}
}

// shown returns the value of a line at a point and whether the chart can show it: finite, and positive on a
// logarithmic axis.
func (c *chart) shown(l line, p *Point) (float64, bool) {
	v := l.value(p)
	return v, !math.IsNaN(v) && !math.IsInf(v, 0) && (!c.log || v > 0)
}

// grid draws grid lines and labels of both axes.
func (c *chart) grid(b *strings.Builder, x, y axis) {
	for _, t := range round(y.lo, y.hi, ticksUp) {
		v, text := t, figure(t)
		if c.log {
			v = math.Pow(10, t)
			text = fmt.Sprintf("10<tspan dy=\"-4\" font-size=\"8\">%d</tspan>", int(math.Round(t)))
		}
		if (c.log || c.whole) && t != math.Round(t) {
			continue
		}
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%s" y2="%s"/><text class="tick end" x="%g" y="%s" dy="4">%s</text>`, left, wide-right, y.at(v), y.at(v), left-6, y.at(v), text)
	}
	for _, t := range round(x.lo, x.hi, ticksAcross) {
		fmt.Fprintf(b, `<line class="notch" x1="%s" x2="%s" y1="%g" y2="%g"/><text class="tick middle" x="%s" y="%g">%s</text>`, x.at(t), x.at(t), high-bottom, high-bottom+4,
			x.at(t), high-bottom+16, grouped(int(t)))
	}
	fmt.Fprintf(b, `<text class="tick end" x="%g" y="%g">steps</text>`, wide-right, high-3)
}

// line draws one curve, interrupted at values that cannot be shown, with dots unless it is dashed. At most about
// mostDots dots are drawn; the dot of the kept agent is always drawn, larger than the others.
func (c *chart) line(b *strings.Builder, l line, points []Point, x, y axis) {
	class := "line " + l.Class
	if l.Dash {
		class += " dash"
	}
	var path, dots strings.Builder
	open, every := false, 1+len(points)/mostDots
	for i := range points {
		p := &points[i]
		v, ok := c.shown(l, p)
		if !ok {
			open = false
			continue
		}
		at := x.at(float64(p.Steps)) + " " + y.at(v)
		path.WriteString(map[bool]string{true: "L", false: "M"}[open] + at)
		open = true
		if i%every != 0 && !p.Kept {
			continue
		}
		kept, radius := "", 2.6
		if p.Kept && !l.Dash {
			kept, radius = ", kept", 5
		}
		fmt.Fprintf(&dots, `<circle class="dot %s" cx="%s" cy="%s" r="%g"><title>%s: %s, step %s%s</title></circle>`, l.Class, x.at(float64(p.Steps)), y.at(v), radius,
			template.HTMLEscapeString(l.Name), figure(v), grouped(p.Steps), kept)
	}
	fmt.Fprintf(b, `<path class="%s" d="%s"/>`, class, path.String())
	if !l.Dash {
		b.WriteString(dots.String())
	}
}

// round returns about n round numbers from lo to hi.
func round(lo, hi float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(m*step) <= float64(n) {
			step *= m
			break
		}
	}
	var out []float64
	for k := math.Ceil(lo / step); k*step <= hi+1e-9*step && len(out) <= 2*n; k++ {
		out = append(out, k*step+0) // avoids −0
	}
	return out
}

// figure formats a number with at most six digits.
func figure(v float64) string {
	return strings.Replace(strconv.FormatFloat(v, 'g', 6, 64), "-", "−", 1)
}

// grouped formats an integer with separated thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	return s
}
