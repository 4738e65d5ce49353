package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/wording"
	"trainopt/monitor"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/resources"
)

// Site is an engine on which jobs run instead of this machine.
type Site struct {
	Launcher launch.Launcher
	// Host is one node of the kind that the jobs ask for: the limits of the allocations.
	Host resources.Host
	// Whole is true if a job holds all of a node, whatever it asks for.
	Whole bool
	// Place is the kind of its nodes: partition and type of GPU; Idle of them are idle. Others are the other kinds that the
	// options of the user allow.
	Place  engine.Kind
	Idle   int
	Others []Site
	// Engine is the engine itself.
	Engine engine.Engine
	// Rates are the prices of the site; nil: the default rates of its GPU model.
	Rates *cost.Rates
	// Forecast predicts when a job of the given run time (0: unknown) would start at the place of an allocation, followed
	// by up to the given number of other places of the site that could run it; nil if the engine cannot tell.
	Forecast func(ctx context.Context, a resources.Allocation, runs time.Duration, others int) ([]engine.Forecast, error)
	// Capacity reports whether idle nodes exist for jobs with the given options of the engine; nil if the engine cannot
	// tell.
	Capacity func(ctx context.Context, engineArgs []string) (bool, error)
}

// rates returns unit prices as those of a node that a job holds as a whole, if it does.
func (s Site) rates(unit cost.Rates) cost.Rates {
	if !s.Whole || unit.Instance > 0 {
		return unit
	}
	return unit.WholeMachine(resources.Allocation{GPUs: len(s.Host.GPUs), CPUs: int(s.Host.CPUs), Memory: s.Host.Memory})
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
	cfg := r.Config
	cfg.EngineArgs = r.engineArgs()
	s, err := r.Site(ctx, cfg, r.asksGPUs())
	if s.Launcher != nil {
		r.site, r.Launcher = s, s.Launcher
	}
	if err != nil {
		return fmt.Errorf("--engine %s: %w", r.Config.Engine, err)
	}
	if r.Config.Spot == nil && r.Lease == nil { // a later agent would choose by what is idle then
		r.Config.Place = s.Place
	}
	return nil
}

// asksGPUs reports whether the jobs of a run ask the engine for GPUs, if it has any: by the range of the user, the limits of a
// run that exists already, or the script.
func (r *run) asksGPUs() bool {
	if r.Config.GPUs != "" {
		asked, err := resources.ParseRange(r.Config.GPUs, resources.Range{Max: math.MaxInt})
		return err != nil || asked.Max > 0
	}
	return r.Limits.GPUs.Max > 0 || r.ins.Path != "" && r.mayUseGPU()
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
	before := cmp.Or(r.Config.Engine, "local")
	r.Config.Engine, r.Config.EngineArgs, r.Config.Place = c.Engine, c.EngineArgs, engine.Kind{}
	if c.BillingHour > 0 {
		r.Config.BillingHour = c.BillingHour
	}
	if l, ok := r.Launcher.(interface {
		Release(context.Context, string) error
	}); ok {
		if err := l.Release(ctx, r.dir.Dir()); err != nil {
			return fmt.Errorf("release the resources of the run on its present engine: %w", err)
		}
	}
	r.Limits.GPUs.Max = 0
	var err error
	if r.Config.elsewhere() {
		if err = r.openSite(ctx); err == nil {
			r.Host = r.site.Host
		}
	} else {
		r.site, r.Launcher, r.Config.Nodes = Site{}, r.local, 0
		r.Host, err = r.Discover(ctx)
	}
	if err != nil {
		return err
	}
	r.resolveSiteRates()
	if err := r.resolveLimits(); err != nil {
		return err
	}
	r.Current, r.Phase, r.RestartS, r.StartupS, r.ClosingS = r.Baseline, probing, nil, nil, nil
	for _, s := range r.Progress.Segments {
		s.Blocks, s.Stated, s.Units, s.Timed = nil, nil, 0, 0
	}
	r.rec.Host, r.rec.Prices = journal.Host{Host: r.Host}, journal.Prices{Rates: r.Rates}
	r.rec.Baseline = nil
	if now := cmp.Or(c.Engine, "local"); now != before {
		r.warn("continues on another engine: " + now)
	}
	return nil
}

// charger is a Launcher whose engine grants, and charges, amounts other than those of the plan.
type charger interface {
	Charged(a resources.Allocation) resources.Allocation
}

// charged returns what is paid for when the job runs at an allocation.
func (r *run) charged(a resources.Allocation) resources.Allocation { return r.chargedAt(r.Launcher, a) }

// chargedAt returns what is paid for when a launcher runs the job at an allocation.
func (r *run) chargedAt(l launch.Launcher, a resources.Allocation) resources.Allocation {
	if c, ok := l.(charger); ok {
		if m := c.Charged(r.enforced(a)).Memory; m > 0 { // otherwise the node is not known: the engine does not answer
			a.Memory = m
		}
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
	p, ok := r.siteFor(l.Place).Launcher.(launch.Preparer)
	if l.Place == nil {
		p, ok = r.Launcher.(launch.Preparer)
	}
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
	r.setPlan(plan.Plan{Allocation: r.Current, Planner: "static", Reason: "no place was available for " + m.to.Next.String(), Binding: "none"})
}

// settleEngine gives up what is still being obtained from the engine, and waits a while until that is done.
func (r *run) settleEngine() {
	r.abandonMove()
	r.endProbes()
	for _, s := range append(r.site.Others, Site{Launcher: r.Launcher}) {
		if l, ok := s.Launcher.(interface{ Settle(context.Context) }); ok {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			l.Settle(ctx)
			cancel()
		}
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
	if err := r.meter.Start(held, cost.Label(seg.Label), paid, r.Rates); err != nil {
		r.event(Warning, "%v", err)
	}
	seg.LaunchedAt, seg.StartedAt = held, now
	if r.StretchRates == nil {
		r.StretchRates = map[int]float64{}
	}
	r.StretchRates[r.Stretch], r.PlacedUSD = float64(r.Rates.Hourly(paid)), float64(r.meter.Total(held))
	r.QueuedS += (held - (now - waited)).Seconds()
	r.rec.Enforced = r.job.Enforced()
	r.followNode()
	r.event(Info, "%s after %s", q.Waiting(), length(held-(now-waited)))
	r.moveTimeLimit()
	r.recordStretches()
	r.save(true)
}

// followNode relates the readings of the observer and of the sampler to the machine on which the job runs.
func (r *run) followNode() {
	there := r.sampler.remote
	if there == nil {
		return
	}
	if n := there.MachineCPUs(); n > 0 {
		r.sampler.machineCPUs = n
	}
	if r.observer != nil {
		r.observer.clock = shiftedClock{r.Clock, there}
	}
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

// settleShare replaces the charge of a job that has shared its place, which was estimated as it ran, by its share of the
// time for which the place was held.
func (r *run) settleShare(share time.Duration) {
	if share <= 0 || r.queued != nil {
		return
	}
	if r.SharedUSD == nil {
		r.SharedUSD = map[int]float64{}
	}
	r.SharedUSD[r.Stretch] = r.StretchRates[r.Stretch]*share.Hours() - (float64(r.meter.Total(r.meter.Seen())) - r.PlacedUSD)
	r.correctCost()
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
		if strings.Contains(words, "MaxWall") { // QOSMaxWallDurationPerJobLimit, AssocMaxWallDurationPerJobLimit
			r.eventOnce(Warning, "limit", "the job asks for more time than its account or quality of service permits, and would wait for ever: state what they permit by --engine-arg=--time=MINUTES")
		}
	}
	if left := r.Config.SLA.TimeMax - r.elapsed(); r.Config.SLA.TimeMax > 0 && r.projected.seconds != nil {
		need := r.projected.seconds.P50 - r.Progress.Current().LaunchedAt.Seconds()
		if need > left.Seconds() && !math.IsNaN(need) {
			r.eventOnce(Warning, "queue", "the job still waits, and its predicted run time of %s no longer fits before the deadline", wording.Duration(need))
		}
	}
}

// adoptQueued continues to wait for, or to supervise, the job of another agent.
func (r *run) adoptQueued(h launch.Handle) {
	select {
	case <-r.queued.Started():
		if _, charged := r.meter.Running(); charged { // it had its place already
			r.queued = nil
			r.followNode()
		}
	default:
	}
	r.event(Info, "adopted %s job %s of %s", h.Engine, h.EngineID, r.dir.ID())
}

// continueElsewhere starts the next stretch of a job that the engine has ended, from its checkpoint; false if it keeps
// none. A job that makes no progress between two such ends, or begins again for want of anything saved, counts as failing.
func (r *run) continueElsewhere(exit launch.Exit) bool {
	if _, ok := r.resumeFrom(); !ok && !r.Resumable || r.Config.Restarts < 0 {
		return false
	}
	if seg := r.Progress.Current(); r.Progress.Done <= seg.StartDone || r.Progress.Rewound && !r.hasSaved() {
		if r.Failures++; r.Failures > r.Config.Restarts {
			return false
		}
	}
	if r.market != nil && r.Market.On.Machine == capacity.Spot {
		r.Market.Taken++
	}
	r.event(Warning, "%s; continuing from the checkpoint in a new job", describeExit(exit))
	r.retryAt = r.elapsed() + time.Millisecond
	return true
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
	for _, n := range slices.Sorted(maps.Keys(r.SharedUSD)) {
		r.CorrectedUSD += r.SharedUSD[n]
	}
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
	}) && !slices.ContainsFunc(rec.SiteProbes, func(p journal.SiteProbe) bool { return !p.Confirmed && p.ID != "" }) {
		return nil
	}
	jd, err := journal.Open(dir)
	if err != nil {
		return err
	}
	unlock, err := jd.LockFor("confirming its cost", 0)
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
	before := r.besideUSD(r.Clock.Now())
	r.recordStretches()
	r.askAbout(ctx, r.site.Engine, r.openProbes())()
	r.recordSiteProbes()
	rec.Outcome.CostUSD += journal.Number(r.besideUSD(r.Clock.Now()) - before)
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
