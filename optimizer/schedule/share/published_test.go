package share_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/workload"
)

// published is the directory of the reference runs of the original Gavel and its traces.
const published = "../../../../shared/data/gavel"

// decided is an input of the original's policies with the decision of each.
type decided struct {
	ID      string
	Cluster map[string]int
	Costs   map[string]float64
	Jobs    []struct {
		ID             int
		Type           string
		ScaleFactor    int `json:"scale_factor"`
		Priority       float64
		Throughput     map[string]float64
		StepsRemaining float64  `json:"steps_remaining"`
		TimeSinceStart float64  `json:"time_since_start"`
		SLORemaining   *float64 `json:"slo_remaining"`
	}
	Results map[string]struct {
		Shares    map[string][]float64 `json:"allocation_k80_p100_v100"` // to 6 decimals
		Metrics   metrics
		Discounts []float64 `json:"discount_factors"`
	}
}

// metrics are the metrics of the original's allocations, under the original's names.
type metrics struct {
	Rates        []float64 `json:"effective_throughput"`
	MaxMinPerf   float64   `json:"maxmin_perf"`
	MaxMinAlike  float64   `json:"maxmin_agnostic"`
	Sum          float64   `json:"sum_throughput"`
	MaxTime      float64   `json:"max_time"`
	MaxTimeV100  float64   `json:"max_time_v100rate"`
	Rho          float64   `json:"ftf_rho"`
	SumPerDollar float64   `json:"sum_throughput_per_cost"`
}

func decidedInstances(t *testing.T) []decided {
	t.Helper()
	f, err := os.Open(filepath.Join(published, "expected/policy_instances.json.gz"))
	if err != nil {
		t.Skipf("decisions of Gavel's policies are not here: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var list []decided
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("Infinity"), []byte("null")), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// snapshot returns the input at time 0; arrivals are in the past.
func (in *decided) snapshot() *schedule.Snapshot {
	s := &schedule.Snapshot{}
	for _, name := range []string{"k80", "p100", "v100"} {
		s.Devices = append(s.Devices, schedule.DeviceType{Name: name, Count: in.Cluster[name], PerServer: 1, USDHour: in.Costs[name], Watts: math.NaN()})
	}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		deadline := math.NaN()
		if j.SLORemaining != nil {
			deadline = *j.SLORemaining
		}
		state := schedule.JobState{
			Job: &schedule.Job{
				ID: j.ID, Type: j.Type, Arrival: -j.TimeSinceStart, GPUs: j.ScaleFactor, Steps: j.StepsRemaining, Seconds: math.NaN(),
				Weight: j.Priority, SLO: math.NaN(), Deadline: deadline,
			},
			Remaining: j.StepsRemaining, Seconds: math.NaN(),
		}
		for _, d := range s.Devices {
			state.Rate = append(state.Rate, j.Throughput[d.Name])
		}
		s.Jobs = append(s.Jobs, state)
	}
	table := workload.GavelTable()
	s.Pair = func(a, b, device int) (float64, float64) {
		x, y := s.Jobs[a], s.Jobs[b]
		if x.GPUs != y.GPUs {
			return 0, 0
		}
		ra, rb, _ := table.Beside(s.Devices[device].Name, x.Type, y.Type, x.GPUs)
		return ra, rb
	}
	return s
}

// measure computes the metrics of an allocation.
func measure(s *schedule.Snapshot, a schedule.Allocation) metrics {
	n := len(s.Jobs)
	v100 := len(s.Devices) - 1
	time, rate, onV100, all, dollar := make([]float64, n), make([]float64, n), make([]float64, n), 0.0, 0.0
	for _, e := range a.Entries {
		for d, x := range e.X {
			ra, rb := s.Jobs[e.A].Rate[d], 0.0
			if e.B >= 0 {
				ra, rb = s.Pair(e.A, e.B, d)
				rate[e.B] += x * rb
			} else {
				time[e.A] += x
				onV100[e.A] += x * s.Jobs[e.A].Rate[v100]
			}
			rate[e.A] += x * ra
			all += x * (ra + rb)
			dollar += x * (ra + rb) / s.Devices[d].USDHour
		}
	}
	m := metrics{Rates: rate, MaxMinPerf: math.Inf(1), MaxMinAlike: math.Inf(1), Sum: all, SumPerDollar: dollar}
	devices := 0.0
	for _, d := range s.Devices {
		devices += float64(d.Count)
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		equal, share, proportional := 0.0, 0.0, 0.0
		for d := range s.Devices {
			x := float64(s.Devices[d].Count) / float64(n*j.GPUs)
			share += x
			equal += x * j.Rate[d]
			proportional += float64(s.Devices[d].Count) / devices * j.Rate[d]
		}
		equal /= max(share, 1)
		m.MaxMinPerf = min(m.MaxMinPerf, float64(j.GPUs)*rate[i]/j.Weight/proportional)
		m.MaxMinAlike = min(m.MaxMinAlike, float64(j.GPUs)*time[i]/j.Weight)
		m.MaxTime = max(m.MaxTime, j.Remaining/rate[i])
		m.MaxTimeV100 = max(m.MaxTimeV100, j.Remaining/onV100[i])
		m.Rho = max(m.Rho, (s.Now-j.Arrival+j.Remaining/rate[i])/(j.Remaining/equal))
	}
	return m
}

// onlyV100 returns a snapshot in which all devices have the rates of V100s, the view of heterogeneity-agnostic
// policies.
func onlyV100(s *schedule.Snapshot) *schedule.Snapshot {
	out := *s
	out.Jobs = slices.Clone(s.Jobs)
	for i := range out.Jobs {
		r := out.Jobs[i].Rate
		out.Jobs[i].Rate = slices.Repeat(r[len(r)-1:], len(r))
	}
	return &out
}

// objectives contains, by policy, the objective and its direction.
var objectives = map[string]struct {
	least bool
	slack float64 // relative tolerance for the original
	of    func(metrics) float64
	see   func(*schedule.Snapshot) *schedule.Snapshot
}{
	"max_min_fairness":                                  {of: func(m metrics) float64 { return m.MaxMinAlike }},
	"max_min_fairness_perf":                             {of: func(m metrics) float64 { return m.MaxMinPerf }},
	"max_min_fairness_packed":                           {of: func(m metrics) float64 { return m.MaxMinPerf }},
	"max_min_fairness_water_filling":                    {of: func(m metrics) float64 { return m.MaxMinAlike }},
	"max_min_fairness_water_filling_perf":               {of: func(m metrics) float64 { return m.MaxMinPerf }},
	"max_min_fairness_water_filling_packed":             {of: func(m metrics) float64 { return m.MaxMinPerf }},
	"finish_time_fairness":                              {least: true, slack: 2e-5, see: onlyV100, of: func(m metrics) float64 { return m.Rho }},
	"finish_time_fairness_perf":                         {least: true, of: func(m metrics) float64 { return m.Rho }},
	"finish_time_fairness_packed":                       {least: true, of: func(m metrics) float64 { return m.Rho }},
	"min_total_duration":                                {least: true, slack: 0.06, of: func(m metrics) float64 { return m.MaxTimeV100 }},
	"min_total_duration_perf":                           {least: true, slack: 0.06, of: func(m metrics) float64 { return m.MaxTime }},
	"min_total_duration_packed":                         {least: true, slack: 0.06, of: func(m metrics) float64 { return m.MaxTime }},
	"max_sum_throughput_perf":                           {of: func(m metrics) float64 { return m.Sum }},
	"max_sum_throughput_normalized_by_cost_perf":        {of: func(m metrics) float64 { return m.SumPerDollar }},
	"max_sum_throughput_normalized_by_cost_perf_SLOs":   {of: func(m metrics) float64 { return m.SumPerDollar }},
	"max_sum_throughput_normalized_by_cost_packed_SLOs": {of: func(m metrics) float64 { return m.SumPerDollar }},
}

func TestObjectivesAreThoseOfTheOriginal(t *testing.T) {
	for _, in := range decidedInstances(t) {
		for _, name := range slices.Sorted(maps.Keys(objectives)) {
			want, stored := in.Results[name]
			for _, compat := range []bool{true, false} {
				if !stored {
					continue
				}
				o := objectives[name]
				s := in.snapshot()
				a := decide(t, name, compat, s)
				if o.see != nil {
					s = o.see(s)
				}
				got := o.of(measure(s, a))
				ref := o.of(want.Metrics)
				if o.see != nil {
					ref = o.of(measure(s, rounded(t, want.Shares)))
				}
				better := got/ref - 1
				if o.least {
					better = ref/got - 1
				}
				t.Logf("%s %s compat %v: %.10g, the original %.10g, better by %.2g", in.ID, name, compat, got, ref, better)
				low := -1e-6
				if compat {
					low = min(low, -o.slack)
				}
				if !(better >= low && better <= max(o.slack, 1e-6)) {
					t.Errorf("%s %s compat %v: %.10g, the original has %.10g", in.ID, name, compat, got, ref)
				}
			}
		}
	}
}

// rounded returns the stored shares, of single jobs.
func rounded(t *testing.T, shares map[string][]float64) (a schedule.Allocation) {
	for id, x := range shares {
		i, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		a.Entries = append(a.Entries, schedule.Entry{A: i, B: -1, X: x})
	}
	return a
}

// decide returns the decision of a new policy and checks that it is feasible.
func decide(t *testing.T, name string, compat bool, s *schedule.Snapshot) schedule.Allocation {
	t.Helper()
	p, err := share.New(name, share.Options{Compat: compat})
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Decide(s)
	if err == nil {
		err = feasible(s, a)
	}
	if err != nil {
		t.Errorf("%s compat %v: %v", name, compat, err)
	}
	return a
}

// totals returns, by job, its total share of time and, by type, the number of devices in use.
func totals(s *schedule.Snapshot, a schedule.Allocation) (time, used []float64) {
	time, used = make([]float64, len(s.Jobs)), make([]float64, len(s.Devices))
	for _, e := range a.Entries {
		for d, x := range e.X {
			used[d] += x * float64(s.Jobs[e.A].GPUs)
			time[e.A] += x
			if e.B >= 0 {
				time[e.B] += x
			}
		}
	}
	return time, used
}

// feasible returns an error if shares violate a constraint beyond rounding.
func feasible(s *schedule.Snapshot, a schedule.Allocation) error {
	const slack = 1e-9
	for _, e := range a.Entries {
		for d, x := range e.X {
			if !(x >= 0 && x <= 1) {
				return fmt.Errorf("jobs %d and %d have a share of %v on %s", e.A, e.B, x, s.Devices[d].Name)
			}
		}
	}
	time, used := totals(s, a)
	for i, v := range time {
		if v > 1+slack {
			return fmt.Errorf("job %d has %v of its time", i, v)
		}
	}
	for d, v := range used {
		if n := float64(s.Devices[d].Count); v > n*(1+slack) {
			return fmt.Errorf("%v of %v devices of %s are shared out", v, n, s.Devices[d].Name)
		}
	}
	return nil
}
