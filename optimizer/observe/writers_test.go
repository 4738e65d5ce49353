package observe

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWritesCheckpoint: a file that is open for writing counts by its name, or by one from which the script continues.
func TestWritesCheckpoint(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	for file, c := range map[string]struct {
		patterns []string
		want     bool
	}{"checkpoint.bin": {nil, true}, "model.npz": {[]string{"model*.npz"}, true}, "other.npz": {[]string{"model*.npz"}, false}, "data.npz": {[]string{"*.npz"}, false}} {
		f, err := os.Create(filepath.Join(t.TempDir(), file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.Name(), soon, soon); err != nil {
			t.Fatal(err)
		}
		if got := WritesCheckpoint([]int{os.Getpid()}, c.patterns); got != c.want {
			t.Errorf("%s with %q: %t", file, c.patterns, got)
		}
		f.Close()
		if WritesCheckpoint([]int{os.Getpid()}, c.patterns) {
			t.Errorf("%s counts when it is closed", file)
		}
	}
}
