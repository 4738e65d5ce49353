package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

// jobResult is the outcome of a job.
type jobResult struct {
	ID        int        `json:"id"`
	ArrivalS  page.Exact `json:"arrival_s"`
	JCTS      page.Exact `json:"jct_s"` // from arrival to completion; unknown if the job was abandoned
	DeadlineS page.Exact `json:"deadline_s"`
	Missed    *bool      `json:"missed"`   // null without a deadline
	CostUSD   page.Exact `json:"cost_usd"` // cost of its devices while it held them
	// EnergyJoules is an upper bound on the energy drawn by its devices while it held them, provided that their power
	// ratings hold.
	EnergyJoules page.Exact `json:"energy_joules"`
}

func newJobResult(j *job, at float64) jobResult {
	r := jobResult{
		ID: j.ID, ArrivalS: page.Exact(j.Arrival), JCTS: page.Exact(at - j.Arrival), DeadlineS: page.Exact(j.Deadline),
		CostUSD: page.Exact(j.usd), EnergyJoules: page.Exact(j.joules),
	}
	if math.IsNaN(j.Deadline) && j.SLO > 0 {
		r.DeadlineS = page.Exact(j.Arrival + float64(j.SLO*j.Seconds))
	}
	if deadline := float64(r.DeadlineS); !math.IsNaN(deadline) {
		missed := !(at <= deadline)
		r.Missed = &missed
	}
	return r
}

// Result is the outcome of a run.
type Result struct {
	Schema  int            `json:"schema"`
	Engine  string         `json:"engine"`
	Policy  string         `json:"policy"`
	Seed    int64          `json:"seed"`
	Compat  bool           `json:"compat"`
	Cluster map[string]int `json:"cluster"`

	Jobs     []jobResult `json:"jobs"` // jobs of the window, sorted by ID
	MeanJCTS page.Exact  `json:"mean_jct_s"`
	P50JCTS  page.Exact  `json:"p50_jct_s"`
	P99JCTS  page.Exact  `json:"p99_jct_s"`
	// MakespanS is the time at which the run ended.
	MakespanS page.Exact `json:"makespan_s"`
	// Utilization is the mean share of the time during which devices were in use.
	Utilization page.Exact `json:"utilization"`
	// timeline is the utilization over time.
	Timeline *timeline `json:"timeline"`
	// CostUSD includes all jobs that ran, not only those of the window.
	CostUSD        page.Exact `json:"cost_usd"`
	EnergyJoules   page.Exact `json:"energy_joules"`
	DeadlineMisses int        `json:"deadline_misses"` // of the jobs of the window
	// LeaseExtensions is the share of entries that kept their devices in the next round, among those that had not
	// ended.
	LeaseExtensions page.Exact `json:"lease_extensions"`
	Pauses          int        `json:"pauses"` // number of times that a job continued after a pause or on other devices
	PauseS          page.Exact `json:"pause_s"`

	Allocations int        `json:"allocations"` // number of decisions of the policy
	PolicyS     page.Exact `json:"policy_s"`    // total real time of the decisions
	Events      int        `json:"events"`      // number of arrivals and pieces of work
	WallS       page.Exact `json:"wall_s"`
	Stopped     string     `json:"stopped,omitempty"` // reason for which the run was stopped early
	NotStable   *unstable  `json:"not_stable,omitempty"`
	Warnings    []string   `json:"warnings"`
}

// result assembles the Result of a run; stopped is the reason for an early end, or nil.
func (s *simulation) result(stopped error) *Result {
	r := &Result{
		Schema: 1, Engine: "rounds", Policy: s.Policy, Seed: s.Seed, Compat: s.Compat, Cluster: map[string]int{},
		Jobs: s.ended, MakespanS: page.Exact(s.now), CostUSD: page.Exact(s.usd), PolicyS: page.Exact(math.NaN()), WallS: page.Exact(math.NaN()),
		Pauses: s.paused.count, PauseS: page.Exact(s.paused.seconds), LeaseExtensions: page.Exact(float64(s.lease.Extended) / float64(s.lease.Ended)),
		Allocations: s.decisions, Events: s.events, NotStable: s.backlog.found, Warnings: s.warnings.lines(),
	}
	r.Policy = cmp.Or(r.Policy, s.traits.Name)
	if stopped != nil {
		r.Stopped = stopped.Error()
	}
	// Devices without use do not require known power.
	busy, joules := 0.0, 0.0
	for d, t := range s.Devices {
		r.Cluster[t.Name] = t.Count
		busy += s.used[d]
		if s.used[d] > 0 {
			joules += float64(s.used[d] * t.Watts)
		}
	}
	r.Utilization = page.Exact(busy / float64(s.devices) / s.now)
	r.EnergyJoules = page.Exact(joules)
	r.Timeline = s.usage.timeline(s.Devices, s.now)
	if s.Clock != nil {
		r.PolicyS, r.WallS = page.Exact(s.deciding.Seconds()), page.Exact((s.Clock() - s.began).Seconds())
	}
	slices.SortFunc(r.Jobs, func(a, b jobResult) int { return a.ID - b.ID })
	r.summarise()
	return r
}

// summarise computes the mean and percentiles of the completion times and counts missed deadlines.
func (r *Result) summarise() {
	var jcts []float64
	sum := 0.0
	for i := range r.Jobs {
		if j := &r.Jobs[i]; !math.IsNaN(float64(j.JCTS)) {
			jcts = append(jcts, float64(j.JCTS))
			sum += float64(j.JCTS)
		}
		if m := r.Jobs[i].Missed; m != nil && *m {
			r.DeadlineMisses++
		}
	}
	r.MeanJCTS = page.Exact(sum / float64(len(jcts)))
	slices.Sort(jcts)
	r.P50JCTS, r.P99JCTS = page.Exact(stat.Quantile(jcts, 0.5)), page.Exact(stat.Quantile(jcts, 0.99))
	if r.Jobs == nil {
		r.Jobs = []jobResult{}
	}
}

// finishTimeFairness returns, in the order of r.Jobs, the completion time of each job divided by that of the same job
// in a run with the policy "isolated"; NaN where either did not end. This is the measure of Themis (NSDI 2020): a job
// with a value above 1 would have been better off with its own part of the cluster.
func finishTimeFairness(r, isolated *Result) []float64 {
	alone := make(map[int]float64, len(isolated.Jobs))
	for i := range isolated.Jobs {
		alone[isolated.Jobs[i].ID] = float64(isolated.Jobs[i].JCTS)
	}
	out := make([]float64, len(r.Jobs))
	for i := range r.Jobs {
		out[i] = math.NaN()
		if t, ok := alone[r.Jobs[i].ID]; ok {
			out[i] = float64(r.Jobs[i].JCTS) / t
		}
	}
	return out
}

// warnings counts warnings by text and stores the first job of each.
type warnings []warning

// warning is a text with the number of jobs concerned.
type warning struct {
	about string
	count int
	first int // job ID
}

func (w *warnings) add(about string, job int) {
	for i := range *w {
		if (*w)[i].about == about {
			(*w)[i].count++
			return
		}
	}
	*w = append(*w, warning{about, 1, job})
}

func (w warnings) lines() []string {
	out := make([]string, len(w))
	for i, x := range w {
		out[i] = fmt.Sprintf("%d %s, first job %d", x.count, x.about, x.first)
	}
	return out
}
