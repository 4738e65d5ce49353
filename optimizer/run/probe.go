package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/internal/regular"
	"trainopt/internal/stat"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// MeasuredEnough reports whether the pace of a segment is measured: two timed blocks, or one long unit. For short
// steps, which are timed while libraries still warm up and before any periodic work, a few seconds are required.
func (p *Progress) MeasuredEnough(s *Segment) bool {
	if p.Unit == "step" && len(s.Blocks) > 0 && s.Blocks[0] < 1 {
		return len(s.Blocks) >= settledBlocks && s.LastRowAt-s.FirstRowAt >= stepsShown
	}
	return len(s.Blocks) >= 2 || len(s.Blocks) == 1 && s.Blocks[0]*s.Units >= longUnit.Seconds()
}

// ProbedEnough reports whether the probe of a segment may end: its pace is measured, for at least ProbeTime.
func (p *Progress) ProbedEnough(s *Segment) bool {
	return p.MeasuredEnough(s) && (s.RestartFrom == 0 || s.Timed >= p.ProbeTime((s.FirstRowAt-s.RestartFrom).Seconds()).Seconds())
}

// ProbeTime returns the minimum time for which a probe is timed after a restart of the given seconds: a longer measurement
// adds little to the cost of the restart.
func (p *Progress) ProbeTime(restart float64) time.Duration {
	least := time.Duration(probeShare * restart * float64(time.Second))
	if p.Unit == "step" {
		least = max(least, stepsShown)
	}
	return least
}

// probeShare is the minimum time for which a probe is timed, relative to the restart before it.
const probeShare = 0.1

// stepsShown is the time for which steps are timed before they count as measured.
const stepsShown = 5 * time.Second

// The baseline is measured until its pace has settled, because slow first units (compilation, caches being filled) are
// indistinguishable from a slow training until faster ones follow: for at least settlingLeast of the work, at most
// settlingMost of it or settlingTime.
const (
	settlingLeast = 0.08
	settlingMost  = 0.25
	settlingTime  = time.Minute
)

// settling reports whether a measured segment is still within its first units, and the bounds above permit waiting for
// more. Without a total nothing is predicted from the pace, and it is false.
func (p *Progress) settling(s *Segment) bool {
	work, done := p.Total-s.StartDone, p.Done-s.StartDone
	if p.Total <= 0 || done >= settlingMost*work || s.LastRowAt-s.FirstRowAt >= settlingTime || s.onlyFirstUnit() {
		return false
	}
	return done < settlingLeast*work || !s.settled() || s.quickens()
}

// onlyFirstUnit reports whether the only timed unit is the first one after the launch, which contains the warm-up.
func (s *Segment) onlyFirstUnit() bool { return len(s.Blocks) == 1 && s.FirstRowAt == s.LastRowAt }

// quickens reports whether the newest block is faster than the steady pace by more than warmUpFactor.
func (s *Segment) quickens() bool {
	return len(s.Blocks) > 0 && stat.Median(s.Blocks[s.warmUp():]) > warmUpFactor*s.Blocks[len(s.Blocks)-1]
}

// unsettled reports whether all that this run has measured may be slow first units.
func (p *Progress) unsettled() bool {
	s := p.Current()
	return s != nil && (s.onlyFirstUnit() || s.quickens()) && len(p.Observations()) == 1
}

// probeStep decides, during the probes, whether to measure another allocation or to plan.
func (r *run) probeStep() {
	if r.Progress.Finished() {
		return // the job only writes its last output
	}
	seg := r.Progress.Current()
	switch {
	case r.Progress.ProbedEnough(seg):
	case !r.Progress.MeasuredEnough(seg):
		r.abandonSlowProbe(seg)
		return
	case !r.probesPaid(seg):
		return
	}
	if len(r.rec.Probes) == 0 && r.Progress.settling(seg) {
		return
	}
	r.closeProbe(seg)
	r.refit()
	if r.model == nil {
		return
	}
	if next, why := r.nextProbe(); next != nil {
		r.event(Info, "probing %s: %s", *next, why)
		r.leaveFor(&pendingStop{Why: "restart", Next: next, Label: "probe"})
		return
	}
	r.settle()
}

// stopMeasured ends a run that only measures the pace of its first allocation. Nothing is saved.
func (r *run) stopMeasured() {
	if seg := r.Progress.Current(); r.Config.MeasureOnly && r.Pending == nil && r.Progress.MeasuredEnough(seg) {
		r.closeProbe(seg)
		r.Pending = &pendingStop{Why: "measured", AskedAt: r.elapsed(), Terminated: true}
		r.watchdog.kill()
	}
}

// abandonSlowProbe ends a probe that has used up the budget of all probes without measuring its pace; the plan is then
// made without it.
func (r *run) abandonSlowProbe(seg *Segment) {
	if !r.probesPaid(seg) {
		return
	}
	r.event(Warning, "the probe at %s has not measured its pace within the probe budget: planning without it", seg.Allocation)
	r.closeProbe(seg)
	r.settle()
}

// probesPaid reports whether the probe of a segment has used up the budget of all probes. The measurement of the baseline is
// never cut short.
func (r *run) probesPaid(seg *Segment) bool {
	if len(r.rec.Probes) == 0 || r.model == nil {
		return false
	}
	budget, ok := r.probeBudget()
	return ok && r.probesSpent()+r.spent()-seg.StartUSD >= budget
}

// closeProbe records the current segment as a probe.
func (r *run) closeProbe(seg *Segment) {
	seg.Spent = r.spent() - seg.StartUSD
	if seg.PeakGiB > 0 {
		r.learnMemory(seg.PeakGiB)
	}
	p := r.probeRecord(seg, r.elapsed())
	p.InJob = r.Resumable || len(r.rec.Probes) == 0
	r.rec.Probes = append(r.rec.Probes, p)
	r.noteDisturbance(seg)
	if len(seg.Blocks) > 0 {
		r.event(Info, "measured %s: %s, peak memory %s", seg.Allocation, perUnit(stat.Median(seg.Blocks), r.Progress.Unit), page.PlainBlanks(page.GiB(float64(p.PeakMemoryGiB))))
	}
}

// probeRecord converts a segment to its form in run.json.
func (r *run) probeRecord(s *Segment, until time.Duration) journal.Probe {
	if s.EndedAt > 0 {
		until = s.EndedAt
	}
	p := journal.Probe{Allocation: s.Allocation, LiveCut: s.LiveCut, Rows: s.Rows, Units: s.Units, Seconds: journal.Number((until - s.LaunchedAt).Seconds()), Throughput: journal.Unknown(),
		CostUSD: journal.Number(s.Spent), PeakMemoryGiB: journal.Unknown(), UnitSeconds: []journal.Number{}, UnitSamples: journal.Unknown(),
		CPUUtil: journal.Number(mean(s.CPUSum, s.CPUN)), GPUUtil: journal.Number(mean(s.GPUSum, s.GPUN)), TakenCPUs: s.taken()}
	if s.PeakGiB > 0 {
		p.PeakMemoryGiB = journal.Number(s.PeakGiB)
	}
	p.Used = s.Used.known()
	from := max(0, len(s.Blocks)-50)
	for _, b := range s.Blocks[from:] {
		p.UnitSeconds = append(p.UnitSeconds, journal.Number(b))
	}
	if r.Progress.UnitSamples > 0 {
		p.UnitSamples = journal.Number(r.Progress.UnitSamples)
	}
	if len(s.Blocks) > 0 {
		per, unit := r.Progress.throughputUnit()
		p.Throughput, p.ThroughputUnit = journal.Number(per/stat.Median(s.Blocks)), unit
	}
	return p
}

// noteDisturbance warns if other programs used so much of the machine during a measurement that the job cannot have
// had the CPUs of its allocation.
func (r *run) noteDisturbance(seg *Segment) {
	foreign := mean(seg.Foreign, seg.CPUN)
	if free := r.sampler.machineCPUs - foreign; free < seg.cpus()-foreignSlack {
		r.event(Warning, "while %s was measured, other programs used %.1f of the machine's %g CPUs: predictions from it hold only under the same load",
			seg.Allocation, foreign, r.sampler.machineCPUs)
	}
}

// probesSpent returns the cost of the finished probes, USD, without the first: work at the baseline would have been
// done anyway.
func (r *run) probesSpent() float64 {
	sum := 0.0
	for i, p := range r.rec.Probes {
		if i > 0 {
			sum += float64(p.CostUSD)
		}
	}
	return sum
}

// probeBudget returns the money that probes may spend, USD: a share of the job's predicted cost at the best known
// allocation. ok is false if the job's length is unknown.
func (r *run) probeBudget() (float64, bool) {
	total := r.Progress.Total
	if total <= 0 || r.model == nil {
		return 0, false
	}
	best := math.Inf(1)
	for _, o := range r.Progress.Observations() {
		at := r.model.UnitSeconds(o.Allocation).P50 * total / 3600 * float64(r.Rates.Hourly(r.withMemory(o.Allocation)))
		best = math.Min(best, at)
	}
	return best * r.Config.Ratio, !math.IsInf(best, 1)
}

// nextProbe returns the most informative allocation among those whose measurement is affordable, and the reason; nil
// if the run should be planned now. An allocation that plan.RescueProbe proposes has precedence.
func (r *run) nextProbe() (*resources.Allocation, string) {
	if to, why := plan.RescueProbe(r.snapshot()); to != nil {
		*to = r.withMemory(*to)
		return to, why
	}
	if len(r.rec.Probes) >= r.Config.Samples {
		return nil, ""
	}
	budget, ok := r.probeBudget()
	if !ok {
		if len(r.rec.Probes) == 1 {
			r.event(Info, "no further probes: the total amount of work is unknown (--epochs N or --steps N sets it)")
		}
		return nil, ""
	}
	rest := budget - r.probesSpent() - r.probesBesideUSD()
	var affordable []resources.Allocation
	for _, c := range plan.Allocations(r.snapshot()) {
		if r.probeCost(c) <= rest {
			affordable = append(affordable, c)
		}
	}
	next, why := plan.NextProbe(r.snapshot(), r.Progress.Observations(), affordable)
	if next == nil && len(r.rec.Probes) == 1 && len(affordable) == 0 {
		r.event(Info, "no further probes: each would exceed the probe budget (%.0f %% of the predicted cost)", 100*r.Config.Ratio)
	}
	if next != nil {
		*next = r.withMemory(*next)
	}
	return next, why
}

// probeCost returns the predicted cost of measuring an allocation, USD: the restart and the time in which its pace is
// measured.
func (r *run) probeCost(a resources.Allocation) float64 {
	seconds := r.restartCost().P50 + r.measuringSeconds(r.model.UnitSeconds(a).P50)
	return seconds / 3600 * float64(r.Rates.Hourly(r.withMemory(a)))
}

// ResultFile is the file of a ProbeResult.
const ResultFile = "result.json"

// prober is a Launcher that can start a short job apart from the stretches of a run.
type prober interface {
	// Probe submits a job that measures what the directory describes; it is idempotent on key.
	Probe(ctx context.Context, key, dir string, a resources.Allocation, limit time.Duration) (id string, err error)
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

// open reports whether the engine may know more about a probe: its start, its end or its account.
func (p *siteProbe) open(now time.Time) bool {
	return p.active() || p.ID != "" && !p.Confirmed && (p.Ended.IsZero() || now.Sub(p.Ended) < accountWithin)
}

// paces returns the measured seconds per unit of work.
func (p *siteProbe) paces() []float64 {
	var out []float64
	for _, v := range p.UnitSeconds {
		out = append(out, float64(v))
	}
	return out
}

// probeSpec is what a probe measures: the configuration of a run that ends when it has measured its pace, and the
// directories that it may change in its own view of the file system.
type probeSpec struct {
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
func ReadProbe(dir string) (probeSpec, error) {
	var s probeSpec
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
func (p ProbeResult) Write(dir string) error {
	return regular.WriteJSON(filepath.Join(dir, ResultFile), 0o600, p)
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
	return regular.WriteJSON(filepath.Join(dir, probeFile), 0o600, probeSpec{Config: c, Change: r.changedDirs()})
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
		r.event(Info, "measured %s beside the job, at %s: %s", where, p.Allocation, perUnit(stat.Median(p.paces()), p.Unit))
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
