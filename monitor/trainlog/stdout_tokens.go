package trainlog

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// token is a lower-case word or a number with its context.
type token struct {
	word    string
	number  float64 // NaN for a word
	of      float64 // the second number of "3/20" or "3 of 20", otherwise NaN
	decimal bool    // written with a decimal point
	percent bool
	bracket bool // [3/20]
	labeled bool // preceded by : or =
	apart   bool // preceded by a comma or semicolon: it does not belong to the word before
	bar     bool // count of a progress bar: after "|" or after the blocks of a bar
	seconds bool // a time, in seconds: "10ms", "12.5 s"
	over    bool // preceded by / after a word: "1 epoch / 20 epochs"
}

// lineText holds properties of a line that are not in its tokens.
type lineText struct {
	blocks  bool // contains characters that bars are drawn with
	open    bool // begins with an object: "{'loss': 1}"
	call    bool // "Namespace(epochs=12"
	settled int  // number of non-numeric values after ":" or "=": "device='cpu'"
}

// tokenize appends the words and numbers of a line to toks and skips escape sequences such as colours. One pass over
// the bytes; the signs since the last token set the flags of the next number.
func tokenize(text []byte, toks []token, words *interner) ([]token, lineText) {
	labeled, bracket, bar, apart, over := false, false, false, false, false
	var line lineText
	line.open = bytes.HasPrefix(bytes.TrimLeft(text, " "), []byte("{"))
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == 0x1b:
			i = skipEscape(text, i)
			continue
		case isLetter(c):
			j := i
			for j < len(text) && (isLetter(text[j]) || text[j] == '_' || isDigit(text[j]) && j > i || text[j] == '@' && j+1 < len(text) && isDigit(text[j+1]) ||
				(text[j] == '/' || text[j] == '-') && j+1 < len(text) && isLetter(text[j+1])) {
				j++
			}
			if labeled {
				line.settled++
			}
			line.call = line.call || c >= 'A' && c <= 'Z' && isCall(text[j:])
			toks = append(toks, token{word: words.get(text[i:j], strings.ToLower), number: math.NaN(), of: math.NaN()})
			i, labeled, bracket, bar, apart, over = j, false, false, false, false, false
			continue
		case isDigit(c), (c == '-' || c == '+' || c == '.') && i+1 < len(text) && isDigit(text[i+1]) && (i == 0 || !isDigit(text[i-1])):
			if end := dateEnd(text, i, len(toks) == 0); end > i {
				i = end
				continue
			}
			var t token
			var ok bool
			t, i, ok = number(text, i)
			if ok {
				t.labeled, t.bracket, t.bar, t.apart, t.over = labeled, bracket, bar || line.blocks, apart, over
				toks = append(toks, t)
			}
			labeled, bracket, bar, apart, over = false, false, false, false, false
			continue
		case c == ':' || c == '=':
			labeled = true
		case c == '[' || c == '(':
			bracket = true
		case c == '|':
			bar = true
		case c == '/':
			over = true
		case c == ',' || c == ';':
			labeled, bracket, bar, apart = false, false, false, true
		case c == 0xe2 && i+1 < len(text) && text[i+1] >= 0x94 && text[i+1] <= 0x96: // U+2500 to U+25BF: lines and blocks
			line.blocks = true
		}
		i++
	}
	return toks, line
}

// isCall reports whether a text continues like a call with named arguments: "(epochs=".
func isCall(rest []byte) bool {
	i := 1
	for i < len(rest) && (isLetter(rest[i]) || rest[i] == '_' || isDigit(rest[i])) {
		i++
	}
	return i > 1 && i < len(rest) && rest[0] == '(' && rest[i] == '='
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// skipEscape returns the index after the terminal escape sequence at i.
func skipEscape(text []byte, i int) int {
	i++
	if i < len(text) && text[i] == '[' {
		for i++; i < len(text) && (text[i] < 0x40 || text[i] > 0x7e); i++ {
		}
	}
	return min(i+1, len(text))
}

// dated matches a date with its year, "11/27/2026", and at the beginning of a line one without it, "11/27 10:00:00".
var dated = regexp.MustCompile(`^\d\d/\d\d(/\d+| \d\d:\d\d)`)

// dateEnd returns the index after the date at i; i without one. The count of a bar, "[10/40 00:01<00:05]", is no date.
func dateEnd(text []byte, i int, first bool) int {
	if i+maxDate > len(text) || text[i+2] != '/' {
		return i
	}
	m := dated.Find(text[i : i+maxDate])
	if len(m) == 0 || m[5] == ' ' && (!first || i+len(m) < len(text) && text[i+len(m)] == '<') {
		return i
	}
	return i + len(m)
}

// maxDate is the length of the longest text that dated matches.
const maxDate = len("11/27 10:00")

// timeUnit returns the seconds of the unit of time with which a text continues; 0 without one.
func timeUnit(rest []byte) float64 {
	rest = bytes.TrimPrefix(rest, []byte{' '})
	n := 0
	for n < len(rest) && (isLetter(rest[n]) || rest[n] == '/') { // not "s/it"
		n++
	}
	switch string(rest[:n]) {
	case "s", "sec", "secs", "seconds":
		return 1
	case "ms":
		return 0.001
	}
	return 0
}

// number parses the number at i together with a total as in "3/20" or "3 of 20", or a following %. next is the index
// after it. That of the name of a file, "step=400.ckpt", is none.
func number(text []byte, i int) (t token, next int, ok bool) {
	v, end := quantity(text, i)
	if math.IsNaN(v) || end+1 < len(text) && text[end] == '.' && text[end+1] >= 'a' && text[end+1] <= 'z' {
		return token{}, end, false
	}
	t = token{number: v, of: math.NaN(), decimal: bytes.IndexByte(text[i:end], '.') >= 0}
	if unit := timeUnit(text[end:]); unit > 0 {
		t.number, t.seconds = v*unit, true
	}
	if end < len(text) && text[end] == '%' {
		t.percent = true
		return t, end + 1, true
	}
	j := end
	for j < len(text) && text[j] == ' ' {
		j++
	}
	switch {
	case j < len(text) && text[j] == '/':
		j++
	case j+3 < len(text) && strings.EqualFold(string(text[j:j+3]), "of "):
		j += 3
	default:
		return t, end, true
	}
	for j < len(text) && text[j] == ' ' {
		j++
	}
	if j < len(text) && isDigit(text[j]) {
		if of, k := quantity(text, j); k < len(text) && text[k] == '/' { // three counts: "iteration 90/100/120"
			return t, k, true
		} else if !math.IsNaN(of) {
			t.of = of
			return t, k, true
		}
	}
	return t, end, true
}

// quantity parses the number at i, also with groups of thousands, "12,000" or "12_000", or in thousands, "12k". end is the
// index after it. The value is NaN if it cannot be parsed.
func quantity(text []byte, i int) (v float64, end int) {
	end = numberEnd(text, i)
	digits := text[i:end]
	if n := digitsOf(digits); n >= 0 && len(digits) <= 3 {
		for end+3 < len(text) && (text[end] == ',' || text[end] == '_') && digitsOf(text[end+1:end+4]) >= 0 &&
			(end+4 == len(text) || !isDigit(text[end+4]) && text[end+4] != '.') {
			digits, end = append(digits[:len(digits):len(digits)], text[end+1:end+4]...), end+4
		}
	}
	v, err := strconv.ParseFloat(string(digits), 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN(), end
	}
	if end < len(text) && text[end]|0x20 == 'k' && (end+1 == len(text) || !isLetter(text[end+1]) && !isDigit(text[end+1])) {
		return 1000 * v, end + 1
	}
	return v, end
}

// numberEnd returns the index after the number at i: sign, digits, one point, exponent.
func numberEnd(text []byte, i int) int {
	if text[i] == '-' || text[i] == '+' {
		i++
	}
	point := false
	for i < len(text) && (isDigit(text[i]) || text[i] == '.' && !point && i+1 < len(text) && isDigit(text[i+1])) {
		point = point || text[i] == '.'
		i++
	}
	if i+1 < len(text) && text[i]|0x20 == 'e' {
		j := i + 1
		if text[j] == '-' || text[j] == '+' {
			j++
		}
		if j < len(text) && isDigit(text[j]) {
			for i = j; i < len(text) && isDigit(text[i]); i++ {
			}
		}
	}
	return i
}

// wordKind is the role of the number after a word.
type wordKind uint8

const (
	roleNone wordKind = iota
	roleEpoch
	roleEpochs // progress only with a total beside it
	roleStep
	roleSteps // likewise
	roleLoss
	roleAccuracy
	roleThroughput
	roleTime
	roleMetric // another result
)

// wordRole returns the role of a number from the word before it and the word before that. A word in the plural counts
// only with a total, see roleEpochs; "time" counts only after "epoch".
func wordRole(word, before string) wordKind {
	if before == "per" || before == "best" { // "time per step: 3", "best epoch: 3"
		return roleNone
	}
	switch word {
	case "epoch":
		return roleEpoch
	case "epochs": // "epochs=4" is a setting, "Epochs 3/20" is progress
		return roleEpochs
	case "step", "global_step", "iter", "iteration":
		return roleStep
	case "steps", "iters", "iterations", "batch", "batches", "generation", "gen", "episode", "round", "ep":
		return roleSteps
	case "throughput", "samples_per_second", "samples/s", "samples/sec", "images/s", "img/s", "train_samples_per_second":
		return roleThroughput
	case "epoch_time", "train_time":
		return roleTime
	case "time":
		if before == "epoch" {
			return roleTime
		}
		return roleNone
	case "loss":
		return roleLoss
	case "train", "training", "val", "valid", "validation", "test", "cost", "error", "err", "mse", "rmse", "mae", "nll", "elbo", "ppl", "perplexity",
		"auc", "f1", "score", "reward", "return", "iou", "miou", "dice", "bleu", "mrr":
		return roleMetric
	case "acc", "acc@1":
		return roleAccuracy
	}
	switch {
	case strings.HasSuffix(word, "_loss"), strings.HasSuffix(word, "/loss"), strings.HasSuffix(word, "-loss"):
		return roleLoss
	case strings.HasSuffix(word, "_acc"), strings.HasSuffix(word, "/acc"), strings.HasSuffix(word, "accuracy"):
		return roleAccuracy
	}
	return roleNone
}

// heldOut reports whether a word names the validation or test part.
func heldOut(word string) bool {
	for _, p := range []string{"val", "test", "eval", "dev"} {
		if rest, ok := strings.CutPrefix(word, p); ok && (rest == "" || rest == "id" || rest == "idation" || rest[0] == '_' || rest[0] == '/' || rest[0] == '-' || strings.HasPrefix(rest, "id_") || strings.HasPrefix(rest, "idation_")) {
			return true
		}
	}
	return false
}
