package monitor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
)

// Scan reads a finished log in a single pass and calls each with every row, oldest first. The row and its slices are
// valid only during the call; Clone makes a copy. At is zero in all rows. An error from each ends the scan and is
// returned.
//
// The path is a log in any of the Formats, plain or gzip-compressed (detected by content, regardless of its name), or
// a directory in which a framework stores its log: trainer_state.json (also in the last checkpoint-N of a run),
// results.csv, metrics.csv, or TensorBoard event files. TailStats.Path is the file that was read.
//
// Memory does not grow with the file: Scan holds one line of up to MaxLine bytes and the hashes of the last 1024
// rows. A row equal to one of these 1024 is skipped as a duplicate; a repetition of an older row is returned, with
// Again set if its epoch or step had been passed. Lightning and Hugging Face write the training and validation values
// of one step in separate rows; consecutive rows of one step are merged.
//
// The options MaxBytes, MaxRows and Resume apply to a Tail only and are ignored. The error wraps ErrNoData if there
// is no row, and fs.ErrNotExist if there is no file.
func Scan(path string, o TailOptions, each func(*Row) error) (TailStats, error) {
	s := scan{each: each}
	if err := s.begin(path, o); err != nil {
		return TailStats{Path: path}, fmt.Errorf("open training log %s: %w", path, err)
	}
	s.give, s.full = s.take, func() bool { return s.err != nil }
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
		return stats, fmt.Errorf("read training log %s: no row in it%s: %w", stats.Path, firstBad(stats), ErrNoData)
	}
	return stats, nil
}

// firstBad describes the first bad line for an error message; empty if none exists.
func firstBad(s TailStats) string {
	if len(s.FirstBad) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d bad lines, the first: %s)", s.Bad, s.FirstBad[0])
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
		s.use("tensorboard")
		return s.records(path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is a %s, not a file", kindOf(info.Mode()))
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
	if err == nil || errors.Is(err, errEnough) || errors.Is(err, errNotDocument) {
		return ignore(err, errEnough)
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
		nuls := s.lines.nuls
		s.lines.feed(chunk[:n], s.emit)
		if nuls == 0 && s.lines.nuls > 0 {
			s.note(s.lines.n, "NUL bytes left out")
		}
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

// complete merges o into r if both have the same step, and the same epoch or none. It returns false, and leaves r
// unchanged, if they are separate rows, differ in a common column or contain GPU utilisation.
func (r *Row) complete(o *Row) bool {
	if (r.has^o.has)&(1<<Epoch|1<<Step) != 0 || r.has&(1<<Step) == 0 || len(r.GPUUtil)+len(o.GPUUtil) > 0 {
		return false
	}
	for c := Column(0); c < NumColumns; c++ {
		a, inR := r.Value(c)
		if b, inO := o.Value(c); inR && inO && a != b {
			return false
		}
	}
	for c := Column(0); c < NumColumns; c++ {
		if v, ok := o.Value(c); ok {
			r.Set(c, v)
		}
	}
	r.Again = r.Again || o.Again
	r.Model, r.Dataset, r.Device = cmp.Or(r.Model, o.Model), cmp.Or(r.Dataset, o.Dataset), cmp.Or(r.Device, o.Device)
	if o.Stamp.After(r.Stamp) {
		r.Stamp = o.Stamp
	}
	return true
}

// errCompressed reports compressed data that is damaged or truncated.
var errCompressed = errors.New("compressed data is damaged")
