package launch

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A job that dies within 10 ms, six times, with real processes.
func TestSixImmediateFailures(t *testing.T) {
	t.Parallel()
	b := Backoff{First: 10 * time.Millisecond, Max: 40 * time.Millisecond, Seed: 1}
	c := testCommand(t, "exit", "3")
	var delays []time.Duration
	for n := 1; ; n++ {
		e := waitEnd(t, start(t, testLocal(), c))
		var retry Retry
		b, retry = b.Next(e, true)
		if retry.GiveUp {
			if n != 6 || !strings.Contains(retry.Reason, "6 failures") {
				t.Errorf("gave up after failure %d: %q; want the sixth", n, retry.Reason)
			}
			break
		}
		if n >= 6 {
			t.Fatalf("failure %d: %+v; want to give up", n, retry)
		}
		delays = append(delays, retry.After)
		time.Sleep(retry.After)
	}
	if len(delays) != 5 || delays[1] <= delays[0] || delays[2] <= delays[1] {
		t.Errorf("delays = %v, want five that grow at first", delays)
	}
}

func TestBackoffForgivesAfterALongLife(t *testing.T) {
	var b Backoff
	for range 100 {
		var r Retry
		if b, r = b.Next(Exit{Reason: Killed, Ran: time.Hour}, true); r.GiveUp || b.Row != 0 {
			t.Fatalf("a job that lives an hour each time: %+v, %+v", b, r)
		}
	}
	for n := 1; n < 6; n++ {
		b, _ = b.Next(Exit{Ran: time.Millisecond}, true)
	}
	if b.Row != 5 {
		t.Fatalf("row = %d after 5 short lives", b.Row)
	}
	if b, _ = b.Next(Exit{Ran: time.Minute}, true); b.Row != 0 {
		t.Errorf("row = %d after a long life, want 0", b.Row)
	}
}

func TestBackoffBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			First:    time.Duration(rapid.Int64Range(-1, 5e9).Draw(t, "first")),
			Max:      time.Duration(rapid.Int64Range(-1, 100e9).Draw(t, "max")),
			Factor:   rapid.Float64Range(-1, 1e6).Draw(t, "factor"),
			Jitter:   rapid.Float64Range(-0.5, 2).Draw(t, "jitter"),
			Failures: rapid.IntRange(-1, 50).Draw(t, "failures"),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		d := b.withDefaults()
		for n := 1; ; n++ {
			again, r2 := b.Next(Exit{Ran: time.Millisecond}, true)
			var r Retry
			if b, r = b.Next(Exit{Ran: time.Millisecond}, true); b != again || r != r2 {
				t.Fatalf("the same failure gave %+v and %+v", r, r2)
			}
			if r.GiveUp {
				if n != d.Failures {
					t.Fatalf("gave up after %d, want %d", n, d.Failures)
				}
				return
			}
			if n >= d.Failures {
				t.Fatalf("goes on after %d of %d", n, d.Failures)
			}
			if low, high := float64(d.First)*(1-d.Jitter)-1, float64(d.Max)*(1+d.Jitter)+1; float64(r.After) < low || float64(r.After) > high {
				t.Fatalf("delay %d = %s, want %g…%g ns", n, r.After, low, high)
			}
		}
	})
}

func TestBackoffJitterVaries(t *testing.T) {
	seen := map[time.Duration]bool{}
	for seed := range uint64(20) {
		_, r := Backoff{Seed: seed}.Next(Exit{}, true)
		seen[r.After] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 seeds give only %d delays", len(seen))
	}
	if _, r := (Backoff{Jitter: -1}).Next(Exit{}, true); r.After != time.Second {
		t.Errorf("without jitter the first delay is %s, want 1s", r.After)
	}
}
