package run

import (
	"math"
	"testing"
	"time"

	"trainopt/sla"
)

// TestWholeRunAddsFinalEvaluation: the framework's work after the last epoch shifts the whole interval, and its cost.
func TestWholeRunAddsFinalEvaluation(t *testing.T) {
	sec, usd := sla.Interval{P5: 90, P50: 100, P95: 110}, sla.Interval{P5: 0.9, P50: 1, P95: 1.1}
	r := &run{}
	whole := func() (seconds, cost sla.Interval) {
		e := r.ending()
		return e.Extend(sec, 50), e.ExtendCost(usd, sec, 50, 36)
	}
	without, cheap := whole()
	r.observer = &observerClient{}
	r.observer.facts.Closing = 20 * time.Second
	with, dear := whole()
	for what, c := range map[string]struct{ got, want float64 }{
		"P5":     {with.P5 - without.P5, 20 * (1 - closingSpread)},
		"P50":    {with.P50 - without.P50, 20},
		"P95":    {with.P95 - without.P95, 20 * (1 + closingSpread)},
		"cost":   {dear.P50 - cheap.P50, 20 * 36.0 / 3600},
		"before": {without.P5, 90 - driftShare*50},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", what, c.got, c.want)
		}
	}
}
