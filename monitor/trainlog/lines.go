package trainlog

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is the character encoding of a log.
type encoding string

const (
	utf8Text encoding = ""
	utf16LE  encoding = "utf-16le"
	utf16BE  encoding = "utf-16be"
)

// newline returns the bytes of a line feed.
func (e encoding) newline() []byte {
	switch e {
	case utf16LE:
		return []byte{'\n', 0}
	case utf16BE:
		return []byte{0, '\n'}
	}
	return []byte{'\n'}
}

// splitter splits a stream of bytes into lines. A line ends with LF, CR LF, or CR alone, which progress bars write;
// the bytes after the last line end are held back. Byte order marks and NUL bytes are dropped and UTF-16 is converted
// to UTF-8. It holds at most maxLine bytes.
type splitter struct {
	maxLine int
	enc     encoding
	at      int64 // file offset after the last byte consumed
	start   int64 // file offset of the incomplete line
	n       int   // complete lines so far
	buf     []byte
	skip    bool   // the line is too long and is discarded
	afterCR bool   // a following LF belongs to the line end already seen
	odd     bool   // one byte of a two-byte character is left
	high    uint16 // first half of a surrogate pair
	nuls    int    // NUL bytes dropped
	plain   bool   // the chunk contains neither CR nor NUL

	safeAt   int64 // offset at which a restart may continue: between lines and records
	safeLine int
	safeCR   bool // afterCR at that offset
}

var utf8BOM = []byte("\ufeff")

func (s *splitter) readTo() int64 { return s.at }
func (s *splitter) held() bool    { return len(s.buf) > 0 || s.skip }

// commit marks everything up to the last complete line as used.
func (s *splitter) commit() { s.safeAt, s.safeLine, s.safeCR = s.start, s.n, s.afterCR }

// reset prepares for a new file.
func (s *splitter) reset() { *s = splitter{maxLine: s.maxLine, nuls: s.nuls} }

// resume continues at a committed offset.
func (s *splitter) resume(at int64, line int, afterCR bool, enc encoding) {
	*s = splitter{maxLine: s.maxLine, enc: enc, at: at, start: at, n: line, afterCR: afterCR, safeAt: at, safeLine: line, safeCR: afterCR}
}

// feed consumes the bytes after those of the previous call and calls emit with each complete line and its number.
// text is nil for a line that was too long, and is valid only during the call. feed returns the number of bytes
// consumed.
func (s *splitter) feed(chunk []byte, emit func(text []byte, n int)) int {
	if s.at == 0 {
		if len(chunk) < 2 && len(chunk) > 0 && chunk[0] >= 0xfe {
			s.odd = true
			return 0
		}
		s.enc = guessEncoding(chunk)
	}
	s.odd = false
	if s.enc != utf8Text {
		return s.feed16(chunk, emit)
	}
	from := s.at
	s.at += int64(len(chunk))
	s.plain = bytes.IndexByte(chunk, '\r') < 0 && bytes.IndexByte(chunk, 0) < 0
	for pos := 0; pos < len(chunk); {
		if s.afterCR {
			s.afterCR = false
			if chunk[pos] == '\n' {
				pos++
				s.start = from + int64(pos)
				continue
			}
		}
		end := bytes.IndexByte(chunk[pos:], '\n')
		if !s.plain {
			end = lineEnd(chunk[pos:])
		}
		if end < 0 {
			s.keep(chunk[pos:])
			break
		}
		text := chunk[pos : pos+end]
		s.afterCR = chunk[pos+end] == '\r'
		pos += end + 1
		s.start = from + int64(pos)
		if len(s.buf) > 0 || s.skip {
			s.keep(text)
			text = s.buf
		}
		s.finish(text, s.afterCR && (pos >= len(chunk) || chunk[pos] != '\n'), emit)
	}
	return len(chunk)
}

// lineEnd returns the index of the first CR or LF; -1 without one.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// keep appends to the held line, without NUL bytes.
func (s *splitter) keep(b []byte) {
	if s.skip {
		return
	}
	for len(b) > 0 && len(s.buf) <= s.maxLine {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			s.buf = append(s.buf, b...)
			break
		}
		s.buf = append(s.buf, b[:i]...)
		run := zeros(b[i:])
		s.nuls += run
		b = b[i+run:]
	}
	if len(s.buf) > s.maxLine {
		s.buf, s.skip = nil, true
	}
}

// jump skips n NUL bytes of a hole.
func (s *splitter) jump(n int64) {
	s.at += n
	s.nuls++
	s.afterCR = false
}

// zeros returns the number of leading NUL bytes.
func zeros(b []byte) int {
	n := 0
	for n+8 <= len(b) && binary.LittleEndian.Uint64(b[n:]) == 0 {
		n += 8
	}
	for n < len(b) && b[n] == 0 {
		n++
	}
	return n
}

// finish emits one line. An empty line that ends with CR alone is dropped: it is the carriage return of a progress
// bar.
func (s *splitter) finish(text []byte, loneCR bool, emit func([]byte, int)) {
	skipped := s.skip
	s.skip = false
	if !skipped {
		if !s.plain && bytes.IndexByte(text, 0) >= 0 {
			s.nuls += bytes.Count(text, []byte{0})
			text = bytes.ReplaceAll(text, []byte{0}, nil)
		}
		text = bytes.TrimPrefix(text, utf8BOM)
		if loneCR && len(text) == 0 {
			s.buf = s.buf[:0]
			return
		}
	}
	s.n++
	switch {
	case skipped || len(text) > s.maxLine:
		emit(nil, s.n)
	case text == nil:
		emit([]byte{}, s.n)
	default:
		emit(text, s.n)
	}
	if cap(s.buf) > 64<<10 {
		s.buf = nil
	}
	s.buf = s.buf[:0]
}

// last emits the unterminated last line, if any.
func (s *splitter) last(emit func([]byte, int)) {
	if !s.held() {
		return
	}
	s.start = s.at
	s.finish(s.buf, false, emit)
}

// guessEncoding returns the encoding of a file from its first bytes: a byte order mark, or NUL in every second byte.
func guessEncoding(b []byte) encoding {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return utf16LE
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return utf16BE
	case len(b) < 8:
		return utf8Text
	}
	zero := [2]int{}
	n := min(len(b), 64) &^ 1
	for i, c := range b[:n] {
		if c == 0 {
			zero[i&1]++
		}
	}
	switch n /= 2; {
	case zero[1] == n && zero[0] == 0:
		return utf16LE
	case zero[0] == n && zero[1] == 0:
		return utf16BE
	}
	return utf8Text
}

// feed16 is feed for UTF-16.
func (s *splitter) feed16(chunk []byte, emit func([]byte, int)) int {
	n := len(chunk) &^ 1
	s.odd = n != len(chunk)
	for i := 0; i < n; i += 2 {
		u := uint16(chunk[i]) | uint16(chunk[i+1])<<8
		if s.enc == utf16BE {
			u = uint16(chunk[i])<<8 | uint16(chunk[i+1])
		}
		s.at += 2
		afterCR := s.afterCR
		s.afterCR = false
		switch {
		case u == '\n' && afterCR:
			s.start = s.at
		case u == '\n' || u == '\r':
			s.start, s.afterCR = s.at, u == '\r'
			s.finish(s.buf, false, emit)
		default:
			s.unit(u)
		}
	}
	return n
}

// unit adds one UTF-16 code unit to the held line.
func (s *splitter) unit(u uint16) {
	r := rune(u)
	switch {
	case s.high != 0:
		r = utf16.DecodeRune(rune(s.high), r)
		s.high = 0
	case utf16.IsSurrogate(r):
		s.high = u
		return
	}
	if r == 0 || s.skip {
		return
	}
	if s.buf = utf8.AppendRune(s.buf, r); len(s.buf) > s.maxLine {
		s.buf, s.skip = nil, true
	}
}
