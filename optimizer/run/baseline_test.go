package run

import (
	"math"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/resources"
	"trainopt/sla"
)

// TestJudgedByTheInterval: a trade is judged only if the judgement is the same at both ends of the intervals.
func TestJudgedByTheInterval(t *testing.T) {
	for name, c := range map[string]struct {
		seconds, usd sla.Interval
		want         cost.Quality
	}{
		"surely cheaper and faster": {sla.Interval{P5: -30, P50: -20, P95: -10}, sla.Interval{P5: -30, P50: -20, P95: -10}, cost.Quality("excellent")},
		"surely dearer and slower":  {sla.Interval{P5: 10, P50: 20, P95: 30}, sla.Interval{P5: 10, P50: 20, P95: 30}, "bad"},
		"from −52 to +90 %":         {sla.Interval{P5: -52, P50: -5, P95: 90}, sla.Interval{P5: -52, P50: -5, P95: 90}, cost.Undecided},
		"cheaper, perhaps slower":   {sla.Interval{P5: -5, P50: 0, P95: 5}, sla.Interval{P5: -40, P50: -35, P95: -30}, cost.Undecided},
		"no change":                 {sla.Interval{}, sla.Interval{}, "unchanged"},
	} {
		if got := judged(c.seconds, c.usd); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestThroughputUnit: the unit is samples only if the number of samples is known.
func TestThroughputUnit(t *testing.T) {
	for name, c := range map[string]struct {
		p    Progress
		rate float64
		unit string
	}{
		"samples known": {Progress{Unit: "epoch", UnitSamples: 1000}, 500, "samples/s"},
		"epochs alone":  {Progress{Unit: "epoch"}, .5, "epochs/s"},
		"steps alone":   {Progress{Unit: "step"}, .5, "steps/s"},
		"nothing":       {Progress{}, math.NaN(), ""},
	} {
		c.p.Segments = []*Segment{{Units: 10, Timed: 20}}
		rate, unit := c.p.throughput()
		if unit != c.unit || rate != c.rate && !(math.IsNaN(rate) && math.IsNaN(c.rate)) {
			t.Errorf("%s: %g %s, want %g %s", name, rate, unit, c.rate, c.unit)
		}
	}
}

// TestPredictedThroughput: the predicted throughput is that of the whole run, as the measured one: it contains the work done before.
func TestPredictedThroughput(t *testing.T) {
	rest := sla.Interval{P5: 50, P50: 100, P95: 200}
	for done, want := range map[float64]sla.Interval{0: rest, 10: {P5: 50, P50: 80, P95: 1 / (.25/50 + .75/200)}, 40: {P5: 50, P50: 50, P95: 50}} {
		r := &run{}
		r.Progress = Progress{Unit: "epoch", UnitSamples: 100, Done: done, Total: 40}
		if done > 0 {
			r.Progress.Segments = []*Segment{{Units: done, Timed: 2 * done}}
		}
		if got := r.overall(rest); math.Abs(got.P5-want.P5)+math.Abs(got.P50-want.P50)+math.Abs(got.P95-want.P95) > 1e-9 {
			t.Errorf("after %g of 40 epochs at 50 samples/s: %v, want %v", done, got, want)
		}
	}
}

// TestThroughputOfSteps: the throughput is computed from the observer's counts, even if another source counts the
// epochs; time after the last step is excluded.
func TestThroughputOfSteps(t *testing.T) {
	for name, c := range map[string]struct {
		p       Progress
		counted countedSteps
		rate    float64
		unit    string
	}{
		"samples":                     {Progress{Unit: "epoch", UnitSamples: 1000}, countedSteps{Steps: 40, Samples: 4000, Seconds: 5}, 800, "samples/s"},
		"samples of each step":        {Progress{Unit: "step", UnitSamples: 100}, countedSteps{Steps: 40, Seconds: 5}, 800, "samples/s"},
		"steps":                       {Progress{Unit: "step"}, countedSteps{Steps: 40, Seconds: 5}, 8, "steps/s"},
		"epochs of known steps":       {Progress{Unit: "epoch", UnitSteps: 20}, countedSteps{Steps: 40, Seconds: 5}, .4, "epochs/s"},
		"epochs without steps":        {Progress{Unit: "epoch"}, countedSteps{Steps: 40, Seconds: 5}, .5, "epochs/s"},
		"samples of an epoch unknown": {Progress{Unit: "epoch"}, countedSteps{Steps: 40, Samples: 4000, Seconds: 5}, .5, "epochs/s"},
	} {
		half := countedSteps{Steps: c.counted.Steps / 2, Samples: c.counted.Samples / 2, Seconds: c.counted.Seconds / 2}
		c.p.Segments = []*Segment{{Units: 10, Timed: 20, Counted: half}, {Counted: half}}
		if rate, unit := c.p.throughput(); unit != c.unit || rate != c.rate {
			t.Errorf("%s: %g %s, want %g %s", name, rate, unit, c.rate, c.unit)
		}
	}
}

// TestCountedBetweenReports: counts are differences within one training of one process, up to the end of its last
// step.
func TestCountedBetweenReports(t *testing.T) {
	report := func(step, samples, reached float64) observe.Progress {
		p := observe.Progress{PID: 1, Training: 1, Samples: samples, At: time.Hour, Reached: time.Duration(reached * float64(time.Second))}
		p.Row.Set(trainlog.Step, step)
		return p
	}
	a, unknown := report(1, 32, 100), math.NaN()
	second := report(61, 1952, 130)
	second.Training = 2
	for name, c := range map[string]struct {
		b    observe.Progress
		want countedSteps
	}{
		"steps and samples":     {report(61, 1952, 130), countedSteps{60, 1920, 30}},
		"after an evaluation":   {report(1, 32, 100), countedSteps{}},
		"another training":      {second, countedSteps{}},
		"a count that restarts": {report(0, 0, 130), countedSteps{}},
	} {
		if got := between(&a, &c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	without, with := report(1, unknown, 100), report(61, 1952, 130)
	if got := between(&without, &with); got != (countedSteps{}) {
		t.Errorf("samples known from the second report on: %+v", got)
	}
	if with = report(61, unknown, 130); between(&without, &with) != (countedSteps{Steps: 60, Seconds: 30}) {
		t.Errorf("steps alone: %+v", between(&without, &with))
	}
}

// TestKnownTotal: a number of epochs is not the total of a job that counts steps.
func TestKnownTotal(t *testing.T) {
	epochs := func(n float64) map[string]hint { return map[string]hint{"epoch": {Units: n}} }
	for want, p := range map[float64]Progress{
		40: {Unit: "epoch", Total: 40, Hints: epochs(30)},
		30: {Unit: "epoch", Hints: epochs(30)},
		20: {Hints: epochs(20)},
		0:  {Unit: "step", Hints: epochs(30)},
	} {
		if got := p.knownTotal("epoch"); got != want {
			t.Errorf("%+v: %g, want %g", p, got, want)
		}
	}
}

// TestSameConditions: measurements are compared only under similar load of other programs.
func TestSameConditions(t *testing.T) {
	measured := func(cpus int, foreign float64) *Segment {
		return &Segment{Allocation: resources.Allocation{CPUs: cpus}, Blocks: []float64{1}, CPUN: 10, Foreign: 10 * foreign}
	}
	for name, c := range map[string]struct {
		here, there float64
		want        bool
	}{
		"quiet":                       {0, 0, true},
		"equally busy":                {1.5, 1.6, true},
		"busy at the baseline":        {1.5, 0, false},
		"busy at the other":           {0, 3.5, false},
		"busy, both have their CPUs":  {0, 1.9, true},
		"busier, both lack their own": {1, 3.5, false},
	} {
		f := &facts{Baseline: resources.Allocation{CPUs: 4}}
		f.Progress.Segments = []*Segment{measured(4, c.here), measured(2, c.there)}
		if got := f.sameConditions(4); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// epochs is a job with epochs of one second that exits on request.
func epochs(n int, exit launch.Exit) func(*actor) launch.Exit {
	return func(a *actor) launch.Exit {
		for range n {
			if !a.work(n, 1) {
				return a.leave()
			}
		}
		return exit
	}
}

// TestVerdictsOfEachEnd: a run that ends early meets no limit, in its record and in its exit code.
func TestVerdictsOfEachEnd(t *testing.T) {
	for name, c := range map[string]struct {
		play       func(*actor) launch.Exit
		limit      sla.Spec
		code       Code
		time, cost sla.Status
	}{
		"finished": {epochs(5, finished), sla.Spec{TimeMax: time.Hour, CostMaxUSD: 9}, CodeDone, sla.Met, sla.Met},
		"failed":   {epochs(5, failed(1)), sla.Spec{TimeMax: time.Hour, CostMaxUSD: 9}, CodeTraining, sla.Unknown, sla.Unknown},
		"at the deadline": {epochs(1000, finished), sla.Spec{TimeMax: 30 * time.Second, CostMaxUSD: 9},
			CodeGuard, sla.Violated, sla.Unknown},
		"at the budget": {epochs(1000, finished), sla.Spec{TimeMax: time.Hour, CostMaxUSD: 0.03},
			CodeGuard, sla.Unknown, sla.Violated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.play)
			s.cfg.Resume, s.cfg.SLA, s.cfg.Restarts = resumableNo, c.limit, -1
			res := s.run()
			if res.Code != c.code {
				t.Fatalf("exit %d (%v), want %d", res.Code, res.Err, c.code)
			}
			status := map[sla.Objective]sla.Status{}
			for _, v := range res.Record.SLA.Verdicts {
				status[v.Objective] = v.Status
			}
			if status[sla.Time] != c.time || status[sla.Cost] != c.cost {
				t.Errorf("time %s, cost %s; want %s, %s", status[sla.Time], status[sla.Cost], c.time, c.cost)
			}
			if p := res.Record.Comparison.SecondsChangePct; p.Known() {
				t.Errorf("a saving of %g %% at the only configuration of the run", float64(p))
			}
			stored, err := journal.ReadRecord(res.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := stored.SLA.Verdicts[0].Status; got != c.time {
				t.Errorf("run.json: time %s, want %s", got, c.time)
			}
		})
	}
}

// TestSteadyMachine: the baseline is compared only if the speed of the machine was the same for both sides, or if
// measurements of the baseline enclose the others.
func TestSteadyMachine(t *testing.T) {
	two, one := resources.Allocation{CPUs: 2}, resources.Allocation{CPUs: 1}
	even := []float64{1, 1, 1, 1, 1, 1}
	for name, c := range map[string]struct {
		speeds   []float64
		segments []resources.Allocation
		blocks   []float64 // of each segment
		want     bool
	}{
		"steady":                      {[]float64{100, 98, 101}, []resources.Allocation{two, one}, even, true},
		"slower at the end":           {[]float64{100, 99, 80}, []resources.Allocation{two, one}, even, false},
		"faster after the baseline":   {[]float64{80, 100}, []resources.Allocation{two, one}, even, false},
		"the baseline encloses":       {[]float64{100, 90, 80}, []resources.Allocation{two, one, two}, even, true},
		"the others enclose":          {[]float64{100, 90, 80}, []resources.Allocation{one, two, one}, even, false},
		"measured once":               {[]float64{100}, []resources.Allocation{two, one}, even, true},
		"a training that slows down":  {[]float64{100, 100}, []resources.Allocation{two, one}, []float64{1, 1, 1.1, 1.2, 1.3, 1.4}, false},
		"a slow beginning is warm-up": {[]float64{100, 100}, []resources.Allocation{two, one}, []float64{3, 1, 1, 1.02, 1, 1.01, 1}, true},
	} {
		f := facts{Baseline: two, Speeds: c.speeds}
		for _, a := range c.segments {
			f.Progress.Segments = append(f.Progress.Segments, &Segment{Allocation: a, Blocks: c.blocks})
		}
		if change, steady := f.steadyMachine(); steady != c.want {
			t.Errorf("%s: steady %t at a change of %.2f, want %t", name, steady, change, c.want)
		}
	}
}

// TestCPUSpeed: the measured speed is a positive number.
func TestCPUSpeed(t *testing.T) {
	if v := cpuSpeed(); !(v > 0) || math.IsInf(v, 0) {
		t.Errorf("%v MB/s", v)
	}
}
