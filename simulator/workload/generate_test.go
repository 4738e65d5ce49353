package workload

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
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

// same compares bit by bit, and arrivals with a tolerance of a few bits: they are sums of logarithms.
func same(a, b Job) bool {
	eq := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }
	near := math.Abs(a.Arrival-b.Arrival) <= 1e-14*b.Arrival
	a.Arrival, b.Arrival = 0, 0
	numbers := eq(a.Steps, b.Steps) && eq(a.Seconds, b.Seconds) && eq(a.SLO, b.SLO) && eq(a.Deadline, b.Deadline)
	for _, j := range []*Job{&a, &b} {
		j.Steps, j.Seconds, j.SLO, j.Deadline = 0, 0, 0, 0
	}
	return near && numbers && a == b
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

// gavelJobs draws as Gavel's _generate_job does, with every option; a throughput of 1 replaces the table.
const gavelJobs = `
import math, random
for seed, lam, multi, priorities, slos, fixed in [(0, 900, 1, 1, 1, 0), (1, 0, 0, 1, 0, 0), (7, 3600, 1, 0, 1, 1800), (42, 4500, 0, 0, 0, 0)]:
    jobs, arrivals, slo = random.Random(seed + 2), random.Random(seed + 3), random.Random(seed + 6)
    at = 0
    for i in range(300):
        if i and lam: at += -math.log(1 - arrivals.random()) / (1 / lam)
        n, r = 1, jobs.uniform(0, 1)
        if 0.7 <= r <= 0.8: n = 2
        elif 0.8 <= r <= 0.95: n = 4
        elif 0.95 <= r: n = 8
        if not multi: n = 1
        seconds = fixed
        if not fixed:
            seconds = 60 * (10 ** jobs.uniform(3, 4) if jobs.random() >= 0.8 else 10 ** jobs.uniform(1.5, 3))
        while True:
            model = jobs.choice(range(26))
            if n == 1 or model < 19: break
        weight = 5 if priorities and jobs.uniform(0, 1) <= 0.2 else 1
        factor = 0
        if slos:
            r = slo.uniform(0, 1)
            factor = 1.2 if r < 0.33 else 2 if r < 0.67 else 10
        print(i, model, n, repr(float(seconds)), weight, factor, '%.6f' % at)
`

func TestGeneratorHasGavelsStreamsAndOptions(t *testing.T) {
	want := python(t, gavelJobs)
	var got bytes.Buffer
	for _, o := range []Options{
		{Seed: 0, Lambda: 900, MultiGPU: true, MultiPriority: true, SLOs: true},
		{Seed: 1, MultiPriority: true},
		{Seed: 7, Lambda: 3600, MultiGPU: true, SLOs: true, Seconds: 1800},
		{Seed: 42, Lambda: PerHour(0.8)},
	} {
		g, err := NewGenerator(o, GavelTable())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range g.Take(300) {
			slo := 0.0
			if o.SLOs {
				slo = j.SLO
			}
			fmt.Fprintf(&got, "%d %d %d %s %v %v %.6f\n", j.ID, templateIndex(j.Type), j.GPUs, pyFloat(j.Seconds), j.Weight, slo, j.Arrival)
			if o.SLOs != (j.Deadline == j.Arrival+j.SLO*j.Seconds) || o.SLOs == math.IsNaN(j.Deadline) {
				t.Errorf("%+v: SLOs are %v", j, o.SLOs)
			}
		}
	}
	compareLines(t, got.String(), want)
}

func templateIndex(job string) int {
	return slices.IndexFunc(Templates, func(t template) bool { return t.Type == job })
}

// gavelFile draws as Gavel's generate_trace.py does.
const gavelFile = `
import math, random
for seed, lam, multi, durations in [(0, 0, 0, [1.0, 2.0, 3.0, 4.0]), (3, 500, 1, [0.5, 1.375, 2.25])]:
    models, arrivals, lengths, sizes = [random.Random(seed + i) for i in range(4)]
    at = 0
    for i in range(300):
        model, n = models.choice(range(26)), 1
        if multi and model < 19:
            r = sizes.uniform(0, 1)
            n = 2 if 0.7 <= r <= 0.8 else 4 if r >= 0.8 else 1
        seconds = lengths.choice(durations) * 3600
        if i and lam: at += -math.log(1 - arrivals.random()) * lam
        print('%d %d %d %s %d' % (i, model, n, repr(seconds), at))
`

func TestFileGeneratorHasGavelsStreamsAndOptions(t *testing.T) {
	want := python(t, gavelFile)
	var got bytes.Buffer
	for _, o := range []FileOptions{
		{Jobs: 300},
		{Jobs: 300, Seed: 3, Lambda: 500, MultiGPU: true, MinHours: 0.5, MaxHours: 2.25, Durations: 3},
	} {
		jobs, err := GenerateFile(o, GavelTable())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			fmt.Fprintf(&got, "%d %d %d %s %.0f\n", j.ID, templateIndex(j.Type), j.GPUs, pyFloat(j.Seconds), j.Arrival)
			if rate := GavelTable().Alone("v100", j.Type, j.GPUs); j.Steps != math.Floor(rate*j.Seconds) {
				t.Errorf("%+v: want steps of %v a second", j, rate)
			}
		}
	}
	compareLines(t, got.String(), want)
}

func TestGeneratorsRefuse(t *testing.T) {
	table, err := NewThroughputs([]Rate{{Device: "v100", Job: "A3C", GPUs: 1, PerSecond: 3}})
	if err != nil {
		t.Fatal(err)
	}
	full := GavelTable()
	generator := func(o Options, table *Throughputs) func() error {
		return func() error { _, err := NewGenerator(o, table); return err }
	}
	file := func(o FileOptions) func() error {
		return func() error { _, err := GenerateFile(o, full); return err }
	}
	tests := map[string]struct {
		do   func() error
		want []string
	}{
		"a table without the templates": {generator(Options{}, table), []string{"CycleGAN", "LM (batch size 80)"}},
		"an unknown reference":          {generator(Options{Reference: "h100"}, full), []string{`"h100"`, "v100"}},
		"rate and duration":             {generator(Options{Lambda: -1, Seconds: math.NaN()}, full), []string{"arrivals -1 s", "duration NaN s"}},
		"no jobs":                       {file(FileOptions{}), []string{"0 jobs"}},
		"durations the wrong way round": {file(FileOptions{Jobs: 1, MinHours: 3, MaxHours: 2}), []string{"3 to 2 hours"}},
		"no durations":                  {file(FileOptions{Jobs: 1, Durations: -1, Lambda: math.Inf(1)}), []string{"-1 different", "+Inf s"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.do()
			for _, w := range test.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want words with %q", err, w)
				}
			}
		})
	}
}
