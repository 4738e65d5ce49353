package plan

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// recalledRuns is a model fitted to earlier runs: n observations per allocation with the given seconds per unit.
func recalledRuns(t *testing.T, n int, pace map[int]float64) *perf.Model {
	t.Helper()
	var obs []perf.Observation
	for i := range n {
		for _, c := range []int{2, 1} {
			u := pace[c] * (1 + 0.06*float64(i-1))
			o := perf.Observation{Allocation: cpu(c), Recalled: true}
			for k := range 12 {
				o.UnitSeconds = append(o.UnitSeconds, u*(1+0.03*float64(k%3-1)))
			}
			obs = append(obs, o)
		}
	}
	m, err := perf.Fit(obs, perf.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A script triples its work with two threads, and OMP_NUM_THREADS follows the CPUs. With three runs each at 2 CPUs
// and 1 CPU, the plan minimises time.
func TestMeasuredSlowdownIsPlannedAround(t *testing.T) {
	for factor, planner := range map[float64]string{2: "model", 3: "model", 5: "morl"} {
		s := Snapshot{Limits: resources.Limits{CPUs: resources.Range{Min: 1, Max: 2}, MemoryMax: 16}, Rates: cost.Rates{Instance: 1},
			Preference: Preference{Time: 1}, Model: recalledRuns(t, 3, map[int]float64{2: 0.32 * factor, 1: 0.32}), Total: 12, Baseline: cpu(2),
			GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN()}
		p, err := Planners[planner].Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if p.Allocation.CPUs != 1 {
			t.Errorf("1 CPU measured %g times as fast: %s plans %s: %s", factor, planner, p.Allocation, p.Reason)
		}
	}
}

// While the baseline is held, no planner chooses a slower allocation, and the plan states it.
func TestHoldBaseline(t *testing.T) {
	for name, planner := range Planners {
		for _, preference := range []string{"cost", "balanced", "resource"} {
			s := cpuScene().prefer(preference)
			s.HoldBaseline = true
			p, err := planner.Decide(s.snapshot(t))
			if err != nil {
				t.Fatal(err)
			}
			own := candidate(p, s.Baseline)
			if p.Chosen.Seconds.P50 > (1+slack)*own.Seconds.P50 || !p.Chosen.Feasible {
				t.Errorf("%s, prefer %s: %s takes %.0f s, the own configuration %.0f s", name, preference, p.Allocation, p.Chosen.Seconds.P50, own.Seconds.P50)
			}
			if name == "model" && !strings.HasPrefix(p.Binding, "baseline kept: ") {
				t.Errorf("prefer %s: binding constraint %q, want the own configuration", preference, p.Binding)
			}
		}
	}
	// Meeting the SLA takes precedence: a baseline that exceeds the budget is not held.
	s := cpuScene().prefer("time").agreed(sla.Spec{CostMaxUSD: 0.02})
	if p := decide(t, s.snapshot(t)); p.Allocation.SameShape(s.Baseline) || !p.Chosen.Feasible && p.Recourse == nil {
		t.Errorf("budget below the cost of the own configuration: chose %s", p.Allocation)
	}
}

// A probe that would leave too little budget for the baseline is rejected.
func TestProbesSpareTheBaseline(t *testing.T) {
	slow := gpuScene().prefer("time").running(gpu(8, 32), 3, minutes(0.6), 0.27, 20)
	slow.measured = []resources.Allocation{gpu(8, 32)}
	slow.Limits.CPUs = resources.Range{Min: 32, Max: 32}
	whole := decide(t, slow.snapshot(t))
	own := candidate(whole, slow.Baseline).CostUSD
	for name, c := range map[string]struct {
		budget   float64
		feasible bool
		want     bool
	}{"tight": {1.02 * own.P95, true, false}, "ample": {5 * own.P95, true, true}, "unsafe without the probe": {0.997 * own.P95, false, false}} {
		s := slow.agreed(sla.Spec{CostMaxUSD: c.budget}).prefer("cost").snapshot(t)
		b := newEvaluation(s)
		if b.cs[b.baseline].Feasible != c.feasible {
			t.Fatalf("%s: the own configuration must be feasible at first: %v", name, c.feasible)
		}
		if !c.feasible { // a probe that lowers the probability by a point
			s.Restart = sla.Interval{P5: 0.01, P50: 0.01, P95: 0.01}
			b = newEvaluation(s)
		}
		if got := b.probeKeepsFallback(gpu(1, 32), b.fallback()); got != c.want {
			t.Errorf("%s budget: a probe of 1 GPU spares the own configuration: %v, want %v", name, got, c.want)
		}
		if to, _ := NextProbe(s, nil, []resources.Allocation{gpu(1, 32)}); to != nil && !c.want {
			t.Errorf("%s budget: probes %s", name, to)
		}
	}
}

// If no measured allocation meets the SLA, one far from the measurements is measured before the time is up.
func TestRescueMeasuresBeforeTheGuardActs(t *testing.T) {
	s := gpuScene().prefer("cost").agreed(sla.Spec{CostMaxUSD: 2}).running(gpu(8, 32), 2, minutes(0.5), 0.2, 5)
	s.measured = []resources.Allocation{gpu(8, 32)}
	snap := s.snapshot(t)
	to, why := RescueProbe(snap)
	if to == nil || to.GPUs >= 8 {
		t.Fatalf("measures %v (%s), want fewer GPUs", to, why)
	}
	stuck := snap
	stuck.Resumable = false
	if to, _ := RescueProbe(stuck); to != nil {
		t.Errorf("restarts a job that cannot be resumed, to %s", to)
	}
	snap.Spec = sla.Spec{CostMaxUSD: 1000}
	if to, _ := RescueProbe(snap); to != nil {
		t.Errorf("measures %s although the agreement is kept", to)
	}
}

// A probe of steps takes its minimum time, however short the steps are.
func TestProbesTakeTheirTime(t *testing.T) {
	s := gpuScene().prefer("cost").agreed(sla.Spec{CostMaxUSD: 2}).running(gpu(8, 32), 2, minutes(0.5), 0.2, 5)
	s.measured = []resources.Allocation{gpu(8, 32)}
	snap := s.snapshot(t)
	b := newEvaluation(snap)
	snap.ProbeTime = time.Hour
	long := newEvaluation(snap)
	if a := gpu(1, 4); !b.affordable(a) || long.affordable(a) {
		t.Errorf("a short probe is affordable: %t, one of an hour: %t", b.affordable(a), long.affordable(a))
	}
	sc := scaleOf(pointsOf(b.cs), frontAmong(b.cs, where(b.cs, feasible)))
	if short, hour := b.probeCost(sc, gpu(1, 4))(gpu(8, 32)), long.probeCost(sc, gpu(1, 4))(gpu(8, 32)); !(hour > 2*short) {
		t.Errorf("a probe of an hour costs %g, a short one %g", hour, short)
	}
	snap.ProbeTime = 5 * time.Second
	for unit, want := range map[float64]float64{0.01: 501, 1: 6, 10: 3, 40: 2} {
		if got := snap.probeUnits(unit); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g units of %g s, want %g", got, unit, want)
		}
	}
}

// A block of many steps away from the baseline delays the run by each of them.
func TestDelayOfBlocks(t *testing.T) {
	s := Snapshot{Baseline: cpu(4), Trials: []Trial{{Allocation: cpu(4), UnitSeconds: []float64{0.02}, Units: 50},
		{Allocation: cpu(1), UnitSeconds: []float64{0.03, 0.05}, Units: 100}}}
	if got := behind(s, 0.02); math.Abs(got-2) > 1e-9 {
		t.Errorf("100 steps that took 0.02 s longer are %g s of delay, want 2", got)
	}
}

func trial(a resources.Allocation, seconds float64) Trial {
	return Trial{Allocation: a, UnitSeconds: []float64{0.99 * seconds, seconds, 1.01 * seconds}}
}

func TestRevert(t *testing.T) {
	base := cpuScene().running(cpu(4), 30, minutes(1.5), 0.01, 5).prefer("time").snapshot(t)
	cases := map[string]struct {
		trials []Trial
		change func(*Snapshot)
		want   int // CPUs; 0 means stay
	}{
		"slower":                      {[]Trial{trial(cpu(16), 1), trial(cpu(4), 3)}, nil, 16},
		"slower, total unknown":       {[]Trial{trial(cpu(16), 1), trial(cpu(4), 3)}, func(s *Snapshot) { s.Total = 0 }, 16},
		"slower, nothing fitted":      {[]Trial{trial(cpu(16), 1), trial(cpu(4), 3)}, func(s *Snapshot) { s.Total, s.Model = 0, nil }, 16},
		"faster":                      {[]Trial{trial(cpu(16), 3), trial(cpu(4), 1)}, nil, 0},
		"within noise":                {[]Trial{trial(cpu(16), 1), trial(cpu(4), 1.03)}, nil, 0},
		"the best of several":         {[]Trial{trial(cpu(16), 2), trial(cpu(8), 1), trial(cpu(4), 3)}, nil, 8},
		"not measured here":           {[]Trial{trial(cpu(16), 1), {Allocation: cpu(4)}}, nil, 0},
		"too late to pay":             {[]Trial{trial(cpu(16), 1), trial(cpu(4), 3)}, func(s *Snapshot) { s.Done = 99 }, 0},
		"cannot be resumed":           {[]Trial{trial(cpu(16), 1), trial(cpu(4), 3)}, func(s *Snapshot) { s.Resumable = false }, 0},
		"cheaper, as was wanted":      {[]Trial{trial(cpu(16), 1), trial(cpu(4), 3)}, func(s *Snapshot) { s.Preference = Preference{Cost: 1} }, 0},
		"neither meets the deadline":  {[]Trial{trial(cpu(16), 1.2), trial(cpu(2), 2.97), trial(cpu(4), 2.95)}, func(s *Snapshot) { s.Preference, s.Spec.TimeMax = Preference{Cost: 1}, minutes(3.5) }, 0},
		"both meet the deadline":      {[]Trial{trial(cpu(16), 1.2), trial(cpu(2), 2.97), trial(cpu(4), 2.95)}, func(s *Snapshot) { s.Preference, s.Spec.TimeMax = Preference{Cost: 1}, minutes(40) }, 2},
		"worse, as the choice weighs": {[]Trial{trial(cpu(16), 1.2), trial(cpu(1), 4.2), trial(cpu(4), 2.6)}, func(s *Snapshot) { s.Total, s.Model, s.Preference = 0, nil, Preference{Time: 1, Cost: 1} }, 0},
		"free of charge":              {[]Trial{trial(cpu(16), 1), trial(cpu(4), 1.7)}, func(s *Snapshot) { s.Total, s.Model, s.Rates, s.Preference = 0, nil, cost.Rates{}, Preference{1, 1, 1} }, 0},
		"faster, as the deadline is":  {[]Trial{trial(cpu(2), 5), trial(cpu(4), 3.5)}, func(s *Snapshot) { s.Preference, s.Spec.TimeMax = Preference{Resource: 1}, minutes(6) }, 0},
	}
	for name, c := range cases {
		s := base
		s.Trials = c.trials
		if c.change != nil {
			c.change(&s)
		}
		to, why := Revert(s)
		switch {
		case c.want == 0 && to != nil:
			t.Errorf("%s: goes to %s (%s), want to stay", name, to, why)
		case c.want != 0 && (to == nil || to.CPUs != c.want):
			t.Errorf("%s: goes to %v (%s), want %d CPUs", name, to, why, c.want)
		}
	}
}

// An allocation measured as worse in this run is not chosen again, whatever the model predicts.
func TestFailedTrialsAreNotRepeated(t *testing.T) {
	s := cpuScene().prefer("cost").running(cpu(16), 30, minutes(1.5), 0.01, 5)
	free := decide(t, s.snapshot(t)).Allocation
	s.Trials = []Trial{trial(cpu(16), 1.2), trial(free, 40), trial(cpu(16), 1.2)}
	p := decide(t, s.snapshot(t))
	if p.Allocation.SameShape(free) {
		t.Errorf("chose %s, measured 30 times slower before", free)
	}
}

// A few points of chance do not justify any price; a likely violation does.
func TestChanceIsWeighedAgainstCost(t *testing.T) {
	free := cpuScene().prefer("cost").running(cpu(2), 40, minutes(3.5), 0.008, 5)
	whole := decide(t, free.snapshot(t))
	here := candidate(whole, cpu(2)).Seconds
	for name, c := range map[string]struct {
		deadline float64
		want     bool
	}{
		"likely as it is": {(here.P50 + here.P95) / 2, false},
		"a certain miss":  {0.7 * here.P50, true},
	} {
		s := free.agreed(sla.Spec{TimeMax: minutes(c.deadline / 60)}).snapshot(t)
		f := newForecast(s)
		now := f.outcome(cpu(2)).Chance
		p := Plan{Allocation: cpu(16)}
		if worth, why := Worth(s, p); worth != c.want {
			t.Errorf("%s (chance %.2f, at 16 CPUs %.2f, half as much again to pay): %v, %s", name, now, f.outcome(cpu(16)).Chance, worth, why)
		}
	}
}

// TestNoMoveBeyondTheLimit: after three moves, after four if one of them gained, every rule keeps the job where it runs,
// whatever was measured, and no probe is taken without a move left to use its result.
func TestNoMoveBeyondTheLimit(t *testing.T) {
	at := func(n int) Plan { return Plan{Allocation: cpu(n)} }
	first := cpuScene().prefer("time").running(cpu(4), 10, minutes(1), 0.01, 5)
	if worth, why := Worth(first.snapshot(t), at(16)); !worth {
		t.Fatalf("the first move: %s", why)
	}
	rapid.Check(t, func(r *rapid.T) {
		s := first.prefer(rapid.SampledFrom([]string{"time", "cost", "balanced"}).Draw(r, "preference")).snapshot(t)
		if limit := rapid.Float64Range(0.5, 20).Draw(r, "limit"); rapid.Bool().Draw(r, "limited") {
			s.Spec = sla.Spec{TimeMax: minutes(limit)}
		}
		if rapid.Bool().Draw(r, "restarts cost nothing") {
			s.Restart, s.Startup = sla.Interval{}, sla.Interval{}
		}
		n := rapid.IntRange(3, 6).Draw(r, "allocations")
		for len(mergeSegments(s)) < n {
			s.Trials = append(s.Trials, trial(cpu(rapid.IntRange(1, 16).Draw(r, "CPUs")), rapid.Float64Range(0.1, 30).Draw(r, "seconds")))
		}
		last := s.Trials[len(s.Trials)-1].Allocation
		s.Current = &last
		most := 3
		for all, i := rated(s), 1; i < n; i++ {
			if worse(s, all[0], all[i]) {
				most = 4
			}
		}
		if n < most { // a probe and the use of its result are left
			return
		}
		if to, why := NextProbe(s, nil, Allocations(s)); to != nil {
			r.Fatalf("after %d moves: probes %s: %s", n-1, to, why)
		}
		if to, why := RescueProbe(s); to != nil {
			r.Fatalf("after %d moves: measures %s: %s", n-1, to, why)
		}
		if n == most { // one move may follow
			return
		}
		for _, to := range []int{1, 4, 8, 16} {
			if worth, why := Worth(s, at(to)); worth {
				r.Fatalf("after %d moves: moves to %d CPUs: %s", n-1, to, why)
			}
			if p := StayUnlessWorth(s, at(to)); !p.Allocation.SameShape(last) {
				r.Fatalf("after %d moves: settles at %s", n-1, p.Allocation)
			}
		}
		if to, why := Revert(s); to != nil {
			r.Fatalf("after %d moves: returns to %s: %s", n-1, to, why)
		}
	})
}

// A job that cannot be resumed stays at its allocation unless the user agreed to a start from the beginning.
func TestJobsThatCannotBeResumedStay(t *testing.T) {
	s := cpuScene().prefer("time").running(cpu(1), 2, minutes(0.3), 0.001, 2)
	s.Resumable = false
	for name, planner := range Planners {
		p, err := planner.Decide(s.snapshot(t))
		if err != nil {
			t.Fatal(err)
		}
		if p = StayUnlessWorth(s.snapshot(t), p); !p.Allocation.SameShape(cpu(1)) {
			t.Errorf("%s: settles at %s", name, p.Allocation)
		}
	}
	if to, _ := NextProbe(s.snapshot(t), nil, Allocations(s.snapshot(t))); to != nil {
		t.Errorf("starts the job again to measure %s", to)
	}
}

// With an unknown total, only paces are predicted.
func TestWithoutATotalOnlyPaces(t *testing.T) {
	s := cpuScene().prefer("time").agreed(sla.Spec{TimeMax: minutes(1)}).running(cpu(16), 10, minutes(0.2), 0.001, 2)
	s.Total = 0
	for name, planner := range Planners {
		p, err := planner.Decide(s.snapshot(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.Predicted || len(p.Candidates) > 0 || len(p.Options) > 0 || p.Chosen.Chance != 0 || p.Chosen.Feasible || p.Chosen.Seconds != (sla.Interval{}) {
			t.Errorf("%s: predicts the run: %+v", name, p.Chosen)
		}
		if len(p.Paces) == 0 {
			t.Errorf("%s: no paces", name)
		}
		if name == "model" {
			for _, q := range p.Paces {
				if q.Allocation.SameShape(p.Allocation) && math.Abs(q.Seconds.P50/s.pace(p.Allocation)-1) > 0.1 {
					t.Errorf("pace at %s: %v, want %.3g", q.Allocation, q.Seconds, s.pace(p.Allocation))
				}
			}
		}
	}
	late := s
	late.Elapsed = minutes(2)
	var no *Infeasible
	if _, err := (Model{}).Decide(late.snapshot(t)); !errors.As(err, &no) {
		t.Errorf("a deadline that has passed: %v", err)
	}
}

func TestThreadKnob(t *testing.T) {
	s := cpuScene().prefer("time")
	count := func(s Snapshot) (n int) {
		for _, a := range Allocations(s) {
			if a.Threads == 1 {
				n++
			}
		}
		return n
	}
	if n := count(s.snapshot(t)); n != 0 {
		t.Errorf("%d candidates with one thread without the knob", n)
	}
	s.ThreadKnob = true
	one := s.Baseline
	one.Threads = 1
	if n := count(s.snapshot(t)); n != 1 {
		t.Errorf("%d candidates with one thread, want the baseline's", n)
	}
	s.measured = append(s.measured, one)
	pace := s.pace
	s.pace = func(a resources.Allocation) float64 {
		if a.Threads == 1 {
			return pace(a) / 5
		}
		return pace(a)
	}
	if p := decide(t, s.snapshot(t)); p.Allocation.Threads != 1 {
		t.Errorf("one thread measured five times as fast: chose %s", p.Allocation)
	}
}
