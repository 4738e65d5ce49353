package run

import (
	"math"
	"testing"
	"time"

	"trainopt/optimizer/launch"
)

// alive is a job that only exists.
type alive struct{ launch.Job }

// stoppedClock advances only when it is set.
type stoppedClock struct{ now time.Duration }

func (c *stoppedClock) Now() time.Time           { return time.Unix(1_700_000_000, 0).Add(c.now) }
func (c *stoppedClock) Monotonic() time.Duration { return c.now }

func TestShrinkFootprint(t *testing.T) {
	clock := &stoppedClock{}
	lightened, undone := 0, 0
	r := newRun(Agent{Clock: clock, Lighten: func() func() { lightened++; return func() { undone++ } }}, Config{})
	r.job, r.Phase = alive{}, probing
	begin := func() { r.Progress.Segments = append(r.Progress.Segments, &Segment{LaunchedAt: r.elapsed()}) }
	look := func(what string, light, heavy int) {
		t.Helper()
		r.shrinkFootprint()
		if lightened != light || undone != heavy {
			t.Errorf("%s: made light %d times and heavy %d, want %d and %d", what, lightened, undone, light, heavy)
		}
	}
	begin()
	clock.now += time.Minute
	look("while it measures", 0, 0)
	r.Phase = working
	begin()
	look("just started", 0, 0)
	clock.now += lightenAfter
	look("settled", 1, 0)
	clock.now += time.Hour
	look("once is enough", 1, 0)
	r.restoreFootprint()
	r.critics.renewal = &criticRenewal{}
	look("critics are trained", 1, 1)
	r.critics.renewal = nil
	look("they are trained", 2, 1)
	begin()
	r.Pending = &pendingStop{}
	clock.now += lightenAfter
	look("on its way out", 2, 1)
	r.Pending = nil
	look("at another place", 3, 1)
	r.restoreFootprint()
	r.restoreFootprint()
	if undone != 2 {
		t.Errorf("made heavy %d times, want 2", undone)
	}
}

// For any duration of single computations, their total stays below both shares.
func TestPlanningIsBounded(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 8 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		var now, thought time.Duration
		for now < time.Hour {
			now += d
			thought += d
			now += planningCooldown(d, thought, now)
			if most := max(d, time.Duration(planningShare*float64(now))); thought > most+time.Microsecond {
				t.Fatalf("pieces of %v: %v after %v", d, thought, now)
			}
		}
		most := freePlanningTime + d + time.Duration(longRunPlanningShare*float64(now))
		if thought > most || thought < most/2 {
			t.Errorf("pieces of %v: %v of thinking in an hour, want close to %v", d, thought, most)
		}
	}
	if got, want := planningCooldown(8*time.Millisecond, 8*time.Millisecond, 10*time.Second), 1600*time.Millisecond; got != want {
		t.Errorf("a rest of %v after the first fit, want %v", got, want)
	}
}

// TestRefits counts the fits for projections while a training writes five rows a second: few, though not none after a
// while.
func TestRefits(t *testing.T) {
	clock := &stoppedClock{}
	r := newRun(Agent{Clock: clock}, Config{})
	fits := 0
	for clock.now = 0; clock.now < 10*time.Minute; clock.now += time.Second {
		r.Progress.Rows += 5
		if r.refitDue() {
			fits, r.modelRows, r.modelAt = fits+1, r.Progress.Rows, clock.now
		}
	}
	if fits < 40 || fits > 60 {
		t.Errorf("%d fits in ten minutes, want one in 15 s and some more at the beginning", fits)
	}
	if r.refitDue() {
		t.Error("a fit is due without a new row")
	}
}

// TestWatchdogSleeps checks that a limit that moves by the time between two readings of the clock does not wake the watchdog.
func TestWatchdogSleeps(t *testing.T) {
	clock := &stoppedClock{}
	w := newWatchdog(clock, time.Second)
	woken := func(left time.Duration) bool {
		w.guard(alive{}, nil, left, time.Second)
		select {
		case <-w.poke:
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		left  time.Duration
		wakes bool
	}{{time.Hour, true}, {time.Hour + time.Microsecond, false}, {time.Hour - time.Millisecond, false}, {time.Minute, true}, {math.MaxInt64, true}, {math.MaxInt64, false}} {
		if got := woken(c.left); got != c.wakes {
			t.Errorf("%v left: woken %v, want %v", c.left, got, c.wakes)
		}
	}
}
