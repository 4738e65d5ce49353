package trainlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"time"

	"trainopt/internal/regular"
)

// TailOptions configures how a log is read. The zero value detects the format by content.
type TailOptions struct {
	// Format forces a format by name (see Formats); empty detects it by content.
	Format string
	// Aliases maps column names of the log to canonical names ("my_loss": "train_loss"), ignoring case; an empty
	// canonical name drops the column.
	Aliases map[string]string
	// Patterns replace the built-in patterns of format stdout. Named groups are canonical columns or aliases of them:
	// epoch, total_epochs, step, total_steps, loss, accuracy, throughput …
	Patterns []*regexp.Regexp
	// Location is the zone of timestamps without one; nil means the local zone of the machine.
	Location *time.Location
	// MaxBytes bounds the bytes read by one Poll; 0 means 1 MiB. The next Poll reads the rest.
	MaxBytes int64
	// MaxRows bounds the rows returned by one Poll, to within one read of 32 KiB; 0 means 4096.
	MaxRows int
	// MaxTime bounds the time that one Poll spends parsing lines, to within one read of 32 KiB; 0 means 50 ms. It
	// does not bound the reading of a JSON document.
	MaxTime time.Duration
	// MaxLine is the length in bytes of the longest line that is parsed; a longer one is skipped as bad. 0 means 1
	// MiB.
	MaxLine int
	// Resume continues from the state of an earlier Tail on the same path; nil starts at the beginning.
	Resume *TailState
}

// BadRow identifies one line of a log and the problem with it.
type BadRow struct {
	Line   int    `json:"line"` // from 1; the index for a JSON document; 0 for the file as a whole
	Reason string `json:"reason"`
}

// String returns, for example, "line 41: 3 fields, want 7".
func (b BadRow) String() string {
	if b.Line == 0 {
		return b.Reason
	}
	return fmt.Sprintf("line %d: %s", b.Line, b.Reason)
}

// maxKeptReports is the number of bad rows and of notes whose text is kept; all of them are counted.
const maxKeptReports = 20

// TailStats describes what has been read of a log: of a followed one so far, across restarts of the agent, or of a
// finished one.
type TailStats struct {
	Path   string `json:"path"`
	Format string `json:"format"` // empty until known
	// Rows is the number of rows returned.
	Rows int `json:"rows"`
	// Bad is the number of lines that should have yielded a row and did not; FirstBad contains the first 20.
	Bad      int      `json:"bad"`
	FirstBad []BadRow `json:"first_bad,omitempty"`
	// Noted is the number of oddities in lines that were used or rightly skipped: values that are no data (nan, inf,
	// out of range, negative), duplicates, repeated headers, resets. FirstNoted contains the first 20.
	Noted      int      `json:"noted"`
	FirstNoted []BadRow `json:"first_noted,omitempty"`
	// Duplicates is the number of rows skipped because an equal row had been returned before.
	Duplicates int `json:"duplicates"`
	// Repeated is the number of returned rows whose epoch or step had already been passed.
	Repeated int `json:"again"`
	// Headers is the number of headers after the first.
	Headers int `json:"headers"`
	// Resets is the number of times the file was truncated, replaced or rewritten; Replayed is the number of rows
	// skipped because they had been read before such a reset.
	Resets   int `json:"resets"`
	Replayed int `json:"replayed"`
	// Bytes is the number of uncompressed bytes read. Behind is the number of bytes present but not yet read; for a
	// finished log, the size of the truncated record at its end.
	Bytes  int64 `json:"bytes"`
	Behind int64 `json:"behind"`
	// LastRow is the time at which the last row was read; zero before the first row.
	LastRow time.Time `json:"last_row"`
	// Missing is true while no file exists at Path. A removed file is still read until another one replaces it.
	Missing bool `json:"missing,omitempty"`
}

// Tail follows one training log. It is driven by Poll, starts no goroutine, and is not safe for concurrent use.
type Tail struct {
	ingest
	follow follower

	events *eventTail // of an event file of TensorBoard
	docAt  documentStamp
	docErr error

	chunk  []byte
	rows   []Row
	most   int        // rows returned by recent polls, as the capacity for the next one
	resume *TailState // not yet applied
	closed bool
}

// Open prepares to follow the log at path, which need not exist yet: the first Poll opens it. Open returns an error
// for invalid options (unknown format, alias to an unknown column, pattern without named groups), for a format
// that is not followed, and for a state of another version or path.
func Open(path string, o TailOptions) (*Tail, error) {
	t := &Tail{resume: o.Resume, chunk: make([]byte, 32<<10)}
	setDefault(&o.MaxBytes, 1<<20)
	setDefault(&o.MaxRows, 4096)
	setDefault(&o.MaxTime, 50*time.Millisecond)
	if err := t.begin(path, o); err != nil {
		return nil, fmt.Errorf("open training log %s: %w", path, err)
	}
	if t.kind.records != nil && !t.kind.followed {
		return nil, fmt.Errorf("open training log %s: %w", path, errNotFollowed)
	}
	t.stats.Missing = true
	t.full = func() bool { return len(t.rows) >= t.opts.MaxRows }
	t.deliver = func(r *Row) {
		if t.rows == nil {
			t.rows = make([]Row, 0, t.most+1)
		}
		t.rows = append(t.rows, r.Clone())
	}
	if t.resume != nil {
		if err := t.resume.check(path); err != nil {
			return nil, fmt.Errorf("resume training log %s: %w", path, err)
		}
		t.restore(t.resume)
	}
	return t, nil
}

// errNotFollowed reports a log format that only Scan reads.
var errNotFollowed = errors.New("a log of this format is read when the training is over, not followed")

// Poll reads new data and returns the complete rows, oldest first, with At set to now. A missing file is not an error
// and yields no rows. An error means that this read failed; it is returned together with the rows read before it, and
// the next Poll tries again. If Stats().Behind is not 0, more data can be read immediately.
func (t *Tail) Poll(now time.Time) ([]Row, error) {
	if t.closed {
		return nil, fmt.Errorf("poll training log %s: %w", t.path, os.ErrClosed)
	}
	t.now = now
	err := t.step()
	rows := t.rows
	t.rows, t.most = nil, max(len(rows), t.most/2)
	if err != nil {
		err = fmt.Errorf("poll training log %s: %w", t.path, err)
	}
	return rows, err
}

// Finish is a Poll for a log that is no longer written: it also parses a last line without a line end. Call it until
// it returns no rows and no error and Stats().Behind is 0: a long line may yield no row for many polls.
func (t *Tail) Finish(now time.Time) ([]Row, error) {
	rows, err := t.Poll(now)
	if err != nil || t.closed || t.stats.Behind > 0 {
		return rows, err
	}
	t.recognise(true)
	if t.events != nil {
		t.events.finish()
	}
	if t.doc != nil && t.follow.file != nil {
		err = errors.Join(t.readDocument(false), t.finishDocument())
	}
	if t.lp != nil {
		t.lines.last(t.line)
		t.lp.flush(t)
		t.lines.commit()
	}
	rows = append(rows, t.rows...)
	t.rows = nil
	if err != nil {
		err = fmt.Errorf("finish training log %s: %w", t.path, err)
	}
	return rows, err
}

// maxCounted bounds the skipped bytes whose lines are counted, so that the line numbers after them are right.
const maxCounted = 256 << 20

// Skip skips unread lines until at most the last keep bytes are unread, and returns the number of bytes skipped: 0 if no
// more than keep are unread, before the format is known, and for logs that do not consist of lines of one-byte
// characters. The statistics do not contain the skipped lines.
func (t *Tail) Skip(keep int64) int64 {
	if t.closed || t.follow.file == nil || t.lp == nil || t.lines.enc != utf8Text {
		return 0
	}
	info, err := t.follow.file.Stat()
	from := t.lines.readTo()
	if err != nil || info.Size()-from <= keep {
		return 0
	}
	to, lines := info.Size()-keep, 0
	if to-from <= maxCounted {
		for at := from; at < to; {
			n, err := t.follow.file.ReadAt(t.chunk[:min(int64(len(t.chunk)), to-at)], at)
			if lines += bytes.Count(t.chunk[:n], []byte{'\n'}); err != nil {
				return 0
			}
			if at == from && t.lines.afterCR && t.chunk[0] == '\n' { // of a line that was counted
				lines--
			}
			at += int64(n)
		}
	}
	t.lp.flush(t)
	// The line at the new position is discarded, as one that is too long is.
	t.lines.at, t.lines.n, t.lines.buf, t.lines.skip, t.lines.afterCR = to, t.lines.n+lines, nil, true, false
	if !t.follow.reload(to) {
		t.follow.forget()
	}
	for t.lines.skip { // up to the end of that line
		n, _ := t.follow.file.ReadAt(t.chunk, t.lines.at)
		end := lineEnd(t.chunk[:n])
		if n == 0 || end < 0 && t.lines.at+int64(n) >= info.Size() {
			break // it has no end yet
		}
		if end >= 0 {
			n, t.lines.skip = end, false
			t.lines.n++
			t.lines.afterCR = t.chunk[end] == '\r'
			n++
		}
		t.follow.remember(t.lines.at, t.chunk[:n])
		t.lines.at += int64(n)
	}
	t.lines.start = t.lines.at
	t.lines.commit()
	t.stats.Behind = max(0, info.Size()-t.lines.at)
	t.note(t.lines.n, fmt.Sprintf("%d bytes before it skipped", t.lines.at-from))
	return t.lines.at - from
}

// Stats returns the statistics so far. The slices must not be modified.
func (t *Tail) Stats() TailStats { return t.report() }

// Close releases the file. State remains valid after Close.
func (t *Tail) Close() error {
	if !t.closed {
		state := t.State()
		t.resume, t.closed = &state, true
	}
	return t.follow.close()
}

// step does the work of one Poll: it finds out whether the file at the path is still the open one, resets or replaces
// it if not, and reads new data.
func (t *Tail) step() error {
	fi, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.stats.Missing = true
		return t.read() // its writer may have it open: it is the log until another file takes its name
	case err != nil:
		return errors.Join(err, t.read())
	case !fi.Mode().IsRegular():
		return fmt.Errorf("it is a %s, not a file", regular.Kind(fi.Mode()))
	}
	t.stats.Missing = false
	if t.follow.file != nil && !os.SameFile(t.follow.info, fi) {
		// Renamed, recreated or a symlink switched: drain the old file first.
		if err := t.read(); err != nil || t.stats.Behind > 0 || t.batchFull() {
			return err
		}
		if err := t.replace(); err != nil {
			return err
		}
	}
	if t.follow.file == nil {
		if err := t.follow.open(t.path); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if t.resume != nil {
			t.continueAt(t.resume)
		}
	}
	switch why, err := t.follow.changed(t.lines.readTo()); {
	case err != nil:
		return err
	case why != "":
		t.reset(why)
	}
	return t.read()
}

// replace switches to the file that is now at the path. If it begins like the old one and contains the same bytes
// before the current offset, reading continues there; otherwise the file is read from its beginning.
func (t *Tail) replace() error {
	old := t.follow
	t.follow = follower{head: old.head, tail: old.tail}
	if err := t.follow.open(t.path); err != nil {
		t.follow = old
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	old.close()
	if why, err := t.follow.changed(t.lines.readTo()); err != nil || why != "" || t.doc != nil {
		t.reset("file replaced")
	}
	return nil
}

// read reads the open file from the current offset, within the limits of one Poll, and passes the bytes to the
// splitter. The file is read in chunks of 32 KiB with ReadAt, so that the descriptor has no position of its own. Long
// runs of NUL bytes are skipped as holes. A document is handed to readDocument as soon as it is recognised.
func (t *Tail) read() error {
	if t.follow.file == nil {
		return nil
	}
	if t.doc != nil {
		return t.readDocument(false)
	}
	if t.kind.followed {
		return t.readEvents()
	}
	var total int64
	began := time.Now()
	for total < t.opts.MaxBytes && len(t.rows) < t.opts.MaxRows && (total == 0 || time.Since(began) < t.opts.MaxTime) {
		want := min(int64(len(t.chunk)), t.opts.MaxBytes-total)
		at := t.lines.readTo()
		n, err := t.follow.file.ReadAt(t.chunk[:max(want, 2)], at)
		if n > 0 {
			if name := recordFormat(t.chunk[:n]); at == 0 && t.name == "" && name != "" {
				if !formats[name].followed {
					return errNotFollowed
				}
				t.use(name)
				return t.readEvents()
			}
			used := t.feed(t.chunk[:n], t.line)
			t.follow.remember(at, t.chunk[:used])
			t.stats.Bytes += int64(used)
			total += int64(used)
			if used == 0 { // one byte of a two-byte character
				break
			}
			if used >= headSize && zeros(t.chunk[:used]) == used {
				t.lines.jump(t.follow.hole(t.lines.readTo()))
			}
			if t.recognise(false); t.doc != nil {
				return t.readDocument(false)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	fi, err := t.follow.file.Stat()
	if err != nil {
		return err
	}
	t.stats.Behind = max(0, fi.Size()-t.lines.readTo())
	if t.lines.odd {
		t.stats.Behind = 0 // one byte that cannot be used yet
	}
	return nil
}

// recognise detects the format; a document is then read from its beginning.
func (t *Tail) recognise(final bool) {
	if t.detect(final); t.doc != nil {
		t.lines.reset()
		t.follow.forget()
	}
}

// reset starts the file from its beginning; rows returned before are then skipped.
func (t *Tail) reset(why string) {
	if t.lines.readTo() == 0 && t.docAt == (documentStamp{}) {
		return // nothing of it has been read
	}
	t.stats.Resets++
	t.note(0, why)
	if t.lp != nil {
		t.lp.flush(t)
		t.lp.restart()
	}
	if t.lines.held() {
		t.note(t.lines.n+1, "unfinished line lost: "+why)
	}
	t.lines.reset()
	t.follow.forget()
	t.forgetHead()
	t.docAt, t.events = documentStamp{}, nil
	t.beginReplay()
}

// documentStamp is the size and modification time of a JSON document when it was last read.
type documentStamp struct {
	size int64
	time time.Time
}

// errBatchFull ends the reading of a document for the current Poll.
var errBatchFull = errors.New("enough rows")

// maxDocument is the size of the largest JSON document that is read, in bytes.
const maxDocument = 256 << 20

// readDocument reads the whole document if it has changed. With salvage it reads the complete entries of an
// incomplete document. Entries returned before are skipped.
func (t *Tail) readDocument(salvage bool) error {
	fi, err := t.follow.file.Stat()
	if err != nil {
		return err
	}
	mark := documentStamp{size: fi.Size(), time: fi.ModTime()}
	if t.stats.Behind = 0; mark == t.docAt && !salvage {
		return nil
	}
	if mark.size > maxDocument {
		return fmt.Errorf("JSON document of %d bytes: more than %d", mark.size, int64(maxDocument))
	}
	if t.seen.count > 0 || t.docAt != (documentStamp{}) {
		t.beginReplay()
	}
	err = t.doc.read(io.NewSectionReader(t.follow.file, 0, mark.size), t, salvage)
	t.stats.Bytes += mark.size
	switch {
	case errors.Is(err, errBatchFull):
		t.stats.Behind = mark.size
		return nil
	case errors.Is(err, errNotDocument):
		return err
	}
	// Any other error means a half-written document, which is read again when it changes.
	t.docAt, t.docErr = mark, err
	return nil
}

// finishDocument returns the complete entries of a document that will not be completed.
func (t *Tail) finishDocument() error {
	if t.follow.file == nil || t.docErr == nil {
		return nil
	}
	t.bad(0, "JSON is not complete: "+t.docErr.Error())
	err := t.readDocument(true)
	t.docErr = nil
	return err
}
