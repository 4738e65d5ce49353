package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// ErrNoCheckpoint says that the job's main process has no handler for SIGUSR1 now. The signal would
// kill it, so it was not sent.
var ErrNoCheckpoint = errors.New("its main process does not handle the checkpoint signal SIGUSR1")

// ErrNoKeeper says that the keeper of a job has died, so what only it can do is not done.
var ErrNoKeeper = errors.New("the keeper of the job is gone")

// stopSlack is how much longer than the grace Stop may take.
const stopSlack = 15 * time.Second

// keeperSlack is how much longer than the grace the keeper may take until the agent ends the tree
// itself.
const keeperSlack = 12 * time.Second

// job is one job under a keeper, seen from the agent.
type job struct {
	handle  Handle
	keeper  process
	standby process // PID 0: none
	main    process
	dir     string
	grace   time.Duration
	runID   string
	enforce enforcer // nil when unknown
	missing []string
	began   time.Time // wall clock; zero when unknown
	answer  *answer   // nil when another agent started the job

	life   context.Context // ends with Close
	cancel context.CancelFunc
	left   sync.WaitGroup // the watcher
	done   chan struct{}
	exit   Exit // set before done is closed

	mu   sync.Mutex
	want control
	// byUs says that we ended it with our own hands, which the keeper cannot know.
	byUs bool
}

var _ Job = (*job)(nil)

// memory is what is known of a job besides its handle.
type memory struct {
	known   bool // the run directory speaks of this job
	grace   time.Duration
	runID   string
	missing []string
	began   time.Time
	want    control
	enforce enforcer
}

func newJob(h Handle, m memory) *job {
	life, cancel := context.WithCancel(context.Background())
	return &job{handle: h, keeper: process{h.KeeperPID, h.KeeperStart}, standby: process{h.StandbyPID, h.StandbyStart},
		main: process{h.PID, h.Start}, dir: h.RunDir, grace: m.grace, runID: m.runID, enforce: m.enforce, missing: m.missing, began: m.began, want: m.want,
		life: life, cancel: cancel, done: make(chan struct{})}
}

// watch follows the keeper, and the standby that replaces it, until the end is on record.
func (j *job) watch() {
	j.left.Go(func() {
		if j.answer != nil {
			defer j.answer.close(j.life, j.standby)
		}
		for _, p := range []process{j.keeper, j.standby} {
			if p.wait(j.life) != nil {
				return // closed
			}
			if e, ok := j.recorded(); ok {
				leaving, cancel := context.WithTimeout(j.life, standbyWithin)
				j.standby.wait(leaving) // so that nothing of ours is left when Done is closed
				cancel()
				j.end(e)
				return
			}
		}
		j.watchOrphans()
	})
}

// recorded is the end as the keeper has put it on record: in the run directory, or, where that is
// gone or full, in its last message.
func (j *job) recorded() (Exit, bool) {
	if e, ok := ReadExit(j.handle); ok {
		return e, true
	}
	if j.answer == nil {
		return Exit{}, false
	}
	h, err := j.answer.next(context.Background(), lastMessageWithin)
	if err != nil || h.Ended == nil {
		return Exit{}, false
	}
	return h.Ended.Exit, true
}

// standbyWithin is how long a standby may take to follow its keeper.
const standbyWithin = 500 * time.Millisecond

// lastMessageWithin is how long the last message of a keeper that has ended may take.
const lastMessageWithin = 200 * time.Millisecond

// supervisor is the keeper, or the standby that has replaced it; false when neither lives.
func (j *job) supervisor() (process, bool) {
	for _, p := range []process{j.keeper, j.standby} {
		if p.alive() {
			return p, true
		}
	}
	return process{}, false
}

func (j *job) end(e Exit) {
	j.mu.Lock()
	if j.byUs {
		e = e.wanted()
	}
	j.mu.Unlock()
	j.exit = e
	close(j.done)
}

// wanted is e for a job that was stopped past its keeper.
func (e Exit) wanted() Exit {
	switch {
	case e.Reason == Killed && (e.Signal == "SIGTERM" || e.Signal == "SIGKILL"):
		e.Reason, e.Detail = Stopped, "ended by "+e.Signal
	case e.Reason == Killed || e.Reason == Exited || e.Reason == OOM:
		e.Reason = Stopped
	}
	e.Detail = "stopped on request; " + e.Detail
	return e
}

// lose ends a job of which nothing is left, and no record. It ended now when we have watched it,
// else at the last sign of it that the run directory holds.
func (j *job) lose(watched bool) {
	if j.enforce != nil {
		j.enforce.Remove() // which was the keeper's to do
	}
	at, sign := time.Now(), ""
	if !watched {
		at, sign = lastSign(j.dir)
	}
	j.end(lost(j.handle, j.began, at, sign))
}

// watchOrphans follows a tree that has lost its keeper, until nothing of it is left.
func (j *job) watchOrphans() {
	tick := time.NewTicker(orphanTick)
	defer tick.Stop()
	for {
		list := leftovers(j.handle, j.runID, j.enforce)
		if len(list) == 0 {
			j.lose(true)
			return
		}
		for anyAlive(list) {
			select {
			case <-j.life.Done():
				return
			case <-tick.C:
			}
		}
	}
}

const orphanTick = 200 * time.Millisecond

func anyAlive(list []stat) bool {
	for _, s := range list {
		if s.alive() {
			return true
		}
	}
	return false
}

// Handle implements Job.
func (j *job) Handle() Handle { return j.handle }

// Done implements Job.
func (j *job) Done() <-chan struct{} { return j.done }

// Exit implements Job; before Done is closed it is the zero Exit.
func (j *job) Exit() Exit {
	if j.hasEnded() {
		return j.exit
	}
	return Exit{}
}

func (j *job) hasEnded() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Close implements Job. Done is not closed by it, and a Stop that waits, or comes later, returns
// os.ErrClosed.
func (j *job) Close() error {
	j.cancel()
	j.left.Wait()
	return nil
}

// PIDs implements Job. After the end it is empty.
func (j *job) PIDs() ([]int, error) {
	list, err := j.processes()
	pids := make([]int, len(list))
	for i, s := range list {
		pids[i] = s.PID
	}
	return pids, err
}

func (j *job) processes() ([]stat, error) {
	if j.hasEnded() {
		return nil, nil
	}
	if j.enforce != nil { // the kernel's own list costs one read, the walk one for each process of the machine
		if list := withCgroup(nil, j.enforce); len(list) > 0 {
			return list, nil
		}
	}
	p, ok := j.supervisor()
	if !ok {
		return leftovers(j.handle, j.runID, j.enforce), nil
	}
	return tree(p.PID)
}

// Enforced implements Job.
func (j *job) Enforced() []string {
	var words []string
	if j.enforce != nil {
		words = j.enforce.Statement()
	} else {
		words = []string{"what was enforced on this job is not known any more"}
	}
	return append(words, j.missing...)
}

// Apply implements Job.
func (j *job) Apply(a resources.Allocation) ([]string, error) {
	if j.hasEnded() {
		return nil, fmt.Errorf("apply %v to job %d: %w", a, j.main.PID, os.ErrProcessDone)
	}
	if j.enforce == nil {
		return []string{"nothing: how this job is enforced is not known any more"}, nil
	}
	pids, err := j.PIDs()
	if err != nil {
		return nil, fmt.Errorf("apply %v to job %d: %w", a, j.main.PID, err)
	}
	not, err := j.enforce.Update(a, pids)
	if err != nil {
		return not, fmt.Errorf("apply %v to job %d: %w", a, j.main.PID, err)
	}
	if err := writeFile(filepath.Join(j.dir, enforceFile), j.enforce.State(), false); err != nil {
		not = append(not, fmt.Sprintf("the change is in force, but a later agent will not know of it: %v", err))
	}
	return not, nil
}

// demand tells the keeper what is wanted now. change edits a copy of what was wanted before.
func (j *job) demand(change func(*control)) error {
	if j.hasEnded() {
		return os.ErrProcessDone
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	want := j.want
	change(&want)
	written := make(chan error, 1)
	go func() { written <- writeJSON(filepath.Join(j.dir, controlFile), want, false) }()
	select {
	case err := <-written:
		if err != nil {
			return err
		}
	case <-time.After(demandWithin): // the caller does what it can without the keeper
		return fmt.Errorf("write %s: no answer from the disk within %v", controlFile, demandWithin)
	}
	j.want = want
	for _, p := range []process{j.keeper, j.standby} { // a standby that sleeps reads control.json when it wakes
		if p.signal(unix.SIGUSR2) == nil {
			return nil
		}
	}
	return ErrNoKeeper
}

// demandWithin is how long a disk may take to store what is wanted of the keeper.
const demandWithin = 500 * time.Millisecond

// wants is what the keeper was last told.
func (j *job) wants() control {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.want
}

// SetStopAfter implements Job.
func (j *job) SetStopAfter(d time.Duration) error {
	err := j.demand(func(c *control) {
		c.StopAt = 0
		if d > 0 {
			c.StopAt = monotonic() + d
		}
	})
	if err != nil {
		return fmt.Errorf("set the time limit of job %d: %w", j.main.PID, err)
	}
	return nil
}

// Checkpoint implements Job. It fails with ErrNoCheckpoint, and does nothing, while the main process
// has no handler for the signal: a script that never saves, or one that is still starting.
func (j *job) Checkpoint() error {
	err := func() error {
		if !j.main.alive() {
			return os.ErrProcessDone
		}
		if !j.main.catches(unix.SIGUSR1) {
			return ErrNoCheckpoint
		}
		if j.demand(func(c *control) { c.Checkpoints++ }) != nil {
			return j.main.signal(unix.SIGUSR1)
		}
		return nil
	}()
	if err != nil {
		return fmt.Errorf("ask job %d for a checkpoint: %w", j.main.PID, err)
	}
	return nil
}

// Signal implements Job.
func (j *job) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal job %d: %v is not a signal of this system", j.main.PID, sig)
	}
	if err := j.signalGroup(n); err != nil {
		return fmt.Errorf("signal job %d with %s: %w", j.main.PID, signalName(n), err)
	}
	return nil
}

// signalGroup needs the main process alive: only then is the number of the group certainly its own.
func (j *job) signalGroup(sig syscall.Signal) error {
	if !j.main.alive() {
		return os.ErrProcessDone
	}
	return unix.Kill(-j.main.PID, sig)
}

// Stop implements Job. A grace of 0 kills at once after SIGTERM; a negative one means that of the
// Command. A second Stop with a shorter grace shortens the first. When ctx ends, Stop returns the zero
// Exit and ctx's error, and the keeper completes the stop alone. Any other error names processes that
// could not be killed.
func (j *job) Stop(ctx context.Context, grace time.Duration) (Exit, error) {
	if grace < 0 {
		grace = j.grace
	}
	if j.hasEnded() {
		return j.exit, nil
	}
	if j.life.Err() != nil {
		return Exit{}, fmt.Errorf("stop job %d: %w", j.main.PID, os.ErrClosed)
	}
	limit := time.NewTimer(grace + stopSlack)
	defer limit.Stop()
	escalate := grace
	if err := j.demand(func(c *control) { c.Stop = shorter(c.Stop, grace) }); err == nil {
		j.keeper.signal(unix.SIGCONT) // should they have been stopped
		j.standby.signal(unix.SIGCONT)
		escalate += keeperSlack
	} else {
		j.termAll()
	}
	kill := time.NewTimer(escalate)
	defer kill.Stop()
	for {
		select {
		case <-j.done:
			return j.exit, nil
		case <-ctx.Done():
			return Exit{}, fmt.Errorf("stop job %d: %w", j.main.PID, ctx.Err())
		case <-j.life.Done():
			return Exit{}, fmt.Errorf("stop job %d: %w", j.main.PID, os.ErrClosed)
		case <-kill.C:
			j.killAll()
			kill.Reset(orphanTick)
		case <-limit.C:
			list, _ := j.processes()
			e := Exit{Reason: Stopped, Code: -1, Detail: "stopped on request; could not be killed: " + describe(list), At: time.Now()}
			return e, fmt.Errorf("stop job %d: it has not ended %s after SIGTERM; still there: %s",
				j.main.PID, grace+stopSlack, describe(list))
		}
	}
}

func shorter(old *time.Duration, grace time.Duration) *time.Duration {
	if old != nil && *old < grace {
		return old
	}
	return &grace
}

func (j *job) endedByUs() {
	j.mu.Lock()
	j.byUs = true
	j.mu.Unlock()
}

// termAll is what the keeper would do at the beginning of a stop.
func (j *job) termAll() {
	j.endedByUs()
	inGroup := j.signalGroup(unix.SIGTERM) == nil
	if inGroup {
		j.signalGroup(unix.SIGCONT)
	}
	list, _ := j.processes()
	for _, s := range list {
		if !inGroup || s.Group != j.main.PID {
			s.signal(unix.SIGTERM)
			s.signal(unix.SIGCONT)
		}
	}
}

func (j *job) killAll() {
	j.endedByUs()
	if j.enforce != nil {
		j.enforce.Kill()
	}
	list, _ := j.processes()
	for _, s := range list {
		s.signal(unix.SIGKILL)
	}
}
