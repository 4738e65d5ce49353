package run

import "time"

// settled is how long the job must have been at one place before the agent makes itself small.
const settled = 3 * time.Second

// makeLight tells the program, once after each change of the job's place, that only supervision is left.
func (r *run) makeLight() {
	seg := r.progress.Current()
	if r.Lighten == nil || r.lightAt == seg || r.phase != working || r.renewing != nil || r.leaving != nil || r.elapsed()-seg.LaunchedAt < settled {
		return
	}
	r.heavy, r.lightAt = r.Lighten(), seg
}

// makeHeavy takes that back, before work beside the loop.
func (r *run) makeHeavy() {
	if r.heavy != nil {
		r.heavy()
		r.heavy, r.lightAt = nil, nil
	}
}

// Fitting and planning while the job runs may take thinkingShare of one CPU: after a piece of work of d, the next one waits
// for d divided by it. In a long run there is less and less to learn, and all of them together may take thinkingLong of
// the time it has been supervised, beyond thinkingFree: from the second minute and a half on that is the closer bound.
const (
	thinkingShare = 0.005
	thinkingLong  = 0.002
	thinkingFree  = 300 * time.Millisecond
)

// rested reports whether the agent may think again, so that short units of work do not keep it busy.
func (r *run) rested() bool { return r.Clock.Monotonic() >= r.thinkAgain }

// think runs a piece of work and takes note of what it cost.
func (r *run) think(work func()) {
	from := r.Clock.Monotonic()
	work()
	now := r.Clock.Monotonic()
	r.thought += now - from
	r.thinkAgain = now + restAfter(now-from, r.thought, now-r.started)
}

// restAfter is how long not to think after a piece of work of d, when that makes thought in all in a run that has been
// supervised for so long.
func restAfter(d, thought, supervised time.Duration) time.Duration {
	rest := time.Duration(float64(d) / thinkingShare)
	earned := time.Duration(float64(thought-thinkingFree)/thinkingLong) - supervised
	return max(rest, earned)
}
