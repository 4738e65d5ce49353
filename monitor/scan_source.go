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

// source is the bytes of a finished log from the beginning, uncompressed.
type source struct {
	file *os.File
	gz   *gzip.Reader // nil when the file is not compressed
	read int64        // bytes given since the beginning
}

// openSource opens a log.
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

func (s *source) Close() error { return s.file.Close() }

// name is the path without what compression added to it.
func (s *source) name() string {
	if ext := filepath.Ext(s.file.Name()); s.gz != nil && strings.EqualFold(ext, ".gz") {
		return strings.TrimSuffix(s.file.Name(), ext)
	}
	return s.file.Name()
}

func (s *source) Read(p []byte) (n int, err error) {
	if s.gz == nil {
		n, err = s.file.Read(p)
	} else if n, err = s.gz.Read(p); err != nil && err != io.EOF {
		err = fmt.Errorf("%w after %d bytes: %w", errCompressed, s.read+int64(n), err)
	}
	s.read += int64(n)
	return n, err
}

// Seek goes back to the beginning; there is no other place to go to.
func (s *source) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, fmt.Errorf("seek to %d: only the beginning can be reached", offset)
	}
	return 0, s.rewind()
}

func (s *source) rewind() error {
	s.read = 0
	if _, err := s.file.Seek(0, io.SeekStart); err != nil || s.gz == nil {
		return err
	}
	return s.gz.Reset(bufio.NewReader(s.file))
}

// peek gives the first bytes, as many as a record's header has, and goes back to the beginning.
func (s *source) peek() []byte {
	first := make([]byte, recordHeader)
	n, _ := io.ReadFull(s, first)
	if s.rewind() != nil {
		return nil
	}
	return first[:n]
}

// skipHole goes over NUL bytes from an offset on that are not stored at all, and says how many they are.
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
