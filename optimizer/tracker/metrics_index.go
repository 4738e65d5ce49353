package tracker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"trainopt/optimizer/journal"
)

// index holds what is known of the runs of a state directory. Of an ended run it keeps only the state.
type index struct {
	stateDir string
	runs     map[string]*entry // by name of the directory
}

// entry is one run.
type entry struct {
	dir      string
	uid      uint32
	changed  time.Time // of run.json
	size     int64
	state    string // of optimize_runs; empty if the record cannot be read
	finished time.Time
	record   *journal.Record // nil if the run has no series
}

// update reads the records that changed, and ends the series of runs that ended before the retention.
func (x *index) update(now time.Time) error {
	list, err := os.ReadDir(journal.RunsDir(x.stateDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	present := make(map[string]bool, len(list))
	for _, d := range list {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(journal.RunsDir(x.stateDir), d.Name(), journal.RecordFile))
		if err != nil {
			continue
		}
		present[d.Name()] = true
		e := x.runs[d.Name()]
		if e == nil {
			e = &entry{dir: filepath.Join(journal.RunsDir(x.stateDir), d.Name())}
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				e.uid = st.Uid
			}
			x.runs[d.Name()] = e
		}
		e.update(info, now)
	}
	for name := range x.runs {
		if !present[name] {
			delete(x.runs, name)
		}
	}
	return nil
}

// update reads the record if it changed, and decides whether the run has series.
func (e *entry) update(info fs.FileInfo, now time.Time) {
	if !info.ModTime().Equal(e.changed) || info.Size() != e.size {
		e.changed, e.size = info.ModTime(), info.Size()
		e.state, e.finished, e.record = "", time.Time{}, nil
		rec, err := journal.ReadRecord(e.dir)
		if err != nil {
			return
		}
		e.record = rec
		if e.state = string(rec.State); rec.Over() {
			e.finished = e.changed
			if rec.FinishedAt != nil {
				e.finished = *rec.FinishedAt
			}
		}
	}
	switch {
	case e.state == "": // unreadable
	case e.finished.IsZero(): // also without a change: an agent may have ended or adopted the run
		e.judgeRunning(now)
	case now.Sub(e.finished) > retention:
		e.record = nil
	}
}

// judgeRunning sets the state of a run whose record has no end. Without an agent it is interrupted; its series end when
// the record was not written for the retention.
func (e *entry) judgeRunning(now time.Time) {
	e.state = string(journal.Running)
	if journal.HolderOf(e.dir) == nil {
		e.state = "interrupted"
		if now.Sub(e.changed) > retention {
			e.record = nil
		}
	}
}
