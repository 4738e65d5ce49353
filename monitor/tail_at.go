package monitor

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// countedBytes is the offset up to which StateAt counts lines, so that later rows have exact line numbers.
const countedBytes = 4 << 20

// StateAt returns the state of a Tail that continues at a byte offset, for a log that already contained the rows of
// an earlier training when this one started. Of the part before the offset, only the beginning is parsed, for the
// format and the header; an offset inside a line moves to the line's beginning. Beyond 4 MiB, line numbers count from
// the offset. The error wraps ErrNoData if the beginning does not reveal a format; the file must then be read from
// its start.
func StateAt(path string, o TailOptions, offset int64) (TailState, error) {
	fail := func(err error) (TailState, error) {
		return TailState{}, fmt.Errorf("continue training log %s at byte %d: %w", path, offset, err)
	}
	o.Resume, o.MaxBytes, o.MaxRows = nil, min(headBytes, offset), headBytes
	t, err := Open(path, o)
	if err != nil {
		return fail(err)
	}
	defer t.Close()
	if _, err := t.Poll(time.Time{}); err != nil {
		return fail(err)
	}
	if t.recognise(t.stats.Bytes >= offset); t.lp == nil {
		return fail(ErrNoData)
	}
	if table, ok := t.lp.(*table); ok && table.cells == nil {
		return fail(ErrNoData)
	}
	s := t.State()
	at, line, err := lineBegin(t.follow.file, offset)
	if err != nil {
		return fail(err)
	}
	s.Offset, s.Line, s.AfterCR = at, line, false
	s.Seen, s.Given, s.First = nil, 0, 0
	s.Furthest.clear()
	s.Stats = TailStats{Path: path}
	at1 := follower{file: t.follow.file}
	if at > 0 && !at1.reload(at) {
		return fail(io.ErrUnexpectedEOF)
	}
	s.HeadHash, s.TailHash = hashText(at1.head), hashText(at1.tail)
	return s, nil
}

// lineBegin returns the offset of the beginning of the line that contains offset, and the number of lines before it.
func lineBegin(file io.ReaderAt, offset int64) (at int64, line int, err error) {
	from := int64(0)
	if offset > countedBytes {
		from = offset - headBytes
	}
	buf := make([]byte, offset-from)
	if n, err := file.ReadAt(buf, from); n < len(buf) {
		return 0, 0, err
	}
	end := bytes.LastIndexByte(buf, '\n') + 1
	if end == 0 && from > 0 {
		end = len(buf) // a line longer than the window: its rest is one bad line
	}
	if from == 0 {
		line = bytes.Count(buf[:end], []byte{'\n'})
	}
	return from + int64(end), line, nil
}
