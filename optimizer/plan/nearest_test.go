package plan

import (
	"errors"
	"testing"

	"trainopt/resources"
	"trainopt/sla"
)

// TestNearestIsTheMostLikely: when no candidate is feasible, the plan takes the one most likely to meet the SLA, not
// the one with the least bad worst case. A measured allocation that narrowly misses is no better than a certain miss.
func TestNearestIsTheMostLikely(t *testing.T) {
	for name, test := range map[string]struct {
		s    scene
		spec sla.Spec
		luck float64 // minimum chance of the best allocation
	}{
		"only the own configuration measured, a budget just below it": {cpuScene().with(cpu(16)), sla.Spec{CostMaxUSD: 0.019}, 0.2},
		"the same on GPUs":                        {gpuScene().with(gpu(8, 32)), sla.Spec{CostMaxUSD: 3.2}, 0.2},
		"a deadline that only luck keeps":         {cpuScene().with(cpu(4)), sla.Spec{TimeMax: minutes(2)}, 0.05},
		"both limits, and what keeps one is dear": {cpuScene().with(cpu(16), cpu(1)), sla.Spec{TimeMax: minutes(3.2), CostMaxUSD: 0.021}, 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Model{}.Decide(test.s.agreed(test.spec).snapshot(t))
			var no *Infeasible
			if !errors.As(err, &no) {
				t.Fatalf("%v with %s at %.2f, want *Infeasible", err, p.Allocation, p.Chosen.Chance)
			}
			luck := 0.0
			for _, c := range no.Plan.Candidates {
				luck = max(luck, c.Chance)
			}
			if luck < test.luck || no.Nearest.Chance < luck || !no.Plan.Allocation.SameShape(no.Nearest.Allocation) {
				t.Errorf("nearest %s with a chance of %.2f, another has %.2f; want at least %.2f", no.Nearest.Allocation, no.Nearest.Chance, luck, test.luck)
			}
		})
	}
}

// Without a feasible candidate, a likely baseline is left only for what is at least as likely to meet the SLA: here CPUs
// make no difference, so that fewer are preferred, unless the restart costs time.
func TestPreferenceDecidesAmongTheLikely(t *testing.T) {
	for name, restart := range map[string]float64{"restarts cost nothing": 1e-9, "restarts take time": 2} {
		s := cpuScene().prefer("cost").running(cpu(16), 2, minutes(0.1), 0.001, restart).with(cpu(16), cpu(4))
		s.pace = func(resources.Allocation) float64 { return 1.2 }
		p, err := Model{}.Decide(s.agreed(sla.Spec{TimeMax: minutes(2.11)}).snapshot(t))
		var no *Infeasible
		if !errors.As(err, &no) {
			t.Fatalf("%s: %v with %s at %.2f, want *Infeasible", name, err, p.Allocation, p.Chosen.Chance)
		}
		own, got := candidate(no.Plan, cpu(16)), no.Plan.Chosen
		if stays := got.Allocation.CPUs == 16; got.Chance < own.Chance || stays != (restart > 1) {
			t.Errorf("%s: %s with a chance of %.3f, %.3f at the baseline", name, got.Allocation, got.Chance, own.Chance)
		}
	}
}

// with replaces the measured allocations.
func (s scene) with(measured ...resources.Allocation) scene {
	s.measured = measured
	return s
}

// TestAgainRepeatsTheWork: a job that cannot resume is predicted to repeat its work at every other allocation, also at one
// that is hardly slower, and the candidate states it.
func TestAgainRepeatsTheWork(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		s := cpuScene().running(cpu(16), 40, minutes(1), 0.001, 1)
		s.Resumable = resumable
		p, err := Model{}.Decide(s.snapshot(t))
		if err != nil {
			t.Fatal(err)
		}
		here, near := candidate(p, cpu(16)), candidate(p, cpu(15))
		if here.Again || near.Again == resumable {
			t.Errorf("resumable %t: again %t where it runs, %t beside it", resumable, here.Again, near.Again)
		}
		if step := near.Seconds.P50 - here.Seconds.P50; near.Again != (step > 40) {
			t.Errorf("resumable %t: %.0f s at 16 CPUs, %.0f s at 15: a step of %.0f s", resumable, here.Seconds.P50, near.Seconds.P50, step)
		}
	}
}
