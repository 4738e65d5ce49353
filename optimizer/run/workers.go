package run

import (
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/optimizer/inspect"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// Loader workers are a knob within the range that the user allows: if a training waits for its data, another number
// is tried from the next pass over the data on, in the running process. The change is judged like every other move.

// loading is the state of the trials of loader workers in a run.
type loading struct {
	own    *int             // the script's own number of workers, nil until known
	marked [2]time.Duration // time between steps, and waiting time within it, at the last change
	why    string           // reason of the requested change
	asked  *int             // the last number requested in this launch
	judged *Segment         // the last segment that was judged
}

// workerRange returns the range of loader workers that the user allows; the zero Range if none.
func (r *run) workerRange() resources.Range {
	allowed, err := resources.ParseRange(r.Config.NumWorkers, resources.Range{Max: int(r.host.CPUs)})
	if r.Config.NumWorkers == "" || err != nil { // Validate rejects an invalid range
		return resources.Range{}
	}
	return allowed
}

// ownWorkers returns the number of workers of the baseline: the only allowed number, or 0 for that of the script.
func (r *run) ownWorkers() int {
	if allowed := r.workerRange(); allowed.Min == allowed.Max {
		return allowed.Min
	}
	return 0
}

// loaderAt returns the loader settings of a launch if the script has no argument for loader workers. Pinned memory
// does not change results; persistent workers may, and are left to the script.
func (r *run) loaderAt(a resources.Allocation) *observe.Loader {
	if _, ok := r.mapping.Knob(inspect.KnobWorkers); ok || a.NumWorkers == 0 {
		return nil
	}
	l := &observe.Loader{Workers: a.NumWorkers}
	if a.GPUs > 0 {
		pin := true
		l.PinMemory = &pin
	}
	return l
}

// liveWorkers reports whether the workers of the running job may be changed by a request.
func (r *run) liveWorkers() bool {
	allowed := r.workerRange()
	return r.observer != nil && r.job != nil && r.observer.facts.CanSetWorkers && r.observer.facts.WorldSize <= 1 && r.ranks <= 1 &&
		allowed.Max > allowed.Min && r.Config.Planner != "static" && r.Config.Samples >= 0
}

// dataWait returns the share of the time between steps spent waiting for data since the last change of workers, NaN
// if unknown.
func (r *run) dataWait() float64 {
	f := &r.observer.facts
	between := f.Stepping - r.loading.marked[0]
	if between <= 0 {
		return math.NaN()
	}
	return min(1, (f.Waiting-r.loading.marked[1]).Seconds()/between.Seconds())
}

// workersNeeded returns the number of workers with which the loader would keep up with the training, and how many of
// them this machine can run beside it.
func (r *run) workersNeeded(wait float64) (enough, need int) {
	f := &r.observer.facts
	load := wait * math.Max(1, float64(f.Workers))
	enough = int(math.Ceil(load / math.Max(1-wait, 0.01)))
	return max(1, enough), min(max(1, enough), max(1, r.current.CPUs-1))
}

// tryWorkers requests another number of workers if the training waits for its data and the user's range contains a
// better one.
func (r *run) tryWorkers() {
	seg := r.progress.Current()
	if !r.liveWorkers() || r.leaving != nil || seg == nil || !seg.settled() || r.observer.workers.id != 0 || r.unjudged() || r.lastPass() {
		return
	}
	wait := r.dataWait()
	if !(wait >= inputBound) || !plan.MayProbe(r.snapshot()) {
		return
	}
	_, need := r.workersNeeded(wait)
	allowed := r.workerRange()
	n, has := max(allowed.Min, min(need, allowed.Max)), r.observer.facts.Workers
	if n <= has || r.triedWorkers(n) {
		return
	}
	r.askWorkers(n, fmt.Sprintf("input-bound: %.0f %% of each step waits for the loader with %d workers", 100*wait, has))
}

// triedWorkers reports whether a number of workers was the last one requested in this launch, or was used before in
// this run.
func (r *run) triedWorkers(n int) bool {
	return r.loading.asked != nil && *r.loading.asked == n ||
		slices.ContainsFunc(r.progress.Segments, func(s *Segment) bool { return s.Allocation.NumWorkers == n })
}

// unjudged reports whether the current segment began with a change of workers that has not been judged.
func (r *run) unjudged() bool {
	n := len(r.progress.Segments)
	if n < 2 {
		return false
	}
	seg, before := r.progress.Segments[n-1], r.progress.Segments[n-2]
	return !seg.Launch && seg != r.loading.judged && seg.Allocation.NumWorkers != before.Allocation.NumWorkers
}

// lastPass reports whether the current pass over the data is the last one.
func (r *run) lastPass() bool {
	left, ok := r.progress.Remaining()
	return ok && r.progress.Unit == "epoch" && left <= 1
}

// askWorkers requests a number of workers from the next pass on.
func (r *run) askWorkers(n int, why string) {
	id, err := r.observer.ask(observe.Request{Op: observe.SetWorkers, Workers: n})
	if err != nil {
		r.once(Warning, "workers", "%v", err)
		return
	}
	r.observer.workers = request{id, r.elapsed()}
	r.loading.why, r.loading.asked = why, &n
	r.event(Info, "%d loader workers from the next pass over the data: %s", n, why)
}

// takeWorkers handles the answer to a request for workers.
func (r *run) takeWorkers() {
	o := r.observer
	if o.workers.id == 0 {
		return
	}
	a, ok := o.answer(o.workers.id)
	if !ok {
		return
	}
	o.workers = request{}
	if !a.OK {
		r.event(Info, "%d loader workers not tried: %s", *r.loading.asked, a.Reason)
		return
	}
	if r.loading.own == nil && r.current.NumWorkers == r.baseline.NumWorkers {
		r.loading.own = &a.WorkersBefore
	}
	to := r.current
	if to.NumWorkers = a.Workers; r.loading.own != nil && a.Workers == *r.loading.own {
		to.NumWorkers = r.baseline.NumWorkers
	}
	r.loading.marked = [2]time.Duration{o.facts.Stepping, o.facts.Waiting}
	r.beginSegment(r.elapsed(), to, "run", false)
	r.act(to, r.loading.why, "live")
	r.current = to
}

// watchWorkers judges a change of workers once it is measured, and reverts it if the training has become slower
// beyond noise.
func (r *run) watchWorkers() {
	if !r.unjudged() || !r.liveWorkers() || r.model == nil || r.observer.workers.id != 0 || r.leaving != nil || !r.progress.Current().settled() {
		return
	}
	r.loading.judged = r.progress.Current()
	r.think(r.refit)
	if to, why := plan.Revert(r.snapshot()); to != nil && r.workersAlone(*to) {
		r.moveWorkers(*to, why)
	}
}

// workersAlone reports whether an allocation differs from the current one in loader workers only.
func (r *run) workersAlone(a resources.Allocation) bool {
	here := r.current
	here.NumWorkers = a.NumWorkers
	return a.NumWorkers != r.current.NumWorkers && here.SameShape(a)
}

// moveWorkers requests the workers of an allocation.
func (r *run) moveWorkers(to resources.Allocation, why string) {
	n := to.NumWorkers
	if n == r.baseline.NumWorkers {
		if r.loading.own == nil {
			return // the script's own number is unknown
		}
		n = *r.loading.own
	}
	r.askWorkers(n, why)
}
