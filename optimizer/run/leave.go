package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report/chart"
	"trainopt/resources"
)

// leaving is a job that has been asked to exit, and the next step of the run.
type leaving struct {
	Why        string                `json:"why"`  // restart, budget, deadline, user, infeasible
	Next       *resources.Allocation `json:"next"` // the allocation of the next launch; nil: the run ends
	Label      string                `json:"label"`
	AskedAt    time.Duration         `json:"asked_at"`
	Checkpoint bool                  `json:"checkpoint"` // requested by SIGUSR1; SIGTERM follows after the grace
	Terminated bool                  `json:"terminated"`
	Words      string                `json:"words,omitempty"`    // the reason, for the user
	Observed   bool                  `json:"observed,omitempty"` // requested through the observer
	Saved      string                `json:"saved,omitempty"`    // path of the checkpoint written on request
}

// leave asks the job to exit in the way that loses least work: a save on request, by the observer or by signal;
// SIGINT if the script handles it by ending its training loop in order; otherwise SIGTERM. After half of the grace,
// escalate sends SIGTERM.
func (r *run) leave(l *leaving) {
	l.AskedAt = r.elapsed()
	r.leaving = l
	defer r.saveState()
	if r.job == nil { // no process to stop between two launches
		r.retryAt = 0
		r.end(r.stopped(nil))
		return
	}
	r.publish()
	how := r.watchdog.ask()
	l.AskedAt += how.at - r.Clock.Monotonic() // the watchdog may have asked earlier
	l.Checkpoint, l.Observed, l.Terminated = how.door == bySignal, how.door == byObserver, how.terminated
	if how.err != nil && !errors.Is(how.err, launch.ErrNoCheckpoint) {
		r.event(Warning, "ask for a checkpoint: %v", how.err)
	}
}

// door is the way in which a job is asked to exit before SIGTERM.
type door int

const (
	noDoor      door = iota
	bySignal         // the job saves on SIGUSR1
	byObserver       // its framework saves and stops on request
	byInterrupt      // the job ends its training loop in order on SIGINT
)

// askGently returns a function that asks the current job to exit in the way that loses least work. The watchdog may
// call it while the loop is blocked.
func (r *run) askGently() func() (door, error) {
	j, o := r.job, r.observer
	protocol := r.resumable && (r.resumption.How == inspect.ResumeProtocol || r.ins.Resumable.Value == "yes" || r.Config.Resume == ResumableYes)
	interrupt := r.ins.HandlesInterrupt.Value == "yes"
	observed := r.savesOnRequest()
	return func() (door, error) {
		if observed && o.askToSave() {
			return byObserver, nil
		}
		var err error
		if protocol {
			if err = j.Checkpoint(); err == nil {
				return bySignal, nil
			}
		}
		if interrupt && j.Signal(syscall.SIGINT) == nil {
			return byInterrupt, nil
		}
		return noDoor, err
	}
}

func (r *run) kill() {
	if r.job != nil {
		r.watchdog.kill()
	}
}

// escalate sends SIGTERM to a job that has not exited within half of the grace after the request, so that the request
// and SIGTERM together take one grace.
func (r *run) escalate() {
	l := r.leaving
	if l == nil || r.job == nil || l.Terminated || r.elapsed()-l.AskedAt < r.Config.Grace/2 {
		return
	}
	if l.Saved == "" {
		r.event(Warning, "the job did not stop within %s of the request: stopping it by SIGTERM", length(r.Config.Grace/2))
	}
	l.Terminated = true
	r.watchdog.stop(r.Config.Grace / 2)
}

// interrupt handles a signal of the user: the first one saves a checkpoint and stops, the second kills.
func (r *run) interrupt(s os.Signal) {
	r.watchdog.take()
	if r.ended != nil {
		return
	}
	if r.userCode == 0 {
		r.userCode = CodeInterrupt
		if s == syscall.SIGTERM || s == syscall.SIGHUP {
			r.userCode = CodeTerminated
		}
		how := "stopping"
		if r.resumable {
			how = "saving a checkpoint and stopping"
		}
		r.event(Info, "%s: %s (again: kill at once)", signalName(s), how)
		if r.leaving != nil && r.job != nil { // already exiting: do not relaunch
			r.leaving.Why, r.leaving.Next = "user", nil
			r.saveState()
			return
		}
		r.leave(&leaving{Why: "user"})
		return
	}
	r.event(Info, "%s again: killing", signalName(s))
	r.kill()
}

// interruptions handles all pending signals.
func (r *run) interruptions() {
	for {
		select {
		case s := <-r.watchdog.forward:
			r.interrupt(s)
		default:
			return
		}
	}
}

func signalName(s os.Signal) string {
	if n, ok := s.(syscall.Signal); ok {
		switch n {
		case syscall.SIGINT:
			return "SIGINT"
		case syscall.SIGTERM:
			return "SIGTERM"
		case syscall.SIGHUP:
			return "SIGHUP"
		}
	}
	return s.String()
}

// exited handles the exit of the job, requested or not. It settles time and cost, reads the remaining rows, and then
// ends the run or starts the next launch.
func (r *run) exited(ctx context.Context, exit launch.Exit) {
	r.settleJob(exit)
	now := r.exitAt
	r.readLastRows()
	r.observe()
	seg := r.progress.Current()
	if exit.PeakMemoryGiB != nil {
		seg.PeakGiB = math.Max(seg.PeakGiB, *exit.PeakMemoryGiB)
	}
	r.job = nil
	r.publish()
	r.sampler.detach()
	l := r.leaving
	if l != nil && l.savedBy(exit) {
		seg.CheckpointS = (now - l.AskedAt).Seconds()
	}
	switch {
	case r.progress.Finished() && exit.Signal == "" && exit.Code == 0 && (exit.Reason == launch.Exited || exit.Reason == launch.Stopped):
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit}) // a job that finishes while it is asked to exit counts as finished
	case r.progress.Finished() && l != nil && l.Checkpoint && exit.Signal == "SIGUSR1":
		// An interpreter removes its handlers while it exits, so that the request killed it.
		r.event(Warning, "the job had done all its work when the checkpoint request (SIGUSR1) ended it")
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit})
	case l == nil:
		r.leftByItself(exit, now)
	case l.Next != nil:
		r.leaving = nil
		r.startNext(ctx, l, exit)
	default:
		r.end(r.stopped(&exit))
	}
}

// settleJob dates the end of a job by the keeper's record, however late the agent notices it. Nothing is charged
// between jobs. A job without a record ended no earlier than the last saved state.
func (r *run) settleJob(exit launch.Exit) {
	r.exitAt = r.elapsed()
	charged := r.exitAt
	if end, paid, ok := r.progress.jobEnd(exit.Ran); ok {
		r.exitAt, charged = min(r.exitAt, end), min(charged, paid)
	}
	if exit.Reason == launch.Lost {
		r.exitAt = max(r.exitAt, min(r.saved.Elapsed, r.elapsed()))
		charged = r.exitAt
	}
	r.meter.Settle(charged)
	if s := r.progress.Current(); s != nil {
		r.closeSegment(max(r.exitAt, s.LaunchedAt))
	}
}

// startNext launches the job again after a requested exit, and detects a job that did not follow the checkpoint
// protocol.
func (r *run) startNext(ctx context.Context, l *leaving, exit launch.Exit) {
	if l.Checkpoint && exit.Signal == "SIGUSR1" {
		r.event(Warning, "the job died of SIGUSR1 instead of saving a checkpoint: it will not be restarted again")
		r.resumable = false
		if r.phase == probing { // no more measurements at other allocations
			r.adopt(r.ownSettings())
			l.Next, l.Label = &r.plan.Allocation, "run"
		}
		r.launch(ctx, *l.Next, l.Label, true)
		return
	}
	kept := l.Checkpoint && !l.Observed || l.Saved != ""
	if !kept { // the work done so far is lost
		for _, s := range r.progress.Segments {
			s.Lost = s.Spent
		}
		for i := range r.rec.Probes {
			r.rec.Probes[i].InJob = false
		}
		r.progress.Restarted()
		r.log.restart(r.dir.Path(fmt.Sprintf("training-%d.csv", r.launches()+1)), r.Clock.Now())
	}
	r.launch(ctx, *l.Next, l.Label, kept)
	if kept && r.job != nil {
		r.progress.Current().RestartFrom = l.AskedAt
	}
}

// leftByItself handles an exit that was not requested: a normal end, the keeper's dead-man's switch, or a failure,
// after which the job may be restarted.
func (r *run) leftByItself(exit launch.Exit, now time.Duration) {
	if exit.Reason == launch.Exited && exit.Code == 0 {
		if rest, ok := r.progress.Remaining(); ok && rest > 0 && rest <= 1 && r.log.Stats().Format == "stdout" {
			// A line such as "Epoch 4/4" announces a unit: the last one was in progress, and the job ended normally.
			r.progress.Done = r.progress.Total
		} else if ok && rest > 0 {
			r.event(Warning, "the training ended with %g of %g %ss", r.progress.Done, r.progress.Total, r.progress.Unit)
		}
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit})
		return
	}
	if why, left := r.nearestLimit(); exit.Reason == launch.Stopped && left <= r.reserve() || exit.Reason == launch.Lost && left <= 0 {
		// The keeper's dead-man's switch: the agent's timer was late, or the limit passed while no agent, or not even
		// a keeper, ran.
		r.leaving = &leaving{Why: why, AskedAt: now, Checkpoint: r.resumable}
		r.end(r.stopped(&exit))
		return
	}
	if r.mayRestart(exit) {
		r.failures++
		life := exit
		if seg := r.progress.Current(); r.progress.Done <= seg.StartDone {
			life.Ran = 0 // a launch without progress counts as an immediate failure
		}
		next, retry := r.backoff.Next(life)
		if r.failures > r.Config.Restarts && !retry.GiveUp {
			retry = launch.Retry{GiveUp: true, Reason: fmt.Sprintf("gave up after %d failures (--max-restarts %d)", r.failures, r.Config.Restarts)}
		}
		r.backoff = next
		if !retry.GiveUp {
			r.event(Warning, "the training failed (%s): %s", describeExit(exit), retry.Reason)
			r.retryAt = r.elapsed() + max(retry.After, time.Millisecond)
			return
		}
		r.event(Problem, "%s", retry.Reason)
		exit.Detail = joinDetail(exit.Detail, retry.Reason)
	}
	reason := string(exit.Reason)
	r.end(&ending{state: journal.Failed, reason: reason, detail: exit.Detail, exit: &exit, code: CodeTraining,
		err: errors.New("the training failed: " + describeExit(exit))})
}

// mayRestart reports whether a failed job is restarted: it must be resumable, and have made progress, been killed
// from outside, or requested a restart by its exit code. A script that fails before it logs any progress is not
// restarted.
func (r *run) mayRestart(exit launch.Exit) bool {
	if !r.resumable || r.Config.Restarts < 0 || exit.Reason == launch.StartFailed {
		return false
	}
	return r.progress.Rows > 0 || exit.Reason == launch.Killed || exit.Code == exitTryAgain
}

// exitTryAgain is EX_TEMPFAIL, the exit code by which a job requests a restart.
const exitTryAgain = 75

// retry restarts a failed job when its delay has passed.
func (r *run) retry(ctx context.Context) {
	if r.retryAt == 0 || r.ended != nil || r.elapsed() < r.retryAt {
		return
	}
	r.retryAt = 0
	label := "run"
	if r.phase == probing {
		label = "probe"
	}
	r.launch(ctx, r.current, label, true)
}

// stopped returns the ending of a run that was stopped by the guard or the user.
func (r *run) stopped(exit *launch.Exit) *ending {
	e := &ending{state: journal.Stopped, reason: r.leaving.Why, exit: exit}
	switch r.leaving.Why {
	case "user":
		e.code = r.userCode
		if e.code == 0 {
			e.code = CodeTerminated
		}
	case "rewound":
		e.state, e.reason, e.code, e.err = journal.Failed, "start-failed", CodeTraining, errors.New(r.leaving.Words)
	case "infeasible":
		e.reason, _ = r.nearestLimit()
		e.code = CodeInfeasible
	default:
		e.code = CodeGuard
	}
	if exit != nil && r.leaving.savedBy(*exit) {
		e.detail = joinDetail("checkpoint saved", r.leaving.Saved)
	} else if exit != nil {
		e.detail = describeExit(*exit)
	}
	e.detail = joinDetail(r.leaving.Words, e.detail)
	return e
}

// savedBy reports whether the job saved before its exit, according to the observer's answer or the checkpoint
// protocol.
func (l *leaving) savedBy(exit launch.Exit) bool {
	return l.Saved != "" || l.Checkpoint && !l.Observed && savedCheckpoint(exit)
}

// savedCheckpoint reports whether e confirms a save: by the protocol, a job that was asked to save exits with 0 or
// 75.
func savedCheckpoint(e launch.Exit) bool {
	return e.Signal == "" && (e.Code == 0 || e.Code == exitTryAgain)
}

// end records the first ending of the run and its elapsed time; later ones are ignored.
func (r *run) end(e *ending) {
	if r.ended == nil {
		r.endedAt = r.elapsed()
		if e.exit != nil && r.exitAt > 0 {
			r.endedAt = r.exitAt
		}
		r.ended = e
	}
}

// describeExit describes an exit in one line, without repeating what its Detail contains.
func describeExit(e launch.Exit) string {
	text := ""
	switch {
	case e.Reason == launch.OOM:
		text = "out of memory"
	case e.Reason == launch.Lost:
		text = "lost without an exit record"
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
func length(d time.Duration) string { return chart.PlainBlanks(chart.Duration(d.Seconds())) }

func joinDetail(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || a == b:
		return a
	}
	return a + "; " + b
}
