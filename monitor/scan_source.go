package monitor

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// source reads the uncompressed bytes of a finished log.
type source struct {
	file *os.File
	gz   *gzip.Reader // nil if the file is not compressed
	read int64        // bytes read since the beginning
}

// openSource opens a log and detects gzip by its magic number.
func openSource(path string) (*source, error) {
	file, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	s := &source{file: file}
	var magic [3]byte
	if n, _ := file.ReadAt(magic[:], 0); n == len(magic) && magic == [3]byte{0x1f, 0x8b, 8} {
		if s.gz, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			file.Close()
			return nil, fmt.Errorf("%w: %w", errCompressed, err)
		}
	}
	return s, nil
}

// Close closes the file.
func (s *source) Close() error { return s.file.Close() }

// name returns the path without the extension of the compression.
func (s *source) name() string {
	if ext := filepath.Ext(s.file.Name()); s.gz != nil && strings.EqualFold(ext, ".gz") {
		return strings.TrimSuffix(s.file.Name(), ext)
	}
	return s.file.Name()
}

// Read reads uncompressed bytes; an error of the decompression wraps errCompressed.
func (s *source) Read(p []byte) (n int, err error) {
	if s.gz == nil {
		n, err = s.file.Read(p)
	} else if n, err = s.gz.Read(p); err != nil && err != io.EOF {
		err = fmt.Errorf("%w after %d bytes: %w", errCompressed, s.read+int64(n), err)
	}
	s.read += int64(n)
	return n, err
}

// Seek supports only the beginning of the log.
func (s *source) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, fmt.Errorf("seek to %d: only the beginning can be reached", offset)
	}
	return 0, s.rewind()
}

// rewind moves to the beginning.
func (s *source) rewind() error {
	s.read = 0
	if _, err := s.file.Seek(0, io.SeekStart); err != nil || s.gz == nil {
		return err
	}
	return s.gz.Reset(bufio.NewReader(s.file))
}

// peek returns the first recordHeader bytes and rewinds.
func (s *source) peek() []byte {
	first := make([]byte, recordHeader)
	n, _ := io.ReadFull(s, first)
	if s.rewind() != nil {
		return nil
	}
	return first[:n]
}

// skipHole skips unallocated NUL bytes from an offset on and returns their number.
func (s *source) skipHole(at int64) int64 {
	if s.gz != nil {
		return 0
	}
	n := holeAt(s.file, at)
	if _, err := s.file.Seek(at+n, io.SeekStart); err != nil {
		return 0
	}
	return n
}
