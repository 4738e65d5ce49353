package training

import (
	"math"
	"math/rand/v2"

	"trainopt/resources"
)

// Execution is one simulated run of a scenario: a step machine without a clock. Seconds and money are counted as a
// real run pays them: start-up, restarts and repeated work included, time without a machine free of charge but not of
// time.
type Execution struct {
	scenario *Scenario
	rng      *rand.Rand
	level    float64 // of the noise, log
	next     int     // interruption to come

	Done     float64 // units
	Elapsed  float64 // seconds
	SpentUSD float64
	Joules   float64 // NaN when the power of anything that ran is unknown
	Restarts int     // all but the first start
	Current  resources.Allocation
	started  bool
}

// Start begins a run; nothing has happened yet. The seed fixes the noise.
func (s *Scenario) Start(seed uint64) *Execution {
	return &Execution{scenario: s, rng: rand.New(rand.NewPCG(seed, 0x5eed)), level: math.NaN()}
}

// Run moves to the allocation (started or restarted when it is not the current one) and does the given units of work,
// or what is left. It returns the seconds of each unit as the job's log would show them (whole units; a last part
// counts as a unit scaled to a whole one). A unit that an interruption cuts is done again after a restart.
// It panics when the workload cannot run at the allocation.
func (x *Execution) Run(a resources.Allocation, units float64) []float64 {
	s := x.scenario
	mean := s.Workload.UnitSeconds(a)
	if !(mean > 0) {
		panic("training: the workload cannot run at " + a.String())
	}
	switch {
	case !x.started:
		x.pass(a, s.Startup)
	case !a.SameShape(x.Current):
		x.Restarts++
		x.pass(a, s.Restart)
	}
	x.Current, x.started = a, true
	units = min(units, s.Units-x.Done)
	var out []float64
	for left := units; left > 1e-9; {
		part := min(1, left)
		t := mean * x.noise()
		if x.next < len(s.Interruptions) && x.Elapsed+t*part > s.Interruptions[x.next].At {
			x.interrupted(a)
			continue
		}
		x.pass(a, t*part)
		x.Done += part
		left -= part
		out = append(out, t)
	}
	return out
}

// interrupted loses the unit under way and waits for the machine to come back.
func (x *Execution) interrupted(a resources.Allocation) {
	i := x.scenario.Interruptions[x.next]
	x.next++
	if lost := i.At - x.Elapsed; lost > 0 {
		x.pass(a, lost)
	}
	x.Elapsed += max(0, i.At+i.Away-x.Elapsed)
	x.Restarts++
	x.pass(a, x.scenario.Restart)
}

// pass lets seconds go by at an allocation, paid.
func (x *Execution) pass(a resources.Allocation, seconds float64) {
	x.Elapsed += seconds
	x.SpentUSD += seconds / 3600 * float64(x.scenario.Rates.Hourly(a))
	x.Joules += seconds * x.scenario.Workload.Watts(a)
}

// noise is the factor of the next unit.
func (x *Execution) noise() float64 {
	n := x.scenario.Noise
	if math.IsNaN(x.level) {
		x.level = n.Unit * x.rng.NormFloat64()
	} else {
		x.level = n.Memory*x.level + n.Unit*math.Sqrt(1-n.Memory*n.Memory)*x.rng.NormFloat64()
	}
	return math.Exp(x.level - n.Unit*n.Unit/2)
}
