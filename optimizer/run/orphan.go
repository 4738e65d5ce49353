package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"trainopt/cost"
	"trainopt/internal/regular"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// FindOrphanedRun returns the directory of an orphaned run of the same training (script, arguments, working directory, environment):
// its state is running, and no agent holds it; or it is the run that an earlier life of the enclosing Slurm job left, or
// the newest one, whose machine was reclaimed. A later life of a Slurm job prefers the runs of its earlier ones. Empty if no such run
// exists. One for which owned returns an error is left to its owner.
func (a Agent) FindOrphanedRun(ctx context.Context, cfg Config, owned func(dir string) error) string {
	argv, ins, err := inspect.Resolve(cfg.Train, cfg.Args, inspect.ResolveOptions{Python: cfg.Python, Dir: cfg.Dir})
	if err != nil {
		return ""
	}
	argv = launch.Redact(argv)
	list := journal.ListRunning
	batch := resources.EnclosingJob(a.Environ)
	if batch != nil && batch.Restarts > 0 || cfg.SpotNotice != "" {
		list = journal.List
	}
	entries, err := list(cfg.StateDir)
	if err != nil {
		return ""
	}
	ofJob := func(rec *journal.Record) bool {
		return batch != nil && rec != nil && rec.Batch != nil && rec.Batch.ID == batch.ID
	}
	if batch != nil && batch.Restarts > 0 { // another job of the array may have left a run too
		others := func(e journal.Entry) int {
			if ofJob(e.Record) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(entries, func(x, y journal.Entry) int { return others(x) - others(y) })
	}
	same := func(rec *journal.Record) bool {
		return rec.Script.SHA256 == ins.SHA256 && slices.Equal(rec.Command, argv) && rec.Dir == cfg.Dir && rec.Handed == handed(cfg, a.Environ)
	}
	newest := true // of the runs of the training
	for _, e := range entries {
		if e.Record == nil || !same(e.Record) {
			continue
		}
		moves := newest && cfg.SpotNotice != "" && e.Record.State == journal.Stopped && e.Record.Exit != nil && e.Record.Exit.Reason == byReclaim
		newest = false
		if e.Record.State != journal.Running && !resumesBatch(batch, e.Record) && !moves {
			continue
		}
		if b := e.Record.Batch; b != nil && e.Record.State == journal.Running && !ofJob(e.Record) {
			if _, gone := a.batchGone(ctx, e.Dir, b); !gone && !launch.Living(e.Dir) { // it may run on another node
				continue
			}
		}
		if !e.Agent.Alive() && journal.HasState(e.Dir) { // else its agent died before it had started anything
			err := owned(e.Dir)
			if err == nil {
				err = a.otherEnvironment(e.Dir, ins.Path, ofJob(e.Record))
			}
			if err == nil {
				return e.Dir
			}
			a.View.Event(Warning, err.Error())
		}
	}
	return ""
}

// otherEnvironment returns an error that names the variables of a script in which the environment of an orphaned run differs from
// that of the agent; nil if they may be of the same training. For a run of the same Slurm job only taskVariables count.
func (a Agent) otherEnvironment(dir, script string, ofJob bool) error {
	id := filepath.Base(dir)
	lacking, err := a.LackingEnvironment(dir)
	if len(lacking) > 0 {
		text := sources(script)
		lacking = slices.DeleteFunc(lacking, func(name string) bool {
			ofNode := strings.HasPrefix(name, "SLURM") || slices.Contains(nodeVariables, name)
			return !slices.Contains(taskVariables, name) && (ofJob || ofNode || !containsWord(text, name))
		})
	}
	switch n := len(lacking); {
	case err != nil:
		return fmt.Errorf("the orphaned run %s is left alone, because its environment is not known: %w; optimize runs resume %s continues it", id, err, id)
	case n == 0:
		return nil
	case n > maxDifferent:
		lacking = append(lacking[:maxDifferent:maxDifferent], fmt.Sprintf("%d more", n-maxDifferent))
	}
	return fmt.Errorf("the orphaned run %s is left alone, because its environment differs in %s; optimize runs resume %s continues it", id, strings.Join(lacking, ", "), id)
}

// maxDifferent is the maximum number of variables that a warning names.
const maxDifferent = 10

// sources returns the text of a script and of the source and configuration files in its directory, as far as they are small.
func sources(script string) string {
	var out strings.Builder
	entries, _ := os.ReadDir(filepath.Dir(script))
	for i, e := range entries {
		path := filepath.Join(filepath.Dir(script), e.Name())
		if i < maxSources && slices.Contains([]string{".py", ".sh", ".yaml", ".yml", ".toml"}, filepath.Ext(path)) || path == script {
			if b, err := regular.ReadFile(path, regular.Settings); err == nil {
				out.Write(b)
				out.WriteByte('\n')
			}
		}
	}
	return out.String()
}

// maxSources is the maximum number of files in which variables are searched.
const maxSources = 500

// containsWord reports whether a text contains a name that is not a part of a longer one.
func containsWord(text, name string) bool {
	found, err := regexp.MatchString(`\b`+regexp.QuoteMeta(name)+`\b`, text)
	return found && err == nil
}

// taskVariables distinguish the trainings of one job array or job step.
var taskVariables = []string{"SLURM_ARRAY_TASK_ID", "SLURM_PROCID"}

// nodeVariables are the variables that systems set by node or by devices. The interpreter, which PATH determines, is part of the
// command.
var nodeVariables = []string{"PATH", "HOSTNAME", "HOST", "TMPDIR", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}

// StopRun stops a run from another process: it signals the run's agent or, if that is dead, adopts the job and stops
// it. A job that had ended by itself was not stopped: its own end is recorded. A negative grace means that of the run. The
// returned text describes what was done.
func (a Agent) StopRun(ctx context.Context, dir string, grace time.Duration) (string, error) {
	id := filepath.Base(dir)
	stated := ""
	if grace >= 0 {
		stated = grace.String()
	} else {
		grace = graceOf(dir)
	}
	if h := journal.HolderOf(dir); h != nil && h.Alive() {
		mark := filepath.Join(dir, stopMark)
		if err := os.WriteFile(mark, []byte(stated), 0o600); err != nil {
			return "", fmt.Errorf("stop %s: %w", id, err)
		}
		defer os.Remove(mark)
		if err := syscall.Kill(h.PID, syscall.SIGTERM); err != nil {
			return "", fmt.Errorf("stop %s: signal its agent (pid %d): %w", id, h.PID, err)
		}
		if !waitGone(ctx, h, dir, grace+20*time.Second) {
			return "", fmt.Errorf("stop %s: its agent (pid %d) still runs after %s; `kill -9 %d`, then stop again", id, h.PID, grace+20*time.Second, h.PID)
		}
		return id + ": stopped by its agent", nil
	}
	jd, err := journal.Open(dir)
	if err != nil {
		return "", err
	}
	unlock, err := jd.LockFor("runs stop", grace+20*time.Second)
	if err != nil {
		return "", err
	}
	r := newRun(a, Config{})
	r.dir = jd
	exit, asked, unread, err := r.stopOrphan(ctx, grace)
	if err != nil || exit == nil {
		unlock()
		if err := errors.Join(err, unread); err != nil {
			return "", fmt.Errorf("stop %s: %w", id, err)
		}
		return id + ": nothing runs", nil
	}
	end := &ending{state: journal.Stopped, reason: "user", detail: "stopped while no agent ran; " + describeExit(*exit), code: CodeTerminated}
	if !asked && slices.Contains([]launch.ExitReason{launch.Exited, launch.Killed, launch.OOM}, exit.Reason) { // by itself, earlier
		end = &ending{state: journal.Failed, reason: string(exit.Reason), detail: exit.Detail, code: CodeTraining}
		if exit.Code == 0 && exit.Signal == "" {
			unlock()
			return id + ": had finished", a.Resume(ctx, dir, Change{}, nil).Err // completes the record, launches nothing
		}
	}
	unlock()
	if err = unread; err == nil {
		err = a.completeOrphan(dir, r.Pending, r.Asked, *exit, end)
	}
	words := fmt.Sprintf("%s: %s (%s)", id, end.state, describeExit(*exit))
	if err != nil {
		return "", fmt.Errorf("%s, but that cannot be recorded: %w", words, err)
	}
	return words, nil
}

// graceOf returns the grace of a run according to its state, the default if that cannot be read.
func graceOf(dir string) time.Duration {
	var f facts
	if jd, err := journal.Open(dir); err == nil {
		_, _ = jd.LoadState(&f) // StopRun reports a damaged one
	}
	return f.Config.WithDefaults().Grace
}

// stopOrphan loads the state of a run whose agent is dead, adopts its job and stops it, unless it has ended. The exit is
// nil if no job runs; asked reports whether the job was asked to exit. A damaged state, the error unread, does not prevent
// the stop: the job is known by the files of its supervisor.
func (r *run) stopOrphan(ctx context.Context, grace time.Duration) (exit *launch.Exit, asked bool, unread, err error) {
	if _, unread = r.dir.LoadState(&r.facts); errors.As(unread, new(*journal.NewerError)) {
		return nil, false, nil, unread
	} else if _, found := r.Launcher.Find(r.dir.Dir()); found != nil && !journal.HasState(r.dir.Dir()) {
		return nil, false, nil, nil // its agent died before it had begun anything
	}
	if err := r.reopenSite(ctx); err != nil {
		return nil, false, unread, err
	}
	r.withdrawPrepared()
	defer r.settleEngine()
	if r.Handle = latestJob(r.Launcher, r.dir.Dir(), &r.facts); r.Handle == nil || r.Ended {
		return nil, false, unread, nil
	}
	j, err := r.Launcher.Adopt(ctx, *r.Handle)
	if err != nil {
		return nil, false, unread, err
	}
	r.setJob(j)
	r.Pending = nil
	select {
	case <-j.Done():
		ended := j.Exit()
		return &ended, false, unread, nil
	default:
	}
	ended, err := r.stopAdopted(ctx, grace)
	return &ended, true, unread, err
}

// stopAdopted asks the job to exit in the way that loses least work, as its agent would have done, and stops it if it
// has not exited within the grace, or when it has written its checkpoint.
func (r *run) stopAdopted(ctx context.Context, grace time.Duration) (launch.Exit, error) {
	path := ""
	if rec, err := journal.ReadRecord(r.dir.Dir()); err == nil {
		path = rec.Script.Path
	}
	r.inspect(path, &r.facts)
	r.followObserver()
	method, _ := r.gentleStop()()
	r.Pending = &pendingStop{Why: "user", Checkpoint: method == bySignal, Observed: method == byObserver}
	over, look := time.After(grace), time.NewTicker(writePoll)
	defer look.Stop()
	for waits := method != noStopMethod; waits; {
		select {
		case <-r.job.Done():
			r.observer.pollAll()
			if a, ok := r.observer.takeAnswer(&r.observer.saving); ok && a.OK && a.Path != "" {
				r.Asked = absolute(r.Config.Dir, a.Path)
				r.Pending.Saved = r.Asked
			}
			return r.job.Exit(), nil
		case <-over:
			waits = false
		case <-look.C:
			waits = method != afterWrite || writesCheckpoint(r.job, r.resumption.Snapshots)
		}
	}
	return r.job.Stop(ctx, grace)
}

// completeOrphan records the end of an orphaned run as its agent would have done: with the rest of the log and of the
// observer's reports. stop is how the job was asked to exit, nil if it was not, asked the checkpoint that it then wrote.
func (a Agent) completeOrphan(dir string, stop *pendingStop, asked string, exit launch.Exit, end *ending) error {
	r := newRun(a, Config{})
	unlock, err := r.reopen(dir, Change{})
	if err != nil {
		return err
	}
	defer unlock()
	defer r.closeInstruments()
	r.Handle = latestJob(r.Launcher, dir, &r.facts)
	if last, ok := r.Progress.jobEnd(exit); ok {
		r.elapsedBefore = max(r.elapsedBefore, last)
	}
	r.Pending, r.Asked, end.exit = stop, asked, &exit
	r.readLog()
	r.settleJob(exit)
	r.end(end)
	r.finish()
	if rec, err := journal.ReadRecord(dir); err != nil || rec.State != end.state {
		return fmt.Errorf("write the record of %s: %w", dir, cmp.Or(err, errors.New("it is in state "+string(journal.Running))))
	}
	return nil
}

// markEnded records in run.json and in the state that the run ended without an agent.
func (r *run) markEnded(exit launch.Exit, end *ending) error {
	rec, err := journal.ReadRecord(r.dir.Dir())
	if err != nil {
		return err
	}
	meter, err := cost.RestoreMeter(r.MeterState)
	if err != nil {
		return fmt.Errorf("money spent so far: %w", err)
	}
	last, ok := r.Progress.jobEnd(exit)
	if !ok || exit.Reason == launch.Lost { // it lived at least until the last saved state
		last = max(last, r.Elapsed)
	}
	meter.Settle(last)
	r.Progress.End(last)
	r.Elapsed, r.MeterState, r.Ended = last, meter.State(), true
	rec.Outcome.Seconds, rec.Outcome.CostUSD = journal.Number(last.Seconds()), journal.Number(float64(meter.Total(last))+r.besideUSD(r.Clock.Now()))
	at, code := exit.At.UTC(), int(end.code)
	rec.State, rec.FinishedAt, rec.ExitCode = end.state, &at, &code
	rec.Exit = exitRecord(end.reason, end.detail, &exit)
	rec.Settle()
	return errors.Join(r.dir.WriteRecord(rec), r.dir.SaveState(&r.facts))
}

// SettleGone records the end of a run whose agent and supervisor ended with the Slurm job that contained them, so that
// its record does not remain in state running. It has no effect for any other run, for one whose job may still run, and
// if Slurm does not answer where its answer is needed. It reports whether the run has ended.
func (a Agent) SettleGone(ctx context.Context, dir string) (bool, error) {
	rec, err := journal.ReadRecord(dir)
	if err != nil || rec.State != journal.Running || rec.Batch == nil || journal.HolderOf(dir) != nil {
		return false, nil
	}
	entry, gone := a.batchGone(ctx, dir, rec.Batch)
	if !gone {
		return false, nil
	}
	jd, err := journal.Open(dir)
	if err != nil {
		return false, err
	}
	unlock, err := jd.LockFor("recording its end", 0)
	if err != nil { // an agent holds it after all
		return false, nil
	}
	defer unlock()
	r := newRun(a, Config{})
	r.dir, r.batch = jd, rec.Batch
	if _, err := jd.LoadState(&r.facts); err != nil {
		return false, fmt.Errorf("record the end of %s: %w", jd.ID(), err)
	}
	exit := launch.Exit{Reason: launch.Lost, Code: -1, At: r.Wall, Detail: "no job was recorded"}
	if h := latestJob(r.Launcher, dir, &r.facts); h != nil {
		j, err := r.Launcher.Adopt(ctx, *h)
		if err != nil {
			return false, nil
		}
		select {
		case <-j.Done():
			exit = j.Exit()
			if h.BootID != bootID() && exit.Reason == launch.Lost { // of another machine, not of a restart of this one
				exit.Detail = "last sign of life " + exit.At.Format(time.DateTime)
			}
		default:
			j.Close()
			return false, nil
		}
	}
	if exit.Reason == launch.Exited && exit.Code == 0 && r.Pending == nil {
		return false, nil // it may have finished: a resume decides
	}
	return true, r.markEnded(exit, r.goneWith(rec.Batch, entry, exit))
}

// batchGone reports whether the processes of a run are gone, and Slurm's view of its job if that was needed. On the
// machine where they ran, their absence is seen; for another machine Slurm is asked. A job that Slurm no longer knows
// is gone once the run has not saved its state for a while.
func (a Agent) batchGone(ctx context.Context, dir string, b *resources.BatchJob) (*engine.Entry, bool) {
	h, err := a.Launcher.Find(dir)
	here := err == nil && h.Engine == "" && h.BootID == bootID()
	if here && launch.Clear(dir) != nil { // it removes the cgroups of a dead supervisor
		return nil, false
	}
	var entry *engine.Entry
	if a.Batch != nil {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		entry, err = a.Batch.Lookup(ctx, b.ID)
	}
	switch {
	case here:
		return entry, true
	case a.Batch == nil || err != nil:
		return nil, false
	case entry != nil:
		return entry, entry.State == engine.Ended || entry.Restarts > b.Restarts
	}
	info, err := os.Stat(filepath.Join(dir, "state"))
	return nil, err == nil && time.Since(info.ModTime()) > silentLong
}

// silentLong is the time without a saved state from which a run that saves each second does not run.
const silentLong = 2 * time.Minute

// goneWith returns the ending of a run whose processes ended with the Slurm job.
func (r *run) goneWith(b *resources.BatchJob, entry *engine.Entry, exit launch.Exit) *ending {
	e := &ending{state: journal.Stopped, reason: byAllocation, exit: &exit, code: CodeTryAgain}
	e.detail = b.String() + " ended before the agent could record it"
	requeued := entry != nil && (entry.Restarts > b.Restarts || entry.State == engine.Pending)
	over := requeued || entry != nil && (entry.State == engine.Ended || entry.State == engine.Ending)
	if requeued {
		e.detail = b.String() + " was requeued before the agent could record its end"
	} else if entry != nil && entry.State == engine.Ended {
		e.detail = fmt.Sprintf("%s ended (%s) before the agent could record it", b, entry.Raw)
	}
	switch {
	case r.Pending != nil && r.Pending.Next == nil && r.Pending.Why != byAllocation:
		e = r.stopped(&exit)
	case r.Pending != nil && r.Pending.Next == nil, exit.Reason == launch.Stopped, over:
	default: // nothing shows that the allocation was its end
		e.state, e.reason, e.code = journal.Failed, "lost", CodeTraining
		e.detail = "agent and supervisor were killed"
	}
	if exit.Reason == launch.Lost { // the last part of the detail is the last sign of life
		e.detail = joinDetail(e.detail, strings.TrimSpace(exit.Detail[strings.LastIndex(exit.Detail, ";")+1:]))
	} else {
		e.detail = joinDetail(e.detail, describeExit(exit))
	}
	return e
}

// resumesBatch reports whether a stopped run is the one that an earlier life of the enclosing job, or of this process's
// training, left at the end of its allocation.
func resumesBatch(b *resources.BatchJob, rec *journal.Record) bool {
	return b != nil && b.Restarts > 0 && rec.Batch != nil && rec.Batch.ID == b.ID && rec.Batch.Restarts < b.Restarts && rec.Exit != nil &&
		(rec.State == journal.Stopped && rec.Exit.Reason == byAllocation || rec.State == journal.Failed && rec.Exit.Reason == "lost")
}

// waitGone waits until the holder has ended or, if it also carries other runs, has released this one; false if the limit
// passes or ctx ends first.
func waitGone(ctx context.Context, h *journal.Holder, dir string, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for h.Alive() && journal.HolderOf(dir) != nil {
		select {
		case <-deadline.C:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
