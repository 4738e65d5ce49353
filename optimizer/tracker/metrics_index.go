package tracker

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"trainopt/internal/regular"
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
	if h := journal.HolderOf(e.dir); h == nil || !h.Alive() {
		e.state = "interrupted"
		if now.Sub(e.changed) > retention {
			e.record = nil
		}
	}
}

// sampleTail is the number of bytes at the end of samples.csv that contain its last row.
const sampleTail = 16 << 10

// lastSample returns the numbers of the last complete row of samples.csv by column; nil if it cannot be read.
func lastSample(dir string) map[string]float64 {
	f, err := regular.Open(filepath.Join(dir, "samples.csv"), regular.NoLimit)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	header, _, ok := bytes.Cut(head[:n], []byte("\n"))
	info, err := f.Stat()
	if err != nil || !ok {
		return nil
	}
	tail := make([]byte, min(info.Size()-int64(len(header))-1, sampleTail))
	if n, err = f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && err != io.EOF {
		return nil
	}
	end := bytes.LastIndexByte(tail[:n], '\n')
	if end < 0 {
		return nil
	}
	row := tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end]
	rows, err := csv.NewReader(strings.NewReader(string(header) + "\n" + string(row) + "\n")).ReadAll()
	if err != nil || len(rows) != 2 {
		return nil
	}
	out := map[string]float64{}
	for i, name := range rows[0] {
		if v, err := strconv.ParseFloat(rows[1][i], 64); err == nil {
			out[name] = v
		}
	}
	return out
}
