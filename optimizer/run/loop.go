package run

import (
	"context"
	"fmt"
	"math"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/sla"
)

// loop processes events until the run has ended, in one goroutine, one event at a time. The user's signals, and the
// end of ctx, arrive through the watchdog.
func (r *run) loop(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	ticker := time.NewTicker(r.Config.Interval)
	defer ticker.Stop()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	watch, stopWatch := r.log.watch(ctx)
	defer stopWatch()
	defer r.makeHeavy()
	for r.ended == nil {
		r.publish()
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
			r.guardStep()
			r.escalate()
			r.retry(ctx)
		case err := <-r.watchdog.failed:
			r.end(&ending{state: journal.Failed, reason: "lost", detail: err.Error(), code: CodeOurs, err: err})
		case <-done:
			r.interruptions() // so that an end caused by the user's signal is attributed to it
			r.exited(ctx, r.job.Exit())
		case s := <-r.watchdog.forward:
			r.interrupt(s)
		}
	}
}

// publish passes the job and its limits to the watchdog.
func (r *run) publish() {
	_, left := r.nearestLimit()
	if r.job == nil {
		left = math.MaxInt64
	}
	r.watchdog.guard(r.job, r.askGently(), left, r.reserve())
}

// nextAlarm returns the time until the next step of the guard or a pending restart, between 1 ms and 1 s. The guard
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

// launch starts the job at an allocation: it opens a segment, completes the command line and environment, and hands
// both to the Launcher. A failure to start ends the run.
func (r *run) launch(ctx context.Context, a resources.Allocation, label string, resume bool) {
	if a.GPUs > 0 && len(a.GPUIDs) != a.GPUs {
		a.GPUIDs = r.host.Pick(a.GPUs, nil)
	}
	if err := r.limits.Check(a, r.host); err != nil {
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeOurs, err: err})
		return
	}
	now := r.elapsed()
	r.current, r.exitAt = a, 0
	if err := r.meter.Start(now, cost.Label(label), a, r.rates); err != nil {
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeOurs, err: err})
		return
	}
	r.beginSegment(now, a, label, true)
	r.save(true) // before the start: the run of an agent that dies now must be findable
	if r.observer != nil {
		r.observer.installed.Loader = r.loaderAt(a)
		r.loading = loading{own: r.loading.own}
		r.observer.begin(r.launches())
	}
	argv, from, err := r.commandLine(a, resume)
	if err != nil {
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeUsage, err: err})
		return
	}
	r.stateBatch(a)
	start, started := r.watchdog.starts(ctx)
	j, err := r.Launcher.Start(start, launch.Command{Args: argv, Dir: r.Config.Dir, Env: r.jobEnvironment(a, resume), RunDir: r.dir.Dir(),
		Allocation: r.enforced(a), Limits: r.enforcedLimits(), Grace: r.Config.Grace, StopAfter: r.deadMan(), PTY: r.Config.PTY})
	started()
	if err != nil {
		r.meter.Settle(now)
		r.closeSegment(now)
		if r.interruptions(); r.ended != nil { // the user's signal cancelled the start
			return
		}
		r.end(&ending{state: journal.Failed, reason: "start-failed", detail: err.Error(), code: CodeTraining,
			err: fmt.Errorf("start the training: %w", err)})
		return
	}
	r.job = j
	r.progress.Current().StartedAt = r.elapsed()
	r.continueFrom(from)
	r.rec.Enforced = j.Enforced()
	r.sampler.attach(j, a)
	r.log.Attach(j)
	r.noteAllocation(a, "launch", label)
	if label == "run" && r.launches() == 1 {
		r.stay(r.plan.Reason)
	}
	r.save(true)
}

// deadMan returns how long the job may run if this agent dies: until the budget or the deadline is nearly reached. It
// is half the reserve later than the guard's own stop, so that a living agent always acts first. 0 means no limit.
func (r *run) deadMan() time.Duration {
	_, left := r.nearestLimit()
	if left == math.MaxInt64 {
		return 0
	}
	return max(left-r.reserve()/2, time.Millisecond)
}

// nearestLimit returns the limit that the run will reach first at the present rate, and the time until then;
// math.MaxInt64 if it has no limit.
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

// safely runs a part of the optimizer and recovers its panics, which must not stop the training: afterwards the
// optimizer stays off and the job keeps its allocation.
func (r *run) safely(part func()) {
	if r.broken {
		return
	}
	defer func() {
		if x := recover(); x != nil {
			r.broken, r.phase = true, working
			r.event(Warning, "the optimizer failed (%v): the training continues where it runs, guarded but not optimized", x)
		}
	}()
	part()
}

// beginSegment closes the open segment and opens one at an allocation.
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

// tick carries out the work of one sampling interval: read log, observer and samples, project, check the guard, then
// adapt.
func (r *run) tick(ctx context.Context) {
	r.readLog()
	r.observe()
	r.lookForSaves(false)
	r.sample(ctx)
	r.project()
	r.guardStep()
	r.escalate()
	r.retry(ctx)
	if r.ended == nil && r.leaving == nil && r.job != nil {
		r.growMemory()
		r.watchEfficiency()
		r.watchGPUs()
		r.stopRewound()
		r.stopAfterSave()
		r.safely(r.stopHopeless)
		r.safely(r.tryThreads)
		r.safely(r.watchThreads)
		r.safely(r.tryWorkers)
		r.safely(r.watchWorkers)
		switch r.phase {
		case probing:
			r.safely(func() { r.probeStep(ctx) })
		case working:
			r.safely(func() { r.adaptStep(ctx) })
			r.makeLight()
		}
	}
	r.writeSample()
	r.View.Status(r.status())
	r.save(false)
}

// reserve returns the expected time of an orderly exit: one and a half times the slowest measured checkpoint, at
// least a second; for a job that keeps no checkpoint, the time that a process needs to exit on SIGTERM.
func (r *run) reserve() time.Duration {
	if !r.resumable {
		return 300 * time.Millisecond
	}
	worst := 0.0
	for _, s := range r.progress.Segments {
		worst = math.Max(worst, s.CheckpointS)
	}
	if r.savesOnRequest() { // the request is read at the end of a step
		worst = math.Max(worst, r.observer.facts.StepTime.Seconds()+1)
		for _, took := range r.saves.took {
			worst = math.Max(worst, took+r.observer.facts.StepTime.Seconds()+1)
		}
	}
	return time.Duration(math.Max(1.5*worst, 1) * float64(time.Second))
}

// guardStep passes time and spend to the guard and carries out its decision.
func (r *run) guardStep() {
	if r.ended != nil || r.endedUnseen() {
		return
	}
	rate, _ := r.meter.Running() // nothing is charged between jobs
	t := sla.Tick{Elapsed: r.elapsed(), SpentUSD: r.spent(), USDPerHour: float64(rate), Reserve: r.reserve(), Stopping: r.leaving != nil}
	if r.projected.seconds != nil && (len(r.progress.Observations()) > 0 || len(r.recalled()) > 0) { // similar runs are not evidence enough for a warning
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
		r.leave(&leaving{Why: why})
	case sla.Kill:
		r.event(Problem, "%s", d.Words)
		if r.leaving == nil || r.leaving.Next != nil {
			r.leaving = &leaving{Why: why, AskedAt: r.elapsed()}
		}
		if r.job == nil {
			r.end(r.stopped(nil))
			return
		}
		r.kill()
	}
}

// endedUnseen reports whether a limit has passed but the job has already ended, as after a suspended agent wakes: its
// exit is about to arrive through Done, with its own time.
func (r *run) endedUnseen() bool {
	if r.job == nil {
		return false
	}
	if _, left := r.nearestLimit(); left > 0 {
		return false
	}
	_, ended := launch.ReadExit(r.job.Handle())
	return ended
}

// newGuard creates the guard of the SLA.
func (r *run) newGuard() error {
	g, err := sla.NewGuard(r.Config.SLA, sla.GuardOptions{WarnAt: r.Config.Warn, Latency: 100 * time.Millisecond})
	r.guard = g
	return err
}
