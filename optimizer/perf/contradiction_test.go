package perf

import (
	"errors"
	"math"
	"testing"

	"trainopt/resources"
)

// Three earlier runs each at two CPUs and at one, of a job that a second CPU slows down by a factor of 2 to 10.
func TestJobsThatASecondCPUSlowsDown(t *testing.T) {
	for _, factor := range []float64{2, 3, 5, 10} {
		var obs []Observation
		for i := range 3 {
			spread := 1 + 0.08*float64(i-1) // a busy machine
			two, one := repeated(cpus(2), 0.33*factor*spread, 12), repeated(cpus(1), 0.33/spread, 12)
			two.Recalled, one.Recalled = true, true
			obs = append(obs, two, one)
		}
		m := mustFit(t, obs, FitOptions{})
		one, two := m.UnitSeconds(cpus(1)), m.UnitSeconds(cpus(2))
		if math.Abs(one.P50/0.33-1) > 0.1 || math.Abs(two.P50/(0.33*factor)-1) > 0.1 {
			t.Errorf("%g times slower at 2 CPUs: predicted %v at one and %v at two", factor, one, two)
		}
		if faster := shareBelow(m.Draws(cpus(1)), m.Draws(cpus(2))); faster < 0.95 {
			t.Errorf("%g times slower at 2 CPUs: one is faster with probability %.2f only", factor, faster)
		}
	}
}

func shareBelow(a, b []float64) float64 {
	n := 0.0
	for k := range a {
		if a[k] < b[k] {
			n++
		}
	}
	return n / float64(len(a))
}

// A measurement that contradicts every form decides at its allocation and has little influence elsewhere.
func TestMeasurementsDecideOverTheForm(t *testing.T) {
	smooth := func(c int) float64 { return 0.5 + 8/float64(c) }
	cases := map[string]struct {
		at  int
		odd float64
	}{
		"four times faster than the curve": {4, smooth(4) / 4},
		"four times slower than the curve": {4, smooth(4) * 4},
		"better than perfect scaling":      {16, smooth(16) / 3},
	}
	for name, c := range cases {
		var obs []Observation
		for _, n := range []int{1, 2, 4, 8, 16} {
			pace := smooth(n)
			if n == c.at {
				pace = c.odd
			}
			obs = append(obs, repeated(cpus(n), pace, 6), repeated(cpus(n), 1.02*pace, 6))
		}
		m := mustFit(t, obs, FitOptions{})
		if got := m.UnitSeconds(cpus(c.at)); math.Abs(got.P50/c.odd-1) > 0.08 || !holds(got, c.odd) {
			t.Errorf("%s: measured %.3g s at %d CPUs, predicted %v", name, c.odd, c.at, got)
		}
		for _, n := range []int{1, 2, 8} {
			if got := m.UnitSeconds(cpus(n)); math.Abs(got.P50/smooth(n)-1) > 0.12 {
				t.Errorf("%s: measured %.3g s at %d CPUs, predicted %v", name, smooth(n), n, got)
			}
		}
	}
}

func TestThreadsAreMeasuredNotExtrapolated(t *testing.T) {
	one := func(n int) resources.Allocation { return resources.Allocation{CPUs: n, Threads: 1} }
	own := []Observation{repeated(cpus(4), 2, 8)}
	m := mustFit(t, own, FitOptions{})
	if v := m.UnitSeconds(one(4)); v.P95/v.P5 < 10 {
		t.Errorf("one thread, not measured: %v, want a wide interval", v)
	}
	m = mustFit(t, append(own, repeated(one(4), 0.1, 8)), FitOptions{})
	if v := m.UnitSeconds(one(4)); math.Abs(v.P50/0.1-1) > 0.05 || v.P95/v.P5 > 1.6 {
		t.Errorf("one thread, measured 0.1 s: %v", v)
	}
	if v := m.UnitSeconds(cpus(4)); math.Abs(v.P50/2-1) > 0.05 {
		t.Errorf("the job's own threads, measured 2 s: %v", v)
	}
	if v := m.UnitSeconds(one(2)); v.P95/v.P5 < 10 {
		t.Errorf("one thread on other CPUs, not measured: %v, want a wide interval", v)
	}
}

func TestLiveCutIsNoEvidenceForALaunch(t *testing.T) {
	cut := repeated(cpus(1), 40, 8)
	cut.LiveCut, cut.PeakMemoryGiB = true, 3
	with := mustFit(t, []Observation{repeated(cpus(2), 1, 8), cut}, FitOptions{})
	without := mustFit(t, []Observation{repeated(cpus(2), 1, 8)}, FitOptions{})
	if a, b := with.UnitSeconds(cpus(1)), without.UnitSeconds(cpus(1)); a != b {
		t.Errorf("1 CPU after a live cut changed the prediction of a launch from %v to %v", b, a)
	}
	if with.PeakMemoryGiB() != 3 {
		t.Errorf("peak memory %v, want that of the live cut", with.PeakMemoryGiB())
	}
	if _, err := Fit([]Observation{cut}, FitOptions{}); !errors.Is(err, errNoData) {
		t.Errorf("live cuts alone: %v, want ErrNoData", err)
	}
}

// Between nodes the pace depends on the placement, which lasts as long as the job stays: its own measurements there
// count fully, those of earlier runs do not.
func TestPlacementOnSeveralNodesIsMeasured(t *testing.T) {
	wide := resources.Allocation{GPUs: 8, CPUs: 8}
	for recalled, want := range map[bool][2]float64{false: {1, 1.3}, true: {1.4, 3}} {
		o := Observation{Allocation: wide, UnitSeconds: []float64{10, 10.1, 9.9, 10}, Recalled: recalled}
		m, err := Fit([]Observation{o}, FitOptions{GPUsPerNode: 4})
		if err != nil {
			t.Fatal(err)
		}
		u := m.UnitSeconds(wide)
		if r := u.P95 / u.P5; r < want[0] || r > want[1] {
			t.Errorf("recalled %v: 90 %% of %v span a factor of %.2f, want %v", recalled, u, r, want)
		}
	}
}
