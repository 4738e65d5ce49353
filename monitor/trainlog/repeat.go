package trainlog

import (
	"fmt"
	"math"
	"math/bits"
)

// hasPosition reports whether a row contains a position in the training: epoch, step, elapsed time or timestamp.
func hasPosition(r *Row) bool {
	return r.has&(1<<Epoch|1<<Step|1<<TimeSoFar) != 0 || !r.Stamp.IsZero()
}

// rowHash returns a hash of a row's contents except its texts that does not depend on the order of columns or the notation of numbers.
// It excludes the total epochs, the total steps and the batch size, which are settings rather than results.
func rowHash(r *Row, extra uint64) uint64 {
	h := extra
	for left := r.has &^ (1<<TotalEpochs | 1<<TotalSteps | 1<<BatchSize); left != 0; left &= left - 1 {
		c := bits.TrailingZeros32(left)
		h += mix(uint64(c)+1, math.Float64bits(r.values[c]))
	}
	for i, v := range r.GPUUtil {
		if !math.IsNaN(v) {
			h += mix(uint64(i)+1000, math.Float64bits(v))
		}
	}
	if !r.Stamp.IsZero() {
		h += mix(2000, uint64(r.Stamp.UnixNano()))
	}
	return h
}

// textHashes holds the last texts of a log and their part of the hash of a row.
type textHashes [3]struct {
	text string
	hash uint64
}

// of returns the part of the texts of a row.
func (t *textHashes) of(r *Row) (h uint64) {
	for i, s := range [...]*string{&r.Model, &r.Dataset, &r.Device} {
		if *s == "" {
			continue
		}
		if m := &t[i]; m.text != *s {
			m.text, m.hash = *s, mix(uint64(i)+3000, hashText(*s))
		}
		h += t[i].hash
	}
	return h
}

// hashText returns the FNV-1a hash of s, which is stable across processes and machines, unlike hash/maphash.
func hashText[T []byte | string](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix returns a well-distributed hash of a key and a value (splitmix64). Sums of such hashes are comparable.
func mix(key, v uint64) uint64 {
	h := key*0x9e3779b97f4a7c15 ^ v
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// maxRecentRows is the number of most recent rows among which a repetition is recognised.
const maxRecentRows = 1024

// recentRows holds the hashes of the last returned rows in a hash table of fixed size with chained slots. All operations
// except load and all are O(1) on average.
type recentRows struct {
	ring     [maxRecentRows]uint64
	first    [2 * maxRecentRows]uint16 // by hash: ring slot that holds it, plus one; 0 is empty
	next     [maxRecentRows]uint16     // next slot of the same chain, plus one
	count    int                       // rows ever added
	recurred bool                      // a remembered row has recurred since the reset
}

func (m *recentRows) chain(h uint64) *uint16 { return &m.first[h%uint64(len(m.first))] }

// add stores a hash and evicts the oldest one when the ring is full.
func (m *recentRows) add(h uint64) {
	slot := uint16(m.count % maxRecentRows)
	if m.count >= maxRecentRows {
		link := m.chain(m.ring[slot])
		for *link != slot+1 && *link != 0 {
			link = &m.next[*link-1]
		}
		if *link != 0 { // a restored state may hold fewer hashes than it counts
			*link = m.next[slot]
		}
	}
	first := m.chain(h)
	m.ring[slot], m.next[slot], *first = h, *first, slot+1
	m.count++
}

// has reports whether h is remembered.
func (m *recentRows) has(h uint64) bool {
	for at := *m.chain(h); at != 0; at = m.next[at-1] {
		if m.ring[at-1] == h {
			m.recurred = true
			return true
		}
	}
	return false
}

func (m *recentRows) overflowed() bool { return m.count > maxRecentRows }

// load restores the last hashes of a saved state that had counted count rows.
func (m *recentRows) load(hashes []uint64, count int) {
	*m = recentRows{count: count - len(hashes)}
	for _, h := range hashes {
		m.add(h)
	}
}

func (m *recentRows) last() uint64 { return m.ring[(m.count+maxRecentRows-1)%maxRecentRows] }

// all returns the remembered hashes, oldest first.
func (m *recentRows) all() []uint64 {
	n := min(m.count, maxRecentRows)
	out := make([]uint64, 0, n)
	for i := m.count - n; i < m.count; i++ {
		out = append(out, m.ring[i%maxRecentRows])
	}
	return out
}

// position is the furthest point that a log has reached; -1 where unknown.
type position struct {
	Epoch float64 `json:"epoch"`
	Step  float64 `json:"step"`
	Time  float64 `json:"time"` // time_so_far of the last row
	// Columns has a bit for each column with a value at this point.
	Columns uint32 `json:"said"`
}

func (p *position) clear() { *p = position{Epoch: -1, Step: -1, Time: -1} }

// compare reports whether the row is before (-1), at (0) or beyond (1) the furthest point. A row without epoch and
// step is never before it.
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

// results are the columns in which a row can add information about a point already reached.
const results uint32 = 1<<TrainLoss | 1<<TrainAccuracy | 1<<TestLoss | 1<<TestAccuracy | 1<<EpochTime

// advance moves the furthest point. again is true if the row adds nothing: it lies before that point, or at that
// point either with a result already present (the validation row of a step has other results than its training row)
// or without any result or other new column.
func (p *position) advance(r *Row) (again bool) {
	switch p.compare(r) {
	case -1:
		return true
	case 0:
		again = r.has&p.Columns&results != 0 || r.has&(results|^p.Columns) == 0
		p.Columns |= r.has
		return again
	}
	if e, ok := r.Value(Epoch); ok {
		p.Epoch = e
	}
	if s, ok := r.Value(Step); ok {
		p.Step = s
	}
	p.Columns = r.has
	return false
}

// Plausibility limits of a training.
const (
	maxEpochs = 1e8
	maxSteps  = 1e15
	maxLeap   = 1000 // factor over the previous epoch or the total
)

// implausible returns a column whose value no training reaches: a clock or an identifier in the wrong column, or
// damage.
func (p *position) implausible(r *Row) (c Column, wrong bool) {
	if r.has&(1<<Step|1<<TotalSteps|1<<Epoch|1<<TotalEpochs) == 1<<Step && r.values[Step] <= maxSteps {
		return 0, false
	}
	for _, c := range []Column{Step, TotalSteps} {
		if v, ok := r.Value(c); ok && v > maxSteps {
			return c, true
		}
	}
	for _, c := range []Column{Epoch, TotalEpochs} {
		if v, ok := r.Value(c); ok && v > maxEpochs {
			return c, true
		}
	}
	e, _ := r.Value(Epoch)
	if total, ok := r.Value(TotalEpochs); ok && e > maxLeap*(total+1) || p.Epoch >= 0 && e > maxLeap*maxLeap && e > maxLeap*(p.Epoch+1) {
		return Epoch, true
	}
	return 0, false
}

// describeRepeat describes how a row repeats the furthest point p.
func (p *position) describeRepeat(r *Row) string {
	back := p.compare(r) < 0
	name, at, to := "step", p.Step, r.values[Step]
	if e, ok := r.Value(Epoch); ok && !(back && e == p.Epoch) {
		name, at, to = "epoch", p.Epoch, e
	}
	if back {
		return fmt.Sprintf("%s goes back from %g to %g", name, at, to)
	}
	return fmt.Sprintf("%s %g again", name, to)
}
