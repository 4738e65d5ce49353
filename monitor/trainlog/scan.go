package trainlog

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"trainopt/internal/regular"
)

// Scan reads a finished log in a single pass and calls each with every row, oldest first. The row and its slices are
// valid only during the call; Clone makes a copy. At is zero in all rows. An error from each ends the scan and is
// returned.
//
// The path is a log in any of the Formats, plain or gzip-compressed (detected by content, regardless of its name), or
// a directory in which a framework stores its log: trainer_state.json (also in the last checkpoint-N of a run),
// results.csv, metrics.csv, TensorBoard event files, or a run of W&B or of an MLflow file store. TailStats.Path is the file that was read.
//
// Memory does not grow with the file: Scan holds one line of up to MaxLine bytes and the hashes of the last 1024
// rows. A row equal to one of these 1024 is skipped as a duplicate; a repetition of an older row is returned, with
// Repeated set if its epoch or step had been passed. Lightning and Hugging Face write the training and validation values
// of one step in separate rows; consecutive rows of one step are merged.
//
// The options MaxBytes, MaxRows and Resume apply to a Tail only and are ignored. The error wraps ErrNoData if there
// is no row, and fs.ErrNotExist if there is no file.
func Scan(path string, o TailOptions, each func(*Row) error) (TailStats, error) {
	s := scan{each: each}
	if err := s.begin(path, o); err != nil {
		return TailStats{Path: path}, fmt.Errorf("open training log %s: %w", path, err)
	}
	s.deliver, s.full = s.take, func() bool { return s.err != nil }
	err := s.run(path)
	if s.err == nil {
		s.release()
	}
	stats := s.report()
	switch {
	case s.err != nil:
		return stats, s.err
	case err != nil:
		return stats, fmt.Errorf("read training log %s: %w", stats.Path, err)
	case stats.Rows == 0:
		return stats, fmt.Errorf("read training log %s: %w in it%s; known formats: %s", stats.Path, ErrNoData, firstBad(stats), strings.Join(Formats(), ", "))
	}
	return stats, nil
}

// firstBad describes the first bad line for an error message; empty if none exists.
func firstBad(s TailStats) string {
	if len(s.FirstBad) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d lines rejected, the first: %s", s.Bad, s.FirstBad[0])
}

// ReadLog is Scan with all rows collected in memory.
func ReadLog(path string, o TailOptions) ([]Row, TailStats, error) {
	var rows []Row
	s, err := Scan(path, o, func(r *Row) error {
		rows = append(rows, r.Clone())
		return nil
	})
	return rows, s, err
}

// scan is the state of one call of Scan.
type scan struct {
	ingest
	each func(*Row) error
	err  error // error returned by each
	held Row   // of a sparse format: the row that the next one may complete
	has  bool
}

// take passes a row on, or holds it until it is known whether the next row completes it.
func (s *scan) take(r *Row) {
	switch {
	case s.err != nil:
	case !s.kind.sparse:
		s.err = s.each(r)
	case s.has && s.held.complete(r):
		s.stats.Rows--
	default:
		s.release()
		s.held, s.has = r.Clone(), true
	}
}

// release passes the held row on.
func (s *scan) release() {
	if s.has && s.err == nil {
		s.has = false
		s.err = s.each(&s.held)
	}
}

// run resolves a directory to the log in it, opens the log and dispatches on its kind: event records, JSON document
// or lines.
func (s *scan) run(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return pathless(err)
	}
	if info.IsDir() {
		if path, err = logIn(path, s.name); err != nil {
			return err
		}
		if info, err = os.Stat(path); err != nil {
			return pathless(err)
		}
		s.stats.Path = path
	}
	switch {
	case info.IsDir():
		if isMLflowRun(path) {
			s.use("mlflow")
		} else {
			s.use("tensorboard")
		}
		return s.records(path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is a %s, not a file", regular.Kind(info.Mode()))
	}
	src, err := openSource(path)
	if err != nil {
		return pathless(err)
	}
	defer src.Close()
	s.path = src.name()
	s.forgetHead()
	if s.name == "" {
		if name := recordFormat(src.peek()); name != "" {
			s.use(name)
		}
	}
	switch {
	case s.kind.records != nil:
		return s.records(path)
	case s.doc != nil:
		return s.document(src)
	}
	return s.text(src)
}

// pathless removes the path from an error, because Scan adds it.
func pathless(err error) error {
	if pe := new(os.PathError); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// records reads a binary log.
func (s *scan) records(path string) error {
	var err error
	s.stats.Bytes, s.stats.Behind, err = s.kind.records(path, &s.parse, s)
	return err
}

// document reads one JSON value; of an incomplete value, the complete entries.
func (s *scan) document(src *source) error {
	if err := src.rewind(); err != nil {
		return err
	}
	err := s.doc.read(src, s, true)
	s.stats.Bytes = src.read
	if err == nil || errors.Is(err, errBatchFull) || errors.Is(err, errNotDocument) {
		return ignore(err, errBatchFull)
	}
	s.bad(0, "JSON is not complete: "+err.Error())
	return nil
}

// ignore returns err, or nil if err wraps target.
func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// scanChunk is the size of one read in bytes. It is even, so that no two-byte character is split.
const scanChunk = 256 << 10

// text reads lines. Damaged compressed data ends the log; the rows before the damage are used.
func (s *scan) text(src *source) error {
	chunk := make([]byte, scanChunk)
	for s.err == nil {
		n, err := io.ReadFull(src, chunk)
		s.feed(chunk[:n], s.emit)
		if n == scanChunk && zeros(chunk) == n {
			s.lines.jump(src.skipHole(s.lines.readTo()))
		}
		s.stats.Bytes = src.read
		if s.detect(false); s.doc != nil {
			return s.document(src)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errCompressed):
			s.bad(0, err.Error())
		case err != io.EOF && err != io.ErrUnexpectedEOF:
			return err
		}
		return s.end(src)
	}
	return nil
}

// emit processes a line unless the callback has returned an error.
func (s *scan) emit(text []byte, n int) {
	if s.err == nil {
		s.line(text, n)
	}
}

// end processes an unterminated last line and held records.
func (s *scan) end(src *source) error {
	if s.detect(true); s.doc != nil {
		return s.document(src)
	}
	if s.lp != nil {
		s.lines.last(s.emit)
		s.lp.flush(s)
	}
	return nil
}

// errCompressed reports compressed data that is damaged or truncated.
var errCompressed = errors.New("compressed data is damaged")

// source reads the uncompressed bytes of a finished log.
type source struct {
	file *os.File
	gz   *gzip.Reader // nil if the file is not compressed
	read int64        // bytes read since the beginning
}

// openSource opens a log and detects gzip by its magic number.
func openSource(path string) (*source, error) {
	file, err := regular.Open(path, regular.NoLimit)
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
