package training

import (
	"math"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// Workload is the truth about one kind of training job on one kind of machine: the time of a unit of work and the
// power at any allocation. Implementations are immutable.
type Workload interface {
	// UnitSeconds returns the mean seconds of one unit of work at full statistical efficiency: a unit takes longer at
	// a batch size with lower efficiency per sample. NaN where the job cannot run or no data exist.
	UnitSeconds(a resources.Allocation) float64
	// Watts returns the mean power of all devices held while the job runs, NaN if unknown.
	Watts(a resources.Allocation) float64
}

// Noise describes the scatter of measured units around their mean: the logarithm of the seconds of a unit is a
// first-order autoregression with relative standard deviation Unit and correlation Memory from one unit to the next, 0
// ≤ Memory < 1.
type Noise struct{ Unit, Memory float64 }

// Interruption is the reclaiming of spot capacity: the time at which the machine is taken away and the duration of its
// absence, both in seconds, the former from the start of the job.
type Interruption struct{ At, Away float64 }

// Scenario is one job to be trained: its truth, the configuration of its user, and its SLA.
type Scenario struct {
	Name     string
	Workload Workload

	Units       float64 // total work
	UnitSamples float64 // training samples per unit, 0 if unknown
	GPUsPerNode int     // 0: all in one node

	Limits   resources.Limits
	Baseline resources.Allocation // of the user
	Rates    cost.Rates
	Spec     sla.Spec // zero: no SLA

	Startup float64 // seconds from launch to the first unit
	Restart float64 // seconds of one more restart: checkpoint, exit, start, warm-up
	Noise   Noise
	// Used returns what the job uses of an allocation, as measured; nil: it is not measured.
	Used func(resources.Allocation) perf.Utilization
	// Interruptions are in ascending order of At; nil for capacity that is not taken away.
	Interruptions []Interruption
}

// Candidates lists the allocations within the limits for which the truth is known. A planner sees Limits only;
// Candidates serves the exhaustive search of its evaluation.
func (s *Scenario) Candidates() []resources.Allocation {
	var out []resources.Allocation
	for g := s.Limits.GPUs.Min; g <= s.Limits.GPUs.Max; g++ {
		for c := max(1, s.Limits.CPUs.Min); c <= s.Limits.CPUs.Max; c++ {
			a := s.Baseline
			a.GPUs, a.CPUs, a.GPUIDs = g, c, nil
			if u := s.Workload.UnitSeconds(a); u > 0 { // false for NaN
				out = append(out, a)
			}
		}
	}
	return out
}

// Outcome is the result of a whole job.
type Outcome struct {
	Seconds float64 // from launch to the end
	USD     float64
	Share   float64 // share of the limits held, 0…1, as ResourceShare
	Joules  float64 // NaN if unknown
}

// Outcome returns the mean outcome of running the whole job at one allocation: start-up included, without noise and
// interruptions. All fields are NaN where the job cannot run. It is meant for the evaluation of planners; a planner
// must not call it.
func (s *Scenario) Outcome(a resources.Allocation) Outcome {
	quiet := *s
	quiet.Interruptions = nil
	return quiet.OutcomeWithInterruptions(a)
}

// OutcomeWithInterruptions returns Outcome with the scenario's own interruptions, still without noise. O(interruptions + units).
func (s *Scenario) OutcomeWithInterruptions(a resources.Allocation) Outcome {
	unit := s.Workload.UnitSeconds(a)
	if !(unit > 0) {
		return Outcome{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	var now, held, done float64
	starting, next := s.Startup, 0
	for {
		for next < len(s.Interruptions) && s.Interruptions[next].At+s.Interruptions[next].Away <= now {
			next++
		}
		cut := math.Inf(1)
		if next < len(s.Interruptions) {
			cut = s.Interruptions[next].At
		}
		// Units are added one by one, as Execution does, so that both treat a unit that ends exactly at an
		// interruption alike.
		begun, t := now, now+starting
		for t <= cut && done < s.Units && t+min(1, s.Units-done)*unit <= cut {
			t += min(1, s.Units-done) * unit
			done += min(1, s.Units-done)
		}
		if done >= s.Units {
			now, held = t, held+t-begun
			break
		}
		held += max(0, cut-begun)
		now = max(now, cut+s.Interruptions[next].Away)
		starting = s.Restart
	}
	return Outcome{
		Seconds: now,
		USD:     held / 3600 * float64(s.Rates.Hourly(a)),
		Share:   perf.ResourceShare(a, s.Limits),
		Joules:  held * s.Workload.Watts(a),
	}
}
