package monitor

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Progress on the standard output: "Epoch 3/20", "epoch: 3", "[3/20]", "step 100/1000", "45%|####| 9/20" and
// numbers called loss or accuracy. No library of patterns is run over each line: a line is cut into words and
// numbers once, and each number belongs to the word before it.
//
// Epoch is the number of epochs that are complete, fractions included: "Epoch 3/20" with no result is the
// beginning of the third (2), a step 45/100 inside of it is 2.45, and the same line with a loss is 3. Where
// none is complete the column is absent.

func detectStdout(h *head) int {
	p := newStdout(h.opts).(*progress)
	for _, l := range h.lines {
		var r Row
		if p.read(l, &r) {
			return 20
		}
	}
	return 0
}

func newStdout(o *parseOptions) parser { return &progress{opts: o} }

// progress parses progress output.
type progress struct {
	opts *parseOptions
	// The epoch under way, from 1, and how many there are; 0 when unknown.
	epoch, total float64
	zero         *bool
	toks         []token // scratch
}

func (*progress) pending() bool { return false }
func (*progress) flush(sink)    {}
func (*progress) restart()      {}

func (p *progress) save() parserState {
	return parserState{ZeroBased: p.zero, Epoch: p.epoch, TotalEpoch: p.total}
}

func (p *progress) load(s parserState) { p.zero, p.epoch, p.total = s.ZeroBased, s.Epoch, s.TotalEpoch }

func (p *progress) line(text []byte, n int, out sink) {
	r := Row{Line: n}
	if p.read(text, &r) {
		out.row(&r, 0)
	}
}

// maxProgressLine is the longest line that is looked at; progress is printed in short ones.
const maxProgressLine = 4096

// read fills the row from one line; false when the line says nothing.
func (p *progress) read(text []byte, r *Row) bool {
	if len(text) > maxProgressLine {
		return false
	}
	if len(p.opts.patterns) > 0 {
		return p.match(text, r)
	}
	if !mayMatter(text) {
		return false
	}
	p.toks = tokenize(text, p.toks[:0])
	return p.fill(r)
}

// mayMatter is a quick look: progress has a digit and one of a few signs.
func mayMatter(text []byte) bool {
	return bytes.ContainsAny(text, "0123456789") && bytes.ContainsAny(text, "/:=%[") || hasWord(text, "poch") || hasWord(text, "tep ")
}

func hasWord(text []byte, word string) bool { return bytes.Contains(text, []byte(word)) }

// token is a word, in lower case, or a number with what may follow it.
type token struct {
	word    string
	number  float64 // NaN for a word
	of      float64 // the second number of "3/20" or "3 of 20", else NaN
	decimal bool    // the number was written with a point
	percent bool
	bracket bool // [3/20]
	labeled bool // : or = stands before it
	bar     bool // after "|": a progress bar's count
}

// tokenize cuts a line into words and numbers. Colours and other escape sequences are skipped.
func tokenize(text []byte, toks []token) []token {
	labeled, bracket, bar := false, false, false
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == 0x1b:
			i = skipEscape(text, i)
			continue
		case isLetter(c):
			j := i
			for j < len(text) && (isLetter(text[j]) || text[j] == '_' || isDigit(text[j]) && j > i ||
				(text[j] == '/' || text[j] == '-') && j+1 < len(text) && isLetter(text[j+1])) {
				j++
			}
			toks = append(toks, token{word: strings.ToLower(string(text[i:j])), number: math.NaN(), of: math.NaN()})
			i, labeled, bracket, bar = j, false, false, false
			continue
		case isDigit(c), (c == '-' || c == '+' || c == '.') && i+1 < len(text) && isDigit(text[i+1]) && (i == 0 || !isDigit(text[i-1])):
			var t token
			var ok bool
			t, i, ok = number(text, i)
			if ok {
				t.labeled, t.bracket, t.bar = labeled, bracket, bar
				toks = append(toks, t)
			}
			labeled, bracket, bar = false, false, false
			continue
		case c == ':' || c == '=':
			labeled = true
		case c == '[' || c == '(':
			bracket = true
		case c == '|':
			bar = true
		case c == ',' || c == ';':
			labeled, bracket, bar = false, false, false
		}
		i++
	}
	return toks
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// skipEscape gives the index after the terminal escape sequence at i.
func skipEscape(text []byte, i int) int {
	i++
	if i < len(text) && text[i] == '[' {
		for i++; i < len(text) && (text[i] < 0x40 || text[i] > 0x7e); i++ {
		}
	}
	return min(i+1, len(text))
}

// number reads a number at i, with the second one of "3/20" and a % after it.
func number(text []byte, i int) (t token, next int, ok bool) {
	end := numberEnd(text, i)
	v, err := strconv.ParseFloat(string(text[i:end]), 64)
	if err != nil || math.IsInf(v, 0) {
		return token{}, end, false
	}
	t = token{number: v, of: math.NaN(), decimal: bytes.IndexByte(text[i:end], '.') >= 0}
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
		k := numberEnd(text, j)
		if of, err := strconv.ParseFloat(string(text[j:k]), 64); err == nil && !math.IsInf(of, 0) {
			t.of = of
			return t, k, true
		}
	}
	return t, end, true
}

// numberEnd gives the index after the number at i: sign, digits, one point, exponent.
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

// found is what one line says about the position.
type found struct {
	epoch, epochs   float64
	step, steps     float64
	epochIsComplete bool // a fraction, or a bar that counts epochs
	result          bool // a loss, accuracy or time stands in the line
}

// fill makes a row of the tokens of one line.
func (p *progress) fill(r *Row) bool {
	f := found{epoch: math.NaN(), epochs: math.NaN(), step: math.NaN(), steps: math.NaN()}
	some := false
	for i := range p.toks {
		t := &p.toks[i]
		if math.IsNaN(t.number) {
			continue
		}
		some = p.take(i, t, &f, r) || some
	}
	if !some {
		return false
	}
	p.position(&f, r)
	return r.known()
}

// take uses one number, by the words before it.
func (p *progress) take(i int, t *token, f *found, r *Row) bool {
	word, before := "", ""
	if i > 0 {
		word = p.toks[i-1].word
	}
	if i > 1 && word != "" {
		before = p.toks[i-2].word
	}
	switch role := wordRole(word, before); {
	case role == roleEpoch && !t.percent:
		f.epoch, f.epochs = t.number, t.of
		f.epochIsComplete = t.decimal
		return true
	case role == roleStep && !t.percent && math.IsNaN(f.step):
		f.step, f.steps = t.number, t.of
		return true
	case role == roleLoss, role == roleAccuracy, role == roleThroughput, role == roleTime:
		return p.result(role, word, before, t, f, r)
	case math.IsNaN(t.of) || t.of <= 0 || t.number > t.of || t.decimal || !math.IsNaN(f.step):
		return throughputUnit(p.toks, i, r)
	case t.bar && epochWord(p.toks[:i]) && math.IsNaN(f.epoch): // "Epochs: 45%|####  | 9/20"
		f.epoch, f.epochs, f.epochIsComplete = t.number, t.of, true
		return true
	case otherWork(p.toks[:i]):
		return false
	case t.bar || t.bracket || i == 0: // "45%|####| 9/20", "[9/20]", "9/20 [====>...]"
		f.step, f.steps = t.number, t.of
		return true
	}
	return false
}

// otherWork reports whether a bar is about something else than training: loading, validating.
func otherWork(toks []token) bool {
	for i := range toks {
		for _, w := range []string{"load", "fetch", "extract", "map", "generat", "tokeniz", "filter", "process", "build", "sav", "eval", "valid", "test", "predict", "sanity"} {
			if strings.Contains(toks[i].word, w) {
				return true
			}
		}
	}
	return false
}

// epochWord reports whether a bar is labelled with epochs, without a number: it counts them.
func epochWord(toks []token) bool {
	for i := range toks {
		if w := toks[i].word; w == "epoch" || w == "epochs" {
			return i+1 >= len(toks) || math.IsNaN(toks[i+1].number) || toks[i+1].percent
		}
	}
	return false
}

// result stores a loss, an accuracy, a rate or a time.
func (p *progress) result(role wordKind, word, before string, t *token, f *found, r *Row) bool {
	held := heldOut(word) || heldOut(before)
	column := Throughput
	switch {
	case role == roleLoss && held:
		column = TestLoss
	case role == roleLoss:
		column = TrainLoss
	case role == roleAccuracy && held:
		column = TestAccuracy
	case role == roleAccuracy:
		column = TrainAccuracy
	case role == roleTime:
		column = EpochTime
	}
	if !t.labeled && role != roleLoss && role != roleAccuracy || t.number < 0 && !column.signed() {
		return false
	}
	f.result = f.result || column != Throughput
	if _, has := r.Value(column); has {
		return false
	}
	r.Set(column, t.number)
	return true
}

// throughputUnit takes "1234.5 samples/s".
func throughputUnit(toks []token, i int, r *Row) bool {
	if i+1 >= len(toks) || toks[i].number < 0 {
		return false
	}
	unit, per, ok := strings.Cut(toks[i+1].word, "/")
	if !ok || per != "s" && per != "sec" && per != "second" {
		return false
	}
	switch unit {
	case "samples", "sample", "images", "image", "img", "imgs", "examples", "sequences", "items":
		r.Set(Throughput, toks[i].number)
		return true
	}
	return false
}

// wordKind is what a number after a word is.
type wordKind uint8

const (
	roleNone wordKind = iota
	roleEpoch
	roleStep
	roleLoss
	roleAccuracy
	roleThroughput
	roleTime
)

func wordRole(word, before string) wordKind {
	switch word {
	case "epoch", "epochs":
		return roleEpoch
	case "step", "steps", "global_step", "iter", "iters", "iteration", "batch":
		if word == "batch" && before == "size" {
			return roleNone
		}
		return roleStep
	case "throughput", "samples_per_second", "samples/s", "samples/sec", "images/s", "img/s", "train_samples_per_second":
		return roleThroughput
	case "epoch_time", "train_time":
		return roleTime
	case "time":
		if before == "epoch" {
			return roleTime
		}
	case "loss", "acc", "accuracy":
	default:
		switch {
		case strings.HasSuffix(word, "_loss"), strings.HasSuffix(word, "/loss"), strings.HasSuffix(word, "-loss"):
			return roleLoss
		case strings.HasSuffix(word, "_acc"), strings.HasSuffix(word, "/acc"), strings.HasSuffix(word, "accuracy"):
			return roleAccuracy
		}
		return roleNone
	}
	if word == "loss" {
		return roleLoss
	}
	if word == "time" {
		return roleNone
	}
	return roleAccuracy
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

// position works out how many epochs are complete, and the step.
func (p *progress) position(f *found, r *Row) {
	if f.epochIsComplete {
		setPositive(r, Epoch, f.epoch)
		setPositive(r, TotalEpochs, f.epochs)
	} else if !math.IsNaN(f.epoch) {
		if p.zero == nil {
			zero := f.epoch == 0
			p.zero = &zero
		}
		p.epoch = f.epoch
		if *p.zero {
			p.epoch++
		}
		if f.epochs > 0 {
			p.total = f.epochs
		}
	}
	setPositive(r, Step, f.step)
	setPositive(r, TotalSteps, f.steps)
	if p.epoch == 0 || f.epochIsComplete {
		return
	}
	setPositive(r, TotalEpochs, p.total)
	switch {
	case f.steps > 0:
		setPositive(r, Epoch, p.epoch-1+math.Min(1, f.step/f.steps))
		// The step is counted inside of the epoch: over the whole job it means nothing.
		r.Set(Step, math.NaN())
		r.Set(TotalSteps, math.NaN())
	case f.result && math.IsNaN(f.step):
		setPositive(r, Epoch, p.epoch)
	case !math.IsNaN(f.epoch):
		setPositive(r, Epoch, p.epoch-1)
	}
}

// setPositive stores a value that is above 0.
func setPositive(r *Row, c Column, v float64) {
	if v > 0 {
		r.Set(c, v)
	}
}

// match uses the user's own patterns; the first that matches gives the row.
func (p *progress) match(text []byte, r *Row) bool {
	for _, re := range p.opts.patterns {
		m := re.FindSubmatch(text)
		if m == nil {
			continue
		}
		some := false
		for i, name := range re.SubexpNames() {
			if name == "" || m[i] == nil {
				continue
			}
			t := resolveName(normalizeName(name))
			if v, _ := parseNumber(m[i], t.column.counts()); !math.IsNaN(v) && (v >= 0 || t.column.signed()) {
				r.Set(t.column, v)
				some = true
			}
		}
		if some {
			return true
		}
	}
	return false
}

// checkPatterns makes sure that each pattern names at least one column and only known ones.
func checkPatterns(patterns []*regexp.Regexp) error {
	for _, re := range patterns {
		named := 0
		for _, name := range re.SubexpNames() {
			if name == "" {
				continue
			}
			if t := resolveName(normalizeName(name)); t.kind != toColumn {
				return fmt.Errorf("pattern %q: group %q is not a column", re, name)
			}
			named++
		}
		if named == 0 {
			return fmt.Errorf("pattern %q has no named group such as (?P<epoch>\\d+)", re)
		}
	}
	return nil
}
