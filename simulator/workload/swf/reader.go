package swf

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// LineError describes a line that is not a job. Reading can continue after it.
type LineError struct {
	Line int // from 1
	What string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.What) }

// Reader reads the jobs of a trace one by one in constant memory.
type Reader struct {
	in     *bufio.Reader
	line   int
	header Header
	begun  bool  // a job was read
	err    error // final error
}

// longest is the maximum length of a job's line in bytes.
const longest = 1 << 16

// NewReader returns a reader of a trace, plain or gzip, detected by its first bytes.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, longest)
	head, err := in.Peek(2)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack trace: %w", unexpected(err))
		}
		in = bufio.NewReaderSize(z, longest)
	}
	if head, _ := in.Peek(3); bytes.Equal(head, []byte{0xef, 0xbb, 0xbf}) {
		in.Discard(3)
	}
	return &Reader{in: in}, nil
}

// unexpected maps io.EOF to io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Header returns the comments before the first job; complete once Read has returned.
func (r *Reader) Header() Header { return r.header }

// Line returns the number of the line last read, from 1.
func (r *Reader) Line() int { return r.line }

// Read sets rec to the next job, skipping blank lines and comments. It returns io.EOF at the end and a *LineError for
// a line that is not a job, after which reading can continue; any other error, such as a truncated compressed file, is
// final.
func (r *Reader) Read(rec *Record) error {
	for r.err == nil {
		text, err := r.next()
		if err != nil {
			if err != io.EOF {
				err = fmt.Errorf("line %d: %w", r.line, err)
			}
			r.err = err
		}
		text = bytes.TrimLeft(text, " \t\r\n\v\f")
		if len(text) == 0 {
			continue
		}
		if text[0] == ';' {
			if !r.begun {
				r.header = append(r.header, parseComment(string(text[1:])))
			}
			continue
		}
		r.begun = true
		if errors.Is(r.err, io.ErrUnexpectedEOF) {
			break // an incomplete line is not a job
		}
		if len(text) >= longest-1 {
			return &LineError{r.line, fmt.Sprintf("longer than %d bytes", longest)}
		}
		return r.parse(text, rec)
	}
	return r.err
}

// next returns the next line, or the first part of one that is too long.
func (r *Reader) next() ([]byte, error) {
	text, err := r.in.ReadSlice('\n')
	if len(text) > 0 || err == nil {
		r.line++
	}
	if err != bufio.ErrBufferFull {
		return text, err
	}
	first := bytes.Clone(text)
	for err == bufio.ErrBufferFull {
		_, err = r.in.ReadSlice('\n')
	}
	return first, err
}

// parse sets rec to the fields of a line.
func (r *Reader) parse(text []byte, rec *Record) error {
	n := 0
	for i := 0; ; n++ {
		for i < len(text) && blank(text[i]) {
			i++
		}
		if i == len(text) {
			break
		}
		from := i
		for i < len(text) && !blank(text[i]) {
			i++
		}
		if n >= fields {
			continue
		}
		v, ok := number(text[from:i])
		if !ok {
			return &LineError{r.line, fmt.Sprintf("field %d is %.40q, want a number", n+1, text[from:i])}
		}
		rec[n] = v
	}
	if n < fields {
		return &LineError{r.line, fmt.Sprintf("%d fields, want %d", n, fields)}
	}
	return nil
}

func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// number parses a decimal number; short integers, by far the most frequent case, have a fast path. Non-finite values
// are invalid.
func number(s []byte) (float64, bool) {
	digits := s
	negative := s[0] == '-'
	if negative {
		digits = s[1:]
	}
	if len(digits) > 0 && len(digits) <= 15 {
		var v int64
		whole := true
		for _, c := range digits {
			if c < '0' || c > '9' {
				whole = false
				break
			}
			v = 10*v + int64(c-'0')
		}
		if whole && negative {
			return -float64(v), true
		}
		if whole {
			return float64(v), true
		}
	}
	v, err := strconv.ParseFloat(string(s), 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !bytes.ContainsAny(s, "xX_")
}
