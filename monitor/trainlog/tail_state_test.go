package trainlog

import (
	"errors"
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
