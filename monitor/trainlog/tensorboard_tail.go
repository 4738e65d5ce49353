package trainlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

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
// after a time; empty if there is none. Training files are preferred to those of a directory such as validation.
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
