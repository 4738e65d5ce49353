package trainlog

import (
	"errors"
	"fmt"
	"testing"
)

// A log that contains rows of an earlier training is followed from their end, with its header, and from its beginning
// when it is rewritten.
func TestStateAt(t *testing.T) {
	b := newBench(t, TailOptions{})
	before := header2 + epochRows(1, 3)
	b.write(before)
	state, err := StateAt(b.path, TailOptions{}, int64(len(before)))
	b.ok(err)
	b.append(epochRows(1, 2))
	b.open(TailOptions{Resume: &state})
	want(t, "epochs", b.poll(), []float64{1, 2})
	want(t, "line", b.rows[0].Line, 5)
	b.write(header2 + epochRows(1, 4))
	want(t, "epochs when rewritten", b.poll(), []float64{3, 4})
	b.write("nothing known\n")
	if _, err := StateAt(b.path, TailOptions{}, 5); !errors.Is(err, ErrNoData) {
		t.Errorf("no format: %v", err)
	}
}

// In UTF-16, an offset inside a line moves to the line's beginning and never into the middle of a code unit, although
// the bytes of a line feed also occur inside of characters and across two of them.
func TestStateAtUTF16(t *testing.T) {
	rows := func(from, to int) string {
		text := ""
		for e := from; e <= to; e++ {
			text += fmt.Sprintf("%d,0.5,\u0a05\u0100\u0a05\u010a\n", e)
		}
		return text
	}
	for name, encode := range map[string]func(string) []byte{"little endian": utf16le, "big endian": utf16be} {
		before := encode("\ufeffepoch,train_loss,model_name\n" + rows(1, 3))
		for back := range 23 { // from the end of row 3 to its beginning
			b := newBench(t, TailOptions{})
			b.write(string(before))
			state, err := StateAt(b.path, TailOptions{}, int64(len(before)-back))
			b.ok(err)
			b.append(string(encode(rows(4, 5))))
			b.open(TailOptions{Resume: &state})
			epochs, line := []float64{4, 5}, 5
			if back > 0 {
				epochs, line = []float64{3, 4, 5}, 4
			}
			want(t, fmt.Sprintf("%s, %d bytes back: epochs", name, back), b.poll(), epochs)
			want(t, fmt.Sprintf("%s, %d bytes back: line", name, back), b.rows[0].Line, line)
			want(t, fmt.Sprintf("%s, %d bytes back: bad", name, back), b.stats().Bad, 0)
		}
	}
}
