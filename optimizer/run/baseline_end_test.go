package run

import (
	"testing"

	"trainopt/optimizer/launch"
)

// TestBaselineAfterAFastEnd: a last epoch that is faster than the others is no sign of a faster pace to come once the job
// has ended, so that the measured pace of the baseline does not contain one.
func TestBaselineAfterAFastEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 9 {
			a.work(10, 1)
		}
		a.work(10, 0.5)
		return finished
	})
	res := s.run()
	b := res.Record.Baseline
	if b == nil || !(b.Throughput.P95 < 2*b.Throughput.P50) {
		t.Errorf("baseline %+v; want a throughput of about 100 samples/s", b)
	}
}
