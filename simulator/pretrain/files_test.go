package pretrain

import (
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
	// The agent cannot be written: only the checkpoint is newer, which is consistent.
	if err := os.Mkdir(filepath.Join(dir, ".a.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".a.tmp", "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if resumed.Save([]byte("newer"), []byte("newer+")) == nil {
		t.Error("no error")
	}
	has("new|newer+")
	if err := os.RemoveAll(filepath.Join(dir, ".a.tmp")); err != nil {
		t.Fatal(err)
	}
	save(resumed, "done", "")
	has("done|")
}
