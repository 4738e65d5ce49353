package cluster_test

import (
	"testing"

	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// Gavel's published values with pairs (least attained service, figures 8 and 9): mean completion time in hours on
// 36:36:36, jobs 4000 to 4999, mean of seeds 0, 1 and 2.
func TestPackedIsBetterThanGavelPacked(t *testing.T) {
	if !*long {
		t.Skip("runs of thousands of jobs: -long")
	}
	for _, c := range []struct {
		rate  float64
		multi bool
		gavel float64
	}{
		{4, false, 16.32}, {5.6, false, 19.08}, {6, false, 19.58}, {6.4, false, 20.51}, {7.2, false, 27.80}, {7.6, false, 33.48},
		{2.2, true, 19.37}, {2.6, true, 25.54}, {2.8, true, 32.73}, {3, true, 63.97},
	} {
		for _, policy := range []string{"best_match_packed", "srtf_packed"} {
			mean := 0.0
			for seed := range int64(3) {
				got := run(t, cluster.Config{
					Devices: gavelDevices(36, 36, 36), Policy: policy, Seed: seed, Window: cluster.Window{Start: 4000, End: 5000},
					Generate: &workload.Options{Seed: seed, Lambda: workload.PerHour(c.rate), MultiGPU: c.multi},
				})
				mean += float64(got.MeanJCTS) / 3600 / 3
			}
			t.Logf("%s at %v jobs/h: mean %.2f h, Gavel %.2f h", policy, c.rate, mean, c.gavel)
			if !(mean < c.gavel) {
				t.Errorf("%s at %v jobs/h: mean %.2f h, Gavel %.2f h", policy, c.rate, mean, c.gavel)
			}
		}
	}
}

// Policies with pairs equal those without while devices suffice, and are no worse where they almost suffice.
func TestPairsDoNoHarmAtLowLoad(t *testing.T) {
	for rate, slack := range map[float64]float64{1: 1e-9, 4: 0.01} {
		for _, policy := range []string{"best_match", "srtf"} {
			c := cluster.Config{
				Devices: gavelDevices(36, 36, 36), Policy: policy, Window: cluster.Window{Start: 400, End: 500},
				Generate: &workload.Options{Lambda: workload.PerHour(rate)},
			}
			alone := run(t, c)
			c.Policy += "_packed"
			if packed := run(t, c); !(float64(packed.MeanJCTS) <= float64(alone.MeanJCTS)*(1+slack)) {
				t.Errorf("%s at %v jobs/h: mean %.3f h, without pairs %.3f h", c.Policy, rate, packed.MeanJCTS/3600, alone.MeanJCTS/3600)
			}
		}
	}
}

// Policies with pairs work with estimated rates and use the rates learned from pairs that ran.
func TestPackedByEstimates(t *testing.T) {
	c := cluster.Config{
		Devices: gavelDevices(4, 4, 4), Policy: "srtf_packed", Window: cluster.Window{Start: 100, End: 200}, Generate: &workload.Options{Lambda: workload.PerHour(0.8)},
	}
	known := run(t, c)
	c.Profiling = cluster.Profiling{Share: 0.2, References: 16}
	estimated := run(t, c)
	c.Policy = "srtf"
	alone := run(t, c)
	t.Logf("mean %.2f h, by estimates %.2f h, without pairs %.2f h", known.MeanJCTS/3600, estimated.MeanJCTS/3600, alone.MeanJCTS/3600)
	if !(known.MeanJCTS < alone.MeanJCTS && estimated.MeanJCTS < alone.MeanJCTS) || known.MeanJCTS == estimated.MeanJCTS {
		t.Errorf("mean %.2f h, by estimates %.2f h, without pairs %.2f h", known.MeanJCTS/3600, estimated.MeanJCTS/3600, alone.MeanJCTS/3600)
	}
}
