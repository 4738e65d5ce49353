package analysis

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"trainopt/optimizer/chart"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("analysis").Funcs(template.FuncMap{
	"clean": chart.Clean,
	"right": func(g grid, column int) bool { return column >= g.Left },
	"name":  func(g grid, column int) string { return g.Columns[column] },
}).Parse(chart.Figures + pageText))

// tile is a key figure of the page.
type tile struct{ Label, Value, Note string }

// modelPage is what the page shows of a model.
type modelPage struct {
	ID, Name, Work string
	Best           grid
	Plane          *chart.Picture // nil: nothing to see
	Pictures       []chart.Picture
	Curves         []curvePage
}

type curvePage struct {
	Title string
	Table grid
}

// findingPage is a finding in words.
type findingPage struct{ Title, Evidence, Money, Advice string }

// writeHTML writes one file that needs nothing else: no network, no script.
func writeHTML(w io.Writer, r *Report) error {
	var findings []findingPage
	for _, f := range r.Findings {
		name := (&Group{Model: f.Model, Dataset: f.Dataset}).name()
		findings = append(findings, findingPage{name + ": " + causes[f.Cause], f.Evidence, f.lost(), f.Advice})
	}
	data := struct {
		*Report
		Style                    template.CSS
		Title, Subtitle, Overlap string
		Tiles                    []tile
		Money, Use               grid
		MoneyBars                chart.Picture
		TimeBars                 chart.Picture
		Pages                    []modelPage
		Found                    []findingPage
		Terms, Broken            *grid
		Prices, Skipped          []string
	}{Report: r, Style: template.CSS(chart.Style), Title: r.headline(), Subtitle: r.subtitle(), Overlap: overlapWords, Tiles: r.tiles(), Money: r.moneyTable(), Use: r.useTable(),
		MoneyBars: r.moneyBars(), TimeBars: r.timeBars(), Found: findings}
	for i := range r.Models {
		data.Pages = append(data.Pages, r.Models[i].page(fmt.Sprintf("m%d", i)))
	}
	for _, p := range r.Totals.Prices {
		data.Prices = append(data.Prices, chart.Plural(p.Runs, "run")+" "+p.Words)
	}
	if r.Agreement != nil {
		terms, broken := r.Agreement.termTable(), r.Agreement.brokenTable()
		data.Terms = &terms
		if len(broken.Rows) > 0 {
			data.Broken = &broken
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n"))
	return err
}

func (r *Report) tiles() []tile {
	t := &r.Totals
	of := func(n int) string { return "of " + chart.Plural(n, "run") }
	list := []tile{
		{"Runs", chart.Thousands(float64(t.Runs)), fmt.Sprintf("%d with an unknown end", t.EndUnknown)},
		{"Time", chart.Duration(float64(t.Seconds)), of(t.Timed)},
		{"Cost", chart.USD(float64(t.CostUSD)), of(t.Priced)},
		{"Failed", chart.NoData, "no run says how it ended"},
		{"Lost in failed runs", chart.USD(float64(t.LostUSD)), of(t.LostOf)},
		{"Energy", energy(float64(t.EnergyJoules)), of(t.Metered)},
	}
	if t.FailedShare.Known() {
		list[3].Value, list[3].Note = chart.Share(float64(t.FailedShare)), fmt.Sprintf("%d of %d", t.Failed, t.Runs-t.EndUnknown)
	}
	if t.Failed == 0 {
		list[4].Note = "none failed, as far as is known"
	}
	return list
}

func (g *Group) page(id string) modelPage {
	p := modelPage{ID: id, Name: g.name(), Work: g.Work.words(), Best: grid{Columns: []string{"", "", "configuration", "rests on"}, Left: 4},
		Plane: g.plane(id + "-plane"), Pictures: g.scalingPictures(id)}
	for _, b := range g.Best {
		p.Best.Rows = append(p.Best.Rows, []string{measures[b.By], b.value(), b.Config, b.support()})
	}
	for i := range g.Curves {
		c := &g.Curves[i]
		p.Curves = append(p.Curves, curvePage{c.title(), c.table()})
	}
	return p
}
