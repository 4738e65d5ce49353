package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Op is what a training can be asked to do.
type Op string

const (
	// Save writes a checkpoint by the framework's own way.
	Save Op = "save"
	// SaveAndStop writes a checkpoint and ends the training as the framework does early; the script then continues.
	SaveAndStop Op = "save_and_stop"
	// SetThreads sets the numeric thread pools.
	SetThreads Op = "threads"
	// SetWorkers sets the workers of the data loader that the training reads, from its next pass on; it is answered then.
	SetWorkers Op = "workers"
	// Trial compares the present thread count with another inside the training and returns to the present one.
	Trial Op = "trial"
)

// Request is one request to the process that trains.
type Request struct {
	Op Op `json:"op"`
	// Path is where to save; empty leaves the choice to the framework. Hugging Face and Ultralytics always choose.
	Path string `json:"path,omitempty"`
	// Threads is the count to set or to try.
	Threads int `json:"threads,omitempty"`
	// Workers is the number of loader workers to set; 0 loads in the training process.
	Workers int `json:"workers"`
	// Limit bounds a trial, 30 s where 0; a step that is running is not interrupted.
	Limit time.Duration `json:"-"`
}

// Answer is what became of a request.
type Answer struct {
	ID     int
	Op     Op
	OK     bool
	Reason string // why not
	Took   time.Duration
	// Path, Step and Stopped are of a save.
	Path    string
	Step    float64
	Stopped bool
	// Threads holds now, ThreadsBefore held before; the same of loader workers.
	Threads, ThreadsBefore int
	Workers, WorkersBefore int
	// Tried is the thread count of a trial; Before, During and After are median step times at the present, the tried and
	// again the present count, 0 where not measured. GivenUp is true where the tried count was clearly slower.
	Tried                 int
	Before, During, After time.Duration
	GivenUp               bool
}

// ErrUnable is returned for a request that the training cannot answer now.
var ErrUnable = errors.New("the training cannot do this on request")

// Request asks the process that trains and returns the id that Answer takes. It does not wait: the process looks at the
// end of a step, at most twice a second. A later request replaces one that was not yet read.
func (r *Reader) Request(q Request) (id int, err error) {
	f := r.Facts()
	able := map[Op]bool{Save: f.CanSave, SaveAndStop: f.CanSave && f.CanStop, SetThreads: f.CanSetThreads && q.Threads > 0, Trial: f.CanSetThreads && q.Threads > 0,
		SetWorkers: f.CanSetWorkers && q.Workers >= 0}
	if !able[q.Op] {
		return 0, fmt.Errorf("request %s: %w", q.Op, ErrUnable)
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

// lastRequest is the id of the request in a file, 0 where there is none: an agent that was started again continues it.
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

// Answer returns the answer to a request, ok false while none was read by Poll.
func (r *Reader) Answer(id int) (a Answer, ok bool) {
	for _, a := range r.answers {
		if a.ID == id {
			return a, true
		}
	}
	return Answer{}, false
}

func (r *Reader) answer(l *line) {
	const largest = 1 << 30 // ids beyond it are not ours
	if l.ID <= 0 || l.ID > largest {
		return
	}
	r.lastID = max(r.lastID, l.ID)
	if len(r.answers) >= maxAnswers {
		r.answers = r.answers[1:]
	}
	a := Answer{ID: l.ID, Op: Op(clip(string(l.Op))), OK: l.OK, Reason: clip(l.Reason), Took: duration(l.Seconds), Path: l.Path, Step: value(l.Step),
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
