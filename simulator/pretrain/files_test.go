package pretrain

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFiles checks that agent and checkpoint are consistent after a crash at any point.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	has := func(want string) {
		t.Helper()
		agent, _ := os.ReadFile(path)
		checkpoint, _ := os.ReadFile(path + ".checkpoint")
		if got := string(agent) + "|" + string(checkpoint); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	save := func(f *Files, agent, present string) {
		t.Helper()
		var p []byte
		if present != "" {
			p = []byte(present)
		}
		if err := f.Save([]byte(agent), p); err != nil {
			t.Fatal(err)
		}
	}
	old := &Files{Path: path}
	save(old, "old", "old+")
	fresh := &Files{Path: path} // the user overwrites it
	save(fresh, "new", "new+")
	has("new|new+")
	resumed := &Files{Path: path, Own: true}
	// The agent cannot be replaced, as a directory is in its place: only the checkpoint is newer, which is consistent.
	if err := errors.Join(os.Rename(path, path+".kept"), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	if resumed.Save([]byte("newer"), []byte("newer+")) == nil {
		t.Error("no error")
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".kept", path)); err != nil {
		t.Fatal(err)
	}
	has("new|newer+")
	save(resumed, "done", "")
	has("done|")
}
