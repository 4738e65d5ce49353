package monitor

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// countedBytes is up to where lines are counted, so that those behind have their own numbers.
const countedBytes = 4 << 20

// StateAt makes the state of a Tail that continues at an offset of a file, for a log that held the rows of an earlier
// training when this one began. Of what stands before, only the beginning is read, for the format and the header; an
// offset inside of a line moves to its beginning. Line numbers count from the offset when it is beyond 4 MiB. The error
// wraps ErrNoData when the beginning tells no format: then the file is to be read from its start.
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

// lineBegin finds the beginning of the line that an offset lies in, and counts the lines before it.
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
