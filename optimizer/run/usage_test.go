package run

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/perf"
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
	u.sample(at(2, 0, 50), false)
	u.sample(at(9), true) // others may have had the job's CPUs
	u.sample(at(math.NaN()), false)
	u.sample(at(4, 10, 0), false)
	if got := u.known(); got != (perf.Utilization{}) {
		t.Errorf("%+v of two samples, want nothing yet", got)
	}
	u.sample(at(3, 20, 30, math.NaN()), false)
	if got, want := u.known(), (perf.Utilization{CPUs: 3, GPUs: 2, GPUBusy: 1.1 / 3 / 2}); math.Abs(got.GPUBusy-want.GPUBusy) > 1e-9 || got.CPUs != want.CPUs || got.GPUs != want.GPUs {
		t.Errorf("%+v, want %+v", got, want)
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
