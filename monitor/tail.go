package monitor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"time"
)

// TailOptions says how a log is followed. The zero value detects the format by content.
type TailOptions struct {
	// Format forces a format by name (see Formats); empty detects it by content.
	Format string
	// Aliases maps column names of the log to the contract's ("my_loss": "train_loss"), in any case; an
	// empty value leaves the column out.
	Aliases map[string]string
	// Patterns are used for format stdout instead of the built-in ones. Named groups are contract columns or
	// aliases of them: epoch, total_epochs, step, total_steps, loss, accuracy, throughput …
	Patterns []*regexp.Regexp
	// Location is the zone of timestamps that have none; nil means the machine's.
	Location *time.Location
	// MaxBytes bounds what one Poll reads; 0 means 1 MiB. What is left is read by the next Poll.
	MaxBytes int64
	// MaxRows bounds what one Poll returns, to within one read of 32 KiB; 0 means 4096.
	MaxRows int
	// MaxTime bounds how long one Poll parses lines, to within one read of 32 KiB; 0 means 50 ms. The reading of a JSON
	// document is not bounded by it.
	MaxTime time.Duration
	// MaxLine is the longest line that is held; a longer one is skipped as bad. 0 means 1 MiB.
	MaxLine int
	// Resume continues where an earlier Tail on the same path stopped; nil starts at the beginning.
	Resume *TailState
}

// BadRow names one line of a log and what was odd about it.
type BadRow struct {
	Line   int    `json:"line"` // from 1; the index for a JSON document; 0 for the file as a whole
	Reason string `json:"reason"`
}

// String is "line 41: 3 fields, want 7".
func (b BadRow) String() string {
	if b.Line == 0 {
		return b.Reason
	}
	return fmt.Sprintf("line %d: %s", b.Line, b.Reason)
}

// keptReports is how many bad rows and notes are kept in words; all are counted.
const keptReports = 20

// TailStats says what was read so far of a log that is followed, restarts of the agent included, or of one that is over.
type TailStats struct {
	Path   string `json:"path"`
	Format string `json:"format"` // empty until known
	// Rows is the number of rows given out.
	Rows int `json:"rows"`
	// Bad is the number of lines that gave no row and should have; FirstBad has the first 20.
	Bad      int      `json:"bad"`
	FirstBad []BadRow `json:"first_bad,omitempty"`
	// Noted is the number of oddities in lines that were used or rightly left out: values that are no data
	// (nan, inf, out of range, negative), duplicates, repeated headers, resets. FirstNoted has the first 20.
	Noted      int      `json:"noted"`
	FirstNoted []BadRow `json:"first_noted,omitempty"`
	// Duplicates is the number of rows left out because the same row had been given out.
	Duplicates int `json:"duplicates"`
	// Again is the number of rows given out whose epoch or step had already been passed.
	Again int `json:"again"`
	// Headers is the number of headers after the first.
	Headers int `json:"headers"`
	// Resets is how often the file was truncated, replaced or rewritten; Replayed is the number of rows
	// that were then seen again and left out.
	Resets   int `json:"resets"`
	Replayed int `json:"replayed"`
	// Bytes is what was read of the log, in bytes, uncompressed; Behind is what is there and not yet read: of a log that is
	// over, the record that was cut off at its end.
	Bytes  int64 `json:"bytes"`
	Behind int64 `json:"behind"`
	// LastRow is when the last row was read; zero when there is none.
	LastRow time.Time `json:"last_row"`
	// Missing is true while there is no file at Path.
	Missing bool `json:"missing,omitempty"`
}

// Tail follows one training log. It is driven by Poll, has no goroutine, and is not safe for use by several
// goroutines at once.
type Tail struct {
	ingest
	follow follower

	docAt  docMark
	docErr error

	chunk  []byte
	rows   []Row
	most   int        // rows that the last Poll with rows returned: as many are likely to come
	resume *TailState // not yet applied
	closed bool
}

// Open prepares to follow the log at path, which need not exist yet: nothing is read before the first Poll.
// It fails on options that make no sense (unknown format, alias to an unknown column, a pattern without
// named groups) and on a state of another version or path.
func Open(path string, o TailOptions) (*Tail, error) {
	t := &Tail{resume: o.Resume, chunk: make([]byte, 32<<10)}
	setDefault(&o.MaxBytes, 1<<20)
	setDefault(&o.MaxRows, 4096)
	setDefault(&o.MaxTime, 50*time.Millisecond)
	if err := t.begin(path, o); err != nil {
		return nil, fmt.Errorf("open training log %s: %w", path, err)
	}
	if t.kind.records != nil {
		return nil, fmt.Errorf("open training log %s: %w", path, errNotFollowed)
	}
	t.stats.Missing = true
	t.full = func() bool { return len(t.rows) >= t.opts.MaxRows }
	t.give = func(r *Row) {
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

// errNotFollowed says that a log is of a kind that only Scan reads.
var errNotFollowed = errors.New("TensorBoard event files are read when the training is over, not followed")

// Poll reads what is new and returns the rows that are complete, oldest first. now becomes their At. A missing
// file is not an error and gives no rows; an error says that the log could not be read this time, comes with
// the rows that could, and does not end anything: the next Poll tries again. When Stats().Behind is not 0
// there is more to read at once.
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

// Finish is a Poll for a log that is no longer written: a last line without a line end is taken too. Call it until it
// returns no rows, Stats().Behind is 0 and no error: a long line yields no row for many polls.
func (t *Tail) Finish(now time.Time) ([]Row, error) {
	rows, err := t.Poll(now)
	if err != nil || t.closed || t.stats.Behind > 0 {
		return rows, err
	}
	t.recognise(true)
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

// Stats says what was read so far. The slices must not be changed.
func (t *Tail) Stats() TailStats { return t.report() }

// Close releases the file. State may still be asked for.
func (t *Tail) Close() error {
	if !t.closed {
		state := t.State()
		t.resume, t.closed = &state, true
	}
	return t.follow.close()
}

// step does the work of one Poll.
func (t *Tail) step() error {
	fi, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.stats.Missing = true
		return t.gone()
	case err != nil:
		return errors.Join(err, t.read())
	case !fi.Mode().IsRegular():
		return fmt.Errorf("it is a %s, not a file", kindOf(fi.Mode()))
	}
	t.stats.Missing = false
	if t.follow.file != nil && !t.follow.same(fi) {
		// Renamed, recreated or a symlink switched: what was written to the old file comes first.
		if err := t.read(); err != nil || t.stats.Behind > 0 || t.enough() {
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

// replace goes over to the file that is now at the path. When it begins like the old one, and goes on after
// the same bytes, only what follows is new.
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

// gone drains a file that has lost its name, then lets go of it.
func (t *Tail) gone() error {
	if t.follow.file == nil {
		return nil
	}
	if err := t.read(); err != nil || t.stats.Behind > 0 {
		return err
	}
	t.reset("file removed")
	return t.follow.close()
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeDevice != 0:
		return "device"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "special file"
}

// read reads on in the open file, within the limits of one Poll.
func (t *Tail) read() error {
	if t.follow.file == nil {
		return nil
	}
	if t.doc != nil {
		return t.readDocument(false)
	}
	var total int64
	began := time.Now()
	for total < t.opts.MaxBytes && len(t.rows) < t.opts.MaxRows && (total == 0 || time.Since(began) < t.opts.MaxTime) {
		want := min(int64(len(t.chunk)), t.opts.MaxBytes-total)
		at := t.lines.readTo()
		n, err := t.follow.file.ReadAt(t.chunk[:max(want, 2)], at)
		if n > 0 {
			if at == 0 && t.name == "" && recordFormat(t.chunk[:n]) != "" {
				return errNotFollowed
			}
			nuls := t.lines.nuls
			used := t.lines.feed(t.chunk[:n], t.line)
			if nuls == 0 && t.lines.nuls > 0 {
				t.note(t.lines.n, "NUL bytes left out")
			}
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
	if t.lines.half() {
		t.stats.Behind = 0 // one byte that cannot be used yet
	}
	return nil
}

// recognise finds out the format; a document is then read from its beginning.
func (t *Tail) recognise(final bool) {
	if t.detect(final); t.doc != nil {
		t.lines.reset()
		t.follow.forget()
	}
}

// reset begins the file anew; rows that were given out before are then left out.
func (t *Tail) reset(why string) {
	if t.lines.readTo() == 0 && t.docAt == (docMark{}) {
		return // nothing was read of it
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
	t.docAt = docMark{}
	t.beginReplay()
}
