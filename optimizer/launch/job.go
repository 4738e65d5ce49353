package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// ErrNoCheckpoint reports that the job's main process has no handler for SIGUSR1. The signal would kill it, so it was
// not sent.
var ErrNoCheckpoint = errors.New("its main process does not handle the checkpoint signal SIGUSR1")

// errNoKeeper reports that the keeper and the standby of a job are dead, so a request that only they can carry out
// was not carried out.
var errNoKeeper = errors.New("the supervisor of the job is gone")

// stopSlack is the time that Stop may take in addition to the grace.
const stopSlack = 15 * time.Second

// keeperSlack is the time that the keeper may take in addition to the grace before the agent kills the tree itself.
const keeperSlack = 12 * time.Second

// job is the agent's side of a job under a keeper. It implements Job, Resizer and ProcessTree.
type job struct {
	handle  Handle
	keeper  process
	standby process // PID 0: no standby
	main    process
	dir     string
	grace   time.Duration
	runID   string
	enforce enforcer // nil if unknown
	missing []string
	at      time.Time      // of the start, wall clock; zero if unknown
	began   time.Duration  // the same on the monotonic clock; 0 if unknown
	answer  *keeperReplies // nil if another agent started the job

	life   context.Context // cancelled by Close
	cancel context.CancelFunc
	left   sync.WaitGroup // the goroutines of watch
	done   chan struct{}
	exit   Exit // written before done is closed

	mu   sync.Mutex
	want control
	// byUs is set when the agent has signalled the tree itself, which the keeper's record does not show.
	byUs bool
}

var _ interface {
	Job
	Resizer
	ProcessTree
} = (*job)(nil)

// jobFacts holds the facts about a job that its handle does not contain.
type jobFacts struct {
	known   bool // the run directory describes this job and not a later one
	grace   time.Duration
	runID   string
	missing []string
	at      time.Time
	began   time.Duration
	want    control
	enforce enforcer
}

func newJob(h Handle, m jobFacts) *job {
	life, cancel := context.WithCancel(context.Background())
	return &job{handle: h, keeper: process{h.KeeperPID, h.KeeperStart}, standby: process{h.StandbyPID, h.StandbyStart},
		main: process{h.PID, h.Start}, dir: h.RunDir, grace: m.grace, runID: m.runID, enforce: m.enforce, missing: m.missing, at: m.at, began: m.began, want: m.want,
		life: life, cancel: cancel, done: make(chan struct{})}
}

// watch follows the keeper, and then the standby that replaces it, until the exit is recorded.
func (j *job) watch() {
	j.left.Go(j.wake)
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
				j.standby.wait(leaving) // no process of this package remains when Done is closed
				cancel()
				j.end(e)
				return
			}
		}
		j.watchOrphans()
	})
}

// wake continues supervisors that were stopped by a signal when the main process of the job has ended, because only they
// record the end.
func (j *job) wake() {
	if j.main.wait(j.life) != nil {
		return // closed
	}
	for ; j.life.Err() == nil && !j.hasEnded(); time.Sleep(orphanTick) {
		j.keeper.signal(unix.SIGCONT)
		j.standby.signal(unix.SIGCONT)
	}
}

// recorded returns the exit as recorded by the keeper: from the run directory or, where that is deleted or full, from
// the keeper's last message.
func (j *job) recorded() (Exit, bool) {
	if e, ok := j.handle.ReadExit(); ok {
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

// standbyWithin is the time a standby is given to exit after its keeper.
const standbyWithin = 500 * time.Millisecond

// lastMessageWithin limits the wait for the last message of a keeper that has ended.
const lastMessageWithin = 200 * time.Millisecond

// supervisor returns the keeper, or the standby that has replaced it; false when both are dead.
func (j *job) supervisor() (process, bool) {
	for _, p := range []process{j.keeper, j.standby} {
		if p.alive() {
			return p, true
		}
	}
	return process{}, false
}

// end sets the exit and closes done. It is called once.
func (j *job) end(e Exit) {
	j.mu.Lock()
	if j.byUs {
		e = e.asStopped()
	}
	j.mu.Unlock()
	j.exit = e
	close(j.done)
}

// asStopped returns e as the exit of a job that the agent stopped without its keeper.
func (e Exit) asStopped() Exit {
	switch {
	case e.Reason == Killed && (e.Signal == "SIGTERM" || e.Signal == "SIGKILL"):
		e.Reason, e.Detail = Stopped, "ended by "+e.Signal
	case e.Reason == Killed || e.Reason == Exited || e.Reason == OOM:
		e.Reason = Stopped
	}
	e.Detail = "stopped on request; " + e.Detail
	return e
}

// endLost ends a job that has neither processes nor an exit record. The time of the end is now if the agent observed it
// (watched), otherwise the last modification that the run directory shows.
func (j *job) endLost(watched bool) {
	if j.enforce != nil && j.handle.here() {
		j.enforce.Remove() // the keeper's task, but the keeper is dead
	}
	at, sign := time.Now(), ""
	if !watched {
		at, sign = lastActivity(j.dir)
	}
	j.end(lost(j.handle, j.at, at, sign))
}

// watchOrphans follows the processes of a tree without keeper until none is left.
func (j *job) watchOrphans() {
	tick := time.NewTicker(orphanTick)
	defer tick.Stop()
	for {
		list := leftovers(j.handle, j.runID, j.enforce)
		if len(list) == 0 {
			j.endLost(true)
			return
		}
		for slices.ContainsFunc(list, stat.alive) {
			select {
			case <-j.life.Done():
				return
			case <-tick.C:
			}
		}
	}
}

const orphanTick = 200 * time.Millisecond

// Handle implements Job.
func (j *job) Handle() Handle { return j.handle }

// Done implements Job.
func (j *job) Done() <-chan struct{} { return j.done }

// Exit implements Job; it returns the zero Exit before Done is closed.
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

// Close implements Job. It does not close Done, and a Stop that is waiting or is called later returns os.ErrClosed.
func (j *job) Close() error {
	j.cancel()
	j.left.Wait()
	return nil
}

// Began implements ProcessTree.
func (j *job) Began() time.Duration { return j.began }

// PIDs implements ProcessTree. It returns no pids after the end.
func (j *job) PIDs() ([]int, error) {
	list, err := j.processes()
	if slices.ContainsFunc(list, func(s stat) bool { return s.Name == "srun" }) { // its tasks are children of Slurm's daemons
		for _, s := range leftovers(j.handle, j.runID, nil) {
			if !slices.ContainsFunc(list, func(o stat) bool { return o.PID == s.PID }) {
				list = append(list, s)
			}
		}
	}
	pids := make([]int, len(list))
	for i, s := range list {
		pids[i] = s.PID
	}
	return pids, err
}

// processes lists the tree from its cgroup if possible, else below the supervisor, else by leftovers; empty after the
// end.
func (j *job) processes() ([]stat, error) {
	if j.hasEnded() {
		return nil, nil
	}
	if j.enforce != nil { // reading the cgroup costs one read, the walk over /proc one per process of the machine
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

// Apply implements Resizer.
func (j *job) Apply(a resources.Allocation) ([]string, error) {
	if j.hasEnded() {
		return nil, fmt.Errorf("apply %v to job %d: %w", a, j.main.PID, os.ErrProcessDone)
	}
	if j.enforce == nil {
		return []string{"nothing: how this job is enforced is not known any more"}, nil
	}
	var not []string
	done := map[int]bool{}
	for round := range 5 { // a process that started meanwhile may have inherited the former mask
		pids, err := j.PIDs()
		if err != nil {
			return not, fmt.Errorf("apply %v to job %d: %w", a, j.main.PID, err)
		}
		if pids = slices.DeleteFunc(pids, func(pid int) bool { return done[pid] }); round > 0 && len(pids) == 0 {
			break
		}
		more, err := j.enforce.Update(a, pids)
		if err != nil {
			return not, fmt.Errorf("apply %v to job %d: %w", a, j.main.PID, err)
		}
		for _, pid := range pids {
			done[pid] = true
		}
		not = append(not, slices.DeleteFunc(more, func(line string) bool { return slices.Contains(not, line) })...)
	}
	if err := writeFile(filepath.Join(j.dir, enforceFile), j.enforce.State(), false); err != nil {
		not = append(not, fmt.Sprintf("the change is in force, but is not recorded for a later agent: %v", err))
	}
	return not, nil
}

// requestControl writes the requested state to control.json and wakes the keeper. change edits a copy of the previous
// request. A disk that does not respond within controlWithin, or a dead keeper (errNoKeeper), is an error.
func (j *job) requestControl(change func(*control)) error {
	if j.hasEnded() {
		return os.ErrProcessDone
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	want := j.want
	change(&want)
	written := make(chan error, 1)
	go func() { written <- writeJSON(filepath.Join(j.dir, controlFile), want) }()
	select {
	case err := <-written:
		if err != nil {
			return err
		}
	case <-time.After(controlWithin): // the caller then acts without the keeper
		return fmt.Errorf("write %s: no answer from the disk within %v", controlFile, controlWithin)
	}
	j.want = want
	for _, p := range []process{j.keeper, j.standby} { // a sleeping standby reads control.json when it wakes
		if p.signal(unix.SIGUSR2) == nil {
			return nil
		}
	}
	return errNoKeeper
}

// controlWithin limits the time for writing control.json.
const controlWithin = 500 * time.Millisecond

// SetStopAfter implements Job.
func (j *job) SetStopAfter(d time.Duration) error {
	err := j.requestControl(func(c *control) {
		c.StopAt = 0
		if d > 0 {
			c.StopAt = Monotonic() + d
		}
	})
	if err != nil {
		return fmt.Errorf("set the time limit of job %d: %w", j.main.PID, err)
	}
	return nil
}

// Checkpoint implements Job. It fails with ErrNoCheckpoint, without sending anything, while the main process has no
// handler for the signal: a script that never saves, or one that is still starting.
func (j *job) Checkpoint() error {
	err := func() error {
		if !j.main.alive() {
			return os.ErrProcessDone
		}
		if !j.main.catches(unix.SIGUSR1) {
			return ErrNoCheckpoint
		}
		if j.requestControl(func(c *control) { c.Checkpoints++ }) != nil {
			return j.main.signal(unix.SIGUSR1)
		}
		return nil
	}()
	if err != nil {
		return fmt.Errorf("request a checkpoint of job %d: %w", j.main.PID, err)
	}
	return nil
}

// Signal implements ProcessTree.
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

// signalGroup requires that the main process is alive: otherwise the id of its process group may have been reused.
func (j *job) signalGroup(sig syscall.Signal) error {
	if !j.main.alive() {
		return os.ErrProcessDone
	}
	return unix.Kill(-j.main.PID, sig)
}

// Stop implements Job. A grace of 0 sends SIGKILL immediately after SIGTERM; a negative one means the grace of the
// Command. A second Stop with a shorter grace shortens the first. When ctx ends, Stop returns the zero Exit and ctx's
// error, and the keeper completes the stop alone. Any other error names processes that could not be killed.
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
	if err := j.requestControl(func(c *control) { c.Stop = shorter(c.Stop, grace) }); err == nil {
		j.keeper.signal(unix.SIGCONT) // in case they are stopped
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

// termAll sends the signals with which the keeper begins a stop.
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

// killAll sends SIGKILL to the cgroup and to every process of the tree.
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
