package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// op is the operation of a request to a training.
type op string

const (
	// save writes a checkpoint in the framework's own way.
	save op = "save"
	// SaveAndStop writes a checkpoint and ends the training in the framework's way of stopping early; the script then
	// continues.
	SaveAndStop op = "save_and_stop"
	// SetThreads sets the numeric thread pools.
	SetThreads op = "threads"
	// SetWorkers sets the workers of the training's data loader from its next pass on; it is answered then.
	SetWorkers op = "workers"
	// Trial compares the current thread count with another one inside the training, and restores the current one.
	Trial op = "trial"
)

// Request is one request to the training process.
type Request struct {
	Op op `json:"op"`
	// Path is the target of a save; empty leaves the choice to the framework. Hugging Face and Ultralytics always
	// choose it.
	Path string `json:"path,omitempty"`
	// Threads is the thread count to set or to try.
	Threads int `json:"threads,omitempty"`
	// Workers is the number of loader workers to set; 0 loads in the training process.
	Workers int `json:"workers"`
	// Limit bounds the duration of a trial, 0 means 30 s; a running step is not interrupted.
	Limit time.Duration `json:"-"`
}

// Answer is the result of a request.
type Answer struct {
	ID     int
	Op     op
	OK     bool
	Reason string // reason of a failure
	Took   time.Duration
	// Path, Step and Stopped are set for a save.
	Path    string
	Step    float64
	Stopped bool
	// Threads is the count in force, ThreadsBefore the previous one; likewise for loader workers.
	Threads, ThreadsBefore int
	Workers, WorkersBefore int
	// Tried is the thread count of a trial; Before, During and After are the median step times at the current count,
	// at the tried count, and at the current count again, 0 if not measured. GivenUp is true if the trial was aborted
	// because the tried count was clearly slower.
	Tried                 int
	Before, During, After time.Duration
	GivenUp               bool
}

// errUnable reports a request that the training does not support at present.
var errUnable = errors.New("the training cannot do this on request")

// Request sends a request to the training process and returns its id for Answer. It does not wait: the process checks
// for requests at the end of a step, at most twice a second. A later request replaces one that has not been read.
func (r *Reader) Request(q Request) (id int, err error) {
	f := r.Facts()
	able := map[op]bool{save: f.CanSave, SaveAndStop: f.CanSave && f.CanStop, SetThreads: f.CanSetThreads && q.Threads > 0, Trial: f.CanSetThreads && q.Threads > 0,
		SetWorkers: f.CanSetWorkers && q.Workers >= 0}
	if !able[q.Op] {
		return 0, fmt.Errorf("request %s: %w", q.Op, errUnable)
	}
	path := filepath.Join(r.dir, fmt.Sprintf("request-%d.json", f.PID))
	id = max(r.lastID, lastRequest(path)) + 1
	text, err := json.Marshal(struct {
		ID int `json:"id"`
		Request
		MaxSeconds float64 `json:"max_seconds,omitempty"`
	}{id, q, q.Limit.Seconds()})
	if err != nil {
		return 0, fmt.Errorf("request %s: %w", q.Op, err)
	}
	if err := replaceFile(path, append(text, '\n')); err != nil {
		return 0, fmt.Errorf("request %s: %w", q.Op, err)
	}
	r.lastID = id
	return id, nil
}

// lastRequest returns the id of the request in a file, 0 if it has none, so that a restarted agent continues the
// numbering.
func lastRequest(path string) int {
	var q struct{ ID int }
	s, err := os.Lstat(path)
	if err != nil || !s.Mode().IsRegular() || s.Size() > maxLine {
		return 0
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &q) != nil {
		return 0
	}
	return max(0, q.ID)
}

// Answer returns the answer to a request; ok is false if Poll has not read it yet.
func (r *Reader) Answer(id int) (a Answer, ok bool) {
	for _, a := range r.answers {
		if a.ID == id {
			return a, true
		}
	}
	return Answer{}, false
}

// answer stores an answer; the oldest one is dropped beyond maxAnswers.
func (r *Reader) answer(l *line) {
	const largest = 1 << 30 // larger ids are not from this package
	if l.ID <= 0 || l.ID > largest {
		return
	}
	r.lastID = max(r.lastID, l.ID)
	if len(r.answers) >= maxAnswers {
		r.answers = r.answers[1:]
	}
	a := Answer{ID: l.ID, Op: op(clip(string(l.Op))), OK: l.OK, Reason: clip(l.Reason), Took: duration(l.Seconds), Path: l.Path, Step: value(l.Step),
		Stopped: l.Stopped, ThreadsBefore: l.Before, Tried: l.Tried, Before: duration(value(l.SecondsBefore)), During: duration(value(l.SecondsTried)),
		After: duration(value(l.SecondsAfter)), GivenUp: l.GivenUp}
	if l.Threads != nil {
		a.Threads = int(*l.Threads)
	}
	if l.Workers != nil {
		a.Workers, a.WorkersBefore = int(*l.Workers), l.Before
	}
	r.answers = append(r.answers, a)
}
