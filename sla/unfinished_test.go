package sla

import (
	"testing"
	"time"
)

// TestUnfinished: every kind of early end, against the same SLA.
func TestUnfinished(t *testing.T) {
	spec := Spec{TimeMax: 10 * time.Minute, CostMaxUSD: 1, ThroughputMin: 100, MemoryMaxGiB: 4}
	within := map[Objective]Measure{Time: {Value: 599.7, Final: true}, Cost: {Value: 0.2, Final: true}, Throughput: {Value: 120, Final: true}, Memory: {Value: 2, Final: true}}
	beyond := map[Objective]Measure{Time: {Value: 601, Final: true}, Cost: {Value: 0.2, Final: true}, Throughput: {Value: 80, Final: true}, Memory: {Value: 5, Final: true}}
	for name, c := range map[string]struct {
		measures map[Objective]Measure
		cause    Objective
		want     [4]Status // time, cost, throughput, memory
		share    float64   // −1: no compliance
	}{
		"stopped at the deadline":       {within, Time, [4]Status{Violated, Unknown, Unknown, Unknown}, 0},
		"stopped at the budget":         {within, Cost, [4]Status{Unknown, Violated, Unknown, Unknown}, 0},
		"stopped by the user or failed": {within, "", [4]Status{Unknown, Unknown, Unknown, Unknown}, -1},
		"failed beyond its limits":      {beyond, "", [4]Status{Violated, Unknown, Violated, Violated}, 0},
		"no data":                       {nil, "", [4]Status{Unknown, Unknown, Unknown, Unknown}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			before := Evaluate(spec, c.measures)
			first := before[0].Status
			got := Unfinished(before, c.cause)
			for i, v := range got {
				if v.Status != c.want[i] || v.Projected != nil {
					t.Errorf("%s: %s, want %s", v.Objective, v.Status, c.want[i])
				}
				if v.Status == Unknown && v.Severity != nil {
					t.Errorf("%s: severity %g of an unknown status", v.Objective, *v.Severity)
				}
			}
			if before[0].Status != first {
				t.Error("the input was changed")
			}
			share, ok := Compliance(got)
			if ok != (c.share >= 0) || ok && share != c.share {
				t.Errorf("compliance %g, %t; want %g", share, ok, c.share)
			}
		})
	}
}
