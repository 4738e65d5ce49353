package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/cost"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/resources"
)

// launched is the job of a run.
type launched struct {
	job     launch.Job         // nil while no job runs
	tree    launch.ProcessTree // nil if the processes of the job are not on this machine
	resizer launch.Resizer     // nil if a running job cannot be resized
	queued  launch.Queued      // nil unless the job waits for its place
	retryAt time.Duration      // elapsed time of the restart after a failure; 0 means none pending
	first   bool               // retryAt is that of a start from the beginning, which the engine could not carry out
	exitAt  time.Duration      // elapsed time at which the last job ended; 0 while a job runs
}

// setJob sets the running job, or nil, and finds the capabilities of its engine.
func (l *launched) setJob(j launch.Job) {
	l.job = j
	l.tree, _ = j.(launch.ProcessTree)
	l.resizer, _ = j.(launch.Resizer)
}

// attach observes j as the running job. While it waits for its place nothing is charged; see placed.
func (r *run) attach(j launch.Job) {
	r.setJob(j)
	r.rec.Enforced = j.Enforced()
	r.sampler.remote, _ = j.(remoteSampler)
	if q, ok := j.(launch.Queued); ok {
		r.queued, r.Stretch = q, j.Handle().Stretch
	}
	r.sampler.tree = r.tree
	r.chargeFromStart()
	if err := r.log.MoveOutput(r.jobFile("job.stdout"), r.jobFile("job.stderr")); err != nil {
		r.event(Warning, "%v", err)
	}
	if r.tree != nil {
		r.log.Attach(r.tree, j.Handle().PID)
	}
}

// chargeFromStart dates the start of a launched job, from which it is charged: starting its supervisor takes time but costs
// nothing. A place on an engine is charged from when it is held.
func (r *run) chargeFromStart() {
	seg := r.Progress.Current()
	if seg == nil || !seg.Launch || seg.StartedAt > 0 { // dated by an earlier agent
		return
	}
	if r.tree == nil {
		seg.StartedAt = r.elapsed()
	} else if began := r.tree.Began(); began > 0 {
		seg.StartedAt = max(seg.LaunchedAt, r.elapsedBefore+began-r.started)
		r.meter.Settle(seg.LaunchedAt)
		_ = r.meter.Start(seg.StartedAt, cost.Label(seg.Label), seg.Allocation, r.Rates) // as launch has done
	}
}

// detach ends the observation of a job that has ended.
func (r *run) detach() {
	r.releasePower()
	r.setJob(nil)
	r.queued = nil
	r.publish()
	r.sampler.detach()
}

// launch starts the job at an allocation: it opens a segment, completes the command line and environment, and hands
// both to the Launcher. A failure to start ends the run.
func (r *run) launch(ctx context.Context, a resources.Allocation, label string, resume bool) {
	if a.GPUs > 0 {
		ids, release := r.Host.Pick(a.GPUs, a.GPUIDs, func() map[string]int { return r.sampler.processes(ctx, r.Clock.Now()) })
		defer release() // the job shows them
		a.GPUIDs = ids
	}
	if err := r.Limits.Check(a, r.Host); err != nil {
		r.failStart(CodeOurs, err, err)
		return
	}
	if resume && r.vanishedCheckpoint() {
		r.event(Warning, "the checkpoint %s was removed: the training begins again", absolute(r.Config.Dir, r.rec.Checkpoint.Path))
		r.beginAgain()
		r.checkpoints.times, r.checkpoints.newest, r.rec.Checkpoint, resume = nil, "", nil, false
	}
	now := r.elapsed()
	r.Current, r.exitAt = a, 0
	if !r.Config.elsewhere() { // a place on an engine is charged from when it is held
		if err := r.meter.Start(now, cost.Label(label), a, r.Rates); err != nil {
			r.failStart(CodeOurs, err, err)
			return
		}
	}
	r.beginSegment(now, a, label, true)
	r.save(true) // before the start: the run of an agent that dies now must be findable
	r.Origin = origin{}
	r.log.Relaunched()
	if r.observer != nil {
		r.observer.installed.Loader = r.loaderAt(a)
		r.workers = workerTrials{own: r.workers.own}
		r.observer.begin(r.Progress.launches())
	}
	argv, from, err := r.commandLine(a, resume)
	if err != nil {
		r.failStart(CodeUsage, err, err)
		return
	}
	r.stateBatch(a)
	if r.resumption.How == inspect.ResumeProtocol {
		_ = os.MkdirAll(r.dir.Path("checkpoint"), 0o700) // otherwise the script makes it
	}
	speedMeasured := r.measureSpeed() // while the supervisor starts
	start, started := r.watchdog.starts(ctx)
	j, err := r.Launcher.Start(start, launch.Command{Args: argv, Dir: r.Config.Dir, Env: r.jobEnvironment(a, resume), Stdin: r.jobInput(), RunDir: r.dir.Dir(),
		Allocation: r.enforced(a), Limits: r.enforcedLimits(), KeepsDevices: r.keepsDevices(a), Grace: r.Config.Grace, StopAfter: r.deadMan(), StopBy: r.stopBy(), PTY: r.Config.PTY, Reports: r.reports()})
	started()
	speedMeasured()
	r.moving = nil // its place is in use, or withdrawn by Start
	if err != nil {
		r.meter.Settle(now)
		r.closeSegment(now)
		if r.interruptions(); r.ended != nil { // the user's signal cancelled the start
			return
		}
		if after := startsLater(err); after > 0 && (resume || r.Lease != nil) {
			r.eventOnce(Warning, "unreachable", "%v; trying again", err)
			r.retryAt, r.first = r.elapsed()+after, !resume
			return
		}
		code := CodeTraining
		if fail := (*launch.StartError)(nil); errors.As(err, &fail) && fail.Internal {
			code = CodeOurs
		}
		r.failStart(code, err, fmt.Errorf("start the training: %w", err))
		return
	}
	r.continueFrom(from)
	r.noteProgress(r.Clock.Now())
	r.attach(j)
	if (r.Lease != nil || r.Config.SLA.CostMaxUSD > 0) && r.queued == nil { // the budget lasts from the start of the job on
		r.moveTimeLimit()
	}
	r.noteAllocation(a, "launch", label)
	if label == "run" && r.Progress.launches() == 1 {
		r.stay(r.plan.Reason)
	}
	r.save(true)
}

// retryEngine is the time between two attempts to continue a run on an engine that does not answer, retryLimit on one that accepts no
// further job of the user at present.
const retryEngine, retryLimit = 10 * time.Second, time.Minute

// startsLater returns the time after which an engine that has failed to start a job may start it; 0: it will not.
func startsLater(err error) time.Duration {
	var full interface{ TryLater() bool }
	switch {
	case errors.Is(err, engine.ErrUnreachable):
		return retryEngine
	case errors.As(err, &full) && full.TryLater():
		return retryLimit
	}
	return 0
}

// failStart ends the run because the job could not be started; detail is the cause, err the failure for the caller.
func (r *run) failStart(code Code, detail, err error) {
	r.end(&ending{state: journal.Failed, reason: "start-failed", detail: detail.Error(), code: code, err: err})
}

// launchLabel returns the label of a segment in the present phase.
func (r *run) launchLabel() string {
	if r.Phase == probing {
		return "probe"
	}
	return "run"
}

// deadMan returns how long the job may run if this agent dies: until the budget or the deadline is nearly reached. It
// is half the reserve later than the guard's own stop, so that a living agent always acts first, and later still, at the
// limit, for a job that has been asked to save and exit. 0 means no limit.
func (r *run) deadMan() time.Duration {
	_, left := r.nearestLimit()
	if left == math.MaxInt64 {
		return 0
	}
	if r.Pending == nil {
		left -= r.reserve() / 2
	}
	return max(left, time.Millisecond)
}

// stopBy returns the deadline on the wall clock; zero without a deadline.
func (r *run) stopBy() time.Time {
	if d := r.Config.SLA.TimeMax; d > 0 {
		return r.Clock.Now().Add(d - r.elapsed() - r.reserve()/2)
	}
	return time.Time{}
}

// moveTimeLimit passes the present deadMan to the supervisor of the running job.
func (r *run) moveTimeLimit() {
	if err := r.job.SetStopAfter(r.withLease(r.deadMan())); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.warn(fmt.Sprintf("move the supervisor's time limit: %v", err))
	}
}

// beginSegment closes the open segment and opens one at an allocation.
func (r *run) beginSegment(now time.Duration, a resources.Allocation, label string, launch bool) {
	r.closeSegment(now)
	r.Progress.Begin(now, a, label, launch).StartUSD = r.spent()
}

func (r *run) closeSegment(now time.Duration) {
	if s := r.Progress.Current(); s != nil && s.EndedAt == 0 {
		s.Spent = r.spent() - s.StartUSD
		r.Progress.End(now)
	}
}

// commandLine returns the command line of a launch and the checkpoint from which it continues: nil for a first launch,
// or if the job keeps the checkpoint itself, unless the observer counts from the start of the process: then it is the one from which
// the job is counted.
func (r *run) commandLine(a resources.Allocation, resume bool) ([]string, *observe.CheckpointFile, error) {
	if !resume || r.keepsCheckpoint() {
		argv, err := r.arguments(&r.facts, a, nil)
		if resume && r.observer != nil && relative[r.Framework] {
			return argv, r.keptCheckpoint(), err
		}
		return argv, nil, err
	}
	f, ok := r.resumeFrom()
	if !ok {
		return nil, nil, fmt.Errorf("resume the training: no complete checkpoint of this run was found below %s", r.Config.Dir)
	}
	argv, err := r.arguments(&r.facts, a, &f)
	return argv, &f, err
}

// arguments returns the command line of a launch: the user's, with the values of decided knobs in the script's own
// arguments.
func (s *script) arguments(f *facts, a resources.Allocation, from *observe.CheckpointFile) ([]string, error) {
	values := map[string]string{}
	set := func(name, value string, wanted bool) {
		if k, ok := s.mapping.Knob(name); wanted && ok && k.TakesValue() && k.Present != value {
			values[name] = value
		}
	}
	set(inspect.KnobBatchSize, strconv.Itoa(a.BatchSize), a.BatchSize > 0)
	set(inspect.KnobWorkers, strconv.Itoa(a.NumWorkers), f.Config.NumWorkers != "" && a.NumWorkers > 0)
	set(inspect.KnobEpochs, strconv.Itoa(f.Config.Epochs), f.Config.Epochs > 0)
	set(inspect.KnobSteps, strconv.Itoa(f.Config.Steps), f.Config.Steps > 0)
	set(inspect.KnobSeed, strconv.FormatInt(f.Config.Seed, 10), f.Config.SeedGiven)
	if from != nil && s.resumption.How == inspect.ResumeArgument {
		if k, _ := s.mapping.Knob(inspect.KnobResume); k.TakesValue() && from.Path == "" {
			return nil, fmt.Errorf("resume with %s: no checkpoint was found below %s", k.Template, f.Config.Dir)
		}
		values[inspect.KnobResume] = from.Path
	}
	return s.mapping.Apply(f.Argv, values)
}

// rewriteMargin is the time after the report of a checkpoint from which on a change of its file is a later save, before the report of
// which the training was stopped.
const rewriteMargin = 20 * time.Millisecond

// continueFrom sets the progress to that of a checkpoint. If the observer counts from the start of the process, a position that is unknown,
// or of an earlier save to that path, is replaced by the progress at the time of the file.
func (r *run) continueFrom(f *observe.CheckpointFile) {
	if f == nil {
		return
	}
	position, counts := r.positionOf(*f), r.observer != nil && relative[r.Framework]
	saved, known := r.SavedAt[filepath.Clean(f.Path)]
	rewritten := known && !r.Config.elsewhere() && f.Time.Sub(saved) > rewriteMargin
	r.checkpoints.newer = counts && (rewritten || math.IsNaN(position))
	done := r.Progress.Done
	if f.Path != "" {
		done = r.progressAt(f.Time.Add(rewriteMargin)) // the clock of file times is coarse
	}
	switch {
	case counts && (math.IsNaN(position) || rewritten && position < done): // counted from the start of the process, whatever it loads
		position = math.Floor(done)
	case !counts && r.resumption.How == inspect.ResumeItself:
		position = math.NaN() // the script decides which snapshot it loads
	}
	r.checkpoints.resumed = true
	r.Progress.ResumeFrom(position)
	if r.observer != nil && !math.IsNaN(position) {
		r.Origin = origin{r.Progress.Unit, position}
	}
	if f.Path != "" {
		r.event(Info, "resuming from %s", f.Path)
	}
	if other := r.checkpoints.foreign; other != "" && (other == f.Path || r.resumption.How == inspect.ResumeItself || r.resumption.Wants == inspect.ResumeTakesNothing) {
		r.event(Warning, "%s was written after this run had ended: the training continues from what that contains", other)
	}
}

// jobEnvironment returns the environment of the job: the inherited one with the allocation, the log file and the
// checkpoint directory of the run.
func (r *run) jobEnvironment(a resources.Allocation, resume bool) []string {
	price := func(v cost.USD) *float64 { f := float64(v); return &f }
	a.NumWorkers = cmp.Or(a.NumWorkers, min(8, a.CPUs)) // one loader worker per CPU, at most 8
	e := resources.JobEnvironment{Threads: r.threadsOf(a), ThreadsChosen: a.Threads > 0, KeepsDevices: r.keepsDevices(a), RunID: r.rec.RunID, Allocation: a, Epochs: r.Config.Epochs, Dataset: r.Config.Dataset, Log: cmp.Or(r.log.named, r.OwnLog),
		Checkpoint: r.dir.Path("checkpoint"), Resume: resume,
		GPUHour: price(r.Rates.GPUHour), CPUHour: price(r.Rates.CPUHour), GiBHour: price(r.Rates.GiBHour)}
	if r.Config.SeedGiven {
		e.Seed = &r.Config.Seed
	}
	if a.GPUs > 0 {
		pin := true
		e.PinMemory = &pin
	}
	env := e.Environ(r.Environ)
	if r.Lease != nil {
		env = append(env, r.Lease.Environ...)
	}
	if r.observer != nil {
		in := &r.observer.installed
		in.Settings = nil
		if !slices.ContainsFunc(r.Environ, func(v string) bool { return strings.HasPrefix(v, "PYTHONUNBUFFERED=") }) {
			in.Settings = append(in.Settings, "OPTIMIZE_OBSERVE_LINES=1")
		}
		env = in.Environ(env)
	}
	return env
}

// threadsOf returns the size of the thread pools of each process at an allocation: that of the libraries if it may use the whole
// machine, its CPUs if a quota allows no more than these, otherwise the physical cores, divided by the ranks. On another machine,
// whose cores are not known here, the CPUs count instead.
func (r *run) threadsOf(a resources.Allocation) int {
	switch {
	case a.Threads > 0:
		return a.Threads
	case r.ranks > 1 || !r.whole(a) && !r.wholeNode(a):
		return max(1, a.CPUs/r.threadsPerCore()/max(1, r.ranks))
	case a.CPUs < len(r.Host.CPUIDs):
		return a.CPUs
	}
	return -1
}

func (f *facts) threadsPerCore() int {
	if f.Host.Described != "" || f.Config.elsewhere() {
		return 1
	}
	return resources.ThreadsPerCore()
}

// startNext launches the job again after a requested exit, and detects a job that did not follow the checkpoint
// protocol.
func (r *run) startNext(ctx context.Context, l *pendingStop, exit launch.Exit) {
	if l.Place != nil {
		before := r.Config.Place
		if err := r.arrive(ctx, *l.Place, *l.Next); err != nil {
			r.event(Warning, "move to %s: %v; the job continues where it was", *l.Place, err)
			r.Config.Place, l.Next = before, &r.Current
		}
	}
	if l.Checkpoint && exit.Signal == "SIGUSR1" {
		r.event(Warning, "the job died of SIGUSR1 instead of saving a checkpoint: it will not be restarted again")
		r.Resumable = false
		if r.Phase == probing { // no more measurements at other allocations
			r.setPlan(r.ownSettings())
			l.Next, l.Label = &r.plan.Allocation, "run"
		}
		r.place(ctx, *l.Next, l.Label, true)
		return
	}
	kept := l.Checkpoint && !l.Observed || l.Saved != ""
	if !kept && r.canResume() { // it may have a checkpoint of its own, or of an earlier request
		if f, ok := r.resumeFrom(); ok && (r.market != nil || f.Path != "") {
			r.relaunch(ctx, *l.Next, l.Label)
			return
		}
	}
	if !kept {
		r.beginAgain()
	}
	r.place(ctx, *l.Next, l.Label, kept)
	if kept && r.job != nil {
		r.Progress.Current().RestartFrom = l.AskedAt
	}
}

// beginAgain prepares a launch from the beginning: the work done so far is lost.
func (r *run) beginAgain() {
	for _, s := range r.Progress.Segments {
		s.Lost = s.Spent
	}
	for i := range r.rec.Probes {
		r.rec.Probes[i].InJob = false
	}
	r.Progress.Restarted()
	// $OPTIMIZER_LOG is a new file, so that rows of the previous launch are not attributed to this one.
	r.OwnLog = r.dir.Path(fmt.Sprintf("training-%d.csv", r.Progress.launches()+1))
	r.log.Restart(r.OwnLog, r.Clock.Now())
}

// mayRestart reports whether a failed job that has a checkpoint is restarted: one that saves on request must have made
// progress, been killed from outside, or requested a restart by its exit code; one with checkpoints of its own, which may
// be older, must have been killed by SIGKILL from outside or have requested it. A script that fails before it logs any
// progress is not restarted.
func (r *run) mayRestart(exit launch.Exit) bool {
	if r.Config.Restarts < 0 || exit.Reason == launch.StartFailed {
		return false
	}
	if !r.Resumable {
		return r.canResume() && (signalOf(exit) == "SIGKILL" || exit.Reason == launch.Exited && exit.Code == exitTryAgain)
	}
	if rest, ok := r.Progress.Remaining(); ok && rest <= 0 && exit.Reason == launch.Exited && exit.Code != exitTryAgain {
		return false // the fault is in what follows the training: every restart would repeat it
	}
	return r.Progress.Rows > 0 || exit.Reason == launch.Killed || exit.Code == exitTryAgain
}

// failure is an exit that was not requested, and where the training was.
type failure struct {
	Exit string  `json:"exit"` // as describeExit states it; empty: none
	At   float64 `json:"at"`   // units of work at the last row of the launch; 0 without a new row
	Unit string  `json:"unit"`
}

// afterFailure counts a failure and decides whether the job is restarted: not if it failed by itself in the same way
// at the same place as before, not beyond Config.Restarts, and with growing delays while no progress is made.
func (f *facts) afterFailure(exit launch.Exit) launch.Retry {
	now, before := failure{describeExit(exit), f.Progress.reached(), f.Progress.Unit}, f.LastFailure
	f.LastFailure = now
	f.Failures++
	if byItself(exit) && now.Exit == before.Exit && (now.At == 0 || now.Unit == before.Unit && math.Abs(now.At-before.At) <= f.Progress.unitsIn(samePlace)) {
		where := "without new progress"
		if now.At > 0 {
			where = fmt.Sprintf("at %s %.6g", now.Unit, now.At)
		}
		return launch.Retry{GiveUp: true, Reason: "gave up: the restarted training failed in the same way again, " + where}
	}
	next, retry := f.Backoff.Next(exit, f.Progress.Done > f.Progress.Current().StartDone)
	f.Backoff = next
	if f.Failures > f.Config.Restarts && !retry.GiveUp {
		retry = launch.Retry{GiveUp: true, Reason: fmt.Sprintf("gave up after %d failures (--max-restarts %d)", f.Failures, f.Config.Restarts)}
	}
	return retry
}

// samePlace is the time within which the last row of a launch may precede its failure.
const samePlace = 5 * time.Second

// byItself reports whether a job failed by its own doing, which a restart may repeat: an error, a crash or its use of
// memory, but no signal of another process, also of one reported by a shell, and no request for a restart.
func byItself(exit launch.Exit) bool {
	switch exit.Reason {
	case launch.OOM:
		return true
	case launch.Killed, launch.Exited:
		return exit.Code != exitTryAgain && !fromOutside[signalOf(exit)]
	}
	return false
}

// signalOf returns the signal that ended a job, the command of its shell, or a process of its launcher; empty for another end.
func signalOf(exit launch.Exit) string {
	switch exit.Reason {
	case launch.Killed:
		return exit.Signal
	case launch.Exited:
		return cmp.Or(exit.Signal, unix.SignalName(syscall.Signal(exit.Code-128)))
	}
	return ""
}

// fromOutside contains the signals by which other processes end a job.
var fromOutside = map[string]bool{"SIGKILL": true, "SIGTERM": true, "SIGINT": true, "SIGHUP": true, "SIGQUIT": true}

// exitTryAgain is EX_TEMPFAIL, the exit code by which a job requests a restart.
const exitTryAgain = 75

// retry restarts a failed job when its delay has passed, and starts one that the engine could not start.
func (r *run) retry(ctx context.Context) {
	if r.retryAt == 0 || r.ended != nil || r.elapsed() < r.retryAt {
		return
	}
	r.retryAt = 0
	if r.first {
		r.first = false
		r.Progress.Segments = r.Progress.Segments[:len(r.Progress.Segments)-1] // of the launch that was none
		r.place(ctx, r.Current, r.launchLabel(), false)
		return
	}
	r.relaunch(ctx, r.Current, r.launchLabel())
}

// relaunch starts a job again that did not save on request. Its last checkpoint may be older than its progress.
func (r *run) relaunch(ctx context.Context, a resources.Allocation, label string) {
	r.place(ctx, a, label, true)
	if c := r.rec.Checkpoint; r.job != nil && c != nil && c.AtS.Known() {
		r.Progress.lose(spentSince(time.Duration(float64(c.AtS) * float64(time.Second))))
	}
	if r.job != nil && r.keepsCheckpoint() {
		r.Progress.ResumeFrom(math.NaN())
	}
}

// givenInput is the state of the standard input that this agent gives to the job.
type givenInput struct {
	given  bool  // to a job that this agent has launched
	file   bool  // a regular file: each launch reads it again
	start  int64 // offset in the file at which each launch begins
	closed bool  // nothing can be written to it any more
	unread int   // bytes that were to be read at the launch
}

// jobInput returns the standard input of the next launch; nil for an empty one.
func (r *run) jobInput() *os.File {
	f, in := r.Stdin, &r.input
	r.Input = f != nil && !r.Config.elsewhere()
	if !r.Input {
		return nil
	}
	if info, err := f.Stat(); !in.given && err == nil && info.Mode().IsRegular() {
		in.start, err = f.Seek(0, io.SeekCurrent)
		in.file = err == nil
	}
	in.given = true
	if in.file {
		f.Seek(in.start, io.SeekStart) // fails for no regular file
	} else {
		in.unread, in.closed = unreadInput(f)
	}
	return f
}

// inputUsed reports whether the job may have read input that a restarted job could not read again: bytes of a pipe that
// are no longer there, or came and went until the pipe was closed. A pipe that stays open and empty, as a remote shell or
// another program leaves it, counts as not read: what is written to it later reaches the job that runs then.
func (r *run) inputUsed() bool {
	in := r.input
	if !r.Input || in.given && in.file {
		return false
	}
	if !in.given { // by an earlier agent
		return true
	}
	unread, closed := unreadInput(r.Stdin)
	return unread < in.unread || closed && !in.closed
}

// unreadInput returns the number of bytes that can be read from a pipe or socket, and whether no process can write more.
// For other files the end is unknown.
func unreadInput(f *os.File) (unread int, closed bool) {
	fd := int(f.Fd())
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	if _, err := unix.Poll(poll, 0); err == nil {
		closed = poll[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0
	}
	unread, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0, closed
	}
	return unread, closed
}
