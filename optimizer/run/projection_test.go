package run

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/perf"
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

// TestProbeCostOfSteps: a probe of steps costs at least the time for which these are timed.
func TestProbeCostOfSteps(t *testing.T) {
	a := resources.Allocation{CPUs: 4, Memory: 4}
	m, err := perf.Fit([]perf.Observation{{Allocation: a, UnitSeconds: []float64{0.02, 0.02, 0.02, 0.02}}}, perf.FitOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[string]float64{"step": stepsShown.Seconds(), "epoch": 2 * minBlock.Seconds()} {
		r := &run{Agent: Agent{Clock: newHand()}}
		r.model = m
		r.Rates.Instance, r.Progress.Unit = 3600, unit
		if got := r.probeCost(a) - r.restartCost().P50; math.Abs(got-want) > 0.1 {
			t.Errorf("%s: a probe without its restart costs the price of %g s, want %g s and a unit", unit, got, want)
		}
		r.Progress.Segments = []*Segment{{Allocation: a, Blocks: []float64{0.02, 0.02}, Units: 40}}
		if s := r.snapshot(); s.ProbeTime != r.probeTime() || len(s.Trials) != 1 || s.Trials[0].Units != 40 {
			t.Errorf("%s: the planner knows a probe time of %s and trials %v", unit, s.ProbeTime, s.Trials)
		}
	}
}

// TestEndingOfRecordedRuns: of the times from the last unit of work to the exit that first runs of trainings without a known
// end took, by start-up, nine of ten are in the interval.
func TestEndingOfRecordedRuns(t *testing.T) {
	recorded := [][2]float64{{26.56, 12.75}, {37.40, 6.89}, {78.22, 8.16}, {2.76, 0.52}, {1.67, 0.16}, {0.95, 0.23}, {26.01, 4.91}, {19.37, 6.11}, {13.22, 8.37},
		{6.06, 3.19}, {3.31, 0.71}, {34.10, 10.89}, {2.82, 0.14}, {2.03, 0.15}, {9.86, 5.04}, {5.40, 1.42}, {5.79, 1.48}, {0.69, 0.12}, {15.38, 2.36},
		{10.84, 1.81}, {18.41, 2.87}, {12.77, 4.22}, {12.81, 7.62}, {76.92, 4.22}, {18.39, 45.75}}
	inside := 0
	for _, c := range recorded {
		r := &run{}
		r.StartupS = c[:1]
		if exit := r.ending().Exit; exit.P5 <= c[1] && c[1] <= exit.P95 {
			inside++
		}
	}
	if 10*inside < 9*len(recorded) {
		t.Errorf("%d of %d in the interval", inside, len(recorded))
	}
}

// TestUnseenWork: before the first boundary of epochs is measured, evaluation and saving between them may still follow; a final
// test may follow in any case. Steps have no boundary, and history contains all of it.
func TestUnseenWork(t *testing.T) {
	for name, c := range map[string]struct {
		unit          string
		first, done   float64
		earlier, want float64
	}{
		"within the first epoch":   {"epoch", 0.1, 0.6, 0, 10 * (finalShare + betweenShare*7.4)},
		"at its end":               {"epoch", 0.1, 1, 0, 10 * (finalShare + betweenShare*7)},
		"within the second one":    {"epoch", 0.1, 1.2, 0, 10 * finalShare},
		"printed epochs":           {"epoch", 1, 2, 0, 10 * finalShare},
		"resumed within an epoch":  {"epoch", 3.5, 3.9, 0, 10 * (finalShare + betweenShare*4.1)},
		"measured before a change": {"epoch", 3.5, 3.9, 3.4, 10 * finalShare},
		"steps":                    {"step", 1, 5, 0, 0},
	} {
		p := Progress{Unit: c.unit, Total: 8, Done: c.done, Segments: []*Segment{{FirstDone: c.first, Reached: c.done, Blocks: []float64{10, 10, 10}}}}
		if c.earlier > 0 {
			p.Segments = append([]*Segment{{FirstDone: 0.5, Reached: c.earlier}}, p.Segments...)
		}
		r := &run{}
		r.Progress = p
		if got := r.ending().Unseen; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g s, want %g", name, got, c.want)
		}
		if r.ClosingS = []float64{4}; r.ending().Unseen != 0 {
			t.Errorf("%s: %g s in addition to earlier runs", name, r.ending().Unseen)
		}
	}
}

// TestOverdue: the projection of a run that takes longer than predicted contains further delay.
func TestOverdue(t *testing.T) {
	end := sla.Interval{P5: 90, P50: 100, P95: 110}
	for now, want := range map[float64]sla.Interval{
		50: end, 95: {P5: 95, P50: 100, P95: 110}, 104: {P5: 104, P50: 106, P95: 112}, 140: {P5: 140, P50: 160, P95: 220},
	} {
		if got := overdue(end, now); got != want {
			t.Errorf("after %g s: %v, want %v", now, got, want)
		}
	}
}

// TestLastWorkIsDatedFromLastUnit: the work after the last unit began with the end of that unit, not at present.
func TestLastWorkIsDatedFromLastUnit(t *testing.T) {
	s := newStage(t, func(a *actor) launch.Exit {
		a.stage.clock.advance(50 * time.Second) // an eighth of the start-up is expected after the last epoch
		for a.epoch < 10 {
			if !a.work(10, 10) {
				return a.leave()
			}
		}
		a.stage.turn("last work", func() { a.stage.clock.advance(4 * time.Second) }, func(_ Status, looks int) bool { return looks >= 2 })
		return finished
	})
	s.onStatus = func(st Status) {
		if st.Done == 10 && st.Finish != nil && st.Finish.P50 > 157 {
			t.Errorf("projected end %v after %v", st.Finish, st.Elapsed)
		}
	}
	s.run()
}

// TestOverdueLastUnit: a last unit that takes three times as long as the others is projected to take longer still.
func TestOverdueLastUnit(t *testing.T) {
	checked := false
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < 9 {
			if !a.work(10, 10) {
				return a.leave()
			}
		}
		a.stage.turn("last unit", func() { a.stage.clock.advance(30 * time.Second) }, func(_ Status, looks int) bool { return looks >= 2 })
		return finished
	})
	s.onStatus = func(st Status) {
		if st.Done == 9 && st.Finish != nil && st.Elapsed >= 120*time.Second {
			if checked = true; st.Finish.P95 < 150 {
				t.Errorf("projected end %v after %v", st.Finish, st.Elapsed)
			}
		}
	}
	if s.run(); !checked {
		t.Error("no projection of the last unit")
	}
}

// TestSlowerSince: a training that has become slower is expected to remain so for as long again, and possibly to its end or not at
// all.
func TestSlowerSince(t *testing.T) {
	for _, epochs := range []int{100, 500} { // more than the blocks that are kept
		t.Run(fmt.Sprint(epochs), func(t *testing.T) {
			t.Parallel()
			testSlowerSince(t, epochs)
		})
	}
}

func testSlowerSince(t *testing.T, epochs int) {
	checked, tenth := 0, epochs/10
	s := newStage(t, func(a *actor) launch.Exit {
		for a.epoch < epochs {
			seconds := 10.0
			if a.epoch >= 5*tenth {
				seconds = 30
			}
			if !a.work(epochs, seconds) {
				return a.leave()
			}
		}
		return finished
	})
	s.onStatus = func(st Status) {
		want := map[float64][2]float64{ // the least and the greatest P50 of the rest, in seconds per remaining unit
			5: {9, 11}, 6: {13, 22}, 7.5: {28, 32}, 9: {28, 32},
		}[st.Done/float64(tenth)]
		if want[1] == 0 || st.Finish == nil {
			return
		}
		checked++
		now, rest := st.Elapsed.Seconds(), float64(epochs)-st.Done
		if got := st.Finish.P50 - now; got < want[0]*rest || got > want[1]*rest {
			t.Errorf("after %g epochs: %.0f s remain, want %v for each of %g", st.Done, got, want, rest)
		}
		if st.Done > float64(5*tenth) && (st.Finish.P5-now > 18*rest || st.Finish.P95-now < 28*rest) {
			t.Errorf("after %g epochs: %.0f to %.0f s remain, want the earlier pace and the present one", st.Done, st.Finish.P5-now, st.Finish.P95-now)
		}
	}
	if s.run(); checked < 4 {
		t.Errorf("%d projections", checked)
	}
}

// TestPaceInAnotherUnitPredictsNothing: once a log of steps contains epochs as well, the pace of steps is not that of epochs.
func TestPaceInAnotherUnitPredictsNothing(t *testing.T) {
	s := newStage(t, func(a *actor) launch.Exit {
		for step := 1; step <= 160; step++ {
			row := fmt.Sprintf("%d,,%g\n", step, 1/float64(step))
			if step%40 == 0 {
				row = fmt.Sprintf("%d,%d,%g\n", step, step/40, 1/float64(step))
			}
			if !a.stage.turn("a step", func() { a.stage.clock.advance(time.Second); a.write(row) }, func(_ Status, looks int) bool { return a.mustGo() || looks >= 2 }) {
				return a.leave()
			}
		}
		return finished
	})
	s.cfg.Epochs = 4
	s.cfg.Log = filepath.Join(s.cfg.Dir, "steps.csv")
	if err := os.WriteFile(s.cfg.Log, []byte("step,epoch,train_loss\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.onStatus = func(st Status) {
		if st.Unit == "epoch" && st.Done >= 1 && st.Finish != nil && st.Finish.P50 < 140 {
			t.Errorf("projected end %v after %v, epoch %g of %g", st.Finish, st.Elapsed, st.Done, st.Total)
		}
	}
	if rec := s.run().Record; rec.Training.Unit != "epoch" {
		t.Errorf("counted in %ss", rec.Training.Unit)
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

// TestTakenCPUs: what other programs use of the allocation is no idle time of the training.
func TestTakenCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		held, machine, foreign, own float64
		taken, idle                 float64 // CPUs
	}{
		"quiet":                      {2, 2, 0, 0.5, 0, 1.5},
		"noise of the meter":         {2, 2, -0.1, 0.5, 0, 1.5},
		"other CPUs suffice":         {2, 4, 2, 0.5, 0, 1.5},
		"some of the allocation":     {2, 4, 3, 0.5, 1, 0.5},
		"all that the job left":      {2, 2, 1.5, 0.5, 1.5, 0},
		"no more than the job left":  {2, 2, 2.5, 0.5, 1.5, 0},
		"a job that uses all it has": {2, 2, 0.2, 2.1, 0, 0},
	} {
		s := &Segment{Allocation: resources.Allocation{CPUs: int(c.held)}, CPUN: 4, CPUSum: 4 * 100 * c.own / c.held, Spent: c.held}
		for range s.CPUN {
			s.foreign(c.foreign, c.machine, c.own)
		}
		r := &run{facts: facts{}}
		r.rec, r.Rates.CPUHour = journal.NewRecord(), 1
		r.Progress.Segments = []*Segment{s}
		r.countWaste(0)
		if got, idle := s.taken(), float64(r.rec.Waste.Idle); math.Abs(got-c.taken) > 1e-9 || math.Abs(idle-c.idle) > 1e-9 {
			t.Errorf("%s: %g CPUs taken, want %g; $%g idle, want $%g", name, got, c.taken, idle, c.idle)
		}
	}
}

// TestWasteOfGPUs: idle GPUs waited for data as long as the observer measured, however busy the CPUs are; without an observer, busy
// CPUs decide.
func TestWasteOfGPUs(t *testing.T) {
	none := math.NaN()
	observed := func(wait float64) *observerClient {
		return &observerClient{facts: observe.Facts{Stepping: time.Minute, DataWait: wait}}
	}
	for name, c := range map[string]struct {
		observer      *observerClient
		gpu, cpu      float64 // %
		waiting, idle float64 // $
	}{
		"waits with idle CPUs":        {observed(0.45), 40, 10, 0.45, 0.15},
		"waits for all the idle time": {observed(0.9), 40, 10, 0.6, 0},
		"busy CPUs, no wait":          {observed(0.01), 40, 95, 0.01, 0.59},
		"no step yet, busy CPUs":      {&observerClient{facts: observe.Facts{DataWait: none}}, 40, 95, 0.6, none},
		"not observed, busy CPUs":     {nil, 40, 95, 0.6, none},
		"not observed, idle CPUs":     {nil, 40, 10, none, 0.6},
	} {
		for _, rates := range []cost.Rates{{GPUHour: 1}, {Instance: 1}} {
			r := &run{facts: facts{}, observer: c.observer}
			r.rec, r.Rates = journal.NewRecord(), rates
			r.Progress.Segments = []*Segment{{Allocation: resources.Allocation{GPUs: 1}, Spent: 1, GPUN: 4, GPUSum: 4 * c.gpu, CPUN: 4, CPUSum: 4 * c.cpu}}
			r.countWaste(0)
			same := func(have journal.Number, want float64) bool {
				return have.Known() == !math.IsNaN(want) && !(math.Abs(float64(have)-want) > 1e-9)
			}
			if w := r.rec.Waste; !same(w.InputBound, c.waiting) || !same(w.Idle, c.idle) {
				t.Errorf("%s, %+v: $%g waiting for data and $%g idle, want $%g and $%g", name, rates, w.InputBound, w.Idle, c.waiting, c.idle)
			}
		}
	}
}
