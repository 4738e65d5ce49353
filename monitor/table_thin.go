package monitor

import (
	"bufio"
	"bytes"
	"io"

	"trainopt/internal/regular"
)

// Limits of a thinned table, without its header.
const (
	thinRows  = 50_000
	thinBytes = 32 << 20
)

// thinning bounds a table whose rows arrive as fast as a training prints. When the table is full, every second row is
// removed, and from then on only every second new row is kept, then every fourth, and so on. The first row is always
// kept and Flush writes the last one, so that a thinned table spans the whole run. The zero value sets no limit.
type thinning struct {
	rows   int // limits; 0: none
	bytes  int64
	stride int // one in stride rows is kept; 0 is 1
	seen   int // rows offered since the stride was set
	kept   int // rows in the file
	last   []byte
}

// Due counts one row and reports whether it is to be appended. A caller need not compute the values of a row that is
// not due.
func (t *Table) Due() bool {
	due := t.thin.stride <= 1 || t.thin.seen%t.thin.stride == 0
	t.thin.seen++
	return due
}

// Offer holds a row that is not due, in place of the previously offered row. Flush writes it unless another row has
// been appended since. Errors are as for Append.
func (t *Table) Offer(v Values) error {
	row, err := t.encode(v)
	if err == nil {
		t.thin.last = row
	}
	return err
}

// Flush writes the last offered row.
func (t *Table) Flush() error {
	if t.thin.last == nil {
		return nil
	}
	t.hold(t.thin.last)
	t.thin.last = nil
	return t.firstWriteError(t.flush())
}

// full reports whether the table has reached its limit.
func (t *Table) full() bool {
	return t.thin.rows > 0 && (t.thin.kept >= t.thin.rows || t.size >= t.thin.bytes)
}

// halve removes every second row of the file and doubles the stride. On failure the file is unchanged and grows more
// slowly. Cost: O(size of the file).
func (t *Table) halve() {
	t.thin.stride = 2 * max(t.thin.stride, 1)
	t.thin.seen = 0
	before := t.thin.kept
	t.thin.kept /= 2
	kept := 0
	err := regular.Replace(t.path, 0o600, func(w io.Writer) error {
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

// countRows returns the number of rows of a file up to an offset, without its header.
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
