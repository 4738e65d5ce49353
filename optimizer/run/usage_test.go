package run

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

func TestUsage(t *testing.T) {
	var u usage
	at := func(cpus float64, gpus ...float64) *monitor.Sample {
		s := monitor.NoSample(time.Time{})
		s.Tree.CPUPercent = 100 * cpus
		for _, g := range gpus {
			s.GPUs = append(s.GPUs, monitor.GPUSample{UtilPercent: g})
		}
		return &s
	}
	u.sample(at(2, 0, 50), false, false)
	u.sample(at(9), true, false) // others may have had the job's CPUs
	u.sample(at(math.NaN()), false, false)
	u.sample(at(4, 10, 0), false, false)
	if got := u.known(); got != (perf.Utilization{}) {
		t.Errorf("%+v of two samples, want nothing yet", got)
	}
	u.sample(at(3, 20, 30, math.NaN()), false, false)
	if got, want := u.known(), (perf.Utilization{CPUs: 3, GPUs: 2, GPUBusy: 1.1 / 3 / 2}); math.Abs(got.GPUBusy-want.GPUBusy) > 1e-9 || got.CPUs != want.CPUs || got.GPUs != want.GPUs {
		t.Errorf("%+v, want %+v", got, want)
	}

	u.sample(at(3, 100, 100), false, true) // another program computes on them
	if got := u.known().GPUBusy; math.Abs(got-1.1/3/2) > 1e-9 {
		t.Errorf("busy for %v of the time, want %v", got, 1.1/3/2)
	}
	old := usage{Utilization: perf.Utilization{CPUs: 2, GPUs: 1}, Samples: 3600} // of an agent that did not record it
	for range usageSamples {
		old.sample(at(2, 95), false, false)
	}
	if got := old.known().GPUBusy; math.Abs(got-0.95) > 1e-9 {
		t.Errorf("busy for %v of the time, want 0.95", got)
	}

	facts := func(pid, workers int, stepping, waiting time.Duration) *observe.Facts {
		return &observe.Facts{PID: pid, Training: 1, Workers: workers, Stepping: stepping, Waiting: waiting}
	}
	var last observe.Facts
	u.step(&last, facts(7, 2, 0, 0))
	u.step(&last, facts(7, 2, time.Second/2, time.Second/4))
	if got := u.known(); got.Compute != 0 {
		t.Errorf("computing for %v of half a second, want nothing yet", got.Compute)
	}
	u.step(&last, facts(7, 2, 2*time.Second, time.Second)) // half of each
	u.step(&last, facts(7, 2, 2*time.Second, time.Second)) // no further step
	u.step(&last, facts(8, 0, 9*time.Second, time.Second)) // another process, which loads by itself
	u.step(&last, facts(9, 1, 2*time.Second, 0))           // and one that never waits
	if got := u.known().Compute; math.Abs(got-0.75) > 1e-9 {
		t.Errorf("computing for %v of the time, want 0.75", got)
	}

	fast := facts(9, 1, 3*time.Second, 0)
	fast.Unit, fast.StepTime, fast.GradientBytes = "step", time.Second/4, 100e6
	u.step(&last, fast)
	if got := u.known().GradientRate; got != 400e6 {
		t.Errorf("%g bytes of gradients per second, want 400e6", got)
	}
	fast.Unit, fast.StepTime = "timestep", time.Second // of which many belong to one step of the optimizer
	u.step(&last, fast)
	if got := u.known().GradientRate; got != 400e6 {
		t.Errorf("%g bytes of gradients per second after timesteps, want 400e6", got)
	}

	adopted := u
	last = observe.Facts{} // of another agent, which reads all reports again
	adopted.step(&last, facts(9, 1, 2*time.Second, 0))
	if adopted != u {
		t.Errorf("%+v after the reports of an adopted job, want %+v as before", adopted, u)
	}

	text, err := json.Marshal(Segment{Used: u})
	var back Segment
	if err != nil || json.Unmarshal(text, &back) != nil || back.Used != u {
		t.Errorf("%+v after a restart of the agent, want %+v (%v)", back.Used, u, err)
	}
}

// TestPeakAtExit: the largest resident set of a process, which includes the files that it maps, is no measurement of the peak memory.
// It only shows that a limit may have been exceeded between the samples of a short job.
func TestPeakAtExit(t *testing.T) {
	const limit = 0.2
	for name, c := range map[string]struct {
		sampled  float64 // GiB; 0: never
		samples  []int   // of the segments of the job
		recorded float64
		resident bool
		peak     float64 // 0: not known
		status   sla.Status
	}{
		"a file of 400 MB":             {0.007, []int{60}, 0.404, true, 0.007, sla.Met},
		"in two segments":              {0.007, []int{20, 2}, 0.404, true, 0.007, sla.Met},
		"a short job":                  {0.007, []int{3}, 0.404, true, 0.007, sla.Unknown},
		"a short one within the limit": {0.007, []int{3}, 0.1, true, 0.007, sla.Met},
		"a short one above it":         {0.3, []int{3}, 0.404, true, 0.3, sla.Violated},
		"ended before the first":       {0, []int{0}, 0.404, true, 0, sla.Unknown},
		"measured by a cgroup":         {0.1, []int{3}, 0.404, false, 0.404, sla.Violated},
		"by a cgroup, smaller":         {0.1, []int{60}, 0.05, false, 0.1, sla.Met},
	} {
		r := &run{Agent: Agent{Clock: newHand()}, meter: &cost.Meter{}}
		r.Config.SLA.MemoryMaxGiB = limit
		for i, n := range c.samples {
			seg := r.Progress.Begin(0, resources.Allocation{CPUs: 1}, "run", i == 0)
			seg.PeakGiB, seg.CPUN = c.sampled, n
		}
		r.Progress.addPeak(launch.Exit{PeakMemoryGiB: &c.recorded, PeakResident: c.resident})
		peak, _ := r.Progress.peakMemory()
		verdicts := sla.Evaluate(r.Config.SLA, r.measures(true))
		if verdicts[0].Status != c.status || !(peak == c.peak || c.peak == 0 && math.IsNaN(peak)) {
			t.Errorf("%s: peak %g GiB, limit %s; want %g GiB, %s", name, peak, verdicts[0].Status, c.peak, c.status)
		}
	}
}

// TestPeakOfRunWithoutSample: nothing is known of the memory of a job that ends before its first sample.
func TestPeakOfRunWithoutSample(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		resident, exit := 0.404, resumable(3, 1)(a)
		exit.PeakMemoryGiB, exit.PeakResident = &resident, true
		return exit
	})
	s.cfg.SLA.MemoryMaxGiB = 0.2
	res := s.run()
	if v := res.Record.SLA.Verdicts; res.Code != CodeDone || res.Record.Outcome.PeakMemoryGiB.Known() || len(v) != 1 || v[0].Status != sla.Unknown {
		t.Errorf("exit %d, peak %v GiB, %+v; want 0, and no data", res.Code, res.Record.Outcome.PeakMemoryGiB, v)
	}
}

// fixed is a collector that reports the same busy GPU each time.
type fixed struct{ util float64 }

func (fixed) Name() string { return "fixed" }

func (f fixed) Collect(_ context.Context, s *monitor.Sample) error {
	s.Tree.CPUPercent, s.Host.CPUPercent = 100, 13
	s.GPUs = []monitor.GPUSample{{UUID: "GPU-a", UtilPercent: f.util, MemoryGiB: 1, TotalGiB: 16, PowerW: math.NaN(), EnergyJ: math.NaN()}}
	return nil
}

// TestUsageOfWorkOnly: a job that saves on request, or evaluates after its last step, is no evidence of what a step needs.
func TestUsageOfWorkOnly(t *testing.T) {
	for name, end := range map[string]func(*run){
		"asked to stop": func(r *run) { r.Pending = &pendingStop{Why: "restart"} },
		"all work done": func(r *run) { r.Progress.Done = r.Progress.Total },
	} {
		r := &run{Agent: Agent{Clock: newHand()}, sampler: &sampling{machineCPUs: 8}}
		r.job = struct{ launch.Job }{}
		r.Current = resources.Allocation{CPUs: 4, GPUs: 1, GPUIDs: []string{"GPU-a"}}
		r.Progress.Total, r.Progress.Done = 100, 10
		seg := r.Progress.Begin(0, r.Current, "probe", true)
		seg.FirstRowAt = time.Second
		sample := func(util float64, n int) {
			r.sampler.sampler = &monitor.Sampler{Collectors: []monitor.Collector{fixed{util}}}
			for range n {
				r.sample(t.Context())
			}
		}
		sample(100, 6)
		end(r)
		sample(0, 25)
		if got := seg.Used.known(); got.GPUBusy != 1 || got.CPUs != 1 {
			t.Errorf("%s: %+v, want GPUs that were busy all the time and one CPU", name, got)
		}
	}
}
