package trainlog

import (
	"bytes"
	"math"
	"strings"
)

// A training prints several bars: for data preparation, for validation and for the training itself. A bar counts as
// progress once there is evidence that it belongs to the training: a loss beside it, a label that names training, a
// current epoch, continuation after an interruption by another bar, or sureAfter seconds of drawing without contrary
// evidence. All other bars are ignored.

// barState is the state of the current bar.
type barState struct {
	Label       string  `json:"label,omitempty"`
	At          float64 `json:"at"`
	Of          float64 `json:"of"`
	Cycles      int     `json:"cycles,omitempty"` // completed cycles
	Sure        bool    `json:"sure,omitempty"`
	Interrupted bool    `json:"interrupted,omitempty"` // another bar has been drawn since
}

// bar is one drawing of a progress bar.
type bar struct {
	label   string
	at, of  float64
	loss    bool
	epoch   bool    // an epoch is known to be in progress
	elapsed float64 // s, as printed; NaN if absent
}

// foreign reports whether the bar is not about training.
func (b *bar) foreign() bool {
	_, foreign := barLabel(b.label)
	return foreign
}

// sureAfter is the time in seconds after which an unlabelled bar counts without further evidence.
const sureAfter = 5

// draw updates the state with one drawing and reports whether the bar counts. steps is the number of completed steps
// and total the number of all steps; total is 0 if the bar restarts in each epoch and so does not reveal it.
func (s *barState) draw(b bar) (steps, total float64, counts bool) {
	training, _ := barLabel(b.label)
	if b.foreign() || b.label != "" && !training && !b.loss && !b.epoch {
		s.Interrupted = s.Of > 0
		return 0, 0, false
	}
	switch {
	case s.Of == 0:
		*s = barState{Label: b.label, Of: b.of}
	case s.Label == b.label && s.Of == b.of:
		if b.at < s.At && s.At >= s.Of {
			s.Cycles++
		}
		if s.Interrupted && b.at > s.At && s.At < s.Of {
			s.Sure = true
		}
		s.Interrupted = false
	case !s.Sure && (b.loss || s.At >= s.Of), s.At >= s.Of && (b.loss || training):
		*s = barState{Label: b.label, Of: b.of}
	default: // nested in the current bar
		s.Interrupted = true
		return 0, 0, false
	}
	s.At = b.at
	s.Sure = s.Sure || b.loss || training || b.epoch || b.elapsed >= sureAfter
	if s.Cycles > 0 {
		return float64(s.Cycles)*s.Of + b.at, 0, s.Sure
	}
	return b.at, b.of, s.Sure
}

// foreignWords are prefixes of words in labels of bars that are not about training.
var foreignWords = []string{"load", "fetch", "download", "upload", "extract", "map", "generat", "tokeniz", "filter", "process", "preprocess", "prepar", "build", "sav", "writ",
	"eval", "valid", "val", "test", "predict", "infer", "sanity", "scan", "cach", "add", "truncat", "pack", "pad", "split", "shard", "convert", "encod", "index", "comput", "check", "copy",
	"read", "instances", "examples", "dataset", "data", "class", "sampl"}

// barLabel classifies the label of a bar: of the training, of another activity, or neither.
func barLabel(label string) (training, foreign bool) {
	for _, w := range strings.Fields(label) {
		for _, f := range foreignWords {
			if strings.HasPrefix(w, f) {
				return false, true
			}
		}
		training = training || strings.HasPrefix(w, "train") || strings.HasPrefix(w, "epoch") || strings.HasPrefix(w, "step") || strings.HasPrefix(w, "iter") || strings.HasPrefix(w, "fit")
	}
	return training, false
}

// labelOf joins the words before a bar, up to 60 bytes.
func labelOf(toks []token) string {
	var words []string
	for i := range toks {
		if math.IsNaN(toks[i].number) {
			words = append(words, toks[i].word)
		}
	}
	label := strings.Join(words, " ")
	return label[:min(len(label), 60)]
}

// otherUnit reports whether a bar counts something other than training steps: "examples/s" of a data set, bytes,
// files.
func otherUnit(toks []token) bool {
	for i := range toks {
		unit, per, ok := strings.Cut(toks[i].word, "/")
		if !ok || per != "s" && per != "sec" {
			continue
		}
		switch unit {
		case "examples", "example", "files", "file", "b", "kb", "mb", "gb", "kib", "mib", "gib":
			return true
		}
	}
	return false
}

// barElapsed parses the elapsed time that tqdm prints, "[01:02:03<04:05", in seconds; NaN without one.
func barElapsed(text []byte) float64 {
	open := bytes.IndexByte(text, '[')
	for ; open >= 0; open = nextByte(text, open, '[') {
		end := bytes.IndexByte(text[open:], '<')
		if end < 0 {
			return math.NaN()
		}
		seconds, ok := 0.0, false
		for _, part := range bytes.Split(text[open+1:open+end], []byte{':'}) {
			n := digitsOf(part)
			if len(part) == 0 || len(part) > 4 || n < 0 {
				ok = false
				break
			}
			seconds, ok = 60*seconds+float64(n), true
		}
		if ok {
			return seconds
		}
	}
	return math.NaN()
}

// nextByte returns the index of the next c after at; -1 if none exists.
func nextByte(text []byte, at int, c byte) int {
	if i := bytes.IndexByte(text[at+1:], c); i >= 0 {
		return at + 1 + i
	}
	return -1
}

// wholeCount recognises a count beside the number of an epoch that is the count of the whole training: it does not begin again in
// the next epoch, and its share is that of the epochs.
type wholeCount struct {
	At    float64 `json:"at"` // last count of the largest total, and the epoch in progress at it
	Of    float64 `json:"of"`
	Epoch float64 `json:"epoch"`
	Grown int     `json:"grown,omitempty"` // number of epochs in succession in which the count continued
}

// add takes a count of a line in the given epoch of epochs, 0 if that is unknown. Without it, two epochs must continue the count.
func (c *wholeCount) add(at, of, epoch, epochs float64) {
	if of < c.Of { // such as that of the validation
		return
	}
	if of > c.Of {
		*c = wholeCount{At: at, Of: of, Epoch: epoch}
		return
	}
	each := of / epochs // steps
	if epochs == 0 {
		each = c.At / c.Epoch
	}
	within := func(at, epoch float64) bool { return math.Abs(at/each-epoch+0.5) < 0.55 } // an epoch is rounded to steps
	switch {
	case epoch <= c.Epoch:
	case at > c.At && within(c.At, c.Epoch) && within(at, epoch):
		c.Grown++
	default:
		c.Grown = 0
	}
	c.At, c.Epoch = at, epoch
}

// sure reports whether the count is that of the whole training.
func (c *wholeCount) sure(epochs float64) bool { return c.Grown > 1 || c.Grown > 0 && epochs > 0 }

// ofWhole reports whether the count of a line is about the whole training rather than the epoch.
func (p *progressParser) ofWhole(f *linePosition) bool {
	if f.nested {
		return false
	}
	p.whole.add(f.step, f.steps, p.epoch, p.total)
	return f.global || p.whole.sure(p.total)
}

// wholePosition sets the position of a row from a count of the whole training: in epochs if their number is known. Another count
// beside that is none of the training.
func (p *progressParser) wholePosition(f *linePosition, r *Row) {
	p.within = true // a result on the next line does not complete the epoch
	switch share := p.total * min(1, f.step/f.steps); {
	case !f.global && f.steps < p.whole.Of:
		r.Set(Step, math.NaN())
		r.Set(TotalSteps, math.NaN())
	case p.total > 0:
		r.Set(Step, math.NaN())
		r.Set(TotalSteps, math.NaN())
		setPositive(r, Epoch, share)
		p.part = min(max(0, share-p.epoch+1), 1)
	default:
		setPositive(r, Epoch, p.epoch-1)
	}
}
