package analysis

import (
	"fmt"

	"trainopt/optimizer/report/page"
)

// longCurves is the number of curves per model in the text format.
const longCurves = 4

// document converts a report to a document with at most the given number of curves per model.
func (r *Report) document(curves int) page.Document {
	d := page.Document{Title: r.headline(),
		Footer: "All figures are measured. Means of several runs are geometric, intervals 90 % (Student's t on logarithms). What was not measured is “no data”."}
	if r.Runs > 0 {
		d.Subtitle, d.Tiles = r.subtitle(), r.tiles()
		d.Sections = []page.Section{
			{ID: "money-and-time", Title: "Time and money", Blocks: []page.Block{
				{Pictures: []page.Picture{r.moneyBars(), r.timeBars()}}, {Table: r.moneyTable()}, {Notes: r.Totals.prices()}}},
			{ID: "use", Title: "Utilization of allocated resources", Blocks: []page.Block{{Table: r.useTable()}}},
		}
	}
	for i := range r.Models {
		d.Sections = append(d.Sections, r.Models[i].section(fmt.Sprintf("m%d", i), curves))
	}
	if len(r.Findings) > 0 {
		s := page.Section{ID: "findings", Title: "Where money goes without work", Intro: "The same dollar may appear under several findings: they do not add up."}
		for _, f := range r.Findings {
			s.Blocks = append(s.Blocks, f.block())
		}
		d.Sections = append(d.Sections, s)
	}
	if r.Agreement != nil && r.Runs > 0 {
		d.Sections = append(d.Sections, r.Agreement.section())
	}
	if len(r.Notes) > 0 {
		d.Sections = append(d.Sections, page.Section{ID: "notes", Title: "Notes", Blocks: []page.Block{{Notes: r.Notes}}})
	}
	return d
}

// tile returns a headline figure, muted if it is unknown.
func tile(label, value, note string) page.Tile {
	light := page.Dark
	if value == page.NoData {
		light = page.Muted
	}
	return page.Tile{Label: label, Value: value, Note: note, Light: light}
}

// tiles returns the headline figures with the number of runs behind each.
func (r *Report) tiles() []page.Tile {
	t := &r.Totals
	of := func(n int) string { return "of " + page.Plural(n, "run") }
	failed := tile("Failed", page.NoData, "the end of no run is recorded")
	if t.FailedShare.Known() {
		failed = tile("Failed", page.Share(float64(t.FailedShare)), fmt.Sprintf("%d of %d", t.Failed, t.Runs-t.EndUnknown))
	}
	lost := tile("Lost in failed runs", page.USD(float64(t.LostUSD)), of(t.LostOf))
	if t.Failed == 0 {
		lost.Note = "none failed, as far as is known"
	}
	return []page.Tile{
		tile("Runs", page.Thousands(float64(t.Runs)), fmt.Sprintf("%d with an unknown end", t.EndUnknown)),
		tile("Time", page.Duration(float64(t.Seconds)), of(t.Timed)),
		tile("Cost", page.USD(float64(t.CostUSD)), of(t.Priced)),
		failed, lost,
		tile("Energy", energy(float64(t.EnergyJoules)), of(t.Metered)),
	}
}

// prices describes the prices and the number of runs at each.
func (t *runTotals) prices() []string {
	var list []string
	for _, p := range t.Prices {
		list = append(list, page.Plural(p.Runs, "run")+" "+p.Words)
	}
	if t.Unpriced > 0 {
		list = append(list, page.Plural(t.Unpriced, "run")+" without a price")
	}
	return list
}

// section returns the section of a model.
func (g *group) section(id string, curves int) page.Section {
	s := page.Section{ID: id, Title: g.name(), Intro: g.Work.words()}
	var best []page.Field
	for _, b := range g.Best {
		best = append(best, page.Field{Name: measures[b.By], Value: b.value() + ": " + b.Config, Note: b.support()})
	}
	if len(best) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Fields: best})
	}
	s.Blocks = append(s.Blocks, page.Block{Wide: g.plane(id + "-plane"), Pictures: g.scalingPictures(id)})
	for i := range g.Curves {
		if i == curves {
			s.Blocks = append(s.Blocks, page.Block{Notes: []string{"… " + page.Plural(len(g.Curves)-i, "curve") + " more: --format html or json"}})
			break
		}
		s.Blocks = append(s.Blocks, page.Block{Caption: g.Curves[i].title(), Table: g.Curves[i].table()})
	}
	return s
}

func (f finding) block() page.Block {
	b := page.Block{Caption: (&group{Model: f.Model, Dataset: f.Dataset}).name() + ", " + causes[f.Cause], Fields: page.Fields("evidence", f.Evidence)}
	if lost := f.lost(); lost != "" {
		b.Fields = append(b.Fields, page.Field{Name: "money", Value: lost})
	}
	b.Fields = append(b.Fields, page.Field{Name: "try", Value: f.Advice})
	return b
}

func (a *limitSummary) section() page.Section {
	s := page.Section{ID: "limits", Title: "Limits", Blocks: []page.Block{{Table: a.termTable()}}}
	if len(a.Broken) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Missed by", Table: a.brokenTable()})
	}
	return s
}
