package page

import (
	"fmt"
	"slices"
	"strings"
)

// Parallel is a picture of things with several properties: one vertical axis per property, one line per thing.
type Parallel struct {
	ID, Title string
	Axes      []Coordinate
	Lines     []Thread
	Why       string // reason shown when the picture is empty
}

// Coordinate is an axis with the values of all lines, NaN where unknown. It is logarithmic if the values span more than
// a factor of 25.
type Coordinate struct {
	Name   string
	One    func(float64) string // formats a value; nil: Significant
	Values []float64            // one per line
}

// Thread is the identity of a line.
type Thread struct{ Name, Class, Sign string }

const (
	parallelTop    = 34.0
	parallelBottom = 30.0
	parallelSide   = 70.0
)

// Picture renders the axes on which at least one line has a value. A line is interrupted at an unknown value.
func (p *Parallel) Picture() Picture {
	out := Picture{ID: p.ID, Title: p.Title}
	var axes []Coordinate
	for _, a := range p.Axes {
		if a.One == nil {
			a.One = Significant
		}
		if slices.ContainsFunc(a.Values, Known) {
			axes = append(axes, a)
		}
	}
	if len(axes) < 2 || len(p.Lines) == 0 {
		out.Empty = emptyWords(p.Why)
		return out
	}
	for _, l := range p.Lines {
		out.Keys = append(out.Keys, Key{l.Class, l.Sign + " " + l.Name})
	}
	return *out.Rows(fmt.Sprintf("%s on %s", Plural(len(p.Lines), "line"), Plural(len(axes), "coordinate")), wideSize.Height, func(d *Drawing) { p.draw(d, axes) })
}

func (p *Parallel) draw(d *Drawing, axes []Coordinate) {
	step := (d.Width - 2*parallelSide) / float64(len(axes)-1)
	bottom := d.Height - parallelBottom
	scales := make([]*Scale, len(axes))
	for i, a := range axes {
		x := parallelSide + step*float64(i)
		s := &Scale{Min: least(a.Values), Max: most(a.Values), Log: spread(a.Values) > wideSpread}
		s.From, s.To = bottom, parallelTop
		scales[i] = s
		d.F(`<line class="ruler" x1="%s" x2="%s" y1="%g" y2="%g"/>`, Px(x), Px(x), parallelTop, bottom)
		d.F(`<text class="mid" x="%s" y="%g">%s</text>`, Px(x), parallelTop-18, Esc(d.shorten(a.Name, step)))
		d.F(`<text class="mid unit" x="%s" y="%g">%s</text>`, Px(x), parallelTop-4, Esc(a.One(s.Max)))
		if s.Min < s.Max {
			d.F(`<text class="mid unit" x="%s" y="%g">%s</text>`, Px(x), bottom+16, Esc(a.One(s.Min)))
		}
	}
	for k, l := range p.Lines {
		path, open, words := &strings.Builder{}, false, []string{strings.TrimSpace(l.Sign + " " + l.Name)}
		end := Point{}
		for i, a := range axes {
			v := a.Values[k]
			if !Known(v) {
				open = false
				continue
			}
			at := Point{parallelSide + step*float64(i), scales[i].At(v)}
			fmt.Fprintf(path, "%s%s %s", map[bool]string{true: "L", false: "M"}[open], Px(at.X), Px(at.Y))
			open, end = true, at
			words = append(words, a.Name+": "+a.One(v))
		}
		if path.Len() == 0 {
			continue
		}
		d.F(`<path class="thread %s" d="%s"><title>%s</title></path>`, l.Class, path, escLines(strings.Join(words, "\n")))
		d.F(`<text class="sign halo %s" x="%s" y="%s">%s</text>`, l.Class, Px(end.X+18), Px(end.Y+4), Esc(l.Sign))
	}
}
