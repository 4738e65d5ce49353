package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/notify"
)

// ErrNotResumable reports that a run cannot be continued: it has finished, its job keeps no checkpoint, or its limits are used
// up.
var ErrNotResumable = errors.New("cannot be resumed")

// errUnsaved is ErrNotResumable for a run whose scheduler took its devices before the training had saved anything.
var errUnsaved = fmt.Errorf("its devices were taken before it had saved anything: %w", ErrNotResumable)

// errExhausted is ErrNotResumable for a run whose limits are used up.
var errExhausted = fmt.Errorf("%w", ErrNotResumable)

// Change contains new limits for a resumed run; zero fields keep the old limit.
type Change struct {
	TimeMax    time.Duration
	CostMaxUSD float64
	// Engine moves an ended run to another engine, or to another kind of node by EngineArgs; "local" is this machine.
	Engine      string
	EngineArgs  []string
	BillingHour cost.USD
	// Config is that of the run, from which one with a damaged state continues; nil: it is refused.
	Config *Config
	// Notify and NotifyLink replace those of Config, because the addresses that may be secret are not stored.
	Notify     []notify.Target
	NotifyLink string
}

// Resume continues a run whose agent has died: it adopts the job if that still runs, otherwise it records how the job
// ended and restarts it from its checkpoint if possible. Elapsed time and cost continue from the saved state; the
// time of an outage counts only while the job lived.
func (a Agent) Resume(ctx context.Context, dir string, change Change, interrupts <-chan os.Signal) Result {
	r := newRun(a, Config{})
	refused := func(code Code, err error) Result {
		return Result{Code: code, Err: err, Dir: dir, Record: r.rec, Unsaved: errors.Is(err, errUnsaved), Exhausted: errors.Is(err, errExhausted)}
	}
	unlock, err := r.reopen(dir, change)
	if err != nil {
		code := CodeOurs
		if errors.Is(err, ErrNotResumable) {
			code = CodeUsage
		}
		return refused(code, err)
	}
	defer unlock()
	defer r.closeInstruments()
	r.watchdog.watch(ctx, interrupts)
	defer r.watchdog.close()
	defer r.watchMachine(ctx)()
	if err := r.adoptOrRestart(ctx); err != nil {
		return refused(CodeUsage, err)
	}
	r.supervise(ctx)
	return r.finish()
}

// reopen locks the run directory and restores the run from it. The returned function releases the lock.
func (r *run) reopen(dir string, change Change) (func(), error) {
	jd, err := journal.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock, err := jd.Lock()
	if err != nil {
		return nil, err
	}
	if err := r.restore(jd, change); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// restore rebuilds the run from its saved state and record, with the new limits of change. It refuses, before any
// file is written, a run that is done, has no checkpoint to resume from, or has used up its limits.
func (r *run) restore(jd *journal.Run, change Change) error {
	refuse := func(err error) error { return fmt.Errorf("resume %s: %w", jd.ID(), err) }
	if !journal.HasState(jd.Dir()) {
		if rec, err := journal.ReadRecord(jd.Dir()); err == nil && rec.State == journal.Done {
			return fmt.Errorf("%s is done: %w", jd.ID(), ErrNotResumable)
		}
		return refuse(fmt.Errorf("its agent ended before it had begun anything: give the command again (optimize runs rm %s removes what is left): %w", jd.ID(), ErrNotResumable))
	}
	note, err := jd.LoadState(&r.facts)
	if errors.As(err, new(*journal.Damage)) && change.Config != nil {
		note = err.Error() + "; continuing by run.json and the log"
		if rebuilt := r.rebuild(jd.Dir(), *change.Config); rebuilt != nil {
			err = fmt.Errorf("%w; %w", err, rebuilt)
		} else {
			err = nil
		}
	}
	if err != nil {
		return refuse(err)
	}
	r.dir = jd
	if err := r.reopenSite(context.Background()); err != nil {
		return refuse(err)
	}
	if err := r.openMarket(); err != nil {
		return refuse(err)
	}
	if r.rec, err = journal.ReadRecord(jd.Dir()); err != nil {
		return refuse(err)
	}
	r.reclaimedBefore = r.rec.Exit != nil && r.rec.Exit.Reason == byReclaim
	r.tookDevices = r.Lease != nil && r.rec.Exit != nil && r.rec.Exit.Reason == byLease
	r.Ended = r.Ended || r.rec.State != journal.Running
	r.enterAllocation(context.Background())
	if r.Ended && r.rec.State == journal.Done {
		return fmt.Errorf("%s is done: %w", jd.ID(), ErrNotResumable)
	}
	r.Config = r.Config.WithDefaults()
	if len(change.Notify) > 0 {
		r.Config.Notify = change.Notify
	}
	r.Config.NotifyLink = cmp.Or(change.NotifyLink, r.Config.NotifyLink)
	r.watchdog.grace = r.Config.Grace
	r.Phase = cmp.Or(r.Phase, probing)
	r.inspect(r.rec.Script.Path, &r.facts)
	if at := r.rec.FinishedAt; r.Ended && at != nil {
		r.Absences = append(r.Absences, absence{*at, r.Clock.Now()})
	}
	r.elapsedBefore, r.resumedAt, r.leftAt, r.started = r.Elapsed, r.Elapsed, r.Wall, r.Clock.Monotonic()
	r.openCheckpoints()
	if r.Ended && !r.resumes() {
		return refuse(r.noCheckpoint("its job has ended"))
	}
	if err := r.programGone(); r.Ended && err != nil {
		return refuse(fmt.Errorf("%w: %w", err, ErrNotResumable))
	}
	limits := r.Config.SLA
	changed := r.changeLimits(change)
	r.tellAgain(limits)
	if change.Engine != "" {
		if !r.Ended {
			return refuse(errors.New("its job may still run: stop it before it continues on another engine"))
		}
		if err := r.changeEngine(context.Background(), change); err != nil {
			return refuse(err)
		}
	}
	if r.meter, err = cost.RestoreMeter(r.MeterState); err != nil {
		return refuse(fmt.Errorf("money spent so far: %w", err))
	}
	if r.Ended { // refuse before any file is written
		err := r.Config.SLA.Exhausted(r.Elapsed, float64(r.meter.Total(r.Elapsed))+r.besideUSD(r.Clock.Now()))
		if e := r.rec.Exit; err == nil && e != nil && (e.Reason == "deadline" && r.Config.SLA.TimeMax == limits.TimeMax || e.Reason == "budget" && r.Config.SLA.CostMaxUSD == limits.CostMaxUSD) {
			err = fmt.Errorf("its %s has stopped it (%s): give a higher limit", e.Reason, limits)
		}
		if err != nil {
			return refuse(fmt.Errorf("%w: %w", err, errExhausted))
		}
	}
	if err := r.newGuard(); err != nil {
		return err
	}
	if !changed && !r.Ended {
		if err := r.guard.Restore(r.GuardState); err != nil {
			r.warn(err.Error())
		}
	}
	r.doneAt = r.Progress.Done
	r.elapsedBefore, r.started = r.Elapsed, r.Clock.Monotonic() // without the time of the above
	if r.countsOutage() && !r.Wall.IsZero() {
		r.elapsedBefore += max(0, r.Clock.Now().Sub(r.Wall))
	}
	r.countWaiting()
	r.rewindTables()
	r.openInstruments()
	if r.observer != nil && r.BootID == bootID() {
		r.observer.since = r.Monotonic
	}
	if err := r.resumeLog(); err != nil {
		r.warn(err.Error())
	}
	if note != "" {
		r.event(Warning, "%s", note)
	}
	r.rec.State, r.rec.Exit, r.rec.FinishedAt, r.rec.ExitCode = journal.Running, nil, nil, nil
	r.recall()
	return nil
}

// rebuild derives the facts of a run whose saved state is damaged from its configuration, its record and its job. What was
// measured is lost, and the log is read from its beginning.
func (r *run) rebuild(dir string, cfg Config) error {
	rec, err := journal.ReadVerified(dir)
	if err != nil || !rec.Outcome.Seconds.Known() || !rec.Outcome.CostUSD.Known() {
		return cmp.Or(err, ErrNotResumable)
	}
	r.Config = cfg.WithDefaults()
	if res, refused := r.prepare(context.Background()); refused {
		return cmp.Or(res.Err, ErrNotResumable)
	}
	recorded := time.Duration(float64(rec.Outcome.Seconds) * float64(time.Second))
	r.Elapsed, r.Ended, r.Current, r.Phase = recorded, rec.State != journal.Running, r.Baseline, working
	if r.Lease != nil && !r.Lease.Submitted.IsZero() {
		r.Elapsed = max(r.Elapsed, r.Clock.Now().Sub(r.Lease.Submitted))
	}
	r.CorrectedUSD, r.GuardState = float64(rec.Outcome.CostUSD), []byte("{}")
	r.Progress.Unit = rec.Training.Unit
	if c := rec.Checkpoint; c != nil && c.Path != "" && c.Units.Known() {
		r.Positions = map[string]float64{absolute(cfg.Dir, c.Path): float64(c.Units)}
	}
	launched := recorded
	if h, err := r.Launcher.Find(dir); err == nil && h.Engine == "" && h.BootID == bootID() {
		launched = max(0, r.Elapsed-r.Clock.Monotonic()+time.Duration(h.KeeperStart)*clockTick)
	}
	for range rec.Outcome.Restarts + 1 {
		r.Progress.Begin(launched, r.Current, "run", true).StartedAt = launched
	}
	r.Progress.Begin(recorded, r.Current, "run", false)
	var meter cost.Meter
	if !r.Ended {
		err = meter.Start(recorded, cost.Run, r.Current, r.Rates)
	}
	r.MeterState = meter.State()
	return err
}

// changeLimits sets the new limits and records them. It reports whether any limit differs from the present one.
func (r *run) changeLimits(change Change) bool {
	before, now := r.Config.SLA, &r.Config.SLA
	now.TimeMax = cmp.Or(max(change.TimeMax, 0), now.TimeMax)
	now.CostMaxUSD = cmp.Or(max(change.CostMaxUSD, 0), now.CostMaxUSD)
	if now.TimeMax == before.TimeMax && now.CostMaxUSD == before.CostMaxUSD {
		return false
	}
	verdicts := r.rec.SLA.Verdicts
	r.rec.SLA = slaRecord(*now)
	r.rec.SLA.Verdicts = verdicts
	r.warn("SLA changed on resume: " + now.String())
	return true
}

// adoptOrRestart adopts the job of the run, or restarts it.
func (r *run) adoptOrRestart(ctx context.Context) error {
	r.withdrawPrepared()
	r.Handle = latestJob(r.Launcher, r.dir.Dir(), &r.facts)
	if r.Handle == nil || r.Ended {
		r.Pending = nil
		return r.restartFromCheckpoint(ctx, "")
	}
	j, err := r.Launcher.Adopt(ctx, *r.Handle)
	if err != nil {
		return fmt.Errorf("resume %s: %w", r.dir.ID(), err)
	}
	select {
	case <-j.Done():
		exit := j.Exit()
		if end, ok := r.Progress.jobEnd(exit); ok { // it continued to run without an agent
			r.elapsedBefore = max(r.elapsedBefore, end)
		}
		return r.afterOutage(ctx, exit)
	default:
	}
	switch h := j.Handle(); {
	case r.countsOutage(): // restore has counted it
	case r.BootID == bootID(): // it ran, and cost money, during the outage
		r.elapsedBefore += r.started - r.Monotonic
	case h.Engine != "" && !r.Wall.IsZero(): // from another machine: only the wall clock is common
		r.elapsedBefore += max(0, r.Clock.Now().Sub(r.Wall))
	}
	r.attach(j)
	if h := j.Handle(); h.Engine != "" {
		r.adoptQueued(h)
	} else {
		r.event(Info, "adopted the running job (pid %d) of %s", h.PID, r.dir.ID())
	}
	if r.queued == nil { // the limit of a waiting job begins with its start
		r.moveTimeLimit()
	}
	return nil
}

// countsOutage reports whether all time since the start of the run counts towards its deadline: also that in which it
// waited for a machine.
func (r *run) countsOutage() bool {
	return r.Config.Spot != nil || r.Config.SpotNotice != "" && r.reclaimedBefore
}

// latestJob returns the handle recorded by the keeper, because an agent may die between starting a job and saving its
// handle. If the state contains no job, a record that predates it belongs to the previous job, which has ended, and
// is ignored.
func latestJob(l launch.Launcher, dir string, f *facts) *launch.Handle {
	h, err := l.Find(dir)
	if f.Handle != nil && f.Handle.Engine == "" {
		f.Handle.RunDir = dir // see launch.Find
	}
	if err != nil || h.Engine != "" && f.Handle == nil && h.Stretch <= f.Stretch {
		return f.Handle
	}
	if h.Engine == "" && f.Handle == nil && time.Duration(h.KeeperStart)*clockTick < f.Monotonic-clockTick {
		return f.Handle
	}
	return &h
}

// clockTick is the unit of process start times (USER_HZ is 100 on Linux).
const clockTick = 10 * time.Millisecond

// afterOutage handles a job that ended without an agent.
func (r *run) afterOutage(ctx context.Context, exit launch.Exit) error {
	r.event(Info, "the job ended while no agent was attached: %s", describeExit(exit))
	r.readLog()
	if exit.Reason == launch.Lost || exit.Reason == launch.Stopped {
		r.settleJob(exit)
		if _, ok := r.stoppedAtLimit(exit); ok && exit.Reason == launch.Stopped {
			r.handleUnrequestedExit(exit, r.exitAt)
			return nil
		}
		r.Pending, r.tookDevices = nil, r.Lease != nil && exit.Limit
		return r.restartFromCheckpoint(ctx, describeExit(exit))
	}
	r.handleExit(ctx, exit)
	return nil
}

// programGone returns an error if the script, or the program that runs it, no longer exists on this machine.
func (r *run) programGone() error {
	paths := []string{r.rec.Script.Path}
	if len(r.Argv) > 0 && strings.Contains(r.Argv[0], "/") {
		paths = append(paths, absolute(r.Config.Dir, r.Argv[0]))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); path != "" && r.Config.Engine == "" && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("find %s: no such file", path)
		}
	}
	return nil
}

// noCheckpoint is the refusal to restart a job of which no checkpoint is known.
func (r *run) noCheckpoint(why string) error {
	cause := ErrNotResumable
	if r.tookDevices && r.rec.Checkpoint == nil && !r.hasSaved() {
		cause = errUnsaved
	}
	if r.canResume() {
		return fmt.Errorf("%s, and no complete checkpoint of this run was found to resume from by %s: %w", why, r.resumptionWords(), cause)
	}
	return fmt.Errorf("%s, and the script is not known to load a checkpoint when it starts (if it does, repeat the command of the run with --resumable yes): %w", why, cause)
}

// recordLost records in run.json that the run has failed, when its job ended.
func (r *run) recordLost(why string) {
	r.end(&ending{state: journal.Failed, reason: "lost", detail: why, code: CodeTraining})
	if !r.countsOutage() {
		r.endedAt = cmp.Or(r.exitAt, r.endedAt)
	}
	r.refresh(true)
	now, code := r.Clock.Now().UTC(), int(CodeTraining)
	r.rec.State, r.rec.FinishedAt, r.rec.ExitCode = journal.Failed, &now, &code
	r.rec.Exit = exitRecord("lost", why, nil)
	r.rec.Settle()
	if err := r.dir.WriteRecord(r.rec); err != nil {
		r.event(Warning, "%v", err)
	}
}

// restartFromCheckpoint launches the job from its checkpoint, or from the beginning if it was never started.
func (r *run) restartFromCheckpoint(ctx context.Context, why string) error {
	fresh := r.unstarted()
	if !fresh && !r.resumes() {
		why = cmp.Or(why, "its job has ended")
		r.recordLost(why)
		return fmt.Errorf("resume %s: %w", r.dir.ID(), r.noCheckpoint(why))
	}
	if err := r.Config.SLA.Exhausted(r.elapsed(), r.spent()); err != nil {
		if !r.Ended && !fresh { // else its end is recorded, or it had none
			r.recordLost(cmp.Or(why, "its job has ended"))
			r.saveState() // a resume with higher limits counts the time and money until the end
		}
		return fmt.Errorf("resume %s: %w: %w", r.dir.ID(), err, errExhausted)
	}
	if err := r.changeHost(ctx); err != nil {
		return fmt.Errorf("resume %s: %w", r.dir.ID(), err)
	}
	if r.Lease != nil {
		if err := r.resolveLimits(); err != nil {
			return fmt.Errorf("resume %s: %w", r.dir.ID(), err)
		}
		r.Current = r.Baseline
	}
	r.dropPrediction("resumed")
	if fresh {
		r.meter.Settle(r.Progress.launchedAt())
		r.Ended = true // nothing ran during the outage
		r.countWaiting()
		r.Progress.Segments = nil
		first, label := r.firstAllocation()
		r.place(ctx, first, label, false)
		return nil
	}
	r.relaunch(ctx, r.Current, r.launchLabel())
	return nil
}

// dropPrediction drops the prediction of the plan, which was of a run without interruption: it was resumed, or its training restarted.
func (r *run) dropPrediction(how string) {
	if r.rec.Plan != nil {
		r.rec.Plan.Prediction, r.rec.Plan.Interrupted = nil, how
	}
}

// unstarted reports whether the run has never had a job: its agent died before it had started one.
func (r *run) unstarted() bool {
	s := r.Progress.Segments
	return r.Handle == nil && !r.Ended && (len(s) == 0 || len(s) == 1 && s[0].StartedAt == 0)
}
