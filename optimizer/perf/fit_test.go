package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/internal/stat"
	"trainopt/resources"
	"trainopt/sla"
)

func mustFit(t testing.TB, obs []Observation, o FitOptions) *Model {
	t.Helper()
	m, err := Fit(obs, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func units(a resources.Allocation, seconds ...float64) Observation {
	return Observation{Allocation: a, UnitSeconds: seconds}
}

// repeated is a segment of n units around a mean, alternately 2 % above and below.
func repeated(a resources.Allocation, mean float64, n int) Observation {
	o := Observation{Allocation: a}
	for i := range n {
		o.UnitSeconds = append(o.UnitSeconds, mean*(1+0.02*float64(1-2*(i%2))))
	}
	return o
}

func holds(v sla.Interval, x float64) bool { return v.P5 <= x && x <= v.P95 }

func TestFitRecoversKnownCurves(t *testing.T) {
	amdahlAt := func(c int) float64 { return 1 + 9/math.Min(float64(c), 6) }
	polluxAt := func(g int) float64 {
		iter := 1.0
		if g > 1 {
			iter = math.Pow(1+math.Pow(0.3*(1+0.1*float64(g-2)), 2), 0.5)
		}
		return 10 * iter / float64(g)
	}
	cases := map[string]struct {
		obs  []Observation
		ask  map[[2]int]float64
		tol  float64
		form string
	}{
		"amdahl with saturation": {
			obs: []Observation{repeated(cpus(16), amdahlAt(16), 6), repeated(cpus(1), amdahlAt(1), 6), repeated(cpus(4), amdahlAt(4), 6), repeated(cpus(8), amdahlAt(8), 6)},
			ask: map[[2]int]float64{{0, 2}: amdahlAt(2), {0, 3}: amdahlAt(3), {0, 12}: amdahlAt(12)}, tol: 0.10, form: "amdahl",
		},
		"pollux in one node": {
			obs: []Observation{repeated(gpus(8, 8), polluxAt(8), 6), repeated(gpus(1, 8), polluxAt(1), 6), repeated(gpus(4, 8), polluxAt(4), 6)},
			ask: map[[2]int]float64{{2, 8}: polluxAt(2), {6, 8}: polluxAt(6), {3, 8}: polluxAt(3)}, tol: 0.10, form: "pollux",
		},
	}
	for name, c := range cases {
		m := mustFit(t, c.obs, FitOptions{})
		if form, _, _ := m.Describe(); form != c.form {
			t.Errorf("%s: form %s, want %s", name, form, c.form)
		}
		for a, want := range c.ask {
			got := m.UnitSeconds(gpus(a[0], a[1]))
			if math.Abs(got.P50/want-1) > c.tol || !holds(got, want) {
				t.Errorf("%s at %v: %v, want %.3f within %.0f %% and inside the interval", name, a, got, want, 100*c.tol)
			}
		}
	}
}

func TestMeasuredPointsPullTheCurve(t *testing.T) {
	// 3 CPUs are 20 % slower than any smooth curve: work that does not divide evenly.
	obs := []Observation{repeated(cpus(8), 1.45, 10), repeated(cpus(4), 2.7, 10), repeated(cpus(2), 5.2, 10), repeated(cpus(1), 10.2, 10), repeated(cpus(3), 4.3, 10)}
	m := mustFit(t, obs, FitOptions{})
	for c, want := range map[int]float64{1: 10.2, 2: 5.2, 4: 2.7, 8: 1.45} {
		if got := m.UnitSeconds(cpus(c)); math.Abs(got.P50/want-1) > 0.05 {
			t.Errorf("at %d CPUs, measured %.2f s: predicted %v", c, want, got)
		}
	}
	// A single measurement may be an accident of its segment; a repeated one is a property of the allocation.
	if got := m.UnitSeconds(cpus(3)); got.P95 < 3.9 {
		t.Errorf("at 3 CPUs, measured 4.3 s once: predicted %v", got)
	}
	m = mustFit(t, append(obs, repeated(cpus(3), 4.35, 10), repeated(cpus(3), 4.25, 10)), FitOptions{})
	if got := m.UnitSeconds(cpus(3)); math.Abs(got.P50/4.3-1) > 0.06 || !holds(got, 4.3) {
		t.Errorf("at 3 CPUs, measured 4.3 s three times: predicted %v", got)
	}
}

func TestOneObservationGivesAWideUsableModel(t *testing.T) {
	m := mustFit(t, []Observation{units(cpus(8), 2.0)}, FitOptions{})
	here, one := m.UnitSeconds(cpus(8)), m.UnitSeconds(cpus(1))
	if math.Abs(here.P50/2-1) > 0.03 || here.P95/here.P5 > 1.6 {
		t.Errorf("at the measured point: %v, want close around 2", here)
	}
	// Between slightly and eight times slower or, in about one job of ten, faster without the others.
	if one.P5 < 0.5 || one.P5 > 4 || one.P95 < 8 || one.P95 > 25 {
		t.Errorf("at 1 CPU: %v, want from faster to eight times slower", one)
	}
	if !m.Extrapolates(cpus(1)) || m.Extrapolates(cpus(8)) {
		t.Error("only what lies outside the measured range extrapolates")
	}
}

func TestOutliersDoNotRuinTheFit(t *testing.T) {
	clean := []Observation{repeated(cpus(8), 1.25, 6), repeated(cpus(4), 2.5, 6), repeated(cpus(2), 5, 6), repeated(cpus(1), 10, 6)}
	cases := map[string]func([]Observation){
		"one pause in a unit":       func(o []Observation) { o[1].UnitSeconds[3] = 25 },
		"noisy neighbour, one seat": func(o []Observation) { o[2] = repeated(cpus(2), 8, 6) },
		"a unit far too short":      func(o []Observation) { o[0].UnitSeconds[0] = 0.01 },
	}
	for name, spoil := range cases {
		obs := slices.Clone(clean)
		for i := range obs {
			obs[i].UnitSeconds = slices.Clone(obs[i].UnitSeconds)
		}
		spoil(obs)
		m := mustFit(t, obs, FitOptions{})
		for c, want := range map[int]float64{1: 10, 4: 2.5, 6: 10. / 6, 8: 1.25} {
			got := m.UnitSeconds(cpus(c))
			if math.Abs(got.P50/want-1) > 0.10 || !holds(got, want) {
				t.Errorf("%s: at %d CPUs %v, want %.3g", name, c, got, want)
			}
		}
	}
	// The same additional time as a constant part of a long segment is real, not an outlier.
	steady := Observation{Allocation: cpus(4)}
	for i := range 400 {
		u := 1.0
		if i%20 == 0 {
			u = 3
		}
		steady.UnitSeconds = append(steady.UnitSeconds, u)
	}
	if got := mustFit(t, []Observation{steady}, FitOptions{}).UnitSeconds(cpus(4)).P50; math.Abs(got-1.1) > 0.06 {
		t.Errorf("pauses that keep coming: %.3f s a unit, want the mean 1.1", got)
	}
}

// TestFirstPauses: after one or two pauses it is unknown whether they recur, and the interval holds both means.
func TestFirstPauses(t *testing.T) {
	for pauses := 1; pauses <= 2; pauses++ {
		o := repeated(cpus(4), 1, 30)
		for i := range pauses {
			o.UnitSeconds[10*(i+1)] = 6
		}
		got := mustFit(t, []Observation{o}, FitOptions{}).UnitSeconds(cpus(4))
		if all := 1 + 5*float64(pauses)/30; !holds(got, 1) || !holds(got, all) {
			t.Errorf("%d pauses: %v, want an interval that holds 1 s without and %.3g s with them", pauses, got, all)
		}
	}
}

func TestRecalledObservationsWeighLess(t *testing.T) {
	old := repeated(cpus(8), 3, 20)
	old.Recalled = true
	m := mustFit(t, []Observation{old, repeated(cpus(8), 2, 3)}, FitOptions{})
	if got := m.UnitSeconds(cpus(8)).P50; got > 2.15 {
		t.Errorf("this run measured 2 s, an earlier one 3 s: predicted %.2f s", got)
	}
	// Their shape is used: one point of this run sets the level of the curve from the earlier run.
	var obs []Observation
	for _, c := range []int{1, 2, 4, 8} {
		o := repeated(cpus(c), 1+8/float64(c), 5)
		o.Recalled = true
		obs = append(obs, o)
	}
	m = mustFit(t, append(obs, repeated(cpus(8), 2.2, 4)), FitOptions{})
	if got := m.UnitSeconds(cpus(1)); math.Abs(got.P50/9.9-1) > 0.15 {
		t.Errorf("at 1 CPU: %v, want about 1.1 × the earlier 9 s", got)
	}
	only := mustFit(t, []Observation{old}, FitOptions{}).UnitSeconds(cpus(8))
	own := mustFit(t, []Observation{repeated(cpus(8), 3, 20)}, FitOptions{}).UnitSeconds(cpus(8))
	if only.P95/only.P5 < 1.3*own.P95/own.P5 {
		t.Errorf("interval from an earlier run %v should be clearly wider than from this one %v", only, own)
	}
}

func TestUnusableInput(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, obs := range map[string][]Observation{
		"nothing": nil, "no units": {units(cpus(4))}, "only rubbish": {units(cpus(4), nan, 0, -1, inf)},
		"negative allocation": {units(cpus(-1), 1)},
	} {
		if _, err := Fit(obs, FitOptions{}); !errors.Is(err, errNoData) {
			t.Errorf("%s: error %v, want ErrNoData", name, err)
		}
	}
	if _, err := Fit([]Observation{units(cpus(1), 1)}, FitOptions{Form: "spline"}); err == nil || !strings.Contains(err.Error(), "amdahl or pollux") {
		t.Errorf("unknown form: %v", err)
	}
	m := mustFit(t, []Observation{units(cpus(4), nan, 2, 0, inf, 2.1), units(cpus(4), nan), units(cpus(4), 2, 2), units(cpus(4), 2, 2)}, FitOptions{})
	if got := m.UnitSeconds(cpus(4)).P50; math.Abs(got-2) > 0.1 {
		t.Errorf("good units among rubbish and duplicates: %v", got)
	}
	for _, a := range []resources.Allocation{{}, cpus(1 << 20), gpus(1000, 1), {CPUs: 4, BatchSize: 1}} {
		if v := m.UnitSeconds(a); !(v.P5 > 0 && v.P5 <= v.P50 && v.P50 <= v.P95) || math.IsInf(v.P95, 0) {
			t.Errorf("%v: %v", a, v)
		}
	}
}

// The same observations and seed give the same bytes on any number of cores; another seed gives different ones.
func TestSameSeedSameBytes(t *testing.T) {
	j := newSynthetic(5, polluxJob)
	obs := []Observation{j.observe(gpus(8, 8), 5), j.observe(gpus(1, 8), 5), j.observe(gpus(8, 2), 5)}
	bytes := func(procs int, seed uint64) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		m := mustFit(t, obs, FitOptions{Seed: seed})
		out, err := json.Marshal([]any{m.Draws(gpus(4, 8)), m.LeaveOneOut(), m.IgnoredKnobs(), fmt.Sprint(m.Describe())})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	one := bytes(1, 3)
	if first, second := bytes(16, 3), bytes(16, 3); first != one || second != one {
		t.Error("the fit depends on the number of cores or on chance")
	}
	if bytes(1, 4) == one {
		t.Error("the seed has no effect")
	}
}

func TestDrawsArePaired(t *testing.T) {
	m := mustFit(t, []Observation{repeated(cpus(8), 2, 3), repeated(cpus(4), 3.9, 3)}, FitOptions{})
	a, b := m.Draws(cpus(8)), m.Draws(cpus(4))
	if len(a) != len(b) {
		t.Fatalf("%d and %d draws", len(a), len(b))
	}
	faster := 0
	for k := range a {
		if a[k] < b[k] {
			faster++
		}
	}
	if faster != len(a) {
		t.Errorf("8 CPUs, measured twice as fast, are faster in %d of %d draws", faster, len(a))
	}
	if &m.Draws(cpus(8))[0] == &a[0] {
		t.Error("draws share memory: sorting them would break the pairing")
	}
}

// Without a contrary measurement, more of a resource is never predicted to be much slower. Predictions are positive,
// ordered and finite.
func TestPredictionsAreSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := amdahlJob
		at := func(n int) resources.Allocation { return cpus(n) }
		if rapid.Bool().Draw(t, "gpu") {
			job = polluxJob
			at = func(n int) resources.Allocation { return gpus(n, 8) }
		}
		j := newSynthetic(rapid.Uint64().Draw(t, "seed"), job)
		j.noise, j.odd = 0.02, 0
		var obs []Observation
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, 16), 1, 5).Draw(t, "measured") {
			obs = append(obs, j.observe(at(n), rapid.IntRange(1, 6).Draw(t, "units")))
		}
		m, err := Fit(obs, FitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := math.Inf(1)
		for _, n := range []int{1, 2, 4, 8, 16, 32} {
			v := m.UnitSeconds(at(n))
			if !(v.P5 > 0 && v.P5 <= v.P50 && v.P50 <= v.P95) || math.IsInf(v.P95, 0) {
				t.Fatalf("at %d: %v", n, v)
			}
			if v.P50 > 1.25*last && !measuredSlowerWithMore(obs) {
				t.Fatalf("at %d: %.3f s, after %.3f s with half of it", n, v.P50, last)
			}
			last = v.P50
		}
	})
}

// measuredSlowerWithMore reports whether a unit took longer at an allocation than at one with fewer devices.
func measuredSlowerWithMore(obs []Observation) bool {
	for _, a := range obs {
		for _, b := range obs {
			more := a.Allocation.CPUs > b.Allocation.CPUs || a.Allocation.GPUs > b.Allocation.GPUs
			if more && stat.Median(a.UnitSeconds) > 1.05*stat.Median(b.UnitSeconds) {
				return true
			}
		}
	}
	return false
}

func TestSamplesConvertUnits(t *testing.T) {
	epoch := Observation{Allocation: cpus(4), UnitSeconds: []float64{10, 10}, UnitSamples: 1000}
	half := Observation{Allocation: cpus(8), UnitSeconds: []float64{2.5, 2.5}, UnitSamples: 500} // 5 s per 1000 samples
	m := mustFit(t, []Observation{epoch, half}, FitOptions{})
	if got := m.UnitSeconds(cpus(8)).P50; math.Abs(got-5) > 0.3 {
		t.Errorf("seconds per reference unit at 8 CPUs: %.2f, want 5", got)
	}
	if got := m.Throughput(cpus(4)); math.Abs(got.P50-100) > 4 || got.P5 > got.P50 || got.P50 > got.P95 {
		t.Errorf("throughput %v, want 100 samples/s", got)
	}
	plain := mustFit(t, []Observation{units(cpus(4), 10, 10)}, FitOptions{})
	if got := plain.Throughput(cpus(4)).P50; math.Abs(got-0.1) > 0.005 {
		t.Errorf("throughput without samples %v, want 0.1 units/s", got)
	}
}

// A long segment whose pace drifts implies drift of the remainder; noise between units does not.
func TestDriftIsLearnedWithinAStretch(t *testing.T) {
	width := func(pace func(i int) float64) float64 {
		o := Observation{Allocation: cpus(4)}
		for i := range 32 {
			o.UnitSeconds = append(o.UnitSeconds, 2*pace(i))
		}
		v := mustFit(t, []Observation{o}, FitOptions{}).UnitSeconds(cpus(4))
		return v.P95 / v.P5
	}
	steady := width(func(i int) float64 { return 1 + 0.02*float64(i%2) })
	noisy := width(func(i int) float64 { return 1 + 0.2*float64(i%2) })
	wanders := width(func(i int) float64 { return 1 + 0.3*math.Sin(float64(i)/5) })
	if steady > 1.2 || noisy > 1.3 || wanders < 1.5 {
		t.Errorf("P95/P5: steady %.2f, noisy %.2f, wandering %.2f; want narrow, narrow, wide", steady, noisy, wanders)
	}
}

func TestUnitNoise(t *testing.T) {
	j := newSynthetic(9, amdahlJob)
	j.noise, j.odd = 0.1, 0
	m := mustFit(t, []Observation{j.observe(cpus(4), 200)}, FitOptions{})
	if got := m.UnitNoise(); got < 0.08 || got > 0.12 {
		t.Errorf("unit noise %.3f, want 0.10", got)
	}
}

// TestWiden: the factor scales every draw about the median of its allocation, keeps their order, and is part of the
// basis.
func TestWiden(t *testing.T) {
	obs := []Observation{
		{Allocation: resources.Allocation{CPUs: 8}, UnitSeconds: []float64{2.1, 2.0, 2.1}},
		{Allocation: resources.Allocation{CPUs: 2}, UnitSeconds: []float64{6.9, 7.0}},
	}
	plain, err := Fit(obs, FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wide, err := Fit(obs, FitOptions{Widen: 2})
	if err != nil {
		t.Fatal(err)
	}
	a := resources.Allocation{CPUs: 4}
	before, after := plain.Draws(a), wide.Draws(a)
	middle := plain.UnitSeconds(a).P50
	for k := range before {
		if want := 2 * math.Log(before[k]/middle); math.Abs(math.Log(after[k]/middle)-want) > 1e-3 {
			t.Fatalf("draw %d: %g after %g about %g, want twice as far on log scale", k, after[k], before[k], middle)
		}
		if one := wide.DrawAt(a, k); one != after[k] {
			t.Fatalf("draw %d alone is %g, among all %g", k, one, after[k])
		}
	}
	if _, params, basis := wide.Describe(); params["widen"] != 2 || !strings.Contains(basis, "×2.00") {
		t.Errorf("parameters %v, basis %q: want the factor in both", params, basis)
	}
	if _, params, _ := plain.Describe(); params["widen"] != 0 {
		t.Errorf("parameters %v of a fit that was not widened", params)
	}
}
