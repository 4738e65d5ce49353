package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
)

// LeftBehind returns the directory of an orphaned run of the same training (script, arguments, working directory):
// its state is running, and no agent holds it. Empty if no such run exists.
func LeftBehind(cfg Config) string {
	argv, ins, err := inspect.Resolve(cfg.Train, cfg.Args, inspect.ResolveOptions{Python: cfg.Python, Dir: cfg.Dir})
	if err != nil {
		return ""
	}
	argv = launch.Redact(argv)
	entries, err := journal.ListRunning(cfg.StateDir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if e.Agent == nil && e.Record.Script.SHA256 == ins.SHA256 && slices.Equal(e.Record.Command, argv) && e.Record.Dir == cfg.Dir &&
			e.Record.Handed == (journal.Handed{Epochs: cfg.Epochs, Dataset: launch.RedactText(cfg.Dataset)}) {
			return e.Dir
		}
	}
	return ""
}

// StopRun stops a run from another process: it signals the run's agent or, if that is dead, adopts the job and stops
// it. The returned text describes what was done.
func StopRun(ctx context.Context, l launch.Launcher, dir string, grace time.Duration) (string, error) {
	id := filepath.Base(dir)
	if h := journal.HolderOf(dir); h != nil && h.Alive() {
		if err := syscall.Kill(h.PID, syscall.SIGTERM); err != nil {
			return "", fmt.Errorf("stop %s: signal its agent (pid %d): %w", id, h.PID, err)
		}
		if !waitGone(ctx, h, grace+20*time.Second) {
			return "", fmt.Errorf("stop %s: its agent (pid %d) still runs after %s; `kill -9 %d`, then stop again", id, h.PID, grace+20*time.Second, h.PID)
		}
		return id + ": stopped by its agent", nil
	}
	run, err := journal.Open(dir)
	if err != nil {
		return "", err
	}
	unlock, err := run.Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	var s savedState
	if _, err := run.LoadState(&s); err != nil {
		return "", fmt.Errorf("stop %s: %w", id, err)
	}
	if s.Handle = latestJob(dir, &s); s.Handle == nil || s.Ended {
		return id + ": nothing runs", nil
	}
	j, err := l.Adopt(ctx, *s.Handle)
	if err != nil {
		return "", fmt.Errorf("stop %s: %w", id, err)
	}
	exit := j.Exit()
	select {
	case <-j.Done():
	default:
		if exit, err = stopAdopted(ctx, j, s.Resumable, grace); err != nil {
			return "", fmt.Errorf("stop %s: %w", id, err)
		}
	}
	if err := markStopped(run, s, exit); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: stopped (%s)", id, describeExit(exit)), nil
}

// stopAdopted asks a resumable job for a checkpoint and stops the job if it has not exited within the grace.
func stopAdopted(ctx context.Context, j launch.Job, resumable bool, grace time.Duration) (launch.Exit, error) {
	if resumable && j.Checkpoint() == nil {
		select {
		case <-j.Done():
			return j.Exit(), nil
		case <-time.After(grace):
		}
	}
	return j.Stop(ctx, grace)
}

// markStopped records in run.json and in the state that the run was stopped without an agent.
func markStopped(run *journal.Run, s savedState, exit launch.Exit) error {
	rec, err := journal.ReadRecord(run.Dir())
	if err != nil {
		return err
	}
	meter, err := cost.RestoreMeter(s.Meter)
	if err != nil {
		return fmt.Errorf("money spent so far: %w", err)
	}
	end, charged, ok := s.Progress.jobEnd(exit.Ran)
	if !ok || exit.Reason == launch.Lost { // it lived at least until the last saved state
		end = max(end, s.Elapsed)
		charged = end
	}
	meter.Settle(charged)
	s.Progress.End(end)
	s.Elapsed, s.Meter, s.Ended = end, meter.State(), true
	rec.Outcome.Seconds, rec.Outcome.CostUSD = journal.Number(end.Seconds()), journal.Number(meter.Total(end))
	at := exit.At.UTC()
	code := int(CodeTerminated)
	rec.State, rec.FinishedAt, rec.ExitCode = journal.Stopped, &at, &code
	rec.Exit = &journal.Exit{Reason: "user", Detail: "stopped while no agent ran; " + describeExit(exit)}
	if exit.Signal != "" {
		rec.Exit.Signal = &exit.Signal
	} else if exit.Code >= 0 {
		rec.Exit.Code = &exit.Code
	}
	rec.Settle()
	return errors.Join(run.WriteRecord(rec), run.SaveState(s))
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
