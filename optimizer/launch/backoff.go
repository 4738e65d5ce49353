package launch

import (
	"fmt"
	"math"
	"time"

	"trainopt/internal/wording"
)

// Backoff decides when a failed job is restarted, and when no more. It is a plain value: it can be stored, and the
// same failures give the same delays. The zero value waits 1 s after the first failure, doubles the delay after each
// further one up to 1 min, and stops after 6 failures in a row, each without progress or within 10 s of the start.
type Backoff struct {
	First    time.Duration `json:"first_ns"`     // delay after the first failure; 0 means 1 s
	Max      time.Duration `json:"max_ns"`       // longest delay before jitter; 0 means 1 min
	Factor   float64       `json:"factor"`       // from one delay to the next; below 1 means 2
	Jitter   float64       `json:"jitter"`       // relative variation of the delay up and down, 0…1; 0 means 0.2, negative none
	MinLife  time.Duration `json:"min_life_ns"`  // a job that ran this long resets the count of failures; 0 means 10 s
	Failures int           `json:"max_failures"` // failures in a row, each before MinLife, after which the job is not restarted; 0 means 6
	Seed     uint64        `json:"seed"`         // of the jitter

	// Row counts the failures in a row so far that were shorter than MinLife.
	Row int `json:"row"`
}

// Retry is the decision after a failure.
type Retry struct {
	After  time.Duration // the delay until the restart
	GiveUp bool          // no restart
	Reason string        // for the user, in both cases
}

// Next takes one failure into account, e.Ran being the run time and progress whether the job got further than before,
// and returns the Backoff for the next failure. Call it for failures only, not for an end that was requested.
func (b Backoff) Next(e Exit, progress bool) (Backoff, Retry) {
	d := b.withDefaults()
	if e.Ran >= d.MinLife && progress {
		b.Row = 0
		delay := d.jittered(d.First, 0)
		return b, Retry{After: delay, Reason: fmt.Sprintf("starting again in %s, after %s", rounded(delay), rounded(e.Ran))}
	}
	b.Row++
	if b.Row >= d.Failures {
		return b, Retry{GiveUp: true, Reason: fmt.Sprintf("gave up after %d failures in a row, each without progress or within %s of its start", b.Row, rounded(d.MinLife))}
	}
	without := ""
	if !progress {
		without = " without progress"
	}
	delay := d.jittered(d.delay(b.Row), uint64(b.Row))
	return b, Retry{After: delay, Reason: fmt.Sprintf("starting again in %s, after %s%s (failure %d of %d)", rounded(delay), rounded(e.Ran), without, b.Row, d.Failures)}
}

// withDefaults returns b with zero and out-of-range fields replaced. The receiver, which is stored, keeps them.
func (b Backoff) withDefaults() Backoff {
	set := func(d *time.Duration, usual time.Duration) {
		if *d <= 0 {
			*d = usual
		}
	}
	set(&b.First, time.Second)
	set(&b.Max, time.Minute)
	set(&b.MinLife, 10*time.Second)
	b.Max = max(b.Max, b.First)
	if !(b.Factor >= 1) {
		b.Factor = 2
	}
	switch {
	case b.Jitter == 0:
		b.Jitter = 0.2
	case !(b.Jitter > 0):
		b.Jitter = 0
	}
	b.Jitter = min(b.Jitter, 1)
	if b.Failures <= 0 {
		b.Failures = 6
	}
	return b
}

// delay returns the delay before jitter after the n-th failure in a row, n from 1.
func (b Backoff) delay(n int) time.Duration {
	d := float64(b.First) * math.Pow(b.Factor, float64(n-1))
	return time.Duration(min(d, float64(b.Max)))
}

// jittered varies d by up to ±Jitter, deterministically in seed and n.
func (b Backoff) jittered(d time.Duration, n uint64) time.Duration {
	// SplitMix64 (Steele, Lea, Flood 2014): one well-mixed number for each (seed, n).
	x := b.Seed + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	unit := float64(x>>11)/(1<<53)*2 - 1 // −1…1
	return time.Duration(float64(d) * (1 + b.Jitter*unit))
}

// rounded formats a duration, rounded to 1 s from 10 s on, to 0.1 s from 1 s on, otherwise to 1 ms.
func rounded(d time.Duration) string {
	unit := time.Millisecond
	switch {
	case d >= 10*time.Second:
		unit = time.Second
	case d >= time.Second:
		unit = 100 * time.Millisecond
	}
	return wording.Duration(d.Round(unit).Seconds())
}
