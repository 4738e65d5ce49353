package rounds

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Number is a figure of a Result; NaN is unknown and is written as null.
type Number float64

// MarshalJSON writes null for what is unknown.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
	return []byte("null"), nil
}

// JobResult is what became of a job.
type JobResult struct {
	ID        int    `json:"id"`
	ArrivalS  Number `json:"arrival_s"`
	JCTS      Number `json:"jct_s"` // from arrival to completion; unknown when the job was given up
	DeadlineS Number `json:"deadline_s"`
	Missed    *bool  `json:"missed"`   // null without a deadline
	CostUSD   Number `json:"cost_usd"` // of the devices while it had them
	// EnergyJoules is the most that its devices drew while it had them, if what is known of them holds.
	EnergyJoules Number `json:"energy_joules"`
}

func newJobResult(j *job, at float64) JobResult {
	r := JobResult{
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

// Result is what came out of a run.
type Result struct {
	Schema  int            `json:"schema"`
	Engine  string         `json:"engine"`
	Policy  string         `json:"policy"`
	Seed    int64          `json:"seed"`
	Compat  bool           `json:"compat"`
	Cluster map[string]int `json:"cluster"`

	Jobs     []JobResult `json:"jobs"` // of the window, by ID
	MeanJCTS Number      `json:"mean_jct_s"`
	P50JCTS  Number      `json:"p50_jct_s"`
	P99JCTS  Number      `json:"p99_jct_s"`
	// MakespanS is when the run ended.
	MakespanS Number `json:"makespan_s"`
	// Utilization is the mean over devices of the share of the time during which they were taken.
	Utilization Number `json:"utilization"`
	// Timeline is how Utilization came about, over time.
	Timeline *Timeline `json:"timeline"`
	// CostUSD is of all jobs that ran, not only those of the window.
	CostUSD        Number `json:"cost_usd"`
	EnergyJoules   Number `json:"energy_joules"`
	DeadlineMisses int    `json:"deadline_misses"` // in the window
	// LeaseExtensions is how many of those that ran in a round kept their devices in the next, as a share of those that had not ended.
	LeaseExtensions Number `json:"lease_extensions"`
	Pauses          int    `json:"pauses"` // times that a job went on after a pause or on other devices
	PauseS          Number `json:"pause_s"`

	Allocations int       `json:"allocations"` // decisions of the policy
	PolicyS     Number    `json:"policy_s"`    // real time of all of them
	Events      int       `json:"events"`      // arrivals and pieces of work
	WallS       Number    `json:"wall_s"`
	Stopped     string    `json:"stopped,omitempty"` // why the run ended before its jobs
	NotStable   *Unstable `json:"not_stable,omitempty"`
	Warnings    []string  `json:"warnings"`
}

// EventsPerSecond of real time; unknown without a clock.
func (r *Result) EventsPerSecond() float64 {
	if !(r.WallS > 0) {
		return math.NaN()
	}
	return float64(r.Events) / float64(r.WallS)
}

func (s *simulation) result(stopped error) *Result {
	r := &Result{
		Schema: 1, Engine: "rounds", Policy: s.Policy, Seed: s.Seed, Compat: s.Compat, Cluster: map[string]int{},
		Jobs: s.ended, MakespanS: Number(s.now), CostUSD: Number(s.usd), PolicyS: Number(math.NaN()), WallS: Number(math.NaN()),
		Pauses: s.paused.count, PauseS: Number(s.paused.seconds), LeaseExtensions: Number(float64(s.lease.extended) / float64(s.lease.chances)),
		Allocations: s.decisions, Events: s.events, NotStable: s.backlog.found, Warnings: s.warnings.lines(),
	}
	if r.Policy == "" {
		r.Policy = s.traits.Name
	}
	if stopped != nil {
		r.Stopped = stopped.Error()
	}
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
	slices.SortFunc(r.Jobs, func(a, b JobResult) int { return a.ID - b.ID })
	r.summarise()
	return r
}

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
	r.P50JCTS, r.P99JCTS = Number(percentile(jcts, 0.5)), Number(percentile(jcts, 0.99))
	if r.Jobs == nil {
		r.Jobs = []JobResult{}
	}
}

// percentile interpolates between the two nearest of sorted numbers; NaN when there are none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	return sorted[i] + float64((at-float64(i))*(sorted[i+1]-sorted[i]))
}

// FinishTimeFairness is, for the jobs of a result, completion time divided by that of the same job in a run with the policy
// "isolated", in the order of r.Jobs; NaN where one of both did not end. Themis's measure (NSDI 2020): above 1 a job would
// have been better off with its own part of the cluster.
func FinishTimeFairness(r, isolated *Result) []float64 {
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

// warnings counts what is worth knowing, and remembers the first job of each.
type warnings []warning

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
