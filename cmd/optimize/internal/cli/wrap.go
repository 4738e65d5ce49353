package cli

import (
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// fill returns the lines of a text wrapped to a width in columns: the paragraphs of a text are filled, indented lines
// are kept, and wrapped with a further indent where they are too long. A command that continues over several lines by
// backslashes is kept as it is.
func fill(text string, width int) []string {
	var out []string
	for _, b := range blocks(text) {
		if b.fixed {
			out = append(out, b.text)
			continue
		}
		indent := b.text[:len(b.text)-len(strings.TrimLeft(b.text, " "))]
		if indent == "" {
			out = append(out, hang(b.text, width, "", "")...)
			continue
		}
		out = append(out, hangColumn(b.text, width, indent)...)
	}
	return out
}

// hangColumn breaks an indented line. In a line of two columns, which two blanks separate, only the second is broken.
func hangColumn(line string, width int, indent string) []string {
	first, second, ok := strings.Cut(line[len(indent):], "  ")
	at := len(line) - len(strings.TrimLeft(second, " "))
	if !ok || strings.TrimLeft(second, " ") == "" || at > width/2 {
		return hang(line, width, indent+"  ", "")
	}
	left := indent + first + strings.Repeat(" ", at-len(indent)-len(first))
	var out []string
	for _, part := range hang(line[at:], width-twwidth.Width(left), "", "") {
		out = append(out, left+part)
		left = strings.Repeat(" ", twwidth.Width(left))
	}
	return out
}

// block is a paragraph or an indented line of a text; a fixed one is not wrapped.
type block struct {
	text  string
	fixed bool
}

// blocks splits a text into its paragraphs, indented lines, and empty lines.
func blocks(text string) []block {
	var out []block
	open := false // whether the last block is a paragraph that continues
	continued := false
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " ")
		fixed := continued || strings.HasSuffix(line, `\`)
		continued = strings.HasSuffix(line, `\`)
		switch {
		case fixed || line == "":
			out, open = append(out, block{line, true}), false
		case strings.HasPrefix(line, " "):
			out, open = append(out, block{line, false}), false
		case open:
			out[len(out)-1].text += " " + line
		default:
			out, open = append(out, block{line, false}), true
		}
	}
	return out
}

// hang breaks a line at blanks to a width in columns; further lines start with indent, and a broken line ends with
// the mark for that: a backslash in a command. A word that is too long is not broken, but for lists of values.
func hang(line string, width int, indent, mark string) []string {
	if twwidth.Width(line) <= width {
		return []string{line}
	}
	var out []string
	now := line[:len(line)-len(strings.TrimLeft(line, " "))]
	empty := true
	words := strings.Fields(line)
	if mark != "" { // a flag of a command is not separated from its value
		for i := len(words) - 1; i > 0; i-- {
			if strings.HasPrefix(words[i-1], "-") && !strings.HasPrefix(words[i], "-") {
				words[i-1] += " " + words[i]
				words = append(words[:i], words[i+1:]...)
			}
		}
	}
	if mark == "" {
		words = splitLists(words, width-twwidth.Width(indent))
	}
	for _, word := range words {
		switch {
		case empty:
			now += word
		case twwidth.Width(now)+1+twwidth.Width(word)+len(mark) > width:
			out, now = append(out, now+mark), indent+word
		default:
			now += " " + word
		}
		empty = false
	}
	return append(out, now)
}

// splitLists breaks the words that are wider than a line after a comma or a bar, which separate values.
func splitLists(words []string, width int) []string {
	var out []string
	for _, word := range words {
		for twwidth.Width(word) > width {
			at := strings.LastIndexAny(word[:min(len(word), max(width, 0))], ",|") + 1
			if at == 0 {
				break
			}
			out, word = append(out, word[:at]), word[at:]
		}
		out = append(out, word)
	}
	return out
}
