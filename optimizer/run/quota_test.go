package run

import (
	"context"
	"math"
	"testing"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/sla"
)

// busyMachine is a collector of the CPU use of a job, in percent of one CPU, on a machine whose CPUs are all in use.
type busyMachine float64

func (busyMachine) Name() string { return "busy" }

func (b busyMachine) Collect(_ context.Context, s *monitor.Sample) error {
	s.Tree.CPUPercent, s.Host.CPUPercent = float64(b), 100
	return nil
}

// TestFractionalQuota: utilization, what others take and the price of a job with all CPUs of a container are those of the
// quota, which may not be a whole number.
func TestFractionalQuota(t *testing.T) {
	for name, c := range map[string]struct {
		host    float64
		cpus    int
		percent float64
		lease   bool
		util    float64
		granted float64 // CPUs
		taken   float64 // CPUs, of 16 that are all in use
	}{
		"half a CPU":        {0.5, 1, 50, false, 100, 0.5, 0},
		"one and a half":    {1.5, 1, 150, false, 100, 1.5, 0},
		"all of 2.5":        {2.5, 2, 125, false, 50, 2.5, 1.25},
		"a part of 2.5":     {2.5, 1, 50, false, 50, 1, 0.5},
		"a whole number":    {2, 2, 150, false, 75, 2, 0.5},
		"lent by a cluster": {2.5, 2, 150, true, 75, 2, 0.5},
	} {
		r := &run{Agent: Agent{Clock: newHand()}, sampler: &sampling{machineCPUs: 16}, meter: &cost.Meter{}}
		r.Host, r.Current, r.job = resources.Host{CPUs: c.host}, resources.Allocation{CPUs: c.cpus}, struct{ launch.Job }{}
		if c.lease {
			r.Lease, r.Config.Divided = &Lease{}, true
		}
		perHour := cost.USD(3.6)
		r.Config.CPUHour = &perHour
		r.resolveRates()
		seg := r.Progress.Begin(0, r.Current, "run", true)
		r.sampler.sampler = &monitor.Sampler{Collectors: []monitor.Collector{busyMachine(c.percent)}}
		r.sample(t.Context())
		near := func(what string, have, want float64) {
			if math.Abs(have-want) > 1e-9 {
				t.Errorf("%s: %s %g, want %g", name, what, have, want)
			}
		}
		near("utilization", r.measures(true)[sla.CPUUtil].Value, c.util)
		near("utilization of the display", r.cpuUtil(), c.util)
		near("CPUs", seg.cpus(), c.granted)
		near("CPUs used by others", seg.taken(), c.taken)
		near("price per hour", float64(r.Rates.Hourly(r.Current)-r.Rates.Hourly(resources.Allocation{})), 3.6*c.granted)
	}
}

// TestPriceOfFractionalMachine: a machine that is paid as a whole has the CPUs of its quota.
func TestPriceOfFractionalMachine(t *testing.T) {
	for host, want := range map[float64]float64{0.5: 0.5, 1.5: 1.5, 2.5: 2.5, 4: 4} {
		f := facts{Host: resources.Host{CPUs: host}}
		f.resolveRates()
		if have := float64(f.Rates.Instance / f.Rates.CPUHour); math.Abs(have-want) > 1e-9 {
			t.Errorf("%g CPUs: paid as %g", host, have)
		}
	}
}
