package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// savedState is the content of the file `state`: everything that another agent requires to continue the run.
type savedState struct {
	Config    Config               `json:"config"`
	Argv      []string             `json:"argv"`
	Host      resources.Host       `json:"host"`
	Limits    resources.Limits     `json:"limits"`
	Rates     cost.Rates           `json:"rates"`
	Baseline  resources.Allocation `json:"baseline"`
	Current   resources.Allocation `json:"current"`
	Resumable bool                 `json:"resumable"`
	Need      resources.GiB        `json:"need_memory_gib"`
	RestartS  []float64            `json:"restart_s"`
	StartupS  []float64            `json:"startup_s"`
	Progress  Progress             `json:"progress"`
	Meter     json.RawMessage      `json:"meter"`
	Guard     json.RawMessage      `json:"guard"`
	Phase     phase                `json:"phase"`
	Leaving   *leaving             `json:"leaving"`
	Handle    *launch.Handle       `json:"handle"`
	AdaptedAt float64              `json:"adapted_at"`
	Backoff   launch.Backoff       `json:"backoff"`
	Failures  int                  `json:"failures"`
	OwnLog    string               `json:"own_log"`
	Joules    float64              `json:"joules"`
	LogPath   string               `json:"log_path"`
	Output    []trainlog.TailState `json:"output"` // of stdout and stderr
	Log       *trainlog.TailState  `json:"log"`
	Elapsed   time.Duration        `json:"elapsed"`
	Monotonic time.Duration        `json:"monotonic"`
	BootID    string               `json:"boot_id"`
	Ended     bool                 `json:"ended"`

	Positions map[string]float64 `json:"positions,omitempty"` // progress in the checkpoints that the observer reported
	Framework string             `json:"framework,omitempty"` // as reported by the observer
	Asked     string             `json:"asked,omitempty"`     // path of the checkpoint written on request
	Base      base               `json:"base"`                // position from which the running process continued
}

// bootID identifies this boot of the machine: monotonic times of another boot are not comparable. It is read once,
// because every saved state contains it.
var bootID = sync.OnceValue(func() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
})

// save writes state at most once a second and run.json at most every five seconds; force writes both immediately.
func (r *run) save(force bool) {
	now := r.elapsed()
	if force || now-r.lastSave >= time.Second {
		r.lastSave = now
		r.saveState()
	}
	if force || now-r.lastRecord >= 5*time.Second {
		r.lastRecord = now
		r.refresh(false)
		if err := r.dir.WriteRecord(r.rec); err != nil {
			r.saidOnce(err)
		}
	}
}

// saidOnce reports a disk error once; the training and the guard continue.
func (r *run) saidOnce(err error) {
	r.once(Warning, "disk", "%v (the training continues)", err)
}

// saveState writes the state file with the positions of all sources.
func (r *run) saveState() {
	s := savedState{Config: r.Config, Argv: r.argv, Host: r.host, Limits: r.limits, Rates: r.rates, Baseline: r.baseline, Current: r.current,
		Resumable: r.resumable, Need: r.needMemory, RestartS: r.restartS, StartupS: r.startupS, Progress: r.progress,
		Meter: r.meter.State(), Guard: r.guard.State(), Phase: r.phase, Leaving: r.leaving, AdaptedAt: r.adaptedAt, Backoff: r.backoff, Failures: r.failures, OwnLog: r.log.own,
		Joules: r.sampler.joules, Elapsed: r.elapsed(), Monotonic: r.Clock.Monotonic(), BootID: bootID(), Ended: r.ended != nil}
	if r.job != nil {
		h := r.job.Handle()
		s.Handle = &h
	}
	s.LogPath, s.Log = r.log.state()
	s.Asked = r.saves.asked
	s.Output = r.log.OutputStates()
	if r.observer != nil {
		s.Positions, s.Base, s.Framework = r.observer.positions, r.observer.base, r.observer.framework
	}
	if err := r.dir.SaveState(s); err != nil {
		r.saidOnce(err)
	}
}

// ErrNotResumable reports that a run cannot be continued: it has finished, or its job keeps no checkpoint.
var ErrNotResumable = errors.New("cannot be resumed")

// Change contains new limits for a resumed run; zero fields keep the old limit.
type Change struct {
	TimeMax    time.Duration
	CostMaxUSD float64
}

// Resume continues a run whose agent has died: it adopts the job if that still runs, otherwise it records how the job
// ended and restarts it from its checkpoint if possible. Elapsed time and cost continue from the saved state; the
// time of an outage counts only while the job lived.
func (a Agent) Resume(ctx context.Context, dir string, change Change, interrupts <-chan os.Signal) Result {
	r := newRun(a)
	unlock, err := r.reopen(dir, change)
	if err != nil {
		code := CodeOurs
		if errors.Is(err, ErrNotResumable) {
			code = CodeUsage
		}
		return Result{Code: code, Err: err, Dir: dir, Record: r.rec}
	}
	defer unlock()
	defer r.closeInstruments()
	r.watchdog.watch(ctx, interrupts)
	defer r.watchdog.close()
	if err := r.pickUp(ctx); err != nil {
		return Result{Code: CodeUsage, Err: err, Dir: dir, Record: r.rec}
	}
	r.loop(ctx)
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
	var s savedState
	note, err := jd.LoadState(&s)
	if err != nil {
		return fmt.Errorf("resume %s: %w", jd.ID(), err)
	}
	r.dir, r.rec, err = jd, nil, nil
	if r.rec, err = journal.ReadRecord(jd.Dir()); err != nil {
		return fmt.Errorf("resume %s: %w", jd.ID(), err)
	}
	s.Ended = s.Ended || r.rec.State != journal.Running
	if s.Ended && r.rec.State == journal.Done {
		return fmt.Errorf("%s is done: %w", jd.ID(), ErrNotResumable)
	}
	r.Config = s.Config
	r.Agent = r.Agent.withDefaults()
	r.watchdog = newWatchdog(r.Clock, r.Config.Grace)
	r.argv, r.host, r.limits, r.rates = s.Argv, s.Host, s.Limits, s.Rates
	r.baseline, r.current, r.resumable, r.needMemory = s.Baseline, s.Current, s.Resumable, s.Need
	r.restartS, r.startupS, r.progress = s.RestartS, s.StartupS, s.Progress
	r.phase, r.leaving, r.adaptedAt, r.backoff = s.Phase, s.Leaving, s.AdaptedAt, s.Backoff
	r.failures = s.Failures
	if r.phase == "" {
		r.phase = probing
	}
	if r.ins, err = inspect.Inspect(r.rec.Script.Path); err != nil {
		r.ins = inspect.Inspection{Path: r.rec.Script.Path}
	}
	r.readCommand()
	r.openSaves()
	r.saves.asked = s.Asked
	if _, ok := r.resumeFrom(); s.Ended && !ok && (!r.resumable || r.canResume()) {
		return fmt.Errorf("resume %s: %w", jd.ID(), noCheckpoint("its job has ended"))
	}
	if change.TimeMax == r.Config.SLA.TimeMax {
		change.TimeMax = 0
	}
	if change.CostMaxUSD == r.Config.SLA.CostMaxUSD {
		change.CostMaxUSD = 0
	}
	if change.TimeMax > 0 {
		r.Config.SLA.TimeMax = change.TimeMax
	}
	if change.CostMaxUSD > 0 {
		r.Config.SLA.CostMaxUSD = change.CostMaxUSD
	}
	if change != (Change{}) {
		verdicts := r.rec.SLA.Verdicts
		r.rec.SLA = slaRecord(r.Config.SLA)
		r.rec.SLA.Verdicts = verdicts
		r.warn("SLA changed on resume: " + r.Config.SLA.String())
	}
	if r.meter, err = cost.RestoreMeter(s.Meter); err != nil {
		return fmt.Errorf("resume %s: money spent so far: %w", jd.ID(), err)
	}
	if s.Ended { // refuse before any file is written
		if err := r.Config.SLA.Exhausted(s.Elapsed, float64(r.meter.Total(s.Elapsed))); err != nil {
			return fmt.Errorf("resume %s: %w: %w", jd.ID(), err, ErrNotResumable)
		}
	}
	if err := r.newGuard(); err != nil {
		return err
	}
	if change == (Change{}) && !s.Ended {
		if err := r.guard.Restore(s.Guard); err != nil {
			r.warn(err.Error())
		}
	}
	r.base, r.started = s.Elapsed, r.Clock.Monotonic()
	r.saved.Output = s.Output
	r.openInstruments()
	r.saves.asked = s.Asked
	r.sampler.joules = s.Joules
	if o := r.observer; o != nil {
		o.base, o.framework = s.Base, s.Framework
		if s.BootID == bootID() {
			o.since = s.Monotonic
		}
		for path, position := range s.Positions {
			o.positions[path] = position
		}
	}
	if err := r.log.resume(&s, r.rec.StartedAt); err != nil {
		r.warn(err.Error())
	}
	if note != "" {
		r.event(Warning, "%s", note)
	}
	r.rec.State, r.rec.Exit, r.rec.FinishedAt, r.rec.ExitCode = journal.Running, nil, nil, nil
	r.recall()
	r.saved = s
	return nil
}

// pickUp adopts the job of the run, or restarts it.
func (r *run) pickUp(ctx context.Context) error {
	s := &r.saved
	s.Handle = latestJob(r.dir.Dir(), s)
	if s.Handle == nil || s.Ended {
		r.leaving = nil
		return r.startAgain(ctx, "")
	}
	j, err := r.Launcher.Adopt(ctx, *s.Handle)
	if err != nil {
		return fmt.Errorf("resume %s: %w", r.dir.ID(), err)
	}
	select {
	case <-j.Done():
		exit := j.Exit()
		if end, _, ok := r.progress.jobEnd(exit.Ran); ok { // it continued to run without an agent
			r.base = max(r.base, end)
		}
		return r.afterOutage(ctx, exit)
	default:
	}
	if s.BootID == bootID() { // it ran, and cost money, during the outage
		r.base += r.started - s.Monotonic
	}
	r.job = j
	r.sampler.attach(j, r.current)
	r.log.Attach(j)
	r.event(Info, "adopted the running job (pid %d) of %s", j.Handle().PID, r.dir.ID())
	r.rec.Enforced = j.Enforced()
	if err := j.SetStopAfter(r.deadMan()); err != nil {
		r.warn(fmt.Sprintf("move the supervisor's time limit: %v", err))
	}
	return nil
}

// latestJob returns the handle recorded by the keeper, because an agent may die between starting a job and saving its
// handle. If the state contains no job, a record that predates it belongs to the previous job, which has ended, and
// is ignored.
func latestJob(dir string, s *savedState) *launch.Handle {
	h, err := launch.Find(dir)
	if err != nil || s.Handle == nil && time.Duration(h.KeeperStart)*clockTick < s.Monotonic-clockTick {
		return s.Handle
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
		if _, left := r.nearestLimit(); exit.Reason == launch.Stopped && left <= r.reserve() {
			r.leftByItself(exit, r.exitAt)
			return nil
		}
		r.leaving = nil
		return r.startAgain(ctx, describeExit(exit))
	}
	r.exited(ctx, exit)
	return nil
}

// noCheckpoint is the refusal to restart a job that saves no checkpoint.
func noCheckpoint(why string) error {
	return fmt.Errorf("%s, and the script keeps no checkpoint to resume from (--resumable yes if it does): %w", why, ErrNotResumable)
}

// giveUp records in run.json that the run has failed.
func (r *run) giveUp(why string) {
	r.refresh(true)
	now, code := r.Clock.Now().UTC(), int(CodeTraining)
	r.rec.State, r.rec.FinishedAt, r.rec.ExitCode = journal.Failed, &now, &code
	r.rec.Exit = &journal.Exit{Reason: "lost", Detail: why}
	r.rec.Settle()
	if err := r.dir.WriteRecord(r.rec); err != nil {
		r.event(Warning, "%v", err)
	}
}

// startAgain launches the job from its checkpoint.
func (r *run) startAgain(ctx context.Context, why string) error {
	if _, ok := r.resumeFrom(); !ok && !r.resumable {
		if why == "" {
			why = "its job has ended"
		}
		r.giveUp(why)
		return fmt.Errorf("resume %s: %w", r.dir.ID(), noCheckpoint(why))
	}
	if err := r.Config.SLA.Exhausted(r.elapsed(), r.spent()); err != nil {
		return fmt.Errorf("resume %s: %w", r.dir.ID(), err)
	}
	if r.rec.Plan != nil { // it was made for a run without interruption
		r.rec.Plan.Prediction = nil
	}
	label := "run"
	if r.phase == probing {
		label = "probe"
	}
	r.launch(ctx, r.current, label, true)
	return nil
}
