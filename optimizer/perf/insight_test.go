package perf

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"trainopt/resources"
	"trainopt/sla"
)

func TestIgnoredKnobs(t *testing.T) {
	cases := map[string]struct {
		obs  []Observation
		want []string // prefixes, in order
	}{
		"script ignores CPUs":                    {[]Observation{repeated(cpus(4), 2, 5), repeated(cpus(1), 2.02, 5)}, []string{"cpus: 4 → 1 CPUs changed the speed by 1 %"}},
		"two to one":                             {[]Observation{repeated(cpus(2), 2, 8), repeated(cpus(1), 2.02, 8)}, []string{"cpus: 2 → 1 CPUs"}},
		"script scales":                          {[]Observation{repeated(cpus(4), 2, 5), repeated(cpus(1), 7, 5)}, nil},
		"scales a little":                        {[]Observation{repeated(cpus(4), 2, 5), repeated(cpus(1), 2.6, 5)}, nil},
		"too uncertain to say":                   {[]Observation{units(cpus(2), 2.0), units(cpus(1), 2.15)}, nil},
		"measured once":                          {[]Observation{repeated(cpus(4), 2, 5)}, nil},
		"script uses one GPU":                    {[]Observation{repeated(gpus(4, 8), 2, 5), repeated(gpus(1, 8), 2.01, 5)}, []string{"gpus: 4 → 1 GPUs"}},
		"two knobs changed at once tell nothing": {[]Observation{repeated(gpus(4, 8), 2, 5), repeated(gpus(1, 2), 2.01, 5)}, nil},
		"batch ignored": {[]Observation{
			repeated(resources.Allocation{GPUs: 1, CPUs: 4, BatchSize: 256}, 2, 5), repeated(resources.Allocation{GPUs: 1, CPUs: 4, BatchSize: 32}, 2.03, 5),
		}, []string{"batch_size: 256 → 32"}},
	}
	for name, c := range cases {
		got := mustFit(t, c.obs, FitOptions{}).IgnoredKnobs()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) || !strings.Contains(got[i], "seems to ignore") {
				t.Errorf("%s: %q, want it to begin with %q", name, got[i], c.want[i])
			}
		}
	}
}

func TestLeaveOneOut(t *testing.T) {
	m := mustFit(t, []Observation{repeated(cpus(8), 2, 4), repeated(cpus(4), 3.7, 4), repeated(cpus(4), 3.8, 4), repeated(cpus(2), 7.2, 4), repeated(cpus(1), 14, 4)}, FitOptions{})
	checks := m.LeaveOneOut()
	if len(checks) != 4 {
		t.Fatalf("%d checks, want one for each of 4 allocations: %v", len(checks), checks)
	}
	for i, want := range []float64{2, 3.75, 7.2, 14} {
		c := checks[i]
		if math.Abs(c.Measured/want-1) > 0.02 || !holds(c.Predicted, c.Measured) {
			t.Errorf("%v: measured %.2f (want %.2f), predicted %v", c.Allocation, c.Measured, want, c.Predicted)
		}
		// The check must not use the omitted measurement: its interval is wider than the full model's.
		if full := m.UnitSeconds(c.Allocation); c.Predicted.P95/c.Predicted.P5 < full.P95/full.P5 {
			t.Errorf("%v: left out %v is narrower than measured %v", c.Allocation, c.Predicted, full)
		}
	}
	if got := mustFit(t, []Observation{repeated(cpus(8), 2, 4)}, FitOptions{}).LeaveOneOut(); got != nil {
		t.Errorf("one allocation: %v, want nil", got)
	}
}

func TestDescribe(t *testing.T) {
	old := repeated(cpus(2), 7, 2)
	old.Recalled = true
	form, params, basis := mustFit(t, []Observation{repeated(cpus(8), 2, 3), old}, FitOptions{}).Describe()
	if form != "amdahl" || basis != "5 measurements at 2 allocations, 1 of 2 segments from earlier runs" {
		t.Errorf("%s, %q", form, basis)
	}
	if p := params["parallel_fraction"]; p < 0.8 || p > 1 {
		t.Errorf("parallel fraction %.2f of a job that scales nearly perfectly", p)
	}
}

func TestProbesGoToTheEndsThenTheMiddleThenWhereItMatters(t *testing.T) {
	var candidates []resources.Allocation
	for c := 1; c <= 16; c++ {
		candidates = append(candidates, cpus(c))
	}
	truth := func(c int) float64 { return 0.2 + 8/math.Min(float64(c), 5) }
	obs := []Observation{repeated(cpus(16), truth(16), 3)}
	var asked []int
	// The decision: seconds, and a price for CPUs high enough to make the bend relevant.
	loss := func(a resources.Allocation, s float64) float64 { return s + 0.1*float64(a.CPUs) }
	for range 8 {
		p := mustFit(t, obs, FitOptions{}).NextProbe(candidates, nil, ProbeOptions{Loss: loss, MinGain: 0.01})
		if p == nil {
			break
		}
		asked = append(asked, p.Allocation.CPUs)
		obs = append(obs, repeated(p.Allocation, truth(p.Allocation.CPUs), 3))
	}
	if len(asked) < 2 || asked[0] != 1 || asked[1] != 4 {
		t.Fatalf("asked for %v, want 1, then 4", asked)
	}
	if len(asked) > 6 {
		t.Errorf("asked for %v: it never has enough", asked)
	}
	for _, c := range asked[2:] {
		if c < 3 || c > 12 {
			t.Errorf("asked for %v: %d CPUs cannot be the choice", asked, c)
		}
	}
}

func TestProbesVaryOneKnobAtATime(t *testing.T) {
	var candidates []resources.Allocation
	for _, g := range []int{1, 2, 4} {
		for _, c := range []int{2, 4, 8} {
			candidates = append(candidates, gpus(g, c))
		}
	}
	obs := []Observation{repeated(gpus(4, 8), 2, 4)}
	first := mustFit(t, obs, FitOptions{}).NextProbe(candidates, nil, ProbeOptions{})
	if first == nil || !first.Allocation.Same(gpus(1, 8)) {
		t.Fatalf("first probe %v, want 1 GPU at 8 CPUs", first)
	}
	obs = append(obs, repeated(gpus(1, 8), 7, 4))
	second := mustFit(t, obs, FitOptions{}).NextProbe(candidates, nil, ProbeOptions{})
	if second == nil || !second.Allocation.Same(gpus(4, 2)) {
		t.Fatalf("second probe %v, want 2 CPUs at 4 GPUs", second)
	}
}

// The gain of a probe is relative to the decision without it, and includes the move to the probed allocation.
func TestProbeGainsAgainstTheDecisionWithoutIt(t *testing.T) {
	m := mustFit(t, []Observation{repeated(cpus(4), 2, 4)}, FitOptions{})
	candidates := []resources.Allocation{cpus(1), cpus(2), cpus(4), cpus(8)}
	seconds := func(_ resources.Allocation, s float64) float64 { return s }
	probe := func(without, onward float64) *probe {
		return m.NextProbe(candidates, nil, ProbeOptions{Loss: seconds, Without: &without,
			Cost:   func(resources.Allocation) float64 { return 0 },
			Onward: func(_ resources.Allocation, s float64) float64 { return s + onward }})
	}
	free, dear := probe(2, 0), probe(2, 1)
	if free == nil || dear == nil || !(dear.Gain < free.Gain) {
		t.Fatalf("probe %v where going on costs 1 s, %v where it is free: want less gain", dear, free)
	}
	if p := probe(2, 5); p == nil || p.Allocation.CPUs != 8 {
		t.Errorf("going on costs more than it can gain: probe %v, want the best place to stay, 8 CPUs", p)
	}
	if p := probe(0.2, 0); p != nil {
		t.Errorf("what is done anyway is better than all there is to find: probe %v", p)
	}
}

func TestNoProbeWithoutChoice(t *testing.T) {
	m := mustFit(t, []Observation{repeated(cpus(4), 2, 4)}, FitOptions{})
	if p := m.NextProbe([]resources.Allocation{cpus(4)}, nil, ProbeOptions{}); p != nil {
		t.Errorf("the only candidate is measured already: %v", p)
	}
	if p := m.NextProbe(nil, nil, ProbeOptions{}); p != nil {
		t.Errorf("no candidates: %v", p)
	}
	if p := (*Model)(nil).NextProbe([]resources.Allocation{cpus(4)}, nil, ProbeOptions{}); p != nil {
		t.Errorf("no model: %v", p)
	}
}

func TestStateIsDefinedAndFinite(t *testing.T) {
	seen := map[string]bool{}
	for i, row := range stateTable {
		if row.Name == "" || seen[row.Name] || row.Definition == "" {
			t.Errorf("component %d: name %q is empty or used twice, or has no definition", i, row.Name)
		}
		seen[row.Name] = true
	}
	nan := math.NaN()
	for name, in := range map[string]StateInput{
		"empty": {}, "unknown": {GPUUtil: nan, CPUUtil: nan, MemoryGiB: nan, Done: nan, Total: nan, Throughput: nan, Elapsed: nan, SpentUSD: nan},
		"infinite": {GPUUtil: math.Inf(1), Throughput: math.Inf(1), Elapsed: math.Inf(1), Done: math.Inf(1), Total: math.Inf(1), SpentUSD: math.Inf(-1)},
	} {
		for i, v := range BuildState(in) {
			if math.IsNaN(v) || math.Abs(v) > 2 {
				t.Errorf("%s: %s = %v", name, stateTable[i].Name, v)
			}
		}
	}
	half, limit := 0.5, 1.0
	s := BuildState(StateInput{
		Allocation: resources.Allocation{GPUs: 2, CPUs: 4, Memory: 8}, Limits: resources.Limits{GPUs: resources.Range{Max: 4}, CPUs: resources.Range{Min: 1, Max: 16}, MemoryMax: 16},
		GPUUtil: 80, CPUUtil: nan, MemoryGiB: 2, Done: 25, Total: 100, Throughput: 200, Elapsed: 30, SpentUSD: 1,
		Spec:     sla.Spec{TimeMax: 60e9, CostMaxUSD: 4, ThroughputMin: 100},
		Verdicts: []sla.Verdict{{Objective: sla.Time, Status: sla.Violated, Severity: &half}, {Objective: sla.Cost, Status: sla.AtRisk}, {Objective: sla.CPUUtil, Status: sla.Met, Limit: limit}},
	})
	want := State{0.5, 0.25, 0.5, 0.8, -1, 0.25, 0.25, 0.25, 0.5, 0.25, 0, 0.5, 1, 1, 1, 0.5, 0, 0, 0, 0, 1}
	for i := range s {
		if math.Abs(s[i]-want[i]) > 1e-12 {
			t.Errorf("%s = %v, want %v", stateTable[i].Name, s[i], want[i])
		}
	}
}

func TestReward(t *testing.T) {
	half := 0.5
	r := RewardOf(RewardInput{UnitSeconds: 1800, USDPerHour: 4, Allocation: resources.Allocation{CPUs: 8, Memory: 4},
		Limits: resources.Limits{CPUs: resources.Range{Min: 1, Max: 16}, MemoryMax: 16}, Verdicts: []sla.Verdict{{Objective: sla.Time, Severity: &half}}})
	if want := (Reward{Cost: -2, Time: -0.5, Resource: -0.5 * 0.375, SLA: -0.5}); r != want {
		t.Errorf("%v, want %v", r, want)
	}
	if r := RewardOf(RewardInput{UnitSeconds: math.NaN()}); !math.IsNaN(r.Time) {
		t.Error("an unknown pace must not become a reward of 0")
	}
}

// A measurement that tells two kinds of jobs apart is worth what the better choice gains on the rarer kind, however the
// losses correlate with the result on average; one that tells nothing is worth nothing, whatever the number of choices.
func TestExpectedChoice(t *testing.T) {
	const n = 256
	rng := rand.New(rand.NewPCG(3, 4))
	log, stay, move := make([]float64, n), make([]float64, n), make([]float64, n)
	for k := range log {
		move[k] = 1
		if k%4 == 0 { // a quarter of the jobs gains by moving
			log[k], move[k] = -1, -1
		}
	}
	losses := [][]float64{stay, move}
	for name, c := range map[string]struct{ noise, low, high float64 }{
		"exact":   {0, -0.2501, -0.2499},
		"noisy":   {0.3, -0.25, -0.18},
		"useless": {50, -0.05, 0.12},
	} {
		if got := expectedChoice(losses, sortedByMeasurement(log, c.noise)); got < c.low || got > c.high {
			t.Errorf("%s measurement: expected loss %.3f, want %.2f to %.2f", name, got, c.low, c.high)
		}
	}
	for range 100 { // choices of unknown value about which the measurement tells nothing
		v := make([]float64, n)
		for k := range v {
			v[k] = rng.NormFloat64()
		}
		losses = append(losses, v)
	}
	if got := expectedChoice(losses[2:], sortedByMeasurement(log, 50)); got < -0.2 {
		t.Errorf("100 choices of mean 0 and a useless measurement: expected loss %.2f, want about 0", got)
	}
}
