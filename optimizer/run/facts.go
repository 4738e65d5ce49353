package run

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// facts is the record of a run from which another agent continues it: the content of the file `state`. The stages read
// and change it in place; only the fields below "written by saveState" are derived from other objects.
type facts struct {
	Config      Config               `json:"config"`
	Argv        []string             `json:"argv"`
	Host        resources.Host       `json:"host"`
	Limits      resources.Limits     `json:"limits"` // of the allocations
	Rates       cost.Rates           `json:"rates"`
	Baseline    resources.Allocation `json:"baseline"`
	Current     resources.Allocation `json:"current"`
	Resumable   bool                 `json:"resumable"`           // the job saves on request and continues from there
	NeedMemory  resources.GiB        `json:"need_memory_gib"`     // measured requirement with a margin; 0 if not measured
	RestartS    []float64            `json:"restart_s"`           // recalled seconds per restart
	StartupS    []float64            `json:"startup_s"`           // recalled seconds per start-up
	ClosingS    []float64            `json:"closing_s,omitempty"` // recalled seconds from the last unit of work to the exit
	Predicted   *overheads           `json:"predicted,omitempty"` // from other trainings; nil without a prediction
	Progress    Progress             `json:"progress"`
	Phase       phase                `json:"phase"`
	Pending     *pendingStop         `json:"leaving"`    // nil unless the job has been asked to exit
	AdaptedAt   float64              `json:"adapted_at"` // progress at the last search for a better allocation
	Backoff     launch.Backoff       `json:"backoff"`
	Failures    int                  `json:"failures"` // that led, or could have led, to a restart
	LastFailure failure              `json:"last_failure,omitzero"`
	OwnLog      string               `json:"own_log"`         // path of $OPTIMIZER_LOG, absolute
	Input       bool                 `json:"input,omitempty"` // the last job has a standard input that is not empty
	Joules      float64              `json:"joules"`
	// CPUJoules is the energy of the machine's processors while the run was sampled; nil where it cannot be read.
	CPUJoules *float64    `json:"cpu_joules,omitempty"`
	Power     *powerFacts `json:"power,omitempty"`    // nil until a power limit may be chosen
	Speeds    []float64   `json:"speeds,omitempty"`   // of the machine, see steadyMachine
	QueuedS   float64     `json:"queued_s,omitempty"` // seconds of waiting for places
	Stretch   int         `json:"stretch,omitempty"`  // of the latest job on an engine
	// StretchRates are the prices of the stretches, USD per hour; CorrectedUSD is the difference that their late accounts
	// make to the meter.
	StretchRates map[int]float64 `json:"stretch_rates,omitempty"`
	CorrectedUSD float64         `json:"corrected_usd,omitempty"`
	// PlacedUSD is the charge before the latest stretch. SharedUSD is the part of CorrectedUSD by stretches that shared
	// their place with other jobs.
	PlacedUSD float64         `json:"placed_usd,omitempty"`
	SharedUSD map[int]float64 `json:"shared_usd,omitempty"`
	// Absences are the times for which no job of the run existed before it was resumed.
	Absences []absence   `json:"absences,omitempty"`
	Asked    string      `json:"asked,omitempty"`    // the checkpoint that the last job wrote on request before its exit
	Notified []string    `json:"notified,omitempty"` // keys of the messages sent about the run
	Market   marketFacts `json:"market,omitzero"`
	// SiteProbes are the measurements on other kinds of nodes of the engine; Departures counts the decisions to move to
	// one, Left is set after the first move, and FirstBaseline is the baseline on the first kind.
	SiteProbes    []*siteProbe   `json:"site_probes,omitempty"`
	Departures    int            `json:"departures,omitempty"`
	Left          bool           `json:"left,omitempty"`
	FirstBaseline *firstBaseline `json:"first_baseline,omitempty"`
	observed
	// Course is the progress over time, see progressAt.
	Course []point `json:"course,omitempty"`

	// Written by saveState.
	MeterState  json.RawMessage      `json:"meter"`
	GuardState  json.RawMessage      `json:"guard"`
	Handle      *launch.Handle       `json:"handle"`   // nil while no job runs
	LogPath     string               `json:"log_path"` // the log file in use; empty for another source of progress
	LogState    *trainlog.TailState  `json:"log"`
	OutputState []trainlog.TailState `json:"output"`           // of stdout and stderr
	Tables      map[string]int64     `json:"tables,omitempty"` // sizes of the tables that contain the rows read up to there
	Elapsed     time.Duration        `json:"elapsed"`
	Monotonic   time.Duration        `json:"monotonic"`
	BootID      string               `json:"boot_id"`
	Wall        time.Time            `json:"wall,omitzero"` // wall clock at Elapsed
	Ended       bool                 `json:"ended"`
}

// observed contains the facts that the observer reported; see forgetRemoved for the paths of removed checkpoints.
type observed struct {
	Positions map[string]float64   `json:"positions,omitempty"` // progress in units of work, by path of the checkpoint
	SavedAt   map[string]time.Time `json:"saved_at,omitempty"`  // when that was reported, by the clock of its file
	Weights   map[string]bool      `json:"weights,omitempty"`   // paths of files that contain weights alone
	Framework string               `json:"framework,omitempty"` // of the latest training; kept across launches
	First     *float64             `json:"first,omitempty"`     // the first epoch that the training printed, from its beginning
	Each      bool                 `json:"each,omitempty"`      // it printed the next one after that
	Origin    origin               `json:"base"`                // position from which the running process continued
}

// origin is the progress in the checkpoint from which a process was resumed.
type origin struct {
	Unit     string  `json:"unit"` // empty: not resumed, or from an unknown position
	Position float64 `json:"position"`
}

// point is the progress at a time.
type point struct {
	At   time.Time `json:"at"`
	Done float64   `json:"done"`
}

// maxCourse bounds the number of points of Course; beyond it, each second one of the older half is dropped.
const maxCourse = 64

// noteProgress adds the present progress, as of a time, to the course. Of equal ones the first and the last are kept.
func (f *facts) noteProgress(at time.Time) {
	c, now := f.Course, point{at, f.Progress.Done}
	if n := len(c); n > 1 && c[n-1].Done == now.Done && c[n-2].Done == now.Done {
		c[n-1] = now
		return
	}
	if c = append(c, now); len(c) > maxCourse {
		for i := range maxCourse / 4 {
			c[i] = c[2*i]
		}
		c = slices.Delete(c, maxCourse/4, maxCourse/2)
	}
	f.Course = c
}

// progressAt returns the progress at a time: between two points of the course in proportion, but not between two launches.
func (f *facts) progressAt(t time.Time) float64 {
	n := slices.IndexFunc(f.Course, func(p point) bool { return p.At.After(t) })
	switch {
	case n < 0:
		return f.Progress.Done
	case n == 0:
		return f.Course[0].Done
	}
	from, to := f.Course[n-1], f.Course[n]
	return from.Done + math.Max(0, to.Done-from.Done)*float64(t.Sub(from.At))/float64(to.At.Sub(from.At))
}

// bootID identifies this boot of the machine: monotonic times of another boot are not comparable. It is read once,
// because every saved state contains it.
var bootID = sync.OnceValue(resources.BootID)

// save writes state at most once a second and run.json at most every five seconds; force writes both immediately.
func (r *run) save(force bool) {
	now := r.elapsed()
	if force || now-r.lastRecord >= 5*time.Second { // before the state, from which an agent that needs both continues
		r.lastRecord = now
		r.refresh(false)
		if err := r.dir.WriteRecord(r.rec); err != nil {
			r.warnDiskOnce(err)
		}
	}
	if force || now-r.lastSave >= time.Second {
		r.lastSave = now
		r.saveState()
	}
}

// warnDiskOnce reports a disk error once; the training and the guard continue.
func (r *run) warnDiskOnce(err error) {
	r.eventOnce(Warning, "disk", "%v (the training continues)", err)
}

// saveState writes the state file.
func (r *run) saveState() {
	r.MeterState, r.GuardState = r.meter.State(), r.guard.State()
	r.LogPath, r.LogState, r.OutputState = "", nil, r.log.OutputStates()
	if t := r.log.Tail(); t != nil {
		at := t.State()
		r.LogPath, r.LogState = at.Path, &at
	}
	r.Tables = r.tableSizes()
	r.Handle = nil
	if r.job != nil {
		h := r.job.Handle()
		r.Handle = &h
	}
	r.Elapsed, r.Monotonic, r.BootID, r.Ended = r.elapsed(), r.Clock.Monotonic(), bootID(), r.ended != nil
	r.Wall = r.Clock.Now()
	if err := r.dir.SaveState(&r.facts); err != nil {
		r.warnDiskOnce(err)
	}
}

// memoryCounts reports whether the memory of an allocation is a decision: the user limited it, or pays for it by the
// GiB. Otherwise the job has all memory of the machine.
func (f *facts) memoryCounts() bool { return f.Config.Memory != "" || f.Rates.Instance == 0 }

// memoryFollows reports whether the memory of an allocation follows from its GPUs and CPUs: a job on an engine without a
// stated amount asks for their share of the node.
func (f *facts) memoryFollows() bool { return f.Config.elsewhere() && f.Config.Memory == "" }

// startMemory returns the memory of a job whose requirement has not been measured yet: 2 GiB per CPU, as in the
// compute-optimized machine types of cloud providers, or all memory if it is not a decision.
func (f *facts) startMemory(cpus int) resources.GiB {
	if !f.memoryCounts() {
		return f.Limits.MemoryMax
	}
	return min(max(resources.GiB(2*cpus), f.Limits.MemoryMin), f.Limits.MemoryMax)
}

// withMemory returns an allocation with the measured memory requirement, if that is known.
func (f *facts) withMemory(a resources.Allocation) resources.Allocation {
	if f.NeedMemory > 0 {
		a.Memory = f.NeedMemory
	}
	return a
}

// memoryMargin is the ratio of allocated memory to the measured peak.
const memoryMargin = 1.25

// learnMemory sets the memory requirement of the job: the measured peak with a margin.
func (f *facts) learnMemory(peakGiB float64) {
	if !f.memoryCounts() || f.memoryFollows() {
		return
	}
	need := min(max(roundMemory(resources.GiB(peakGiB)*memoryMargin), f.Limits.MemoryMin), f.Limits.MemoryMax)
	f.NeedMemory = max(f.NeedMemory, need)
	f.Baseline.Memory = f.NeedMemory
}

// roundMemory rounds up to a quarter of a GiB.
func roundMemory(g resources.GiB) resources.GiB {
	return resources.GiB(math.Max(0.25, math.Ceil(float64(g)*4-1e-9)/4))
}

// enforced returns the part of an allocation that is enforced on the job. Memory is enforced only if the user limited
// it: any other limit would slow a training that reads much data, because cached files count, or kill one that would
// otherwise survive.
func (r *run) enforced(a resources.Allocation) resources.Allocation {
	if r.Config.Memory == "" {
		a.Memory = 0
	}
	if r.whole(a) { // a quota that allows fewer holds anyway, on any of the CPUs
		a.CPUs = max(a.CPUs, len(r.Host.CPUIDs))
	}
	return a
}

// whole reports whether an allocation has all CPUs of this machine, or as many as the quota of its container allows.
func (r *run) whole(a resources.Allocation) bool {
	return r.alone() && a.CPUs >= int(r.Host.CPUs)
}

// quota returns the number of CPUs that the quota of this container allows, if it is not a whole number; 0 otherwise, and where
// the job may have only a part of them.
func (f *facts) quota() float64 {
	if f.Host.Described != "" || f.Config.elsewhere() || f.Config.Divided {
		return 0
	}
	return f.Host.FractionalCPUs()
}

// granted returns the number of CPUs that an allocation has. A whole one has those of the quota, which are more than the whole
// number allocated or, below 1, fewer.
func (r *run) granted(a resources.Allocation) float64 {
	if q := r.quota(); q > 0 && r.whole(a) {
		return q
	}
	return float64(a.CPUs)
}

// cpuUtil returns the latest utilization of the CPUs that the job has, in percent.
func (r *run) cpuUtil() float64 {
	return r.sampler.last.Tree.CPUPercent / cmp.Or(r.granted(r.Current), 1)
}

// wholeNode reports whether an allocation has all CPUs of a node of an engine, which no scheduler of several jobs divides.
func (r *run) wholeNode(a resources.Allocation) bool {
	return r.Lease == nil && r.Config.elsewhere() && a.CPUs >= int(r.Host.CPUs)
}

// alone reports whether the job runs on this machine, and no scheduler of several jobs decides what it gets of it.
func (r *run) alone() bool {
	return r.Lease == nil && r.Host.Described == "" && !r.Config.elsewhere()
}

// keepsDevices reports whether the job sees the devices of the user's environment, CUDA_VISIBLE_DEVICES unchanged, because none
// were chosen: all are allocated, or none to a script that was not found to use one and yet may.
func (r *run) keepsDevices(a resources.Allocation) bool {
	if a.GPUs == 0 {
		return r.Config.GPUs == "" && (r.alone() || len(r.Host.GPUs) > 0)
	}
	return r.alone() && a.GPUs == len(r.Host.GPUs)
}

func (f *facts) enforcedLimits() resources.Limits {
	l := f.Limits
	if f.Config.Memory == "" {
		l.MemoryMin, l.MemoryMax = 0, 0
	}
	return l
}

// ownSettings returns the plan that changes nothing.
func (f *facts) ownSettings() plan.Plan {
	return plan.Plan{Allocation: f.Baseline, Planner: "static", Reason: "the baseline, unchanged", Binding: "none"}
}

func (f *facts) actions() resources.ActionSpace {
	return resources.ActionSpace{Limits: f.Limits, WithMemory: true}
}

// startup returns the seconds of a start-up; before the first one of this script, as predicted from other trainings.
func (f *facts) startup() sla.Interval {
	if all := slices.Concat(f.StartupS, f.Progress.StartupSeconds()); len(all) > 0 || f.Predicted == nil {
		return plan.MeasuredInterval(all)
	}
	return f.Predicted.Startup
}

// restartCost returns the seconds of one more restart from measured restarts; before the first, from the measured
// start-up, plus a checkpoint that takes up to the same time again; before that, as predicted from other trainings.
func (f *facts) restartCost() sla.Interval {
	if all := slices.Concat(f.RestartS, f.Progress.RestartSeconds()); len(all) > 0 {
		return plan.MeasuredInterval(all)
	}
	if len(f.StartupS) == 0 && len(f.Progress.StartupSeconds()) == 0 && f.Predicted != nil && f.Predicted.Restart != (sla.Interval{}) {
		return f.Predicted.Restart
	}
	s := f.startup()
	if s == (sla.Interval{}) {
		return s
	}
	return sla.Interval{P5: s.P5, P50: s.P50 * 1.5, P95: s.P95 * 3}
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
