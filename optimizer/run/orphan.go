package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// FindOrphanedRun returns the directory of an orphaned run of the same training (script, arguments, working directory):
// its state is running, and no agent holds it; or it is the run that an earlier life of the enclosing Slurm job left.
// Empty if no such run exists.
func (a Agent) FindOrphanedRun(ctx context.Context, cfg Config) string {
	argv, ins, err := inspect.Resolve(cfg.Train, cfg.Args, inspect.ResolveOptions{Python: cfg.Python, Dir: cfg.Dir})
	if err != nil {
		return ""
	}
	argv = launch.Redact(argv)
	list := journal.ListRunning
	batch := resources.EnclosingJob(a.Environ)
	if batch != nil && batch.Restarts > 0 {
		list = journal.List
	}
	entries, err := list(cfg.StateDir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if e.Record == nil || e.Record.State != journal.Running && !resumesBatch(batch, e.Record) {
			continue
		}
		if b := e.Record.Batch; b != nil && e.Record.State == journal.Running && (batch == nil || b.ID != batch.ID) {
			if _, gone := a.batchGone(ctx, e.Dir, b); !gone && !launch.Living(e.Dir) { // it may run on another node
				continue
			}
		}
		if e.Agent == nil && e.Record.Script.SHA256 == ins.SHA256 && slices.Equal(e.Record.Command, argv) && e.Record.Dir == cfg.Dir &&
			e.Record.Handed == (journal.Handed{Epochs: cfg.Epochs, Dataset: launch.RedactText(cfg.Dataset)}) {
			return e.Dir
		}
	}
	return ""
}

// StopRun stops a run from another process: it signals the run's agent or, if that is dead, adopts the job and stops
// it. The returned text describes what was done.
func (a Agent) StopRun(ctx context.Context, dir string, grace time.Duration) (string, error) {
	id := filepath.Base(dir)
	if h := journal.HolderOf(dir); h != nil && h.Alive() {
		mark := filepath.Join(dir, stopMark)
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return "", fmt.Errorf("stop %s: %w", id, err)
		}
		defer os.Remove(mark)
		if err := syscall.Kill(h.PID, syscall.SIGTERM); err != nil {
			return "", fmt.Errorf("stop %s: signal its agent (pid %d): %w", id, h.PID, err)
		}
		if !waitGone(ctx, h, grace+20*time.Second) {
			return "", fmt.Errorf("stop %s: its agent (pid %d) still runs after %s; `kill -9 %d`, then stop again", id, h.PID, grace+20*time.Second, h.PID)
		}
		return id + ": stopped by its agent", nil
	}
	jd, err := journal.Open(dir)
	if err != nil {
		return "", err
	}
	unlock, err := jd.Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	r := newRun(a, Config{})
	r.dir = jd
	exit, err := r.stopOrphan(ctx, grace)
	if err != nil {
		return "", fmt.Errorf("stop %s: %w", id, err)
	}
	if exit == nil {
		return id + ": nothing runs", nil
	}
	if err := r.markEnded(*exit, &ending{state: journal.Stopped, reason: "user", detail: "stopped while no agent ran; " + describeExit(*exit), code: CodeTerminated}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: stopped (%s)", id, describeExit(*exit)), nil
}

// stopOrphan loads the state of a run whose agent is dead, adopts its job and stops it. The exit is nil if no job runs.
func (r *run) stopOrphan(ctx context.Context, grace time.Duration) (*launch.Exit, error) {
	if _, err := r.dir.LoadState(&r.facts); err != nil {
		return nil, err
	}
	if err := r.openSite(ctx); err != nil {
		return nil, err
	}
	if r.Handle = latestJob(r.Launcher, r.dir.Dir(), &r.facts); r.Handle == nil || r.Ended {
		return nil, nil
	}
	j, err := r.Launcher.Adopt(ctx, *r.Handle)
	if err != nil {
		return nil, err
	}
	r.setJob(j)
	select {
	case <-j.Done():
		exit := j.Exit()
		return &exit, nil
	default:
	}
	exit, err := r.stopAdopted(ctx, grace)
	if err != nil {
		return nil, err
	}
	return &exit, nil
}

// stopAdopted asks the job to exit in the way that loses least work, as its agent would have done, and stops it if it
// has not exited within the grace.
func (r *run) stopAdopted(ctx context.Context, grace time.Duration) (launch.Exit, error) {
	path := ""
	if rec, err := journal.ReadRecord(r.dir.Dir()); err == nil {
		path = rec.Script.Path
	}
	r.inspect(path, &r.facts)
	r.followObserver()
	if method, _ := r.gentleStop()(); method != noStopMethod {
		select {
		case <-r.job.Done():
			r.observer.pollAll()
			if a, ok := r.observer.takeAnswer(&r.observer.saving); ok && a.OK && a.Path != "" {
				r.Asked = absolute(r.Config.Dir, a.Path)
			}
			return r.job.Exit(), nil
		case <-time.After(grace):
		}
	}
	return r.job.Stop(ctx, grace)
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
	last, charged, ok := r.Progress.jobEnd(exit)
	if !ok || exit.Reason == launch.Lost { // it lived at least until the last saved state
		last = max(last, r.Elapsed)
		charged = last
	}
	meter.Settle(charged)
	r.Progress.End(last)
	r.Elapsed, r.MeterState, r.Ended = last, meter.State(), true
	rec.Outcome.Seconds, rec.Outcome.CostUSD = journal.Number(last.Seconds()), journal.Number(meter.Total(last))
	at, code := exit.At.UTC(), int(end.code)
	rec.State, rec.FinishedAt, rec.ExitCode = end.state, &at, &code
	rec.Exit = exitRecord(end.reason, end.detail, &exit)
	rec.Settle()
	return errors.Join(r.dir.WriteRecord(rec), r.dir.SaveState(&r.facts))
}

// waitGone waits until the holder has ended; false if the limit passes or ctx ends first.
func waitGone(ctx context.Context, h *journal.Holder, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for h.Alive() {
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
