package morl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// errDamaged reports stored bytes that are truncated, corrupted or in another format.
var errDamaged = errors.New("damaged")

// replayMagic starts the stored form of a Replay, little-endian: magic, state, actions, objectives, capacity, stored,
// next (uint32 each); the stored rows of state, next state, reward, discount (float32), action (int32), the two masks
// (one byte each); CRC-32C of all preceding bytes.
const replayMagic = 0x31505254 // "TRP1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the transitions with a checksum, in O(stored × row).
func (r *replay) Save(w io.Writer) error {
	sum := crc32.New(castagnoli)
	both := io.MultiWriter(w, sum)
	s, m, a := r.shape.State, len(r.shape.Objectives), r.shape.Actions
	for _, part := range []any{r.header(), r.state[:r.n*s], r.following[:r.n*s], r.reward[:r.n*m], r.discount[:r.n], r.action[:r.n],
		r.open[:r.n*a], r.openNext[:r.n*a]} {
		if err := binary.Write(both, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("save replay of %d transitions: %w", r.n, err)
		}
	}
	if err := binary.Write(w, binary.LittleEndian, sum.Sum32()); err != nil {
		return fmt.Errorf("save replay of %d transitions: %w", r.n, err)
	}
	return nil
}

// header returns the fields that precede the rows.
func (r *replay) header() [7]uint32 {
	return [7]uint32{replayMagic, uint32(r.shape.State), uint32(r.shape.Actions), uint32(len(r.shape.Objectives)), uint32(r.size), uint32(r.n), uint32(r.next)}
}

// Load replaces the transitions by the output of Save for a buffer of the same shape and capacity, and reads no
// further. After an error the buffer is unchanged; the error wraps ErrForeign if shape or capacity differ, and
// errDamaged if the bytes are not an output of Save.
func (r *replay) Load(from io.Reader) error {
	in := &summed{r: from}
	var h [7]uint32
	if err := in.read(h[:]); err != nil {
		return fmt.Errorf("load replay: header: %w", err)
	}
	if h[0] != replayMagic {
		return fmt.Errorf("load replay: it starts with %#x, want %#x: %w", h[0], uint32(replayMagic), errDamaged)
	}
	want := r.header()
	for i, what := range []string{1: "state numbers", "actions", "objectives", "places"} {
		if h[i] != want[i] {
			return fmt.Errorf("load replay: %d %s, want %d: %w", h[i], what, want[i], ErrForeign)
		}
	}
	if h[5] > h[4] || h[6] >= max(h[4], 1) || h[5] < h[4] && h[6] != h[5] {
		return fmt.Errorf("load replay: %d stored in %d places, the next at %d: %w", h[5], h[4], h[6], errDamaged)
	}
	got, err := readRows(in, r.shape, int(h[5]))
	if err != nil {
		return fmt.Errorf("load replay of %d transitions: %w", h[5], err)
	}
	copy(r.state, got.state)
	copy(r.following, got.following)
	copy(r.reward, got.reward)
	copy(r.discount, got.discount)
	copy(r.action, got.action)
	copy(r.open, got.open)
	copy(r.openNext, got.openNext)
	r.n, r.next = int(h[5]), int(h[6])
	return nil
}

// readRows reads the rows and the checksum, and validates them.
func readRows(in *summed, s Shape, rows int) (*replay, error) {
	got := newReplay(s, rows)
	open, openNext := make([]byte, len(got.open)), make([]byte, len(got.openNext))
	for _, part := range []any{got.state, got.following, got.reward, got.discount, got.action, open, openNext} {
		if err := in.read(part); err != nil {
			return nil, err
		}
	}
	sum := in.sum
	var stored [1]uint32
	if err := in.read(stored[:]); err != nil {
		return nil, err
	}
	if stored[0] != sum {
		return nil, fmt.Errorf("checksum %#x, stored %#x: %w", sum, stored[0], errDamaged)
	}
	for _, part := range [][]float32{got.state, got.following, got.reward, got.discount} {
		for i, v := range part {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("number %d is %v: %w", i, v, errDamaged)
			}
		}
	}
	for i, a := range got.action {
		if a < 0 || int(a) >= s.Actions {
			return nil, fmt.Errorf("transition %d: action %d of %d: %w", i, a, s.Actions, errDamaged)
		}
	}
	for i := range open {
		if open[i] > 1 || openNext[i] > 1 {
			return nil, fmt.Errorf("mask %d is neither 0 nor 1: %w", i, errDamaged)
		}
		got.open[i], got.openNext[i] = open[i] == 1, openNext[i] == 1
	}
	return got, nil
}

// summed computes the CRC-32C of the bytes read.
type summed struct {
	r   io.Reader
	sum uint32
}

// Read implements io.Reader.
func (s *summed) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.sum = crc32.Update(s.sum, castagnoli, b[:n])
	return n, err
}

// read reads a value; a premature end of the input is errDamaged.
func (s *summed) read(into any) error {
	err := binary.Read(s, binary.LittleEndian, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is cut off: %w", errDamaged)
	}
	return err
}
