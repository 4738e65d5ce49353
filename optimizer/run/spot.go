package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/resources"
)

// byReclaim is the reason of a stop before the machine is reclaimed.
const byReclaim = "reclaimed"

const (
	// noticeInterval is the time between two requests to the metadata service.
	noticeInterval = 5 * time.Second
	// reclaimMargin is the time for the last records and reports between the end of the training and that of the machine.
	reclaimMargin = 5 * time.Second
	// shortestGrace is the time for a stop if the machine is reclaimed immediately.
	shortestGrace = 2 * time.Second
)

// reclaiming is the state of a run whose machine may be reclaimed.
type reclaiming struct {
	metadata chan error // capacity 1: the first error of the metadata service; nil if none is asked
	leaving  *departure // nil unless the machine is about to be reclaimed
	market   *market    // nil unless the run chooses between machines
	// reclaimedBefore is set if the run was stopped because its machine was reclaimed, and continues on another.
	reclaimedBefore bool
	// tookDevices is set if the scheduler of the run ended its last job, to give the devices to others.
	tookDevices bool
}

// departure is the end of the run on this machine.
type departure struct {
	grace    time.Duration // for the stop
	repeated bool          // the user has requested a stop too
}

// reclaimed is the value on the interrupts channel that announces the end of this machine.
type reclaimed struct{ resources.Reclaim }

func (reclaimed) String() string { return "end of spot capacity" }
func (reclaimed) Signal()        {}

// grace returns the time that remains for a stop.
func (s reclaimed) grace() time.Duration {
	return max(time.Until(s.By)-reclaimMargin, shortestGrace)
}

var _ os.Signal = reclaimed{}

// watchMachine asks the metadata service, beside the loop, until it announces the end of this machine or the returned
// function is called.
func (r *run) watchMachine(ctx context.Context) (stop func()) {
	if r.Config.SpotNotice == "" || r.Config.elsewhere() || r.Config.Described != nil {
		return func() {}
	}
	service, err := resources.ParseMetadata(r.Config.SpotNotice)
	if err != nil {
		r.event(Warning, "%v", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	r.metadata = make(chan error, 1)
	done := make(chan struct{})
	go func(failed chan<- error) {
		defer r.watchdog.raise()
		defer close(done)
		ticker := time.NewTicker(noticeInterval)
		defer ticker.Stop()
		for {
			notice, err := service.Reclaim(ctx)
			if notice != nil {
				r.watchdog.announce(reclaimed{*notice})
				return
			}
			if err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}(r.metadata)
	return func() { cancel(); <-done }
}

// noteMetadata reports the first error of the metadata service.
func (r *run) noteMetadata() {
	select {
	case err := <-r.metadata:
		r.eventOnce(Warning, "metadata", "%v: the end of this machine is not announced until it answers", err)
	default:
	}
}

// leaveMachine stops the run before its machine is reclaimed.
func (r *run) leaveMachine(notice reclaimed) {
	if r.userCode != 0 { // it is stopping already
		return
	}
	r.userCode, r.leaving = CodeTryAgain, &departure{grace: notice.grace()}
	how := "stopping"
	if r.keepsWork() {
		how = "saving a checkpoint and stopping"
	}
	words := notice.Cloud + " reclaims this machine at " + notice.By.Local().Format(time.TimeOnly)
	r.event(Warning, "%s (in %s): %s", words, length(max(0, time.Until(notice.By).Round(time.Second))), how)
	if r.Pending != nil && r.job != nil { // already exiting: do not relaunch
		if r.Pending.Next != nil {
			r.Pending.Why, r.Pending.Next, r.Pending.Words = byReclaim, nil, words
			r.saveState()
		}
		return
	}
	r.requestStop(&pendingStop{Why: byReclaim, Words: words})
}

// grace returns the time for a stop. The default is extended so that a job which saves on request has half of it for that, because it
// reads the request at the end of a step.
func (r *run) grace() time.Duration {
	switch saves := r.Resumable || r.savesOnRequest(); {
	case r.leaving != nil:
		return r.leaving.grace
	case r.Pending != nil && r.Pending.Grace != nil:
		return *r.Pending.Grace
	case !saves || r.Config.Grace != defaultGrace:
		return r.Config.Grace
	}
	return max(r.Config.Grace, 2*r.saveTime())
}

// marketFacts are the facts of a run that chooses between spot capacity and a machine on demand.
type marketFacts struct {
	On      capacity.Choice `json:"on"` // the machine of the latest launch; none while the run waits
	Waiting *heldLaunch     `json:"waiting,omitempty"`
	Taken   int             `json:"taken,omitempty"` // machines that were taken away
	// Seen contains the changes of capacity by zone as the engine reported them, oldest first.
	Seen [][]capacityChange `json:"seen,omitempty"`
	// ExpectedUSD and AloneUSD are the expected cost of the run and the cost on demand alone, at the first plan.
	ExpectedUSD float64 `json:"expected_usd,omitempty"`
	AloneUSD    float64 `json:"alone_usd,omitempty"`
}

// heldLaunch is a launch that waits for capacity.
type heldLaunch struct {
	Allocation resources.Allocation `json:"allocation"`
	Label      string               `json:"label"`
	Kept       bool                 `json:"kept"` // it continues from a checkpoint
	Since      time.Duration        `json:"since"`
}

// capacityChange is a change of the capacity of a zone, in elapsed seconds of the run.
type capacityChange struct {
	AtS float64 `json:"at_s"`
	Up  bool    `json:"up"`
}

// market is the choice of the machine during a run; nil without offers.
type market struct {
	traces []capacity.Trace // by zone; without ticks for a zone of which the engine is asked
	tickS  float64          // between two decisions
	nextAt time.Duration
	policy capacity.Adaptive
	job    capacity.Job // for which the policy was made
	asked  time.Duration
	idle   chan []capacityAnswer // capacity 1: of the engine; nil unless it is asked now
}

// capacityAnswer is the engine's answer about a zone.
type capacityAnswer struct {
	up  bool
	err error
}

const (
	// engineTickS is the time between two decisions, and between two requests to an engine, in seconds.
	engineTickS = 60
	// longestTickS bounds the time between two decisions.
	longestTickS = 600
	// mostSeen bounds the number of ticks of past capacity.
	mostSeen = 10080
)

// openMarket prepares the choice between the offers of the configuration. With the single offer of this machine none
// exists.
func (r *run) openMarket() error {
	offers := r.Config.Spot
	if offers == nil || r.Config.SpotHere {
		return nil
	}
	m := &market{tickS: longestTickS, traces: make([]capacity.Trace, len(offers.Zones))}
	for z, o := range offers.Zones {
		if o.Trace == "" {
			m.tickS = min(m.tickS, engineTickS)
			continue
		}
		list, err := capacity.Load(o.Trace)
		if err != nil {
			return fmt.Errorf("--spot-offers: %s: %w", o.Name, err)
		}
		m.traces[z] = list[0]
		m.tickS = min(m.tickS, list[0].TickS)
	}
	if len(r.Market.Seen) != len(offers.Zones) {
		r.Market.Seen = make([][]capacityChange, len(offers.Zones))
	}
	r.market = m
	return nil
}

// offer returns the offer of a choice.
func (r *run) offer(c capacity.Choice) capacity.Offer {
	if c.Machine == capacity.Spot {
		return r.Config.Spot.Zones[c.Zone]
	}
	return r.Config.Spot.OnDemand
}

// up reports whether a zone had capacity at a time of the run, in elapsed seconds, which is before the run for a trace.
func (r *run) up(zone int, atS float64) bool {
	if t := r.market.traces[zone]; len(t.Up) > 0 {
		return t.Up[int((r.Config.Spot.Zones[zone].StartS+atS)/t.TickS)%len(t.Up)]
	}
	on := r.Market.On
	if r.job != nil && r.queued == nil && on.Machine == capacity.Spot && on.Zone == zone && atS >= r.elapsed().Seconds() {
		return true // the run holds it
	}
	for _, c := range slices.Backward(r.Market.Seen[zone]) {
		if c.AtS <= atS {
			return c.Up
		}
	}
	return false
}

// seen returns the capacity of each zone at the ticks of at most the past week, as far as all zones know it.
func (r *run) seen() [][]bool {
	m, now := r.market, r.elapsed().Seconds()
	from := math.Inf(-1)
	for z, o := range r.Config.Spot.Zones {
		switch {
		case len(m.traces[z].Up) > 0:
			from = max(from, -o.StartS)
		case len(r.Market.Seen[z]) > 0:
			from = max(from, r.Market.Seen[z][0].AtS)
		default:
			from = now
		}
	}
	n := 1 + int(max(0, min((now-from)/m.tickS, capacity.Week/m.tickS-1, mostSeen-1)))
	out := make([][]bool, len(m.traces))
	for z := range out {
		for k := range n {
			out[z] = append(out[z], r.up(z, now-float64(n-1-k)*m.tickS))
		}
	}
	return out
}

// spotState returns the input of the policy; false while work, pace or changeover are unknown.
func (r *run) spotState() (capacity.State, bool) {
	unit, change, total := r.unitSeconds(false), r.changeover(), r.total()
	if math.IsNaN(unit+change) || !(total > 0) {
		return capacity.State{}, false
	}
	usd := 0.0
	for _, o := range r.Config.Spot.Zones {
		usd += float64(o.Rates.Instance) / float64(len(r.Config.Spot.Zones))
	}
	nodes := float64(max(1, r.Host.Nodes))
	deadline := (r.Config.SLA.TimeMax - r.reserve() - r.Config.Interval).Seconds()
	s := capacity.State{Job: capacity.Job{WorkS: total * unit, DeadlineS: max(deadline, 1e-3), ChangeoverS: change, SpotUSDHour: usd * nodes,
		OnDemandUSDHour: float64(r.Config.Spot.OnDemand.Rates.Instance) * nodes}, NowS: r.elapsed().Seconds(), DoneS: min(r.Progress.Done, total) * unit,
		TickS: r.market.tickS, PaidUSD: r.spent(), Seen: r.seen()}
	for _, seen := range s.Seen {
		k := len(seen)
		for k > 0 && seen[k-1] {
			k--
		}
		s.Up = append(s.Up, seen[len(seen)-1])
		s.UpS = append(s.UpS, min(float64(len(seen)-k)*s.TickS, s.NowS))
	}
	if r.job != nil && r.queued == nil {
		s.On, s.ReadyS = r.Market.On, s.NowS
		if seg := r.Progress.Current(); seg.FirstRowAt == 0 {
			s.ReadyS = seg.LaunchedAt.Seconds() + change
		}
	}
	return s, true
}

// unitSeconds returns the measured seconds per unit of work, of the launches on demand only if demand is set; NaN if
// they were not measured.
func (r *run) unitSeconds(demand bool) float64 {
	units, seconds, enough := 0.0, 0.0, false
	for _, s := range r.Progress.Segments {
		if demand && !s.OnDemand {
			continue
		}
		units, seconds, enough = units+s.Units, seconds+s.Timed, enough || r.Progress.MeasuredEnough(s)
	}
	if !enough || units <= 0 {
		return math.NaN()
	}
	return seconds / units
}

// changeover returns the seconds that a change of the machine takes, with the time in which the agent notices an event:
// as measured in this run, otherwise as stated by the offers or measured in earlier runs. NaN if unknown.
func (r *run) changeover() float64 {
	worst := r.measuredChangeover()
	switch {
	case !math.IsNaN(worst):
	case r.Config.Spot.ChangeoverS > 0:
		worst = r.Config.Spot.ChangeoverS
	case len(r.RestartS) > 0:
		worst = stat.Median(r.RestartS)
	case len(r.StartupS) > 0:
		worst = stat.Median(r.StartupS)
	}
	return worst + r.Config.Interval.Seconds()
}

// measuredChangeover returns the larger of the median restart and the median start-up in seconds; NaN without either.
func (r *run) measuredChangeover() float64 {
	worst := math.NaN()
	for _, list := range [][]float64{r.Progress.RestartSeconds(), r.Progress.StartupSeconds()} {
		if len(list) > 0 && !(stat.Median(list) < worst) {
			worst = stat.Median(list)
		}
	}
	return worst
}

// choose returns the machine for the next tick.
func (r *run) choose() capacity.Choice {
	demand := capacity.Choice{Machine: capacity.OnDemand}
	if !r.keepsWork() {
		r.eventOnce(Warning, "spot-checkpoint", "the training keeps no checkpoint so far, and would lose its work with the machine: on demand")
		return demand
	}
	s, known := r.spotState()
	if !known {
		return r.chooseUnmeasured()
	}
	if old := r.market.job; !(math.Abs(s.WorkS/old.WorkS-1) < 0.05 && math.Abs(s.ChangeoverS-old.ChangeoverS) < 0.05*max(s.ChangeoverS, s.TickS)) {
		r.market.policy, r.market.job = capacity.Adaptive{}, s.Job // the plan no longer holds
	}
	c := r.market.policy.Choose(s)
	if usd, ok := r.market.policy.Expected(); ok && r.Market.AloneUSD == 0 {
		r.Market.ExpectedUSD, r.Market.AloneUSD = s.PaidUSD+usd, s.AloneUSD()
	}
	return c
}

// chooseUnmeasured returns the machine until work and pace are known: the present one, or the cheapest zone with
// capacity. Without capacity, or after a machine was taken away before anything was measured, only a machine on demand
// keeps the deadline.
func (r *run) chooseUnmeasured() capacity.Choice {
	on, now := r.Market.On, r.elapsed().Seconds()
	if r.job != nil && (on.Machine == capacity.OnDemand || on.Machine == capacity.Spot && r.up(on.Zone, now)) {
		return on
	}
	best := capacity.Choice{Machine: capacity.OnDemand}
	if r.Market.Taken > 0 {
		return best
	}
	for z, o := range r.Config.Spot.Zones {
		if r.up(z, now) && (best.Machine == capacity.OnDemand || o.Rates.Instance < r.offer(best).Rates.Instance) {
			best = capacity.Choice{Machine: capacity.Spot, Zone: z}
		}
	}
	return best
}

// place launches the job on the machine that the market selects, or waits for capacity.
func (r *run) place(ctx context.Context, a resources.Allocation, label string, resume bool) {
	if r.market == nil {
		r.launch(ctx, a, label, resume)
		return
	}
	r.askEngine(true)
	since := r.elapsed()
	if w := r.Market.Waiting; w != nil {
		since = w.Since
	}
	c := r.choose()
	if r.Market.On = c; c.Machine == capacity.None {
		r.Market.Waiting = &heldLaunch{a, label, resume, since}
		r.event(Info, "no spot capacity: waiting for it, the deadline permits that")
		r.save(true)
		return
	}
	o := r.offer(c)
	if r.Market.Waiting != nil {
		r.QueuedS += (r.elapsed() - since).Seconds()
		r.Market.Waiting = nil
	}
	if err := r.enter(ctx, o); err != nil {
		if !resume {
			r.failStart(CodeOurs, err, err)
			return
		}
		r.eventOnce(Warning, "offer "+o.Name, "%v; trying again", err)
		r.retryAt = r.elapsed() + retryEngine
		return
	}
	r.event(Info, "%s, %s: %s per hour", machineWords[c.Machine], o.Name, page.USD(float64(r.Rates.Instance)))
	r.market.nextAt = r.elapsed() + time.Duration(r.market.tickS*float64(time.Second))
	if r.Config.elsewhere() { // nodes of another offer may be smaller
		a = r.Limits.Clip(a)
	}
	r.launch(ctx, a, label, resume)
	if seg := r.Progress.Current(); seg != nil {
		seg.OnDemand = c.Machine == capacity.OnDemand
	}
}

var machineWords = map[capacity.Machine]string{capacity.Spot: "on spot capacity", capacity.OnDemand: "on demand"}

// enter makes an offer the place and the price of the next launch.
func (r *run) enter(ctx context.Context, o capacity.Offer) error {
	if r.Config.elsewhere() {
		before := r.Host
		if err := r.openSite(ctx); err != nil {
			return err
		}
		if r.Host = r.site.Host; before.CPUs != r.Host.CPUs || before.Memory != r.Host.Memory || len(before.GPUs) != len(r.Host.GPUs) {
			r.rec.Host = journal.Host{Host: r.Host}
			if err := r.resolveLimits(); err != nil {
				return err
			}
			r.Current = r.Limits.Clip(r.Current)
		}
	}
	r.Rates = o.Rates.Times(r.Host.Nodes)
	return nil
}

// engineArgs returns the options of the engine, with those of the offer on which the run is, or will be, placed.
func (r *run) engineArgs() []string {
	if r.Config.Spot == nil {
		return r.Config.EngineArgs
	}
	return slices.Concat(r.Config.EngineArgs, r.offer(r.Market.On).EngineArgs)
}

// followMarket leaves a machine whose capacity ends, and moves to the machine that the policy selects.
func (r *run) followMarket(ctx context.Context) {
	m := r.market
	if m == nil || r.ended != nil || r.Pending != nil {
		return
	}
	r.askEngine(false)
	now := r.elapsed()
	on := r.Market.On
	if r.job != nil && on.Machine == capacity.Spot && len(m.traces[on.Zone].Up) > 0 && !r.up(on.Zone, now.Seconds()) {
		r.leaveZone(fmt.Sprintf("the spot capacity of %s ends", r.offer(on).Name))
		return
	}
	if now < m.nextAt {
		return
	}
	m.nextAt = now + time.Duration(m.tickS*float64(time.Second))
	switch w := r.Market.Waiting; {
	case w != nil && r.job == nil:
		if r.choose().Machine != capacity.None {
			r.place(ctx, w.Allocation, w.Label, w.Kept)
		}
	case r.job != nil && !r.Progress.Finished():
		if c := r.choose(); c != on {
			words := "waiting for spot capacity costs less"
			if c.Machine != capacity.None {
				words = machineWords[c.Machine] + " from now on, " + r.offer(c).Name
			}
			r.event(Info, "%s: saving a checkpoint and moving", words)
			r.requestStop(&pendingStop{Why: "restart", Next: &r.Current, Label: r.launchLabel(), Words: words})
		}
	}
}

// leaveZone saves and stops the job because its spot capacity ends, and lets the market place it again.
func (r *run) leaveZone(words string) {
	r.Market.Taken++
	r.event(Warning, "%s: saving a checkpoint and moving", words)
	next := r.Current
	r.requestStop(&pendingStop{Why: "restart", Next: &next, Label: r.launchLabel(), Words: words})
}
