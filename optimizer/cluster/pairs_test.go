package cluster

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/share"
	"trainopt/resources"
)

// pairedJobs returns a learner of two device types with jobs of the given scripts, numbered from 1.
func pairedJobs(scripts ...string) *learner {
	l := newLearner([]Device{{Name: "a", Count: 4}, {Name: "b", Count: 4}}, 60)
	for i, script := range scripts {
		l.enter(&Job{ID: i + 1, Name: script, Total: 1000}, &Spec{Config: run.Config{Train: script, Args: []string{"--seed", string(rune('a' + i))}}}, "")
	}
	return l
}

func (l *learner) relative(a, b, device int) (x, y float64) {
	ra, rb := l.Pair(a, b, device)
	alone, _ := l.Alone(a, device, 1)
	other, _ := l.Alone(b, device, 1)
	return ra / alone, rb / other
}

// TestPairsAreMeasuredOnce: rates of pairs are assumed until they are measured, then they are those of the pair, and of jobs of
// the same scripts with other arguments.
func TestPairsAreMeasuredOnce(t *testing.T) {
	l := pairedJobs("x", "y", "x", "y")
	if ra, rb := l.Pair(1, 2, 0); ra != 0 || rb != 0 {
		t.Errorf("two jobs of which nothing was measured: %g and %g, want none", ra, rb)
	}
	l.observe(1, "a", 1, 10, 3)
	if x, y := l.relative(1, 2, 0); !(x > PartnerRatio && x < 1 && y > PartnerRatio && y < 1) {
		t.Errorf("before any measurement: %g and %g, want more than %g, so that it is tried", x, y, PartnerRatio)
	}
	if ra, _ := l.Pair(1, 2, 1); ra != 0 {
		t.Errorf("on a type where neither was alone: %g, want none", ra)
	}
	kind := l.Kind(3)
	l.observePair(1, 2, "a", 1, 9, 3)
	if l.Kind(3) == kind {
		t.Error("policies are not told that the rates of the kind have changed")
	}
	l.observe(2, "a", 1, 20, 3)
	l.observePair(2, 1, "a", 1, 12, 3)
	l.observe(3, "a", 1, 5, 3)
	for _, p := range [][2]int{{1, 2}, {1, 4}, {3, 2}, {3, 4}} {
		if x, y := l.relative(p[0], p[1], 0); math.Abs(x-0.9) > 1e-9 || math.Abs(y-0.6) > 1e-9 {
			t.Errorf("jobs %v: %g and %g, want 0.9 and 0.6", p, x, y)
		}
	}
	if l.observePair(1, 2, "a", 1, 9.1, 4) || !l.observePair(1, 2, "a", 1, 8, 5) {
		t.Error("changes by 1 % and 12 %: want the second one reported")
	}
}

// TestPairsOfTable: a pair of a table measured elsewhere has its rates until it is measured here; another one is assumed.
func TestPairsOfTable(t *testing.T) {
	l := pairedJobs("x", "y", "z")
	l.table = map[[2]string]float64{{"x", "y"}: 0.4, {"y", "x"}: 0.8}
	for id := 1; id <= 3; id++ {
		l.observe(id, "a", 1, 10, 3)
	}
	up := math.Exp(typeSpread)
	if x, y := l.relative(1, 2, 0); math.Abs(x-0.4*up) > 1e-9 || math.Abs(y-0.8*up) > 1e-9 {
		t.Errorf("from the table %g and %g, want %g and %g", x, y, 0.4*up, 0.8*up)
	}
	if x, _ := l.relative(1, 3, 0); math.Abs(x-PartnerRatio*math.Exp(partnerSpread)) > 1e-9 {
		t.Errorf("without the table %g", x)
	}
	l.observePair(1, 2, "a", 1, 9, 3)
	if x, _ := l.relative(1, 2, 0); math.Abs(x-0.9) > 1e-9 {
		t.Errorf("measured %g, want 0.9", x)
	}
}

// TestPairsThatLose: a pair that is no better than dividing the time of its devices is not formed again, nor are jobs that
// failed beside another.
func TestPairsThatLose(t *testing.T) {
	for name, c := range map[string]struct {
		x, y  float64
		apart bool
		want  bool
	}{
		"gains": {0.6, 0.5, false, true}, "equal": {0.5, 0.5, false, false}, "loses": {0.7, 0.2, false, false}, "has failed": {0.9, 0.9, true, false},
	} {
		l := pairedJobs("x", "y", "x", "y")
		for id := 1; id <= 4; id++ {
			l.observe(id, "a", 1, 10, 3)
		}
		l.observePair(1, 2, "a", 1, 10*c.x, 3)
		l.observePair(2, 1, "a", 1, 10*c.y, 3)
		l.jobs[3].Apart = c.apart
		if ra, rb := l.Pair(3, 4, 0); (ra > 0) != c.want || (rb > 0) != c.want {
			t.Errorf("a pair that %s: %g and %g", name, ra, rb)
		}
	}
}

// TestAloneBesideOthers: a job that only ever shared devices has the rate alone that its partner's loss suggests.
func TestAloneBesideOthers(t *testing.T) {
	l := pairedJobs("x", "y")
	l.observe(1, "a", 1, 10, 3)
	l.observePair(1, 2, "a", 1, 5, 3) // half
	l.observePair(2, 1, "a", 1, 3, 3)
	rate, measured := l.Alone(2, 0, 1)
	if !measured || rate < 3/PartnerRatio || rate > 6 {
		t.Errorf("%g steps/s alone, measured %v: want between 3/%g and twice 3", rate, measured, PartnerRatio)
	}
}

// TestPairsOfOtherJobs: what is remembered survives the end of the jobs, and a removed partner.
func TestPairsOfOtherJobs(t *testing.T) {
	l := pairedJobs("x", "y", "x", "y")
	l.observe(1, "a", 1, 10, 3)
	l.observe(2, "a", 1, 10, 3)
	l.observePair(1, 2, "a", 1, 8, 3)
	l.observePair(2, 1, "a", 1, 8, 3)
	again := newLearner([]Device{{Name: "a", Count: 4}, {Name: "b", Count: 4}}, 60)
	for id := 1; id <= 4; id++ {
		again.enter(l.jobs[id].Job, l.jobs[id].spec, "")
	}
	again.observe(3, "a", 1, 1, 3)
	again.observe(4, "a", 1, 1, 3)
	if x, _ := again.relative(3, 4, 0); math.Abs(x-0.8) > 1e-9 {
		t.Errorf("after a restart: %g, want 0.8", x)
	}
	delete(again.jobs, 2)
	if x, _ := again.relative(3, 4, 0); !(x > 0 && x <= 1) {
		t.Errorf("without the partner: %g", x)
	}
}

// TestPinnedPairs draws clusters under policies that co-locate jobs, in which jobs take time to leave, may not be stopped, and
// the policy changes, also to one that does not. No device has more than two jobs, and none that may not be stopped is.
func TestPinnedPairs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		policies := slices.DeleteFunc(share.Names(), func(name string) bool {
			return !share.Packs(name) && name != "srtf" || name == "min_total_duration_packed"
		})
		trace := drawTrace(rapid.Uint64Range(0, 1000).Draw(r, "seed"), 10, smallCluster, true, false)
		w := newWorld(t, rapid.SampledFrom(policies).Draw(r, "policy"), smallCluster, trace, 20)
		w.check = true
		w.saves = rapid.SampledFrom([]float64{0, 5, 400}).Draw(r, "save")
		pinned := rapid.IntRange(0, 4).Draw(r, "pinned")
		for steps := 0; len(w.ended) < len(trace); steps++ {
			if steps > 20_000 {
				r.Fatalf("%d of %d jobs have ended after %d events", len(w.ended), len(trace), steps)
			}
			w.step()
			w.pace()
			for id, j := range w.jobs {
				if keeps := id > pinned && j.lives > 0; j.job.Keeps == nil || *j.job.Keeps != keeps {
					w.s.Keeps(id, &keeps)
				}
				if with := j.job.Beside; with != 0 && j.job.State.holds() && w.jobs[with].job.Beside != id {
					r.Fatalf("job %d is beside %d, which is beside %d", id, with, w.jobs[with].job.Beside)
				}
			}
			if steps%20 == 19 {
				if err := w.s.SetPolicy(w.now, rapid.SampledFrom(policies).Draw(r, "next policy")); err != nil {
					r.Fatal(err)
				}
			}
		}
		for _, e := range w.events {
			if e.Kind == EventStop && e.Job <= pinned {
				r.Fatalf("job %d was stopped at %v s, and keeps no work", e.Job, e.Time)
			}
			if e.Kind == EventDecide && e.Reason != "" {
				r.Fatalf("at %v s: %s", e.Time, e.Reason)
			}
		}
	})
}

// TestSimulatedPairs: in a simulation jobs beside each other have the given rates from the time when both make progress, pay
// half each, and the scheduler learns what they lose.
func TestSimulatedPairs(t *testing.T) {
	for name, c := range map[string]struct {
		ratio, least, most float64 // seconds until both have ended
	}{
		"nearly alone": {0.9, 1110, 1150}, "time-sharing": {0.5, 1990, 2100},
	} {
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1, USDHour: 36}}, Round: 10, From: 1e9, Policies: []Span{{1e9, "best_match_packed"}}}
		for id := 1; id <= 2; id++ {
			script := string(rune('w' + id))
			sim.Jobs = append(sim.Jobs, Trial{Job: Job{ID: id, Name: script}, Spec: Spec{Submitted: fromUnix(1e9), Config: run.Config{Train: script}}, Steps: 1000,
				Rate: func(int, int) float64 { return 1 }, Beside: func(int, int) float64 { return c.ratio }, First: 5, Again: 5, Save: 1, Measured: 2})
		}
		shares, both := 0, 0.0
		sim.Log = func(e Event) {
			if e.Kind == EventShare && e.With != 0 {
				shares++
			}
		}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		both = max(out.End[1], out.End[2]) - 1e9
		usd := (out.Cost[1] + out.Cost[2]) * 100
		if shares == 0 || math.Abs(usd-both) > 12 {
			t.Errorf("%s: %d times on one device, %.0f s paid of %.0f s", name, shares, usd, both)
		}
		if both < c.least || both > c.most {
			t.Errorf("%s: both end after %.0f s, want %.0f to %.0f", name, both, c.least, c.most)
		}
		if name == "time-sharing" && shares > 8 {
			t.Errorf("%s: tried %d times", name, shares)
		}
	}
}

// TestSlotsOwnCPUs: slots divide the CPUs, so that two jobs of one slot share them, and those of others do not.
func TestSlotsOwnCPUs(t *testing.T) {
	host := resources.Host{CPUs: 6, Memory: 8, CPUIDs: []int{0, 1, 4, 5, 8, 9}}
	for _, c := range []struct {
		slots  int
		stated []Device
		device int
		where  []int32
		want   []int
	}{
		{3, nil, 0, []int32{1}, []int{4, 5}}, {3, nil, 0, []int32{0, 2}, []int{0, 1, 8, 9}}, {12, nil, 0, []int32{0, 1, 2}, []int{0, 1}}, {4, nil, 0, []int32{1}, []int{1, 4}},
		{0, []Device{{Name: "x", Count: 2}, {Name: "y", Count: 1}}, 1, []int32{0}, []int{8, 9}}, {6, nil, 0, []int32{7}, nil},
	} {
		l, err := NewLocal(host, c.slots, c.stated)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Place(run.Config{}, c.device, c.where, "", nil).Lease.CPUIDs; !slices.Equal(got, c.want) {
			t.Errorf("%d slots, %v: CPUs %v, want %v", c.slots, c.where, got, c.want)
		}
	}
	if ids := (&local{host: host, devices: []Device{{Count: 1}}, gpus: [][]resources.GPU{{{}}}, before: []int{0}}).cpusOf(0, []int32{0}); ids != nil {
		t.Errorf("GPUs have the CPUs %v", ids)
	}
}
