package cluster_test

import (
	"math"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// In every mechanism, the use of devices over time sums to the utilization and never exceeds the number of devices.
func TestTimelineIsUtilization(t *testing.T) {
	for name, set := range map[string]func(*cluster.Config){
		"as Gavel":              func(c *cluster.Config) { c.Compat = true },
		"ours":                  func(*cluster.Config) {},
		"without rounds":        func(c *cluster.Config) { c.Ideal = true },
		"pairs":                 func(c *cluster.Config) { c.Policy = "fifo_packed" },
		"pauses":                func(c *cluster.Config) { c.Preemption = schedule.Preemption{Seconds: 60, Steps: 10} },
		"a window that ends":    func(c *cluster.Config) { c.Total, c.Window = 0, cluster.Window{Start: 10, End: 20} },
		"stopped at a limit":    func(c *cluster.Config) { c.Limit = 50000 },
		"arrivals, long pauses": func(c *cluster.Config) { c.Generate.Lambda = workload.PerHour(0.01) },
	} {
		t.Run(name, func(t *testing.T) {
			c := static(30, "max_min_fairness_perf")
			c.Compat = false
			c.Generate.Lambda = workload.PerHour(10)
			set(&c)
			r, err := cluster.Run(t.Context(), c)
			if r == nil {
				t.Fatal(err)
			}
			end, step, sum := float64(r.MakespanS), float64(r.Timeline.StepS), 0.0
			n := r.Timeline.Steps()
			if n > 500 || float64(n)*step < end || float64(n-1)*step >= end {
				t.Errorf("%d steps of %v s in %v s", n, step, end)
			}
			for device, used := range r.Timeline.UsedS {
				for k, v := range used {
					sum += float64(v)
					if most := float64(r.Cluster[device]) * (min(end, float64(k+1)*step) - float64(k)*step); v < 0 || float64(v) > most*(1+1e-9)+1e-6 {
						t.Errorf("step %d of %s: %v device-seconds, there are %v", k, device, v, most)
					}
				}
			}
			if want := float64(r.Utilization) * 12 * end; math.Abs(sum-want) > 1e-9*want || sum == 0 {
				t.Errorf("device-seconds over time add up to %v, utilization says %v", sum, want)
			}
		})
	}
}

// A job on two of three devices that arrives some time after the start.
func TestTimelineOfOneJob(t *testing.T) {
	const kind = "ResNet-18 (batch size 32)"
	rate := workload.GavelTable().Alone("v100", kind, 2)
	r := run(t, cluster.Config{Devices: gavelDevices(0, 0, 3), Policy: "fifo", Jobs: []workload.Job{
		{ID: 1, Type: kind, GPUs: 2, Arrival: 600, Steps: 3000 * rate}}})
	if r.Timeline.StepS != 8 || r.Timeline.Steps() != 450 {
		t.Fatalf("%d steps of %v s, want 450 of 8", r.Timeline.Steps(), r.Timeline.StepS)
	}
	for k, v := range r.Timeline.UsedS["v100"] {
		want := 16.0
		if k < 75 {
			want = 0
		}
		if math.Abs(float64(v)-want) > 1e-6 {
			t.Fatalf("step %d: %v device-seconds, want %v", k, v, want)
		}
	}
}
