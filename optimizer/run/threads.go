package run

import (
	"fmt"
	"time"

	"trainopt/optimizer/observe"
	"trainopt/resources"
)

// The thread trial: a training whose numeric library can change its thread count at run time compares one thread with
// all threads, inside the process, for a small share of the elapsed time. Small models are often many times faster on
// one thread.
const (
	trialShare = 0.01             // share of the elapsed time that one trial may use
	trialSteps = 12               // minimum number of steps that fit into a trial
	trialFirst = 3 * time.Second  // training time before the first trial
	trialMost  = 2 * time.Second  // the longest trial
	trialGain  = 0.85             // a thread count is adopted if its steps take less than this share of the time
	trialLimit = 60 * time.Second // time after which no answer is expected any more
)

// threadTrials is the state of the thread trials of a run.
type threadTrials struct {
	tried map[int]int // trials by thread count
	of    int         // threads at the start of the job
	why   string      // reason of the requested change
	back  bool        // a change was reverted: no more changes
}

// tryThreads starts a trial if one may be worthwhile and its cost is bounded.
func (r *run) tryThreads() {
	o, seg := r.observer, r.Progress.Current()
	if o == nil || r.Pending != nil || r.job == nil || seg == nil || !r.mayTryThreads() || o.threads.id != 0 {
		return
	}
	f := &o.facts
	n := r.threads.next(f.Threads)
	ran := r.elapsed() - max(seg.FirstRowAt, seg.LaunchedAt)
	limit := min(time.Duration(trialShare*float64(r.elapsed()-r.Progress.launchedAt())), trialMost)
	if n == 0 || seg.FirstRowAt == 0 || ran < trialFirst || limit < trialSteps*f.StepTime {
		return
	}
	if o.send(&o.threads, observe.Request{Op: observe.Trial, Threads: n, Limit: 3 * limit}, r.elapsed()) == nil { // a third of it at the tried count
		if r.threads.of = f.Threads; r.threads.tried == nil {
			r.threads.tried = map[int]int{}
		}
		r.threads.tried[n]++
	}
}

// mayTryThreads reports whether thread counts may be tried: on CPUs, by a framework that supports it, with one rank,
// if the user did not size the thread pools and the planner may decide.
func (r *run) mayTryThreads() bool {
	o := r.observer
	return o.facts.CanSetThreads && o.facts.StepTime > 0 && o.facts.Threads > 1 && o.facts.WorldSize <= 1 && r.ranks == 1 && r.Current.GPUs == 0 &&
		r.Current.Threads == 0 && len(resources.UserThreads(r.Environ)) == 0 && r.Config.Planner != "static" && r.Config.Samples >= 0
}

// next returns the next thread count to try: one, then half of the present count; 0 if both were tried.
func (t *threadTrials) next(now int) int {
	for _, n := range []int{1, now / 2} {
		if n >= 1 && n < now && t.tried[n] < 1 {
			return n
		}
	}
	return 0
}

// takeTrial handles the answer to a trial or to a change of threads.
func (r *run) takeTrial() {
	o := r.observer
	a, ok := o.takeAnswer(&o.threads)
	switch {
	case !ok:
		if r.elapsed()-o.threads.at > trialLimit {
			o.threads = request{}
		}
	case !a.OK:
		r.eventOnce(Info, "threads", "thread count %d not tried: %s", a.Tried, a.Reason)
	case a.Op == observe.Trial:
		r.judgeTrial(a)
	case a.Op == observe.SetThreads:
		r.threadsSet(a)
	}
}

// judgeTrial requests the tried thread count if its steps took less than trialGain of the time of the faster of the
// measurements before and after it.
func (r *run) judgeTrial(a observe.Answer) {
	before := a.Before
	if a.After > 0 && a.After < before {
		before = a.After
	}
	words := fmt.Sprintf("%d instead of %d threads: %s a step, was %s", a.Tried, a.ThreadsBefore, length(a.During), length(before))
	if a.During <= 0 || before <= 0 || a.GivenUp || float64(a.During) >= trialGain*float64(before) {
		r.event(Info, "tried %s: no gain", words)
		return
	}
	if r.setThreads(a.Tried) {
		r.threads.why = words
	}
}

// setThreads requests a change of threads; false if it cannot be made.
func (r *run) setThreads(n int) bool {
	return r.observer.send(&r.observer.threads, observe.Request{Op: observe.SetThreads, Threads: n}, r.elapsed()) == nil
}

// threadsSet records a change of threads that is in force.
func (r *run) threadsSet(a observe.Answer) {
	to := r.Current
	to.Threads = a.Threads
	if r.threads.back { // the job's original count
		to.Threads = 0
	}
	r.beginSegment(r.elapsed(), to, "run", false)
	r.act(to, r.threads.why, "live")
	r.Current = to
}

// watchThreads reverts a change of threads if the steps have become slower beyond noise.
func (r *run) watchThreads() {
	n := len(r.Progress.Segments)
	if n < 2 || r.Current.Threads == 0 || r.threads.back || r.observer == nil || r.observer.threads.id != 0 {
		return
	}
	seg, before := r.Progress.Segments[n-1], r.Progress.Segments[n-2]
	if seg.Launch || len(seg.Blocks) < settledBlocks || len(before.Blocks) == 0 {
		return
	}
	was, is := median(before.Blocks[before.warmUp():]), median(seg.Blocks)
	if is <= 1.1*was {
		return
	}
	if r.setThreads(r.threads.of) {
		r.threads.back = true
		r.threads.why = fmt.Sprintf("steps take %.2f times as long as before the change", is/was)
	}
}
