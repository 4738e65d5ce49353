package launch

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"
)

// TestFindWhileStarting: an agent whose predecessor died during the start of a job finds that job.
func TestFindWhileStarting(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockRunDir(dir) // as the keeper holds it
	if err != nil {
		t.Fatal(err)
	}
	want := Handle{RunDir: dir, KeeperPID: 1, PID: 2}
	time.AfterFunc(100*time.Millisecond, func() {
		if err := writeJSON(filepath.Join(dir, startedFile), started{Schema: fileSchema, Handle: want}); err != nil {
			t.Error(err)
		}
		lock.Close()
	})
	if h, err := (Local{}).Find(dir); err != nil || h != want {
		t.Errorf("found %+v, %v; want %+v", h, err, want)
	}
	if h, err := (Local{}).Find(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %+v, %v in an empty directory", h, err)
	}
}
