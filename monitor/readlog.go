package monitor

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// ReadLog reads a log that nobody writes any more, whole. Rows have the zero At. The error wraps ErrNoData when
// the file has no row, and fs.ErrNotExist when there is no file.
func ReadLog(path string, o TailOptions) ([]Row, TailStats, error) {
	o.MaxBytes, o.MaxRows = 64<<20, 1<<20
	t, err := Open(path, o)
	if err != nil {
		return nil, TailStats{Path: path}, err
	}
	defer t.Close()
	if _, err := os.Stat(path); err != nil {
		return nil, t.Stats(), fmt.Errorf("read training log: %w", err)
	}
	var rows []Row
	for {
		more, err := t.Finish(time.Time{})
		rows = append(rows, more...)
		s := t.Stats()
		switch {
		case err != nil:
			return rows, s, fmt.Errorf("read training log %s: %w", path, err)
		case s.Missing:
			return rows, s, fmt.Errorf("read training log %s: %w", path, fs.ErrNotExist)
		case s.Behind == 0 && len(rows) == 0:
			return nil, s, fmt.Errorf("read training log %s: no row in it%s: %w", path, firstBad(s), ErrNoData)
		case s.Behind == 0:
			return rows, s, nil
		}
	}
}

func firstBad(s TailStats) string {
	if len(s.FirstBad) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d bad lines, the first: %s)", s.Bad, s.FirstBad[0])
}
