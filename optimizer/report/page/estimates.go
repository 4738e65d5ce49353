package page

import (
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"
)

// Estimate is one row of Estimates.
type Estimate struct {
	Name         string
	Mean, Lo, Hi float64 // unknown values are not drawn
	Text         string  // the formatted mean
}

// Estimates is a picture with one mean and its interval per row over a common axis, a forest plot.
type Estimates struct {
	Title string
	Rows  []Estimate
	Label func(float64) string // formats the ends of intervals, and the ticks unless Plain is set
	Plain bool                 // ticks are numbers with the same number of decimals
	Why   string               // reason shown when the picture is empty
}

// Picture renders the estimates for a wide and for a narrow page. The axis starts at 0 if the range is wide relative to
// its values.
func (e *Estimates) Picture() Picture {
	p := Picture{Title: e.Title}
	var values []float64
	var about []string
	for _, r := range e.Rows {
		values = append(values, r.Mean, r.Lo, r.Hi)
		about = append(about, r.Name+" "+r.Text)
	}
	if least(values) > most(values) {
		p.Empty = emptyWords(e.Why)
		return p
	}
	draw := func(z size) template.HTML {
		z.Height = barStep*float64(len(e.Rows)) + 24
		d := newDrawing(z, "", e.Title, "means and 95 % intervals: "+strings.Join(about, ", "))
		e.draw(d, values)
		return d.finish()
	}
	p.SVG, p.Narrow = draw(wideSize), draw(normalSize)
	return p
}

func (e *Estimates) draw(d *Drawing, values []float64) {
	lo, hi := least(values), most(values)
	x := NewScale(values, 5, lo > 0 && lo < hi/2, false)
	tick := map[bool]func(float64) string{false: e.Label, true: x.Label}[e.Plain]
	name := d.Width * .3
	x.From, x.To = name, d.Width-barText
	for len(x.Ticks) > 2 && 9*float64(utf8.RuneCountInString(tick(x.Ticks[1]))) > x.At(x.Ticks[1])-x.At(x.Ticks[0]) {
		x.Ticks = everyOther(x.Ticks)
	}
	bottom := barStep * float64(len(e.Rows))
	for _, t := range x.Ticks {
		at := Px(x.At(t))
		d.F(`<line class="grid" x1="%s" x2="%s" y1="0" y2="%g"/><text class="tick mid" x="%s" y="%g">%s</text>`, at, at, bottom, at, bottom+17, Esc(tick(t)))
	}
	for i, r := range e.Rows {
		y := barStep * (float64(i) + .5)
		title := r.Name + ": " + r.Text
		if Known(r.Lo) && Known(r.Hi) {
			title += fmt.Sprintf(" (%s to %s)", e.Label(r.Lo), e.Label(r.Hi))
		}
		d.F(`<g><title>%s</title><text class="end" x="%s" y="%s">%s</text>`, Esc(title), Px(name-12), Px(y+4), Esc(d.shorten(r.Name, .9*(name-12))))
		if Known(r.Mean) && Known(r.Lo) && Known(r.Hi) {
			d.F(`<line class="range s1" x1="%s" x2="%s" y1="%s" y2="%s"/>`, Px(x.At(r.Lo)), Px(x.At(r.Hi)), Px(y), Px(y))
		}
		if Known(r.Mean) {
			d.F(`<circle class="dot s1" cx="%s" cy="%s" r="4.5"/>`, Px(x.At(r.Mean)), Px(y))
		}
		d.F(`<text class="end" x="%g" y="%s">%s</text></g>`, d.Width-4, Px(y+4), Esc(r.Text))
	}
}
