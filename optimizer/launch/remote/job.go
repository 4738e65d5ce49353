package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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

// watch follows the stretch until its end is known.
func (j *job) watch() {
	defer j.left.Done()
	pace := j.launcher.pace()
	tick := time.NewTimer(pace.poll)
	defer tick.Stop()
	for {
		if j.look() {
			j.end()
			return
		}
		j.leaveLostNode()
		if j.unseen() >= pace.stale || !j.hasStarted() {
			j.askEngine()
			if why, lost := j.isLost(); lost {
				j.endWithout(why)
				return
			}
		}
		next := pace.poll
		if j.steady() {
			next = pace.beat
		}
		tick.Reset(next)
		select {
		case <-j.life.Done():
			return
		case <-j.poke:
		case <-tick.C:
		}
	}
}

// hasLeft reports whether the node has recorded the end of the stretch.
func (j *job) hasLeft() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node.Phase == ended || j.node.Phase == fenced
}

// steady reports whether the job runs and nothing is wanted of it, so that only its sign of life is of interest.
func (j *job) steady() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node.Phase == running && j.want.Stop == nil && j.want.Checkpoints == 0 && j.want.Interrupts == 0
}

// look reads the state of the node. It reports whether the stretch has ended.
func (j *job) look() (over bool) {
	var s nodeState
	err := readJSON(j.own, nodeFile, &s)
	j.mu.Lock()
	defer j.mu.Unlock()
	fresh := j.looked
	j.looked = true
	if err != nil {
		return false
	}
	if s.Beat == j.node.Beat {
		return s.Phase == ended || s.Phase == fenced
	}
	if skew := time.Until(s.Wall); fresh && (j.skew == 0 || skew > j.skew || j.skew-skew > clockStep) { // the shortest delay of a read is the best
		j.skew = skew
	}
	s.shift(-j.notableSkew())
	j.node, j.changed = s, time.Now()
	j.offset = s.Monotonic - launch.Monotonic()
	if s.Phase != ready && j.stretch.Started.IsZero() {
		j.stretch.Started = s.Held
		j.stretch.Nodes = []string{s.Node}
		j.saveStretch()
	}
	if s.Phase == ready || s.Failure == "" {
		closeOnce(j.ready)
	}
	if s.Phase != ready && s.Failure == "" {
		closeOnce(j.started)
	}
	return s.Phase == ended || s.Phase == fenced
}

// clockStep is the smallest change of a clock that is not taken for the delay of a read.
const clockStep = 10 * time.Second

// notableSkew returns the difference of the clocks if it is larger than the delay of a read.
func (j *job) notableSkew() time.Duration {
	if j.skew.Abs() < 2*time.Second {
		return 0
	}
	return j.skew
}

// closeOnce closes a channel that one goroutine at a time may close.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (j *job) hasStarted() bool {
	select {
	case <-j.started:
		return true
	default:
		return false
	}
}

// unseen returns the time since the node last renewed its state.
func (j *job) unseen() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.changed)
}

// askEngine asks the engine for the status of the job, at most once per interval. The interval grows while the engine
// does not answer.
func (j *job) askEngine() {
	pace := j.launcher.pace()
	j.mu.Lock()
	every := pace.ask
	if j.silent != nil {
		every *= 3
	}
	due := time.Since(j.asked) >= every
	key := j.stretch.Key
	j.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(j.life, callWithin)
	defer cancel()
	list, err := j.launcher.Engine.List(ctx, key)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked, j.silent = time.Now(), err
	switch {
	case err != nil:
	case len(list) == 0:
		j.absent++
		j.status = engine.Status{State: engine.Unknown}
	default:
		j.absent, j.status = 0, list[len(list)-1]
		if j.status.State == engine.Pending {
			j.pending = j.asked
		} else if j.begun.IsZero() {
			j.begun = j.status.Started
		}
		if j.stretch.ID == "" {
			j.stretch.ID = j.status.ID
			j.saveStretch()
		}
	}
}

// leaveLostNode asks a living node, whose job the engine considers ended, to save and exit: the engine has lost contact
// with it, and kills the training without notice when the contact is restored.
func (j *job) leaveLostNode() {
	pace := j.launcher.pace()
	j.mu.Lock()
	every := 6 * pace.ask
	if j.status.State == engine.Ended {
		every = pace.ask
	}
	due := j.node.Phase == running && !j.want.Leave && time.Since(j.changed) < pace.stale && time.Since(j.asked) >= every
	before := j.status.State
	j.mu.Unlock()
	if !due {
		return
	}
	j.askEngine()
	j.mu.Lock()
	lost := j.silent == nil && j.status.State == engine.Ended && before == engine.Ended // not one that is just ending
	j.mu.Unlock()
	if lost {
		j.request(func(q *request) { q.Leave = true })
	}
}

// isLost reports whether the job has ended without a record: its node is silent, and the engine says that the job has
// ended, or has not known it in several answers. The silence of an engine is no evidence.
func (j *job) isLost() (why string, lost bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pace := j.launcher.pace()
	if j.withdrawn && j.node.Phase == "" {
		return "withdrawn", true
	}
	if j.silent != nil || time.Since(j.changed) < min(pace.stale, 2*pace.ask) {
		return "", false
	}
	switch {
	case j.status.State == engine.Ended:
		return joinWords(j.status.Raw, j.status.Reason), true
	case j.absent >= 3 && time.Since(j.changed) >= pace.stale:
		return "it is no longer known to the engine", true
	}
	return "", false
}

func joinWords(a, b string) string {
	if b == "" || b == "None" {
		return a
	}
	return a + ": " + b
}

// end completes a stretch whose node has recorded its end.
func (j *job) end() {
	j.mu.Lock()
	s := j.node
	j.mu.Unlock()
	e := launch.Exit{Reason: launch.Lost, Code: -1, At: s.Wall}
	if s.Exit != nil {
		e = *s.Exit
	}
	life, sure := j.account()
	switch {
	case s.Phase == fenced:
		e.Reason, e.Detail = launch.Lost, "ended by its fence: another stretch had taken over"
	case s.Signal == "SIGUSR1" && e.Reason == launch.Exited && (!s.Asked || e.Code != 0 && e.Code != codeSaved):
		// It ended by itself between the warning and the time limit.
	case s.Signal != "":
		e = ofEngine(e, s, life)
		if life == nil && j.isCancelled() {
			e.Reason, e.Detail = launch.Cancelled, "cancelled; the accounting does not contain the user who did"
		}
	case e.Reason == launch.StartFailed && life != nil && life.Cancelled != "":
		e.Reason = launch.Cancelled
	}
	j.close(e, life, sure)
}

func (j *job) wantsStop() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.want.Stop != nil
}

// isCancelled reports whether the engine lists the job as cancelled.
func (j *job) isCancelled() bool {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	list, err := j.launcher.Engine.List(ctx, j.stretch.Key)
	return err == nil && len(list) > 0 && strings.HasPrefix(list[len(list)-1].Raw, "CANCELLED")
}

// ofEngine returns the exit of a job that the engine has ended.
func ofEngine(e launch.Exit, s nodeState, life *engine.Life) launch.Exit {
	e.Reason, e.Detail = launch.Preempted, "ended by the engine ("+s.Signal+")"
	if life == nil {
		return e
	}
	e.Detail = "ended by the engine: " + life.State
	if life.Cancelled != "" {
		e.Reason, e.Detail = launch.Cancelled, "cancelled by "+life.Cancelled
	}
	return e
}

// endWithout ends a stretch of which no record remains: its node, its supervisor or the file system failed.
func (j *job) endWithout(why string) {
	j.mu.Lock()
	s, stretch := j.node, j.stretch
	j.mu.Unlock()
	if e, ok := launch.ReadExit(s.Handle); ok && s.Handle.RunDir != "" { // the keeper outlived the supervisor of the stretch
		e.At = e.At.Add(-j.notableSkew())
		life, sure := j.account()
		if e.Reason == launch.Stopped && !j.wantsStop() {
			e.Reason, e.Detail = launch.Preempted, "ended with its supervisor on the node, which was killed ("+why+")"
		}
		j.close(e, life, sure)
		return
	}
	life, sure := j.account()
	e := launch.Exit{Reason: launch.Lost, Code: -1, At: time.Now(), Detail: strings.TrimSpace("the stretch ended without a record (" + why + ")")}
	if !s.Started.IsZero() {
		e.At, e.Ran = s.Wall, s.Wall.Sub(s.Started)
		e.Detail += "; counted up to its last sign of life, " + s.Wall.Local().Format(time.DateTime)
	}
	if life != nil {
		switch {
		case life.Cancelled != "":
			e.Reason, e.Detail = launch.Cancelled, "cancelled by "+life.Cancelled
		case stretch.Started.IsZero() && s.Started.IsZero() && life.Started.IsZero():
			e.Detail = "the engine ended it before it ran (" + life.State + ")"
		case life.State == "FAILED" && s.Phase == "":
			e.Detail += "; its node showed nothing: state directory, script and program must be on a file system that it shares (optimize doctor --engine " +
				j.launcher.Engine.Name() + " tests that)"
		case life.State == "OUT_OF_MEMORY":
			e.Reason, e.Detail = launch.OOM, "the engine's memory limit was reached"
		case life.State == "PREEMPTED" || life.State == "NODE_FAIL" || life.State == "TIMEOUT" || life.State == "REQUEUED":
			e.Reason, e.Detail = launch.Preempted, "ended by the engine without notice: "+life.State
		}
	}
	j.close(e, life, sure)
}

// account waits a while for the engine's final account of the job; nil if it is absent. sure is false for one that
// contradicts the time for which the node was seen to be held: the accounting is incomplete after a restart of its
// database.
func (j *job) account() (life *engine.Life, sure bool) {
	j.mu.Lock()
	id, key, held := j.stretch.ID, j.stretch.Key, j.node.Held
	seen := j.node.Wall.Sub(held)
	if !j.begun.IsZero() {
		held = j.begun // by the clock of the account
	}
	j.mu.Unlock()
	if id == "" {
		return nil, false
	}
	pace := j.launcher.pace()
	for until, pause := time.Now().Add(pace.final), pace.poll; ; pause *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), callWithin)
		lives, err := j.launcher.Engine.Account(ctx, id)
		cancel()
		if sum := whole(lives, key); err == nil && sum != nil {
			life = sum
			if sure = agree(life, held, seen); sure {
				return life, true
			}
		}
		if time.Now().After(until) {
			return life, false
		}
		select {
		case <-time.After(min(pause, time.Until(until))):
		case <-j.life.Done():
			return life, false
		}
	}
}

// whole returns all lives of the job of a key as one, in the state of the last: from the start of the first, with the sum
// of the times, all of which are paid. nil unless all are final.
func whole(lives []engine.Life, key string) *engine.Life {
	lives = slices.DeleteFunc(lives, func(l engine.Life) bool { return l.Key != key })
	if len(lives) == 0 {
		return nil
	}
	sum := lives[len(lives)-1]
	sum.Elapsed = 0
	for _, l := range slices.Backward(lives) {
		if !l.Final {
			return nil
		}
		if sum.Elapsed += l.Elapsed; !l.Started.IsZero() {
			sum.Started = l.Started
		}
	}
	return &sum
}

// close records the end and closes done. Times and charge are those of the account if that is sure.
func (j *job) close(e launch.Exit, life *engine.Life, sure bool) {
	j.mu.Lock()
	if e.Reason == launch.Cancelled && j.withdrawn { // by this agent
		e.Reason = launch.Stopped
	}
	s := &j.stretch
	s.Ended = e.At
	if life != nil {
		s.State = life.State
	}
	if sure {
		confirm(s, life)
		e.Held = life.Elapsed
	} else if !s.Started.IsZero() && e.At.After(s.Started) {
		e.Held = e.At.Sub(s.Started)
	}
	j.saveStretch()
	j.mu.Unlock()
	j.exit = e
	close(j.done)
}

// saveStretch updates the record of the stretch; the caller holds the lock. A failure is repaired by the next change.
func (j *job) saveStretch() {
	j.launcher.record.Lock()
	defer j.launcher.record.Unlock()
	var all stretches
	if readJSON(j.dir, stretchesFile, &all) != nil {
		return
	}
	switch {
	case j.stretch.N <= len(all.List):
		all.List[j.stretch.N-1] = j.stretch
	case j.stretch.N == len(all.List)+1:
		all.List = append(all.List, j.stretch)
	}
	writeJSON(j.dir, stretchesFile, all)
}

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

// cancelJob cancels the job of the engine. A stretch that owns nothing is then recorded as ended.
func (j *job) cancelJob(ctx context.Context) error {
	j.mu.Lock()
	id := j.stretch.ID
	j.mu.Unlock()
	none := time.Duration(0)
	j.request(func(q *request) { q.Stop = &none }) // also reaches a node that the engine cannot
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if id == "" { // its submission was not answered
		found, err := j.launcher.Engine.List(call, j.stretch.Key)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			id = found[len(found)-1].ID
		}
	}
	if id != "" {
		if err := j.launcher.Engine.Cancel(call, id); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.withdrawn = true; j.stretch.State == statePrepared && j.stretch.Ended.IsZero() {
		j.stretch.Ended = time.Now()
		j.saveStretch()
	}
	return nil
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
			j.launcher.Engine.Signal(ctx, id, unix.SIGUSR2)
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
