package run

import (
	"testing"
	"time"

	"trainopt/optimizer/launch"
)

// TestLeftForeground: a training whose first process ends before its work begins runs in the background, where it is
// ended; a helper that outlives a training does not count.
func TestLeftForeground(t *testing.T) {
	const began = 10 * time.Second // of the run, when the job was launched
	for name, c := range map[string]struct {
		outlived                 string
		mainRan, ran, rows, last time.Duration // after the launch: the first row (0: no row) and the last one
		code                     int
		want                     bool
	}{
		"nohup and &":            {"7 (python3, state R)", 10 * time.Millisecond, 3 * time.Second, 0, 0, 0, true},
		"daemon":                 {"7 (python3, state R)", 4 * time.Second, 7 * time.Second, 4100 * time.Millisecond, 6 * time.Second, 0, true},
		"read late":              {"7 (sleep, state S)", 4 * time.Second, 7 * time.Second, 4500 * time.Millisecond, 0, 0, false},
		"helper":                 {"7 (tensorboard, state S)", time.Hour, time.Hour + 3*time.Second, time.Minute, time.Hour + 2*time.Second, 0, false},
		"helper of a silent one": {"7 (tensorboard, state S)", time.Hour, time.Hour + 3*time.Second, 0, 0, 0, false},
		"alone":                  {"", 0, time.Second, 0, 0, 0, false},
		"failed":                 {"7 (python3, state R)", 10 * time.Millisecond, 3 * time.Second, 0, 0, 1, false},
	} {
		r := &run{}
		r.Progress.Segments = []*Segment{{LaunchedAt: began}}
		if c.rows > 0 {
			r.Progress.Segments[0].FirstRowAt, r.Progress.Segments[0].LastRowAt = began+c.rows, began+max(c.rows, c.last)
		}
		exit := launch.Exit{Reason: launch.Exited, Code: c.code, Outlived: c.outlived, MainRan: c.mainRan, Ran: c.ran}
		if got := r.leftForeground(exit, began+c.ran); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
