package monitor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestActivity(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, text := range map[string]string{"a100:0": "93\n", "a100:1": "0", "a100:2": "", "a100:3": "many", "a100:4": "101", "a100:5": "70"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "a100:5" { // its writer has ended
			if err := os.Chtimes(path, now, now.Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := NoSample(now)
	if err := (&Activity{Dir: dir}).Collect(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range s.GPUs {
		got = append(got, fmt.Sprint(g.UUID, " ", g.UtilPercent))
		if !math.IsNaN(g.MemoryGiB) || !math.IsNaN(g.PowerW) {
			t.Errorf("%s: numbers that no file contains: %+v", g.UUID, g)
		}
	}
	if want := []string{"a100:0 93", "a100:1 0", "a100:2 NaN", "a100:3 NaN", "a100:4 NaN", "a100:5 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := (&Activity{Dir: filepath.Join(dir, "missing")}).Collect(context.Background(), &s); err == nil {
		t.Error("a missing directory is not reported")
	}
}
