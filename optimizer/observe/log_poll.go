package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"trainopt/internal/regular"
	"trainopt/monitor/trainlog"
)

// pollFile reads a log at a path given in advance, beginning with the rows of this run.
func (r *LogReader) pollFile(f *file, now time.Time, last bool) ([]trainlog.Row, error) {
	if f.tail == nil {
		l, err := lookAt(f.path)
		if errors.Is(err, errNotRegular) && f == r.named { // a directory of event files
			if path := trainlog.LatestEvents(f.path, r.find.start); path != "" {
				f.path = path
				l, err = lookAt(path)
			} else if info, e := os.Stat(f.path); e == nil && info.IsDir() {
				if now.Sub(r.began) < emptyDirectory && !last {
					return nil, nil
				}
				err = errNoEvents
			}
		}
		if err != nil {
			r.noteUnreadable(f, err)
			return nil, nil
		}
		at, ok := r.find.past.offset(f.path, l, time.Time{})
		if !ok {
			if _, recorded := r.find.past.files[f.path]; l.size > 0 && !recorded { // older than the job, or unreadable
				r.noteUnreadable(f, readable(f.path))
			}
			return nil, nil
		}
		if f.tail, err = openAt(f.path, r.options.tail(), at); err != nil {
			return nil, err
		}
	}
	r.thin(f.tail, maxBehind)
	return read(f.tail, now, last)
}

// noteUnreadable notes once why the log that the user named cannot be read; of $OPTIMIZER_LOG, which is in a directory
// of the agent, only that it is not a regular file. A file that does not exist yet is not an error.
func (r *LogReader) noteUnreadable(f *file, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || f != r.named && !errors.Is(err, errNotRegular) || f.failed == err.Error() {
		return
	}
	f.failed = err.Error()
	r.find.notes = append(r.find.notes, fmt.Sprintf("read training log %s: %v", f.path, err))
}

func readable(path string) error {
	f, err := regular.Open(path, regular.NoLimit)
	if err != nil {
		return err
	}
	return f.Close()
}

// pollFound searches for a log if none is in use, and reads the discovered one. It drops a log that rejectReason or
// stalled rejects.
func (r *LogReader) pollFound(now time.Time, last bool) (rows []trainlog.Row, err error) {
	took := now.Sub(r.began)
	if (took >= settle && !now.Before(r.lookAt)) || last && r.found == nil {
		began := time.Now()
		if r.found != nil && !isDocument(r.found.path) {
			r.check()
		} else {
			r.choose(r.find.look(now, r.out, took, last))
		}
		r.lookAt = now.Add(time.Second + 50*time.Since(began))
	}
	if r.found == nil {
		return nil, nil
	}
	r.thin(r.found.tail, maxBehind)
	rows, r.hold = r.hold, nil
	more, err := read(r.found.tail, now, last)
	r.found.seen.add(more)
	rows = r.passed(append(rows, more...))
	why := rejectReason(r.found.seen, r.out.reached(), took)
	if stalled(r.found.seen, r.out.reached()) {
		why = "it stopped growing while the output advances"
	}
	if why != "" || (isDocument(r.found.path) || isText(r.found.path)) && r.out.reached().advances() {
		if why != "" {
			r.find.refuse(r.found.candidate, why)
		}
		r.dropFound()
		return nil, err
	}
	r.use(r.found.path, r.found.tail, r.found.evidence, r.found.others)
	return rows, err
}

// check updates the evidence for the log in use, and drops a log that another process writes too.
func (r *LogReader) check() {
	w := r.find.writers
	w.scan()
	e, foreign := w.of(r.found.look.id)
	r.found.evidence = max(r.found.evidence, e)
	if foreign {
		r.find.refuse(r.found.candidate, sharedWords)
		r.dropFound()
	}
}

// dropFound stops reading the discovered log; the next poll finds another source.
func (r *LogReader) dropFound() {
	r.found.tail.Close()
	r.found, r.source = nil, logSource{}
}

// isDocument reports whether the file is rewritten as a whole at each checkpoint, in a new directory each time. It
// contains less than the output, and later.
func isDocument(path string) bool { return filepath.Base(path) == "trainer_state.json" }

// choose uses the best candidate if no log is in use, and follows a document to its newest location.
func (r *LogReader) choose(ready []*trial) {
	if len(ready) == 0 || isDocument(ready[0].path) && r.out.reached().advances() {
		return
	}
	best := ready[0]
	if r.found != nil {
		if best.path == r.found.path || !isDocument(r.found.path) || !isDocument(best.path) || !best.look.modified.After(r.found.look.modified) {
			return
		}
		r.lastStep = r.found.seen.step
		r.found.tail.Close()
	}
	r.found = r.find.take(best.path)
	r.hold = best.rows
	r.found.rows = nil
	for _, t := range ready[1:min(len(ready), 4)] {
		r.found.others = append(r.found.others, t.path)
	}
}

// passed removes the rows of a document that its previous location has already contained.
func (r *LogReader) passed(rows []trainlog.Row) []trainlog.Row {
	if !isDocument(r.found.path) {
		return rows
	}
	kept := rows[:0]
	for _, row := range rows {
		if step, ok := row.Value(trainlog.Step); !ok || step > r.lastStep {
			kept = append(kept, row)
		}
	}
	return kept
}
