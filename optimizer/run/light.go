package run

import "time"

// settled is the time that the job must have run at one allocation before the agent reduces its footprint.
const settled = 3 * time.Second

// makeLight calls Lighten, once per segment, when only supervision remains.
func (r *run) makeLight() {
	seg := r.progress.Current()
	if r.Lighten == nil || r.lightAt == seg || r.phase != working || r.renewing != nil || r.leaving != nil || r.elapsed()-seg.LaunchedAt < settled {
		return
	}
	r.heavy, r.lightAt = r.Lighten(), seg
}

// makeHeavy reverts Lighten before work beside the loop.
func (r *run) makeHeavy() {
	if r.heavy != nil {
		r.heavy()
		r.heavy, r.lightAt = nil, nil
	}
}

// Fitting and planning while the job runs may use thinkingShare of one CPU: after a computation of duration d, the
// next one waits for d divided by it. A long run has less and less to learn: all computations together may use
// thinkingFree plus thinkingLong of the supervised time, which is the tighter bound after about two and a half
// minutes.
const (
	thinkingShare = 0.005
	thinkingLong  = 0.002
	thinkingFree  = 300 * time.Millisecond
)

// rested reports whether the agent may fit and plan again, so that short units of work do not keep it busy.
func (r *run) rested() bool { return r.Clock.Monotonic() >= r.thinkAgain }

// think runs a computation and charges its duration.
func (r *run) think(work func()) {
	from := r.Clock.Monotonic()
	work()
	now := r.Clock.Monotonic()
	r.thought += now - from
	r.thinkAgain = now + restAfter(now-from, r.thought, now-r.started)
}

// restAfter returns the minimum delay before the next computation, after one of duration d that brings the total of a
// run to thought; supervised is the time since this agent began or took over the run.
func restAfter(d, thought, supervised time.Duration) time.Duration {
	rest := time.Duration(float64(d) / thinkingShare)
	earned := time.Duration(float64(thought-thinkingFree)/thinkingLong) - supervised
	return max(rest, earned)
}
