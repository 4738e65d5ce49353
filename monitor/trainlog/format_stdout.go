package trainlog

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Progress on standard output: "Epoch 3/20", "epoch: 3", "[3/20]", "step 100/1000", "45%|####| 9/20" and numbers
// labelled loss or accuracy. Lines are not matched against a library of patterns: each line is split into words and
// numbers once, and each number belongs to the word before it.
//
// Epoch is the number of completed epochs including fractions: "Epoch 3/20" without a result is the beginning of the
// third epoch (2), step 45/100 inside it is 2.45, and the same line with a loss is 3. Before the first completed
// epoch the column is absent.

func detectStdout(h *head) int {
	p := newStdout(h.opts).(*progressParser)
	for _, l := range h.lines {
		var r Row
		if p.read(l, &r) {
			return 20
		}
	}
	return 0
}

func newStdout(o *parseOptions) parser { return &progressParser{opts: o} }

// progressParser parses progress output.
type progressParser struct {
	unbuffered
	opts *parseOptions
	// Current epoch, from 1, and number of epochs; 0 if unknown.
	epoch, total float64
	zero         *bool
	// Completed fraction of the current epoch, 0 to 1. A later bar in the same epoch, such as that of validation,
	// does not lower it.
	part   float64
	within bool // the last position named a step without its total, or one whose result may follow
	bars   barState
	whole  wholeCount
	header []string  // of the last table that is aligned by blanks
	ends   epochEnds // of dictionaries: "{'epoch': 1, 'step': 50, 'loss': 1}"
	toks   []token   // scratch
	words  interner
}

func (p *progressParser) save() parserState {
	s := parserState{ZeroBased: p.zero, Epoch: p.epoch, TotalEpoch: p.total, Part: p.part, Within: p.within, Header: p.header, Ends: p.ends}
	if bars := p.bars; bars != (barState{}) {
		s.Bars = &bars
	}
	s.Whole = p.whole
	return s
}

func (p *progressParser) load(s parserState) {
	p.zero, p.epoch, p.total, p.part, p.within, p.header, p.ends = s.ZeroBased, s.Epoch, s.TotalEpoch, s.Part, s.Within, s.Header, s.Ends
	if p.whole = s.Whole; s.Bars != nil {
		p.bars = *s.Bars
	}
}

func (p *progressParser) line(text []byte, n int, out sink) {
	r := Row{Line: n}
	if p.read(text, &r) {
		out.row(&r, 0)
	}
}

// maxProgressLine is the length of the longest line that is parsed, in bytes; progress lines are short.
const maxProgressLine = 4096

// read fills the row from one line; it returns false if the line contains no progress.
func (p *progressParser) read(text []byte, r *Row) bool {
	if len(text) > maxProgressLine {
		return false
	}
	if len(p.opts.patterns) > 0 {
		return p.match(text, r)
	}
	if bytes.HasPrefix(text, []byte("$ ")) || bytes.HasPrefix(text, []byte("+ ")) { // a command, as a shell script prints it
		return false
	}
	if p.tableRow(text, r) {
		return r.known()
	}
	if !mayBeProgress(text) || hasWord(text, "finished, #iter") || ofChain(text) { // LIBSVM states the length of each of its optimizations
		return false
	}
	var line lineText
	if p.toks, line = tokenize(text, p.toks[:0], &p.words); p.libraryLine(text, r) {
		return r.known()
	}
	if argumentList(p.toks, line) {
		return false
	}
	return p.fill(text, line, r)
}

// mayBeProgress is a cheap filter: a progress line has a digit and a typical sign, or one of two words.
func mayBeProgress(text []byte) bool {
	return bytes.ContainsAny(text, "0123456789") && bytes.ContainsAny(text, "/:=%[|") || hasWord(text, "poch") || hasWord(text, "tep ")
}

func hasWord(text []byte, word string) bool { return bytes.Contains(text, []byte(word)) }

// linePosition is the position information of one line; unknown numbers are NaN.
type linePosition struct {
	epoch, epochs   float64
	step, steps     float64
	epochIsComplete bool // a fraction, or a bar that counts epochs
	numbered        bool // the epoch of a dictionary from 1, of which several may name the same
	result          bool // the line contains a loss, accuracy or time
	held            bool // the line is about the validation or test part
	within          bool // it names a batch, so that its result is not that of the epoch
	batch           bool // it names a batch without the number of all, so that a result on the next line is not that of the epoch
	drawn           bool // the step comes from a bar
	global          bool // the step is that of the whole training: "global step 10/300"
	nested          bool // the step is counted in the epoch beside it: "[ 1/30][100/938]"
}

// fill builds a row from the tokens of one line. Numbers are assigned by the words before them; the first number that
// looks like the count of a bar is assigned last, because its meaning depends on the others.
func (p *progressParser) fill(text []byte, line lineText, r *Row) bool {
	f := linePosition{epoch: math.NaN(), epochs: math.NaN(), step: math.NaN(), steps: math.NaN()}
	f.held = p.heldLine()
	some := false
	counter := -1 // index of a bar's count
	for i := range p.toks {
		t := &p.toks[i]
		if math.IsNaN(t.number) {
			continue
		}
		if (counter < 0 || t.of == p.toks[counter].of && t.number == p.toks[counter].number+1) && p.counts(i, t) {
			counter = i // "....[1/6]....[2/6]": the last one
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

// heldLine reports whether a line is about the validation or test part: it begins with such a word, or has one before its
// "epoch", as in "| valid | epoch 001 | loss 9.1".
func (p *progressParser) heldLine() bool {
	for i := range p.toks {
		if heldOut(p.toks[i].word) && (i == 0 || i+1 < len(p.toks) && p.toks[i+1].word == "epoch") {
			return true
		}
	}
	return false
}

// counts reports whether a number is the count of a bar: "45%|####| 9/20", "[9/20]", "9/20 [====>...]", "epoch 1: 9/20".
func (p *progressParser) counts(i int, t *token) bool {
	ofEpoch := i > 1 && math.IsNaN(p.toks[i-1].of) && !math.IsNaN(p.toks[i-1].number) && p.toks[i-2].word == "epoch"
	if math.IsNaN(t.of) || t.of <= 0 || t.number > t.of || t.number < 0 || t.decimal || !(t.bar || t.bracket || i == 0 || ofEpoch) {
		return false
	}
	if i == 0 {
		return true
	}
	before := &p.toks[i-1]
	if t.isShare(before) && i > 1 && wordRole(p.toks[i-2].word, "") == roleAccuracy || !t.bar && (otherCounts[before.word] || p.labels(i)) {
		return false
	}
	switch role := wordRole(before.word, ""); role {
	case roleNone, roleThroughput, roleTime, roleMetric:
		return true
	case roleEpoch, roleStep, roleEpochs, roleSteps: // "Epochs: 9/20" is assigned by its word, "Epochs: 45%|##| 9/20" is a bar
		return t.bar && before.percent
	}
	return false
}

// isShare reports whether a count is the fraction that the number before it states: "90.0% (450/500)", "0.9 [450/500]".
func (t *token) isShare(before *token) bool {
	share := t.number / t.of
	return math.Abs(share-before.number) < 0.01 || math.Abs(share-before.number/100) < 0.01
}

// labels reports whether the count at an index, with the word before it, names what the epoch after it belongs to: "Fold [1/5]
// Epoch [3/10]".
func (p *progressParser) labels(i int) bool {
	word := p.toks[i-1].word
	training, _ := barLabel(word)
	return (larger[word] || word != "" && !training && wordRole(word, "") == roleNone) && slices.ContainsFunc(p.toks[i:], func(t token) bool { return t.word == "epoch" })
}

// larger are the units that consist of epochs.
var larger = map[string]bool{"round": true, "episode": true, "generation": true}

// otherCounts are words before a count that is none of steps: "patience [2/5]".
var otherCounts = map[string]bool{"patience": true, "counter": true, "correct": true, "mem": true, "memory": true}

// count assigns the count of a bar to the epoch or the step. foreign is true if the line is not about training.
func (p *progressParser) count(i int, text []byte, f *linePosition, r *Row) (counted, foreign bool) {
	t := &p.toks[i]
	before, after := p.toks[:i], p.toks[i+1:]
	if t.bar && epochWord(before) && math.IsNaN(f.epoch) { // "Epochs: 45%|####  | 9/20"
		f.epoch, f.epochs, f.epochIsComplete = t.number, t.of, true
		p.completed(t.number, t.of)
		return true, false
	}
	if !math.IsNaN(f.step) {
		return false, false
	}
	if math.IsNaN(f.epoch) && p.nested(i, text, f.result) {
		f.epoch, f.epochs, f.within, f.nested = t.number, t.of, true, true
		t, after = &p.toks[i+1], p.toks[i+2:]
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
	if b.epoch { // the bar of one epoch, regardless of earlier cycles
		f.step, f.steps = t.number, t.of
	}
	return true, false
}

// nested reports whether the count at an index is that of epochs, with the count of batches beside it: "[ 1/30][100/938]". Words
// after them have values, unlike in "[1/3] [2/5] Building".
func (p *progressParser) nested(i int, text []byte, result bool) bool {
	if i+1 >= len(p.toks) || !p.toks[i].bracket || !hasWord(text, "][") && !hasWord(text, "] [") {
		return false
	}
	t, after := &p.toks[i+1], p.toks[i+2:]
	if !t.bracket || t.decimal || !(t.of > 0) || t.number < 0 || t.number > t.of {
		return false
	}
	return result || !wordsAfter(after) || slices.ContainsFunc(after, func(t token) bool { return t.labeled && !math.IsNaN(t.number) })
}

// wordsAfter reports whether toks contain a word that is not a unit.
func wordsAfter(toks []token) bool {
	for i := range toks {
		if w := toks[i].word; len(w) > 1 && !strings.Contains(w, "/") && w != "ms" && w != "eta" {
			return true
		}
	}
	return false
}

// take assigns one number by the one or two words before it, and reports whether it was used.
func (p *progressParser) take(i int, t *token, f *linePosition, line lineText, r *Row) bool {
	word, before := "", ""
	if i > 0 && !t.apart {
		word = p.toks[i-1].word
	}
	if i > 1 && word != "" {
		before = p.toks[i-2].word
	}
	role := wordRole(word, before)
	if word == "train" && i+1 < len(p.toks) && p.toks[i+1].bracket && p.toks[i+1].of > 0 { // "Train: 0 [ 5/98 (5%)]", "Epoch(train) [1][ 5/98]"
		role = roleEpoch
	}
	if role == roleStep || role == roleSteps || role == roleEpoch && t.seconds {
		if _, foreign := barLabel(before); foreign || t.seconds { // "val step 50/50", "generating step 3", "Step: 10ms", "epoch took 12.5 s"
			f.within = f.within || t.seconds
			return false
		}
	}
	switch {
	case larger[word] && p.labels(i), (role == roleEpoch || role == roleStep) && !f.result && p.setting(i):
		return false
	case role == roleEpoch && t.over && i > 1: // "1 epoch / 20 epochs", "1 epoch / 500 iterations"
		if done := p.toks[i-2].number; i+1 < len(p.toks) && p.toks[i+1].word == "epochs" && done <= t.number {
			f.epoch, f.epochs, f.epochIsComplete = done, t.number, true
		}
		return f.epochIsComplete
	case (role == roleEpoch || role == roleEpochs && t.of > 0) && !t.percent:
		if !math.IsNaN(f.epoch) { // "epoch 3/10, best loss 0.1 at epoch 1"
			return false
		}
		f.epoch, f.epochs = t.number, t.of
		zero := !t.decimal && !f.held && (t.number == 0 || p.zero != nil && *p.zero) // "{'loss': 0.5, 'epoch': 0}" is the first epoch
		f.numbered = line.open && !t.decimal && !zero
		f.epochIsComplete = t.decimal || f.numbered // "{'loss': 0.5, 'epoch': 1}" is a completed epoch
		return true
	case (role == roleStep || role == roleSteps && t.of > 0) && !t.percent && math.IsNaN(f.step) && t.number == math.Trunc(t.number):
		f.step, f.steps, f.global = t.number, t.of, before == "global" || word == "global_step"
		return true
	case role == roleSteps && word == "batch":
		f.within, f.batch = true, true
	case role == roleMetric:
		f.result = f.result || t.decimal
	case role == roleLoss, role == roleAccuracy, role == roleThroughput, role == roleTime:
		return p.result(role, word, before, t, f, r)
	}
	return throughputUnit(p.toks, i, r)
}

// setting reports whether the number at an index ends a line that states a setting, such as "num epochs / epoch数: 10".
func (p *progressParser) setting(i int) bool {
	first, t := p.toks[0].word, &p.toks[i]
	return (first == "num" || first == "total") && i == len(p.toks)-1 && t.labeled && math.IsNaN(t.of)
}

// epochWord reports whether a bar is labelled "epoch" or "epochs" without a number, so that it counts epochs.
func epochWord(toks []token) bool {
	for i := range toks {
		if w := toks[i].word; w == "epoch" || w == "epochs" {
			return i+1 >= len(toks) || math.IsNaN(toks[i+1].number) || toks[i+1].percent
		}
	}
	return false
}

// result stores a loss, an accuracy, a throughput or a time.
func (p *progressParser) result(role wordKind, word, before string, t *token, f *linePosition, r *Row) bool {
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

// throughputUnit stores a throughput such as "1234.5 samples/s".
func throughputUnit(toks []token, i int, r *Row) bool {
	if i+1 >= len(toks) || toks[i].number < 0 || i+2 < len(toks) && toks[i+2].labeled { // "time (sec): 0.12 - samples/sec: 3200"
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

// position derives the completed epochs and the step of a row from the line and the current epoch.
func (p *progressParser) position(f *linePosition, line lineText, r *Row) {
	if f.epochIsComplete {
		setPositive(r, Epoch, f.epoch)
		setPositive(r, TotalEpochs, f.epochs)
	} else if !math.IsNaN(f.epoch) {
		p.beginEpoch(f, line)
	}
	setPositive(r, Step, f.step)
	setPositive(r, TotalSteps, f.steps)
	if f.numbered {
		p.ends.mark(r)
	}
	if !math.IsNaN(f.epoch) || !math.IsNaN(f.step) {
		p.within = f.batch && !(f.steps > 0) || !math.IsNaN(f.step) && !(f.result && f.steps > 0)
	}
	if p.epoch == 0 || f.epochIsComplete {
		return
	}
	setPositive(r, TotalEpochs, p.total)
	_, timed := r.Value(EpochTime)
	switch {
	case f.steps > 0 && p.ofWhole(f):
		p.wholePosition(f, r)
	case f.steps > 0:
		// The step is counted within the epoch and has no meaning for the whole job.
		r.Set(Step, math.NaN())
		r.Set(TotalSteps, math.NaN())
		if part := math.Min(1, f.step/f.steps); part >= p.part {
			p.part = part
			setPositive(r, Epoch, p.epoch-1+part)
		}
	case f.result && math.IsNaN(f.step) && !f.within && (timed || !p.within):
		p.part = 1
		setPositive(r, Epoch, p.epoch)
	case !math.IsNaN(f.epoch):
		setPositive(r, Epoch, p.epoch-1+p.part)
	}
}

// completed sets the current epoch from a bar that counts complete epochs, so that bars nested in it count within one.
func (p *progressParser) completed(epochs, of float64) {
	epoch := math.Min(math.Floor(epochs)+1, of)
	if epoch != p.epoch {
		p.part = 0
	}
	if epochs >= of {
		p.part = 1
	}
	p.epoch, p.total = epoch, of
}

// beginEpoch sets the current epoch and the number of epochs. An epoch 0 means that the job counts from 0.
// Lightning's bar also counts from 0, and its total is the number of the last epoch; the bar has the shape of tqdm's
// and is recognised by the version number (v_num) after it.
func (p *progressParser) beginEpoch(f *linePosition, line lineText) {
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
	case lightning, *p.zero && f.epoch >= f.epochs: // the total is the number of the last epoch
		p.total = math.Max(p.total, f.epochs+1)
	default:
		p.total = math.Max(f.epochs, p.total)
		if !*p.zero {
			p.total = f.epochs
		}
	}
}

// setPositive stores a value above 0.
func setPositive(r *Row, c Column, v float64) {
	if v > 0 {
		r.Set(c, v)
	}
}

// match applies the user's patterns; the first pattern that yields a value determines the row.
func (p *progressParser) match(text []byte, r *Row) bool {
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

// checkPatterns returns an error unless each pattern has at least one named group and all named groups are numeric
// columns.
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
