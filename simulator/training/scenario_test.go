package training

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/resources"
)

func TestCandidatesCanRun(t *testing.T) {
	var got []int
	for _, a := range scenario().Candidates() {
		got = append(got, a.GPUs)
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 4 {
		t.Errorf("candidates on %v GPUs, want 1, 2, 4", got)
	}
}

func TestOutcomeByHand(t *testing.T) {
	s := scenario()
	s.Interruptions = []Interruption{{100, 50}} // Outcome ignores these
	o := s.Outcome(onGPUs(2))
	if o.Seconds != 520 || math.Abs(o.USD-10.4) > 1e-9 || o.Joules != 520*200 || o.Share != 0.75 { // GPUs 2 of 4, CPUs 2 of 2
		t.Errorf("%+v", o)
	}
	if o = s.Outcome(onGPUs(3)); !math.IsNaN(o.Seconds) || !math.IsNaN(o.USD) || !math.IsNaN(o.Share) {
		t.Errorf("where the job cannot run: %+v, want NaN", o)
	}
	a, o, ok := best(s, func(_ resources.Allocation, o Outcome) float64 { return o.Seconds })
	if !ok || a.GPUs != 4 || o.Seconds != 270 {
		t.Errorf("fastest: %v %+v %v", a, o, ok)
	}
	if a, _, _ = best(s, func(_ resources.Allocation, o Outcome) float64 { return o.USD }); a.GPUs != 1 {
		t.Errorf("cheapest: %v", a)
	}
	if _, _, ok = best(s, func(resources.Allocation, Outcome) float64 { return math.NaN() }); ok {
		t.Error("a best one of unknown scores")
	}
}

// Realised equals a run without noise, interruptions included.
func TestRealisedIsTheRunWithoutNoise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenario()
		s.Units = float64(rapid.IntRange(1, 30).Draw(t, "units"))
		s.Interruptions = drawInterruptions(t)
		a := onGPUs(rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus"))
		x := s.Start(1)
		x.Run(a, s.Units)
		o := s.OutcomeWithInterruptions(a)
		if math.Abs(o.Seconds-x.Elapsed) > 1e-6 || math.Abs(o.USD-x.SpentUSD) > 1e-6 {
			t.Fatalf("realised %+v, run %v s, %v USD", o, x.Elapsed, x.SpentUSD)
		}
	})
}

// best returns the candidate with the lowest score, the first of equals; NaN scores are skipped. ok is false if no
// candidate has a score. O(candidates).
func best(s *Scenario, score func(resources.Allocation, Outcome) float64) (at resources.Allocation, o Outcome, ok bool) {
	least := math.Inf(1)
	for _, a := range s.Candidates() {
		out := s.Outcome(a)
		if v := score(a, out); v < least {
			least, at, o, ok = v, a, out, true
		}
	}
	return at, o, ok
}
