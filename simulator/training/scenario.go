package training

import (
	"math"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// Workload is the truth about one kind of training job on one kind of machine: what its work takes at any allocation.
// Implementations are immutable.
type Workload interface {
	// UnitSeconds is the mean seconds of one unit of work, at full statistical worth (a unit at a batch size that
	// learns less from each sample takes longer); NaN where the job cannot run or nothing is known.
	UnitSeconds(a resources.Allocation) float64
	// Watts is the mean power of all devices held while it runs, NaN when unknown.
	Watts(a resources.Allocation) float64
}

// Noise is how measured units scatter around their mean: the log of a unit's seconds is a first-order autoregression
// with relative standard deviation Unit and correlation Memory from one unit to the next, 0 ≤ Memory < 1.
type Noise struct{ Unit, Memory float64 }

// Interruption is a time at which the machine is taken away (spot capacity reclaimed) and how long it stays away,
// seconds from the start of the job.
type Interruption struct{ At, Away float64 }

// Scenario is one job to be trained: the truth, what its user knows, and what was agreed.
type Scenario struct {
	Name     string
	Workload Workload

	Units       float64 // total work
	UnitSamples float64 // training samples in a unit, 0 unknown
	GPUsPerNode int     // 0: all in one node

	Limits   resources.Limits
	Baseline resources.Allocation // the user's own configuration
	Rates    cost.Rates
	Spec     sla.Spec // zero: nothing agreed

	Startup float64 // seconds from launch to the first unit
	Restart float64 // seconds that one more restart costs: checkpoint, exit, start, warm-up
	Noise   Noise
	// Interruptions are in ascending order of At; nil on capacity that is not taken away.
	Interruptions []Interruption
}

// Candidates lists every allocation that the scenario's planner may choose among and the truth is known for.
// A planner sees Limits only; this is for exhaustive search by whoever judges it.
func (s *Scenario) Candidates() []resources.Allocation {
	var out []resources.Allocation
	for g := s.Limits.GPUs.Min; g <= s.Limits.GPUs.Max; g++ {
		for c := max(1, s.Limits.CPUs.Min); c <= s.Limits.CPUs.Max; c++ {
			a := s.Baseline
			a.GPUs, a.CPUs, a.GPUIDs = g, c, nil
			if u := s.Workload.UnitSeconds(a); u > 0 { // NaN is not
				out = append(out, a)
			}
		}
	}
	return out
}

// Outcome is what a job comes to.
type Outcome struct {
	Seconds float64 // from launch to the end
	USD     float64
	Share   float64 // of the limits that is held, 0…1, as ResourceShare
	Joules  float64 // NaN unknown
}

// Outcome is the mean outcome of running wholly at one allocation from the start: start-up included, no noise, and no
// interruptions. All NaN where the job cannot run. For whoever judges a planner; a planner must not ask.
func (s *Scenario) Outcome(a resources.Allocation) Outcome {
	quiet := *s
	quiet.Interruptions = nil
	return quiet.Realised(a)
}

// Realised is Outcome with the scenario's own interruptions, still without noise. O(interruptions).
func (s *Scenario) Realised(a resources.Allocation) Outcome {
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
		// One by one, as the execution does it, so that a unit that ends just at a cut counts here and there alike.
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

// Best is the candidate with the smallest score, the first of equals; NaN scores are passed over. ok is false when none is
// left. O(candidates).
func (s *Scenario) Best(score func(resources.Allocation, Outcome) float64) (best resources.Allocation, o Outcome, ok bool) {
	least := math.Inf(1)
	for _, a := range s.Candidates() {
		out := s.Outcome(a)
		if v := score(a, out); v < least {
			least, best, o, ok = v, a, out, true
		}
	}
	return best, o, ok
}
