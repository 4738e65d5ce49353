package trial

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

var (
	forTime  = plan.Preference{Time: 1}
	forCost  = plan.Preference{Cost: 1}
	balanced = plan.Preference{Time: 1. / 3, Cost: 1. / 3, Resource: 1. / 3}
)

func mustRun(t *testing.T, arm string, j Job, o Options) (*outcome, *jobTruth) {
	t.Helper()
	a, err := Lookup(arm, nil)
	if err != nil {
		t.Fatal(err)
	}
	truth := search(j.Scenario, j.Seed)
	out, err := a.Run(j, truth, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, truth
}

// TestModelFindsTheBestAllocation checks the final allocation, the mean regret and the probes of the planner model.
func TestModelFindsTheBestAllocation(t *testing.T) {
	for name, test := range map[string]struct {
		s      *training.Scenario
		prefer plan.Preference
		gpus   []int // allocations acceptable for the work
		most   float64
	}{
		"cost: one or two GPUs": {with(func(s *training.Scenario) { s.Units = 2000 }), forCost, []int{1, 2}, 0.05},
		"time: all":             {with(func(s *training.Scenario) { s.Units = 2000 }), forTime, []int{7, 8}, 0.02},
		"nothing said of memory": {with(func(s *training.Scenario) {
			s.Units, s.Limits.MemoryMin, s.Limits.MemoryMax, s.Baseline.Memory = 2000, 0, 0, 0
		}), forCost, []int{1, 2}, 0.05},
		"cost by a deadline": {with(func(s *training.Scenario) { s.Units = 2000; s.Spec.TimeMax = 4 * time.Hour }), forCost, []int{4, 5, 6, 7}, 0.21},
	} {
		t.Run(name, func(t *testing.T) {
			mean, seeds := 0.0, 6
			for seed := range seeds {
				out, truth := mustRun(t, "model", Job{test.s, uint64(3 + seed), test.prefer}, Options{})
				last := out.Pieces[len(out.Pieces)-1]
				if len(out.Fallbacks) > 0 {
					t.Errorf("the planner failed: %v", out.Fallbacks)
				}
				if !out.MetSLA() || !slices.Contains(test.gpus, last.Allocation.GPUs) {
					t.Errorf("ends at %s (kept: %v), want GPUs %v", last.Allocation, out.MetSLA(), test.gpus)
				}
				r := truth.Regret(test.prefer, out)
				if mean += r.Total / float64(seeds); r.Total < -1e-9 && test.s.Spec.TimeMax == 0 {
					t.Errorf("regret %+v below that of the oracle", r)
				}
				if out.Probes < 1 || out.Probes > 4 || out.ProbeUSD == 0 { // the first is always measured, others where worthwhile
					t.Errorf("%d probes for %g USD, want 1 to 4 that are paid", out.Probes, out.ProbeUSD)
				}
			}
			if !(mean < test.most) {
				t.Errorf("mean regret %g, want less than %g", mean, test.most)
			}
		})
	}
}

func TestOracleIsTheLeastAndUserIsFree(t *testing.T) {
	for _, prefer := range []plan.Preference{forTime, forCost, balanced} {
		j := Job{agreed(2*time.Hour, 20), 5, prefer}
		out, truth := mustRun(t, "oracle", j, Options{})
		if r := truth.Regret(prefer, out); math.Abs(r.Total) > 1e-9 || math.Abs(r.Choice) > 1e-9 || !out.MetSLA() {
			t.Errorf("%v: the oracle has regret %+v", prefer, r)
		}
		for _, arm := range []string{"user", "random", "model", "rules"} {
			out, truth := mustRun(t, arm, j, Options{})
			if r := truth.Regret(prefer, out); out.Finished && r.Total < -1e-9 { // no limit binds here
				t.Errorf("%v: %s beats the oracle by %g", prefer, arm, -r.Total)
			}
		}
	}
	out, truth := mustRun(t, "user", Job{job(), 5, forTime}, Options{})
	if out.Seconds != truth.Own.Seconds || out.USD != truth.Own.USD || out.Joules != truth.Own.Joules || out.Restarts != 0 || out.Probes != 0 {
		t.Errorf("the user's own run is %+v, want %+v", out, truth.Own)
	}
}

// erratic is a truth without structure: the pace at each allocation is drawn on its own, so that every prediction fails.
type erratic uint64

func (w erratic) UnitSeconds(a resources.Allocation) float64 {
	return 20 * math.Exp(rand.New(rand.NewPCG(uint64(w), uint64(a.GPUs<<16|a.CPUs))).NormFloat64())
}

func (erratic) Watts(resources.Allocation) float64 { return math.NaN() }

// TestAtMostFourRestartsByChoice: whatever the measurements, probes and returns included; the fourth follows a gain.
func TestAtMostFourRestartsByChoice(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	reached := false
	for n := range uint64(12) {
		s := with(func(s *training.Scenario) {
			s.Workload, s.Units = erratic(n), float64(20+rng.IntN(300))
			s.Startup = 0.1 + 20*rng.Float64()
			s.Restart = s.Startup * (1 + rng.Float64())
			s.Limits.CPUs = resources.Range{Min: 1, Max: 1 + rng.IntN(8)}
			s.Baseline.CPUs = s.Limits.CPUs.Max
			switch rng.IntN(4) {
			case 0:
				s.Spec.TimeMax = seconds(20 * s.Units * (0.5 + rng.Float64()))
			case 1:
				s.Spec.CostMaxUSD = 20 * s.Units / 3600 * 16 * (0.5 + rng.Float64())
			}
		})
		for _, arm := range []string{"model", "probed"} {
			out, _ := mustRun(t, arm, Job{s, n, []plan.Preference{forTime, forCost, balanced}[n%3]}, Options{Every: 1 + rng.IntN(6)})
			if reached = reached || out.Restarts >= 3; out.Restarts > 4 {
				t.Errorf("%s, job %d: %d restarts by choice", arm, n, out.Restarts)
			}
		}
	}
	if !reached {
		t.Error("no job came to the limit")
	}
}

// With the same measurements and perfect information afterwards, the result is no worse than the model's.
func TestProbedBoundsTheModel(t *testing.T) {
	for name, prefer := range map[string]plan.Preference{"time": forTime, "cost": forCost, "balanced": balanced} {
		s := job()
		s.Noise = training.Noise{}
		j := Job{s, 5, prefer}
		best, truth := mustRun(t, "probed", j, Options{})
		model, _ := mustRun(t, "model", j, Options{})
		bound, got := truth.Regret(prefer, best), truth.Regret(prefer, model)
		if !best.Finished || bound.Total > got.Total+1e-9 || bound.Total < 0 {
			t.Errorf("%s: regret %.4f with the truth, %.4f by the model", name, bound.Total, got.Total)
		}
		if best.Probes > model.Probes { // the model may measure again during the work
			t.Errorf("%s: %d allocations measured, the model %d", name, best.Probes, model.Probes)
		}
	}
}

// TestGuardHoldsTheLimits checks for infeasible SLAs that every arm is stopped within the limit but not much earlier.
func TestGuardHoldsTheLimits(t *testing.T) {
	for name, test := range map[string]struct {
		s    *training.Scenario
		stop sla.Objective
	}{
		"a budget that nothing can keep":   {agreed(0, 0.5), sla.Cost},
		"a deadline that nothing can keep": {agreed(5*time.Minute, 0), sla.Time},
		"a budget below a long unit": {with(func(s *training.Scenario) {
			s.Workload, s.Units, s.Spec.CostMaxUSD = amdahl{900, 100, 0, 0}, 50, 3
		}), sla.Cost},
	} {
		for _, arm := range []string{"user", "model", "random", "rules", "oracle"} {
			t.Run(name+", "+arm, func(t *testing.T) {
				out, truth := mustRun(t, arm, Job{test.s, 2, forCost}, Options{})
				if truth.Feasible || out.Finished || out.Stopped != test.stop || out.MetSLA() {
					t.Fatalf("stopped by %q, finished %v, feasible %v; want a stop for %s", out.Stopped, out.Finished, truth.Feasible, test.stop)
				}
				if out.BudgetOverrun > 0.01 {
					t.Errorf("the budget is overrun by %.2f %%", 100*out.BudgetOverrun)
				}
				if d := test.s.Spec.TimeMax.Seconds(); d > 0 && out.Seconds > 1.01*d {
					t.Errorf("%g s used of %g", out.Seconds, d)
				}
				used := out.USD / max(test.s.Spec.CostMaxUSD, 1e-9)
				if test.stop == sla.Cost && used < 0.9 {
					t.Errorf("stopped when %.0f %% of the budget was used", 100*used)
				}
				if !math.IsNaN(truth.Regret(forCost, out).Total) {
					t.Error("a job that was not finished has a regret")
				}
			})
		}
	}
}

// TestFailingPlannersEndNoRun checks that a planner that panics, fails or plans an impossible allocation is recorded
// as a fallback and that the job finishes.
func TestFailingPlannersEndNoRun(t *testing.T) {
	for name, p := range map[string]plan.Planner{
		"panics": planner(func(plan.Snapshot) (plan.Plan, error) { panic("no") }),
		"errors": planner(func(plan.Snapshot) (plan.Plan, error) { return plan.Plan{}, errors.New("no") }),
		"plans what is not there": planner(func(plan.Snapshot) (plan.Plan, error) {
			return plan.Plan{Allocation: resources.Allocation{GPUs: 99, CPUs: 4, Memory: 1}}, nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Run(Job{job(), 1, forCost}, p, Options{})
			if err != nil || !out.Finished || len(out.Fallbacks) == 0 || !strings.Contains(out.Fallbacks[0], "odd") {
				t.Errorf("%v, finished %v, fallbacks %v", err, out.Finished, out.Fallbacks)
			}
		})
	}
	s := with(func(s *training.Scenario) { s.Workload, s.Baseline.GPUs = amdahl{2, 20, 0.2, 4}, 4 })
	p := planner(func(plan.Snapshot) (plan.Plan, error) {
		return plan.Plan{Allocation: resources.Allocation{GPUs: 8, CPUs: 4, Memory: 16}}, nil
	})
	out, err := Run(Job{s, 1, plan.Preference{Time: 1}}, p, Options{})
	if err != nil || !out.Finished || len(out.Fallbacks) == 0 || out.Fallbacks[0] != "the job does not run at 8 GPU, 4 CPU, 16 GiB" {
		t.Fatalf("%v, %+v", err, out.Fallbacks)
	}
	if last := out.Pieces[len(out.Pieces)-1]; last.Allocation.GPUs > 4 {
		t.Errorf("it ends at %s, where it cannot run", last.Allocation)
	}
}

type planner func(plan.Snapshot) (plan.Plan, error)

func (planner) Name() string                                { return "odd" }
func (p planner) Decide(s plan.Snapshot) (plan.Plan, error) { return p(s) }

func TestPlannersSeeWhatWasMeasured(t *testing.T) {
	var seen []plan.Snapshot
	p := planner(func(s plan.Snapshot) (plan.Plan, error) { seen = append(seen, s); return plan.Model{}.Decide(s) })
	j := Job{job(), 9, forCost}
	if _, err := Run(j, p, Options{}); err != nil {
		t.Fatal(err)
	}
	s := seen[0]
	if s.Model == nil || s.Current == nil || s.Done < 3 || s.Total != 200 || s.Spent <= 0 || s.Elapsed <= 0 || !s.Resumable || s.Startup.P50 <= 0 {
		t.Errorf("the first snapshot is %+v", s)
	}
	if e := s.Startup.P50/10 - 1; math.Abs(e) > 0.2 {
		t.Errorf("start-up was measured as %g s, is 10", s.Startup.P50)
	}
	if s := seen[len(seen)-1]; math.Abs(s.Restart.P50-15) > 5 {
		t.Errorf("restarts were measured as %g s, are 15", s.Restart.P50)
	}
}

func TestInterruptionsArePaidAndTold(t *testing.T) {
	s := with(func(s *training.Scenario) {
		s.Interruptions = []training.Interruption{{At: 100, Away: 60}, {At: 400, Away: 0}}
	})
	for _, arm := range []string{"user", "model", "oracle"} {
		out, truth := mustRun(t, arm, Job{s, 4, forTime}, Options{})
		lost := 0.0
		for _, p := range out.Pieces {
			if p.Kind == pieceLost {
				lost += p.Seconds
			}
		}
		if out.Interruptions != 2 || lost < 60+2*15 || lost > 60+2*15+2*30 || !out.Finished {
			t.Errorf("%s: %d interruptions, %g s lost, finished %v", arm, out.Interruptions, lost, out.Finished)
		}
		if r := truth.Regret(forTime, out); arm == "oracle" && math.Abs(r.Lost) > 1e-9 {
			t.Errorf("the oracle regrets its own interruptions: %+v", r)
		}
	}
}

// Whether an interruption strikes is luck: the regret, its floor and the oracle are those without it, also if hindsight
// knows an allocation that ends just before a long one.
func TestInterruptionsAreNotRegretted(t *testing.T) {
	regret := func(interruptions ...training.Interruption) (regret, float64, fixedRun) {
		s := with(func(s *training.Scenario) {
			s.Noise, s.Baseline.GPUs, s.Interruptions = training.Noise{}, 2, interruptions
		})
		out, truth := mustRun(t, "user", Job{s, 4, balanced}, Options{})
		oracle, _ := truth.Oracle(balanced)
		return truth.Regret(balanced, out), truth.MinRegret(balanced), oracle
	}
	quiet, floor, oracle := regret()
	for _, at := range []float64{5, 300, oracle.Seconds - 1, oracle.Seconds + 1} {
		r, f, o := regret(training.Interruption{At: at, Away: 7200})
		if math.Abs(r.Total-quiet.Total) > 1e-9 || math.Abs(r.Choice-quiet.Choice) > 1e-9 || math.Abs(f-floor) > 1e-9 || o.Allocation.GPUs != oracle.Allocation.GPUs {
			t.Errorf("interrupted at %g s: regret %+v, floor %.3f, oracle %s; want %+v, %.3f, %s", at, r, f, o.Allocation, quiet, floor, oracle.Allocation)
		}
		if escapes := at > oracle.Seconds; escapes != (r.Lost > 1) {
			t.Errorf("interrupted at %g s: lost %.2f more than the oracle, which escapes: %v", at, r.Lost, escapes)
		}
	}
}

// TestPiecesAddUp checks for any job that all consumption is in a piece, that regret is the sum of its causes, and
// that the limits hold.
func TestPiecesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64Range(0, 1e6).Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		s := job()
		s.Workload = amdahl{5 * rng.Float64(), 60 * rng.Float64(), rng.Float64(), 0}
		s.Units = 1 + 150*rng.Float64()
		s.Noise = training.Noise{Unit: 0.2 * rng.Float64(), Memory: 0.9 * rng.Float64()}
		s.Startup, s.Restart = 30*rng.Float64(), 60*rng.Float64()
		s.Baseline.GPUs = 1 + rng.IntN(8)
		for at := 300 * rng.Float64(); at < 2000 && rng.Float64() < 0.5; at += 50 + 900*rng.Float64() {
			s.Interruptions = append(s.Interruptions, training.Interruption{At: at, Away: 40 * rng.Float64()})
		}
		own := search(s, seed).Own
		if rng.Float64() < 0.5 {
			s.Spec.TimeMax = seconds(own.Seconds * (0.4 + 1.5*rng.Float64()))
		}
		if rng.Float64() < 0.5 {
			s.Spec.CostMaxUSD = own.USD * (0.4 + 1.5*rng.Float64())
		}
		truth := search(s, seed)
		prefer := []plan.Preference{forTime, forCost, balanced}[rng.IntN(3)]
		for _, name := range []string{"user", "oracle", []string{"random", "model", "rules"}[rng.IntN(3)]} {
			arm, _ := Lookup(name, nil)
			out, err := arm.Run(Job{s, seed, prefer}, truth, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var sec, usd, units float64
			for _, p := range out.Pieces {
				sec, usd, units = sec+p.Seconds, usd+p.USD, units+p.Units
				if p.Seconds < -1e-9 || p.USD < -1e-9 || p.Units < 0 {
					t.Fatalf("%s: negative piece %+v", name, p)
				}
			}
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(b)) }
			if !near(sec, out.Seconds) || !near(usd, out.USD) || !near(units, out.Done) {
				t.Fatalf("%s: pieces sum to %g s, %g USD, %g units; spent %g, %g, %g", name, sec, usd, units, out.Seconds, out.USD, out.Done)
			}
			if out.BudgetOverrun > 0.01 || s.Spec.TimeMax > 0 && out.Seconds > 1.01*s.Spec.TimeMax.Seconds()+0.01 {
				t.Fatalf("%s: %g s of %v, overrun %g", name, out.Seconds, s.Spec.TimeMax, out.BudgetOverrun)
			}
			if out.Finished == (out.Stopped != "") || out.Finished && !near(out.Done, s.Units) {
				t.Fatalf("%s: finished %v and stopped by %q with %g of %g units", name, out.Finished, out.Stopped, out.Done, s.Units)
			}
			if r := truth.Regret(prefer, out); out.Finished && truth.Feasible && !near(r.Total, r.Choice+r.Probe+r.Move) {
				t.Fatalf("%s: regret %+v does not add up", name, r)
			}
		}
	})
}

func TestSameSeedSameOutcome(t *testing.T) {
	j := Job{agreed(3*time.Hour, 0), 12, balanced}
	for _, arm := range []string{"model", "random", "rules"} {
		a, _ := mustRun(t, arm, j, Options{})
		b, _ := mustRun(t, arm, j, Options{})
		x, err1 := json.Marshal(a)
		y, err2 := json.Marshal(b)
		if err1 != nil || err2 != nil || string(x) != string(y) {
			t.Errorf("%s: two runs differ: %v %v", arm, err1, err2)
		}
	}
}

func TestLookup(t *testing.T) {
	loaded := func(name string) (plan.Planner, error) {
		switch name {
		case "mine":
			return plan.Model{}, nil
		case "torn":
			return nil, errors.New("checksum is wrong")
		}
		return nil, nil
	}
	for name, want := range map[string]string{"user": "", "model": "", "static": "", "mine": "", "torn": "checksum", "nobody": "want one of"} {
		_, err := Lookup(name, loaded)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestJobsThatMakeNoSense(t *testing.T) {
	for name, s := range map[string]*training.Scenario{
		"none":            nil,
		"no work":         with(func(s *training.Scenario) { s.Units = 0 }),
		"cannot run":      with(func(s *training.Scenario) { s.Workload = amdahl{1, 1, 0, 2} }),
		"negative budget": with(func(s *training.Scenario) { s.Spec.CostMaxUSD = -1 }),
	} {
		if _, err := Run(Job{Scenario: s}, plan.Model{}, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestReach has known answers for Feasible, Reachable and Floor, by deadline and baseline.
func TestReach(t *testing.T) {
	for name, test := range map[string]struct {
		deadline            time.Duration
		gpus                int
		feasible, reachable bool
	}{
		"lost before it begins: one unit on one GPU": {1170 * time.Second, 1, true, false},
		"as tight, begun on all":                     {1170 * time.Second, 8, true, false},
		"loose, begun on all":                        {1320 * time.Second, 8, true, true},
		"loose, begun on one":                        {1350 * time.Second, 1, true, true},
		"impossible":                                 {900 * time.Second, 8, false, false},
	} {
		t.Run(name, func(t *testing.T) { // 8 GPUs: 10 + 200 × 5.9 s
			s := with(func(s *training.Scenario) {
				s.Noise, s.Spec.TimeMax, s.Baseline.GPUs = training.Noise{}, test.deadline+30*time.Second, test.gpus
			})
			got := search(s, 1)
			if got.Feasible != test.feasible || got.Reachable != test.reachable {
				t.Errorf("feasible %v, reachable %v; want %v, %v", got.Feasible, got.Reachable, test.feasible, test.reachable)
			}
			want := math.NaN()                                     // on one GPU a unit takes 22 s instead of 5.9, followed by a restart
			if test.reachable || test.feasible && test.gpus == 8 { // a baseline at the optimum loses nothing
				want = float64(8-test.gpus) / 7 * (22 - 5.9 + 15) / 1190
			}
			if floor := got.MinRegret(forTime); math.Abs(floor-want) > 1e-9 || math.IsNaN(floor) != math.IsNaN(want) {
				t.Errorf("the floor of the regret is %g, want %g", floor, want)
			}
		})
	}
}

// TestProbedStays: the reference with perfect information does not move after it has settled.
func TestProbedStays(t *testing.T) {
	var s strategy = &probed{}
	if a, why := s.reevaluate(); a != nil {
		t.Errorf("moves to %s: %s", a, why)
	}
}
