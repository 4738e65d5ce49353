package run

import (
	"math"
	"testing"
	"time"

	"trainopt/resources"
	"trainopt/sla"
)

// TestWholeRunAddsFinalEvaluation: the framework's work after the last epoch shifts the whole interval.
func TestWholeRunAddsFinalEvaluation(t *testing.T) {
	sec := sla.Interval{P5: 90, P50: 100, P95: 110}
	r := &run{}
	without := r.ending().Extend(sec, 50)
	r.observer = &observerClient{}
	r.observer.facts.Closing = 20 * time.Second
	with := r.ending().Extend(sec, 50)
	for what, c := range map[string]struct{ got, want float64 }{
		"P5":     {with.P5 - without.P5, 20 * (1 - closingSpread)},
		"P50":    {with.P50 - without.P50, 20},
		"P95":    {with.P95 - without.P95, 20 * (1 + closingSpread)},
		"before": {without.P5, 90 - driftShare*50},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", what, c.got, c.want)
		}
	}
}

// TestLoadDrift: other programs widen the interval as far as a change of their load would reach the training.
func TestLoadDrift(t *testing.T) {
	for name, c := range map[string]struct {
		foreign, percent, want float64
	}{
		"quiet":                 {0, 100, 0},
		"idle CPUs absorb it":   {1, 25, 0},
		"idle CPUs absorb half": {2, 37.5, (2*loadChange - 0.5) / 4},
		"saturated":             {3, 25, 3 * loadChange / 4},
		"more than the machine": {9, 25, loadChange},
		"more use than CPUs":    {3, 50, 3 * loadChange / 4},
		"the training alone":    {0, 400, 0},
	} {
		r := &run{sampler: &sampling{machineCPUs: 4}}
		r.Progress.Segments = []*Segment{
			{Allocation: resources.Allocation{CPUs: 4}, CPUN: 1, Foreign: 4},
			{Allocation: resources.Allocation{CPUs: 4}, CPUN: 10, Foreign: 10 * c.foreign, CPUSum: 10 * c.percent},
			{Allocation: resources.Allocation{CPUs: 4}}, // not sampled yet
		}
		if got := r.loadDrift(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
