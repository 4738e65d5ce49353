package analysis

import (
	"fmt"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

// moneyBars plots the cost of each model, with failed runs separately.
func (r *Report) moneyBars() page.Picture {
	b := page.Bars{ID: "money", Title: "Cost of each model", Why: "no run has a price",
		Keys: []page.Key{{Class: "block s1", Name: "runs that did not fail"}, {Class: "block s2", Name: "failed runs"}}}
	for i := range r.Models {
		t := &r.Models[i].Totals
		lost := float64(t.LostUSD)
		if !page.Known(lost) {
			lost = 0
		}
		text := page.USD(float64(t.CostUSD))
		b.Rows = append(b.Rows, page.Bar{Name: r.Models[i].name(), Text: text, Title: r.Models[i].name() + "\n" + text + " for " + page.Plural(t.Priced, "run"),
			Parts: []page.Part{{Value: float64(t.CostUSD) - lost, Class: "s1"}, {Value: lost, Class: "s2"}}})
	}
	return b.Picture()
}

// timeBars plots the time of each model.
func (r *Report) timeBars() page.Picture {
	b := page.Bars{ID: "time", Title: "Time of each model", Why: "the duration of no run is recorded", Keys: []page.Key{{Class: "block s3", Name: "all runs"}}}
	for i := range r.Models {
		t := &r.Models[i].Totals
		text := page.Duration(float64(t.Seconds))
		b.Rows = append(b.Rows, page.Bar{Name: r.Models[i].name(), Text: text, Title: r.Models[i].name() + "\n" + text + " for " + page.Plural(t.Timed, "run"),
			Parts: []page.Part{{Value: float64(t.Seconds), Class: "s3"}}})
	}
	return b.Picture()
}

// plane plots time against cost of the comparable runs of a model and marks the best ones; nil for fewer than two
// points.
func (g *group) plane(id string) *page.Picture {
	seen := stat.Count(g.comparable, func(m measured) bool { return page.Known(m.seconds) && page.Known(m.usd) })
	if seen < 2 {
		return nil
	}
	s := page.Scatter{ID: id, Title: "Time and cost of each run, per " + g.Work.Unit, TimeX: true,
		XName: "time per " + g.Work.Unit, YName: "USD per " + g.Work.Unit,
		Keys: []page.Key{{Class: "disc", Name: "run"}, {Class: "disc hollow", Name: "failed"}, {Class: "ring", Name: "best configuration"}}}
	rings := map[string][]string{}
	for _, b := range g.Best {
		word := map[string]string{"time": "fastest", "cost": "cheapest"}[b.By]
		if word != "" && len(b.RunIDs) > 0 && b.Configs > 1 {
			id := nearest(g.comparable, b)
			rings[id] = append(rings[id], word)
		}
	}
	for _, m := range g.comparable {
		mark := page.Mark{X: m.seconds, Y: m.usd, Class: "on-front", Ring: strings.Join(rings[m.ID], ", "),
			Title: m.name + "\n" + configWords(m.On) + "\n" + page.Duration(m.seconds) + ", " + page.USD(m.usd) + " per " + g.Work.Unit}
		if m.State == "failed" {
			mark.Class = "hollow"
		}
		s.Marks = append(s.Marks, mark)
	}
	p := s.Picture()
	return &p
}

// nearest returns the id of the best run of a best configuration.
func nearest(runs []measured, b bestConfig) string {
	of := func(m measured) float64 {
		if b.By == "cost" {
			return m.usd
		}
		return m.seconds
	}
	id, least := "", 0.0
	for _, m := range runs {
		for _, of1 := range b.RunIDs {
			if v := of(m); m.ID == of1 && page.Known(v) && (id == "" || v < least) {
				id, least = m.ID, v
			}
		}
	}
	return id
}

const mostSeries = 4 // number of colours

// scalingPictures plots the curves of each knob, and the efficiency for a knob with a price.
func (g *group) scalingPictures(id string) []page.Picture {
	var list []page.Picture
	for _, k := range knobs {
		speed := page.Chart{ID: id + "-" + k.name, Title: "Speed over " + knobNames[k.name], X: page.Axis{Name: knobNames[k.name]}, Y: page.Axis{Zero: true}}
		efficiency := page.Chart{ID: speed.ID + "-efficiency", Title: "Efficiency over " + knobNames[k.name] + ", against the smallest measured", X: speed.X, Y: page.Axis{Name: "%", Zero: true},
			Levels: []page.Level{{Name: "in proportion", Value: 100, Class: "base"}}}
		for _, c := range g.Curves {
			if c.Knob != k.name || len(speed.Series) == mostSeries {
				continue
			}
			speed.Y.Name = c.Unit
			s := page.Series{Name: seriesName(&c), Class: fmt.Sprintf("s%d", len(speed.Series)+1), Whiskers: true,
				One: func(v float64) string { return page.WithUnit(v, c.Unit) }}
			e := page.Series{Name: s.Name, Class: s.Class, One: page.Percent}
			for _, p := range c.Points {
				s.Points = append(s.Points, page.Point{X: p.At, Y: float64(p.Speed.Mean)})
				if p.Speed.Lo.Known() {
					s.Band = append(s.Band, page.Band{X: p.At, Lo: float64(p.Speed.Lo), Hi: float64(p.Speed.Hi)})
				}
				e.Points = append(e.Points, page.Point{X: p.At, Y: 100 * float64(p.Efficiency.Mean)})
			}
			speed.Series, efficiency.Series = append(speed.Series, s), append(efficiency.Series, e)
		}
		if len(speed.Series) == 0 {
			continue
		}
		list = append(list, speed.Picture())
		if k.paid {
			list = append(list, efficiency.Picture())
		}
	}
	return list
}

func seriesName(c *curve) string {
	if c.GPU == "" {
		return c.Held
	}
	return page.Clean(c.GPU) + ", " + c.Held
}
