package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"
	"time"

	"trainopt/monitor/trainlog"
)

// Limits of a Reader, independent of the content of the files.
const (
	maxProcesses   = 256
	pollBudget     = 4 << 20 // bytes read in one Poll
	maxProgress    = 4096    // rows returned by one Poll
	maxCheckpoints = 1000    // the latest are kept
	maxFailures    = 100
	maxAnswers     = 100
)

// silence is the number of seconds without a report of the training process after which another reporting process
// takes over: a killed process reports no end.
const silence = 60.0

// Progress is one report of the job's progress.
type Progress struct {
	// Row contains the columns that the framework provides; Throughput is in samples per second, over the recent
	// steps.
	Row trainlog.Row
	// At is the time of the report on CLOCK_MONOTONIC. Reached is the time at which the counts were reached, the end
	// of the last step: a report at the end of an epoch may follow its evaluation. 0 if unknown.
	At, Reached time.Duration
	// Samples is the number of training samples so far, NaN if unknown.
	Samples float64
	// LoopSteps is the number of steps by the loops of the script around them, NaN if unknown.
	LoopSteps float64
	// EndsEarly reports that one of these loops may end early, so that LoopSteps is an upper bound.
	EndsEarly bool
	// Loops is the number of loops of the script from which the totals follow; with two or more they are those of all trainings
	// in them.
	Loops int
	// TrainingsLeft is the number of trainings from this one on, by the loops of the script around them; 0 if unknown, -1 if
	// they are several, an unknown number.
	TrainingsLeft int
	// PID is the process, Training the number of its training, from 1: steps decrease only if one of the two changes.
	PID, Training int
	// Began is the time at which this training began, as At.
	Began time.Duration
	// Follows reports that the previous training of the process had finished, completely or stopped early.
	Follows bool
}

// Reader follows the reports of a job's processes. It stores nothing on disk: another Reader of the same directory
// derives the same facts. It is not safe for concurrent use.
type Reader struct {
	dir       string
	boot      string
	files     map[int]*follower
	processes map[int]*process
	speaker   *process // rank 0 of the training
	answers   []Answer
	failures  []failure
	saved     []Checkpoint
	saves     int      // with those dropped from saved
	known     []string // paths of the checkpoints of earlier processes
	lastID    int
}

// NewReader returns a Reader of the reports in dir, which need not exist yet. known are the absolute paths of the checkpoints
// of earlier processes of the job: a training that continues from one may save there before its first step.
func NewReader(dir string, known ...string) *Reader {
	return &Reader{dir: dir, boot: bootID(), files: map[int]*follower{}, processes: map[int]*process{}, known: known}
}

// processID returns the process id in a file name such as 4711.jsonl.
func processID(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".jsonl")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0 && strconv.Itoa(pid) == digits
}

// Poll reads the reports written since the last call, at most a bounded number, and returns the progress of the job
// in order of time: that of rank 0, never that of data-loader workers or other helpers.
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
			p := r.processes[l.PID]
			out = append(out, Progress{Row: l.row(now), At: duration(l.Mono), Reached: duration(l.Reached), Samples: value(l.Samples), LoopSteps: value(l.LoopSteps), EndsEarly: l.EndsEarly, Loops: l.Loops, TrainingsLeft: l.TrainingsLeft,
				PID: l.PID, Training: l.Training, Began: duration(p.training.Mono), Follows: p.follows})
		}
	}
	return out, nil
}

// earliest returns the file with the oldest pending line. It returns nil if no line is pending, or if the budget is
// spent while an incompletely read file may contain an older one.
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

// Lost returns the number of discarded lines: too long, or not written by the module.
func (r *Reader) Lost() (lines int) {
	for _, f := range r.files {
		lines += f.lost
	}
	return lines
}

// Ended returns the time on CLOCK_MONOTONIC at which the last process that trained has ended; 0 while one may train.
func (r *Reader) Ended() time.Duration {
	at := 0.0
	for _, p := range r.processes {
		if p.training != nil && !p.Ended {
			return 0
		}
		at = max(at, p.lastAt)
	}
	return duration(at)
}
