package pretrain

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/history"
	"trainopt/resources"
)

func kindNamed(t testing.TB, kinds []Kind, name string) Kind {
	t.Helper()
	for _, k := range kinds {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no kind %q among %d", name, len(kinds))
	return Kind{}
}

func TestEmbeddedIsSmallAndLicensed(t *testing.T) {
	if len(modelsJSON) > 100_000 {
		t.Errorf("models.json has %d bytes, want at most 100,000", len(modelsJSON))
	}
	families := map[string]int{}
	for _, k := range Embedded() {
		families[k.Family]++
		if k.Licence != "Apache-2.0" && k.Licence != "MIT" || len(k.Source) < 40 {
			t.Errorf("%s: licence %q, source %q", k.Name, k.Licence, k.Source)
		}
		if k.Restart < 15 || k.Restart > 250 || k.MaxGPUs < 8 || k.Measured {
			t.Errorf("%s: restart %v s, %d GPUs, measured %v", k.Name, k.Restart, k.MaxGPUs, k.Measured)
		}
		if _, ok, err := gpuRates(k.GPU, false); !ok || err != nil {
			t.Errorf("%s: no price for a %s: %v", k.Name, k.GPU, err)
		}
	}
	if len(families) != 9 || len(Embedded()) < 55 {
		t.Errorf("%d kinds of families %v", len(Embedded()), families)
	}
	for _, k := range Embedded() {
		if u := k.Workload().UnitSeconds(resources.Allocation{GPUs: 1, CPUs: 1}); !(u > 0) {
			t.Errorf("%s: %v s a unit on one GPU", k.Name, u)
		}
	}
}

// The seconds are positive or NaN for any allocation, proportional to the samples, and independent of CPUs and memory.
func TestUnitSecondsSound(t *testing.T) {
	kinds := Embedded()
	rapid.Check(t, func(t *rapid.T) {
		k := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
		a := resources.Allocation{GPUs: rapid.IntRange(-1, 20).Draw(t, "gpus"), CPUs: rapid.IntRange(0, 64).Draw(t, "cpus"),
			BatchSize: rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 40000)).Draw(t, "batch")}
		u := k.Workload().UnitSeconds(a)
		if !math.IsNaN(u) && !(u > 0 && u < 1e9) {
			t.Fatalf("%s at %v: %v s", k.Name, a, u)
		}
		if twice := k.WorkloadOf(2 * k.UnitSamples()).UnitSeconds(a); math.Abs(twice-2*u) > 1e-9*u {
			t.Fatalf("%s at %v: %v s, twice the samples %v s", k.Name, a, u, twice)
		}
		b := a
		b.CPUs, b.Memory, b.NumWorkers = 3, 7, 2
		if v := k.Workload().UnitSeconds(b); v != u && !(math.IsNaN(u) && math.IsNaN(v)) {
			t.Fatalf("%s: CPUs and memory change %v s to %v s", k.Name, u, v)
		}
		if !math.IsNaN(k.Workload().Watts(a)) {
			t.Fatalf("%s: power is known, and nobody measured it", k.Name)
		}
		per := float64(a.BatchSize) / float64(a.GPUs)
		outside := a.GPUs < 1 || a.GPUs > k.MaxGPUs ||
			a.BatchSize > 0 && k.Batch.Max > 0 && (per < float64(k.Batch.Min) || per > float64(k.Batch.Max) || a.BatchSize < k.TotalBatch.Min || a.BatchSize > k.TotalBatch.Max) ||
			a.BatchSize > 0 && k.Batch.Max == 0 && a.BatchSize != k.DefaultBatch*a.GPUs
		if outside != math.IsNaN(u) {
			t.Fatalf("%s at %v: %v s; outside what was measured: %v", k.Name, a, u, outside)
		}
	})
}

// By hand: 2 steps per second and GPU on 8 GPUs are 64 samples per second at batch 4.
func TestWorkloadByHand(t *testing.T) {
	counted := CountModel{GavelCurve: history.GavelCurve{Name: "a/b", Family: "a", GPU: "T4", Batch: 4, GPUs: []int{1, 2, 4, 8}, PerSecond: []float64{2, 4, 8, 16}}}.kind()
	for g := 1; g <= 8; g++ {
		if u := counted.WorkloadOf(640).UnitSeconds(resources.Allocation{GPUs: g}); math.Abs(u-80/float64(g)) > 1e-9 {
			t.Errorf("%d GPUs: %v s, want %v", g, u, 80/float64(g))
		}
	}
	// One GPU: 0.1 + 0.01·m seconds; efficiency (900 + 100)/(900 + M).
	k := StepModel{Name: "c/d", Family: "c", GPU: "T4", MaxGPUs: 2, DefaultBatch: 100, Batch: [2]int{10, 100}, TotalBatch: [2]int{100, 200},
		NoiseScale: 900, ReferenceBatch: 100, Curve: StepCurve{Fixed: 0.1, PerBatch: 0.01, Exponent: 1, Local: 0.3, OverlapPower: 1}}.kind()
	for gpus, want := range map[int]float64{
		1: 1000.0 / 100 * 1.1,
		2: 1000.0 / 200 * (1.1 + 0.3) / (1000.0 / 1100),
	} {
		if u := k.WorkloadOf(1000).UnitSeconds(resources.Allocation{GPUs: gpus}); math.Abs(u-want) > 1e-9 {
			t.Errorf("%d GPUs, weak scaling: %v s, want %v", gpus, u, want)
		}
	}
	if u, want := k.WorkloadOf(1000).UnitSeconds(resources.Allocation{GPUs: 2, BatchSize: 100}), 10*(0.6+0.3); math.Abs(u-want) > 1e-9 {
		t.Errorf("strong scaling: %v s, want %v", u, want)
	}
}

func TestRestarts(t *testing.T) {
	for family, want := range map[string]float64{"bert": 120, "resnet50": 250, "lm": 30} {
		if s := restartOf(family); s != want {
			t.Errorf("%s: %v s, want %v", family, s, want)
		}
	}
}

func TestPrices(t *testing.T) {
	for gpu, want := range map[string][2]float64{ // on demand, spot; USD per GPU and hour
		"T4": {0.978, 0.3275}, "V100 16GB": {3.06, 0.9175}, "K80": {0.9, 0.27}, "P100": {1.9325, 0.53},
	} {
		for i, spot := range []bool{false, true} {
			r, ok, err := gpuRates(gpu, spot)
			if err != nil || !ok || math.Abs(float64(r.GPUHour)-want[i]) > 1e-6 || r.Validate() != nil {
				t.Errorf("%s, spot %v: %+v, %v, %v; want %v", gpu, spot, r, ok, err, want[i])
			}
		}
	}
	if r, ok, err := gpuRates("RTX 6000", false); err != nil || !ok || r.Assumed == "" {
		t.Errorf("a GPU priced as another says so: %+v, %v, %v", r, ok, err)
	}
	if _, ok, err := gpuRates("abacus", false); err == nil || ok {
		t.Error("an unknown GPU has a price")
	}
	if _, ok := unitPrices("T4", true); !ok {
		t.Error("no spot unit prices for a T4")
	}
}

func TestParseModelsRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":  `{`,
		"schema":    `{"schema":2}`,
		"no curve":  `{"schema":1,"steps":[{"name":"a","default_batch":1,"max_gpus":1,"noise_scale":1,"reference_batch":1}]}`,
		"lengths":   `{"schema":1,"counts":[{"name":"a","batch_per_gpu":1,"gpus":[1,2],"per_second":[1]}]}`,
		"zero rate": `{"schema":1,"counts":[{"name":"a","batch_per_gpu":1,"gpus":[1,2],"per_second":[1,0]}]}`,
		"unsorted":  `{"schema":1,"counts":[{"name":"a","batch_per_gpu":1,"gpus":[2,1],"per_second":[1,1]}]}`,
		"twice": `{"schema":1,"counts":[{"name":"a","batch_per_gpu":1,"gpus":[1,2],"per_second":[1,1]},
			{"name":"a","batch_per_gpu":1,"gpus":[1,2],"per_second":[1,1]}]}`,
	} {
		if _, err := ParseModels([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestStepCurveByHand(t *testing.T) {
	c := StepCurve{Fixed: 1, PerBatch: 0.5, Exponent: 2, Local: 2, LocalPerGPU: 1, Nodes: [3]float64{10, 20, 30}, NodesPerGPU: 0.1, OverlapPower: 1}
	for _, x := range []struct {
		gpus, nodes int
		want        float64
	}{{1, 1, 9}, {2, 1, 9 + 2}, {4, 1, 9 + 4}, {5, 2, 9 + 10.3}, {12, 3, 9 + 21}, {16, 4, 9 + 31.4}, {20, 5, 9 + 31.8}} {
		if got := c.Seconds(x.gpus, x.nodes, 4); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%d GPUs on %d nodes: %v s, want %v", x.gpus, x.nodes, got, x.want)
		}
	}
	c.OverlapPower = 2
	if got := c.Seconds(4, 1, 4); math.Abs(got-math.Hypot(9, 4)) > 1e-9 {
		t.Errorf("overlapped: %v s, want %v", got, math.Hypot(9, 4))
	}
}
