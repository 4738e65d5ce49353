package monitor

import (
	"bufio"
	"bytes"
	"io"
)

// A thinned table holds at most this much, header apart.
const (
	thinRows  = 50_000
	thinBytes = 32 << 20
)

// thinning bounds a table whose rows come as fast as a training prints: when it is full, every second row is removed, and
// from then on only every second one that comes is kept, then every fourth, and so on. The first row always stays, and
// the last one is written by Flush, so a thinned table spans the whole run. The zero value bounds nothing.
type thinning struct {
	rows   int // limits; 0: none
	bytes  int64
	stride int // every how many-th row is kept; 0 is 1
	seen   int // rows offered since the stride was set
	kept   int // rows in the file
	last   []byte
}

// Due counts one row that could be appended and reports whether it is to be. A caller that has no other use for the
// row need not make its values when it is not.
func (t *Table) Due() bool {
	due := t.thin.stride <= 1 || t.thin.seen%t.thin.stride == 0
	t.thin.seen++
	return due
}

// Offer holds a row that was not due, in place of the one that was offered before. It is written by Flush when no other
// row was appended since. Errors are as with Append.
func (t *Table) Offer(v Values) error {
	row, err := t.encode(v)
	if err == nil {
		t.thin.last = row
	}
	return err
}

// Flush writes the row that was offered last.
func (t *Table) Flush() error {
	if t.thin.last == nil {
		return nil
	}
	t.hold(t.thin.last)
	t.thin.last = nil
	return t.once(t.flush())
}

// full reports whether the table has reached its bound.
func (t *Table) full() bool {
	return t.thin.rows > 0 && (t.thin.kept >= t.thin.rows || t.size >= t.thin.bytes)
}

// halve removes every second row of the file and doubles the stride. When it fails the file stays as it is, and grows
// more slowly.
func (t *Table) halve() {
	t.thin.stride = 2 * max(t.thin.stride, 1)
	t.thin.seen = 0
	before := t.thin.kept
	t.thin.kept /= 2
	kept := 0
	err := writeWhole(t.path, func(w *bufio.Writer) error {
		from := bufio.NewReader(io.NewSectionReader(t.file, 0, t.size))
		for n := 0; ; n++ {
			line, err := from.ReadBytes('\n')
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if n > 0 && n%2 == 0 { // the header is line 0
				continue
			}
			kept += min(n, 1)
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return
	}
	if before%2 == 1 { // the last row of the file was kept
		t.thin.seen = 1
	}
	t.file.Close()
	t.file, t.size, t.thin.kept = nil, 0, kept
}

// countRows counts the lines of a file up to an offset, without its header.
func countRows(f io.ReaderAt, size int64) int {
	n, buf := 0, make([]byte, 64<<10)
	for r := io.NewSectionReader(f, 0, size); ; {
		k, err := r.Read(buf)
		n += bytes.Count(buf[:k], []byte("\n"))
		if err != nil {
			return max(0, n-1)
		}
	}
}
