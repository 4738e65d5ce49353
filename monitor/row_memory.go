package monitor

import (
	"math"
	"math/bits"
)

// hasPosition reports whether a row contains a position in the training: epoch, step, elapsed time or timestamp.
func hasPosition(r *Row) bool {
	return r.has&(1<<Epoch|1<<Step|1<<TimeSoFar) != 0 || !r.Stamp.IsZero()
}

// rowHash returns a hash of a row's contents that does not depend on the order of columns or the notation of numbers.
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
	for i, s := range [...]string{r.Model, r.Dataset, r.Device} {
		if s != "" {
			h += mix(uint64(i)+3000, hashText(s))
		}
	}
	return h
}

// remembered is the number of most recent rows among which a repetition is recognised.
const remembered = 1024

// memory holds the hashes of the last returned rows in a hash table of fixed size with chained slots. All operations
// except load and all are O(1) on average.
type memory struct {
	ring  [remembered]uint64
	first [2 * remembered]uint16 // by hash: ring slot that holds it, plus one; 0 is empty
	next  [remembered]uint16     // next slot of the same chain, plus one
	count int                    // rows ever added
	met   bool                   // a remembered row has recurred since the reset
}

func (m *memory) chain(h uint64) *uint16 { return &m.first[h%uint64(len(m.first))] }

// add stores a hash and evicts the oldest one when the ring is full.
func (m *memory) add(h uint64) {
	slot := uint16(m.count % remembered)
	if m.count >= remembered {
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
func (m *memory) has(h uint64) bool {
	for at := *m.chain(h); at != 0; at = m.next[at-1] {
		if m.ring[at-1] == h {
			m.met = true
			return true
		}
	}
	return false
}

func (m *memory) overflowed() bool { return m.count > remembered }

// load restores the last hashes of a saved state that had counted count rows.
func (m *memory) load(hashes []uint64, count int) {
	*m = memory{count: count - len(hashes)}
	for _, h := range hashes {
		m.add(h)
	}
}

func (m *memory) last() uint64 { return m.ring[(m.count+remembered-1)%remembered] }

// all returns the remembered hashes, oldest first.
func (m *memory) all() []uint64 {
	n := min(m.count, remembered)
	out := make([]uint64, 0, n)
	for i := m.count - n; i < m.count; i++ {
		out = append(out, m.ring[i%remembered])
	}
	return out
}
