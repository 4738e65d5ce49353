package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/engine"
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
	// by up to three other places of the site that could run it; nil if the engine cannot tell.
	Forecast func(ctx context.Context, a resources.Allocation, runs time.Duration) ([]engine.Forecast, error)
}

// remoteSampler is a job that is sampled where it runs.
type remoteSampler interface {
	Sample() monitor.Sample
	// ClockOffset is the monotonic clock there less the one of this machine.
	ClockOffset() time.Duration
	// MachineCPUs is the number of CPUs of the machine there; 0 if unknown.
	MachineCPUs() float64
	// Place is what the engine was asked for, and charges.
	Place() engine.Place
}

// stretchLister is a Launcher that keeps a record of the jobs of the engine that carried a run.
type stretchLister interface {
	Stretches(runDir string) ([]engine.Stretch, error)
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
	if err != nil {
		return fmt.Errorf("--engine %s: %w", r.Config.Engine, err)
	}
	r.site, r.Launcher = s, s.Launcher
	return nil
}

// changeEngine lets an ended run continue on another engine, or on another kind of its nodes: limits, baseline and prices
// become those of the new place, and what was timed at the old one no longer counts. The money spent, and the limits of
// the SLA, stay.
func (r *run) changeEngine(ctx context.Context, c Change) error {
	r.Config.Engine, r.Config.EngineArgs = c.Engine, c.EngineArgs
	if c.BillingHour > 0 {
		r.Config.BillingHour = c.BillingHour
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
	paid := seg.Allocation
	if remote := r.sampler.remote; remote != nil {
		paid.Memory = max(paid.Memory, remote.Place().Memory)
		if n := remote.MachineCPUs(); n > 0 {
			r.sampler.machineCPUs = n
		}
	}
	if err := r.meter.Start(held, cost.Label(seg.Label), paid, r.Rates); err != nil {
		r.event(Warning, "%v", err)
	}
	seg.LaunchedAt, seg.StartedAt = held, now
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
func (r *run) forecast(ctx context.Context, a resources.Allocation, seconds, costs *sla.Interval) {
	if r.site.Forecast == nil {
		return
	}
	var length time.Duration
	if seconds != nil {
		length = time.Duration(seconds.P95 * float64(time.Second))
	}
	list, err := r.site.Forecast(ctx, a, length)
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
	r.forecast(ctx, a, seconds, costs)
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

// recordStretches copies the engine's jobs of the run to the record.
func (r *run) recordStretches() {
	l, ok := r.Launcher.(stretchLister)
	if !ok {
		return
	}
	list, err := l.Stretches(r.dir.Dir())
	if err != nil {
		r.warnOnce(err.Error())
		return
	}
	r.rec.Stretches = list
	for _, s := range list {
		if !s.Ended.IsZero() && !s.Started.IsZero() && !s.Confirmed {
			r.warnOnce(fmt.Sprintf("the end of %s job %s is not yet confirmed by the accounting: its cost is that of our own clock", s.Engine, s.ID))
		}
	}
}

// shiftedClock is the clock of this machine with the monotonic clock of another one.
type shiftedClock struct {
	Clock
	there remoteSampler
}

// Monotonic returns the time of the other machine's monotonic clock.
func (c shiftedClock) Monotonic() time.Duration { return c.Clock.Monotonic() + c.there.ClockOffset() }
