package chart

import "strings"

// EscLines makes several lines safe inside SVG; they stay several.
func EscLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Esc(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Labels places words beside points so that they do not lie over each other.
type Labels struct {
	d     *Drawing
	taken [][4]float64
}

// Labels returns a placer for words on the drawing.
func (d *Drawing) Labels() *Labels { return &Labels{d: d} }

// Avoid keeps words off a point and so much on either side of it, in pixels.
func (l *Labels) Avoid(cx, cy, dx, dy float64) {
	l.taken = append(l.taken, [4]float64{cx - dx, cy - dy, cx + dx, cy + dy})
}

// Put writes a text above, below or beside a point, a gap away, where nothing lies yet, else above. The class picks its colour.
func (l *Labels) Put(cx, cy, gap float64, text, class string) {
	best, _ := l.place(cx, cy, gap, text)
	l.write(best, text, class)
}

// Try is Put for a text that is left out where there is no room.
func (l *Labels) Try(cx, cy, gap float64, text, class string) {
	if best, free := l.place(cx, cy, gap, text); free {
		l.write(best, text, class)
	}
}

// spot is where a text begins, ends or has its middle.
type spot struct {
	x, y   float64
	anchor string
}

func (l *Labels) write(at spot, text, class string) {
	l.d.F(`<text class="mark halo %s %s" x="%s" y="%s">%s</text>`, at.anchor, class, Px(at.x), Px(at.y), Esc(text))
}

// place finds room for a text and takes it.
func (l *Labels) place(cx, cy, gap float64, text string) (best spot, free bool) {
	width, height := 7*float64(len(text)), 13.0
	spots := []spot{{cx, cy - gap, "mid"}, {cx, cy + gap + 11, "mid"}, {cx + gap, cy + 4, ""}, {cx - gap, cy + 4, "end"}, {cx + gap, cy - gap + 4, ""}, {cx + gap, cy + gap + 6, ""},
		{cx - gap, cy - gap + 4, "end"}, {cx - gap, cy + gap + 6, "end"}}
	for _, p := range spots {
		left := p.x
		switch p.anchor {
		case "mid":
			left -= width / 2
		case "end":
			left -= width
		}
		box := [4]float64{left, p.y - height, left + width, p.y}
		free := box[0] >= marginLeft && box[2] <= l.d.Width-4 && box[1] >= 2 && box[3] <= l.d.Height-marginBottom
		for _, t := range l.taken {
			free = free && (box[2] < t[0] || box[0] > t[2] || box[3] < t[1] || box[1] > t[3])
		}
		if free {
			l.taken = append(l.taken, box)
			return p, true
		}
	}
	return spots[0], false
}
