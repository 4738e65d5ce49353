package experiment

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"math"
)

//go:embed comparison.html.tmpl
var pageText string

//go:embed comparison.css
var styleText string

// pages contains the templates "comparison" and "page", which share one style.
var pages = template.Must(template.New("").Parse(pageText))

// forest is the forest plot of one metric: a dot and its interval for each policy. Coordinates are in units of the
// picture.
type forest struct {
	Metric        string
	Caption       string
	Table         grid
	Bars          []bar
	Ticks         []tick
	Width, Height float64
	Left, Bottom  float64
	Empty         bool
}

// bar is the row of one policy in a forest plot.
type bar struct {
	Policy      string
	Label       string
	Y           float64
	X, Lo, Hi   float64
	Known, Wide bool // a mean exists; an interval exists
}

type tick struct {
	X    float64
	Text string
}

const (
	pictureWidth = 860.0
	labelWidth   = 120.0
	valueWidth   = 70.0
	rowHeight    = 22.0
)

// forest computes the plot of a metric. The axis starts at 0 if the range is wide relative to its values.
func (c *Comparison) forest(m Metric) forest {
	f := forest{Metric: m.label(), Caption: m.caption(), Table: c.metric(m), Width: pictureWidth, Left: labelWidth,
		Bottom: rowHeight*float64(len(c.Policies)) + 4}
	f.Height = f.Bottom + 20
	lo, hi := math.Inf(1), math.Inf(-1)
	var rows []Row
	for _, p := range c.Policies {
		r, _ := c.Row(p, m.Name)
		if r.N == 0 {
			r.Mean = Number(math.NaN())
		}
		rows = append(rows, r)
		for _, v := range []Number{r.Mean, r.Lo, r.Hi} {
			if v.Known() {
				lo, hi = min(lo, float64(v)), max(hi, float64(v))
			}
		}
	}
	if math.IsInf(lo, 0) {
		f.Empty = true
		return f
	}
	if lo > 0 && lo < 0.5*hi {
		lo = 0
	}
	if hi <= lo {
		lo, hi = lo-0.5*max(math.Abs(lo), 1e-9), hi+0.5*max(math.Abs(hi), 1e-9)
	}
	x := func(v float64) float64 {
		return math.Round(10*(labelWidth+(v-lo)/(hi-lo)*(pictureWidth-labelWidth-valueWidth-10))) / 10
	}
	for i, r := range rows {
		b := bar{Policy: c.Policies[i], Y: rowHeight*float64(i) + rowHeight/2 + 2, Known: r.Mean.Known(), Label: m.show(r.Mean)}
		if b.Known {
			b.X = x(float64(r.Mean))
			if b.Wide = r.Lo.Known() && r.Hi.Known(); b.Wide {
				b.Lo, b.Hi = x(float64(r.Lo)), x(float64(r.Hi))
			}
		}
		f.Bars = append(f.Bars, b)
	}
	for _, v := range round(lo, hi) {
		f.Ticks = append(f.Ticks, tick{X: x(v), Text: m.show(Number(v))})
	}
	return f
}

// round returns up to six round numbers in a range.
func round(lo, hi float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/3)))
	for _, k := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(k*step) <= 5 {
			step *= k
			break
		}
	}
	var out []float64
	for v := math.Ceil(lo/step) * step; v <= hi+1e-9*step && len(out) < 7; v += step {
		out = append(out, v)
	}
	return out
}

// renderHTML writes a self-contained file: no network access, no script.
func renderHTML(w io.Writer, c *Comparison) error {
	type table struct {
		Title, Subtitle  string
		Overview, Detail grid
		More             []Table
		Pictures         []chartPicture
		Forests          []forest
		Explained        []Metric
		Notes            []string
	}
	var tables []table
	for _, t := range c.tables() {
		d := table{Title: t.title(), Subtitle: t.subtitle(), Overview: t.overview(false), Detail: t.overview(true), More: t.Tables, Notes: t.Notes, Pictures: pictures(t.Charts)}
		for _, m := range t.shown() {
			if m.Detail {
				m.Means, m.Name = m.caption(), m.label()
				d.Explained = append(d.Explained, m)
			} else {
				d.Forests = append(d.Forests, t.forest(m))
			}
		}
		tables = append(tables, d)
	}
	var b bytes.Buffer
	err := pages.ExecuteTemplate(&b, "comparison", struct {
		Title  string
		Style  template.CSS
		Tables []table
	}{c.title(), template.CSS(styleText), tables})
	if err != nil {
		return err
	}
	_, err = w.Write(bytes.TrimLeft(b.Bytes(), "\n"))
	return err
}
