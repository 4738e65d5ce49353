package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trainopt/optimizer/launch"
)

// TestLatestJob: between two jobs, the keeper's record of the previous one is not attributed to the one being
// started.
func TestLatestJob(t *testing.T) {
	dir := t.TempDir()
	started := func(at time.Duration) {
		h := launch.Handle{RunDir: dir, KeeperPID: 1, KeeperStart: uint64(at / clockTick), PID: 1, Start: uint64(at / clockTick)}
		data, err := json.Marshal(map[string]any{"schema": 1, "handle": h, "at": time.Time{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "started.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := &savedState{Monotonic: 100 * time.Second}
	if h := latestJob(dir, state); h != nil {
		t.Errorf("a job %+v in an empty run directory", h)
	}
	started(90 * time.Second)
	if h := latestJob(dir, state); h != nil {
		t.Errorf("the job before, %+v, is taken for the one that was being started", h)
	}
	started(101 * time.Second)
	if h := latestJob(dir, state); h == nil {
		t.Error("the job that was started after the last state was saved is not found")
	}
}
