package plan

import (
	"testing"

	"trainopt/resources"
	"trainopt/sla"
)

// With an uncertain pace and a budget that the fast allocation meets more likely than not, the fast one is tried
// while a recourse exists. It is not tried when the job cannot be moved or the budget does not cover a trial.
func TestTriesWhatCanBeLeftAgain(t *testing.T) {
	tight := func() scene {
		s := gpuScene().prefer("time")
		s.measured = []resources.Allocation{gpu(2, 8)}
		s.Limits.CPUs = resources.Range{Min: 8, Max: 8}
		return s.running(gpu(2, 8), 2, minutes(1.2), 0.13, 10)
	}
	free := decide(t, tight().snapshot(t))
	s := tight().agreed(sla.Spec{CostMaxUSD: free.Chosen.CostUSD.P50 * 1.1})
	s.Total *= 10 // enough time for a trial
	s.Spec.CostMaxUSD *= 10
	p := decide(t, s.snapshot(t))
	if p.Recourse == nil || p.Chosen.Chance >= feasibleProbability || p.Chosen.Chance < likelyChance {
		t.Fatalf("chose %s (chance %.2f), way back %v: want to try a faster one", p.Allocation, p.Chosen.Chance, p.Recourse)
	}
	back := candidate(p, *p.Recourse)
	if !back.Feasible || back.Seconds.P50 <= p.Chosen.Seconds.P50 {
		t.Errorf("the way back %+v is not slower and safe", back)
	}
	stuck := s
	stuck.Resumable = false
	if p := decide(t, stuck.snapshot(t)); p.Recourse != nil || !p.Chosen.Feasible {
		t.Errorf("tries %s although the job cannot be moved", p.Allocation)
	}
}

func candidate(p Plan, a resources.Allocation) Candidate {
	for _, c := range p.Candidates {
		if c.Allocation.SameShape(a) {
			return c
		}
	}
	return Candidate{}
}
