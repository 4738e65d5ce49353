package predict

import (
	"math"
	"testing"

	"trainopt/cost"
	"trainopt/resources"
)

// TestRatesOfThisMachine: a prediction for this machine counts the CPUs of a fractional quota, as a run there does.
func TestRatesOfThisMachine(t *testing.T) {
	unit := cost.Rates{CPUHour: 2, Source: "the test", Dated: "2026-02-01"}
	machine := cost.Rates{Instance: 7, Source: "the test", Dated: "2026-02-01"}
	for _, c := range []struct {
		cpus  float64
		given *cost.Rates
		use   int // CPUs
		want  float64
	}{
		{0.5, nil, 1, 1}, {1.5, nil, 1, 3}, {2.5, nil, 1, 5}, {4, nil, 1, 8},
		{1.5, &unit, 1, 3}, {2.5, &unit, 1, 2}, {2.5, &unit, 2, 5}, {4, &unit, 1, 2},
		{1.5, &machine, 1, 7},
	} {
		r := ratesOf(resources.Host{CPUs: c.cpus}, c.given, unit)
		if got := float64(r.Hourly(resources.Allocation{CPUs: c.use})); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d of %g CPUs, given %+v: %g USD/h, want %g", c.use, c.cpus, c.given, got, c.want)
		}
	}
	if unit.CPUQuota != 0 {
		t.Error("the given rates were changed")
	}
}
