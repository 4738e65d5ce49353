package pretrain

import (
	"math"
	"testing"
)

// TestUsedIsWithinTheAllocation: no drawn job uses more than it has, and what is seen agrees with its pace.
func TestUsedIsWithinTheAllocation(t *testing.T) {
	d, err := NewGenerator(GeneratorOptions{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[class]int{}
	for i := range 200 {
		j := d.At(i)
		for _, a := range j.Candidates() {
			u := j.Used(a)
			if u.Compute < 0 || u.Compute > 1 || u.CPUs < 0 || u.CPUs > float64(a.CPUs) || u.GPUs != float64(a.GPUs) || math.IsNaN(u.Compute+u.CPUs) {
				t.Fatalf("%s at %v: %+v", j.Name, a, u)
			}
			if a.GPUs > 0 != (u.GPUBusy > 0) || u.GPUBusy > 1 {
				t.Fatalf("%s at %v: GPUs are busy for %g of the time", j.Name, a, u.GPUBusy)
			}
			if a.GPUs > 0 && j.observed && j.kind.Parameters > 0 {
				// the bytes of all steps of a unit in its time
				rate := 4 * j.kind.Parameters * j.kind.stepsOf(1, a) * j.UnitSamples / j.Workload.UnitSeconds(a)
				if !(math.Abs(u.GradientRate/rate-1) < 1e-9) {
					t.Fatalf("%s at %v: %g bytes of gradients per second, want %g", j.Name, a, u.GradientRate, rate)
				}
			} else if u.GradientRate != 0 {
				t.Fatalf("%s at %v: %g bytes of gradients per second are seen without GPUs, observer or number of parameters", j.Name, a, u.GradientRate)
			}
			w, ok := j.Workload.(pipelined)
			if share := 1.0; u.Compute > 0 {
				if ok {
					share = w.compute.UnitSeconds(a) / w.UnitSeconds(a)
				}
				if u.Compute > share+1e-9 {
					t.Fatalf("%s at %v: computing is seen for %g of the time, the GPUs compute for %g", j.Name, a, u.Compute, share)
				}
				seen[j.Class]++
			}
			if ok && u.CPUs < float64(a.CPUs) && u.CPUs < 0.8*w.cpuSeconds/w.UnitSeconds(a) {
				t.Fatalf("%s at %v: %g CPUs are seen, the input needs %g", j.Name, a, u.CPUs, w.cpuSeconds/w.UnitSeconds(a))
			}
		}
	}
	if seen[pipeline] == 0 || seen[measuredClass] == 0 {
		t.Errorf("jobs whose computing is seen, by class: %v, want some of both", seen)
	}
}
