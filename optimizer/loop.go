package optimizer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/sla"
)

// leaving is a job that has been asked to go, and what follows.
type leaving struct {
	Why        string                `json:"why"`  // restart, budget, deadline, user, infeasible
	Next       *resources.Allocation `json:"next"` // nil: the run ends
	Label      string                `json:"label"`
	AskedAt    time.Duration         `json:"asked_at"`
	Checkpoint bool                  `json:"checkpoint"` // asked by SIGUSR1; SIGTERM follows after the grace
	Terminated bool                  `json:"terminated"`
}

// loop runs until the run has ended: one goroutine, one event at a time.
func (r *run) loop(ctx context.Context, interrupts <-chan os.Signal) {
	ticker := time.NewTicker(r.Config.Interval)
	defer ticker.Stop()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	watch, stopWatch := r.log.watch(ctx)
	defer stopWatch()
	for r.ended == nil {
		alarm.Reset(r.nextAlarm())
		var done <-chan struct{}
		if r.job != nil {
			done = r.job.Done()
		}
		select {
		case <-ticker.C:
			r.tick(ctx)
		case _, open := <-watch:
			if !open {
				watch = nil
			}
			r.readLog()
		case <-alarm.C:
			r.guardStep(ctx)
			r.escalate(ctx)
			r.retry(ctx)
		case err := <-r.stopFailed:
			r.end(&ending{state: journal.Failed, reason: "lost", detail: err.Error(), code: CodeOurs, err: err})
		case <-done:
			r.exited(ctx, r.job.Exit())
		case s := <-interrupts:
			r.interrupt(ctx, s)
		case <-ctx.Done():
			r.interrupt(ctx, syscall.SIGTERM)
			ctx = context.WithoutCancel(ctx)
		}
	}
}

// nextAlarm is how long until the guard or a pending restart must be looked at, between 1 ms and 1 s: the guard
// has its own timer, so that neither a slow tick nor a missing log delays a stop.
func (r *run) nextAlarm() time.Duration {
	d := time.Second
	if r.guardAt > 0 {
		d = min(d, r.guardAt-r.elapsed())
	}
	if r.retryAt > 0 {
		d = min(d, r.retryAt-r.elapsed())
	}
	return max(d, time.Millisecond)
}

// launch starts the job at an allocation. A failure to start ends the run.
func (r *run) launch(ctx context.Context, a resources.Allocation, label string, resume bool) {
	if a.GPUs > 0 && len(a.GPUIDs) != a.GPUs {
		a.GPUIDs = r.host.Pick(a.GPUs, nil)
	}
	if err := r.limits.Check(a, r.host); err != nil {
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeOurs, err: err})
		return
	}
	now := r.elapsed()
	r.current = a
	if err := r.meter.Start(now, cost.Label(label), a, r.rates); err != nil {
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeOurs, err: err})
		return
	}
	r.beginSegment(now, a, label, true)
	r.save(true) // before the start: an agent that dies now must leave a run that can be found
	j, err := r.Launcher.Start(ctx, launch.Command{Args: r.argv, Dir: r.Config.Dir, Env: r.jobEnvironment(a, resume), RunDir: r.dir.Dir(),
		Allocation: a, Limits: r.limits, Grace: r.Config.Grace, StopAfter: r.deadMan()})
	if err != nil {
		r.closeSegment(now)
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeTraining,
			err: fmt.Errorf("start the training: %w", err)})
		return
	}
	r.job = j
	r.rec.Enforced = j.Enforced()
	r.sampler.attach(j, a)
	r.noteAllocation(a, "launch", label)
	r.save(true)
}

// deadMan is how long the job may run if this agent dies: until the budget or the deadline is nearly reached. It is
// half the reserve later than the guard's own stop, so that a living agent always acts first.
func (r *run) deadMan() time.Duration {
	_, left := r.nearestLimit()
	if left == math.MaxInt64 {
		return 0
	}
	return max(left-r.reserve()/2, time.Millisecond)
}

// nearestLimit is the limit that the run will reach first at the present price, and how long until then; the longest
// duration when there is none.
func (r *run) nearestLimit() (why string, left time.Duration) {
	left = math.MaxInt64
	if d := r.Config.SLA.TimeMax; d > 0 {
		why, left = "deadline", d-r.elapsed()
	}
	if b, rate := r.Config.SLA.CostMaxUSD, float64(r.rates.Hourly(r.current)); b > 0 && rate > 0 {
		if d := time.Duration(math.Min((b-r.spent())/rate*3600, 1e9) * float64(time.Second)); d < left {
			why, left = "budget", d
		}
	}
	return why, left
}

// safely runs a part of the optimiser. The optimiser may fail; the training never fails because of it (P8): from then on
// the run stays where it is.
func (r *run) safely(part func()) {
	if r.broken {
		return
	}
	defer func() {
		if x := recover(); x != nil {
			r.broken, r.phase = true, working
			r.event(Warning, "the optimiser failed (%v): the training goes on where it is, guarded but not optimised", x)
		}
	}()
	part()
}

// beginSegment opens a stretch at one allocation, after closing the one before.
func (r *run) beginSegment(now time.Duration, a resources.Allocation, label string, launch bool) {
	r.closeSegment(now)
	r.progress.Begin(now, a, label, launch).StartUSD = r.spent()
}

func (r *run) closeSegment(now time.Duration) {
	if s := r.progress.Current(); s != nil && s.EndedAt == 0 {
		s.Spent = r.spent() - s.StartUSD
		r.progress.End(now)
	}
}

func (r *run) spent() float64 { return float64(r.meter.Total(r.elapsed())) }

// tick is one sampling interval.
func (r *run) tick(ctx context.Context) {
	r.readLog()
	r.sample(ctx)
	r.project()
	r.guardStep(ctx)
	r.escalate(ctx)
	r.retry(ctx)
	if r.ended == nil && r.leaving == nil && r.job != nil {
		r.growMemory()
		r.watchEfficiency()
		r.watchGPUs()
		switch r.phase {
		case probing:
			r.safely(func() { r.probeStep(ctx) })
		case working:
			r.safely(func() { r.adaptStep(ctx) })
		}
	}
	r.writeSample()
	r.View.Status(r.status())
	r.save(false)
}

// reserve is the time that an orderly exit is expected to take: the slowest checkpoint measured with half as much
// again, at least a second; for a job that keeps none, what a process needs to end on SIGTERM.
func (r *run) reserve() time.Duration {
	if !r.resumable {
		return 300 * time.Millisecond
	}
	worst := 0.0
	for _, s := range r.progress.Segments {
		worst = math.Max(worst, s.CheckpointS)
	}
	return time.Duration(math.Max(1.5*worst, 1) * float64(time.Second))
}

// guardStep asks the guard what to do now, and does it.
func (r *run) guardStep(ctx context.Context) {
	if r.ended != nil {
		return
	}
	t := sla.Tick{Elapsed: r.elapsed(), SpentUSD: r.spent(), USDPerHour: float64(r.rates.Hourly(r.current)), Reserve: r.reserve(), Stopping: r.leaving != nil}
	if r.projected.seconds != nil {
		t.ProjectedTime, t.ProjectedUSD = time.Duration(r.projected.seconds.P50*float64(time.Second)), r.projected.cost.P50
	}
	d := r.guard.Step(t)
	r.guardAt = 0
	if d.Next < sla.Never {
		r.guardAt = t.Elapsed + d.Next
	}
	for _, w := range d.Warnings {
		r.event(Warning, "%s", w.Words)
	}
	why := map[sla.Objective]string{sla.Time: "deadline", sla.Cost: "budget"}[d.Limit]
	switch d.Action {
	case sla.Checkpoint:
		r.event(Problem, "%s", d.Words)
		if d.AlreadyStopping && r.leaving != nil {
			r.leaving.Why, r.leaving.Next = why, nil
			r.saveState()
			return
		}
		r.leave(ctx, &leaving{Why: why})
	case sla.Kill:
		r.event(Problem, "%s", d.Words)
		if r.leaving == nil || r.leaving.Next != nil {
			r.leaving = &leaving{Why: why, AskedAt: r.elapsed()}
		}
		if r.job == nil {
			r.end(r.stopped(nil))
			return
		}
		r.kill(ctx)
	}
}

// newGuard makes the guard of the agreement.
func (r *run) newGuard() error {
	g, err := sla.NewGuard(r.Config.SLA, sla.GuardOptions{WarnAt: r.Config.Warn, Latency: 100 * time.Millisecond})
	r.guard = g
	return err
}

// leave asks the job to go: a resumable one saves a checkpoint first.
func (r *run) leave(ctx context.Context, l *leaving) {
	l.AskedAt = r.elapsed()
	r.leaving = l
	defer r.saveState()
	if r.job == nil { // between two launches: nothing to stop
		r.retryAt = 0
		r.end(r.stopped(nil))
		return
	}
	if r.resumable {
		l.Checkpoint = true
		err := r.job.Checkpoint()
		if err == nil {
			return
		}
		if !errors.Is(err, launch.ErrNoCheckpoint) {
			r.event(Warning, "ask for a checkpoint: %v", err)
		}
	}
	r.terminate(ctx) // SIGTERM: a resumable job may save on it as well
}

func (r *run) terminate(ctx context.Context) {
	r.stop(ctx, r.Config.Grace)
}

// stop ends the job's processes; the exit arrives through Done, a stop that fails through stopFailed.
func (r *run) stop(ctx context.Context, grace time.Duration) {
	r.leaving.Terminated = true
	go func(j launch.Job) {
		if _, err := j.Stop(context.WithoutCancel(ctx), grace); err != nil {
			select {
			case r.stopFailed <- err:
			default:
			}
		}
	}(r.job)
}

func (r *run) kill(ctx context.Context) {
	if r.job == nil || r.killed {
		return
	}
	r.killed = true
	r.stop(ctx, 0)
}

// escalate turns a checkpoint that does not come into SIGTERM, so that the two together take one grace.
func (r *run) escalate(ctx context.Context) {
	l := r.leaving
	if l == nil || r.job == nil || l.Terminated || r.elapsed()-l.AskedAt < r.Config.Grace/2 {
		return
	}
	r.event(Warning, "no checkpoint within %s of asking: stopping the job by SIGTERM", r.Config.Grace/2)
	r.stop(ctx, r.Config.Grace/2)
}

// interrupt is the user's signal: once = checkpoint and stop, twice = kill.
func (r *run) interrupt(ctx context.Context, s os.Signal) {
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
		r.event(Info, "%s: %s (once more: kill)", signalName(s), how)
		if r.leaving != nil && r.job != nil { // on its way out already: do not come back
			r.leaving.Why, r.leaving.Next = "user", nil
			r.saveState()
			return
		}
		r.leave(ctx, &leaving{Why: "user"})
		return
	}
	r.event(Info, "%s again: killing", signalName(s))
	r.kill(ctx)
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

// exited handles the end of the job's processes, asked for or not.
func (r *run) exited(ctx context.Context, exit launch.Exit) {
	r.readLastRows()
	now := r.elapsed()
	seg := r.progress.Current()
	r.closeSegment(now)
	if exit.PeakMemoryGiB != nil {
		seg.PeakGiB = math.Max(seg.PeakGiB, *exit.PeakMemoryGiB)
	}
	r.job = nil
	r.sampler.detach()
	l := r.leaving
	if l != nil && l.Checkpoint && savedCheckpoint(exit) {
		seg.CheckpointS = (now - l.AskedAt).Seconds()
	}
	switch {
	case r.progress.Finished() && exit.Signal == "" && exit.Code == 0 && (exit.Reason == launch.Exited || exit.Reason == launch.Stopped):
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit}) // finished while being asked to go is finished
	case r.progress.Finished() && l != nil && l.Checkpoint && exit.Signal == "SIGUSR1":
		// An interpreter gives up its handlers as it ends: our request met it there.
		r.event(Warning, "all work was done when the request for a checkpoint ended the job by SIGUSR1")
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

// startNext launches what follows a wanted exit, and notices a job that did not keep the protocol.
func (r *run) startNext(ctx context.Context, l *leaving, exit launch.Exit) {
	if l.Checkpoint && exit.Signal == "SIGUSR1" {
		r.event(Warning, "the job died of SIGUSR1 instead of saving a checkpoint: it will not be restarted again")
		r.resumable = false
		if r.phase == probing { // nothing more is measured elsewhere
			r.adopt(r.ownSettings())
			l.Next, l.Label = &r.plan.Allocation, "run"
		}
		r.launch(ctx, *l.Next, l.Label, true)
		return
	}
	if !l.Checkpoint { // what it had done is lost
		for _, s := range r.progress.Segments {
			s.Lost = s.Spent
		}
		for i := range r.rec.Probes {
			r.rec.Probes[i].InJob = false
		}
		r.progress.Restarted()
		r.log.restart(r.dir.Path(fmt.Sprintf("training-%d.csv", r.launches()+1)), r.Clock.Now())
	}
	r.launch(ctx, *l.Next, l.Label, l.Checkpoint)
	if l.Checkpoint && r.job != nil {
		r.progress.Current().RestartFrom = l.AskedAt
	}
}

// leftByItself is the end of a job that nobody asked to go.
func (r *run) leftByItself(exit launch.Exit, now time.Duration) {
	if exit.Reason == launch.Exited && exit.Code == 0 {
		if rest, ok := r.progress.Remaining(); ok && rest > 0 {
			r.event(Warning, "the training ended with %g of %g %ss", r.progress.Done, r.progress.Total, r.progress.Unit)
		}
		r.end(&ending{state: journal.Done, reason: "exited", exit: &exit})
		return
	}
	if why, left := r.nearestLimit(); exit.Reason == launch.Stopped && left <= r.reserve() {
		// The keeper's dead-man's switch: our timer was late, or the limit came while no agent ran.
		r.leaving = &leaving{Why: why, AskedAt: now, Checkpoint: r.resumable}
		r.end(r.stopped(&exit))
		return
	}
	if r.mayRestart(exit) {
		r.failures++
		life := exit
		if seg := r.progress.Current(); r.progress.Done <= seg.StartDone {
			life.Ran = 0 // however long it lived, it got nowhere
		}
		next, retry := r.backoff.Next(life)
		if r.failures > r.Config.Restarts && !retry.GiveUp {
			retry = launch.Retry{GiveUp: true, Reason: fmt.Sprintf("gave up after %d failures (--max-restarts %d)", r.failures, r.Config.Restarts)}
		}
		r.backoff = next
		if !retry.GiveUp {
			r.event(Warning, "the training failed (%s): %s", describeExit(exit), retry.Reason)
			r.retryAt = now + max(retry.After, time.Millisecond)
			return
		}
		r.event(Problem, "%s", retry.Reason)
		exit.Detail = joinDetail(exit.Detail, retry.Reason)
	}
	reason := string(exit.Reason)
	r.end(&ending{state: journal.Failed, reason: reason, detail: exit.Detail, exit: &exit, code: CodeTraining,
		err: errors.New("the training failed: " + describeExit(exit))})
}

// mayRestart: only a resumable job that has made progress, or was killed from outside, is worth another start; a
// script that fails at once fails for a reason that another start does not mend.
func (r *run) mayRestart(exit launch.Exit) bool {
	if !r.resumable || r.Config.Restarts < 0 || exit.Reason == launch.StartFailed {
		return false
	}
	return r.progress.Rows > 0 || exit.Reason == launch.Killed || exit.Code == exitTryAgain
}

// exitTryAgain is EX_TEMPFAIL: a job says that it wants to be started again.
const exitTryAgain = 75

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

// stopped is the ending of a run that the guard or the user ended.
func (r *run) stopped(exit *launch.Exit) *ending {
	e := &ending{state: journal.Stopped, reason: r.leaving.Why, exit: exit}
	switch r.leaving.Why {
	case "user":
		e.code = r.userCode
		if e.code == 0 {
			e.code = CodeTerminated
		}
	case "infeasible":
		e.reason, _ = r.nearestLimit()
		e.code = CodeInfeasible
	default:
		e.code = CodeGuard
	}
	if exit != nil && r.leaving.Checkpoint && savedCheckpoint(*exit) {
		e.detail = "checkpoint saved"
	} else if exit != nil {
		e.detail = describeExit(*exit)
	}
	return e
}

// savedCheckpoint: by the protocol, a job that was asked to save exits with 0 or 75.
func savedCheckpoint(e launch.Exit) bool {
	return e.Signal == "" && (e.Code == 0 || e.Code == exitTryAgain)
}

func (r *run) end(e *ending) {
	if r.ended == nil {
		r.endedAt = r.elapsed()
		r.ended = e
	}
}

func describeExit(e launch.Exit) string {
	text := ""
	switch {
	case e.Reason == launch.OOM:
		text = "out of memory"
	case e.Reason == launch.Lost:
		text = "gone without a record"
	case e.Signal != "":
		text = "died of " + e.Signal
	default:
		text = fmt.Sprintf("exit code %d", e.Code)
	}
	return joinDetail(text, e.Detail)
}

func joinDetail(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || a == b:
		return a
	}
	return a + "; " + b
}

// growMemory raises the memory of a job that has nearly used what it was given: the request was too small, and the
// training must not suffer for our estimate. The hard limit stays.
func (r *run) growMemory() {
	used := r.sampler.last.Tree.MemoryGiB
	if math.IsNaN(used) || used < 0.9*float64(r.current.Memory) || r.current.Memory >= r.limits.MemoryMax {
		return
	}
	to := r.current
	to.Memory = min(roundMemory(resources.GiB(used)*memoryMargin), r.limits.MemoryMax)
	if to.Memory > r.current.Memory {
		r.applyLive(to, fmt.Sprintf("uses %.2f of %.2f GiB", used, float64(r.current.Memory)))
	}
}

// memoryMargin is what is given above the measured peak.
const memoryMargin = 1.25

// roundMemory rounds up to a quarter of a GiB.
func roundMemory(g resources.GiB) resources.GiB {
	return resources.GiB(math.Max(0.25, math.Ceil(float64(g)*4-1e-9)/4))
}

// applyLive changes the allocation of the running tree without a restart.
func (r *run) applyLive(to resources.Allocation, why string) {
	to.GPUs, to.GPUIDs = r.current.GPUs, r.current.GPUIDs
	notApplied, err := r.job.Apply(to)
	if err != nil {
		r.event(Warning, "change the running job to %s: %v", to, err)
		return
	}
	for _, n := range notApplied {
		if !r.advised[n] {
			r.advised[n] = true
			r.warn(n)
		}
	}
	now := r.elapsed()
	r.meter.Change(now, cost.Label(r.progress.Current().Label), to)
	if to.CPUs != r.current.CPUs || to.BatchSize != r.current.BatchSize {
		r.beginSegment(now, to, "run", false)
	} else {
		r.progress.Current().Allocation = to
	}
	r.act(to, why, "live")
	r.current = to
	if err := r.job.SetStopAfter(r.deadMan()); err != nil {
		r.warn(fmt.Sprintf("move the keeper's own limit: %v", err))
	}
}

// act records a change of allocation, or the advice to make one.
func (r *run) act(to resources.Allocation, why, applied string) {
	r.checkBatch(to)
	index, ok := r.actions().IndexOf(r.current, to)
	if !ok {
		index = -1
	}
	a := journal.Action{AtS: journal.Number(r.elapsed().Seconds()), Action: index, From: r.current, To: to, Reason: why, Applied: applied,
		Description: describeChange(r.current, to)}
	r.rec.Actions = append(r.rec.Actions, a)
	r.lastAction = a.Description
	r.event(Info, "%s (%s): %s", a.Description, applied, why)
	r.writeDecision(a)
	if applied == "live" {
		r.noteAllocation(to, applied, why)
	}
}

func (r *run) actions() resources.ActionSpace {
	return resources.ActionSpace{Limits: r.limits, WithMemory: true}
}

func describeChange(from, to resources.Allocation) string {
	parts := ""
	add := func(name string, a, b float64, unit string) {
		if a != b {
			if parts != "" {
				parts += ", "
			}
			parts += fmt.Sprintf("%s %g → %g%s", name, a, b, unit)
		}
	}
	add("GPUs", float64(from.GPUs), float64(to.GPUs), "")
	add("CPUs", float64(from.CPUs), float64(to.CPUs), "")
	add("memory", float64(from.Memory), float64(to.Memory), " GiB")
	add("batch", float64(from.BatchSize), float64(to.BatchSize), "")
	if parts == "" {
		return "no change"
	}
	return parts
}
