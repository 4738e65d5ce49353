package run

import (
	"math"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
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

// TestBaselineOfTheSameWork: a run that never left the baseline takes as long as that and costs as much: without work that was
// done before the run, and with what follows the last epoch and the time without a place.
func TestBaselineOfTheSameWork(t *testing.T) {
	for name, c := range map[string]struct {
		from, total int
		end         time.Duration // after the last epoch
		queued      time.Duration
	}{
		"from the beginning":    {0, 20, 0, 0},
		"continues by itself":   {50, 100, 0, 0},
		"a test after training": {0, 20, 30 * time.Second, 0},
		"waits for its place":   {0, 20, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				for a.epoch = c.from; a.epoch < c.total; {
					a.work(c.total, 2)
				}
				a.stage.clock.advance(c.end)
				return finished
			})
			agent := s.agent()
			if c.queued > 0 {
				agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now().Add(-c.queued)}
			}
			rec := agent.Run(t.Context(), s.cfg, nil).Record
			if rec == nil || rec.Baseline == nil {
				t.Fatalf("no baseline in %+v", rec)
			}
			o, b := &rec.Outcome, rec.Baseline
			if want := float64(2*(c.total-c.from)) + (c.end + c.queued).Seconds(); math.Abs(float64(o.Seconds)-want) > 1 {
				t.Errorf("the run took %v s, want about %g", o.Seconds, want)
			}
			if math.Abs(b.Seconds.P50/float64(o.Seconds)-1) > 0.02 || math.Abs(b.CostUSD.P50/float64(o.CostUSD)-1) > 0.02 {
				t.Errorf("baseline of %.1f s and $%.4f, run of %v s and $%v", b.Seconds.P50, b.CostUSD.P50, o.Seconds, o.CostUSD)
			}
			if float64(o.Epochs) != float64(c.total) || o.FromUnits != float64(c.from) {
				t.Errorf("epochs %v, of them %g before the run; want %d, %d", o.Epochs, o.FromUnits, c.total, c.from)
			}
		})
	}
}
