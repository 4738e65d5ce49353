package run

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// The thread trial: a training whose numeric library can change its thread count at run time compares one thread with
// all threads, inside the process, for a small share of the elapsed time. Small models are often many times faster on
// one thread.
const (
	trialShare = 0.01 // share of the launch, as far as it is predicted, that one trial may use
	trialSteps = 12   // number of steps in the shortest trial
	trialFew   = 6    // the same for slow steps, whose times vary less: those that last trialSlow together
	trialSlow  = time.Second
	trialFirst = 3 * time.Second  // training time before the first trial
	trialMost  = 2 * time.Second  // the longest trial with more than the fewest steps
	trialGain  = 0.85             // a thread count is adopted if its steps take less than this share of the time
	trialLimit = 60 * time.Second // time after the trial, or the request, after which no answer is expected any more
)

// threadTrials is the state of the thread trials of a run.
type threadTrials struct {
	tried   map[int]int   // trials by thread count
	of      int           // threads at the start of the job
	why     string        // reason of the requested change
	back    bool          // a change was reverted: no more changes
	takes   time.Duration // of the running trial
	predict bool          // the threads were changed since the prediction of the plan
}

// tryThreads starts a trial if one may be worthwhile and its cost is bounded.
func (r *run) tryThreads() {
	o, seg := r.observer, r.Progress.Current()
	if o == nil || r.Pending != nil || r.job == nil || seg == nil || !r.mayTryThreads() || o.threads.id != 0 {
		return
	}
	f := &o.facts
	n := r.threads.next(f.Threads)
	ran, whole := r.elapsed()-max(seg.FirstRowAt, seg.LaunchedAt), r.elapsed()
	if s := r.projected.seconds; s != nil {
		whole = max(whole, time.Duration(s.P5*float64(time.Second)))
	}
	limit, ok := trialTime(f.StepTime, whole-r.Progress.launchedAt())
	if n == 0 || seg.FirstRowAt == 0 || ran < trialFirst || !ok {
		return
	}
	if o.send(&o.threads, observe.Request{Op: observe.Trial, Threads: n, Limit: 3 * limit}, r.elapsed()) == nil { // a third of it at the tried count
		r.threads.takes = 3 * limit
		if r.threads.of = f.Threads; r.threads.tried == nil {
			r.threads.tried = map[int]int{}
		}
		r.threads.tried[n]++
	}
}

// trialTime returns the time at the tried thread count in a launch of the given length; ok is false if the share of it
// that a trial may use is shorter than the fewest steps.
func trialTime(step, launch time.Duration) (limit time.Duration, ok bool) {
	least := min(trialSteps*step, max(trialFew*step, trialSlow))
	limit = min(time.Duration(trialShare*float64(launch)), max(trialMost, least))
	return limit, limit >= least
}

// mayTryThreads reports whether thread counts may be tried: on CPUs, by a framework that supports it, with one rank,
// if the user did not size the thread pools and the planner may decide.
func (r *run) mayTryThreads() bool {
	o := r.observer
	return o.facts.CanSetThreads && o.facts.Concurrent <= 1 && o.facts.StepTime > 0 && o.facts.Threads > 1 && o.facts.WorldSize <= 1 && r.ranks == 1 && r.Current.GPUs == 0 &&
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
		if r.elapsed()-o.threads.at > r.threads.takes+trialLimit {
			o.threads = request{}
		}
	case !a.OK:
		r.eventOnce(Info, "threads", "no other thread count tried: %s", a.Reason)
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
	words := fmt.Sprintf("%d instead of %d threads: %s per step, was %s", a.Tried, a.ThreadsBefore, length(a.During), length(before))
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
	r.threads.takes = 0
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
	r.threads.predict = r.rec.Plan != nil
}

// predictAgain renews the prediction of the run after a change of threads, which the earlier one did not contain, once the
// pace is measured. Until then, the run has the earlier one.
func (r *run) predictAgain() {
	p, seg := r.rec.Plan, r.Progress.Current()
	if !r.threads.predict || p == nil || seg.Launch || !seg.settled() || !r.mayPlan() {
		return
	}
	r.runPlanning(r.refit)
	if rest, ok := r.Progress.Remaining(); ok && r.model != nil {
		seconds, costs := r.projectFrom(rest)
		p.Prediction = &journal.Prediction{AtS: journal.Number(r.elapsed().Seconds()), Seconds: *seconds, CostUSD: *costs, QueueSeconds: r.queuedSoFar()}
		r.threads.predict = false
	}
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
	was, is := stat.Median(before.Blocks[before.warmUp():]), stat.Median(seg.Blocks)
	if is <= 1.1*was {
		return
	}
	if r.setThreads(r.threads.of) {
		r.threads.back = true
		r.threads.why = fmt.Sprintf("steps take %.2f times as long as before the change", is/was)
	}
}

// Loader workers are a knob within the range that the user allows: if a training waits for its data, another number
// is tried from the next pass over the data on, in the running process. The change is judged like every other move.

// workerTrials is the state of the trials of loader workers in a run.
type workerTrials struct {
	own    *int             // the script's own number of workers, nil until known
	marked [2]time.Duration // time between steps, and waiting time within it, at the last change
	why    string           // reason of the requested change
	asked  *int             // the last number requested in this launch
	judged *Segment         // the last segment that was judged, and the number of its blocks then
	blocks int
}

// workerRange returns the range of loader workers that the user allows; the zero Range if none.
func (f *facts) workerRange() resources.Range {
	allowed, err := resources.ParseRange(f.Config.NumWorkers, resources.Range{Max: int(f.Host.CPUs)})
	if f.Config.NumWorkers == "" || err != nil { // Validate rejects an invalid range
		return resources.Range{}
	}
	return allowed
}

// ownWorkers returns the number of workers of the baseline: the only allowed number, or 0 for that of the script.
func (f *facts) ownWorkers() int {
	if allowed := f.workerRange(); allowed.Min == allowed.Max {
		return allowed.Min
	}
	return 0
}

// loaderAt returns the loader settings of a launch if the script has no argument for loader workers. Pinned memory
// does not change results; persistent workers may, and are left to the script.
func (s *script) loaderAt(a resources.Allocation) *observe.Loader {
	if _, ok := s.mapping.Knob(inspect.KnobWorkers); ok || a.NumWorkers == 0 {
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
func (t *workerTrials) dataWait(f *observe.Facts) float64 {
	between := f.Stepping - t.marked[0]
	if between <= 0 {
		return math.NaN()
	}
	return min(1, (f.Waiting-t.marked[1]).Seconds()/between.Seconds())
}

// workersNeeded returns the number of workers with which the loader would keep up with a training that waits for data
// for the share wait of its steps, and how many of them the CPUs can run beside it.
func workersNeeded(workers, cpus int, wait float64) (enough, need int) {
	load := wait * math.Max(1, float64(workers))
	enough = max(1, int(math.Ceil(load/math.Max(1-wait, 0.01))))
	return enough, min(enough, max(1, cpus-1))
}

// tryWorkers requests another number of workers if the training waits for its data and the user's range contains a
// better one.
func (r *run) tryWorkers() {
	seg := r.Progress.Current()
	if !r.liveWorkers() || r.Pending != nil || seg == nil || !seg.settled() || r.observer.workers.id != 0 || r.workers.unjudged(&r.Progress) || r.Progress.lastPass() {
		return
	}
	f := &r.observer.facts
	wait := r.workers.dataWait(f)
	if !(wait >= inputBound) || !plan.MayProbe(r.snapshot()) {
		return
	}
	_, need := workersNeeded(f.Workers, r.Current.CPUs, wait)
	allowed := r.workerRange()
	n, has := max(allowed.Min, min(need, allowed.Max)), f.Workers
	if n <= has || r.workers.tried(n, &r.Progress) {
		return
	}
	r.askWorkers(n, fmt.Sprintf("input-bound: %.0f %% of each step waits for the loader with %d workers", 100*wait, has))
}

// tried reports whether a number of workers was the last one requested in this launch, or was used before in this run.
func (t *workerTrials) tried(n int, p *Progress) bool {
	return t.asked != nil && *t.asked == n || slices.ContainsFunc(p.Segments, func(s *Segment) bool { return s.Allocation.NumWorkers == n })
}

// unjudged reports whether the current segment began with a change of workers that has not been judged.
func (t *workerTrials) unjudged(p *Progress) bool {
	n := len(p.Segments)
	if n < 2 {
		return false
	}
	seg, before := p.Segments[n-1], p.Segments[n-2]
	return !seg.Launch && seg != t.judged && seg.Allocation.NumWorkers != before.Allocation.NumWorkers
}

// lastPass reports whether the current pass over the data is the last one.
func (p *Progress) lastPass() bool {
	left, ok := p.Remaining()
	return ok && p.Unit == "epoch" && left <= 1
}

// askWorkers requests a number of workers from the next pass on.
func (r *run) askWorkers(n int, why string) {
	if err := r.observer.send(&r.observer.workers, observe.Request{Op: observe.SetWorkers, Workers: n}, r.elapsed()); err != nil {
		r.eventOnce(Warning, "workers", "%v", err)
		return
	}
	r.workers.why, r.workers.asked = why, &n
	r.event(Info, "%d loader workers from the next pass over the data: %s", n, why)
}

// takeWorkers handles the answer to a request for workers.
func (r *run) takeWorkers() {
	o := r.observer
	a, ok := o.takeAnswer(&o.workers)
	if !ok {
		return
	}
	if !a.OK {
		r.event(Info, "%d loader workers not tried: %s", *r.workers.asked, a.Reason)
		return
	}
	if r.workers.own == nil && r.Current.NumWorkers == r.Baseline.NumWorkers {
		r.workers.own = &a.WorkersBefore
	}
	to := r.Current
	if to.NumWorkers = a.Workers; r.workers.own != nil && a.Workers == *r.workers.own {
		to.NumWorkers = r.Baseline.NumWorkers
	}
	r.workers.marked = [2]time.Duration{o.facts.Stepping, o.facts.Waiting}
	r.beginSegment(r.elapsed(), to, "run", false)
	r.act(to, r.workers.why, "live")
	r.Current = to
}

// watchWorkers judges a change of workers once it is measured, and again whenever twice as much is measured. It
// reverts a change that has made the training slower beyond noise.
func (r *run) watchWorkers() {
	seg := r.Progress.Current()
	if seg == nil || !r.workers.unjudged(&r.Progress) && (seg != r.workers.judged || len(seg.Blocks) < 2*r.workers.blocks) {
		return
	}
	if !r.liveWorkers() || r.model == nil || r.observer.workers.id != 0 || r.Pending != nil || !seg.settled() {
		return
	}
	r.workers.judged, r.workers.blocks = seg, len(seg.Blocks)
	r.runPlanning(r.refit)
	if to, why := plan.Revert(r.snapshot()); to != nil && r.workersAlone(*to) {
		r.moveWorkers(*to, why)
	}
}

// workersAlone reports whether an allocation differs from the current one in loader workers only.
func (f *facts) workersAlone(a resources.Allocation) bool {
	here := f.Current
	here.NumWorkers = a.NumWorkers
	return a.NumWorkers != f.Current.NumWorkers && here.SameShape(a)
}

// moveWorkers requests the workers of an allocation.
func (r *run) moveWorkers(to resources.Allocation, why string) {
	n := to.NumWorkers
	if n == r.Baseline.NumWorkers {
		if r.workers.own == nil {
			return // the script's own number is unknown
		}
		n = *r.workers.own
	}
	r.askWorkers(n, why)
}

// diagnosis is the state of the checks outside the SLA: pace and price relative to the beginning of the segment, and
// the use of the allocated GPUs.
type diagnosis struct {
	efficiency *cost.EfficiencyMonitor
	seen       int // number of blocks already observed
	of         *Segment
	gpuAt      time.Duration // elapsed time of the last check of the GPUs
}

// gpuGrace is the time that a job is given to use its devices; gpuEvery is the interval of the checks.
const (
	gpuGrace = 60 * time.Second
	gpuEvery = 10 * time.Second
)

// watchEfficiency reports when a unit of work becomes slower or more expensive than before at this allocation.
func (r *run) watchEfficiency() {
	seg := r.Progress.Current()
	if r.Phase != working || len(seg.Blocks) == 0 {
		return
	}
	w := &r.diagnosis
	if w.of != seg {
		*w = diagnosis{efficiency: cost.NewEfficiencyMonitor(cost.Work{}, cost.EfficiencyOptions{Unit: r.Progress.Unit}), of: seg, gpuAt: w.gpuAt}
	}
	if len(seg.Blocks) < w.seen { // older blocks were merged
		w.seen = len(seg.Blocks)
	}
	for ; w.seen < len(seg.Blocks); w.seen++ {
		took := seg.Blocks[w.seen]
		rate := float64(r.Rates.Hourly(r.Current))
		for _, d := range w.efficiency.Observe(cost.Work{Units: 1, Time: time.Duration(took * float64(time.Second)), Cost: cost.USD(took / 3600 * rate)}) {
			if d.Kind == "dearer" && r.Rates.Instance > 0 {
				continue // equivalent to slower
			}
			level := Warning
			if d.Over {
				level = Info
			}
			r.eventOnce(level, fmt.Sprint("pace ", d.Kind, d.Over), "%s", d.Words)
		}
	}
}

// watchGPUs validates the devices and diagnoses idle ones.
func (r *run) watchGPUs() {
	now := r.elapsed()
	if r.Current.GPUs == 0 || r.Host.Described != "" || r.job == nil || now-r.diagnosis.gpuAt < gpuEvery {
		return
	}
	r.diagnosis.gpuAt = now
	seg := r.Progress.Current()
	settled := now-seg.LaunchedAt > gpuGrace
	var pids []int
	if r.tree != nil {
		pids, _ = r.tree.PIDs()
	}
	check := resources.GPUCheck{Host: r.Host, Allocation: r.Current, Visible: strings.Join(r.Current.GPUIDs, ","), VisibleSet: true, Running: settled, JobPIDs: pids,
		Namespaced: resources.Roots{}.PIDNamespace()}
	memory, processes := 0.0, 0
	for _, g := range r.sampler.last.GPUs {
		for _, p := range g.PIDs {
			check.Processes = append(check.Processes, resources.GPUProcess{PID: p, UUID: g.UUID})
			processes++
		}
		memory += g.MemoryGiB
	}
	for _, p := range check.Problems() {
		r.eventOnce(Warning, "gpu "+p.Code, "GPUs: %s; %s", p.What, p.Advice)
	}
	if !settled || !(mean(seg.GPUSum, seg.GPUN) < 1 || seg.GPUN == 0) {
		return
	}
	visible := check.Visible
	evidence := cost.GPUEvidence{Allocated: r.Current.GPUs, Columns: -1, MemoryGiB: memory, Visible: &visible, CPUPct: mean(seg.CPUSum, seg.CPUN), Processes: processes}
	for _, g := range r.sampler.last.GPUs {
		if !math.IsNaN(g.UtilPercent) {
			evidence.Util = append(evidence.Util, g.UtilPercent)
		}
	}
	for _, d := range evidence.Diagnose() {
		r.eventOnce(Warning, "idle gpu "+d.Cause, "GPUs do nothing: %s; %s", d.Evidence, d.Advice)
	}
}

// checkBatch warns of a change of GPUs and batch size that changes the training result.
func (r *run) checkBatch(to resources.Allocation) {
	for _, p := range cost.CheckGPUBatch(r.Current, to) {
		r.eventOnce(Warning, "batch "+fmt.Sprint(p), "%s", p.Words)
	}
}

// stateBatch warns once, if a job is launched with a batch size other than its own, that the result of the training
// changes, and states the rule for the learning rate: proportional to the batch size for SGD (Goyal et al.,
// "Accurate, Large Minibatch SGD", 2017), to its square root for adaptive optimizers (Malladi et al., "On the SDEs
// and Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022).
func (r *run) stateBatch(a resources.Allocation) {
	k, _ := r.mapping.Knob(inspect.KnobBatchSize)
	own, err := strconv.Atoi(cmp.Or(k.Present, r.ins.BatchSize.Value))
	if a.BatchSize <= 0 || err == nil && own == a.BatchSize {
		return
	}
	rate := "in proportion to the batch size with SGD, to its square root with an adaptive optimizer such as Adam"
	if err == nil && own > 0 {
		by := float64(a.BatchSize) / float64(own)
		rate = fmt.Sprintf("by %.3g with SGD, by %.3g with an adaptive optimizer such as Adam (own batch size %d)", by, math.Sqrt(by), own)
	}
	r.eventOnce(Warning, fmt.Sprint("batch size ", a.BatchSize), "batch size %d changes the result of the training; optimize leaves the learning rate alone: scale it %s",
		a.BatchSize, rate)
}
