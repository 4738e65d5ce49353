package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/regular"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// A run on an engine may measure the other kinds of nodes that its options allow: each by a short job in which another
// agent starts the training from the beginning, apart from its files (remote.Apart), and ends it when its pace is
// measured. The training itself runs on meanwhile, and moves if the measurement shows that the move pays.

// ResultFile is the file of a ProbeResult.
const ResultFile = "result.json"

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

// prober is a Launcher that can start a short job apart from the stretches of a run.
type prober interface {
	// Probe submits a job that measures what the directory describes; it is idempotent on key.
	Probe(ctx context.Context, key, dir string, a resources.Allocation, limit time.Duration) (id string, err error)
}

// elsewhere is the state of the search for better nodes of the engine.
type elsewhere struct {
	applied    chan func() // capacity 1: what the work beside the loop found; nil while none is in progress
	considered time.Duration
	known      bool          // nothing was measured since
	every      time.Duration // 0 means considerEvery
	asked      time.Duration
	waits      map[engine.Kind]float64 // predicted seconds in the queue, by kind of node
}

// siteProbe is a probe on another kind of node. The pace of a node that the run has left is one that ended long ago.
type siteProbe struct {
	journal.SiteProbe
	Limit time.Duration `json:"limit_ns"`
	// ExpectedUSD is what it was expected to cost.
	ExpectedUSD float64 `json:"expected_usd"`
	Withdrawn   string  `json:"withdrawn,omitempty"` // why it was cancelled by the run
	Spread      float64 `json:"spread,omitempty"`
}

// active reports whether its job may be pending or running.
func (p *siteProbe) active() bool { return p.Outcome == probeActive }

// spent returns the charge of a probe until now, USD.
func (p *siteProbe) spent(now time.Time) float64 {
	switch {
	case p.Started.IsZero():
		return 0
	case !p.Ended.IsZero():
		now = p.Ended
	}
	return max(0, now.Sub(p.Started).Hours()) * float64(p.USDHour)
}

// besideUSD returns the cost of the run that its meter does not contain: late accounts, and probes on other nodes.
func (f *facts) besideUSD(now time.Time) float64 {
	usd := f.CorrectedUSD
	for _, p := range f.SiteProbes {
		usd += p.spent(now)
	}
	return usd
}

// besideRate returns what the probes in progress cost, USD per hour, and what they are still expected to cost, USD.
func (f *facts) besideRate(now time.Time) (hourly, rest float64) {
	for _, p := range f.SiteProbes {
		if !p.active() {
			continue
		}
		if !p.Started.IsZero() && p.Ended.IsZero() {
			hourly += float64(p.USDHour)
		}
		rest += max(0, p.ExpectedUSD-p.spent(now))
	}
	return hourly, rest
}

// recordSiteProbes copies the probes to the record.
func (r *run) recordSiteProbes() {
	r.rec.SiteProbes = nil
	for _, p := range r.SiteProbes {
		p.CostUSD = journal.Number(p.spent(r.Clock.Now()))
		if p.UnitSeconds == nil {
			p.UnitSeconds = []journal.Number{}
		}
		r.rec.SiteProbes = append(r.rec.SiteProbes, p.SiteProbe)
	}
}

// probeOf returns the probe of a kind of node; nil if it was not measured.
func (f *facts) probeOf(kind engine.Kind) *siteProbe {
	for _, p := range slices.Backward(f.SiteProbes) {
		if p.Place == kind {
			return p
		}
	}
	return nil
}

// beside runs work beside the loop, one at a time; the function that it returns is called in the loop.
func (r *run) beside(work func(ctx context.Context) func()) {
	done := make(chan func(), 1)
	r.elsewhere.applied = done
	go func() {
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

// open reports whether the engine may know more about a probe: its start, its end or its account.
func (p *siteProbe) open(now time.Time) bool {
	return p.active() || p.ID != "" && !p.Confirmed && (p.Ended.IsZero() || now.Sub(p.Ended) < accountWithin)
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
		a, fits := onNode(r.Current, o.Host)
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

// onNode returns the part of an allocation that a node of another kind has; false if it lacks GPUs.
func onNode(a resources.Allocation, h resources.Host) (resources.Allocation, bool) {
	a.GPUIDs = nil
	a.CPUs = min(a.CPUs, int(h.CPUs))
	a.Memory = min(a.Memory, h.Memory)
	return a, a.GPUs <= len(h.GPUs) && a.CPUs > 0
}

// allowedAt reports whether the user's ranges allow an allocation on another kind of node.
func (r *run) allowedAt(a resources.Allocation, h resources.Host) bool {
	l := resources.DefaultLimits(h, a.GPUs > 0)
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
		return *r.Config.Rates
	case o.Rates != nil:
		return *o.Rates
	}
	f := facts{Config: r.Config, Host: o.Host}
	f.resolveRates()
	return f.Rates
}

// hourlyAt returns what another site charges for an allocation, USD per hour.
func (r *run) hourlyAt(o Site, a resources.Allocation) float64 {
	charged := r.withMemory(a)
	if c, ok := o.Launcher.(charger); ok {
		charged.Memory = c.Charged(r.enforced(a)).Memory
	}
	return float64(r.ratesAt(o).Hourly(charged))
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
		e.Seconds, e.Spread = median(p.paces()), max(p.Spread, leastSpread)
	}
	return e
}

// paces returns the measured seconds per unit of work.
func (p *siteProbe) paces() []float64 {
	var out []float64
	for _, v := range p.UnitSeconds {
		out = append(out, float64(v))
	}
	return out
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
				a, _ := onNode(current, o.Host)
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
		a, _ := onNode(r.Current, o.Host)
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
	seconds := (1 + blocks) * unit
	if r.Progress.Unit == "step" {
		seconds = max(seconds, unit+stepsShown.Seconds())
	}
	return seconds
}

// probeDir returns the directory of a probe.
func (r *run) probeDir(key string) string {
	return r.dir.Path(filepath.Join("probes", strings.TrimPrefix(key, "optimize."+r.dir.ID()+".probe.")))
}

// ProbeSpec is what a probe measures: the configuration of a run that ends when it has measured its pace, and the
// directories that it may change in its own view of the file system.
type ProbeSpec struct {
	Config Config   `json:"config"`
	Change []string `json:"change"`
}

// ProbeResult is what a probe measured.
type ProbeResult struct {
	Unit        string           `json:"unit"` // of work
	UnitSeconds []journal.Number `json:"unit_seconds"`
	Why         string           `json:"why,omitempty"` // nothing was measured
}

// ReadProbe reads what the probe of a directory measures.
func ReadProbe(dir string) (ProbeSpec, error) {
	var s ProbeSpec
	data, err := regular.ReadFile(filepath.Join(dir, probeFile), maxResult)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the probe of %s: %w", dir, err)
	}
	return s, nil
}

// Write stores the result in the directory of the probe.
func (p ProbeResult) Write(dir string) error { return writeFile(dir, ResultFile, p) }

func writeFile(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return regular.Replace(filepath.Join(dir, name), 0o600, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// describeProbe writes what the n-th probe measures at another site.
func (r *run) describeProbe(n int, o Site) error {
	p := r.SiteProbes[n-1]
	dir := r.probeDir(p.Key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("prepare the probe: %w", err)
	}
	c, rates := r.Config, r.ratesAt(o)
	c.MeasureOnly, c.Planner, c.Samples = true, "static", -1
	c.Engine, c.EngineArgs, c.Nodes, c.BillingHour, c.Place = "", nil, 0, 0, engine.Kind{}
	c.GPUs, c.CPUs, c.Memory, c.NumWorkers = "", "", "", "" // bounded by what the engine grants
	c.SLA, c.Rates, c.GPUHour, c.CPUHour, c.GiBHour = sla.Spec{TimeMax: p.Limit - lastSteps}, &rates, nil, nil, nil
	c.StateDir, c.Shared, c.Offline, c.Notify, c.NotifyLink = filepath.Join(dir, "state"), nil, nil, nil, ""
	c.Grace, c.Restarts, c.Requeue, c.Anyway, c.Explain, c.Agent = time.Second, -1, false, true, false, ""
	if total := r.Progress.Hints[r.Progress.Unit]; total.Units > 0 && total.Source == "--steps" {
		c.Steps = r.Config.Steps
	}
	return writeFile(dir, probeFile, ProbeSpec{Config: c, Change: r.changedDirs()})
}

// changedDirs returns the directories that the training may write: those of the command, and what programs use for
// temporary files and caches.
func (r *run) changedDirs() []string {
	dirs := []string{r.Config.Dir}
	for _, a := range r.Argv {
		_, value, _ := strings.Cut(a, "=")
		for _, path := range []string{a, value} {
			if filepath.IsAbs(path) {
				dirs = append(dirs, filepath.Dir(path), path)
			}
		}
	}
	return append(dirs, lookup(r.Environ, "HOME"), lookup(r.Environ, "TMPDIR"), "/tmp", "/var/tmp", "/dev/shm")
}

// readResults takes the results that probes have written.
func (r *run) readResults() {
	for _, p := range r.SiteProbes {
		if !p.active() {
			continue
		}
		data, err := regular.ReadFile(filepath.Join(r.probeDir(p.Key), ResultFile), maxResult)
		var result ProbeResult
		if err != nil || json.Unmarshal(data, &result) != nil {
			continue
		}
		r.takeResult(p, result)
	}
}

// takeResult records the result of a probe.
func (r *run) takeResult(p *siteProbe, result ProbeResult) {
	where := p.Place
	r.elsewhere.known, r.elsewhere.every = false, 0
	switch {
	case result.Why != "":
		p.Outcome = result.Why
	case len(result.UnitSeconds) == 0:
		p.Outcome = "its pace was not measured"
	case result.Unit != r.Progress.Unit:
		p.Outcome = fmt.Sprintf("it measured %ss, the job is measured by %ss", cmp.Or(result.Unit, "other unit"), cmp.Or(r.Progress.Unit, "unknown unit"))
	default:
		p.Outcome, p.Unit, p.UnitSeconds = probeMeasured, result.Unit, result.UnitSeconds
		r.event(Info, "measured %s beside the job, at %s: %s", where, p.Allocation, perUnit(median(p.paces()), p.Unit))
		return
	}
	r.event(Warning, "%s is not measured: %s", where, p.Outcome)
}

// askProbes asks the engine beside the loop for the condition and the accounts of the probes, and cancels those that are
// of no use any more.
func (r *run) askProbes() {
	open := r.openProbes()
	eng := r.site.Engine
	if eng == nil || len(open) == 0 {
		return
	}
	r.beside(func(ctx context.Context) func() { return r.askAbout(ctx, eng, open) })
}

// openProbes returns copies of the probes of which the engine may know more.
func (r *run) openProbes() []siteProbe {
	var open []siteProbe
	for _, p := range r.SiteProbes {
		if p.open(r.Clock.Now()) {
			open = append(open, *p)
		}
	}
	return open
}

// askAbout returns a function that records what the engine knows of the probes. The accounting, whose answers the runs of
// a user do not share, is asked about those only that were cancelled or are not listed as pending or running.
func (r *run) askAbout(ctx context.Context, eng engine.Engine, open []siteProbe) func() {
	var keys []string
	for _, p := range open {
		if keys = append(keys, p.Key); p.Withdrawn != "" && p.ID != "" {
			eng.Cancel(ctx, p.ID) // repeated while the engine lists it
		}
	}
	list, err := eng.List(ctx, keys...)
	var ids []string
	for _, p := range open {
		holds := slices.ContainsFunc(list, func(s engine.Status) bool {
			return s.Key == p.Key && (s.State == engine.Pending || s.State == engine.Running)
		})
		if p.ID != "" && (p.Withdrawn != "" || !holds) {
			ids = append(ids, p.ID)
		}
	}
	var lives []engine.Life
	if len(ids) > 0 {
		lives, _ = eng.Account(ctx, ids...)
	}
	return func() {
		for _, p := range r.SiteProbes {
			if err == nil {
				r.noteStatus(p, list)
			}
			r.noteAccount(p, lives)
		}
	}
}

// noteStatus records the engine's present view of a probe.
func (r *run) noteStatus(p *siteProbe, list []engine.Status) {
	if !p.open(r.Clock.Now()) {
		return
	}
	i := slices.IndexFunc(list, func(s engine.Status) bool { return s.Key == p.Key })
	if i < 0 {
		if p.active() && p.ID == "" && r.Clock.Now().Sub(p.Submitted) > time.Minute {
			p.Outcome = "its job is not known to the engine"
		}
		return
	}
	s := list[i]
	p.ID = s.ID
	if p.Started.IsZero() && !s.Started.IsZero() && (s.State == engine.Running || s.State == engine.Ending || s.State == engine.Ended) {
		p.Started = s.Started
	}
	if s.State == engine.Ended && p.Ended.IsZero() {
		p.Ended = r.Clock.Now()
		r.readResults()
		if p.active() {
			p.Outcome = cmp.Or(p.Withdrawn, "its job ended without a measurement: "+s.Raw)
			r.event(Info, "%s is not measured: %s", p.Place, p.Outcome)
		}
	}
}

// noteAccount records the engine's account of a probe, once it is final.
func (r *run) noteAccount(p *siteProbe, lives []engine.Life) {
	for _, l := range lives {
		if l.Key != p.Key || !l.Final || p.Confirmed {
			continue
		}
		p.Confirmed, p.Started, p.Ended = true, l.Started, l.Ended
		if !l.Started.IsZero() {
			p.Started = l.Ended.Add(-l.Elapsed)
		}
		if p.active() {
			r.readResults()
		}
		if p.active() {
			p.Outcome = cmp.Or(p.Withdrawn, "its job ended without a measurement: "+l.State)
		}
	}
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
	a, _ := onNode(r.Current, o.Host)
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

// arrive makes another kind of node the place of the next launch: limits and prices become its own, what was timed on the
// earlier one is kept as a measurement of that kind, and what the probe measured counts from now on.
func (r *run) arrive(ctx context.Context, kind engine.Kind, next resources.Allocation) error {
	from, old, hourly := r.Current, r.site, r.Rates.Hourly(r.withMemory(r.Current))
	if r.model != nil {
		r.keepBaseline()
		unit := r.model.UnitSeconds(from)
		left := &siteProbe{Spread: math.Log(unit.P95/unit.P5) / 3.29}
		left.Place, left.Allocation, left.Outcome, left.Confirmed = old.Place, from, probeMeasured, true
		left.USDHour = journal.Number(hourly)
		left.Unit, left.UnitSeconds = r.Progress.Unit, []journal.Number{journal.Number(unit.P50)}
		r.SiteProbes = append(r.SiteProbes, left)
	}
	target := r.siteFor(&kind)
	r.Config.Place = kind
	if target.Place == kind {
		others := []Site{old}
		for _, o := range old.Others {
			if o.Place != kind {
				others = append(others, o)
			}
		}
		others[0].Others, target.Others = nil, others
		r.site, r.Launcher = target, target.Launcher
	} else if err := r.openSite(ctx); err != nil { // of an agent that has died meanwhile
		return err
	}
	r.Host = r.site.Host
	r.resolveSiteRates()
	if err := r.resolveLimits(); err != nil {
		return err
	}
	r.Left = true
	r.Progress.leave()
	if p := r.probeOf(kind); p != nil && p.Outcome == probeMeasured {
		now := r.elapsed()
		s := r.Progress.Begin(now, p.Allocation, "probe", true)
		s.Blocks, s.EndedAt, s.Launch = p.paces(), now, false // of another job
	}
	r.rec.Host, r.rec.Prices = journal.Host{Host: r.Host}, journal.Prices{Rates: r.Rates}
	r.recall()
	if r.model != nil {
		r.setDecision(plan.Plan{Allocation: next, Planner: r.plan.Planner, Reason: "moved to " + kind.String(), Binding: "none"})
	}
	return nil
}
