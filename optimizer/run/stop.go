package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/internal/wording"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/observe"
	"trainopt/resources"
)

// pendingStop is a job that has been asked to exit, and the next step of the run.
type pendingStop struct {
	Why        string                `json:"why"`  // restart, budget, deadline, user, infeasible
	Next       *resources.Allocation `json:"next"` // the allocation of the next launch; nil: the run ends
	Label      string                `json:"label"`
	AskedAt    time.Duration         `json:"asked_at"`
	Checkpoint bool                  `json:"checkpoint"` // requested by SIGUSR1; SIGTERM follows after the grace
	Terminated bool                  `json:"terminated"`
	Words      string                `json:"words,omitempty"`    // the reason, for the user
	Observed   bool                  `json:"observed,omitempty"` // requested through the observer
	Writing    bool                  `json:"writing,omitempty"`  // SIGTERM follows when the job has written a checkpoint
	Saved      string                `json:"saved,omitempty"`    // path of the checkpoint written on request
	Place      *engine.Kind          `json:"place,omitempty"`    // kind of node of the next launch; nil: the present one
	Grace      *time.Duration        `json:"grace,omitempty"`    // as StopRun allows; nil: that of the run
}

// requestStop asks the job to exit in the way that loses least work: a save on request, by the observer or by signal;
// no signal if it has done all its work; SIGINT if the script handles it by ending its training loop in order, or if the
// user's Ctrl-C stops a script that does not handle SIGTERM; otherwise SIGTERM. After half of the grace, escalate sends SIGTERM.
func (r *run) requestStop(l *pendingStop) {
	if l.Next == nil {
		r.abandonMove()
	}
	l.AskedAt = r.elapsed()
	r.Pending = l
	defer r.saveState()
	if r.job == nil { // no process to stop between two launches
		r.retryAt = 0
		r.end(r.stopped(nil))
		return
	}
	r.publish()
	how := r.watchdog.ask()
	l.AskedAt += how.at - r.Clock.Monotonic() // the watchdog may have asked earlier
	l.Checkpoint, l.Observed, l.Writing, l.Terminated = how.method == bySignal, how.method == byObserver, how.method == afterWrite, how.terminated
	if how.err != nil && !errors.Is(how.err, launch.ErrNoCheckpoint) && !errors.Is(how.err, os.ErrProcessDone) { // its exit is about to arrive
		r.event(Warning, "request a checkpoint: %v", how.err)
	}
	if r.deadMan() > 0 {
		r.moveTimeLimit()
	}
}

// stopMethod is the way in which a job is asked to exit before SIGTERM.
type stopMethod int

const (
	noStopMethod stopMethod = iota
	bySignal                // the job saves on SIGUSR1
	byObserver              // its framework saves and stops on request
	byInterrupt             // SIGINT: the job ends its training loop in order, or does what Ctrl-C makes it do
	afterWrite              // the job is writing a checkpoint, after which SIGTERM follows
	atItsEnd                // the job has done all its work and is about to exit
)

// gentleStop returns a function that asks the current job to exit in the way that loses least work. The watchdog calls it with its
// lock held, and may do so while the loop is blocked.
func (r *run) gentleStop() func() (stopMethod, error) {
	j, o, w := r.job, r.observer, r.watchdog
	group, _ := j.(interface{ Signal(os.Signal) error })
	protocol := r.Resumable && (r.resumption.How == inspect.ResumeProtocol || r.ins.Resumable.Value == "yes" || r.Config.Resume == resumableYes)
	interrupt, terminate := r.ins.HandlesInterrupt.Value == "yes", r.ins.StopSignal.Value == "SIGTERM"
	observed := r.savesOnRequest()
	names, finished := r.resumption.Snapshots, r.Progress.Finished()
	return func() (stopMethod, error) {
		if observed && o.send(&o.saving, observe.Request{Op: observe.SaveAndStop}, 0) == nil {
			return byObserver, nil
		}
		var err error
		if protocol {
			if err = j.Checkpoint(); err == nil {
				return bySignal, nil
			}
		}
		if finished {
			return atItsEnd, err
		}
		if interrupt && group != nil && group.Signal(syscall.SIGINT) == nil {
			return byInterrupt, nil
		}
		if writesCheckpoint(j, names) {
			return afterWrite, err
		}
		if w.last == syscall.SIGINT && !terminate && group != nil && group.Signal(syscall.SIGINT) == nil {
			return byInterrupt, err // as if the training ran alone: finally, with and atexit run, and files are flushed
		}
		return noStopMethod, err
	}
}

// writesCheckpoint reports whether a process of a job of this machine is writing a checkpoint, also one of the given names.
func writesCheckpoint(j launch.Job, names []string) bool {
	tree, ok := j.(launch.ProcessTree)
	if !ok {
		return false
	}
	pids, _ := tree.PIDs() // without them the job is stopped at once
	return observe.WritesCheckpoint(pids, names)
}

// escalate sends SIGTERM to a job that has written its checkpoint, or has not exited within half of the grace after the
// request, so that the request and SIGTERM together take one grace.
func (r *run) escalate() {
	l := r.Pending
	if l == nil || r.job == nil || l.Terminated {
		return
	}
	written := l.Writing && !writesCheckpoint(r.job, r.resumption.Snapshots)
	if !written && r.elapsed()-l.AskedAt < r.grace()/2 {
		return
	}
	if l.Saved == "" && !written {
		r.event(Warning, "the job did not stop within %s of the request: stopping it by SIGTERM", length(r.grace()/2))
	}
	r.terminate()
}

// terminate sends SIGTERM to a job that has been asked to exit, unless that is done.
func (r *run) terminate() {
	if l := r.Pending; l != nil && r.job != nil && !l.Terminated {
		l.Terminated = true
		r.watchdog.stop(r.grace() / 2)
	}
}

// interrupt handles a signal of the user: the first one saves a checkpoint and stops, the second kills. SIGQUIT (Ctrl-\)
// kills at once.
func (r *run) interrupt(s os.Signal) {
	r.watchdog.take()
	if r.ended != nil {
		return
	}
	if notice, ok := s.(reclaimed); ok {
		r.leaveMachine(notice)
		return
	}
	if r.userCode == 0 {
		r.userCode = CodeInterrupt
		if s == syscall.SIGTERM || s == syscall.SIGHUP {
			r.userCode = CodeTerminated
		}
		why := "user"
		switch {
		case r.endsAllocation(s):
			why, r.userCode = byAllocation, CodeTryAgain
		case s == Preempt:
			why, r.userCode = byLease, CodeTryAgain
		}
		how := "stopping"
		if r.Resumable {
			how = "saving a checkpoint and stopping"
		}
		words := signalName(s)
		switch {
		case why == byAllocation:
			words = "SIGTERM from " + r.batch.String()
			r.event(Info, "%s: %s", words, how)
		case why == byLease:
			words = "the scheduler ends the lease"
			r.event(Info, "%s: %s", words, how)
		case s == syscall.SIGQUIT:
			r.event(Info, "interrupted (%s): killing", words)
			r.watchdog.kill()
		default:
			if AskedToStop(r.dir.Dir()) {
				words = byStopRun
			}
			r.event(Info, "interrupted (%s): %s; again kills at once", words, how)
		}
		if r.Pending != nil && r.job != nil { // already exiting: do not relaunch
			if why != byAllocation || r.Pending.Next != nil {
				r.Pending.Why, r.Pending.Next, r.Pending.Words, r.Pending.Grace = why, nil, words, r.askedGrace()
			}
			r.saveState()
			return
		}
		r.requestStop(&pendingStop{Why: why, Words: words, Grace: r.askedGrace()})
		return
	}
	if r.repeatedBySystem(s) {
		return
	}
	if r.leaving != nil && !r.leaving.repeated && s != syscall.SIGQUIT { // the operating system of the machine ends too
		r.leaving.repeated = true
		r.event(Info, "%s: already stopping; again kills at once", signalName(s))
		return
	}
	r.event(Info, "%s again: killing", signalName(s))
	r.watchdog.kill()
}

// interruptions handles all pending signals.
func (r *run) interruptions() {
	for len(r.watchdog.forward) > 0 { // this goroutine alone receives
		r.interrupt(<-r.watchdog.forward)
	}
}

func signalName(s os.Signal) string {
	if n, ok := s.(syscall.Signal); ok {
		return unix.SignalName(n)
	}
	return s.String()
}

// handleExit handles the exit of the job, requested or not. It settles time and cost, reads the remaining rows, and
// then ends the run or starts the next launch.
func (r *run) handleExit(ctx context.Context, exit launch.Exit) {
	if r.queued != nil {
		select {
		case <-r.queued.Started(): // unnoticed so far
			r.placed()
		default:
		}
	}
	r.awaitEnd(exit)
	r.settleJob(exit)
	now := r.exitAt
	r.readLastRows()
	r.observe()
	r.checkResumption() // the job may have ended soon after its start
	seg := r.Progress.Current()
	r.Progress.addPeak(exit)
	r.detach()
	l := r.Pending
	if l == nil || l.Next == nil {
		r.abandonMove()
	}
	if l != nil && l.savedBy(exit) {
		seg.CheckpointS = (now - l.AskedAt).Seconds()
	}
	switch {
	case r.Progress.Finished() && exit.Signal == "" && exit.Code == 0 && finishedBy[exit.Reason]:
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit}) // a job that finishes while it is asked to exit counts as finished
	case r.Progress.Finished() && l != nil && l.Checkpoint && exit.Signal == "SIGUSR1":
		// An interpreter removes its handlers while it exits, so that the request killed it.
		r.event(Warning, "the job had done all its work when the checkpoint request (SIGUSR1) ended it")
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit})
	case l == nil || l.Next != nil && exit.Reason == launch.Cancelled: // a person has cancelled it
		r.Pending = nil
		r.handleUnrequestedExit(exit, now)
	case l.Next != nil:
		r.Pending = nil
		r.startNext(ctx, l, exit)
	default:
		r.end(r.stopped(&exit))
	}
}

// finishedBy contains the reasons with which a job that has done all its work may exit: it may have been asked to leave.
var finishedBy = map[launch.ExitReason]bool{launch.Exited: true, launch.Stopped: true, launch.Preempted: true, launch.Cancelled: true}

// settleJob dates the end of a job by the keeper's record, however late the agent notices it. Nothing is charged
// between jobs. A job without a record ended no earlier than the state that this agent resumed.
func (r *run) settleJob(exit launch.Exit) {
	r.exitAt = r.elapsed()
	if end, ok := r.Progress.jobEnd(exit); ok {
		r.exitAt = min(r.exitAt, end)
	}
	if exit.Reason == launch.Lost {
		r.exitAt = max(r.exitAt, min(r.resumedAt, r.elapsed()))
	}
	if now := r.Clock.Now(); exit.Reason != launch.Lost && !exit.At.IsZero() && now.Sub(exit.At) > endSlack { // noticed late
		r.Absences = append(r.Absences, absence{exit.At, now})
	}
	charged := r.exitAt
	if paid, ok := r.Progress.paidUntil(exit); r.queued != nil { // nothing ran, but the place may have been held
		charged = r.chargeHeld(cmp.Or(exit.Share, exit.Held))
	} else if ok { // by the engine's account
		charged = paid
	}
	r.meter.Settle(charged)
	r.settleShare(exit.Share)
	if s := r.Progress.Current(); s != nil {
		r.closeSegment(max(r.exitAt, s.LaunchedAt))
	}
}

// handleUnrequestedExit handles an exit that was not requested: a normal end, the keeper's dead-man's switch, or a
// failure, after which the job may be restarted.
func (r *run) handleUnrequestedExit(exit launch.Exit, now time.Duration) {
	if exit.Outlived != "" {
		r.event(Warning, "the training's first process has ended; processes that ran on after it were ended: %s (a training has to stay in the foreground)", exit.Outlived)
	}
	if r.leftForeground(exit, now) {
		const why = "it continued in the background, where it was ended: end a shell script with exec or wait, leave out nohup, & and setsid"
		r.end(&ending{state: journal.Failed, reason: string(exit.Reason), detail: joinDetail(exit.Detail, why), exit: &exit, code: CodeTraining,
			err: errors.New("the training failed: " + why)})
		return
	}
	if exit.Reason == launch.Exited && exit.Code == 0 {
		rest, ok := r.Progress.endOfLog()
		if r.log.Stats().Format == "stdout" {
			rest, ok = r.Progress.endNormally(now)
		}
		if why := r.unread(exit); ok && rest > 0 && why != "" {
			r.progressLost = true
			r.event(Warning, "%s: %g of %g %ss were read, the rest is unknown", why, r.Progress.Done, r.Progress.Total, r.Progress.Unit)
		} else if ok && rest > 0 && !r.skipped(rest) {
			r.event(Warning, "the training ended with %g of %g %ss", r.Progress.Done, r.Progress.Total, r.Progress.Unit)
		}
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit})
		return
	}
	if rank, pid, ok := r.killedRank(exit); ok {
		exit.Signal, exit.Detail = "SIGKILL", fmt.Sprintf("torchrun reports that rank %s (process %d) was killed", rank, pid)
	}
	if exit.Reason == launch.Cancelled {
		r.end(&ending{state: journal.Stopped, reason: "cancelled", detail: exit.Detail, exit: &exit, code: CodeTerminated})
		return
	}
	why, ok := r.stoppedAtLimit(exit)
	if !ok && exit.Limit && r.Lease != nil { // its agent was suspended, or could not extend it
		why, ok = byLease, true
	}
	if ok {
		// The keeper's dead-man's switch: the agent's timer was late, or the limit passed while no agent, or not even
		// a keeper, ran.
		r.Pending = &pendingStop{Why: why, AskedAt: now, Checkpoint: r.Resumable}
		r.end(r.stopped(&exit))
		return
	}
	if exit.Reason == launch.Preempted && r.continueElsewhere(exit) {
		return
	}
	if _, ok := r.resumeFrom(); ok && r.mayRestart(exit) && r.inputUsed() {
		exit.Detail = joinDetail(exit.Detail, "not restarted: a restarted training cannot read its standard input again (optimize runs resume, with the input)")
	} else if ok && r.mayRestart(exit) {
		retry := r.afterFailure(exit)
		if !retry.GiveUp {
			r.event(Warning, "the training failed (%s): %s", describeExit(exit), retry.Reason)
			r.tell(notify.Failed, "failure", fmt.Sprintf("the training failed (%s): %s", describeExit(exit), retry.Reason), nil)
			r.retryAt = r.elapsed() + max(retry.After, time.Millisecond)
			r.dropPrediction("restarted")
			return
		}
		r.event(Problem, "%s", retry.Reason)
		exit.Detail = joinDetail(exit.Detail, retry.Reason)
	}
	reason := string(exit.Reason)
	r.end(&ending{state: journal.Failed, reason: reason, detail: exit.Detail, exit: &exit, code: CodeTraining,
		err: errors.New("the training failed: " + describeExit(exit))})
}

// rootCause matches the failures of the processes in the last report of torchrun, of which the first one was a SIGKILL, and their
// exit codes.
var (
	rootCause = regexp.MustCompile(`(?s)\nFailures:\n(.*)\nRoot Cause \(first observed failure\):\n.*?\n +rank +: (\d+) [^\n]*\n +exitcode +: -9 \(pid: (\d+)\) +\(SIGKILL\)\n[^=]*\n=+\s*$`)
	ownCode   = regexp.MustCompile(`\n +exitcode +: \d`)
)

// killedRank returns the rank and process of a torchrun that another process has killed by SIGKILL, whereupon torchrun exits with
// code 1: it reports so at the end of its output, no other rank exited by itself, memory sufficed, and the observer of that
// process saw no exit.
func (r *run) killedRank(exit launch.Exit) (rank string, pid int, ok bool) {
	if exit.Reason != launch.Exited || exit.Code != 1 || !exit.MemoryHeld || r.observer == nil {
		return "", 0, false
	}
	f, err := os.Open(r.jobFile("job.stderr"))
	if err != nil {
		return "", 0, false
	}
	defer f.Close()
	text := make([]byte, 64<<10)
	size, _ := f.Seek(0, io.SeekEnd)
	n, _ := f.ReadAt(text, max(0, size-int64(len(text))))
	m := rootCause.FindStringSubmatch(string(text[:n]))
	if m == nil || ownCode.MatchString(m[1]) {
		return "", 0, false
	}
	pid, _ = strconv.Atoi(m[3])
	return m[2], pid, slices.ContainsFunc(r.observer.facts.Processes, func(p observe.Process) bool { return p.PID == pid && !p.Ended })
}

// leftForeground reports whether the processes that outlived the main process did the work of the job: its first progress
// came and continued after that process, or none came at all within its time, which was short.
func (r *run) leftForeground(exit launch.Exit, now time.Duration) bool {
	if exit.Outlived == "" || exit.Reason != launch.Exited || exit.Code != 0 {
		return false
	}
	outlived := exit.Ran - exit.MainRan
	if seg := r.Progress.Current(); seg.FirstRowAt > 0 {
		return seg.FirstRowAt > now-outlived && seg.LastRowAt > now-outlived+time.Second // a row may be read late
	}
	return exit.MainRan < outlived
}

// stoppedAtLimit returns the limit at which the supervisor, or an engine, ended a job without an agent; ok is false if
// it ended otherwise. The supervisor's time limit is the nearest limit less the time in which it started the job, during
// which nothing was spent; with a lease it may be the end of the lease.
func (r *run) stoppedAtLimit(exit launch.Exit) (why string, ok bool) {
	why, left := r.nearestLimit()
	switch exit.Reason {
	case launch.Stopped:
		ok = left <= r.reserve() || exit.Limit && r.Lease == nil
	case launch.Preempted:
		ok = left <= r.reserve()
	case launch.Lost:
		ok = left <= 0
	}
	return why, ok && why != ""
}

// unread returns the reason why a part of the log of an ended job cannot be read; empty if it can.
func (r *run) unread(exit launch.Exit) string {
	switch log := r.log.Stats(); {
	case log.Missing:
		return log.Path + " was removed during the run"
	case log.Format == "stdout" && exit.LostBytes > 0:
		return fmt.Sprintf("%d bytes of the output of the training could not be written", exit.LostBytes)
	}
	return ""
}

// stopped returns the ending of a run that was stopped by the guard or the user.
func (r *run) stopped(exit *launch.Exit) *ending {
	e := &ending{state: journal.Stopped, reason: r.Pending.Why, exit: exit}
	switch r.Pending.Why {
	case "user":
		e.code = cmp.Or(r.userCode, CodeTerminated)
	case "rewound":
		e.state, e.reason, e.code, e.err = journal.Failed, "start-failed", CodeTraining, errors.New(r.Pending.Words)
	case byAllocation, byLease, byReclaim:
		e.code = CodeTryAgain
	case "infeasible":
		e.reason, _ = r.nearestOwnLimit()
		e.code = CodeInfeasible
	default:
		e.code = CodeGuard
	}
	if exit != nil && (r.Pending.savedBy(*exit) || r.savedOnSignal(exit)) {
		e.detail = joinDetail("checkpoint saved", r.Pending.Saved)
	} else if exit != nil {
		e.detail = describeExit(*exit)
	}
	e.detail = joinDetail(r.Pending.Words, e.detail)
	return e
}

// savedBy reports whether the job saved before its exit, according to the observer's answer or the checkpoint
// protocol.
func (l *pendingStop) savedBy(exit launch.Exit) bool {
	return l.Saved != "" || l.Checkpoint && !l.Observed && savedCheckpoint(exit)
}

// savedCheckpoint reports whether e confirms a save: by the protocol, a job that was asked to save exits with 0 or
// 75.
func savedCheckpoint(e launch.Exit) bool {
	return e.Signal == "" && (e.Code == 0 || e.Code == exitTryAgain)
}

// describeExit describes an exit in one line, without repeating what its Detail contains.
func describeExit(e launch.Exit) string {
	text := ""
	switch {
	case e.Reason == launch.OOM:
		text = "out of memory"
	case e.Reason == launch.Lost:
		text = "lost without an exit record"
	case (e.Reason == launch.Preempted || e.Reason == launch.Cancelled) && e.Code < 0:
		text = string(e.Reason)
	case e.Signal != "":
		text = "died of " + e.Signal
	case e.Detail == "" || e.Detail == fmt.Sprintf("exited by itself with code %d", e.Code):
		return fmt.Sprintf("exit code %d", e.Code)
	default:
		text = fmt.Sprintf("exit code %d", e.Code)
	}
	return joinDetail(text, e.Detail)
}

// length formats a duration as in the report.
func length(d time.Duration) string { return wording.Duration(d.Seconds()) }

func joinDetail(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || a == b:
		return a
	}
	return a + "; " + b
}
