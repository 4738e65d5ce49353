package monitor

import (
	"bytes"
	"math"
	"slices"
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
	// How far the epoch under way has come, 0 to 1: a later bar in it, of the validation, does not take it back.
	part    float64
	bars    barState
	columns bool    // the header of Ultralytics' table was printed
	toks    []token // scratch
	words   words
}

func (*progress) pending() bool { return false }
func (*progress) flush(sink)    {}
func (*progress) restart()      {}

func (p *progress) save() parserState {
	s := parserState{ZeroBased: p.zero, Epoch: p.epoch, TotalEpoch: p.total, Part: p.part, Columns: p.columns}
	if bars := p.bars; bars != (barState{}) {
		s.Bars = &bars
	}
	return s
}

func (p *progress) load(s parserState) {
	p.zero, p.epoch, p.total, p.part, p.columns = s.ZeroBased, s.Epoch, s.TotalEpoch, s.Part, s.Columns
	if s.Bars != nil {
		p.bars = *s.Bars
	}
}

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
	var line lineText
	if p.toks, line = tokenize(text, p.toks[:0], &p.words); argumentList(p.toks, line) {
		return false
	}
	if p.known(text, r) {
		return r.known()
	}
	return p.fill(text, line, r)
}

// mayMatter is a quick look: progress has a digit and one of a few signs.
func mayMatter(text []byte) bool {
	return bytes.ContainsAny(text, "0123456789") && bytes.ContainsAny(text, "/:=%[|") || hasWord(text, "poch") || hasWord(text, "tep ")
}

func hasWord(text []byte, word string) bool { return bytes.Contains(text, []byte(word)) }

// found is what one line says about the position.
type found struct {
	epoch, epochs   float64
	step, steps     float64
	epochIsComplete bool // a fraction, or a bar that counts epochs
	result          bool // a loss, accuracy or time stands in the line
	held            bool // the line is about the validation or test part
	drawn           bool // a bar gave the step
}

// fill makes a row of the tokens of one line.
func (p *progress) fill(text []byte, line lineText, r *Row) bool {
	f := found{epoch: math.NaN(), epochs: math.NaN(), step: math.NaN(), steps: math.NaN()}
	f.held = len(p.toks) > 0 && heldOut(p.toks[0].word)
	some := false
	counter := -1 // of a bar
	for i := range p.toks {
		t := &p.toks[i]
		if math.IsNaN(t.number) {
			continue
		}
		if counter < 0 && p.counts(i, t, line) {
			counter = i
			continue
		}
		some = p.take(i, t, &f, line, r) || some
	}
	if counter >= 0 {
		counted, foreign := p.count(counter, text, &f, r)
		if foreign {
			return false
		}
		some = counted || some
	}
	if !some {
		return false
	}
	p.position(&f, line, r)
	return r.known()
}

// counts reports whether a number is the count of a bar: "45%|####| 9/20", "[9/20]", "9/20 [====>...]".
func (p *progress) counts(i int, t *token, line lineText) bool {
	if math.IsNaN(t.of) || t.of <= 0 || t.number > t.of || t.number < 0 || t.decimal || !(t.bar || t.bracket || i == 0) {
		return false
	}
	if i == 0 {
		return true
	}
	switch role := wordRole(p.toks[i-1].word, ""); role {
	case roleNone, roleThroughput, roleTime:
		return true
	case roleEpoch, roleStep, roleEpochs, roleSteps: // "Epochs: 9/20" is read by its word, "Epochs: 45%|##| 9/20" is a bar
		return t.bar && p.toks[i-1].percent
	}
	return false
}

// count takes the count of a bar; foreign is true when the line is not about training.
func (p *progress) count(i int, text []byte, f *found, r *Row) (counted, foreign bool) {
	t := &p.toks[i]
	before, after := p.toks[:i], p.toks[i+1:]
	if t.bar && epochWord(before) && math.IsNaN(f.epoch) { // "Epochs: 45%|####  | 9/20"
		f.epoch, f.epochs, f.epochIsComplete = t.number, t.of, true
		return true, false
	}
	if !math.IsNaN(f.step) {
		return false, false
	}
	_, loss := r.Value(TrainLoss)
	b := bar{label: labelOf(before), at: t.number, of: t.of, loss: loss || !t.bar, epoch: p.epoch > 0 || !math.IsNaN(f.epoch), elapsed: barElapsed(text)}
	if !t.bar && !loss && !b.epoch && (wordsAfter(after) || b.label != "") { // "[3/20] Building", "3/20 files"
		return false, false
	}
	if otherUnit(after) {
		b.label = "examples " + b.label
	}
	at, of, ok := p.bars.draw(b)
	if !ok {
		return false, b.foreign()
	}
	f.step, f.steps, f.drawn = at, of, true
	if b.epoch { // the bar of one epoch, whatever came before
		f.step, f.steps = t.number, t.of
	}
	return true, false
}

// wordsAfter reports whether a word follows that is no unit.
func wordsAfter(toks []token) bool {
	for i := range toks {
		if w := toks[i].word; len(w) > 1 && !strings.Contains(w, "/") && w != "ms" && w != "eta" {
			return true
		}
	}
	return false
}

// take uses one number, by the words before it.
func (p *progress) take(i int, t *token, f *found, line lineText, r *Row) bool {
	word, before := "", ""
	if i > 0 && !t.apart {
		word = p.toks[i-1].word
	}
	if i > 1 && word != "" {
		before = p.toks[i-2].word
	}
	switch role := wordRole(word, before); {
	case (role == roleEpoch || role == roleEpochs && t.of > 0) && !t.percent:
		f.epoch, f.epochs = t.number, t.of
		f.epochIsComplete = t.decimal || line.open // "{'loss': 0.5, 'epoch': 1}" says how much is complete
		return true
	case (role == roleStep || role == roleSteps && t.of > 0) && !t.percent && math.IsNaN(f.step):
		f.step, f.steps = t.number, t.of
		return true
	case role == roleLoss, role == roleAccuracy, role == roleThroughput, role == roleTime:
		return p.result(role, word, before, t, f, r)
	}
	return throughputUnit(p.toks, i, r)
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
	held := f.held || heldOut(word) || heldOut(before)
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
	v := t.number
	if t.of > 0 && role == roleAccuracy { // "Accuracy: 9800/10000 (98%)"
		v *= 100 / t.of
	}
	r.Set(column, v)
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

// position works out how many epochs are complete, and the step.
func (p *progress) position(f *found, line lineText, r *Row) {
	if f.epochIsComplete {
		setPositive(r, Epoch, f.epoch)
		setPositive(r, TotalEpochs, f.epochs)
	} else if !math.IsNaN(f.epoch) {
		p.beginEpoch(f, line)
	}
	setPositive(r, Step, f.step)
	setPositive(r, TotalSteps, f.steps)
	if p.epoch == 0 || f.epochIsComplete {
		return
	}
	setPositive(r, TotalEpochs, p.total)
	switch {
	case f.steps > 0:
		// The step is counted inside of the epoch: over the whole job it means nothing.
		r.Set(Step, math.NaN())
		r.Set(TotalSteps, math.NaN())
		if part := math.Min(1, f.step/f.steps); part >= p.part {
			p.part = part
			setPositive(r, Epoch, p.epoch-1+part)
		}
	case f.result && math.IsNaN(f.step):
		p.part = 1
		setPositive(r, Epoch, p.epoch)
	case !math.IsNaN(f.epoch):
		setPositive(r, Epoch, p.epoch-1+p.part)
	}
}

// beginEpoch takes the epoch under way. An epoch 0 says that they count from 0, and so does Lightning's bar, of which the
// total is the number of the last one. The bar has the shape of tqdm's and is known by the version number behind it.
func (p *progress) beginEpoch(f *found, line lineText) {
	lightning := line.blocks && f.epochs > 0 && f.drawn && slices.ContainsFunc(p.toks, func(t token) bool { return t.word == "v_num" })
	if p.zero == nil || f.epoch == 0 || lightning {
		zero := f.epoch == 0 || lightning
		p.zero = &zero
	}
	epoch := f.epoch
	if *p.zero {
		epoch++
	}
	if epoch != p.epoch {
		p.part = 0
	}
	p.epoch = epoch
	switch {
	case !(f.epochs > 0):
	case lightning, *p.zero && f.epoch >= f.epochs: // the total is the number of the last one
		p.total = math.Max(p.total, f.epochs+1)
	default:
		p.total = math.Max(f.epochs, p.total)
		if !*p.zero {
			p.total = f.epochs
		}
	}
}

// setPositive stores a value that is above 0.
func setPositive(r *Row, c Column, v float64) {
	if v > 0 {
		r.Set(c, v)
	}
}
