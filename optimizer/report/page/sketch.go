package page

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

const sketchRows = 14

// Sketch draws the scatter in characters, width columns wide: each mark as its Sign, rings in brackets above the
// others, "*" where several signs coincide. It returns nil if there is nothing to draw.
func (s *Scatter) Sketch(width int) []string {
	marks := s.known()
	if len(marks) == 0 {
		return nil
	}
	x, y, xName, yName := s.axes(marks, 5, 4)
	labels := 0
	for _, t := range y.Ticks {
		labels = max(labels, utf8.RuneCountInString(y.Label(t)))
	}
	columns := max(width-labels-3, 8)
	x.From, x.To, y.From, y.To = 0, float64(columns-1), sketchRows-1, 0
	cells := make([][]rune, sketchRows)
	for i := range cells {
		cells[i] = []rune(strings.Repeat(" ", columns))
	}
	for _, ringed := range []bool{false, true} {
		for _, m := range marks {
			if (m.Ring != "") == ringed {
				m.sketch(cells[cell(y, m.Y)], cell(x, m.X))
			}
		}
	}
	ticks := map[int]string{}
	for _, t := range y.Ticks {
		ticks[cell(y, t)] = y.Label(t)
	}
	lines := []string{yName}
	for i, line := range cells {
		edge := "│"
		if ticks[i] != "" {
			edge = "┤"
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%*s %s%s", labels, ticks[i], edge, string(line)), " "))
	}
	base, names := sketchAxis(x, columns)
	indent := strings.Repeat(" ", labels+1)
	return append(lines, indent+"└"+base, indent+" "+names, fmt.Sprintf("%*s", width, xName))
}

// sketch writes the sign of the mark into a line.
func (m Mark) sketch(line []rune, at int) {
	sign := []rune(m.Sign)
	switch {
	case m.Ring != "":
		sign = []rune("[" + m.Sign + "]")
		at--
	case len(sign) == 0:
		sign = []rune("·")
	case len(sign) > 1 || letter(sign[0]) && (letter(line[at]) || line[at] == '*'):
		sign = []rune("*")
	}
	at = min(max(at, 0), max(0, len(line)-len(sign)))
	copy(line[at:], sign)
}

func letter(r rune) bool { return r >= 'A' && r <= 'Z' }

// sketchAxis returns the horizontal axis and, below it, the tick labels that fit.
func sketchAxis(x *Scale, columns int) (base, names string) {
	line, below := []rune(strings.Repeat("─", columns)), []rune(strings.Repeat(" ", columns))
	free := 0
	for _, t := range x.Ticks {
		at, text := cell(x, t), []rune(x.Label(t))
		line[at] = '┴'
		start := min(max(at-len(text)/2, 0), columns-len(text))
		if start >= free {
			copy(below[start:], text)
			free = start + len(text) + 2
		}
	}
	return string(line), strings.TrimRight(string(below), " ")
}

// cell returns the character position of a value.
func cell(s *Scale, v float64) int {
	return int(math.Round(clamp(s.At(v), min(s.From, s.To), max(s.From, s.To))))
}
