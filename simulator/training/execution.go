package training

import (
	"math"
	"math/rand/v2"

	"trainopt/resources"
)

// Execution is one simulated run of a scenario: a step machine without a clock. It accounts for time and money as a
// real run pays them: start-up, restarts and repeated work are included; while the machine is away, time passes and no
// cost accrues.
type Execution struct {
	scenario *Scenario
	rng      *rand.Rand
	level    float64 // of the noise, in logarithms
	next     int     // index of the next interruption

	Done     float64 // units completed
	Elapsed  float64 // seconds
	SpentUSD float64
	Joules   float64 // NaN if the power at any allocation used is unknown
	Restarts int     // all starts except the first
	Current  resources.Allocation
	started  bool
}

// Start returns a run to which nothing has happened yet. The seed determines the noise.
func (s *Scenario) Start(seed uint64) *Execution {
	return &Execution{scenario: s, rng: rand.New(rand.NewPCG(seed, 0x5eed)), level: math.NaN()}
}

// Run moves the job to the allocation, with a start or a restart if it is not the current one, and does the given
// units of work or the remaining ones, whichever is fewer; with no work remaining it does nothing. It returns the
// seconds of each unit as the job log would show them: a last partial unit is scaled to a whole one. A unit or a start
// cut by an interruption is repeated after a restart. Run panics if the workload cannot run at the allocation.
func (x *Execution) Run(a resources.Allocation, units float64) []float64 {
	s := x.scenario
	mean := s.Workload.UnitSeconds(a)
	if !(mean > 0) {
		panic("training: the workload cannot run at " + a.String())
	}
	units = min(units, s.Units-x.Done)
	if units <= negligible {
		return nil // no start without work
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
		if !x.occupy(a, t*part) {
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

// negligible is a fraction of a unit that results from rounding only.
const negligible = 1e-9

// start brings the job up and restarts it after each interruption of the start itself.
func (x *Execution) start(a resources.Allocation, seconds float64) {
	for !x.occupy(a, seconds) {
		x.Restarts++
		seconds = x.scenario.Restart
	}
}

// occupy occupies the machine for the given seconds, at its price. If an interruption comes before they have passed, it
// returns false: the time until then is lost but paid, and the machine is available again on return.
func (x *Execution) occupy(a resources.Allocation, seconds float64) bool {
	all := x.scenario.Interruptions
	for x.next < len(all) && all[x.next].At+all[x.next].Away <= x.Elapsed {
		x.next++ // ended while the machine was away or not held
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

// pass advances time, cost and energy by the given seconds at an allocation.
func (x *Execution) pass(a resources.Allocation, seconds float64) {
	x.Elapsed += seconds
	x.SpentUSD += seconds / 3600 * float64(x.scenario.Rates.Hourly(a))
	x.Joules += seconds * x.scenario.Workload.Watts(a)
}

// noise returns the factor of the next unit: mean 1, first-order autoregression in logarithms.
func (x *Execution) noise() float64 {
	n := x.scenario.Noise
	if math.IsNaN(x.level) {
		x.level = n.Unit * x.rng.NormFloat64()
	} else {
		x.level = n.Memory*x.level + n.Unit*math.Sqrt(1-n.Memory*n.Memory)*x.rng.NormFloat64()
	}
	return math.Exp(x.level - n.Unit*n.Unit/2)
}
