package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Clear prepares a run directory for its removal: it returns ErrBusy while a process of its last job lives, or may
// live out of sight (in another container or on another machine, for which it may wait as Local.Adopt does), and removes
// the cgroups left by a dead keeper. A directory in which no job was started needs no preparation.
func Clear(runDir string) error {
	for _, dir := range JobDirs(runDir) {
		if err := clearJob(dir); err != nil {
			return err
		}
	}
	return nil
}

// clearJob is Clear for one directory of JobDirs.
func clearJob(runDir string) error {
	h, err := Find(runDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if pid := living(h); pid > 0 {
			return fmt.Errorf("process %d of its job runs: %w", pid, ErrBusy)
		}
	}
	h.RunDir = runDir
	if keeperElsewhere(context.Background(), h) {
		return fmt.Errorf("its supervisor is not visible from here: %w", ErrBusy)
	}
	return removeGroups(runDir)
}

// removeGroups removes the cgroups of the last job of a run directory if they remain. The kernel refuses those in use.
func removeGroups(runDir string) error {
	e, err := openEnforcer(runDir)
	if e == nil || err != nil {
		return nil
	}
	return e.Remove()
}

// Living reports whether a process of a job of a run directory, its keeper or its standby lives.
func Living(runDir string) bool {
	return slices.ContainsFunc(JobDirs(runDir), func(dir string) bool {
		h, err := Find(dir)
		return err == nil && living(h) > 0
	})
}

// living returns the pid of a living process of a job, its keeper or its standby; 0 if none lives.
func living(h Handle) int {
	if !h.here() {
		return 0
	}
	for _, p := range []process{{h.PID, h.Start}, {h.KeeperPID, h.KeeperStart}, {h.StandbyPID, h.StandbyStart}} {
		if p.alive() {
			return p.PID
		}
	}
	if left := leftoverPIDs(h); len(left) > 0 {
		return left[0]
	}
	return 0
}
