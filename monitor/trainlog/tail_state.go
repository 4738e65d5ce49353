package trainlog

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// tailVersion is the version of TailState; states of other versions are rejected.
const tailVersion = 1

// TailState is the position of a Tail: everything that a restarted agent requires to continue without returning a row
// twice. It is plain data (about 12 KiB as JSON) and is valid between two calls of Poll.
type TailState struct {
	Version  int         `json:"version"`
	Path     string      `json:"path"`
	Device   uint64      `json:"device"`
	Inode    uint64      `json:"inode"`
	Offset   int64       `json:"offset"`             // end of the last record used
	Line     int         `json:"line"`               // lines before Offset
	AfterCR  bool        `json:"after_cr,omitempty"` // a LF at Offset belongs to the line before
	Encoding encoding    `json:"encoding,omitempty"`
	Format   string      `json:"format,omitempty"`
	Parser   parserState `json:"parser"`
	// HeadHash and TailHash are hashes of the first bytes of the file and of the bytes before Offset.
	HeadHash uint64    `json:"head_hash"`
	TailHash uint64    `json:"tail_hash"`
	Seen     rowHashes `json:"seen"`
	Given    int       `json:"given"` // rows ever returned
	First    uint64    `json:"first"` // hash of the first row of the file
	Furthest position  `json:"furthest"`
	Stats    TailStats `json:"stats"`
}

// rowHashes are 64-bit hashes, encoded as base64.
type rowHashes []uint64

// MarshalText encodes each hash as eight little-endian bytes, in base64.
func (h rowHashes) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 8*len(h))
	for _, v := range h {
		raw = binary.LittleEndian.AppendUint64(raw, v)
	}
	return []byte(base64.StdEncoding.EncodeToString(raw)), nil
}

// UnmarshalText decodes the encoding of MarshalText.
func (h *rowHashes) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return err
	}
	if len(raw)%8 != 0 || len(raw)/8 > maxRecentRows {
		return fmt.Errorf("%d bytes of row hashes", len(raw))
	}
	*h = nil
	for ; len(raw) > 0; raw = raw[8:] {
		*h = append(*h, binary.LittleEndian.Uint64(raw))
	}
	return nil
}

// check returns an error if the state is of another version or path, is damaged, or has a format that is not
// followed.
func (s *TailState) check(path string) error {
	switch {
	case s.Version != tailVersion:
		return fmt.Errorf("state has version %d, want %d", s.Version, tailVersion)
	case s.Path != path:
		return fmt.Errorf("state is of %s", s.Path)
	case s.Offset < 0 || s.Line < 0 || s.Given < len(s.Seen):
		return fmt.Errorf("state is damaged: offset %d, line %d, %d rows", s.Offset, s.Line, s.Given)
	case formats[s.Format].records != nil && !formats[s.Format].followed:
		return errNotFollowed
	}
	return checkFormat(s.Format)
}

// Again states that the job starts again. Rows that it appends count as work done again although they are equal to earlier ones. In a
// log with one row per epoch, another row of the last epoch is then that of the epoch done again, at other steps on fewer devices.
func (t *Tail) Again() {
	t.again = true
	if t.resume != nil {
		s := *t.resume
		s.Parser.Ends.again()
		t.resume = &s
	}
	if t.lp != nil {
		s := t.lp.save()
		s.Ends.again()
		t.lp.load(s)
	}
}

// State returns the current position of the Tail.
func (t *Tail) State() TailState {
	if t.resume != nil { // nothing has been read since
		return *t.resume
	}
	s := TailState{
		Version: tailVersion, Path: t.path, Format: t.name,
		Offset: t.lines.safeAt, Line: t.lines.safeLine, AfterCR: t.lines.safeCR, Encoding: t.lines.enc,
		Seen: t.seen.all(), Given: t.seen.count, First: t.first, Furthest: t.furthest, Stats: t.Stats(),
	}
	s.Device, s.Inode = t.follow.identity()
	if t.lp != nil {
		s.Parser = t.lp.save()
	}
	if f := t.follow.file; f != nil && s.Offset > 0 {
		s.HeadHash, s.TailHash, _ = contentHashes(f, s.Offset)
	}
	return s
}

// restore applies the parts of a state that do not depend on the file.
func (t *Tail) restore(s *TailState) {
	t.stats = s.Stats
	t.stats.Path = t.path
	t.stats.FirstBad = append([]BadRow(nil), s.Stats.FirstBad...)
	t.stats.FirstNoted = append([]BadRow(nil), s.Stats.FirstNoted...)
	for _, b := range t.stats.FirstBad {
		t.badSeen[badHash(b.Line, b.Reason)] = true
	}
	if t.name == "" && s.Format != "" {
		t.use(s.Format)
	}
	if t.lp != nil && t.name == s.Format {
		t.lp.load(s.Parser)
	}
	t.seen.load(s.Seen, s.Given)
	t.furthest, t.first = s.Furthest, s.First
}

// continueAt continues at the offset of the state if the open file has the same content as the state's file: the same
// beginning and the same bytes before the offset. Otherwise it starts from the beginning.
func (t *Tail) continueAt(s *TailState) {
	t.resume = nil
	if s.Offset == 0 && s.Given == 0 {
		return
	}
	fi, err := t.follow.file.Stat()
	if err == nil && s.Offset > 0 && fi.Size() >= s.Offset && t.follow.reload(s.Offset) &&
		hashText(t.follow.head) == s.HeadHash && hashText(t.follow.tail) == s.TailHash {
		t.lines.resume(s.Offset, s.Line, s.AfterCR, s.Encoding)
		t.docAt = documentStamp{}
		return
	}
	t.follow.forget()
	if t.doc == nil && !t.kind.followed {
		t.stats.Resets++
		t.note(0, "file replaced between two agents")
	}
	if t.lp != nil {
		t.lp.restart()
	}
	t.beginReplay()
}

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
	if table, ok := t.lp.(*csvParser); ok && table.cells == nil {
		return fail(ErrNoData)
	}
	s := t.State()
	at, line, err := lineBegin(t.follow.file, offset, t.lines.enc)
	if err != nil {
		return fail(err)
	}
	s.Offset, s.Line, s.AfterCR = at, line, false
	s.Parser.Ends.Rows = 0 // the rows at the offset are of a later epoch
	s.Seen, s.Given, s.First = nil, 0, 0
	s.Furthest.clear()
	s.Stats = TailStats{Path: path}
	var ok bool
	if s.HeadHash, s.TailHash, ok = contentHashes(t.follow.file, at); !ok {
		return fail(io.ErrUnexpectedEOF)
	}
	return s, nil
}

// lineBegin returns the offset of the beginning of the line that contains offset, and the number of lines before it.
// In UTF-16, only whole code units from the beginning of the file are compared with the line end.
func lineBegin(file io.ReaderAt, offset int64, enc encoding) (at int64, line int, err error) {
	newline := enc.newline()
	unit := len(newline)
	offset -= offset % int64(unit)
	from := int64(0)
	if offset > countedBytes {
		from = offset - headBytes
	}
	buf := make([]byte, offset-from)
	if n, err := file.ReadAt(buf, from); n < len(buf) {
		return 0, 0, err
	}
	end := 0
	for pos := 0; ; {
		i := bytes.Index(buf[pos:], newline)
		if i < 0 {
			break
		}
		if pos += i; pos%unit != 0 { // the halves of two code units
			pos++
			continue
		}
		pos += unit
		end, line = pos, line+1
	}
	if from > 0 {
		line = 0 // lines count from here
		if end == 0 {
			end = len(buf) // a line longer than the window: its rest is one bad line
		}
	}
	return from + int64(end), line, nil
}
