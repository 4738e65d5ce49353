package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// queueSite is an engine of its own queue with two devices, whose jobs are pretended.
type queueSite struct {
	Site
	*rehearsal
	host resources.Host
	// pends is true for a start that waits in the queue until it is withdrawn; nil: none does. refuses is the error of a start.
	pends   func(name string, n int) bool
	refuses func(name string, n int) error

	mu      sync.Mutex
	up      []int
	waiting []*queuedJob
}

func newQueueSite(t *testing.T) *queueSite {
	t.Helper()
	q := &queueSite{rehearsal: newRehearsal(), host: resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, up: []int{2}}
	q.runsOn = func(string) bool { return true }
	var err error
	if q.Site, err = NewLocal(q.host, 2, nil); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *queueSite) Name() string { return "slurm" }

func (q *queueSite) Up(context.Context) (presence, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return presence{devices: slices.Clone(q.up)}, nil
}

// set sets the number of devices that are up.
func (q *queueSite) set(up int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.up = []int{up}
}

func (q *queueSite) Place(cfg run.Config, device int, where []int32, hold string, avoid []string) placement {
	p := q.Site.Place(cfg, device, where, hold, avoid)
	p.Config.Engine = q.Name()
	p.Site = func(context.Context, run.Config, bool) (run.Site, error) {
		return run.Site{Launcher: q, Host: q.host}, nil
	}
	return p
}

// Start implements launch.Launcher.
func (q *queueSite) Start(ctx context.Context, c launch.Command) (launch.Job, error) {
	name := trainingOf(c.RunDir)
	if q.refuses != nil {
		if err := q.refuses(name, q.started(name)+1); err != nil {
			q.rehearsal.mu.Lock()
			q.starts[name]++
			q.rehearsal.mu.Unlock()
			return nil, err
		}
	}
	j, err := q.rehearsal.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	w := &queuedJob{rehearsed: j.(*rehearsed), started: make(chan struct{})}
	if q.pends == nil || !q.pends(name, q.rehearsal.started(name)) {
		close(w.started)
		return w, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
	return w, nil
}

// queuedJob is a pretended job that may wait for its place.
type queuedJob struct {
	*rehearsed
	started chan struct{}
}

func (j *queuedJob) Started() <-chan struct{} { return j.started }

func (j *queuedJob) HeldSince() time.Time { return time.Time{} }

func (j *queuedJob) Waiting() string { return "job 1 waits (Priority)" }

// serve serves the jobs of trainings that keep no work, in rounds of four seconds.
func (q *queueSite) serve(t *testing.T, names ...string) (state string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		cfg := training(t, dir, name)
		state = cfg.StateDir
		if _, err := Submit(state, Spec{Submitted: time.Now(), Min: 1, Max: 1, Config: cfg}); err != nil {
			t.Fatal(err)
		}
	}
	signals, ended := make(chan os.Signal), make(chan error, 1)
	go func() {
		ended <- Serve(Config{StateDir: state, Site: q, Policy: "fifo", Round: 4 * time.Second, Agent: q.agent(), Message: func(line string) { t.Log(line) }}, signals)
	}()
	return state, func() {
		signals <- os.Interrupt
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// finish ends a training, and waits for the end of its job.
func (q *queueSite) finish(t *testing.T, state string, id int, name string) {
	t.Helper()
	awaitJob(t, state, id, func(j *Job) bool {
		q.rehearsal.mu.Lock()
		defer q.rehearsal.mu.Unlock()
		for _, j := range q.jobs {
			if j.name == name {
				j.end()
			}
		}
		return j.State.Ended()
	})
}

// TestWithdrawnBeforeItsStart: a job that keeps no work is withdrawn from the queue of the engine when its node goes down, and starts
// once there are devices again.
func TestWithdrawnBeforeItsStart(t *testing.T) {
	t.Parallel()
	q := newQueueSite(t)
	q.pends = func(name string, n int) bool { return name == "waits" && n == 1 }
	state, stop := q.serve(t, "holds", "waits")
	awaitJob(t, state, 2, func(j *Job) bool { return j.State == Starting && j.Keeps != nil && slices.Equal(j.Where, []int32{1}) })
	q.set(1)
	awaitJob(t, state, 2, func(j *Job) bool { return j.State == Waiting || j.State.Ended() })
	q.set(2)
	awaitJob(t, state, 2, func(j *Job) bool { return j.State.Ended() || q.started("waits") == 2 })
	q.finish(t, state, 2, "waits")
	q.finish(t, state, 1, "holds")
	stop()
	if j, _, err := ReadJob(state, 2); err != nil || j.State != Done || j.Stretch != 3 || q.started("waits") != 2 {
		t.Errorf("%s (%s) after %d lives and %d starts, %v; want done after 3 and 2", j.State, j.Reason, j.Stretch, q.started("waits"), err)
	}
}

// TestEngineDoesNotAnswer: a job whose engine does not answer when it is to start first waits until it does.
func TestEngineDoesNotAnswer(t *testing.T) {
	t.Parallel()
	q := newQueueSite(t)
	q.runsOn = nil
	q.refuses = func(_ string, n int) error {
		if n == 1 {
			return &launch.StartError{Reason: "no answer", Err: fmt.Errorf("sbatch: %w", engine.ErrUnreachable)}
		}
		return nil
	}
	state, stop := q.serve(t, "starts")
	awaitJob(t, state, 1, func(j *Job) bool { return j.State.Ended() })
	stop()
	if j, _, err := ReadJob(state, 1); err != nil || j.State != Done || j.Stretch != 1 || q.started("starts") != 2 {
		t.Errorf("%s (%s) after %d lives and %d attempts, %v; want done after 1 and 2", j.State, j.Reason, j.Stretch, q.started("starts"), err)
	}
}

// TestQueuedIsWaiting: the time in the queue of the engine counts as waiting, and is no service of the job.
func TestQueuedIsWaiting(t *testing.T) {
	t.Parallel()
	q := newQueueSite(t)
	q.pends = func(string, int) bool { return true }
	state, stop := q.serve(t, "pends")
	seen, waited := time.Time{}, 0.0
	awaitJob(t, state, 1, func(j *Job) bool {
		seen, waited = time.Now(), j.Waited(time.Now())
		return j.Queued
	})
	awaitJob(t, state, 1, func(j *Job) bool {
		if j.State != Starting || j.Reason != "queued by slurm" || j.Attained != 0 {
			t.Errorf("%s (%s), %g device-seconds; want starting, queued by slurm, 0", j.State, j.Reason, j.Attained)
			return true
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		return j.State.Ended() || len(q.waiting) > 0 && j.Waited(time.Now()) >= waited+2
	})
	q.mu.Lock()
	for _, j := range q.waiting {
		close(j.started)
	}
	q.mu.Unlock()
	started := time.Now()
	awaitJob(t, state, 1, func(j *Job) bool { return !j.Queued })
	q.finish(t, state, 1, "pends")
	stop()
	j, _, err := ReadJob(state, 1)
	const precision = 0.1 // of two clocks
	if queued := started.Sub(seen).Seconds(); err != nil || j.State != Done || j.WaitS < waited+queued-precision || j.Attained > j.Ended.Sub(started).Seconds()+precision {
		t.Errorf("%s (%s), waited %g s, %g device-seconds, %v; want done, at least %g, and at most the time since", j.State, j.Reason, j.WaitS, j.Attained, err, waited+queued)
	}
}
