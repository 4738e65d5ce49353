package run

import (
	"math"
	"testing"
	"time"

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
