package cluster

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trainopt/internal/stat"
)

// TestForecast predicts the starts of four waiting jobs: two follow the running ones, the last two follow those.
func TestForecast(t *testing.T) {
	spread := func(sd float64) func(int, int) float64 { return func(int, int) float64 { return sd } }
	run := func(ctx context.Context, unmeasured map[int]bool, sd float64) map[int][3]float64 {
		t.Helper()
		starts, err := forecast(ctx, queue(t, 4, 0), unmeasured, spread(sd), rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		for id, at := range starts {
			for q := range at {
				at[q] -= 1e9 + 20
			}
			starts[id] = at
		}
		return starts
	}
	certain := run(t.Context(), nil, 0)
	for id, want := range map[int]float64{3: 100, 4: 100, 5: 201, 6: 201} {
		if at, ok := certain[id]; !ok || at[0] != at[2] || at[1] < want-2 || at[1] > want+2 {
			t.Errorf("job %d starts after %v s, want %.0f", id, at, want)
		}
	}
	for id, at := range run(t.Context(), nil, 0.1) {
		if c := certain[id][1]; !(at[0] < c && c < at[2] && at[2]-at[0] < c) {
			t.Errorf("job %d starts after %v s, want an interval about %.0f", id, at, c)
		}
	}
	if starts := run(t.Context(), map[int]bool{4: true}, 0); len(starts) != 2 || starts[5] != [3]float64{} || starts[3][1] == 0 {
		t.Errorf("job 4 was never measured: %v, want the starts of jobs 3 and 4 only", starts)
	}
	if starts := run(t.Context(), map[int]bool{1: true}, 0); len(starts) != 0 {
		t.Errorf("running job 1 was never measured: %v, want none", starts)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if starts := run(ended, nil, 0); len(starts) != 0 {
		t.Errorf("without time: %v", starts)
	}
	broken := queue(t, 1, 0)
	broken.Policies[0].Policy = "none"
	if _, err := forecast(t.Context(), broken, nil, spread(0), rand.New(rand.NewPCG(1, 2))); err == nil {
		t.Error("an unknown policy has a forecast")
	}
}

var days = flag.Int("days", 3, "simulated days of TestForecastCoverage under each policy")

// TestForecastCoverage simulates days of jobs that arrive at random on four device types, with rates and starts that differ
// between lives, and predicts every start of a waiting job when it begins to wait, as a server does: 85 to 95 % of the
// starts should be in their 90 % intervals. Of a few days, the bounds are wider: go test -run Coverage -days 40 -v.
func TestForecastCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates days")
	}
	least, most := 0.75, 1.0
	if *days >= 20 {
		least, most = 0.82, 0.97
	}
	for _, policy := range []string{"fifo_perf", "srtf", "max_min_fairness_perf", "tiresias", "themis"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			var s coverage
			for day := range *days {
				s.day(t, policy, uint64(day))
			}
			share := float64(s.within) / float64(s.n)
			t.Logf("%d starts predicted, %d not; %.1f %% in their intervals, %.1f %% before, %.1f %% after; median error %.1f s, median wait %.1f s, median width %.1f s",
				s.n, s.without, 100*share, 100*float64(s.early)/float64(s.n), 100*(1-share-float64(s.early)/float64(s.n)), stat.Median(s.errs), stat.Median(s.waits), stat.Median(s.widths))
			if s.n < 10**days || share < least || share > most {
				t.Errorf("%.1f %% of %d starts in their intervals", 100*share, s.n)
			}
		})
	}
}

// coverage compares predicted starts with starts.
type coverage struct {
	n, within, early, without int
	errs, waits, widths       []float64
}

// day simulates a day.
func (c *coverage) day(t *testing.T, policy string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	const jobs, from = 50, 1e9
	sim := Simulation{Round: 20, From: from, Policies: []Span{{from, policy}}, Devices: []Device{
		{Name: "a100", Count: 1, PerServer: 1, Speed: 1}, {Name: "k80", Count: 2, PerServer: 2, Speed: 0.2},
		{Name: "p100", Count: 1, PerServer: 1, Speed: 0.33}, {Name: "v100", Count: 1, PerServer: 1, Speed: 0.5}}}
	paces := [][]float64{{0.1, 0.5, 0.3, 0.2}, {0.2, 0.4, 0.3, 0.25}} // seconds of an epoch
	at := 0.0
	for id := 1; id <= jobs; id++ {
		pace := paces[id%2]
		steps := math.Round(100 + 320*r.Float64())
		x := Trial{Job: Job{ID: id, Name: "job", Total: steps}, Spec: Spec{Submitted: fromUnix(from + at), Min: 1, Max: 1}, Steps: steps, First: 1.5, Again: 1.5, Save: 0.8, Measured: 1,
			Rate: func(device, _ int) float64 { return math.Exp(lifeSpread*r.NormFloat64()) / pace[device] }}
		for range 30 {
			nan := math.NaN()
			x.Lives = append(x.Lives, LifeCosts{Start: 1.5 * math.Exp(0.3*r.NormFloat64()), Startup: nan, Keeps: nan, Save: 0.8 * math.Exp(0.3*r.NormFloat64()), Measured: nan})
		}
		x.Spec.Config.Train = fmt.Sprint("train", id%2)
		sim.Jobs = append(sim.Jobs, x)
		at += 14 * r.ExpFloat64()
	}
	var x experience
	expected, since := map[int]prediction{}, map[int]float64{}
	sim.Log = func(e Event) {
		switch e.Kind {
		case EventStart:
			if f, ok := expected[e.Job]; ok {
				p := f.shown
				x.saw(f, e.Time)
				c.n++
				c.errs, c.waits, c.widths = append(c.errs, math.Abs(e.Time-p[1])), append(c.waits, e.Time-since[e.Job]), append(c.widths, p[2]-p[0])
				if e.Time < p[0]-1 {
					c.early++
				} else if e.Time <= p[2]+1 { // the precision of displayed times
					c.within++
				}
			} else if since[e.Job] > 0 && e.Time > since[e.Job]+shortestPause {
				c.without++
			}
			delete(expected, e.Job)
			delete(since, e.Job)
		case EventLeft:
			since[e.Job] = 0
		}
	}
	w, err := sim.open()
	for err == nil && !w.over() {
		if err = w.event(); err == nil {
			err = predict(w, r, &x, expected, since)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// predict adds predictions of the starts of jobs that have none.
func predict(w *virtualCluster, r *rand.Rand, x *experience, expected map[int]prediction, since map[int]float64) error {
	var jobs []*Job
	var specs []*Spec
	due := false
	for _, m := range w.s.active {
		t := w.jobs[m.ID]
		jobs, specs = append(jobs, t.job), append(specs, &t.Spec)
		if _, known := expected[m.ID]; !known && m.State == Waiting {
			if since[m.ID] == 0 {
				since[m.ID] = w.now
			}
			due = due || w.now >= since[m.ID]+shortestPause
		}
	}
	if !due {
		return nil
	}
	sim, err := future(w.now, w.s, w.learner, w.Devices, jobs, specs)
	if err != nil {
		return err
	}
	unmeasured, spread := w.learner.uncertain(&sim)
	starts, err := forecast(context.Background(), sim, unmeasured, spread, r)
	waiting := slices.Collect(maps.Values(expected))
	for id, at := range starts {
		if _, known := expected[id]; !known && since[id] > 0 {
			p := prediction{at: at, made: w.now}
			p.shown = x.correct(p, waiting)
			expected[id] = p
		}
	}
	return err
}

// TestSimulationLearnsWhatWasSeen: as long as a simulation follows a day, jobs progress as on it, and the scheduler learns what
// was measured on it; later, the given rate.
func TestSimulationLearnsWhatWasSeen(t *testing.T) {
	const from, drawn, paced = 1000.0, 2.2, 2.0
	for name, c := range map[string]struct {
		at    float64 // of the start on the day
		rates []Measurement
		seen  []Measurement // by the scheduler
		pace  float64
	}{
		"it follows":         {from + 0.5, []Measurement{{3, 1.8}, {5, 1.9}}, []Measurement{{3, 1.8}, {5, 1.9}}, paced},
		"nothing new":        {from, []Measurement{}, nil, paced},
		"it left before":     {from, nil, []Measurement{{6, paced}}, paced},
		"it started earlier": {from - 2, []Measurement{{3, 1.8}}, []Measurement{{6, drawn}}, drawn},
	} {
		nan := math.NaN()
		var got []Measurement
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}}, Round: 10, From: from, Policies: []Span{{From: from, Policy: "srtf"}},
			Jobs: []Trial{{Job: Job{ID: 1, Total: 100}, Spec: Spec{Submitted: fromUnix(from), Min: 1, Max: 1}, Steps: 100, First: 2, Measured: 4,
				Rate:  func(int, int) float64 { return drawn },
				Lives: []LifeCosts{{Start: nan, Startup: nan, Keeps: nan, Save: nan, Measured: nan, Seen: &Seen{At: c.at, Device: "a", GPUs: 1, PerSec: paced, Rates: c.rates}}}}},
			Log: func(e Event) {
				if e.Kind == EventRate {
					got = append(got, Measurement{e.Time - from, e.Seen})
				}
			}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if end := from + 2 + 100/c.pace; !slices.Equal(got, c.seen) || math.Abs(out.End[1]-end) > 1e-6 {
			t.Errorf("%s: rates %v, end %g; want %v, %g", name, got, out.End[1], c.seen, end)
		}
	}
}

// TestSimulationKnowsWhatPoliciesKnew: a simulation that follows a day decides on the progress that was known at its decisions, and on
// that of the moment once it does not follow.
func TestSimulationKnowsWhatPoliciesKnew(t *testing.T) {
	const from = 1000.0
	nan := math.NaN()
	type known = struct{ After, Done float64 }
	for name, c := range map[string]struct {
		device string // of the day
		known  []known
		want   []float64 // ends
	}{
		"none":            {"a", nil, []float64{140, 90}},
		"more":            {"a", []known{{45, 10}, {50.1, 90}}, []float64{100, 140}},
		"at another time": {"a", []known{{52, 90}}, []float64{140, 90}},
		"of another day":  {"b", []known{{50, 90}}, []float64{140, 90}},
	} {
		trial := func(id int, at, steps float64) Trial {
			spec := Spec{Submitted: fromUnix(from + at), Min: 1, Max: 1}
			spec.Config.Train = fmt.Sprint("train", id)
			return Trial{Job: Job{ID: id, Total: steps}, Spec: spec, Steps: steps, Rate: func(int, int) float64 { return 1 }}
		}
		first := trial(1, 0, 100)
		first.Lives = []LifeCosts{{Start: nan, Startup: nan, Keeps: nan, Save: nan, Measured: nan, Seen: &Seen{At: from, Device: c.device, GPUs: 1, Known: c.known}}}
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}}, Round: 20, From: from, Policies: []Span{{From: from, Policy: "srtf"}}, Jobs: []Trial{first, trial(2, 50, 40)}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := []float64{out.End[1] - from, out.End[2] - from}; math.Abs(got[0]-c.want[0]) > 1e-6 || math.Abs(got[1]-c.want[1]) > 1e-6 {
			t.Errorf("%s: ends %v, want %v", name, got, c.want)
		}
	}
}

// TestSimulationOfAnotherDay: lives that do not follow the day of the known ones, or come after them, have other costs.
func TestSimulationOfAnotherDay(t *testing.T) {
	const from = 1000.0
	nan := math.NaN()
	for name, c := range map[string]struct {
		at   float64 // of the start on the day
		want float64 // seconds until the end
	}{
		"it follows":         {from, 3 + 50},
		"it started earlier": {from - 9, 7 + 50},
	} {
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}}, Round: 10, From: from, Policies: []Span{{From: from, Policy: "srtf"}},
			Jobs: []Trial{{Job: Job{ID: 1, Total: 100}, Spec: Spec{Submitted: fromUnix(from), Min: 1, Max: 1}, Steps: 100, First: 2, Rate: func(int, int) float64 { return 2 },
				Lives: []LifeCosts{{Start: 3, Startup: nan, Keeps: nan, Save: nan, Measured: nan, Seen: &Seen{At: c.at, Device: "a", GPUs: 1}}},
				Other: func(n int) LifeCosts {
					return LifeCosts{Start: 6 + float64(n), Startup: nan, Keeps: nan, Save: nan, Measured: nan}
				}}}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := out.End[1] - from; math.Abs(took-c.want) > 1e-6 {
			t.Errorf("%s: ended after %g s, want %g", name, took, c.want)
		}
	}
}

// TestUsefulSave: a job makes progress for a part of its save, and ends there if that is the rest of its work.
func TestUsefulSave(t *testing.T) {
	const from = 1000.0
	nan := math.NaN()
	end := func(steps, useful float64) (first, second float64) {
		t.Helper()
		trial := func(id int, at, steps float64) Trial {
			return Trial{Job: Job{ID: id, Total: steps}, Spec: Spec{Submitted: fromUnix(from + at), Min: 1, Max: 1}, Steps: steps, First: 1, Again: 1, Save: 4, Rate: func(int, int) float64 { return 1 }}
		}
		long, urgent := trial(1, 0, steps), trial(2, 21, 1)
		long.Lives = []LifeCosts{{Start: nan, Startup: nan, Keeps: nan, Save: nan, Measured: nan, Useful: useful}}
		urgent.Spec.Config.SLA.TimeMax = 20 * time.Second // only a deadline takes the devices of a job that is about to end
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}}, Round: 10, From: from, Policies: []Span{{From: from, Policy: "elasticflow"}}, Known: true, Jobs: []Trial{long, urgent}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out.End[1] - from, out.End[2] - from
	}
	gross, second := end(100, 0)
	if net, other := end(100, 3); math.Abs(gross-net-3) > 1e-6 || other != second {
		t.Errorf("the jobs end after %g and %g s, with 3 useful seconds of the save after %g and %g", gross, second, net, other)
	}
	if net, _ := end(100, 1000); math.Abs(gross-net-4) > 1e-6 {
		t.Errorf("a save of 4 s brought progress of %g s", gross-net)
	}
	interrupted, before := end(23, 0)
	if first, other := end(23, 3); !(interrupted > before && first < other) {
		t.Errorf("a job with 3 s of work left ends after %g s, and after %g s if its save contains them; the one that takes its place after %g and %g s", interrupted, first, before, other)
	}
}

// TestAskedWhileItStarts: a job makes no progress in a save before it has begun to work, and none that a server measures after it.
func TestAskedWhileItStarts(t *testing.T) {
	const from = 1000.0
	nan := math.NaN()
	// The second job arrives at 5 s, and has the device when the first, asked then, has left at 9 s.
	simulate := func(first LifeCosts) (end float64, rates []float64) {
		t.Helper()
		trial := func(id int, at, steps float64) Trial {
			return Trial{Job: Job{ID: id, Total: steps, Rates: []Rate{{Device: "a", GPUs: 1, PerSec: 1.5, Blocks: 9}}}, Spec: Spec{Submitted: fromUnix(from + at), Min: 1, Max: 1}, Steps: steps, First: 1, Again: 1, Save: 4, Measured: 100,
				Rate: func(int, int) float64 { return 1 }}
		}
		long := trial(1, 0, 100)
		first.Startup, first.Keeps, first.Save = nan, 1, nan
		first.Seen = &Seen{At: from, Device: "a", GPUs: 1, Rates: first.Rates}
		long.Lives = []LifeCosts{first}
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}}, Round: 10, From: from, Policies: []Span{{From: from, Policy: "srtf"}},
			Jobs: []Trial{long, trial(2, 5, 1)}, Log: func(e Event) {
				if e.Kind == EventRate && e.Job == 1 && e.Stretch == 1 {
					rates = append(rates, e.Time-from)
				}
			}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out.End[1] - from, rates
	}
	idle, _ := simulate(LifeCosts{Start: 8, Measured: nan})
	for name, c := range map[string]struct {
		first  LifeCosts
		gains  float64   // seconds by which the job ends earlier
		learns []float64 // times of the rates
	}{
		"starts until the end of the useful part":         {LifeCosts{Start: 8, Useful: 3, Measured: nan}, 0, nil},
		"works for the last second of the useful part":    {LifeCosts{Start: 7, Useful: 3, Measured: 5}, 1, nil},
		"is measured while it saves":                      {LifeCosts{Start: 7, Useful: 3, Measured: 0.5}, 1, []float64{7.5}},
		"was measured while it saved":                     {LifeCosts{Start: 7, Useful: 3, Measured: 5, Rates: []Measurement{{8.25, 1}}}, 1, []float64{8.25}},
		"would be measured in the rest of the save":       {LifeCosts{Start: 7, Useful: 1, Measured: 1.5}, 0, nil},
		"was not measured, with a useful part to the end": {LifeCosts{Start: 7, Useful: 4, Measured: nan, Rates: []Measurement{}}, 2, nil},
	} {
		end, rates := simulate(c.first)
		if math.Abs(idle-end-c.gains) > 1e-6 || !slices.Equal(rates, c.learns) {
			t.Errorf("%s: ends %g s earlier, want %g; rates at %v s, want %v", name, idle-end, c.gains, rates, c.learns)
		}
	}
}

// TestDoneJobMovesNoOther: a job that has done its work, and is about to exit, keeps its devices; others keep theirs.
func TestDoneJobMovesNoOther(t *testing.T) {
	const from = 1000.0
	trial := func(id int, at, steps float64, rates ...float64) Trial {
		return Trial{Job: Job{ID: id, Total: steps}, Spec: Spec{Submitted: fromUnix(from + at), Min: 1, Max: 1}, Steps: steps, First: 1, Again: 1, Save: 0.1, Exit: 5,
			Rate: func(device, _ int) float64 { return rates[device] }}
	}
	sim := Simulation{Devices: []Device{{Name: "a", Count: 1}, {Name: "b", Count: 1}}, Round: 60, From: from, Policies: []Span{{From: from, Policy: "srtf"}}, Known: true,
		Jobs: []Trial{trial(1, 0, 1000, 10, 1), trial(2, 0, 10, 10, 5), trial(3, 5, 2000, 10, 1)},
		Log: func(e Event) {
			if e.Kind == EventStop && e.Time < from+8 {
				t.Errorf("job %d was stopped at %g", e.Job, e.Time-from)
			}
		}}
	out, err := sim.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if end := out.End[2] - from; math.Abs(end-8) > 1e-6 {
		t.Errorf("job 2 ended at %g, want 8: 10 steps on b from 1 on, and its exit", end)
	}
}

// TestFutureIsACopy: what the server measures does not change a simulation that runs beside it.
func TestFutureIsACopy(t *testing.T) {
	day := queue(t, 1, 0)
	w, err := day.open()
	if err != nil {
		t.Fatal(err)
	}
	j := w.order[0].job
	measure := func(perSec float64) {
		w.learner.observe(j.ID, "a100", 4, perSec, 3)
		w.learner.observePair(j.ID, 2, "a100", 4, perSec, 3)
	}
	measure(10)
	sim, err := future(w.now, w.s, w.learner, w.Devices, []*Job{j}, []*Spec{&w.order[0].Spec})
	if err != nil {
		t.Fatal(err)
	}
	measure(20)
	if c := sim.Jobs[0].Job; c.Rates[0].PerSec != 10 || c.Pairs[0].PerSec != 10 {
		t.Errorf("rates %+v, pairs %+v, want 10/s", c.Rates, c.Pairs)
	}
}
