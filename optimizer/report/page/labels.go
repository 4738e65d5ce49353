package page

import "strings"

// escLines escapes multi-line text for SVG and keeps the line breaks.
func escLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Esc(lines[i])
	}
	return strings.Join(lines, "\n")
}

// labels places text beside points without overlaps.
type labels struct {
	d     *Drawing
	taken [][4]float64
}

// labels returns a label placer for the drawing.
func (d *Drawing) labels() *labels { return &labels{d: d} }

// avoid reserves the box of half-widths dx and dy around a point, in pixels.
func (l *labels) avoid(cx, cy, dx, dy float64) {
	l.taken = append(l.taken, [4]float64{cx - dx, cy - dy, cx + dx, cy + dy})
}

// put writes a text at distance gap above, below or beside a point, at the first free position, or above the point if
// no position is free. Class selects the colour.
func (l *labels) put(cx, cy, gap float64, text, class string) {
	best, _ := l.place(cx, cy, gap, text)
	l.write(best, text, class)
}

// try is like put but omits the text if no position is free.
func (l *labels) try(cx, cy, gap float64, text, class string) {
	if best, free := l.place(cx, cy, gap, text); free {
		l.write(best, text, class)
	}
}

// spot is an anchor position of a text: its start, middle or end.
type spot struct {
	x, y   float64
	anchor string
}

func (l *labels) write(at spot, text, class string) {
	l.d.F(`<text class="mark halo %s %s" x="%s" y="%s">%s</text>`, at.anchor, class, Px(at.x), Px(at.y), Esc(text))
}

// place returns the first of eight positions around a point at which the text fits the drawing and overlaps no reserved
// box, and reserves it. If none is free, it returns the first position and false.
func (l *labels) place(cx, cy, gap float64, text string) (best spot, free bool) {
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
