package queue_test

import (
	"fmt"
	"testing"

	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

// The whole log of KTH-SP2 under every order and backfilling algorithm: mean bounded slowdown and mean wait, s. The
// expected values are this program's; they change only if a policy changes.
func TestWholeTrace(t *testing.T) {
	kth := trace(t, "KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{})
	for name, want := range map[string]string{
		"fcfs none": "7514.42 390092", "fcfs easy": "91.43 6900", "sjf easy": "40.90 4550", "saf easy": "43.77 5622",
		"f4 easy": "40.44 5045", "wfp3 easy": "55.38 5342", "fcfs rlscheduler": "98.67 8340",
	} {
		var order, backfill string
		fmt.Sscan(name, &order, &backfill)
		s := run(t, queue.Config{Procs: kth.Procs, Jobs: kth.Jobs, Order: order, Backfill: backfill}).Summary()
		if got := fmt.Sprintf("%.2f %.0f", s.BoundedSlowdown.Mean, s.Wait.Mean); got != want || s.Completed != 28467 {
			t.Errorf("%s: %s, %d completed, want %s, 28467", name, got, s.Completed, want)
		}
		if testing.Verbose() {
			t.Logf("%-18s %s utilization %.4f", name, fmt.Sprintf("%.2f %.0f", s.BoundedSlowdown.Mean, s.Wait.Mean), s.Utilization)
		}
	}
}
