package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// Site is an engine on which jobs run instead of this machine.
type Site struct {
	Launcher launch.Launcher
	// Host is one node of the kind that the jobs ask for: the limits of the allocations.
	Host resources.Host
	// Rates are the prices of the site; nil: the default rates of its GPU model.
	Rates *cost.Rates
	// Forecast predicts when a job of the given run time (0: unknown) would start at the place of an allocation, followed
	// by up to the given number of other places of the site that could run it; nil if the engine cannot tell.
	Forecast func(ctx context.Context, a resources.Allocation, runs time.Duration, others int) ([]engine.Forecast, error)
}

// remoteSampler is a job that is sampled where it runs.
type remoteSampler interface {
	Sample() monitor.Sample
	// ClockOffset is the monotonic clock there less the one of this machine.
	ClockOffset() time.Duration
	// MachineCPUs is the number of CPUs of the machine there; 0 if unknown.
	MachineCPUs() float64
}

// stretchLister is a Launcher that keeps a record of the jobs of the engine that carried a run.
type stretchLister interface {
	Stretches(runDir string) ([]engine.Stretch, error)
	// Confirm returns the same list after it has asked the engine for the accounts that are missing. With an error the
	// list is the present one, nil if it cannot be read.
	Confirm(ctx context.Context, runDir string) ([]engine.Stretch, error)
}

// openSite connects to the engine of the configuration. It has no effect for a run on this machine.
func (r *run) openSite(ctx context.Context) error {
	if !r.Config.elsewhere() {
		return nil
	}
	if r.Site == nil {
		return fmt.Errorf("--engine %s: this program runs jobs on this machine only", r.Config.Engine)
	}
	gpus := r.Config.GPUs != "" && r.Config.GPUs != "0" || r.ins.GPU.Value == "yes" || r.Limits.GPUs.Max > 0
	s, err := r.Site(ctx, r.Config, gpus)
	if s.Launcher != nil {
		r.site, r.Launcher = s, s.Launcher
	}
	if err != nil {
		return fmt.Errorf("--engine %s: %w", r.Config.Engine, err)
	}
	return nil
}

// reopenSite connects to the engine of a run that exists already. Its jobs can be followed and stopped by their files
// while the engine itself does not answer.
func (r *run) reopenSite(ctx context.Context) error {
	err := r.openSite(ctx)
	if err != nil && r.site.Launcher != nil {
		r.event(Warning, "%v", err)
		return nil
	}
	return err
}

// changeEngine lets an ended run continue on another engine, or on another kind of its nodes: limits, baseline and prices
// become those of the new place, and what was timed at the old one no longer counts. The money spent, and the limits of
// the SLA, stay.
func (r *run) changeEngine(ctx context.Context, c Change) error {
	r.Config.Engine, r.Config.EngineArgs = c.Engine, c.EngineArgs
	if c.BillingHour > 0 {
		r.Config.BillingHour = c.BillingHour
	}
	if l, ok := r.Launcher.(interface {
		Release(context.Context, string) error
	}); ok {
		if err := l.Release(ctx, r.dir.Dir()); err != nil {
			return fmt.Errorf("give up what the run has on its present engine: %w", err)
		}
	}
	r.Limits.GPUs.Max = 0
	var err error
	if r.Config.elsewhere() {
		if err = r.openSite(ctx); err == nil {
			r.Host = r.site.Host
		}
	} else {
		r.site, r.Launcher = Site{}, r.local
		r.Host, err = r.Discover(ctx)
	}
	if err != nil {
		return err
	}
	r.resolveRates()
	if r.site.Rates != nil && r.Config.Rates == nil {
		r.Rates = *r.site.Rates
	}
	if err := r.resolveLimits(); err != nil {
		return err
	}
	r.Current, r.Phase, r.RestartS, r.StartupS = r.Baseline, probing, nil, nil
	for _, s := range r.Progress.Segments {
		s.Blocks, s.Stated, s.Units, s.Timed = nil, nil, 0, 0
	}
	r.rec.Host, r.rec.Prices = journal.Host{Host: r.Host}, journal.Prices{Rates: r.Rates}
	r.rec.Baseline = nil
	r.warn("continues on another engine: " + cmp.Or(c.Engine, "local"))
	return nil
}

// charger is a Launcher whose engine grants, and charges, amounts other than those of the plan.
type charger interface {
	Charged(a resources.Allocation) resources.Allocation
}

// charged returns what is paid for when the job runs at an allocation.
func (r *run) charged(a resources.Allocation) resources.Allocation {
	if c, ok := r.Launcher.(charger); ok {
		a.Memory = c.Charged(r.enforced(a)).Memory
	}
	return a
}

// queueing is the state of a run that waits for its place.
type queueing struct {
	site     Site
	local    launch.Launcher // of this machine
	lastWait string          // the last reason that was shown
	moving   *move           // nil unless the place of the next launch is being obtained
}

// move is a restart at another allocation, whose place is obtained while the job still runs.
type move struct {
	to    *pendingStop
	place launch.Preparation
	since time.Duration
}

// moveWithin is the longest wait for the place of a move; a share of the time that remains limits it further.
const moveWithin = 30 * time.Minute

// leaveFor restarts the job at the allocation of l. With an engine that can prepare a place, the job runs on until the
// place is held, instead of giving its place up for a position in a queue.
func (r *run) leaveFor(l *pendingStop) {
	p, ok := r.Launcher.(launch.Preparer)
	if !ok || r.job == nil {
		r.requestStop(l)
		return
	}
	place, err := p.Prepare(context.Background(), launch.Command{Dir: r.Config.Dir, RunDir: r.dir.Dir(), Allocation: r.enforced(*l.Next), Grace: r.Config.Grace,
		StopAfter: r.deadMan(), StopBy: r.stopBy()})
	r.moving = &move{to: l, place: place, since: r.elapsed()}
	if err != nil {
		r.moving.place = nil
		r.giveUpMove(err.Error())
	}
}

// giveUpMove lets the job run on where it is.
func (r *run) giveUpMove(why string) {
	m := r.moving
	r.abandonMove()
	r.event(Warning, "no place for %s: %s; the job continues where it runs", *m.to.Next, why)
	r.setPlan(plan.Plan{Allocation: r.Current, Planner: "static", Reason: "no place was to be had for " + m.to.Next.String(), Binding: "none"})
}

// settleEngine gives up what is still being obtained from the engine, and waits a while until that is done.
func (r *run) settleEngine() {
	r.abandonMove()
	if l, ok := r.Launcher.(interface{ Settle(context.Context) }); ok {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		l.Settle(ctx)
	}
}

// withdrawPrepared gives up the places that a dead agent was obtaining.
func (r *run) withdrawPrepared() {
	if l, ok := r.Launcher.(interface{ WithdrawPrepared(string) }); ok {
		l.WithdrawPrepared(r.dir.Dir())
	}
}

// abandonMove withdraws the place that is being obtained, if any.
func (r *run) abandonMove() {
	if r.moving != nil && r.moving.place != nil {
		r.moving.place.Withdraw()
	}
	r.moving = nil
}

// watchMove gives up a move whose place does not come: after moveWithin, or a fifth of the time that the job needs.
func (r *run) watchMove() {
	if r.moving == nil || r.Pending != nil {
		return
	}
	limit := moveWithin
	if s := r.projected.seconds; s != nil {
		limit = min(limit, time.Duration(max(s.P50-r.moving.since.Seconds(), 1)/5*float64(time.Second)))
	}
	if r.elapsed()-r.moving.since > limit {
		r.giveUpMove(fmt.Sprintf("%s, not within %s", r.moving.place.Waiting(), length(limit)))
	}
}

// placed begins the charge and the clock of a job that has received its place.
func (r *run) placed() {
	q := r.queued
	r.queued = nil
	seg := r.Progress.Current()
	now := r.elapsed()
	waited := now - seg.LaunchedAt
	held := now
	if since := q.HeldSince(); !since.IsZero() {
		held = min(now, max(seg.LaunchedAt, now-r.Clock.Now().Sub(since)))
	}
	held = max(held, r.meter.Seen()) // two places may have been held at once: both are charged, one after the other
	paid := r.charged(seg.Allocation)
	if remote := r.sampler.remote; remote != nil {
		if n := remote.MachineCPUs(); n > 0 {
			r.sampler.machineCPUs = n
		}
	}
	if err := r.meter.Start(held, cost.Label(seg.Label), paid, r.Rates); err != nil {
		r.event(Warning, "%v", err)
	}
	seg.LaunchedAt, seg.StartedAt = held, now
	if r.StretchRates == nil {
		r.StretchRates = map[int]float64{}
	}
	r.StretchRates[r.Stretch] = float64(r.Rates.Hourly(paid))
	r.QueuedS += (held - (now - waited)).Seconds()
	r.rec.Enforced = r.job.Enforced()
	if r.sampler.remote != nil && r.observer != nil {
		r.observer.clock = shiftedClock{r.Clock, r.sampler.remote}
	}
	r.event(Info, "%s after %s", q.Waiting(), length(held-(now-waited)))
	r.moveTimeLimit()
	r.recordStretches()
	r.save(true)
}

// chargeHeld charges a place that was held although no job ran at it, and returns the time until which it is charged.
func (r *run) chargeHeld(held time.Duration) time.Duration {
	if held <= 0 {
		return r.meter.Seen()
	}
	from := r.meter.Seen()
	seg := r.Progress.Current()
	if err := r.meter.Start(from, cost.Label(seg.Label), r.charged(seg.Allocation), r.Rates); err != nil {
		r.event(Warning, "%v", err)
	}
	return from + held
}

// watchQueue shows why a job waits, whenever that changes.
func (r *run) watchQueue() {
	r.watchMove()
	if r.queued == nil {
		return
	}
	if words := r.queued.Waiting(); words != r.lastWait {
		r.lastWait = words
		r.event(Info, "%s", words)
	}
	if left := r.Config.SLA.TimeMax - r.elapsed(); r.Config.SLA.TimeMax > 0 && r.projected.seconds != nil {
		need := r.projected.seconds.P50 - r.Progress.Current().LaunchedAt.Seconds()
		if need > left.Seconds() && !math.IsNaN(need) {
			r.eventOnce(Warning, "queue", "the job still waits, and its predicted run time of %s no longer fits before the deadline", chartSeconds(need))
		}
	}
}

func chartSeconds(s float64) string { return length(time.Duration(s * float64(time.Second))) }

// adoptQueued continues to wait for, or to supervise, the job of another agent.
func (r *run) adoptQueued(h launch.Handle) {
	select {
	case <-r.queued.Started():
		if _, charged := r.meter.Running(); charged { // it had its place already
			r.queued = nil
			if r.sampler.remote != nil && r.observer != nil {
				r.observer.clock = shiftedClock{r.Clock, r.sampler.remote}
			}
		}
	default:
	}
	r.event(Info, "adopted %s job %s of %s", h.Engine, h.EngineID, r.dir.ID())
}

// continueElsewhere starts the next stretch of a job that the engine has ended, from its checkpoint; false if it keeps
// none. A job that makes no progress between two such ends counts as failing.
func (r *run) continueElsewhere(exit launch.Exit) bool {
	if _, ok := r.resumeFrom(); !ok && !r.Resumable || r.Config.Restarts < 0 {
		return false
	}
	if seg := r.Progress.Current(); r.Progress.Done <= seg.StartDone {
		if r.Failures++; r.Failures > r.Config.Restarts {
			return false
		}
	}
	r.event(Warning, "%s; continuing from the checkpoint in a new job", describeExit(exit))
	r.retryAt = r.elapsed() + time.Millisecond
	return true
}

// forecastWithin limits the time for a forecast before a launch.
const forecastWithin = 5 * time.Second

// forecast records when the engine would start a job at an allocation, and with it the end of the run, its cost and the
// chance to keep the deadline.
func (r *run) forecast(ctx context.Context, a resources.Allocation, others int, seconds, costs *sla.Interval) {
	if r.site.Forecast == nil {
		return
	}
	var length time.Duration
	if seconds != nil {
		length = time.Duration(seconds.P95 * float64(time.Second))
	}
	list, err := r.site.Forecast(ctx, a, length, others)
	if err != nil {
		r.event(Info, "start not predicted: %v", err)
		return
	}
	r.rec.Starts = nil
	for _, f := range list {
		rates := r.Rates
		if f.Rates != nil {
			rates = *f.Rates
		}
		paid := resources.Allocation{GPUs: f.Place.GPUs, CPUs: f.Place.CPUs, Memory: f.Place.Memory}
		s := journal.Start{Place: f.Place, Wait: f.Wait, ByLimits: journal.Number(f.ByLimits), Ahead: f.Ahead, Observed: f.Observed,
			HourlyUSD: journal.Number(rates.Hourly(paid)), DeadlineMet: journal.Unknown()}
		if f.Same && seconds != nil {
			s.End, s.CostUSD = addIntervals(f.Wait, *seconds), costs
			if d := r.Config.SLA.TimeMax.Seconds(); d > 0 {
				s.DeadlineMet = journal.Number(chanceWithin(f.Wait, *seconds, d))
			}
		}
		r.rec.Starts = append(r.rec.Starts, s)
	}
}

// forecastFirst predicts the start of the first launch, so that the prediction can be compared with the start.
func (r *run) forecastFirst(ctx context.Context, a resources.Allocation) {
	ctx, cancel := context.WithTimeout(ctx, forecastWithin)
	defer cancel()
	var seconds, costs *sla.Interval
	if p := r.rec.Plan; p != nil && p.Prediction != nil {
		seconds, costs = &p.Prediction.Seconds, &p.Prediction.CostUSD
	}
	r.forecast(ctx, a, 0, seconds, costs)
	if len(r.rec.Starts) > 0 {
		r.event(Info, "predicted start: %s", startWords(r.rec.Starts[0], r.Clock.Now()))
	}
}

// startWords describes a predicted start at a time of day.
func startWords(s journal.Start, now time.Time) string {
	ahead := fmt.Sprintf("%d job%s ahead", s.Ahead, plural(s.Ahead))
	if s.Wait.P95 < 60 {
		return "now (" + ahead + ")"
	}
	clock := func(seconds float64) string {
		at := now.Add(time.Duration(seconds * float64(time.Second))).Local()
		if at.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
			return at.Format("15:04")
		}
		return at.Format("Jan 2 15:04")
	}
	return fmt.Sprintf("%s (90 %%: %s–%s), %s", clock(s.Wait.P50), clock(s.Wait.P5), clock(s.Wait.P95), ahead)
}

// quantileOf returns a quantile of the distribution that an interval stands for: linear between its three values, and
// beyond them up to the same distance again.
func quantileOf(v sla.Interval, p float64) float64 {
	points := [][2]float64{{0, math.Max(0, v.P5-(v.P50-v.P5)*0.1)}, {0.05, v.P5}, {0.5, v.P50}, {0.95, v.P95}, {1, v.P95 + (v.P95-v.P50)*0.5}}
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; p <= b[0] {
			return a[1] + (b[1]-a[1])*(p-a[0])/(b[0]-a[0])
		}
	}
	return points[len(points)-1][1]
}

// sums returns the sorted sums of two independent distributions at a grid of quantiles.
func sums(a, b sla.Interval) []float64 {
	const n = 40
	out := make([]float64, 0, n*n)
	for i := range n {
		for j := range n {
			out = append(out, quantileOf(a, (float64(i)+0.5)/n)+quantileOf(b, (float64(j)+0.5)/n))
		}
	}
	slices.Sort(out)
	return out
}

func addIntervals(a, b sla.Interval) *sla.Interval {
	s := sums(a, b)
	at := func(p float64) float64 { return s[int(p*float64(len(s)-1)+0.5)] }
	return &sla.Interval{P5: at(0.05), P50: at(0.5), P95: at(0.95)}
}

// chanceWithin returns the probability that two independent times together take at most limit seconds.
func chanceWithin(a, b sla.Interval, limit float64) float64 {
	s := sums(a, b)
	n, _ := slices.BinarySearch(s, limit)
	return float64(n) / float64(len(s))
}

// reports returns the directory of the observer's reports of the next launch; empty without an observer.
func (r *run) reports() string {
	if r.observer == nil {
		return ""
	}
	return r.observer.installed.Reports
}

// recordStretches copies the engine's jobs of the run to the record, with the accounts that were missing before.
func (r *run) recordStretches() {
	l, ok := r.Launcher.(stretchLister)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := l.Confirm(ctx, r.dir.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if list != nil {
		r.rec.Stretches = list
		r.correctCost()
	}
	for _, s := range list {
		missing := !s.Ended.IsZero() && !s.Started.IsZero() && !s.Confirmed
		text := fmt.Sprintf("the end of %s job %s is not yet confirmed by the accounting: its cost is that of our own clock", s.Engine, s.ID)
		if missing && !slices.Contains(r.rec.Warnings, text) {
			r.warn(text)
		} else if !missing {
			r.rec.Warnings = slices.DeleteFunc(r.rec.Warnings, func(w string) bool { return w == text })
		}
	}
	if err != nil && list == nil {
		r.warnOnce(err.Error())
	}
}

// correctCost determines by how much the accounts that came after the charge change it.
func (r *run) correctCost() {
	r.CorrectedUSD = 0
	for _, s := range r.rec.Stretches {
		if rate := r.StretchRates[s.N]; s.Corrected != 0 {
			r.CorrectedUSD += rate * s.Corrected.Hours()
		}
	}
}

// ConfirmCost completes the record of a run that ended on an engine before the accounting confirmed its cost. It has no
// effect on other runs, and none while the engine does not answer.
func (a Agent) ConfirmCost(ctx context.Context, dir string) error {
	rec, err := journal.ReadRecord(dir)
	if err != nil || rec.State == journal.Running || !slices.ContainsFunc(rec.Stretches, func(s engine.Stretch) bool {
		return !s.Confirmed && s.ID != "" && !s.Started.IsZero() && !s.Ended.IsZero()
	}) {
		return nil
	}
	jd, err := journal.Open(dir)
	if err != nil {
		return err
	}
	unlock, err := jd.Lock()
	if err != nil { // an agent holds it
		return nil
	}
	defer unlock()
	r := newRun(a, Config{})
	r.dir, r.rec = jd, rec
	if _, err := jd.LoadState(&r.facts); err != nil {
		return fmt.Errorf("confirm the cost of %s: %w", jd.ID(), err)
	}
	if r.openSite(ctx) != nil || !r.Config.elsewhere() {
		return nil
	}
	before := r.CorrectedUSD
	r.recordStretches()
	rec.Outcome.CostUSD += journal.Number(r.CorrectedUSD - before)
	rec.Settle()
	if err := errors.Join(jd.WriteRecord(rec), jd.SaveState(&r.facts)); err != nil {
		return fmt.Errorf("confirm the cost of %s: %w", jd.ID(), err)
	}
	r.writeReports()
	return nil
}

// shiftedClock is the clock of this machine with the monotonic clock of another one.
type shiftedClock struct {
	Clock
	there remoteSampler
}

// Monotonic returns the time of the other machine's monotonic clock.
func (c shiftedClock) Monotonic() time.Duration { return c.Clock.Monotonic() + c.there.ClockOffset() }

// BatchSystem is the system that contains this process as one of its jobs; *slurm.Engine implements it.
type BatchSystem interface {
	// Lookup returns the state of a job; nil if the system no longer knows it.
	Lookup(ctx context.Context, id string) (*slurm.Entry, error)
	// Requeue returns a running job to the queue.
	Requeue(ctx context.Context, id string) error
}

// enclosing is the Slurm job in which agent and training run.
type enclosing struct {
	batch    *resources.BatchJob // nil outside a job, and for a training on other machines
	batchEnd time.Duration       // end of its allocation less allocationMargin, on the monotonic clock; 0: none
	beyond   bool                // no plan ends within the allocation: only the user's own deadline applies to plans
	doneAt   float64             // progress when this agent began or took over the run
}

const (
	// allocationMargin is the time for the last records and reports between the end of the training and that of the
	// allocation.
	allocationMargin = 5 * time.Second
	// lookupTimeout bounds a request to the batch system.
	lookupTimeout = 5 * time.Second
	// unlimitedAllocation is the time from which an end is none: squeue shows a job without a limit as one of a year.
	unlimitedAllocation = 360 * 24 * time.Hour
)

// byAllocation is the reason of a stop at the end of the allocation.
const byAllocation = "allocation"

// enterAllocation determines the enclosing Slurm job and the end of its allocation, and records both.
func (r *run) enterAllocation(ctx context.Context) {
	if r.Config.elsewhere() || r.Config.Described != nil {
		return
	}
	r.batch = resources.EnclosingJob(r.Environ)
	r.rec.Batch = r.batch
	if r.batch == nil {
		return
	}
	end := r.batch.End
	if end.IsZero() && r.Batch != nil {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		entry, err := r.Batch.Lookup(ctx, r.batch.ID)
		if err != nil {
			r.event(Warning, "the end of the allocation of %s is unknown (%v): only the limits of the run apply", r.batch, err)
		} else if entry != nil {
			end = entry.End
		}
	}
	left := end.Sub(r.Clock.Now())
	if !end.IsZero() && left < unlimitedAllocation {
		r.batch.End = end.UTC()
		r.batchEnd = max(1, r.Clock.Monotonic()+left-allocationMargin)
		r.event(Info, "%s: %s, until %s (in %s)", r.batch, r.batch.Words(), end.Local().Format(time.DateTime), length(max(0, left.Round(time.Second))))
	} else {
		r.event(Info, "%s: %s, without a known end", r.batch, r.batch.Words())
	}
	if r.batch.UnderShell() {
		r.event(Warning, "the shell of the batch script dies of Slurm's SIGTERM, and optimize is then killed before it can save: write exec optimize … as its last line")
	}
}

// allocationLeft returns the time until the training must have ended because the allocation ends; false without an end.
func (r *run) allocationLeft() (time.Duration, bool) {
	return r.batchEnd - r.Clock.Monotonic(), r.batchEnd > 0
}

// deadline returns the earlier of the user's deadline and the end of the allocation in elapsed time, 0 if neither
// exists; allocation reports that it is the latter.
func (r *run) deadline() (d time.Duration, allocation bool) {
	d = r.Config.SLA.TimeMax
	if left, ok := r.allocationLeft(); ok {
		now := time.Duration(0)
		if r.started > 0 {
			now = r.elapsed()
		}
		if end := max(now+left, time.Second); d == 0 || end < d {
			return end, true
		}
	}
	return d, false
}

// deadlineSource names the source of a deadline that is not the user's; empty otherwise.
func (r *run) deadlineSource() string {
	if _, allocation := r.deadline(); allocation {
		return "the end of " + r.batch.String()
	}
	return ""
}

// allocationStep stops the job before its allocation ends.
func (r *run) allocationStep() {
	left, ok := r.allocationLeft()
	if !ok || r.ended != nil || r.endedUnseen() {
		return
	}
	if ask := left - r.reserve(); ask > 0 {
		if at := r.elapsed() + ask; r.guardAt == 0 || at < r.guardAt {
			r.guardAt = at
		}
		return
	}
	switch {
	case r.Pending == nil:
		r.event(Problem, "the allocation of %s ends in %s: stopping", r.batch, length(max(0, left+allocationMargin).Round(100*time.Millisecond)))
		r.requestStop(&pendingStop{Why: byAllocation, Words: "the time limit of " + r.batch.String()})
	case r.Pending.Next != nil:
		r.Pending.Why, r.Pending.Next, r.Pending.Words = byAllocation, nil, "the time limit of "+r.batch.String()
		r.saveState()
	case left <= 0 && r.job != nil:
		r.watchdog.kill()
	}
}

// endsAllocation reports whether a signal is the batch system's announcement that the allocation ends: by scancel, a
// preemption, a requeue or the time limit. The sender of a signal is unknown; another process of this program that
// stops the run has left a mark.
func (r *run) endsAllocation(s os.Signal) bool {
	if r.batch == nil || s != syscall.SIGTERM {
		return false
	}
	_, err := os.Stat(r.dir.Path(stopMark))
	return err != nil
}

// stopMark is the file in a run directory by which StopRun marks the SIGTERM that follows as the user's.
const stopMark = "stop"

// awaitEnd waits, when a job in an allocation has died without a request, for a SIGTERM to the agent: Slurm sends it
// to all processes at once, and that of the job may arrive first.
func (r *run) awaitEnd(exit launch.Exit) {
	if r.batch == nil || r.Pending != nil || exit.Reason == launch.Exited && exit.Code == 0 && r.Progress.Finished() {
		return
	}
	select {
	case s := <-r.watchdog.forward:
		r.interrupt(s)
	case <-time.After(signalMoment):
	}
}

// signalMoment is the time within which signals to several processes arrive.
const signalMoment = 300 * time.Millisecond

// savedOnSignal reports whether a job that received Slurm's SIGTERM itself states by its exit code that it saved.
func (r *run) savedOnSignal(exit *launch.Exit) bool {
	return exit != nil && r.Pending.Why == byAllocation && r.Resumable && exit.Signal == "" && exit.Code == exitTryAgain
}

// requeue returns the enclosing job to the queue if the end of its allocation ended the run, so that the same command
// resumes the run. It does not if the job is no longer running: it was cancelled, or Slurm itself starts it again.
func (r *run) requeue(ctx context.Context) {
	e := r.ended
	if !r.Config.Requeue || e == nil || e.reason != byAllocation || r.batch == nil || r.Batch == nil {
		return
	}
	switch {
	case !r.Resumable:
		r.event(Warning, "%s is not requeued: the training keeps no checkpoint", r.batch)
		return
	case r.Progress.Done <= r.doneAt:
		r.event(Warning, "%s is not requeued: the training made no progress in this allocation", r.batch)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*lookupTimeout)
	defer cancel()
	entry, err := r.Batch.Lookup(ctx, r.batch.ID)
	if err == nil && (entry == nil || entry.State != engine.Running) {
		return
	}
	if err == nil {
		err = r.Batch.Requeue(ctx, r.batch.ID)
	}
	if err != nil {
		r.event(Warning, "%s was not requeued: %v", r.batch, err)
		return
	}
	r.event(Info, "%s requeued: the same command resumes this run", r.batch)
}

// changeHost takes stock of the machine on which a run resumes, if that differs from the one on which it ran: a batch
// job may start again on another node.
func (r *run) changeHost(ctx context.Context) error {
	if r.batch == nil {
		return nil
	}
	h, err := r.Discover(ctx)
	if err != nil {
		return fmt.Errorf("read what this machine offers: %w", err)
	}
	before := r.Host
	r.Host = h
	if before.CPUs == h.CPUs && before.Memory == h.Memory && sameGPUs(before.GPUs, h.GPUs) {
		return nil
	}
	r.rec.Host = journal.Host{Host: h}
	if err := r.resolveLimits(); err != nil {
		return err
	}
	r.Current.GPUIDs = nil
	r.Current = r.Limits.Clip(r.Current)
	return nil
}

func sameGPUs(a, b []resources.GPU) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].UUID != b[i].UUID {
			return false
		}
	}
	return true
}
