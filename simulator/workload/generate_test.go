package workload

import (
	"math"
	"testing"
)

func TestGeneratorDrawsWhatGavelDraws(t *testing.T) {
	g, err := NewGenerator(Options{Lambda: 1, MultiGPU: true}, GavelTable())
	if err != nil {
		t.Fatal(err)
	}
	jobs := g.Take(3)
	want := []Job{
		{ID: 0, Type: "ResNet-18 (batch size 64)", GPUs: 8, Seconds: 68344.35010595087, Steps: 17484476.26110642, Weight: 1, SLO: math.NaN(), Deadline: math.NaN()},
		{ID: 1, Type: "Transformer (batch size 16)", GPUs: 1, Seconds: 31016.60914593223, Steps: 343170.46864225325, Arrival: 0.27176230323366835, Weight: 1, SLO: math.NaN(), Deadline: math.NaN()},
	}
	for i, w := range want {
		if !same(jobs[i], w) {
			t.Errorf("job %d:\n got %+v\nwant %+v", i, jobs[i], w)
		}
	}
	if j := jobs[2]; j.Type != "Recommendation (batch size 2048)" || j.GPUs != 1 || j.Seconds != 2146.6088374387864 {
		t.Errorf("job 2: got %+v", j)
	}
}

func same(a, b Job) bool {
	eq := func(x, y float64) bool { return math.Abs(x-y) <= 1e-15*math.Abs(y) || math.IsNaN(x) && math.IsNaN(y) }
	return a.ID == b.ID && a.Type == b.Type && eq(a.Arrival, b.Arrival) && a.GPUs == b.GPUs && eq(a.Steps, b.Steps) && eq(a.Seconds, b.Seconds) &&
		eq(a.Weight, b.Weight) && eq(a.SLO, b.SLO) && eq(a.Deadline, b.Deadline) && a.User == b.User && a.Queue == b.Queue
}

func TestMeanDurationsOfThePapersWindow(t *testing.T) {
	for seed, want := range []struct{ alone, best float64 }{{17.41, 15.34}, {16.17, 13.96}, {18.05, 15.75}} {
		g, err := NewGenerator(Options{Seed: int64(seed), Lambda: PerHour(4)}, GavelTable())
		if err != nil {
			t.Fatal(err)
		}
		alone, best := 0.0, 0.0
		for _, j := range g.Take(5000)[4000:] {
			alone += j.Seconds / 3600 / 1000
			rate := 0.0
			for _, d := range []string{"k80", "p100", "v100"} {
				rate = max(rate, GavelTable().Alone(d, j.Type, j.GPUs))
			}
			best += j.Steps / rate / 3600 / 1000
		}
		if math.Abs(alone-want.alone) > 0.005 || math.Abs(best-want.best) > 0.005 {
			t.Errorf("seed %d: mean duration %.3f h on a V100, %.3f h on the best device, want %.2f and %.2f", seed, alone, best, want.alone, want.best)
		}
	}
}
