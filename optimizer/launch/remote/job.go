package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/monitor"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
)

// callWithin limits one command of the engine.
const callWithin = 15 * time.Second

// stopSlack is the time that Stop may take in addition to the grace.
const stopSlack = 45 * time.Second

// job is the agent's side of a stretch.
type job struct {
	launcher *Launcher
	dir      string // of the run
	own      string // of the stretch

	life    context.Context // cancelled by Close
	cancel  context.CancelFunc
	left    sync.WaitGroup
	poke    chan struct{} // capacity 1: the request has changed
	ready   chan struct{} // closed when a node is held
	started chan struct{} // closed when the job runs on it
	done    chan struct{}
	exit    launch.Exit // written before done is closed

	mu      sync.Mutex
	stretch engine.Stretch
	want    request
	node    nodeState     // its times are those of this machine's clock
	changed time.Time     // when node last changed, on this machine's clock
	offset  time.Duration // the node's monotonic clock less this machine's
	skew    time.Duration // the node's wall clock less this machine's, to within the time of a read; 0 until known
	looked  bool          // a state that is read from now on was written since the last look
	pending time.Time     // when the engine last listed the job as pending, on this machine's clock
	begun   time.Time     // the start of the first life by the engine's clock; zero until listed
	status  engine.Status // the engine's last answer
	asked   time.Time     // of that answer
	silent  error         // why the engine does not answer; nil if it does
	absent  int           // number of consecutive answers without the job
	// withdrawn is set when the engine has cancelled the job on request.
	withdrawn bool
}

var _ interface {
	launch.Job
	launch.Queued
	launch.Preparation
} = (*job)(nil)

func (l *Launcher) newJob(dir string, s engine.Stretch) *job {
	life, cancel := context.WithCancel(context.Background())
	return &job{launcher: l, dir: dir, own: launch.StretchDir(dir, s.N), life: life, cancel: cancel, poke: make(chan struct{}, 1), ready: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{}), stretch: s,
		want: request{Schema: fileSchema}, changed: time.Now()}
}

// engine returns the engine as the stretch sees it.
func (j *job) engine() engine.Engine { return j.launcher.engineOf(&j.stretch) }

// Handle implements launch.Job.
func (j *job) Handle() launch.Handle {
	j.mu.Lock()
	defer j.mu.Unlock()
	return launch.Handle{RunDir: j.dir, Engine: j.launcher.Engine.Name(), EngineID: j.stretch.ID, Stretch: j.stretch.N}
}

// Enforced implements launch.Job.
func (j *job) Enforced() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	words := []string{fmt.Sprintf("%s job %s (%s): %s", j.launcher.Engine.Name(), j.stretch.ID, j.stretch.Key, j.stretch.Place)}
	return append(words, j.node.Enforced...)
}

// Ready implements launch.Preparation.
func (j *job) Ready() <-chan struct{} { return j.ready }

// Withdraw implements launch.Preparation. A node that is held already also reads the request.
func (j *job) Withdraw() {
	j.launcher.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for j.cancelJob(ctx) != nil && ctx.Err() == nil {
			time.Sleep(j.launcher.pace().ask)
		}
	})
}

// Started implements launch.Queued.
func (j *job) Started() <-chan struct{} { return j.started }

// HeldSince implements launch.Queued.
func (j *job) HeldSince() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	since := j.stretch.Started
	if !j.status.Started.IsZero() && j.status.State == engine.Running {
		since = j.status.Started
	}
	if !since.IsZero() && since.Before(j.pending) { // the clock of the engine is behind
		return j.pending
	}
	return since
}

// Waiting implements launch.Queued.
func (j *job) Waiting() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := j.launcher.Engine.Name() + " job " + j.stretch.ID
	switch {
	case j.node.Phase == running:
		return name + " runs on " + nodeWords(j.node.Node, j.stretch.Place.Nodes) + skewWords(j.skew)
	case j.node.Phase == ready:
		return name + " holds " + nodeWords(j.node.Node, j.stretch.Place.Nodes) + skewWords(j.skew)
	case j.silent != nil:
		return fmt.Sprintf("%s: state unknown (%v)", name, j.silent)
	case j.status.State == engine.Pending && !j.status.Expected.IsZero():
		return fmt.Sprintf("%s waits (%s), expected by the engine at %s", name, j.status.Reason, j.status.Expected.Local().Format(time.DateTime))
	case j.status.State == engine.Pending && j.status.Reason != "" && j.status.Reason != "None":
		return fmt.Sprintf("%s waits (%s)", name, j.status.Reason)
	case j.status.State == engine.Pending:
		return name + " waits"
	}
	return name + " was submitted"
}

// nodeWords names the first node of n.
func nodeWords(first string, n int) string {
	if n < 2 {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, n-1)
}

// skewWords names a difference of clocks, which shows in the times of the training's own records.
func skewWords(skew time.Duration) string {
	const shown = 30 * time.Second
	switch {
	case skew > shown:
		return fmt.Sprintf(", whose clock is %v ahead", skew.Round(time.Second))
	case skew < -shown:
		return fmt.Sprintf(", whose clock is %v behind", -skew.Round(time.Second))
	}
	return ""
}

// Sample returns the node's latest sample; one without data if it is absent or old.
func (j *job) Sample() monitor.Sample {
	s, err := readSample(j.own)
	if err != nil || j.unseen() > j.launcher.pace().stale {
		return monitor.NoSample(time.Now())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s.At = s.At.Add(-j.notableSkew())
	return s
}

// MachineCPUs returns the number of CPUs of the node; 0 before it is known.
func (j *job) MachineCPUs() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node.CPUs
}

// ClockOffset returns the node's monotonic clock less that of this machine.
func (j *job) ClockOffset() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.offset
}

// Done implements launch.Job.
func (j *job) Done() <-chan struct{} { return j.done }

// Exit implements launch.Job; it returns the zero Exit before Done is closed.
func (j *job) Exit() launch.Exit {
	if j.hasEnded() {
		return j.exit
	}
	return launch.Exit{}
}

func (j *job) hasEnded() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Close implements launch.Job.
func (j *job) Close() error {
	j.cancel()
	j.left.Wait()
	return nil
}

// request changes what the node is asked for and wakes it. A signal that is lost only delays the node's next look.
func (j *job) request(change func(*request)) error {
	if j.hasEnded() {
		return os.ErrProcessDone
	}
	j.mu.Lock()
	want := j.want
	change(&want)
	err := writeJSON(j.own, requestFile, want)
	if err == nil {
		j.want = want
	}
	id, host := j.stretch.ID, j.node.Host
	j.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case j.poke <- struct{}{}:
	default:
	}
	if here, _ := os.Hostname(); host != "" && host != here { // a node of this machine sees the file at once
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), callWithin)
			defer cancel()
			j.engine().Signal(ctx, id, unix.SIGUSR2)
		}()
	}
	return nil
}

// SetStopAfter implements launch.Job.
func (j *job) SetStopAfter(d time.Duration) error {
	err := j.request(func(q *request) { q.Limit, q.StopAfter = q.Limit+1, max(d, 0) })
	if err != nil {
		return fmt.Errorf("set the time limit of stretch %d: %w", j.stretch.N, err)
	}
	return nil
}

// Checkpoint implements launch.Job.
func (j *job) Checkpoint() error {
	err := launch.ErrNoCheckpoint
	if j.hasStarted() {
		err = j.request(func(q *request) { q.Checkpoints++ })
	}
	if err != nil {
		return fmt.Errorf("ask stretch %d for a checkpoint: %w", j.stretch.N, err)
	}
	return nil
}

// Stop implements launch.Job. A stretch that waits for its place is withdrawn; one whose node does not answer is
// cancelled by the engine after the grace.
func (j *job) Stop(ctx context.Context, grace time.Duration) (launch.Exit, error) {
	if j.hasEnded() {
		return j.exit, nil
	}
	err := j.request(func(q *request) {
		if q.Stop == nil || grace < *q.Stop {
			q.Stop = &grace
		}
	})
	cancelAt := time.Now().Add(grace + stopSlack/2)
	if err != nil || !j.hasStarted() {
		cancelAt = time.Now()
	}
	limit := time.NewTimer(grace + stopSlack)
	defer limit.Stop()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		if !cancelAt.IsZero() && !time.Now().Before(cancelAt) {
			err = j.cancelJob(ctx)
			if cancelAt = time.Now().Add(5 * time.Second); err == nil {
				cancelAt = time.Time{}
			}
		}
		select {
		case <-j.done:
			e := j.exit
			if e.Reason == launch.Cancelled {
				e.Reason = launch.Stopped
			}
			return e, nil
		case <-ctx.Done():
			return launch.Exit{}, fmt.Errorf("stop stretch %d: %w", j.stretch.N, ctx.Err())
		case <-j.life.Done():
			return launch.Exit{}, fmt.Errorf("stop stretch %d: %w", j.stretch.N, os.ErrClosed)
		case <-again.C:
		case <-limit.C:
			e := launch.Exit{Reason: launch.Stopped, Code: -1, At: time.Now(), Detail: "its end could not be confirmed"}
			j.mu.Lock()
			id, silent := j.stretch.ID, j.silent
			j.mu.Unlock()
			return e, fmt.Errorf("stop stretch %d: the end of %s job %s is not confirmed after %v: %w", j.stretch.N, j.launcher.Engine.Name(), id,
				grace+stopSlack, errors.Join(err, silent))
		}
	}
}

// Signal sends SIGINT to the job; other signals are refused.
func (j *job) Signal(sig os.Signal) error {
	if sig != syscall.SIGINT {
		return fmt.Errorf("signal stretch %d: only SIGINT can be sent", j.stretch.N)
	}
	if !j.hasStarted() {
		return os.ErrProcessDone
	}
	return j.request(func(q *request) { q.Interrupts++ })
}
