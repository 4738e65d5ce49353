package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"
	"time"

	"trainopt/monitor"
)

// Bounds of what one Reader takes, whatever the files hold.
const (
	maxProcesses   = 256
	pollBudget     = 4 << 20 // bytes read in one Poll
	maxProgress    = 4096    // rows returned by one Poll
	maxCheckpoints = 1000    // the latest are kept
	maxFailures    = 100
	maxAnswers     = 100
)

// silence is how long the process that trains may report nothing while another one reports, before that one is taken
// for the training: what was killed writes no end.
const silence = 60.0

// Progress is one report of the job's progress.
type Progress struct {
	// Row holds the columns that the framework gives; Throughput is samples per second of the recent steps.
	Row monitor.Row
	// At is when the process wrote it, on CLOCK_MONOTONIC. Reached is when the counts were reached, the end of the last step: a
	// report at the end of an epoch may follow its evaluation. 0 where unknown.
	At, Reached time.Duration
	// Samples is the number of training samples so far, NaN where unknown.
	Samples float64
	// PID is the process, Training which of its trainings, from 1: a step may be below the last one's only where either changes.
	PID, Training int
}

// Reader follows the reports of a job's processes. It keeps nothing on disk: another Reader of the same directory comes
// to the same facts. It is not safe for concurrent use.
type Reader struct {
	dir       string
	boot      string
	files     map[int]*follower
	processes map[int]*process
	speaker   *process // rank 0 of the training
	answers   []Answer
	failures  []Failure
	saved     []Checkpoint
	lastID    int
}

// NewReader follows the reports in dir, which need not exist yet.
func NewReader(dir string) *Reader {
	return &Reader{dir: dir, boot: bootID(), files: map[int]*follower{}, processes: map[int]*process{}}
}

// processID is the process that a file name such as 4711.jsonl belongs to.
func processID(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".jsonl")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0 && strconv.Itoa(pid) == digits
}

// Poll reads what was written since the last call, a bounded part of it where there is much, and returns the progress of
// the job in the order of time: that of rank 0, never that of data-loader workers or other helpers.
func (r *Reader) Poll(now time.Time) ([]Progress, error) {
	if err := processFiles(r.dir, r.files, maxProcesses); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read observer reports: %w", err)
	}
	pids := make([]int, 0, len(r.files))
	for pid := range r.files {
		pids = append(pids, pid)
	}
	sort.Ints(pids)
	budget := pollBudget
	for _, pid := range pids {
		if f := r.files[pid]; len(f.pending) == 0 && budget > 0 {
			budget -= f.fill()
		}
	}
	var out []Progress
	for len(out) < maxProgress {
		next := r.earliest(pids, &budget)
		if next == nil {
			break
		}
		l := next.pending[0]
		next.pending = next.pending[1:]
		if r.take(&l) {
			out = append(out, Progress{Row: l.row(now), At: duration(l.Mono), Reached: duration(l.Reached), Samples: value(l.Samples), PID: l.PID, Training: l.Training})
		}
	}
	return out, nil
}

// earliest returns the file whose next line is the oldest, nil where none is pending, or where a file that is not read to
// its end might hold an older one and the budget is spent.
func (r *Reader) earliest(pids []int, budget *int) (next *follower) {
	for _, pid := range pids {
		f := r.files[pid]
		for len(f.pending) == 0 && f.more {
			if *budget <= 0 {
				return nil
			}
			*budget -= f.fill()
		}
		if len(f.pending) > 0 && (next == nil || f.pending[0].Mono < next.pending[0].Mono) {
			next = f
		}
	}
	return next
}

// Lost is the number of lines that were left out because they were too long or not the module's.
func (r *Reader) Lost() (lines int) {
	for _, f := range r.files {
		lines += f.lost
	}
	return lines
}
