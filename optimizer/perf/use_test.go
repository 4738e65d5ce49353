package perf

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestUtilizationTellsWhereTheTimeGoes: at one measured allocation the same pace leads to other predictions elsewhere,
// depending on what was in use.
func TestUtilizationTellsWhereTheTimeGoes(t *testing.T) {
	fit := func(o Observation, u Utilization) *Model {
		o.Used = u
		return mustFit(t, []Observation{o}, FitOptions{})
	}
	gain := func(m *Model, o Observation, g, c int) float64 { // of seconds per unit
		a := o.Allocation
		a.GPUs, a.CPUs = g, c
		return m.UnitSeconds(o.Allocation).P50 / m.UnitSeconds(a).P50
	}
	gpu, cpu := repeated(gpus(4, 8), 10, 6), repeated(cpus(8), 10, 6)

	starved, fed := fit(gpu, Utilization{Compute: 0.3, GPUs: 4, CPUs: 8}), fit(gpu, Utilization{Compute: 1, GPUs: 4, CPUs: 2})
	if more := gain(starved, gpu, 4, 16); more < 1.3 {
		t.Errorf("GPUs that wait 70 %% of the time: twice the CPUs are %.2f times as fast, want 1.3 at least", more)
	}
	if more := gain(starved, gpu, 8, 8); more > 1.1 {
		t.Errorf("GPUs that wait 70 %% of the time: twice the GPUs are %.2f times as fast, want no gain", more)
	}
	if fewer := gain(fed, gpu, 4, 4); fewer < 0.95 {
		t.Errorf("GPUs that never wait, 2 of 8 CPUs busy: half of the CPUs give %.2f of the pace, want all", fewer)
	}
	if more := gain(fed, gpu, 8, 8); more < 1.4 {
		t.Errorf("GPUs that never wait: twice the GPUs are %.2f times as fast, want 1.4 at least", more)
	}
	if ignored := gain(fit(gpu, Utilization{GPUs: 1}), gpu, 1, 8); ignored < 0.9 {
		t.Errorf("one of four GPUs works: it gives %.2f of the pace, want all", ignored)
	}

	idle, busy := fit(gpu, Utilization{GPUBusy: 0.25, GPUs: 4, CPUs: 8}), fit(gpu, Utilization{GPUBusy: 0.97, GPUs: 4, CPUs: 2})
	if i, b := gain(idle, gpu, 8, 8), gain(busy, gpu, 8, 8); i > 1.3 || b < 1.7 {
		t.Errorf("twice the GPUs are %.2f times as fast where they are busy 25 %% of the time, %.2f times with 97 %%, want 1.3 at most and 1.7 at least", i, b)
	}
	if i, b := gain(idle, gpu, 2, 8), gain(busy, gpu, 2, 8); i < 0.65 || b > 0.6 {
		t.Errorf("half of the GPUs give %.2f of the pace where they are busy 25 %% of the time, %.2f with 97 %%, want 0.65 at least and a half", i, b)
	}

	if fewer := gain(fit(cpu, Utilization{CPUs: 1.1}), cpu, 0, 2); fewer < 0.85 {
		t.Errorf("1.1 of 8 CPUs busy: two CPUs give %.2f of the pace, want nearly all", fewer)
	}
	if fewer := gain(fit(cpu, Utilization{CPUs: 6.5}), cpu, 0, 2); fewer > 0.55 {
		t.Errorf("6.5 of 8 CPUs busy: two CPUs give %.2f of the pace, want a third", fewer)
	}
	none, all := fit(cpu, Utilization{}), fit(cpu, Utilization{CPUs: 8})
	if a, b := none.UnitSeconds(cpus(2)), all.UnitSeconds(cpus(2)); b.P5 > 1.2*a.P5 || b.P95 < a.P95/1.5 {
		t.Errorf("all CPUs busy: %v at two CPUs, %v without that: threads may wait actively, so that little is known", b, a)
	}
}

// TestGradientsPredictTheExchange: at the same pace of one node, a model with few parameters for its computation gains from further
// nodes, and one with many does not.
func TestGradientsPredictTheExchange(t *testing.T) {
	o := repeated(gpus(4, 8), 10, 6)
	speedup := func(rate float64) float64 {
		o.Used = Utilization{GPUs: 4, CPUs: 0.2, Compute: 1, GradientRate: rate}
		m := mustFit(t, []Observation{o}, FitOptions{GPUsPerNode: 4})
		return m.UnitSeconds(o.Allocation).P50 / m.UnitSeconds(gpus(16, 8)).P50
	}
	if heavy, unknown, light := speedup(20e9), speedup(0), speedup(0.05e9); !(heavy < 1.2 && light > 2.7 && heavy < unknown && unknown < light) {
		t.Errorf("four nodes are %.2f times as fast as one with 20 GB/s of gradients, %.2f without evidence, %.2f with 50 MB/s, want at most 1.2 and at least 2.7",
			heavy, unknown, light)
	}
}

// TestLinkCountsOnce: measuring the rate of the gradients again is no further evidence about the links.
func TestLinkCountsOnce(t *testing.T) {
	width := func(n int, rate float64) float64 {
		var obs []Observation
		for i := range n {
			o := repeated(gpus(1, 8), 10, 6)
			o.Used = Utilization{GPUs: 1, GradientRate: rate}
			if i == 0 {
				o.Used.GradientRate = 0.4e9
			}
			obs = append(obs, o)
		}
		at := mustFit(t, obs, FitOptions{}).UnitSeconds(gpus(4, 8))
		return math.Log(at.P95 / at.P5)
	}
	if once, often := width(6, 0), width(6, 0.4e9); math.Abs(often/once-1) > 1e-9 {
		t.Errorf("the interval is %.3f wide with six measured rates, %.3f with one", often, once)
	}
}

// TestMeasuredPacesOutweighUtilization: where both disagree, the paces decide.
func TestMeasuredPacesOutweighUtilization(t *testing.T) {
	wide, narrow := repeated(cpus(8), 10, 6), repeated(cpus(2), 38, 6)
	wide.Used = Utilization{CPUs: 1} // as if it used one CPU, although two CPUs are a quarter as fast as eight
	m := mustFit(t, []Observation{wide, narrow}, FitOptions{})
	if at := m.UnitSeconds(cpus(2)); math.Abs(at.P50/38-1) > 0.1 {
		t.Errorf("%v at two CPUs, measured 38", at)
	}
	if at := m.UnitSeconds(cpus(4)); at.P50 < 15 || at.P50 > 25 {
		t.Errorf("%v at four CPUs, between paces of 10 and 38", at)
	}
}

// TestAnyUtilizationFits: no measured utilization, however odd, makes a fit fail or a prediction infinite.
func TestAnyUtilizationFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := Utilization{
			Compute: rapid.Float64Range(0, 1).Draw(t, "compute"),
			GPUBusy: rapid.Float64Range(0, 1).Draw(t, "busy"),
			CPUs:    rapid.Float64Range(0, 100).Draw(t, "cpus"),
			GPUs:    rapid.Float64Range(0, 16).Draw(t, "gpus"),

			GradientRate: math.Expm1(rapid.Float64Range(0, 35).Draw(t, "gradients")),
		}
		a := gpus(rapid.IntRange(0, 8).Draw(t, "G"), rapid.IntRange(1, 64).Draw(t, "C"))
		o := repeated(a, 5, 4)
		o.Used = u
		m, err := Fit([]Observation{o}, FitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if at := m.UnitSeconds(a); !(at.P5 > 4 && at.P95 < 6.2) {
			t.Errorf("%+v: %v where 5 s was measured", u, at)
		}
		b := a
		b.GPUs, b.CPUs = a.GPUs+1, a.CPUs+1
		if at := m.UnitSeconds(b); !(at.P5 > 0 && at.P95 < math.Inf(1)) {
			t.Errorf("%+v: %v elsewhere", u, at)
		}
	})
}

// TestUnlikelyUtilizationKeepsTheInterval: where few curves agree with the utilization, the interval of a measured allocation does not
// depend on a few of them.
func TestUnlikelyUtilizationKeepsTheInterval(t *testing.T) {
	for _, c := range []struct {
		used       Utilization
		gpus, cpus int
	}{
		{Utilization{Compute: 0.2561860721779381, CPUs: 8.93251753244213, GPUs: 0.8783272993476138}, 3, 53},
		{Utilization{Compute: 1, CPUs: 0.020274623586389564}, 5, 52},
		{Utilization{Compute: 0.51277562853296, CPUs: 9.447722658883206, GPUs: 0.02627823877741438}, 3, 37},
	} {
		a := gpus(c.gpus, c.cpus)
		o := repeated(a, 5, 4)
		o.Used = c.used
		if at := mustFit(t, []Observation{o}, FitOptions{}).UnitSeconds(a); !(at.P5 > 4 && at.P95 < 6.2) {
			t.Errorf("%+v: %v where 5 s was measured", c.used, at)
		}
	}
}
