package cluster

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

// Number is a figure of a Result. NaN means unknown and is encoded as null.
type Number float64

// MarshalJSON encodes NaN and infinities as null.
func (n Number) MarshalJSON() ([]byte, error) { return page.JSONNumber(float64(n), -1) }

// jobResult is the outcome of a job.
type jobResult struct {
	ID        int    `json:"id"`
	ArrivalS  Number `json:"arrival_s"`
	JCTS      Number `json:"jct_s"` // from arrival to completion; unknown if the job was abandoned
	DeadlineS Number `json:"deadline_s"`
	Missed    *bool  `json:"missed"`   // null without a deadline
	CostUSD   Number `json:"cost_usd"` // cost of its devices while it held them
	// EnergyJoules is an upper bound on the energy drawn by its devices while it held them, provided that their power
	// ratings hold.
	EnergyJoules Number `json:"energy_joules"`
}

func newJobResult(j *job, at float64) jobResult {
	r := jobResult{
		ID: j.ID, ArrivalS: Number(j.Arrival), JCTS: Number(at - j.Arrival), DeadlineS: Number(j.Deadline),
		CostUSD: Number(j.usd), EnergyJoules: Number(j.joules),
	}
	if math.IsNaN(j.Deadline) && j.SLO > 0 {
		r.DeadlineS = Number(j.Arrival + float64(j.SLO*j.Seconds))
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
	MeanJCTS Number      `json:"mean_jct_s"`
	P50JCTS  Number      `json:"p50_jct_s"`
	P99JCTS  Number      `json:"p99_jct_s"`
	// MakespanS is the time at which the run ended.
	MakespanS Number `json:"makespan_s"`
	// Utilization is the mean share of the time during which devices were in use.
	Utilization Number `json:"utilization"`
	// timeline is the utilization over time.
	Timeline *timeline `json:"timeline"`
	// CostUSD includes all jobs that ran, not only those of the window.
	CostUSD        Number `json:"cost_usd"`
	EnergyJoules   Number `json:"energy_joules"`
	DeadlineMisses int    `json:"deadline_misses"` // of the jobs of the window
	// LeaseExtensions is the share of entries that kept their devices in the next round, among those that had not
	// ended.
	LeaseExtensions Number `json:"lease_extensions"`
	Pauses          int    `json:"pauses"` // number of times that a job continued after a pause or on other devices
	PauseS          Number `json:"pause_s"`

	Allocations int       `json:"allocations"` // number of decisions of the policy
	PolicyS     Number    `json:"policy_s"`    // total real time of the decisions
	Events      int       `json:"events"`      // number of arrivals and pieces of work
	WallS       Number    `json:"wall_s"`
	Stopped     string    `json:"stopped,omitempty"` // reason for which the run was stopped early
	NotStable   *unstable `json:"not_stable,omitempty"`
	Warnings    []string  `json:"warnings"`
}

// result assembles the Result of a run; stopped is the reason for an early end, or nil.
func (s *simulation) result(stopped error) *Result {
	r := &Result{
		Schema: 1, Engine: "rounds", Policy: s.Policy, Seed: s.Seed, Compat: s.Compat, Cluster: map[string]int{},
		Jobs: s.ended, MakespanS: Number(s.now), CostUSD: Number(s.usd), PolicyS: Number(math.NaN()), WallS: Number(math.NaN()),
		Pauses: s.paused.count, PauseS: Number(s.paused.seconds), LeaseExtensions: Number(float64(s.lease.Extended) / float64(s.lease.Ended)),
		Allocations: s.decisions, Events: s.events, NotStable: s.backlog.found, Warnings: s.warnings.lines(),
	}
	if r.Policy == "" {
		r.Policy = s.traits.Name
	}
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
	r.Utilization = Number(busy / float64(s.devices) / s.now)
	r.EnergyJoules = Number(joules)
	r.Timeline = s.usage.timeline(s.Devices, s.now)
	if s.Clock != nil {
		r.PolicyS, r.WallS = Number(s.deciding.Seconds()), Number((s.Clock() - s.began).Seconds())
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
	r.MeanJCTS = Number(sum / float64(len(jcts)))
	slices.Sort(jcts)
	r.P50JCTS, r.P99JCTS = Number(stat.Quantile(jcts, 0.5)), Number(stat.Quantile(jcts, 0.99))
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

var _ json.Marshaler = Number(0)
