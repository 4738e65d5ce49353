package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// series is the duration of each unit of a synthetic training, in seconds.
type series []float64

// predict returns the prediction that a run of the series records with its plan, and the outcome. settle selects whether
// the baseline is measured until its pace has settled. It returns nil if the run ends before it is planned.
func (s series) predict(startup float64, settle bool) (*journal.Prediction, float64) {
	one := resources.Allocation{CPUs: 1, Memory: 1}
	r := &run{}
	r.rec = &journal.Record{}
	r.Limits = resources.Limits{CPUs: resources.Range{Min: 1, Max: 1}, MemoryMin: 1, MemoryMax: 1}
	r.Baseline, r.Current = one, one
	p := &r.Progress
	seg := p.Begin(0, one, "probe", true)
	var planned *journal.Prediction
	clock := startup
	for i, unit := range s {
		clock += unit
		at := time.Duration(clock * float64(time.Second))
		row := &trainlog.Row{}
		row.Set(trainlog.Epoch, float64(i+1))
		row.Set(trainlog.TotalEpochs, float64(len(s)))
		if unit >= longUnit.Seconds() {
			row.Set(trainlog.EpochTime, unit)
		}
		p.Add(row, at)
		if planned != nil || p.Finished() || !p.MeasuredEnough(seg) || settle && p.settling(seg) {
			continue
		}
		r.refit()
		chosen, _ := plan.Static{}.Decide(plan.Snapshot{Limits: r.Limits, Model: r.model, Done: p.Done, Total: p.Total, Baseline: one, Current: &one,
			Elapsed: at, Startup: r.startup(), Restart: r.restartCost(), Ending: r.ending(), Preference: plan.Preference{Time: 1}})
		planned = r.planRecord(chosen, clock).Prediction
	}
	return planned, clock + 0.02*startup
}

func relativeWidth(i sla.Interval) float64 { return (i.P95 - i.P5) / i.P50 }

// TestPlannedIntervalCovers: the interval of the plan contains the outcome in at least 85 % of synthetic trainings with slow
// first units, and is at most a few per cent wider than without waiting where the units are steady.
func TestPlannedIntervalCovers(t *testing.T) {
	for _, slow := range []struct {
		units  int
		factor float64
	}{{1, 1}, {1, 3}, {1, 10}, {1, 30}, {4, 4}} {
		t.Run(fmt.Sprintf("%d×%g", slow.units, slow.factor), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(14, uint64(slow.factor)))
			var n, inside, before int
			var width, widthBefore float64
			for range 120 {
				total := 3 + int(98*rng.Float64()*rng.Float64())
				if slow.units > 1 {
					total = max(total, 20*slow.units)
				}
				unit, noise := 0.5+4*rng.Float64(), 0.02+0.18*rng.Float64()*rng.Float64()
				s := make(series, total)
				for i := range s {
					s[i] = unit * max(0.3, 1+noise*rng.NormFloat64())
					if i < slow.units {
						s[i] *= slow.factor
					}
					if n%10 == 9 && i >= total*3/4 { // neighbours on the machine
						s[i] *= 1.1
					}
				}
				startup := 0.2 + 3*rng.Float64()
				now, took := s.predict(startup, true)
				was, _ := s.predict(startup, false)
				if now == nil || was == nil {
					continue
				}
				n++
				if contains(now.Seconds, took) {
					inside++
				}
				if contains(was.Seconds, took) {
					before++
				}
				width, widthBefore = width+relativeWidth(now.Seconds), widthBefore+relativeWidth(was.Seconds)
			}
			t.Logf("%d of %d inside, mean width %.3f; without waiting %d, %.3f", inside, n, width/float64(n), before, widthBefore/float64(n))
			if float64(inside) < 0.85*float64(n) {
				t.Errorf("%d of %d outcomes inside the planned 90 %% interval, want 85 %%", inside, n)
			}
			if width > 1.03*widthBefore {
				t.Errorf("mean relative width %.3f, %.3f without waiting", width/float64(n), widthBefore/float64(n))
			}
		})
	}
}

func contains(i sla.Interval, v float64) bool { return i.P5 <= v && v <= i.P95 }

// TestPlanLineStatesTheRecordedPrediction: a training whose first epochs are slow is planned after faster ones, and the
// interval of the plan's line is that of the record.
func TestPlanLineStatesTheRecordedPrediction(t *testing.T) {
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 40 {
			seconds := 1.0
			if a.epoch < 3 {
				seconds = 6
			}
			if !a.work(40, seconds) {
				return a.leave()
			}
		}
		return finished
	})
	s.cfg.Planner = "model"
	rec := s.run().Record
	if rec.Plan == nil || rec.Plan.Prediction == nil {
		t.Fatal("no plan")
	}
	p := rec.Plan.Prediction.Seconds
	if took := float64(rec.Outcome.Seconds); !contains(p, took) {
		t.Errorf("predicted %.1f–%.1f s, took %.1f s", p.P5, p.P95, took)
	}
	stated := fmt.Sprintf("(90 %%: %s–%s)", page.PlainBlanks(page.Duration(p.P5)), page.PlainBlanks(page.Duration(p.P95)))
	if !strings.Contains(rec.Plan.Reason, stated) {
		t.Errorf("the plan's line is %q, the record contains %s", rec.Plan.Reason, stated)
	}
}

// TestPredictionAfterAWait: a prediction made during the training includes the wait before it, and is compared with the whole
// time.
func TestPredictionAfterAWait(t *testing.T) {
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 40 {
			a.work(40, 2)
		}
		return finished
	})
	s.cfg.Planner = "model"
	agent := s.agent()
	agent.Lease = &Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: journal.NewRunID(s.clock.Now(), "leased"), Until: func() time.Time { return time.Time{} }, Submitted: s.clock.Now().Add(-time.Hour)}
	rec := agent.Run(t.Context(), s.cfg, nil).Record
	if rec == nil || rec.Plan == nil || rec.Plan.Prediction == nil {
		t.Fatalf("no prediction in %+v", rec)
	}
	if p := rec.Plan.Prediction; p.AtS < 3600 || p.QueueSeconds == nil || *p.QueueSeconds != 3600 || rec.RealisedSeconds() != rec.Outcome.Seconds || !contains(p.Seconds, float64(rec.RealisedSeconds())) {
		t.Errorf("prediction %+v, compared with %v s of %v s; want one that includes an hour", p, rec.RealisedSeconds(), rec.Outcome.Seconds)
	}
}

// TestProbeLastsAsItsRestart: a probe of short units is timed for a tenth of the restart before it; one long unit suffices.
func TestProbeLastsAsItsRestart(t *testing.T) {
	for _, c := range []struct{ unit, restart, want float64 }{{0.5, 50, 5}, {0.5, 2, 1}, {40, 300, 40}} {
		p := &Progress{}
		p.Begin(0, resources.Allocation{CPUs: 4}, "probe", true)
		row := &trainlog.Row{}
		row.Set(trainlog.TotalEpochs, 1000)
		clock, done := 10.0, 0.0
		next := func() *Segment {
			done++
			row.Set(trainlog.Epoch, done)
			row.Set(trainlog.EpochTime, c.unit)
			p.Add(row, time.Duration(clock*float64(time.Second)))
			return p.Current()
		}
		for range 5 {
			clock += c.unit
			next()
		}
		seg := p.Begin(time.Duration(clock*float64(time.Second)), resources.Allocation{CPUs: 2}, "probe", true)
		seg.RestartFrom = time.Duration(clock * float64(time.Second))
		clock += c.restart
		for seg = next(); !p.ProbedEnough(seg) && done < 100; seg = next() {
			clock += c.unit
		}
		if math.Abs(seg.Timed-c.want) > c.unit {
			t.Errorf("units of %g s after a restart of %g s: timed for %g s, want %g", c.unit, c.restart, seg.Timed, c.want)
		}
	}
}
