package pretrain

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"trainopt/resources"
	"trainopt/simulator/training"
)

func mustDraw(t testing.TB, o GeneratorOptions) *Generator {
	t.Helper()
	d, err := NewGenerator(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The distribution documented at Draw, over 2,000 jobs.
func TestDrawDistribution(t *testing.T) {
	d := mustDraw(t, GeneratorOptions{Seed: 7})
	const n = 2000
	count := map[string]float64{}
	for i := range n {
		j := d.At(i)
		count[string(j.Class)]++
		if j.Spec.TimeMax > 0 {
			count["deadline"]++
		}
		if j.Spec.CostMaxUSD > 0 {
			count["budget"]++
		}
		if j.Spec.TimeMax > 0 || j.Spec.CostMaxUSD > 0 {
			count["agreed"]++
			if j.Feasible {
				count["feasible"]++
			}
			if j.Tight {
				count["tight"]++
			}
		}
		if j.onSpot {
			count["spot"]++
		}
		if j.Baseline.BatchSize > 0 {
			count["strong"]++
		}
	}
	for what, want := range map[string][2]float64{
		"measured": {0.46, 0.54}, "pipeline": {0.26, 0.34}, "cpu": {0.17, 0.23},
		"deadline": {0.51, 0.59}, "budget": {0.41, 0.49}, "agreed": {0.71, 0.79}, "spot": {0.12, 0.18}, "strong": {0.04, 0.25},
	} {
		if got := count[what] / n; got < want[0] || got > want[1] {
			t.Errorf("%s: %.3f of the jobs, want %.2f to %.2f", what, got, want[0], want[1])
		}
	}
	if f := count["feasible"] / count["agreed"]; f < 0.88 || f > 0.99 {
		t.Errorf("%.3f of the agreements are feasible, want most and not all", f)
	}
	if f := count["tight"] / count["agreed"]; f < 0.08 || f > 0.5 {
		t.Errorf("%.3f of the agreements are tight, want some", f)
	}
	t.Logf("%v", count)
}

// Invariants of every drawn job, for any seed.
func TestDrawnJobsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := GeneratorOptions{Seed: rapid.Uint64().Draw(t, "seed"), Set: rapid.SampledFrom([]Set{trainingSet, heldOutSet, All}).Draw(t, "set"),
			MaxGPUs: rapid.IntRange(2, 16).Draw(t, "gpus")}
		d, err := NewGenerator(o)
		if err != nil {
			t.Fatal(err)
		}
		j := d.At(rapid.IntRange(0, 1000).Draw(t, "i"))
		if err := j.Rates.Validate(); err != nil {
			t.Fatalf("%s: rates: %v", j.Name, err)
		}
		own := j.Outcome(j.Baseline)
		hours := (own.Seconds - j.Startup) / 3600
		if hours < 0.3*0.999 || hours > 24*1.001 || j.Units < 20 || j.Units > 2000 || j.Units != math.Trunc(j.Units) {
			t.Fatalf("%s: %v units, %v h", j.Name, j.Units, hours)
		}
		if j.Limits.GPUs.Max > o.MaxGPUs || j.Startup <= 0 || j.Restart < j.Startup || !(own.USD > 0) {
			t.Fatalf("%s: %+v %+v", j.Name, j, own)
		}
		found := false
		for g := j.Limits.GPUs.Min; g <= j.Limits.GPUs.Max; g++ {
			for c := j.Limits.CPUs.Min; c <= j.Limits.CPUs.Max; c++ {
				a := j.Baseline
				a.GPUs, a.CPUs = g, c
				if u := j.Workload.UnitSeconds(a); !(u > 0) || math.IsInf(u, 0) {
					t.Fatalf("%s: %v inside the limits takes %v s a unit", j.Name, a, u)
				}
				found = found || a.SameShape(j.Baseline)
			}
		}
		if !found {
			t.Fatalf("%s: own configuration %v is outside the limits %+v", j.Name, j.Baseline, j.Limits)
		}
		for i := 1; i < len(j.Interruptions); i++ {
			if a, b := j.Interruptions[i-1], j.Interruptions[i]; !(b.At >= a.At+a.Away) || a.Away <= 0 {
				t.Fatalf("%s: interruptions %v, %v overlap", j.Name, a, b)
			}
		}
	})
}

// Feasible means that a run without noise at some candidate meets the SLA, with one restart to spare.
func TestFeasibleIsTrue(t *testing.T) {
	d := mustDraw(t, GeneratorOptions{Seed: 3})
	checked := 0
	for i := range 200 {
		j := d.At(i)
		j.Noise = training.Noise{}
		kept := false
		for _, a := range j.Candidates() {
			if a.CPUs%4 != 0 && a.CPUs > 4 {
				continue // a subset of the candidates suffices
			}
			x := j.Start(1)
			x.Run(a, j.Units)
			kept = kept || (j.Spec.TimeMax == 0 || x.Elapsed <= j.Spec.TimeMax.Seconds()) && (j.Spec.CostMaxUSD == 0 || x.SpentUSD <= j.Spec.CostMaxUSD)
			if kept {
				break
			}
		}
		if j.Feasible && !kept && j.Class == measuredClass {
			t.Errorf("%s is called feasible and no candidate keeps %v", j.Name, j.Spec)
		}
		if j.Feasible {
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d feasible jobs", checked)
	}
}

// The same seed yields the same bytes, in any order and on any number of cores.
func TestDrawIsReproducible(t *testing.T) {
	print := func(d *Generator, order []int) []byte {
		var b bytes.Buffer
		jobs := make([]string, len(order))
		for _, i := range order {
			j := d.At(i)
			x := j.Start(uint64(i))
			x.Run(j.Baseline, j.Units)
			j.Workload = nil
			jobs[i] = fmt.Sprintf("%+v %v %v %v\n", j, x.Elapsed, x.SpentUSD, x.Restarts)
		}
		for _, s := range jobs {
			b.WriteString(s)
		}
		return b.Bytes()
	}
	up, down := make([]int, 40), make([]int, 40)
	for i := range up {
		up[i], down[i] = i, len(up)-1-i
	}
	a := print(mustDraw(t, GeneratorOptions{Seed: 5}), up)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := print(mustDraw(t, GeneratorOptions{Seed: 5}), down)
	if !bytes.Equal(a, b) {
		t.Error("the same seed drew different jobs")
	}
	if bytes.Equal(a, print(mustDraw(t, GeneratorOptions{Seed: 6}), up)) {
		t.Error("another seed drew the same jobs")
	}
}

func TestSetsDoNotOverlap(t *testing.T) {
	train, held := map[string]bool{}, map[string]bool{}
	for set, seen := range map[Set]map[string]bool{trainingSet: train, heldOutSet: held} {
		d := mustDraw(t, GeneratorOptions{Set: set, Mix: Mix{Measured: 1}})
		for i := range 300 {
			seen[d.At(i).Family] = true
		}
	}
	if len(train) < 5 || len(held) < 3 {
		t.Errorf("training families %v, held out %v", train, held)
	}
	for f := range train {
		if held[f] {
			t.Errorf("family %s is in both sets", f)
		}
	}
	all := Embedded()
	n := 0
	for _, k := range all {
		if k.HeldOut {
			n++
		}
	}
	if share := float64(n) / float64(len(all)); share < 0.25 || share > 0.4 {
		t.Errorf("%.2f of %d kinds are held out, want about a third", share, len(all))
	}
}

func TestNewDrawRefuses(t *testing.T) {
	for name, o := range map[string]GeneratorOptions{
		"set":   {Set: "other"},
		"mix":   {Mix: Mix{Measured: -1, CPU: 2}},
		"NaN":   {Mix: Mix{Measured: math.NaN(), CPU: 2}},
		"gpus":  {MaxGPUs: -1},
		"spot":  {Spot: math.NaN()},
		"kinds": {Kinds: []Kind{}},
	} {
		if _, err := NewGenerator(o); err == nil {
			t.Errorf("%s: accepted", name)
		} else if name == "kinds" && !errors.Is(err, errNoKinds) {
			t.Errorf("%s: %v, want ErrNoKinds", name, err)
		}
	}
	if _, err := NewGenerator(GeneratorOptions{Kinds: []Kind{}, Mix: Mix{CPU: 1}}); err != nil {
		t.Errorf("CPU jobs need no kind: %v", err)
	}
}

// More CPUs speed up a pipeline until the GPUs are the bottleneck; they do not affect measured kinds.
func TestPipelineMatters(t *testing.T) {
	d := mustDraw(t, GeneratorOptions{Seed: 9, Mix: Mix{Pipeline: 1}})
	helped := 0
	for i := range 100 {
		j := d.At(i)
		few, many := j.Baseline, j.Baseline
		few.CPUs, many.CPUs = 1, j.Limits.CPUs.Max
		if j.Workload.UnitSeconds(many) < 0.7*j.Workload.UnitSeconds(few) {
			helped++
		}
		last := math.Inf(1)
		for c := 1; c <= j.Limits.CPUs.Max; c++ {
			few.CPUs = c
			u := j.Workload.UnitSeconds(few)
			if u > last*(1+1e-12) {
				t.Fatalf("%s: %d CPUs are slower than %d", j.Name, c, c-1)
			}
			last = u
		}
	}
	if helped < 60 {
		t.Errorf("CPUs matter in %d of 100 pipelines, want most", helped)
	}
}

var _ training.Workload = kindWorkload{}

func TestOneCPUIsOne(t *testing.T) {
	w := amdahl{one: 10, serial: 0.1, saturation: 3, corner: 5}
	if u := w.UnitSeconds(resources.Allocation{CPUs: 1}); math.Abs(u-10) > 1e-9 {
		t.Errorf("one CPU takes %v s, want 10", u)
	}
}
