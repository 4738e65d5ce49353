package trial

import (
	"math"
	"time"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// amdahl is a synthetic truth: serial seconds, and parallel seconds divided among the GPUs (or CPUs without GPUs),
// with an overhead for each further device.
type amdahl struct {
	serial, parallel, toll float64
	most                   int // cannot run on more devices than this; 0: no maximum
}

func (w amdahl) UnitSeconds(a resources.Allocation) float64 {
	n := a.GPUs
	if n == 0 {
		n = a.CPUs
	}
	if w.most > 0 && n > w.most {
		return math.NaN()
	}
	return w.serial + w.parallel/float64(n) + w.toll*float64(n-1)
}

func (w amdahl) Watts(a resources.Allocation) float64 { return 50 + 200*float64(a.GPUs) }

// job returns a job of 200 units on up to 8 GPUs whose baseline uses all of them.
func job() *training.Scenario {
	return &training.Scenario{Name: "made-up", Workload: amdahl{2, 20, 0.2, 0}, Units: 200, UnitSamples: 1000,
		Limits:   resources.Limits{GPUs: resources.Range{Min: 1, Max: 8}, CPUs: resources.Range{Min: 4, Max: 4}, MemoryMin: 1, MemoryMax: 64},
		Baseline: resources.Allocation{GPUs: 8, CPUs: 4, Memory: 16},
		Rates:    cost.Rates{GPUHour: 2, CPUHour: 0.05, GiBHour: 0.005},
		Startup:  10, Restart: 15, Noise: training.Noise{Unit: 0.03, Memory: 0.5}}
}

func with(change func(*training.Scenario)) *training.Scenario {
	s := job()
	change(s)
	return s
}

func agreed(deadline time.Duration, budget float64) *training.Scenario {
	return with(func(s *training.Scenario) { s.Spec = sla.Spec{TimeMax: deadline, CostMaxUSD: budget} })
}
