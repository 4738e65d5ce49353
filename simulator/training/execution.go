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
// or what is left; with nothing left nothing happens. It returns the seconds of each unit as the job's log would show them
// (whole units; a last part counts as a unit scaled to a whole one). A unit or a start that an interruption cuts is done
// again after a restart. It panics when the workload cannot run at the allocation.
func (x *Execution) Run(a resources.Allocation, units float64) []float64 {
	s := x.scenario
	mean := s.Workload.UnitSeconds(a)
	if !(mean > 0) {
		panic("training: the workload cannot run at " + a.String())
	}
	units = min(units, s.Units-x.Done)
	if units <= negligible {
		return nil // nothing to start for
	}
	switch {
	case !x.started:
		x.start(a, s.Startup)
	case !a.SameShape(x.Current):
		x.Restarts++
		x.start(a, s.Restart)
	}
	x.Current, x.started = a, true
	var out []float64
	for left := units; left > negligible; {
		part := min(1, left)
		t := mean * x.noise()
		if !x.hold(a, t*part) {
			x.Restarts++
			x.start(a, s.Restart)
			continue
		}
		x.Done += part
		left -= part
		out = append(out, t)
	}
	return out
}

// negligible is a part of a unit that only rounding leaves over.
const negligible = 1e-9

// start brings the job up, again after each interruption of that.
func (x *Execution) start(a resources.Allocation, seconds float64) {
	for !x.hold(a, seconds) {
		x.Restarts++
		seconds = x.scenario.Restart
	}
}

// hold keeps the machine for some seconds, paid. When it is taken away before they are over it reports false: the time until
// then is lost and paid, and the machine is back.
func (x *Execution) hold(a resources.Allocation, seconds float64) bool {
	all := x.scenario.Interruptions
	for x.next < len(all) && all[x.next].At+all[x.next].Away <= x.Elapsed {
		x.next++ // over already: the machine was away or given back then
	}
	if x.next == len(all) || x.Elapsed+seconds <= all[x.next].At {
		x.pass(a, seconds)
		return true
	}
	i := all[x.next]
	x.next++
	if lost := i.At - x.Elapsed; lost > 0 {
		x.pass(a, lost)
	}
	x.Elapsed = max(x.Elapsed, i.At+i.Away)
	return false
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
