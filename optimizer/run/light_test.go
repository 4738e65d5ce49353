package run

import (
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

func TestMakeLight(t *testing.T) {
	clock := &stoppedClock{}
	lightened, undone := 0, 0
	r := newRun(Agent{Clock: clock, Lighten: func() func() { lightened++; return func() { undone++ } }})
	r.job, r.phase = alive{}, probing
	begin := func() { r.progress.Segments = append(r.progress.Segments, &Segment{LaunchedAt: r.elapsed()}) }
	look := func(what string, light, heavy int) {
		t.Helper()
		r.makeLight()
		if lightened != light || undone != heavy {
			t.Errorf("%s: made light %d times and heavy %d, want %d and %d", what, lightened, undone, light, heavy)
		}
	}
	begin()
	clock.now += time.Minute
	look("while it measures", 0, 0)
	r.phase = working
	begin()
	look("just started", 0, 0)
	clock.now += settled
	look("settled", 1, 0)
	clock.now += time.Hour
	look("once is enough", 1, 0)
	r.makeHeavy()
	r.renewing = &renewing{}
	look("critics are trained", 1, 1)
	r.renewing = nil
	look("they are trained", 2, 1)
	begin()
	r.leaving = &leaving{}
	clock.now += settled
	look("on its way out", 2, 1)
	r.leaving = nil
	look("at another place", 3, 1)
	r.makeHeavy()
	r.makeHeavy()
	if undone != 2 {
		t.Errorf("made heavy %d times, want 2", undone)
	}
}

// For any duration of single computations, their total stays below both shares.
func TestThinkingIsBounded(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 8 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		var now, thought time.Duration
		for now < time.Hour {
			now += d
			thought += d
			now += restAfter(d, thought, now)
			if most := max(d, time.Duration(thinkingShare*float64(now))); thought > most+time.Microsecond {
				t.Fatalf("pieces of %v: %v after %v", d, thought, now)
			}
		}
		most := thinkingFree + d + time.Duration(thinkingLong*float64(now))
		if thought > most || thought < most/2 {
			t.Errorf("pieces of %v: %v of thinking in an hour, want close to %v", d, thought, most)
		}
	}
	if got, want := restAfter(8*time.Millisecond, 8*time.Millisecond, 10*time.Second), 1600*time.Millisecond; got != want {
		t.Errorf("a rest of %v after the first fit, want %v", got, want)
	}
}
