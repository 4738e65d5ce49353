package monitor

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// This file is the sink side of a Tail: what becomes of rows, bad lines and notes.

var _ sink = (*Tail)(nil)

func (t *Tail) bad(line int, reason string) {
	h := badHash(line, reason)
	if t.replaying && t.badSeen[h] {
		return // counted when it was read for the first time
	}
	if len(t.badSeen) < remembered {
		t.badSeen[h] = true
	}
	t.stats.Bad++
	if len(t.stats.FirstBad) < keptReports {
		t.stats.FirstBad = append(t.stats.FirstBad, BadRow{Line: line, Reason: reason})
	}
}

func badHash(line int, reason string) uint64 { return mix(uint64(line), hashText([]byte(reason))) }

// note counts an oddity. In a replay, those of a line wait until it is known whether the line is new.
func (t *Tail) note(line int, reason string) {
	if t.replaying && line > 0 {
		t.waiting = append(t.waiting, BadRow{Line: line, Reason: reason})
		if len(t.waiting) > keptReports {
			t.waiting = t.waiting[:0]
		}
		return
	}
	t.stats.Noted++
	if len(t.stats.FirstNoted) < keptReports {
		t.stats.FirstNoted = append(t.stats.FirstNoted, BadRow{Line: line, Reason: reason})
	}
}

func (t *Tail) header() { t.stats.Headers++ }

func (t *Tail) full() bool { return len(t.rows) >= t.opts.MaxRows }

// beginReplay says that rows which come now may have been given out already.
func (t *Tail) beginReplay() {
	if t.fileRows > 0 || !t.replaying {
		t.before = t.first
	}
	t.replaying, t.seen.met = true, false
	t.first, t.fileRows = 0, 0
}

func (t *Tail) row(r Row, extra uint64) {
	h := rowHash(&r, extra)
	if t.fileRows++; t.fileRows == 1 {
		t.first = h
	}
	repeats := formats[t.name].repeats
	if t.isRepeat(&r, h, repeats) {
		t.waiting = t.waiting[:0]
		return
	}
	if t.replaying {
		t.replaying = false
		for _, b := range t.waiting {
			t.note(b.Line, b.Reason)
		}
		t.waiting = t.waiting[:0]
	}
	t.seen.add(h)
	if again, from := t.furthest.advance(&r); again && !repeats {
		r.Again = true
		t.stats.Again++
		t.note(r.Line, from)
	}
	if at, ok := r.Value(TimeSoFar); ok {
		if at < t.furthest.Time {
			t.note(r.Line, fmt.Sprintf("time_so_far goes back from %g to %g", t.furthest.Time, at))
		}
		t.furthest.Time = at
	}
	r.At = t.now
	t.rows = append(t.rows, r)
	t.stats.Rows++
	t.stats.LastRow = t.now
}

// isRepeat decides whether the row has been given out before, and counts it.
func (t *Tail) isRepeat(r *Row, h uint64, repeats bool) bool {
	if repeats { // progress output may say the same again; only at once it is no news
		return t.seen.count > 0 && t.seen.last() == h
	}
	if !hasPosition(r) {
		return false // rows without epoch, step or time may well be equal
	}
	// A rewritten file begins with the row it began with before; of a long one, only the last rows are
	// remembered, and those before them are known by their position.
	older := t.replaying && t.first == t.before && t.seen.overflowed() && !t.seen.met
	if !t.seen.has(h) && !(older && t.furthest.compare(r) <= 0) {
		return false
	}
	if t.replaying {
		t.stats.Replayed++
	} else {
		t.stats.Duplicates++
		t.note(r.Line, "duplicate row")
	}
	return true
}

func hasPosition(r *Row) bool {
	for _, c := range []Column{Epoch, Step, TimeSoFar} {
		if _, ok := r.Value(c); ok {
			return true
		}
	}
	return !r.Stamp.IsZero()
}

// rowHash is the same for rows that say the same, whatever the order of their columns and the form of their numbers.
// How much there is to do in all is not part of what a row says.
func rowHash(r *Row, extra uint64) uint64 {
	h := extra
	for c := Column(0); c < NumColumns; c++ {
		if v, ok := r.Value(c); ok && c != TotalEpochs && c != TotalSteps && c != BatchSize {
			h += mix(uint64(c)+1, math.Float64bits(v))
		}
	}
	for i, v := range r.GPUUtil {
		if !math.IsNaN(v) {
			h += mix(uint64(i)+1000, math.Float64bits(v))
		}
	}
	if !r.Stamp.IsZero() {
		h += mix(2000, uint64(r.Stamp.UnixNano()))
	}
	for i, s := range []string{r.Model, r.Dataset, r.Device} {
		if s != "" {
			h += mix(uint64(i)+3000, hashText([]byte(s)))
		}
	}
	return h
}

// remembered is how many rows a Tail recognises when it sees them again.
const remembered = 1024

// memory holds the hashes of the last rows that were given out.
type memory struct {
	ring  [remembered]uint64
	set   map[uint64]int
	count int  // rows ever added
	met   bool // a remembered row has come again since the reset
}

func (m *memory) add(h uint64) {
	if m.set == nil {
		m.set = make(map[uint64]int, remembered)
	}
	slot := &m.ring[m.count%remembered]
	if m.count >= remembered {
		if m.set[*slot]--; m.set[*slot] <= 0 {
			delete(m.set, *slot)
		}
	}
	*slot = h
	m.set[h]++
	m.count++
}

func (m *memory) has(h uint64) bool {
	_, ok := m.set[h]
	m.met = m.met || ok
	return ok
}

func (m *memory) overflowed() bool { return m.count > remembered }

// load takes over hashes of a state.
func (m *memory) load(hashes []uint64, count int) {
	m.count = count - len(hashes)
	for _, h := range hashes {
		m.add(h)
	}
}

func (m *memory) last() uint64 { return m.ring[(m.count+remembered-1)%remembered] }

// all lists the remembered hashes, oldest first.
func (m *memory) all() []uint64 {
	n := min(m.count, remembered)
	out := make([]uint64, 0, n)
	for i := m.count - n; i < m.count; i++ {
		out = append(out, m.ring[i%remembered])
	}
	return out
}

// position is the furthest point that a log has reached; -1 where it has not said.
type position struct {
	Epoch float64 `json:"epoch"`
	Step  float64 `json:"step"`
	Time  float64 `json:"time"` // time_so_far of the last row
	// Said has a bit for each result column that was given at this point.
	Said uint32 `json:"said"`
}

func (p *position) clear() { *p = position{Epoch: -1, Step: -1, Time: -1} }

// compare tells whether the row is before (-1), at (0) or beyond (1) the furthest point. A row that says
// neither epoch nor step is never before.
func (p *position) compare(r *Row) int {
	e, hasEpoch := r.Value(Epoch)
	s, hasStep := r.Value(Step)
	switch {
	case hasEpoch && e < p.Epoch:
		return -1
	case hasEpoch && e > p.Epoch:
		return 1
	case hasStep && s < p.Step:
		return -1
	case hasStep && s > p.Step, !hasEpoch && !hasStep:
		return 1
	}
	return 0
}

// advance moves the furthest point. again is true when the row says what had been said: it lies before that
// point, or at it with a result that was given there already (the validation row of a step has others than its
// training row); from says so in words.
func (p *position) advance(r *Row) (again bool, from string) {
	said := uint32(0)
	for _, c := range []Column{TrainLoss, TrainAccuracy, TestLoss, TestAccuracy, EpochTime} {
		if _, ok := r.Value(c); ok {
			said |= 1 << c
		}
	}
	e, hasEpoch := r.Value(Epoch)
	s, hasStep := r.Value(Step)
	switch p.compare(r) {
	case -1:
		if hasEpoch {
			return true, fmt.Sprintf("epoch goes back from %g to %g", p.Epoch, e)
		}
		return true, fmt.Sprintf("step goes back from %g to %g", p.Step, s)
	case 0:
		again = said&p.Said != 0 || said == 0
		p.Said |= said
		if hasEpoch {
			return again, fmt.Sprintf("epoch %g again", e)
		}
		return again, fmt.Sprintf("step %g again", s)
	}
	if hasEpoch {
		p.Epoch = e
	}
	if hasStep {
		p.Step = s
	}
	p.Said = said
	return false, ""
}

// docMark is what a JSON document looked like when it was last read whole.
type docMark struct {
	size int64
	time time.Time
}

// errEnough ends the reading of a document for this Poll.
var errEnough = errors.New("enough rows")

// maxDocument is the largest JSON document that is read.
const maxDocument = 256 << 20

// readDocument reads the whole document when it has changed, or, to salvage, what is whole of one that is not
// complete. Entries that were given out before are left out.
func (t *Tail) readDocument(salvage bool) error {
	fi, err := t.follow.file.Stat()
	if err != nil {
		return err
	}
	mark := docMark{size: fi.Size(), time: fi.ModTime()}
	if t.stats.Behind = 0; mark == t.docAt && !salvage {
		return nil
	}
	if mark.size > maxDocument {
		return fmt.Errorf("JSON document of %d bytes: more than %d", mark.size, int64(maxDocument))
	}
	if t.seen.count > 0 || t.docAt != (docMark{}) {
		t.beginReplay()
	}
	err = t.doc.read(io.NewSectionReader(t.follow.file, 0, mark.size), t, salvage)
	t.stats.Bytes += mark.size
	switch {
	case errors.Is(err, errEnough):
		t.stats.Behind = mark.size
		return nil
	case errors.Is(err, errNotDocument):
		return err
	}
	// Any other error: half-written. It comes when it changes.
	t.docAt, t.docErr = mark, err
	return nil
}

// finishDocument takes what is whole of a document that nobody will complete any more.
func (t *Tail) finishDocument() error {
	if t.follow.file == nil || t.docErr == nil {
		return nil
	}
	t.bad(0, "JSON is not complete: "+t.docErr.Error())
	err := t.readDocument(true)
	t.docErr = nil
	return err
}
