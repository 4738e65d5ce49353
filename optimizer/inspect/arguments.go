package inspect

import (
	"regexp"
	"strconv"
	"strings"
)

// word is one argument of a command line as an option parser reads it: an option with its value, a key=value pair or
// a positional argument.
type word struct {
	at, width int    // index in argv; number of arguments: 1, or 2 with a separate value
	key       string // as written: "--batch-size", "-e", "trainer.max_epochs"; "" for a positional argument
	name      string // canonical form of key: "batch_size", "trainer.max_epochs"
	value     string // "" for an option without a value
	form      form
}

// form is the notation of an argument.
type form uint8

const (
	positional form = iota
	separate        // --key value, -k value
	joined          // --key=value
	attached        // -kvalue
	pair            // key=value
	bare            // --key
)

var (
	pairForm     = regexp.MustCompile(`^[+~]{0,2}[A-Za-z_][\w.@/-]*=`)
	attachedForm = regexp.MustCompile(`^-[A-Za-z][0-9]+$`)
	numberForm   = regexp.MustCompile(`^-?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?$`)
)

// canonical returns the common name of all spellings of an option: --Batch-Size, batch_size and +batch_size are
// equal.
func canonical(key string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimLeft(key, "-+~"), "-", "_"))
}

// readWords parses argv[from:to], up to the first "--". Options in toggles (canonical names) take no value.
func readWords(argv []string, from, to int, toggles map[string]bool) []word {
	var out []word
	for i := from; i < to; i++ {
		a := argv[i]
		w := word{at: i, width: 1, value: a}
		switch {
		case a == "--":
			return out
		case strings.HasPrefix(a, "-") && len(a) > 1 && !numberForm.MatchString(a):
			key, value, ok := strings.Cut(a, "=")
			w.key, w.value, w.form = key, value, joined
			switch {
			case ok:
			case attachedForm.MatchString(a):
				w.key, w.value, w.form = a[:2], a[2:], attached
			case i+1 < to && !toggles[canonical(a)] && isValue(argv[i+1]):
				w.width, w.value, w.form = 2, argv[i+1], separate
				i++
			default:
				w.form = bare
			}
		case pairForm.MatchString(a):
			w.key, w.value, _ = strings.Cut(a, "=")
			w.form = pair
		}
		w.name = canonical(w.key)
		out = append(out, w)
	}
	return out
}

// isValue reports whether an argument may be the value of the preceding option.
func isValue(a string) bool {
	return a == "-" || !strings.HasPrefix(a, "-") || numberForm.MatchString(a)
}

// end returns the index of the first "--" in argv[from:to], otherwise to: the position for additional options.
func end(argv []string, from, to int) int {
	for i := from; i < to; i++ {
		if argv[i] == "--" {
			return i
		}
	}
	return to
}

// with returns the arguments that set the word to another value.
func (w word) with(value string) []string {
	switch w.form {
	case separate:
		return []string{w.key, value}
	case attached:
		return []string{w.key + value}
	case bare:
		return []string{w.key + "=" + value}
	}
	return []string{w.key + "=" + value}
}

// amount parses a number of units: 300, 1e6, 1_000. ok is false for 0, negative numbers and other text: they set no
// limit.
func amount(s string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), "_", ""), 64)
	return v, err == nil && v > 0 && v < 1e15
}
