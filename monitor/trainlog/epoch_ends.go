package trainlog

import "math"

// epochEnds decides which rows of a log complete the epoch that they name. An epoch has one row, at its end, or several at
// different steps: it is then complete when a row names the next one, or at its held-out result in a log whose previous epoch
// had one such result, in its last row. An epoch in fractions is a position by itself.
type epochEnds struct {
	Epoch    float64 `json:"epoch"`              // of the last row
	First    float64 `json:"first"`              // step of the first row of this epoch
	Last     float64 `json:"last"`               // step of the last row
	Rows     int     `json:"rows"`               // steps of this epoch; 0 before the first row
	Results  int     `json:"results,omitempty"`  // those of them with a held-out result
	Held     bool    `json:"held,omitempty"`     // the last step has one
	Closed   bool    `json:"closed,omitempty"`   // in the previous epoch, only the last step had one
	Several  bool    `json:"several,omitempty"`  // an epoch had several steps
	Alone    int     `json:"alone,omitempty"`    // number of epochs with one row that the next epoch followed
	Lately   int     `json:"lately,omitempty"`   // those of them since an epoch with several rows
	Fraction bool    `json:"fraction,omitempty"` // an epoch was no whole number
	// Distance from the first step to the last one, and number of steps, of the longest epoch with several.
	Span float64 `json:"span,omitempty"`
	Of   float64 `json:"of,omitempty"`
}

// aloneEpochs is the number of epochs with one row each after which a log counts as one with one row per epoch. In one that had
// several rows in an epoch, such as a result before the training or after a resume, the next rows are then undecided.
const aloneEpochs = 2

// mark stores in a row the open part of its epoch. The rest of the epoch is the work from its first row to this one, relative
// to the longest epoch before it.
func (p *epochEnds) mark(r *Row) {
	epoch, ok := r.Value(Epoch)
	step, stepped := r.Value(Step)
	p.Fraction = p.Fraction || ok && epoch != math.Trunc(epoch)
	if !ok || !stepped || p.Fraction {
		return
	}
	switch {
	case p.Rows == 0 || epoch != p.Epoch:
		if p.Rows > 0 && epoch == p.Epoch+1 {
			p.passed()
		}
		p.Epoch, p.First, p.Last, p.Rows, p.Results, p.Held = epoch, step, step, 1, 0, false
	case step != p.Last: // a smaller one is of a training that was resumed and counts its steps again
		p.Several = p.Several || step > p.Last
		p.Last, p.Rows, p.Held = step, p.Rows+1, false
	}
	held := r.Next(TestLoss) <= TestAccuracy
	if held && !p.Held {
		p.Results, p.Held = p.Results+1, true
	}
	switch {
	case !p.Several:
		r.undecided = p.Alone < aloneEpochs
	case held && p.Closed && p.Results == 1:
	case p.Rows == 1 && p.Lately >= aloneEpochs:
		r.undecided = true
	case p.Span > 0 && p.Of > 0:
		r.open = 1 - min(max(0, step-p.First), p.Span)/p.Span*(p.Of-1)/p.Of
	default:
		r.open = 1
	}
}

// passed records an epoch that the next one follows.
func (p *epochEnds) passed() {
	p.Closed = p.Held && p.Results == 1
	if p.Rows == 1 {
		p.Alone, p.Lately = p.Alone+1, p.Lately+1
		return
	}
	p.Lately = 0
	if span := p.Last - p.First; span > p.Span {
		p.Span, p.Of = span, float64(p.Rows)
	}
}

// again begins an epoch at the next row, unless epochs have several rows: a job may continue within one.
func (p *epochEnds) again() {
	if !p.Several {
		p.Rows = 0
	}
}
