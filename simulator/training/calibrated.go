package training

import (
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// drawn is the truth as one posterior draw of a fitted model has it.
type drawn struct {
	model *perf.Model
	draw  int
}

// UnitSeconds is that draw's.
func (d drawn) UnitSeconds(a resources.Allocation) float64 { return d.model.DrawAt(a, d.draw) }

// Watts is not known from timings.
func (drawn) Watts(resources.Allocation) float64 { return math.NaN() }

// Calibrated draws jobs that are like one that was measured: the whole job of an outlook, with the seconds per unit of one
// posterior draw of its performance model for each job, and with its scatter. An Environment of them is calibrated
// from a run's own probes. The outlook must have a model.
func Calibrated(name string, o perf.Outlook, gpusPerNode int) func(rng *rand.Rand) Scenario {
	return func(rng *rand.Rand) Scenario {
		n := len(o.Model.Draws(o.Baseline))
		return Scenario{Name: name, Workload: drawn{o.Model, rng.IntN(n)}, Units: o.Total, UnitSamples: o.Model.UnitSamples(),
			GPUsPerNode: gpusPerNode, Limits: o.Limits, Baseline: o.Baseline, Rates: o.Rates, Spec: o.Spec, Startup: o.Startup,
			Restart: o.Restart, Noise: Noise{Unit: o.Model.UnitNoise()}}
	}
}

// Like returns an environment of jobs drawn by Calibrated from an outlook, as a run's agent needs it to renew its critics.
func Like(o perf.Outlook, withMemory bool) morl.Environment {
	return NewEnvironment(Calibrated("this job", o, 0), EnvironmentOptions{WithMemory: withMemory})
}
