package render

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"

	"trainopt/simulator/experiment"
)

func page(w io.Writer, v *view) error {
	p := experiment.Page{Title: v.title(), Subtitle: v.subtitle(), Facts: v.facts(), Notes: v.notes(), Tables: []experiment.Table{v.byApp(), v.patterns(listedOnPages)}}
	if len(v.Curve) > 0 {
		p.Charts = append(p.Charts, v.curve())
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return err
	}
	// experiment.Page has line charts only, so the picture is inserted before the first section of its HTML.
	before, after, ok := bytes.Cut(b.Bytes(), []byte("<section>"))
	if !ok {
		return errors.New("write placement: the page has no section")
	}
	var out bytes.Buffer
	out.Write(before)
	if err := pictures.Execute(&out, v.picture()); err != nil {
		return fmt.Errorf("write placement: %w", err)
	}
	out.WriteString("<section>")
	out.Write(after)
	_, err := w.Write(out.Bytes())
	return err
}

// curve returns a chart of the learning curve.
func (v *view) curve() experiment.Chart {
	mean, best := experiment.Line{Name: "mean of the episodes"}, experiment.Line{Name: "best so far"}
	for _, p := range v.Curve {
		mean.Points = append(mean.Points, experiment.Point{X: float64(p.Episode), Y: p.Mean})
		best.Points = append(best.Points, experiment.Point{X: float64(p.Episode), Y: p.Best})
	}
	c := experiment.Chart{Title: "Learning", Note: "objective over the episodes that were played", X: experiment.Axis{Name: "episodes"}, Y: experiment.Axis{Name: v.objective()},
		Lines: []experiment.Line{mean, best}}
	if v.Told != nil {
		c.Note += ", as predicted"
	}
	return c
}

// drawn is the maximum number of nodes drawn as separate columns.
const drawn = 120

// Size of a picture in SVG units.
const (
	pictureWidth, pictureHeight = 1040.0, 300.0
	pictureColors               = 7
)

// cell is a rectangle of the picture with its CSS class and its tooltip, or an entry of the legend.
type cell struct {
	X, Y, Width, Height string
	Class, Words        string
}

// pictureData is the input of the template pictures.
type pictureData struct {
	Note, Below   string
	Legend        []cell
	Cells         []cell
	Width, Height float64
}

// picture draws each node as a column of cells, with nodes of equal content adjacent; beyond drawn nodes, these form
// one column.
func (v *view) picture() pictureData {
	p := pictureData{Width: pictureWidth, Height: pictureHeight, Note: "a column is a node, a cell a container; nodes that hold the same stand side by side", Below: counted(v.Problem.Nodes(), "node")}
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
		p.Legend = append(p.Legend, cell{Class: color(a), Words: name})
	}
	step, rise := pictureWidth/float64(nodes), (pictureHeight-24)/float64(capacity)
	x := 0.0
	for _, g := range v.groups {
		times, width := g.nodes, min(step-min(1.5, step/6), 46)
		if kinds {
			times, width = 1, max(0.5, step*float64(g.nodes)-1.5)
		}
		for range times {
			p.Cells = append(p.Cells, v.column(&g, x, width, rise)...)
			x += step * float64(g.nodes/times)
		}
	}
	return p
}

// column draws the content of a node, from bottom to top.
func (v *view) column(g *group, x, width, rise float64) []cell {
	unit := func(f float64) string { return fmt.Sprintf("%.1f", f) }
	var out []cell
	rps := v.Problem.Types[g.kind].Table.RPS(g.pattern)
	room := float64(v.Problem.Types[g.kind].Table.Capacity()) * rise
	bottom := pictureHeight - 22.0
	words := fmt.Sprintf("%d × %s: room for %d", g.nodes, v.typeName(g.kind), v.Problem.Types[g.kind].Table.Capacity())
	out = append(out, cell{unit(x), unit(bottom - room), unit(width), unit(room), "room", words})
	height := 0
	for a, k := range g.counts {
		for range k {
			height++
			words := fmt.Sprintf("%s at %s of alone; %d × %d %s beside %d others", v.names[a], fixed(rps[a], 3), g.nodes, k, v.names[a], g.size-int(k))
			out = append(out, cell{unit(x), unit(bottom - float64(height)*rise), unit(width), unit(rise - 1.5), color(a), words})
		}
	}
	return out
}

func (v *view) typeName(kind int) string {
	if name := v.Problem.Types[kind].Name; name != "" {
		return name
	}
	return "node"
}

// color returns the CSS class of an app; apps beyond the seventh reuse colours, lighter.
func color(app int) string {
	class := fmt.Sprintf("a%d", app%pictureColors+1)
	if app >= pictureColors {
		class += fmt.Sprintf(" w%d", min(app/pictureColors, 3))
	}
	return class
}

var pictures = template.Must(template.New("picture").Parse(`<section>
<style>
svg .a1 { fill: var(--s1); } svg .a2 { fill: var(--s2); } svg .a3 { fill: var(--s3); } svg .a4 { fill: var(--s4); }
svg .a5 { fill: var(--s5); } svg .a6 { fill: var(--s6); } svg .a7 { fill: var(--s7); } svg .room { fill: var(--grid); }
svg .w1 { opacity: .65; } svg .w2 { opacity: .45; } svg .w3 { opacity: .3; }
figure svg.nodes { max-width: none; }
</style>
<h3>The placement</h3>
<p class="sub">{{.Note}}</p>
<figure><div class="legend">{{range .Legend}}<span><svg viewBox="0 0 22 8" aria-hidden="true"><rect class="{{.Class}}" width="16" height="8"/></svg>{{.Words}}</span>{{end}}</div>
<svg class="nodes" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-label="what each node holds, the numbers are in the table below">
{{range .Cells}}<rect class="{{.Class}}" x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}"><title>{{.Words}}</title></rect>
{{end}}<text class="tick" x="0" y="{{.Height}}" dy="-4">{{.Below}} →</text></svg></figure>
</section>
`))
