package front

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"math"
	"strings"

	"trainopt/sla"
)

//go:embed front.css
var styleText string

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("front").Funcs(template.FuncMap{"clean": clean}).Parse(pageText))

// renderHTML writes one page that needs nothing else: no network, no script.
func renderHTML(w io.Writer, f *Front, _ int) error {
	return page.Execute(w, struct {
		*Front
		Style               template.CSS
		Picture             template.HTML
		Count               string
		Preference          string
		ChosenWords         string
		Rows                []row
		Lines               []string
		HasRates            bool
		RateName, RateWords string
	}{f, template.CSS(styleText), template.HTML(f.picture("")), f.countWords(), preferenceWords(f.Preferred), f.chosenWords(), f.rows(), f.tradeLines(), len(f.Steps) > 0, f.rateName(), f.rateWords()})
}

// renderSVG writes the picture alone, with its own style.
func renderSVG(w io.Writer, f *Front, _ int) error {
	_, err := fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n%s\n", f.picture(styleText))
	return err
}

const (
	pictureWidth, pictureHeight = 900.0, 420.0
	left, right, top, bottom    = 74.0, 24.0, 30.0, 46.0
)

type canvas struct {
	strings.Builder
	x, y axis
}

func (c *canvas) f(format string, args ...any) { fmt.Fprintf(c, format, args...) }

func (c *canvas) px(v float64) float64 { return left + c.x.at(v)*(pictureWidth-left-right) }
func (c *canvas) py(v float64) float64 {
	return pictureHeight - bottom - c.y.at(v)*(pictureHeight-top-bottom)
}

func esc(s string) string { return html.EscapeString(clean(s)) }

// picture is time × cost: the front joined, the chosen point ringed with its intervals, resource use as the size.
func (f *Front) picture(style string) string {
	c := &canvas{}
	c.x, c.y = f.axes(8, 6)
	c.f(`<svg xmlns="http://www.w3.org/2000/svg" class="pareto" viewBox="0 0 %g %g" role="img" aria-labelledby="pareto-t pareto-d">`, pictureWidth, pictureHeight)
	c.f(`<title id="pareto-t">%s</title><desc id="pareto-d">%s</desc>`, esc("Pareto front of "+f.Subject), esc(f.countWords()+"; chosen "+f.chosenWords()))
	if style != "" {
		c.f("<style>%s</style>", strings.ReplaceAll(style, "<", ""))
		c.f(`<rect class="paper" width="%g" height="%g"/>`, pictureWidth, pictureHeight)
	}
	c.grid()
	c.edge(f)
	for _, on := range []bool{false, true} {
		for _, p := range f.Points {
			if p.OnFront == on {
				c.point(p, f)
			}
		}
	}
	c.choice(f.Points[f.Chosen])
	c.names(f)
	c.f("</svg>")
	return c.String()
}

func (c *canvas) grid() {
	for _, t := range c.y.ticks {
		c.f(`<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, left, pictureWidth-right, c.py(t), c.py(t))
		c.f(`<text class="end" x="%g" y="%.1f">%s</text>`, left-9, c.py(t)+4, esc(c.y.label(t)))
	}
	c.f(`<line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/>`, left, pictureWidth-right, pictureHeight-bottom, pictureHeight-bottom)
	for _, t := range c.x.ticks {
		c.f(`<line class="axis" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, c.px(t), c.px(t), pictureHeight-bottom, pictureHeight-bottom+5)
		c.f(`<text class="mid" x="%.1f" y="%g">%s</text>`, c.px(t), pictureHeight-bottom+19, esc(c.x.label(t)))
	}
	c.f(`<text class="unit" x="4" y="14">cost of the whole job, %s%s</text>`, c.y.unit, logarithmic(c.y))
	c.f(`<text class="unit end" x="%g" y="%g">time of the whole job, %s%s</text>`, pictureWidth-right, pictureHeight-6, c.x.unit, logarithmic(c.x))
}

// edge joins the points of the front that no other beats in both time and cost.
func (c *canvas) edge(f *Front) {
	var at []string
	for _, p := range f.edge() {
		at = append(at, fmt.Sprintf("%.1f %.1f", c.px(p.Seconds.P50), c.py(p.CostUSD.P50)))
	}
	if len(at) > 1 {
		c.f(`<path class="edge" d="M%s"/>`, strings.Join(at, "L"))
	}
}

func (c *canvas) point(p Point, f *Front) {
	class := "offer"
	switch {
	case p.OnFront:
		class += " on"
	case !p.Feasible && f.Infeasible > 0:
		class += " hollow"
	}
	words := map[bool]string{true: "on the Pareto front", false: "dominated"}[p.OnFront]
	if !p.Feasible {
		words += ", may break the agreement"
	}
	if p.Taken {
		words += ", the run's plan"
	}
	if f.Predicted {
		words += ", predicted"
	}
	c.f(`<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s`, class, c.px(p.Seconds.P50), c.py(p.CostUSD.P50), radius(p), esc(strings.TrimPrefix(p.Label+": "+p.Name, ": ")))
	c.f("\ntime %s\ncost %s\nresources %s\n%s</title></circle>", esc(interval(p.Seconds, duration)), esc(interval(p.CostUSD, usd)), esc(share(p.Resource)), esc(words))
}

func radius(p Point) float64 { return 3.5 + 5*math.Sqrt(min(max(p.Resource, 0), 1)) }

// choice draws the ring and the 90 % intervals, cut at the edges of the picture.
func (c *canvas) choice(p Point) {
	x, y := c.px(p.Seconds.P50), c.py(p.CostUSD.P50)
	inX := func(i sla.Interval) (float64, float64) {
		return math.Max(c.px(math.Max(i.P5, c.x.lo)), left), math.Min(c.px(math.Max(i.P95, c.x.lo)), pictureWidth-right)
	}
	lo, hi := inX(p.Seconds)
	low, high := math.Min(c.py(math.Max(p.CostUSD.P5, c.y.lo)), pictureHeight-bottom), math.Max(c.py(math.Max(p.CostUSD.P95, c.y.lo)), top)
	if p.Seconds.P5 != p.Seconds.P95 {
		c.f(`<path class="whisker" d="M%.1f %.1fH%.1fM%.1f %.1fV%.1f"/>`, lo, y, hi, x, low, high)
	}
	c.f(`<circle class="ring" cx="%.1f" cy="%.1f" r="%.1f"/>`, x, y, radius(p)+4.5)
}

// names writes the labels above and right of their points, the chosen one's in words; a label that would lie on another is
// left out (the point's title has it).
func (c *canvas) names(f *Front) {
	var taken [][2]float64
	put := func(p Point, text, class string) {
		r := radius(p)
		x, y := c.px(p.Seconds.P50)+r*0.7+3, c.py(p.CostUSD.P50)-r*0.7-3
		if p.Chosen {
			x, y = x+4, y-4
		}
		for _, t := range taken {
			if math.Abs(t[0]-x) < 14 && math.Abs(t[1]-y) < 13 {
				return
			}
		}
		taken = append(taken, [2]float64{x, y})
		anchor := ""
		if x+8*float64(len(text)) > pictureWidth {
			x, anchor = x-2*r-14, " end"
		}
		c.f(`<text class="name %s%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, esc(text))
	}
	chosen := f.Points[f.Chosen]
	put(chosen, chosen.Label+" chosen", "chosen")
	for _, i := range f.labelled() {
		if p := f.Points[i]; !p.Chosen {
			put(p, p.Label, "")
		}
	}
}
