package replay

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"trainopt/optimizer/cluster"
)

// TestRateOfAShortLife: a rate that was measured while its life was saving, before any start-up was, is a measured rate.
func TestRateOfAShortLife(t *testing.T) {
	at := func(s float64) float64 { return monday + s }
	half := 0.5
	var events []cluster.Event
	events = append(events, cluster.Event{Kind: cluster.EventServe, Time: at(0), Policy: "fifo", Round: 60, Devices: fourTypes})
	for id := 1; id <= 2; id++ { // the second job has two lives on one type, which differ
		events = append(events, cluster.Event{Kind: cluster.EventSubmit, Time: at(0), Job: id, GPUs: 1, Total: 100})
		for k, seen := range []float64{1, 1.1}[:id] {
			from := float64(20 * k)
			events = append(events, cluster.Event{Kind: cluster.EventStart, Time: at(from), Job: id, Stretch: k + 1, Device: "k80", GPUs: 1, Do: "start"},
				cluster.Event{Kind: cluster.EventStop, Time: at(from + 10), Job: id},
				cluster.Event{Kind: cluster.EventRate, Time: at(from + 10.2), Job: id, Device: "k80", GPUs: 1, Seen: seen, Done: 8 + from},
				cluster.Event{Kind: cluster.EventLeft, Time: at(from + 10.5), Job: id, Seconds: &half, Done: 9 + from, Reason: "lease"})
		}
	}
	day, err := NewDay(events)
	if err != nil {
		t.Fatal(err)
	}
	r := newRates(day)
	for _, j := range day.Jobs {
		if e := r.at(j, place{"k80", 1}); !(e.rate > 0) || !(e.spread < 1) || e.source != measured {
			t.Errorf("job %d: %+v", j.ID, e)
		}
		if l := j.Lives[0]; !(l.Worked > l.Start && l.Worked < l.Left) {
			t.Errorf("job %d: progress from %v in a life from %v to %v", j.ID, l.Worked, l.Start, l.Left)
		}
	}
}

// TestLivesWithoutMeasuredRate: on days on which the server measured the rates of half of the lives, and of each start a
// part, the rates of the replay are unbiased: what a start takes beyond its measured part does not make a job slow.
func TestLivesWithoutMeasuredRate(t *testing.T) {
	sum, n := 0.0, 0.0
	for seed := uint64(31); seed < 35; seed++ {
		s, random := drawDay(seed, 20), rand.New(rand.NewPCG(seed, 2))
		jobs := map[int]*simulated{}
		for _, j := range s.jobs {
			jobs[j.ID] = j
			for range 60 {
				start := 1 + 2*random.Float64()
				j.lives = append(j.lives, cluster.LifeCosts{Start: start, Startup: 0.8 * start, Keeps: math.NaN(), Save: 0.4, Measured: 1 + random.Float64()})
			}
		}
		var events []cluster.Event
		where := map[int]place{}
		for _, e := range s.live(t, "srtf") {
			events = append(events, e)
			if e.Kind == cluster.EventStart {
				where[e.Job] = place{e.Device, e.GPUs}
			}
			if p := where[e.Job]; e.Kind == cluster.EventRunning && random.IntN(2) == 0 {
				events = append(events, cluster.Event{Kind: cluster.EventRate, Time: e.Time, Job: e.Job, Stretch: e.Stretch, Device: p.device, GPUs: p.gpus, Seen: jobs[e.Job].rate[p], Blocks: 3})
			}
		}
		day, err := NewDay(events)
		if err != nil {
			t.Fatal(err)
		}
		r := newRates(day)
		for id, seen := range r.seen {
			for p, rate := range seen {
				sum += math.Log(rate / jobs[id].rate[p])
				n++
			}
		}
	}
	t.Logf("%g rates, off by %+.2f %% on average", n, 100*sum/n)
	if n < 100 || math.Abs(sum/n) > 0.004 {
		t.Errorf("%g rates, off by %+.2f %% on average", n, 100*sum/n)
	}
}

// TestUsefulSaves: the part of the saves in which trainings still made progress is measured, and their starts are no shorter by it.
func TestUsefulSaves(t *testing.T) {
	for _, useful := range []float64{0, 0.6} {
		s, random := drawDay(41, 20), rand.New(rand.NewPCG(41, 2))
		starts := map[int][]float64{}
		for _, j := range s.jobs {
			for range 60 {
				start, save := 1+2*random.Float64(), 2+2*random.Float64()
				starts[j.ID] = append(starts[j.ID], start)
				j.lives = append(j.lives, cluster.LifeCosts{Start: start, Startup: 0.8 * start, Keeps: math.NaN(), Save: save, Useful: useful * save, Measured: 1 + random.Float64()})
			}
		}
		day, err := NewDay(s.live(t, "srtf"))
		if err != nil {
			t.Fatal(err)
		}
		newRates(day)
		saved, part, late, n := 0.0, 0.0, 0.0, 0.0
		for _, j := range day.Jobs {
			for i, l := range j.Lives {
				if l.Save > 0 {
					saved, part = saved+l.Save, part+l.useful
				}
				if l.ratedDone > l.Before {
					late, n = late+l.Worked-l.Start-starts[j.ID][i], n+1
				}
			}
		}
		if share := part / saved; n < 30 || !(math.Abs(share-useful) < 0.05) || math.Abs(late/n) > 0.1 {
			t.Errorf("%.2f of the saves measured as useful, want %g; starts off by %.2f s on average of %g", share, useful, late/n, n)
		}
	}
}

// TestLaterStarts: what is done once per run is no part of later starts, of which a day has none or many.
func TestLaterStarts(t *testing.T) {
	const once = 3.0 // seconds
	for policy, alike := range map[string]float64{"themis": 0.6, "srtf": 0.3} {
		s := drawDay(11, 20)
		for _, j := range s.jobs {
			j.first, j.measured = j.again+once, 1
		}
		events := s.live(t, policy)
		for i := range events {
			if e := &events[i]; e.Kind == cluster.EventRunning && e.Stretch == 1 {
				measured := *e.Seconds - once
				e.Seconds, e.PreparedSeconds = &measured, once
			}
		}
		day, err := NewDay(events)
		if err != nil {
			t.Fatal(err)
		}
		m := newMoves(day, newRates(day))
		off := 0.0
		for i, j := range day.Jobs {
			off += (m.mean(laterStart, j) - s.jobs[i].again) / float64(len(day.Jobs))
			if v := m.mean(laterStart, j) - s.jobs[i].again; math.Abs(v) > alike {
				t.Errorf("%s: %.2f s for later starts of job %d, want %.2f", policy, m.mean(laterStart, j), j.ID, s.jobs[i].again)
			}
		}
		if math.Abs(off) > 0.2 { // means are those of starts that no other one slows, which is assumed to some degree
			t.Errorf("%s: later starts off by %+.2f s on average", policy, off)
		}
	}
}

// TestFewSaves: on a day with few saves, trainings are assumed to leave after the last step before one as they do after their last of
// all, unless their progress was measured.
func TestFewSaves(t *testing.T) {
	for _, measured := range []bool{false, true} {
		checkFewSaves(t, measured)
	}
}

func checkFewSaves(t *testing.T, measured bool) {
	t.Helper()
	s := drawDay(43, 20)
	for _, j := range s.jobs {
		j.exit, j.measured = 0.5, 1
	}
	events := s.live(t, "themis")
	var last cluster.Event
	events = slices.DeleteFunc(events, func(e cluster.Event) bool { return !measured && e.Kind == cluster.EventRate && e.Job == 3 })
	for i, e := range events {
		if e.Kind == cluster.EventLeft && e.Job == 3 {
			last = e
			save := 2.0
			events[i].Seconds, events[i].Reason = &save, "lease"
			stop := cluster.Event{Kind: cluster.EventStop, Time: e.Time - save, Job: 3, Stretch: e.Stretch, Device: e.Device, GPUs: e.GPUs}
			events = slices.Insert(events, i, stop)
			break
		}
	}
	slices.SortStableFunc(events, func(a, b cluster.Event) int { return cmp.Compare(a.Time, b.Time) })
	day, err := NewDay(events)
	if err != nil || last.Job != 3 {
		t.Fatal(err)
	}
	r := newRates(day)
	off := 1e-9
	if measured {
		off = 0.1
	}
	if l := day.Jobs[2].Lives[0]; math.Abs(l.useful-(2-r.exit)) > off || math.Abs(r.exit-0.5) > 0.1 {
		t.Errorf("measured %v: %.2f s of a save of %.2f s are useful; trainings take %.2f s to leave", measured, l.useful, l.Save, r.exit)
	}
}

// TestRunningJobKeepsItsRate: what a life that has not ended has done since its last event is not known. It is neither slow, nor
// has it lost what it did.
func TestRunningJobKeepsItsRate(t *testing.T) {
	at := func(s float64) float64 { return monday + s }
	startup := 2.0
	day, err := NewDay([]cluster.Event{
		{Kind: cluster.EventServe, Time: at(0), Policy: "fifo", Round: 60, Devices: fourTypes},
		{Kind: cluster.EventSubmit, Time: at(0), Job: 1, GPUs: 1, Total: 1000},
		{Kind: cluster.EventStart, Time: at(0), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Do: "start"},
		{Kind: cluster.EventRunning, Time: at(10), Job: 1, Seconds: &startup},
		{Kind: cluster.EventRate, Time: at(10), Job: 1, Device: "k80", GPUs: 1, Seen: 2, Done: 16},
		{Kind: cluster.EventSubmit, Time: at(300), Job: 2, GPUs: 1, Total: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRates(day)
	if e := r.at(day.Jobs[0], place{"k80", 1}); math.Abs(e.rate-2) > 1e-9 || e.source != measured {
		t.Errorf("%+v, want 2 steps/s", e)
	}
	if w, _ := day.waste(r); w.RepeatedS != 0 {
		t.Errorf("%v s for steps lost", w.RepeatedS)
	}
}

// TestDelayedStartsAreNotSlowness: on a busy machine, starts take seconds more than the server measures of them. That makes no
// job slow, so that a policy with few moves is predicted from the day of one with many.
func TestDelayedStartsAreNotSlowness(t *testing.T) {
	sum, n := 0.0, 0.0
	for seed := uint64(51); seed < 54; seed++ {
		s, random := drawDay(seed, 20), rand.New(rand.NewPCG(seed, 2))
		jobs := map[int]*simulated{}
		for _, j := range s.jobs {
			jobs[j.ID] = j
			for range 80 {
				start := 4 + 6*random.Float64()
				j.lives = append(j.lives, cluster.LifeCosts{Start: start, Startup: 2, Keeps: math.NaN(), Save: 1, Measured: 1 + random.Float64()})
			}
		}
		day, err := NewDay(s.live(t, "srtf"))
		if err != nil {
			t.Fatal(err)
		}
		for id, seen := range newRates(day).seen {
			for p, rate := range seen {
				sum, n = sum+math.Log(rate/jobs[id].rate[p]), n+1
			}
		}
	}
	t.Logf("%g rates, off by %+.2f %% on average", n, 100*sum/n)
	if n < 60 || math.Abs(sum/n) > 0.005 {
		t.Errorf("%g rates, off by %+.2f %% on average", n, 100*sum/n)
	}
}

// TestExitOfADayWithoutMoves: what trainings need to leave after their last step is measured on a day without a move, too.
func TestExitOfADayWithoutMoves(t *testing.T) {
	s := drawDay(7, 20)
	for _, j := range s.jobs {
		j.exit, j.measured = 2, 1
	}
	day, err := NewDay(s.live(t, "themis"))
	if err != nil {
		t.Fatal(err)
	}
	if r := newRates(day); math.Abs(r.exit-2) > 0.1 {
		t.Errorf("%.2f s to leave, want 2", r.exit)
	}
}

// TestCrowding: by how much starts at the same time slow each other is measured on a day with many of them, and assumed from the
// number of CPUs without any.
func TestCrowding(t *testing.T) {
	day := func(crowding float64, policy string) *Day {
		s, random := drawDay(9, 40).costly(9), rand.New(rand.NewPCG(9, 4))
		for _, j := range s.jobs {
			j.Command = "train"
			j.lives, j.other = nil, func(int) cluster.LifeCosts {
				start := 1.5 * math.Exp(0.2*random.NormFloat64())
				return cluster.LifeCosts{Start: start, Startup: start, Keeps: math.NaN(), Save: 0.3, Measured: 1}
			}
		}
		s.crowding = crowding
		whole := *s.day
		whole.Devices = slices.Clone(fourTypes)
		for i := range whole.Devices { // two in all
			whole.Devices[i].CPUs = 0.4
		}
		s.day = &whole
		d, err := NewDay(s.live(t, policy))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	measured := func(d *Day) (value, sd float64) {
		c := newMoves(d, newRates(d)).crowding
		return c.value, c.sd
	}
	for _, want := range []float64{0, 0.6} {
		v, sd := measured(day(want, "fifo_perf"))
		t.Logf("starts slow each other by %.2f ± %.2f, want %g", v, sd, want)
		if math.Abs(v-want) > 2*sd || sd > 0.2 || (v > 0.2) != (want > 0.2) {
			t.Errorf("starts slow each other by %.2f ± %.2f, want %g", v, sd, want)
		}
	}
	alone := day(0.6, "themis")
	for _, j := range alone.Jobs[1:] {
		j.Lives = nil
	}
	if v, _ := measured(alone); v != 0.25 {
		t.Errorf("assumed without evidence: %g, want half of one of two CPUs", v)
	}
}
