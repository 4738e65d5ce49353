package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/resources"
)

// A run on an engine may measure the other kinds of nodes that its options allow: each by a short job in which another
// agent starts the training from the beginning, apart from its files (remote.Apart), and ends it when its pace is
// measured. The training itself runs on meanwhile, and moves if the measurement shows that the move pays.

const (
	probeFile = "probe.json" // what a probe measures, in its directory
	maxResult = 4 << 20
	// probeLimit bounds the time of a probe after its expected length, for nodes that are slower than assumed.
	probeLimit = 4
	// shortestProbe is the time limit of a probe that is expected to take no time: Slurm counts whole minutes.
	shortestProbe = 3 * time.Minute
	// lastSteps is the time for the last records of a probe before its time limit.
	lastSteps = 20 * time.Second
	// The spread of the assumed pace on nodes that were not measured, as a standard deviation of its logarithm.
	spreadOfGPUs, spreadOfCPUs = 0.7, 0.35
	// leastSpread is that of a measured pace.
	leastSpread = 0.04
	// mostDepartures bounds the moves of a run to another kind of node.
	mostDepartures = 2
	// accountWithin is the time for which the account of a probe that has ended is awaited.
	accountWithin = 2 * time.Minute
	// considerEvery is the time between two considerations of the other kinds of nodes; it doubles, up to considerRarely,
	// with each one that predicted the waits in the queue and started no probe.
	considerEvery, considerRarely = 15 * time.Second, 10 * time.Minute
	// askEvery is the time between two questions to the engine about probes.
	askEvery = 5 * time.Second
)

// Outcomes of a probe in journal.SiteProbe; any other text is the reason why it measured nothing.
const (
	probeActive   = ""
	probeMeasured = "measured"
)

// elsewhere is the state of the search for better nodes of the engine.
type elsewhere struct {
	applied    chan func() // capacity 1: what the work beside the loop found; nil while none is in progress
	considered time.Duration
	known      bool          // nothing was measured since
	every      time.Duration // 0 means considerEvery
	asked      time.Duration
	waits      map[engine.Kind]float64 // predicted seconds in the queue, by kind of node
}

// beside runs work beside the loop, one at a time; the function that it returns is called in the loop.
func (r *run) beside(work func(ctx context.Context) func()) {
	done := make(chan func(), 1)
	r.elsewhere.applied = done
	go func() {
		defer r.watchdog.raise()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done <- work(ctx)
	}()
}

// followElsewhere starts, follows and ends probes on other nodes, and decides whether to move there.
func (r *run) followElsewhere() {
	e := &r.elsewhere
	select {
	case apply := <-e.applied:
		e.applied = nil
		apply()
	default:
	}
	if r.ended != nil || len(r.site.Others) == 0 && len(r.SiteProbes) == 0 {
		return
	}
	now := r.elapsed()
	r.readResults()
	if e.applied == nil && now-e.asked >= askEvery && len(r.openProbes()) > 0 {
		e.asked = now
		r.askProbes()
	}
	r.boundProbes()
	if !r.elsewhereDue() || e.known && !r.mayPlan() {
		return
	}
	e.considered = now
	r.runPlanning(r.considerElsewhere)
}

// elsewhereDue reports whether the other kinds of nodes are to be considered as soon as the agent may plan.
func (r *run) elsewhereDue() bool {
	e := &r.elsewhere
	if len(r.site.Others) == 0 || r.queued != nil || r.moving != nil || r.Pending != nil || r.job == nil || r.Phase != working || e.applied != nil {
		return false
	}
	return !e.known || r.elapsed()-e.considered >= max(e.every, considerEvery)
}

// boundProbes withdraws the probes in progress when all probes together have reached their bound.
func (r *run) boundProbes() {
	budget, known := r.probeBudget()
	for _, p := range r.SiteProbes {
		if known && p.active() && p.Withdrawn == "" && r.probesSpent()+r.probesBesideUSD() > budget {
			p.Withdrawn = "it reached the probe budget"
		}
	}
}

// mayLeave returns why the run measures no other nodes; empty if it may.
func (r *run) mayLeave() string {
	switch {
	case r.Config.Planner == "static" || r.Config.Samples < 0:
		return "probes are off"
	case r.Lease != nil || r.market != nil:
		return "another part of the program chooses the nodes"
	case r.Config.Nodes > 1:
		return "a training on several nodes is not measured apart from its files"
	case !r.keepsWork():
		return "the training keeps no checkpoint with which it could move"
	}
	return ""
}

// considerElsewhere moves the job to the best of the measured kinds of nodes if that pays, and starts the probes that are
// worth their price.
func (r *run) considerElsewhere() {
	seg := r.Progress.Current()
	if r.model == nil || seg == nil || !r.Progress.MeasuredEnough(seg) || r.Progress.Finished() || r.total() == 0 {
		return
	}
	if why := r.mayLeave(); why != "" {
		r.eventOnce(Info, "elsewhere", "other nodes are not measured: %s", why)
		return
	}
	r.elsewhere.known = true
	s := r.snapshot()
	var best *Site
	var reason string
	var wanted []Site
	least := math.Inf(1)
	for _, o := range r.site.Others {
		a, fits := r.onNode(r.Current, o)
		if !fits || !r.allowedAt(a, o.Host) {
			continue
		}
		p := r.probeOf(o.Place)
		there := r.paceAt(o, a, p)
		switch {
		case p == nil && plan.WorthMeasuring(s, there, r.probePrice(there)): // should it start at once
			wanted = append(wanted, o)
		case p == nil:
		case p.Outcome == probeMeasured && r.Departures < mostDepartures:
			ok, why := plan.WorthLeaving(s, there)
			if ok && there.Seconds < least {
				site := o
				best, reason, least = &site, why, there.Seconds
			} else if !ok {
				r.eventOnce(Info, "elsewhere "+there.Name, "stays where it is: %s", why)
			}
		case p.active() && p.Started.IsZero() && !plan.WorthMeasuring(s, there, p.ExpectedUSD):
			p.Withdrawn = "it was no longer worth its price"
		}
	}
	switch {
	case best != nil && r.awaitsResult(): // the other one may be better
	case best != nil:
		r.event(Info, "moving to %s: %s", best.Place, reason)
		r.goTo(*best, reason)
	case len(wanted) > 0 && r.Departures == 0:
		r.wantProbes(wanted)
	}
}

// awaitsResult reports whether a probe runs, or has just been submitted.
func (r *run) awaitsResult() bool {
	return slices.ContainsFunc(r.SiteProbes, func(p *siteProbe) bool {
		return p.active() && p.Withdrawn == "" && (!p.Started.IsZero() || r.Clock.Now().Sub(p.Submitted) < 2*askEvery)
	})
}

// onNode returns the part of an allocation that a node of another site has; false if it lacks GPUs.
func (r *run) onNode(a resources.Allocation, o Site) (resources.Allocation, bool) {
	a.GPUIDs = nil
	a.CPUs = min(a.CPUs, int(o.Host.CPUs))
	if r.memoryFollows() {
		a = r.chargedAt(o.Launcher, a)
	}
	a.Memory = min(a.Memory, o.Host.Memory)
	return a, a.GPUs <= len(o.Host.GPUs) && a.CPUs > 0
}

// allowedAt reports whether the user's ranges allow an allocation on another kind of node.
func (r *run) allowedAt(a resources.Allocation, h resources.Host) bool {
	l := r.limitsOf(h, a.GPUs > 0)
	err := l.Restrict(resources.Ranges{GPUs: r.Config.GPUs, CPUs: r.Config.CPUs, Memory: r.Config.Memory, BatchSize: r.Config.BatchSize})
	return err == nil && l.Check(a, h) == nil
}

// probePrice returns what the measurement of an assumed pace costs, USD.
func (r *run) probePrice(there plan.Elsewhere) float64 {
	return (r.startup().P50 + r.measuringSeconds(there.Seconds)) / 3600 * there.Hourly
}

// ratesAt are the prices of another site, for an allocation there.
func (r *run) ratesAt(o Site) cost.Rates {
	switch {
	case r.Config.Rates != nil:
		return o.rates(*r.Config.Rates)
	case o.Rates != nil:
		return o.rates(*o.Rates)
	}
	f := facts{Config: r.Config, Host: o.Host}
	f.resolveRates()
	return o.rates(f.Rates)
}

// hourlyAt returns what another site charges for an allocation, USD per hour.
func (r *run) hourlyAt(o Site, a resources.Allocation) float64 {
	return float64(r.ratesAt(o).Hourly(r.chargedAt(o.Launcher, r.withMemory(a))))
}

// paceAt returns what is known of the job on another kind of node: measured by p, otherwise assumed to be that of the
// present node.
func (r *run) paceAt(o Site, a resources.Allocation, p *siteProbe) plan.Elsewhere {
	e := plan.Elsewhere{Name: o.Place.String(), Hourly: r.hourlyAt(o, a), Seconds: r.model.UnitSeconds(r.Current).P50,
		Spread: spreadOfCPUs, Wait: r.elsewhere.waits[o.Place]}
	if a.GPUs > 0 {
		e.Spread = spreadOfGPUs
	}
	if p == nil {
		return e
	}
	if waited := p.Started.Sub(p.Submitted); !p.Started.IsZero() && p.ID != "" {
		e.Wait = waited.Seconds()
	} else if p.active() {
		e.Wait = max(e.Wait, r.Clock.Now().Sub(p.Submitted).Seconds())
	}
	if p.Outcome == probeMeasured {
		e.Seconds, e.Spread = stat.Median(p.paces()), max(p.Spread, leastSpread)
	}
	return e
}

// probeMoney returns what all probes may cost, USD; 0 if that is unknown.
func (r *run) probeMoney() float64 {
	budget, _ := r.probeBudget()
	return budget
}

// probesBesideUSD returns the cost of the probes on other nodes, USD: that of those in progress as far as it is expected.
func (r *run) probesBesideUSD() float64 {
	sum := 0.0
	for _, p := range r.SiteProbes {
		if usd := p.spent(r.Clock.Now()); p.active() {
			sum += max(usd, p.ExpectedUSD)
		} else {
			sum += usd
		}
	}
	return sum
}

// wantProbes predicts the waits for other nodes beside the loop, and then starts the probes that are worth their price.
func (r *run) wantProbes(wanted []Site) {
	current := r.Current
	r.beside(func(ctx context.Context) func() {
		waits := map[engine.Kind]float64{}
		for _, o := range wanted {
			if o.Idle > 0 {
				waits[o.Place] = 0
			}
			if o.Forecast != nil {
				a, _ := r.onNode(current, o)
				if f, err := o.Forecast(ctx, a, shortestProbe, 0); err == nil && len(f) > 0 {
					waits[o.Place] = f[0].Wait.P50
				}
			}
		}
		return func() {
			r.elsewhere.waits = waits
			r.startProbes(wanted)
		}
	})
}

// startProbes records the probes that are worth their price and submits them side by side.
func (r *run) startProbes(wanted []Site) {
	if r.ended != nil || r.Pending != nil || r.moving != nil || r.job == nil || r.model == nil {
		return
	}
	s := r.snapshot()
	var sites []Site
	var probes []*siteProbe
	for _, o := range wanted {
		a, _ := r.onNode(r.Current, o)
		wait, known := r.elsewhere.waits[o.Place]
		if _, can := o.Launcher.(prober); !can || !known || len(r.SiteProbes) >= r.Config.Samples {
			continue
		}
		there := r.paceAt(o, a, nil)
		price := r.probePrice(there)
		if r.probesSpent()+r.probesBesideUSD()+price > r.probeMoney() || !plan.WorthMeasuring(s, there, price) {
			continue
		}
		seconds := r.startup().P50 + r.measuringSeconds(there.Seconds)
		limit := max(shortestProbe, time.Duration(probeLimit*seconds*float64(time.Second)).Round(time.Second)+lastSteps)
		p := &siteProbe{Limit: limit, ExpectedUSD: price}
		p.Place, p.Allocation, p.Submitted, p.USDHour = o.Place, a, r.Clock.Now(), journal.Number(there.Hourly)
		n := len(r.SiteProbes) + 1
		p.Key = fmt.Sprintf("optimize.%s.probe.%d", r.dir.ID(), n)
		r.SiteProbes = append(r.SiteProbes, p)
		if err := r.describeProbe(n, o); err != nil {
			p.Outcome = err.Error()
			continue
		}
		r.event(Info, "measuring %s beside the job, at %s: %s", o.Place, a, waitWords(wait))
		sites, probes = append(sites, o), append(probes, p)
	}
	if len(probes) == 0 {
		r.elsewhere.every = min(2*max(r.elsewhere.every, considerEvery), considerRarely)
		return
	}
	r.save(true) // before they are submitted: those of an agent that dies now must be findable
	r.beside(func(ctx context.Context) func() {
		ids, errs := make([]string, len(probes)), make([]error, len(probes))
		for i, p := range probes {
			ids[i], errs[i] = sites[i].Launcher.(prober).Probe(ctx, p.Key, r.probeDir(p.Key), r.enforced(p.Allocation), p.Limit)
		}
		return func() {
			for i, p := range probes {
				if p.ID = ids[i]; errs[i] != nil && ids[i] == "" {
					p.Outcome = errs[i].Error()
					r.event(Warning, "%s is not measured: %s", p.Place, p.Outcome)
				}
			}
			r.save(true)
		}
	})
}

func waitWords(seconds float64) string {
	if seconds < 1 {
		return "a node is idle"
	}
	return "predicted to start in " + length(time.Duration(seconds*float64(time.Second)))
}

// measuringSeconds returns the time in which a pace is measured after the start-up.
func (r *run) measuringSeconds(unit float64) float64 {
	blocks := 2 * math.Max(1, math.Ceil(minBlock.Seconds()/unit))
	if unit >= longUnit.Seconds() {
		blocks = 1
	}
	return max((1+blocks)*unit, unit+r.probeTime().Seconds())
}

// probeTime returns the minimum time for which a probe is timed.
func (r *run) probeTime() time.Duration { return r.Progress.ProbeTime(r.restartCost().P50) }

// probeDir returns the directory of a probe.
func (r *run) probeDir(key string) string {
	return r.dir.Path(filepath.Join("probes", strings.TrimPrefix(key, "optimize."+r.dir.ID()+".probe.")))
}

// endProbes cancels the probes in progress and waits a while for the accounts.
func (r *run) endProbes() {
	eng := r.site.Engine
	defer r.clearProbes()
	if eng == nil || len(r.openProbes()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if r.elsewhere.applied != nil { // it may be submitting one
		select {
		case apply := <-r.elsewhere.applied:
			apply()
		case <-ctx.Done():
		}
	}
	for _, p := range r.SiteProbes {
		if p.active() {
			p.Withdrawn = cmp.Or(p.Withdrawn, "the run ended first")
		}
	}
	for {
		r.askAbout(ctx, eng, r.openProbes())()
		if len(r.openProbes()) == 0 || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// clearProbes removes the files of the probes that were measured.
func (r *run) clearProbes() {
	for _, p := range r.SiteProbes {
		if p.Key != "" && p.Outcome == probeMeasured && p.Confirmed {
			os.RemoveAll(r.probeDir(p.Key)) // what remains is harmless
		}
	}
}

// goTo moves the job to another kind of node: its place is obtained while the job runs on.
func (r *run) goTo(o Site, reason string) {
	a, _ := r.onNode(r.Current, o)
	r.Departures++
	kind := o.Place
	r.act(a, reason, "restart", fmt.Sprintf("%s → %s", r.site.Place, kind))
	r.leaveFor(&pendingStop{Why: "restart", Next: &a, Label: "run", Place: &kind})
}

// siteFor returns the site of a kind of node: this one or another.
func (r *run) siteFor(kind *engine.Kind) Site {
	if kind != nil {
		for _, o := range r.site.Others {
			if o.Place == *kind {
				return o
			}
		}
	}
	return r.site
}

// askEngine asks the engine for the capacity of its zones, beside the loop unless wait is set, and records its answer.
func (r *run) askEngine(wait bool) {
	m := r.market
	if r.site.Capacity == nil || !slices.ContainsFunc(m.traces, func(t capacity.Trace) bool { return len(t.Up) == 0 }) {
		return
	}
	if m.idle == nil && (m.asked == 0 || r.elapsed()-m.asked >= engineTickS*time.Second) {
		m.asked, m.idle = max(r.elapsed(), 1), make(chan []capacityAnswer, 1)
		go func(ask func(context.Context, []string) (bool, error), zones []capacity.Offer, base []string, to chan<- []capacityAnswer) {
			defer r.watchdog.raise()
			ctx, cancel := context.WithTimeout(context.Background(), engineTickS*time.Second)
			defer cancel()
			var out []capacityAnswer
			for _, o := range zones {
				up, err := ask(ctx, slices.Concat(base, o.EngineArgs))
				out = append(out, capacityAnswer{up, err})
			}
			to <- out
		}(r.site.Capacity, r.Config.Spot.Zones, r.Config.EngineArgs, m.idle)
	}
	if m.idle == nil {
		return
	}
	patience := time.Duration(0)
	if wait {
		patience = 10 * time.Second
	}
	select {
	case list := <-m.idle:
		m.idle = nil
		r.noteCapacity(list)
	case <-time.After(patience):
	}
}

// noteCapacity records the answer of the engine.
func (r *run) noteCapacity(list []capacityAnswer) {
	now := r.elapsed().Seconds()
	for z, a := range list {
		if a.err != nil {
			r.eventOnce(Warning, "capacity", "%v: the capacity known last applies", a.err)
			continue
		}
		on := r.Market.On
		held := r.job != nil && r.queued == nil && on.Machine == capacity.Spot && on.Zone == z
		up, known := a.up || held, r.Market.Seen[z]
		if len(known) == 0 || known[len(known)-1].Up != up {
			r.Market.Seen[z] = append(known[max(0, len(known)-mostSeen):], capacityChange{now, up})
		}
	}
}
