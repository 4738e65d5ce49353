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
// same allocations in the same order. The agent measures the baseline for at least 8 % of the work (see settling), the
// trial for two blocks: where candidates are nearly equal, this may decide, and such jobs are not in the list.
func TestAgentDecidesAsTrial(t *testing.T) {
	moved := 0
	for _, seed := range []uint64{12, 15} {
		jobs, err := pretrain.Scenarios(1, seed, pretrain.GeneratorOptions{Mix: pretrain.Mix{CPU: 1}})
		if err != nil {
			t.Fatal(err)
		}
		s := jobs[0]
		s.Noise.Unit, s.Noise.Memory = 0, 0
		s.Units, s.UnitSamples, s.Used = 60, 100, nil                // the agent's job has no processes that it could see at work
		s.Spec.TimeMax, s.Spec.CostMaxUSD, s.Rates.GiBHour = 0, 0, 0 // a drawn job has no memory
		for _, prefer := range []plan.Preference{{Time: 1}, {Cost: 1}} {
			want := trialAllocations(t, &s, prefer)
			if got := run.PlayScenario(t, &s, 1, prefer); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d, prefer %s: the agent works at %s, the trial at %s", seed, prefer, got, want)
			}
			moved += len(want) - 1
		}
	}
	if moved < 2 {
		t.Errorf("%d moves", moved)
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
