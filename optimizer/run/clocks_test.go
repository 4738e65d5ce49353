package run

import (
	"testing"
	"time"
)

// aheadClock is the clock of a machine that is ahead of that of its file system.
type aheadClock struct {
	SystemClock
	by time.Duration
}

func (c aheadClock) Now() time.Time { return time.Now().Add(c.by) }

// TestFileClock: a difference from the clock of the file system is measured, the delay of a write is none.
func TestFileClock(t *testing.T) {
	dir := t.TempDir()
	for _, by := range []time.Duration{0, time.Second, 2 * time.Minute, -time.Hour} {
		want := -by
		if by.Abs() < time.Minute {
			want = 0
		}
		if got := fileClock(dir, aheadClock{by: by}); (got - want).Abs() > 30*time.Second {
			t.Errorf("%v: file clock %v, want %v", by, got, want)
		}
	}
	if got := fileClock(dir+"/absent", SystemClock{}); got != 0 {
		t.Errorf("without the directory: %v", got)
	}
}
