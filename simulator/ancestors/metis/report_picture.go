package metis

import (
	"cmp"
	"fmt"

	"trainopt/optimizer/report/page"
)

// pictured returns the document of a placement with its picture and its learning curve.
func (v *view) pictured() page.Document {
	d := v.document()
	d.Title = "Placement of containers: " + d.Title
	s := &d.Sections[0]
	s.Blocks[0].Intro = "RPS is the throughput of a container relative to that alone on a node. A wish is a constraint on the neighbours of a container."
	picture := v.picture()
	blocks := []page.Block{s.Blocks[0], {Wide: &picture}}
	if len(v.Curve) > 0 {
		curve := v.curve()
		blocks = append(blocks, page.Block{Pictures: []page.Picture{curve.Picture()}})
	}
	s.Blocks = append(blocks, block(v.byApp()), block(v.patterns(listedOnPages)))
	return d
}

// curve returns a chart of the learning curve.
func (v *view) curve() page.Chart {
	mean, best := page.Series{Name: "mean of the episodes"}, page.Series{Name: "best so far"}
	for _, p := range v.Curve {
		mean.Points = append(mean.Points, page.Point{X: float64(p.Episode), Y: float64(p.Mean)})
		best.Points = append(best.Points, page.Point{X: float64(p.Episode), Y: float64(p.Best)})
	}
	c := page.Chart{Title: "Learning", Note: "objective over the episodes that were played", X: page.Axis{Name: "episodes"}, Y: page.Axis{Name: v.objective()},
		Series: []page.Series{mean, best}}
	if v.Told != nil {
		c.Note += ", as predicted"
	}
	return c
}

// drawn is the maximum number of nodes drawn as separate columns.
const drawn = 120

// foot is the height below the columns, in units of the picture.
const foot = 22.0

// picture draws each node as a column of cells, with nodes of equal content adjacent; beyond drawn nodes, these form
// one column.
func (v *view) picture() page.Picture {
	p := page.Picture{Title: "The placement", Note: "a column is a node, a cell a container; nodes that hold the same stand side by side"}
	capacity := 1
	for _, t := range v.Problem.Types {
		capacity = max(capacity, t.Table.Capacity())
	}
	nodes := max(v.Problem.Nodes(), 1)
	kinds := nodes > drawn
	if kinds {
		p.Note = "a column is all nodes that hold the same, as wide as there are many; a cell is a container of each"
	}
	for a, name := range v.names {
		p.Keys = append(p.Keys, page.Key{Class: "block " + color(a), Name: name})
	}
	return p.Draw("what each node holds, the numbers are in the table below", func(d *page.Drawing) {
		step, rise := d.Width/float64(nodes), (d.Height-foot-2)/float64(capacity)
		x := 0.0
		for _, g := range v.groups {
			times, width := g.nodes, min(step-min(1.5, step/6), 46)
			if kinds {
				times, width = 1, max(0.5, step*float64(g.nodes)-1.5)
			}
			for range times {
				v.column(d, &g, x, width, rise)
				x += step * float64(g.nodes/times)
			}
		}
		d.F(`<text class="tick" x="0" y="%g">%s →</text>`, d.Height-4, counted(v.Problem.Nodes(), "node"))
	})
}

// column draws the content of a node, from bottom to top.
func (v *view) column(d *page.Drawing, g *group, x, width, rise float64) {
	rect := func(class string, y, height float64, words string) {
		d.F(`<rect class="cell %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`, class, x, y, width, height, page.Esc(words))
	}
	t := v.Problem.Types[g.kind].Table
	rps, room, bottom := t.RPS(g.pattern), float64(t.Capacity())*rise, d.Height-foot
	rect("room", bottom-room, room, fmt.Sprintf("%d × %s: room for %d", g.nodes, cmp.Or(v.Problem.Types[g.kind].Name, "node"), t.Capacity()))
	height := 0
	for a, k := range g.counts {
		for range k {
			height++
			rect(color(a), bottom-float64(height)*rise, rise-1.5,
				fmt.Sprintf("%s at %s of alone; %d × %d %s beside %d others", v.names[a], fixed(rps[a], 3), g.nodes, k, v.names[a], g.size-int(k)))
		}
	}
}

// color returns the CSS class of an app; apps beyond the eighth reuse colours, paler.
func color(app int) string {
	class := page.Class(app)
	if app >= 8 {
		class += fmt.Sprintf(" pale%d", min(app/8, 3))
	}
	return class
}
