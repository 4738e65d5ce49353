package run

import (
	"testing"
	"time"
)

// TestTrialTime: a trial uses at most one percent of the launch, and slow steps are tried as soon as the launch, as predicted, is
// long enough.
func TestTrialTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, launch, want time.Duration // want 0: no trial
	}{
		{time.Millisecond, 3 * time.Second, 30 * time.Millisecond},
		{5 * time.Millisecond, 3 * time.Second, 0},
		{5 * time.Millisecond, time.Hour, 2 * time.Second},
		{100 * time.Millisecond, 90 * time.Second, 0},
		{100 * time.Millisecond, 100 * time.Second, time.Second},
		{500 * time.Millisecond, 290 * time.Second, 0},
		{500 * time.Millisecond, 300 * time.Second, 3 * time.Second},
		{500 * time.Millisecond, time.Hour, 3 * time.Second},
		{10 * time.Second, time.Hour, 0},
		{10 * time.Second, 2 * time.Hour, time.Minute},
	} {
		limit, ok := trialTime(c.step, c.launch)
		if !ok {
			limit = 0
		}
		if limit != c.want || ok && limit > c.launch/100 {
			t.Errorf("steps of %v in %v: %v, want %v", c.step, c.launch, limit, c.want)
		}
	}
}
