package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
)

// Mark is one point of a Scatter.
type Mark struct {
	X, Y float64
	// Class is "on-front", "quiet" or "hollow".
	Class string
	Title string // shown on hover, may have lines
	// Ring is a word beside a ring around the point; empty for none.
	Ring string
}

// Scatter is a picture of points in the plane, such as the time and cost of runs. Axes whose values differ by more than a
// factor of 25 are logarithmic.
type Scatter struct {
	ID, Title    string
	XName, YName string
	TimeX        bool // X is in seconds
	Marks        []Mark
	Keys         []Key
	Why          string // why there is nothing to see
}

// Picture draws the scatter for a wide and for a narrow page; points that are not known are left out.
func (s *Scatter) Picture() Picture {
	p := Picture{ID: s.ID, Title: s.Title, Keys: s.Keys}
	var xs, ys []float64
	var marks []Mark
	for _, m := range s.Marks {
		if Known(m.X) && Known(m.Y) {
			marks, xs, ys = append(marks, m), append(xs, m.X), append(ys, m.Y)
		}
	}
	if len(marks) == 0 {
		p.Empty, p.Keys = "No data", nil
		if s.Why != "" {
			p.Empty += ": " + s.Why
		}
		return p
	}
	draw := func(z Size, id string) template.HTML {
		x, xName := s.xAxis(xs)
		y := looseScale(ys, 5)
		z.Fit(x, y)
		d := NewDrawing(z, id, s.Title, Plural(len(marks), "point"))
		d.Axes(x, y, xName, s.YName)
		words := d.Labels()
		for _, m := range marks {
			words.Avoid(x.At(m.X), y.At(m.Y), 5, 5)
			d.F(`<circle class="offer %s" cx="%s" cy="%s" r="5"><title>%s</title></circle>`, Esc(m.Class), Px(x.At(m.X)), Px(y.At(m.Y)), EscLines(m.Title))
		}
		for _, m := range marks {
			if m.Ring != "" {
				d.F(`<circle class="ring" cx="%s" cy="%s" r="10"/>`, Px(x.At(m.X)), Px(y.At(m.Y)))
				words.Avoid(x.At(m.X), y.At(m.Y), 11, 11)
			}
		}
		for _, m := range marks {
			if m.Ring != "" {
				words.Put(x.At(m.X), y.At(m.Y), 14, m.Ring, "chosen")
			}
		}
		return d.Finish()
	}
	p.SVG, p.Narrow = draw(WideSize, s.ID), draw(NormalSize, s.ID+"-narrow")
	return p
}

func (s *Scatter) xAxis(xs []float64) (*Scale, string) {
	if !s.TimeX || spread(xs) > wideSpread {
		x := looseScale(xs, 6)
		if s.TimeX {
			return x, s.XName + ", seconds (logarithmic)"
		}
		return x, s.XName
	}
	room := (Most(xs) - Least(xs)) * .05
	x := NewTimeScale(append(slices.Clone(xs), Least(xs)-room, Most(xs)+room), 7, Least(xs) < Most(xs)*.3, false)
	return x, s.XName + ", " + x.Unit
}

// wideSpread is the factor between values beyond which an axis is logarithmic.
const wideSpread = 25

// spread is the largest over the smallest value; 0 where that says nothing.
func spread(v []float64) float64 {
	if lo := Least(v); lo > 0 {
		return Most(v) / lo
	}
	return 0
}

// looseScale is an axis with some room around the data.
func looseScale(v []float64, n int) *Scale {
	lo, hi := Least(v), Most(v)
	log := spread(v) > wideSpread
	if room := (hi - lo) * .1; !log && lo > room {
		lo -= room
	}
	return NewScale(append(slices.Clone(v), lo, hi*1.05), n, lo < hi*.4 && !log, log)
}

// Bar is one row of Bars.
type Bar struct {
	Name  string
	Parts []Part
	Text  string // the value in words, right of the bar
	Title string // shown on hover
}

// Part is a stretch of a bar.
type Part struct {
	Value float64 // ≥ 0; unknown is drawn as nothing
	Class string  // s1 … s4
}

// Bars is a picture of one horizontal bar a row, from 0.
type Bars struct {
	ID, Title string
	Rows      []Bar
	Keys      []Key
	Why       string
}

const (
	barStep   = 26.0
	barHeight = 13.0
	barName   = 170.0 // room for the names
	barText   = 96.0  // and for the values
	nameRunes = 26
)

// Picture draws the bars; its height grows with the rows.
func (b *Bars) Picture() Picture {
	p := Picture{ID: b.ID, Title: b.Title, Keys: b.Keys}
	most := 0.0
	for _, r := range b.Rows {
		most = math.Max(most, r.length())
	}
	if most == 0 {
		p.Empty, p.Keys = "No data", nil
		if b.Why != "" {
			p.Empty += ": " + b.Why
		}
		return p
	}
	z := Size{NormalSize.Width, barStep*float64(len(b.Rows)) + 8}
	d := NewDrawing(z, b.ID, b.Title, Plural(len(b.Rows), "bar"))
	room := z.Width - barName - barText
	for i, r := range b.Rows {
		top := 4 + barStep*float64(i)
		d.F(`<g><title>%s</title>`, EscLines(r.Title))
		d.F(`<text class="end" x="%g" y="%s">%s</text>`, barName-8, Px(top+barHeight-1), Esc(shorten(r.Name)))
		at := barName
		for _, part := range r.Parts {
			if width := part.Value / most * room; Known(part.Value) && width > 0 {
				d.F(`<rect class="bar %s" x="%s" y="%s" width="%s" height="%g"/>`, Esc(part.Class), Px(at), Px(top+2), Px(math.Max(width, 1)), barHeight)
				at += width
			}
		}
		d.F(`<text x="%s" y="%s">%s</text></g>`, Px(at+6), Px(top+barHeight-1), Esc(r.Text))
	}
	d.F(`<line class="axis" x1="%g" x2="%g" y1="0" y2="%g"/>`, barName, barName, z.Height)
	p.SVG = d.Finish()
	return p
}

func (r Bar) length() float64 {
	sum := 0.0
	for _, p := range r.Parts {
		if Known(p.Value) && p.Value > 0 {
			sum += p.Value
		}
	}
	return sum
}

// shorten cuts a name in its middle, where names differ least.
func shorten(s string) string {
	r := []rune(Clean(s))
	if len(r) <= nameRunes {
		return string(r)
	}
	half := (nameRunes - 1) / 2
	return fmt.Sprintf("%s…%s", string(r[:half]), string(r[len(r)-half:]))
}
