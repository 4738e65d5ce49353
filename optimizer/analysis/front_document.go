package analysis

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
)

const (
	narrowest = 40
	widest    = 120
	mostRows  = 16 // of the front, in the text format
)

// renderText writes for a terminal of the given width: the choice, the front, a sketch of it and the trade-offs.
func renderText(w io.Writer, f sheet) error {
	width := f.width
	if width <= 0 {
		width = 80
	}
	width = min(max(width, narrowest), widest)
	d := f.document(mostRows)
	if len(f.Points) > 1 {
		s := &d.Sections[0]
		s.Blocks = slices.Insert(s.Blocks, 1, f.sketch(width))
	}
	return d.TextWithin(w, width)
}

// pictured returns the document with the plot of the front.
func (f *front) pictured() page.Document {
	d := f.document(len(f.Points))
	picture := f.picture().Picture()
	d.Wide = &picture
	d.Footer = "Less is better in time, cost and resources. A point is on the front when no other is at least as good in all three and better in one."
	if f.Predicted {
		d.Footer += " All numbers are predicted; intervals are from the 5th to the 95th percentile."
	} else {
		d.Footer += " All times are measured."
	}
	return d
}

// renderSVG writes the picture alone, with its own style.
func renderSVG(w io.Writer, f sheet) error {
	_, err := io.WriteString(w, f.picture().Picture().File())
	return err
}

// document converts a front to a document with at most the given number of rows.
func (f *front) document(rows int) page.Document {
	d := page.Document{Title: "Pareto front of " + f.Subject, Subtitle: strings.TrimPrefix(f.Basis+"; "+f.countWords(), "; "),
		Answers: []page.Answer{{Question: "Chosen", Text: f.chosenWords()}, {Question: "Preferred", Text: preferenceWords(f.Preferred)}}}
	s := page.Section{ID: "points", Title: "The front", Blocks: []page.Block{{Table: f.table(rows)}}}
	if len(f.Steps) > 0 {
		s.Intro = f.rateWords()
	}
	if lines := f.tradeLines(); len(lines) > 0 {
		s.Blocks = append(s.Blocks, page.Block{Caption: "Trade-offs at the chosen point", Notes: lines})
	}
	d.Sections = []page.Section{s}
	if len(f.Notes) > 0 {
		d.Sections = append(d.Sections, page.Section{ID: "notes", Title: "Notes", Blocks: []page.Block{{Notes: f.Notes}}})
	}
	return d
}

// table returns the front, fastest first. A long front is cut around the chosen point.
func (f *front) table(most int) *page.Table {
	t := &page.Table{Columns: append(page.Left("", "allocation"), page.Right("time", "cost", "resources")...)}
	rates, u := map[string]string{}, f.rateUnit()
	for _, s := range f.Steps {
		rates[s.To] = usd(float64(s.USDPerHour) / 3600 * u.size)
	}
	if len(rates) > 0 {
		t.Columns = append(t.Columns, page.Right(u.one()+" less")...)
	}
	more := func(n int, word string) {
		if n > 0 {
			row := make([]page.Cell, len(t.Columns))
			row[1].Text = fmt.Sprintf("… %d %s: --format csv", n, word)
			t.Rows = append(t.Rows, row)
		}
	}
	labelled := f.labelled()
	from := min(max(0, slices.Index(labelled, f.Chosen)-most/2), max(0, len(labelled)-most))
	to := min(from+most, len(labelled))
	more(from, "faster")
	for _, i := range labelled[from:to] {
		p := f.Points[i]
		row := page.Row(p.Label, p.Name, page.Duration(p.Seconds.P50), usd(p.CostUSD.P50), page.Share(p.Resource), rates[p.Label])[:len(t.Columns)]
		if p.Seconds.P5 != p.Seconds.P95 {
			row[2].Sub, row[3].Sub = ends(p.Seconds, page.Duration), ends(p.CostUSD, usd)
		}
		if p.Chosen {
			row[0].Text += page.Blank + "▸"
		}
		if p.Taken {
			row[1].Text += " (the run's plan)"
		}
		t.Rows = append(t.Rows, row)
	}
	more(len(labelled)-to, "slower")
	return t
}

// rateUnit returns the time unit of all rates in the table.
func (f *front) rateUnit() unit {
	u := unit{1, "second"}
	for _, s := range f.Steps {
		u = readable(u, float64(s.USDPerHour)/3600)
	}
	return u
}

// rateWords describes the column of rates.
func (f *front) rateWords() string {
	u := f.rateUnit()
	return fmt.Sprintf("%s less: what it costs more than the next cheaper point, per %s less", u.one(), u.name)
}

// tradeLines returns the trades as text, one per destination.
func (f *front) tradeLines() []string {
	var out []string
	for i, t := range f.Trades {
		if !slices.ContainsFunc(f.Trades[:i], func(before trade) bool { return before.To == t.To }) {
			out = append(out, t.Words)
		}
	}
	return out
}

// picture plots time × cost: the front as a line, the chosen point with a ring and its intervals, resource use as the
// size.
func (f *front) picture() *page.Scatter {
	s := &page.Scatter{ID: "front", Title: "Time and cost of every point", About: f.countWords() + "; chosen " + f.chosenWords(), TimeX: true,
		XName: "time of the whole job", YName: "cost of the whole job, USD", Intervals: true}
	if f.Predicted {
		s.Title += " (predicted)"
	}
	for _, on := range []bool{false, true} {
		for _, p := range f.Points {
			if p.OnFront == on {
				s.Marks = append(s.Marks, f.markOf(p))
			}
		}
	}
	for _, p := range f.edge() {
		s.Edge = append(s.Edge, page.Point{X: p.Seconds.P50, Y: p.CostUSD.P50})
	}
	ring := "chosen"
	if f.Predicted {
		ring += ", with 90 % intervals"
	}
	s.Keys = []page.Key{{Class: "ring", Name: ring}, {Class: "disc", Name: "Pareto front"}}
	if f.Dominated > 0 {
		s.Keys = append(s.Keys, page.Key{Class: "disc quiet", Name: "dominated"})
	}
	if f.Infeasible > 0 {
		s.Keys = append(s.Keys, page.Key{Class: "disc hollow", Name: "may miss the SLA"})
	}
	if f.Share != "" {
		s.Keys = append(s.Keys, page.Key{Class: "sizes", Name: "size: resources, share of " + f.Share})
	}
	return s
}

// markOf returns the plotted mark of a point with its tooltip.
func (f *front) markOf(p point) page.Mark {
	breaks := !p.Feasible && f.Infeasible > 0
	m := page.Mark{X: p.Seconds.P50, Y: p.CostUSD.P50, Radius: page.ShareRadius(p.Resource)}
	words := "on the Pareto front"
	switch {
	case p.OnFront:
		m.Class, m.Sign, m.Name = "on-front", p.Label, p.Label
	case breaks:
		m.Class, m.Sign, words = "hollow", "x", "dominated"
	default:
		m.Class, words = "quiet", "dominated"
	}
	if p.Chosen {
		m.Ring, m.Name = p.Label+" chosen", ""
		if p.Seconds.P5 != p.Seconds.P95 {
			m.Whiskers = &page.Whiskers{XLo: p.Seconds.P5, XHi: p.Seconds.P95, YLo: p.CostUSD.P5, YHi: p.CostUSD.P95}
		}
	}
	if !p.Feasible {
		words += ", may miss the SLA"
	}
	if p.Taken {
		words += ", the run's plan"
	}
	if f.Predicted {
		words += ", predicted"
	}
	m.Title = strings.Join([]string{strings.TrimPrefix(p.Label+": "+p.Name, ": "), "time " + interval(p.Seconds, page.Duration), "cost " + interval(p.CostUSD, usd),
		"resources " + page.Share(p.Resource), words}, "\n")
	return m
}

// sketch returns the picture in characters, with its legend.
func (f *front) sketch(width int) page.Block {
	b := page.Block{Sketch: f.picture().Sketch(width)}
	keys := []string{"[" + f.Points[f.Chosen].Label + "] chosen", "letters: the front"}
	if drawn := strings.Join(b.Sketch, ""); strings.Contains(drawn, "*") {
		keys = append(keys, "*: several or beyond Z")
	}
	if f.Dominated > 0 {
		keys = append(keys, "·: dominated")
	}
	if f.Infeasible > 0 {
		keys = append(keys, "x: may miss the SLA")
	}
	b.Caption = "Time and cost (" + strings.Join(keys, ", ") + ")"
	return b
}
