package pretrain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
)

// line returns a line over the steps.
func (r *Result) line(name string, value func(p *point) number) page.Series {
	s := page.Series{Name: name, One: figure}
	for i := range r.Curve {
		s.Points = append(s.Points, page.Point{X: float64(r.Curve[i].Steps), Y: float64(value(&r.Curve[i]))})
	}
	return s
}

// charts returns the diagrams of the page, with a mark at the agent that was kept.
func (r *Result) charts() []page.Chart {
	steps := page.Axis{Name: "steps"}
	volume := page.Chart{Title: "Hypervolume", Note: "of the measured front, above (" + strings.Join(figures(r.Reference), ", ") + ")", X: steps,
		Series: []page.Series{r.line("hypervolume", func(p *point) number { return p.Hypervolume })}}
	utility := page.Chart{Title: "Expected utility", Note: "mean over preferences, of the measured agent", X: steps,
		Series: []page.Series{r.line("agent", func(p *point) number { return p.ExpectedUtility })}}
	returns := page.Chart{Title: "Return of the training's episodes", Note: "while exploring, under preferences drawn at random", X: steps}
	if r.Jobs != nil {
		returns.Note = "while exploring; 0 is what the performance model predicted"
		utility.Note = "mean over preferences and jobs that were not trained on"
		utility.Series = append(utility.Series, r.line("performance model alone", func(p *point) number { return p.Model }),
			r.line("own configuration", func(p *point) number { return p.Own }))
		utility.Series[1].Dashed, utility.Series[2].Dashed = true, true
	}
	for i, o := range r.Objectives {
		returns.Series = append(returns.Series, r.line(o, func(p *point) number {
			if i >= len(p.Returns) {
				return number(math.NaN())
			}
			return p.Returns[i]
		}))
	}
	list := []page.Chart{volume, utility,
		{Title: "Points on the front", X: steps, Y: page.Axis{Whole: true}, Series: []page.Series{r.line("points", func(p *point) number { return number(p.FrontSize) })}},
		returns,
	}
	if loss := r.line("loss", func(p *point) number { return p.Loss }); slices.ContainsFunc(loss.Points, func(p page.Point) bool { return page.Known(p.Y) }) { // else it has no critics
		list = append(list, page.Chart{Title: "Loss of the critics", Note: "moving average, logarithmic", X: steps, Y: page.Axis{Log: true}, Series: []page.Series{loss}})
	}
	for i := range list {
		for k := range r.Curve {
			if p := &r.Curve[k]; p.Kept {
				list[i].Moments = append(list[i].Moments, page.Moment{X: float64(p.Steps), Class: "live", Title: "kept: the agent of step " + page.Count(float64(p.Steps))})
			}
		}
	}
	return list
}

// document returns the page of the curve.
func (r *Result) document() page.Document {
	d := page.Document{Title: fmt.Sprintf("Training of agent %s in %s", r.Meta.Agent, r.Meta.Env),
		Subtitle: "Each point is one measurement of the agent without exploration; the vertical mark is the agent that was kept."}
	if r.Steps < r.Of {
		d.Subtitle += " The training was interrupted."
	}
	add := func(label, value string) { d.Tiles = append(d.Tiles, page.Tile{Label: label, Value: value}) }
	add("steps", page.Count(float64(r.Steps)))
	add("kept", "step "+page.Count(float64(r.Meta.Stats.Steps)))
	add("seed", strconv.FormatUint(r.Meta.Seed, 10))
	if r.Known {
		add("hypervolume", figure(r.Hypervolume))
		add("expected utility", figure(r.ExpectedUtility))
	}
	if j := r.Jobs; j != nil {
		add("over the performance model", fmt.Sprintf("%+.5f ± %.5f", j.OverModel, 2*j.OverModelSE))
	}
	if !math.IsNaN(r.WallSeconds) {
		add("time", page.Duration(r.WallSeconds))
	}
	d.Sections = []page.Section{{ID: "curves", Title: "Curves", Blocks: []page.Block{{Pictures: page.Pictures(r.charts())}}}}
	if len(r.Front) > 0 {
		g := &page.Table{Columns: page.Right(r.Objectives...)}
		for _, p := range r.Front {
			g.Rows = append(g.Rows, page.Row(figures(p)...))
		}
		d.Sections = append(d.Sections, page.Section{ID: "front", Title: "Pareto front", Intro: "Returns of the kept agent by objective; more is better.", Blocks: []page.Block{{Table: g}}})
	}
	return d
}

// WriteHTML writes the curve as a self-contained page: no network access, no script.
func (r *Result) WriteHTML(w io.Writer) error { return r.document().HTML(w) }

func figures(v []float64) []string {
	var out []string
	for _, x := range v {
		out = append(out, figure(x))
	}
	return out
}

// figure formats a number with at most six digits.
func figure(v float64) string {
	return strings.Replace(strconv.FormatFloat(v, 'g', 6, 64), "-", "−", 1)
}
