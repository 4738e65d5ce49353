package run_test

import (
	"fmt"
	"testing"

	"trainopt/optimizer/plan"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/training"
	"trainopt/simulator/trial"
)

// TestAgentDecidesAsTrial: the agent and the decision benchmark, given the same measurements, take drawn jobs to the
// same allocations in the same order.
func TestAgentDecidesAsTrial(t *testing.T) {
	played, moved := 0, 0
	for seed := uint64(0); played < 3; seed++ {
		jobs, err := pretrain.Scenarios(1, seed, pretrain.GeneratorOptions{Mix: pretrain.Mix{CPU: 1}, Quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		s := jobs[0]
		if unit := s.Workload.UnitSeconds(s.Baseline); unit < 2 || unit > 25 || s.Baseline.CPUs != s.Limits.CPUs.Max {
			continue // a long first unit is measured on its own by the agent, as it may contain the warm-up
		}
		s.Units, s.UnitSamples = 60, 100
		s.Spec.TimeMax, s.Spec.CostMaxUSD, s.Rates.GiBHour = 0, 0, 0 // a drawn job has no memory
		played++
		for _, prefer := range []plan.Preference{{Time: 1}, {Cost: 1}} {
			t.Run(fmt.Sprintf("seed %d, prefer %s", seed, prefer), func(t *testing.T) {
				want := trialAllocations(t, &s, prefer)
				got := fmt.Sprint(run.PlayScenario(t, &s, 1, prefer))
				if got != fmt.Sprint(want) {
					t.Errorf("the agent works at %s, the trial at %s", got, fmt.Sprint(want))
				}
				if len(want) > 1 {
					moved++
				}
			})
		}
	}
	if moved < 3 {
		t.Errorf("only %d of the jobs move", moved)
	}
}

// trialAllocations returns the allocations of a job in the benchmark, in order.
func trialAllocations(t *testing.T, s *training.Scenario, prefer plan.Preference) []resources.Allocation {
	t.Helper()
	out, err := trial.Run(trial.Job{Scenario: s, Seed: 1, Prefer: prefer}, plan.Model{}, trial.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var at []resources.Allocation
	for _, p := range out.Pieces {
		if a := (resources.Allocation{CPUs: p.Allocation.CPUs}); len(at) == 0 || !at[len(at)-1].SameShape(a) {
			at = append(at, a)
		}
	}
	return at
}
