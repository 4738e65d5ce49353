package trainlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// TensorBoard event files (events.out.tfevents.*), as written by torch.utils.tensorboard, tensorboardX, TensorFlow 1
// and 2, Keras, Lightning and the Hugging Face Trainer. A row consists of the consecutive values of one step in one
// file and in the files of the directories train and validation beside it. The row's timestamp is the time of its
// last value. time_so_far counts from the first event of the file, whose time TensorFlow writes in whole seconds; the
// gap between two files of one directory, during which nothing ran, is excluded.

// isEvents reports whether a file begins with a valid record header.
func isEvents(first []byte) bool {
	_, ok := recordLength(first)
	return ok
}

// readEvents reads an event file or the event files of a run directory. The n-th files of all directories belong to
// the same session, that is, the same launch of the training, and are merged by step.
func readEvents(path string, o *parseOptions, out sink) (read, behind int64, err error) {
	streams, err := eventStreams(path)
	if err != nil {
		return 0, 0, err
	}
	b := eventConverter{opts: o, out: out, targets: map[string]tagTarget{}, ended: math.NaN()}
	for session := 0; err == nil && !out.batchFull(); session++ {
		var files []*eventFile
		for _, s := range streams {
			if session >= len(s.files) {
				continue
			}
			f, openErr := b.open(s.files[session], s.split)
			if openErr != nil {
				err = openErr
				break
			}
			files = append(files, f)
		}
		if len(files) == 0 {
			break
		}
		if err == nil {
			err = b.session(files)
		}
		for _, f := range files {
			err = errors.Join(err, f.src.Close())
			b.behind += f.behind
			b.read += f.records.at
		}
	}
	return b.read, b.behind, err
}

// eventConverter converts the event files of one run to rows.
type eventConverter struct {
	opts         *parseOptions
	out          sink
	targets      map[string]tagTarget
	read, behind int64
	record       int     // records so far, over all files
	active       float64 // duration of the earlier sessions in seconds
	ended        float64 // end of the previous session, s since 1970; NaN in the first
	base         epochBase
	text         []byte // scratch
}

// eventFile is one file being read, with the next row of it.
type eventFile struct {
	src     *source
	name    string
	split   split
	records *recordReader
	behind  int64

	row   eventRow
	ready bool     // row is complete
	next  eventRow // the row after it
	ended bool
	first float64 // wall time of the first event; NaN before
	last  float64 // wall time of the last event
}

// eventRow contains the values of one step.
type eventRow struct {
	Row
	step     int64
	wall     float64 // s since 1970, of the last value
	some     bool
	byEpoch  bool // the step counts epochs from 0
	epochEnd bool // written at the end of an epoch
}

// open opens one event file.
func (b *eventConverter) open(path string, s split) (*eventFile, error) {
	src, err := openSource(path)
	if err != nil {
		return nil, err
	}
	return &eventFile{src: src, name: path, split: s, records: newRecordReader(src), first: math.NaN(), last: math.NaN()}, nil
}

// session merges the files of one session by step: each file holds its next complete row, and the rows with the least
// step are joined and passed on. Afterwards the duration of the session is added to active.
func (b *eventConverter) session(files []*eventFile) error {
	start, lastEpoch := math.NaN(), math.NaN()
	for {
		var least *eventFile
		for _, f := range files {
			if err := b.fill(f); err != nil {
				return err
			}
			if start = earlier(start, f.first); f.ready && (least == nil || f.row.step < least.row.step) {
				least = f
			}
		}
		if least == nil || b.out.batchFull() {
			break
		}
		r := least.row
		least.ready = false
		for _, f := range files {
			if f.ready && f.row.step == r.step {
				r.join(&f.row)
				f.ready = false
			}
		}
		// TensorFlow writes the time of the first event in whole seconds, so it may precede the end of the last file.
		lastEpoch = b.emit(&r, later(start, b.ended), lastEpoch)
	}
	start = later(start, b.ended)
	for _, f := range files {
		b.ended = later(b.ended, f.last)
	}
	if b.ended > start {
		b.active += b.ended - start
	}
	return nil
}

// earlier returns the lesser of two times and ignores NaN.
func earlier(a, b float64) float64 {
	if a <= b || math.IsNaN(b) {
		return a
	}
	return b
}

// later returns the greater of two times and ignores NaN.
func later(a, b float64) float64 { return -earlier(-a, -b) }

// join merges the values of another file for the same step; existing values are kept.
func (r *eventRow) join(o *eventRow) {
	r.fill(&o.Row)
	r.wall, r.byEpoch, r.epochEnd = max(r.wall, o.wall), r.byEpoch || o.byEpoch, r.epochEnd || o.epochEnd
}

// emit completes the step, epoch and times of a row and passes it on. lastEpoch is the end of the previous epoch; the
// return value is the lastEpoch of the next row.
func (b *eventConverter) emit(r *eventRow, start, lastEpoch float64) float64 {
	switch epoch, has := r.Value(Epoch); {
	case r.byEpoch:
		r.Set(Epoch, float64(r.step)+1)
	case has:
		r.Set(Epoch, b.complete(epoch, r.epochEnd))
	}
	if !r.byEpoch && r.step >= 0 {
		r.Set(Step, float64(r.step))
	}
	if r.wall > 1e8 && r.wall < 1e11 { // otherwise not a clock
		sec, frac := math.Modf(r.wall)
		r.Stamp = time.Unix(int64(sec), int64(frac*1e9))
		if _, has := r.Value(TimeSoFar); !has && r.wall >= start {
			r.Set(TimeSoFar, b.active+r.wall-start)
		}
		if _, has := r.Value(EpochTime); !has && r.byEpoch && r.wall > lastEpoch {
			r.Set(EpochTime, r.wall-lastEpoch)
		}
	}
	b.out.row(&r.Row, 0)
	if r.byEpoch {
		return r.wall
	}
	return lastEpoch
}

// complete converts the epoch of a writer to the number of completed epochs: Lightning writes the current epoch, from
// 0; the Hugging Face Trainer writes a fraction.
func (b *eventConverter) complete(epoch float64, atEnd bool) float64 {
	if b.base.zero == nil {
		zero := epoch == 0
		b.base.zero = &zero
	}
	if *b.base.zero && atEnd {
		epoch++
	}
	if epoch == 0 {
		return math.NaN()
	}
	return epoch
}

// fill reads until the next row of the file is complete: until another step begins, or to the end.
func (b *eventConverter) fill(f *eventFile) error {
	for !f.ready && !f.ended {
		data, err := f.records.next()
		b.record++
		broken := new(recordError)
		switch {
		case err == nil:
			b.event(f, data)
			continue
		case errors.As(err, &broken):
			b.out.bad(b.record, fmt.Sprintf("%s: %s", f.name, broken))
			continue
		case errors.Is(err, errCompressed):
			b.out.bad(b.record, fmt.Sprintf("%s: %s", f.name, err))
		case errors.Is(err, errCutOff):
			f.behind = f.src.read - f.records.at
		case err != io.EOF:
			return err
		}
		f.ended = true
		f.row, f.ready, f.next = f.next, f.next.some, eventRow{}
	}
	return nil
}

// event processes one event record.
func (b *eventConverter) event(f *eventFile, data []byte) {
	e, ok := decodeEvent(data)
	if !ok {
		b.out.bad(b.record, fmt.Sprintf("%s: byte %d: the record is no event", f.name, f.records.start))
		return
	}
	if e.wall > 0 {
		f.first, f.last = earlier(f.first, e.wall), later(f.last, e.wall)
	}
	ok = eachScalar(e.summary, func(tag []byte, value float64) { b.scalar(f, &e, tag, value) })
	if !ok {
		b.out.bad(b.record, fmt.Sprintf("%s: byte %d: the summary of the event is damaged", f.name, f.records.start))
	}
}

// scalar adds one value of an event to the current row. A value of another step completes the row.
func (b *eventConverter) scalar(f *eventFile, e *event, tag []byte, v float64) {
	to := b.target(f.split, tag)
	if to.kind != toColumn {
		return
	}
	if f.next.some && f.next.step != e.step {
		f.row, f.ready, f.next = f.next, true, eventRow{}
	}
	r := &f.next
	how, text := readNumber, strconv.AppendFloat(b.text[:0], v, 'g', -1, 64)
	b.text = text
	switch {
	case math.IsNaN(v):
		how = readNaN
	case math.IsInf(v, 0):
		v, how = math.NaN(), readInf
	}
	if v = checkNumber(v, how, to.target, string(tag), text, b.record, b.out); math.IsNaN(v) {
		return
	}
	if !r.some {
		r.some, r.step, r.Line = true, e.step, b.record
	}
	if _, has := r.Value(to.column); !has || to.epochEnd { // Lightning logs the loss of the epoch after that of its last step
		r.Set(to.column, v)
	}
	r.wall = later(r.wall, e.wall)
	r.byEpoch, r.epochEnd = r.byEpoch || to.byEpoch, r.epochEnd || to.epochEnd
}

// eventTail reads an event file while it is written. A row is complete when another step begins, or at the end.
type eventTail struct {
	conv      eventConverter
	file      eventFile
	lastEpoch float64
}

func newEventTail(path string, o *parseOptions, out sink) *eventTail {
	return &eventTail{lastEpoch: math.NaN(), conv: eventConverter{opts: o, out: out, targets: map[string]tagTarget{}, ended: math.NaN()},
		file: eventFile{name: path, split: splitWords[strings.ToLower(filepath.Base(filepath.Dir(path)))], first: math.NaN(), last: math.NaN(), records: &recordReader{}}}
}

// read reads the complete records of a file of the given size that were not read before, until the batch is full or most
// bytes were read. It returns the number of bytes read.
func (e *eventTail) read(src io.ReaderAt, size, most int64) (read int64, err error) {
	f := &e.file
	at := f.records.at
	f.records.src = bufio.NewReaderSize(io.NewSectionReader(src, at, size-at), 64<<10)
	for f.records.at-at < most && !e.conv.out.batchFull() {
		data, err := f.records.next()
		broken := new(recordError)
		switch {
		case err == nil:
			e.conv.record++
			e.conv.event(f, data)
			e.emit()
		case errors.As(err, &broken):
			if f.records.at >= size { // the bytes may be the beginning of a header
				f.records.at = broken.at
				return broken.at - at, nil
			}
			e.conv.record++
			e.conv.out.bad(e.conv.record, fmt.Sprintf("%s: %s", f.name, broken))
		case err == io.EOF, errors.Is(err, errCutOff):
			return f.records.at - at, nil
		default:
			return f.records.at - at, err
		}
	}
	return f.records.at - at, nil
}

// emit passes on a complete row.
func (e *eventTail) emit() {
	if f := &e.file; f.ready {
		f.ready = false
		e.lastEpoch = e.conv.emit(&f.row, f.first, e.lastEpoch)
	}
}

// finish passes on the last row of a file that is no longer written.
func (e *eventTail) finish() {
	if f := &e.file; f.next.some {
		f.row, f.ready, f.next = f.next, true, eventRow{}
		e.emit()
	}
}

// readEvents reads what is new in the event file that the Tail follows.
func (t *Tail) readEvents() error {
	if t.events == nil {
		if t.seen.count > 0 {
			t.beginReplay()
		}
		t.events = newEventTail(t.path, &t.parse, t)
	}
	info, err := t.follow.file.Stat()
	if err != nil {
		return err
	}
	n, err := t.events.read(t.follow.file, info.Size(), t.opts.MaxBytes)
	t.stats.Bytes += n
	t.stats.Behind = 0
	if t.batchFull() || n >= t.opts.MaxBytes {
		t.stats.Behind = info.Size() - t.events.file.records.at
	}
	return err
}

// LatestEvents returns the newest event file in a directory or below it, at most four levels, that was modified at or
// after a time; empty if none exists. Training files are preferred to those of a directory such as validation.
func LatestEvents(dir string, since time.Time) string {
	best, when, evaluation := "", time.Time{}, true
	root := strings.Count(filepath.Clean(dir), string(filepath.Separator))
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error { // unreadable parts contain no log
		if err != nil {
			return nil
		}
		if d.IsDir() {
			if path != dir && hidden(d.Name()) || strings.Count(path, string(filepath.Separator))-root > maxRunDepth {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.Contains(d.Name(), "tfevents") || info.ModTime().Before(since) {
			return nil
		}
		s := splitWords[strings.ToLower(filepath.Base(filepath.Dir(path)))]
		isEvaluation := s != splitUnknown && s != splitTrain
		if best == "" || evaluation && !isEvaluation || evaluation == isEvaluation && info.ModTime().After(when) {
			best, when, evaluation = path, info.ModTime(), isEvaluation
		}
		return nil
	})
	return best
}
