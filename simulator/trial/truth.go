package trial

import (
	"math"

	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// Static is what one allocation, kept from start to end, takes in a job's own noise and interruptions.
type Static struct {
	Allocation  resources.Allocation
	Seconds     float64
	USD         float64
	Joules      float64 // NaN unknown
	Resource    float64 // share of the limits, 0…1
	Feasible    bool    // it keeps what was agreed of time, cost and throughput
	start, work spent   // before the first unit; of the units, without what interruptions cost
	excess      float64 // how far it misses, relative
}

type spent struct{ seconds, usd float64 }

// Truth is what an exhaustive search over the fixed allocations finds out about a job, in hindsight: every candidate is
// run with the very noise that the planners meet, so that no search, and no luck, is in the reference.
type Truth struct {
	// Statics are all allocations that can run, in the scenario's order.
	Statics []Static
	// Feasible: at least one of them keeps the agreement.
	Feasible bool
	// Reachable: the agreement can be kept by somebody who has to measure first: who begins at the user's own configuration,
	// does one unit of work there, spends a tenth of the run's time and money on measuring (what probes may take), and
	// then goes to the allocation that turns out best, in time for the guard, which stops a run as long before a limit as
	// an orderly exit takes.
	Reachable bool
	// Own is the user's own configuration, as it would run with nobody to stop it.
	Own Static

	after []Static // after one unit at the user's own configuration, as Statics

	best [3]float64 // least seconds, USD and share of the limits among the feasible ones, among all when none is
}

// Search runs every allocation of a scenario with one seed, twice. O(candidates × units).
func Search(scenario *training.Scenario, seed uint64) *Truth {
	s := withMemory(scenario)
	t := &Truth{best: [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}}
	for _, a := range s.Candidates() {
		o := static(s, a, seed)
		t.Statics = append(t.Statics, o)
		t.Feasible = t.Feasible || o.Feasible
		late := afterOne(s, a, seed)
		t.after = append(t.after, late)
		t.Reachable = t.Reachable || late.keeps(s, allowance)
	}
	t.Own = static(s, s.Baseline, seed)
	for _, o := range t.Statics {
		if o.Feasible == t.Feasible {
			for i, v := range o.objectives() {
				t.best[i] = min(t.best[i], v)
			}
		}
	}
	return t
}

// allowance is the share of a run's time and money that probes may take.
const allowance = 0.10

// keeps reports whether the agreement is kept although measuring takes a share of the run, with a checkpoint in hand.
func (o *Static) keeps(s *training.Scenario, share float64) bool {
	exit := s.Restart + 1.5*max(1, s.Restart-s.Startup)
	usd := exit / 3600 * float64(s.Rates.Hourly(o.Allocation))
	t, c := s.Spec.TimeMax.Seconds(), s.Spec.CostMaxUSD
	return o.Feasible && (t <= 0 || o.Seconds*(1+share)+exit <= t) && (c <= 0 || o.USD*(1+share)+usd <= c)
}

func static(s *training.Scenario, a resources.Allocation, seed uint64) Static {
	return ended(s, a, s.Start(seed), 0)
}

// afterOne is a run that does its first unit at the user's own configuration.
func afterOne(s *training.Scenario, a resources.Allocation, seed uint64) Static {
	x := s.Start(seed)
	x.Run(s.Baseline, 1)
	first := x.Elapsed
	o := ended(s, a, x, x.Done)
	o.Resource += first / o.Seconds * (perf.ResourceShare(s.Baseline, s.Limits) - o.Resource)
	return o
}

// ended runs the rest at an allocation.
func ended(s *training.Scenario, a resources.Allocation, x *training.Execution, done float64) Static {
	per := x.Run(a, s.Units)
	work := 0.0
	for i, unit := range per {
		work += unit * min(1, s.Units-done-float64(i)) // the last may be a part
	}
	hourly := float64(s.Rates.Hourly(a))
	o := Static{Allocation: a, Seconds: x.Elapsed, USD: x.SpentUSD, Joules: x.Joules, Resource: perf.ResourceShare(a, s.Limits),
		start: spent{s.Startup, s.Startup / 3600 * hourly}, work: spent{work, work / 3600 * hourly}}
	over := func(value, limit float64) {
		if limit > 0 {
			o.excess = max(o.excess, value/limit-1)
		}
	}
	over(o.Seconds, s.Spec.TimeMax.Seconds())
	over(o.USD, s.Spec.CostMaxUSD)
	if least := s.Spec.ThroughputMin; least > 0 && s.UnitSamples > 0 {
		o.excess = max(o.excess, 1-s.UnitSamples/s.Workload.UnitSeconds(a)/least)
	}
	o.Feasible = o.excess <= 0
	return o
}

func (o *Static) objectives() [3]float64 { return [3]float64{o.Seconds, o.USD, o.Resource} }

// Utility is what a preference makes of an outcome, less is better: Σ wᵢ·xᵢ/xᵢ*, with x seconds, USD and the share of the
// limits held, and xᵢ* the least of each that any feasible fixed allocation reaches. For a preference of time or of cost alone
// it is that objective. It is one definition among several: plan.Model scales each objective by its range over the
// front instead, and so differs from it in what it calls balanced.
func (t *Truth) Utility(p plan.Preference, x [3]float64) float64 {
	sum, weights := 0.0, 0.0
	for i, w := range [3]float64{p.Time, p.Cost, p.Resource} {
		if w > 0 && t.best[i] > 0 && !math.IsInf(t.best[i], 0) {
			sum, weights = sum+w*x[i]/t.best[i], weights+w
		}
	}
	return sum / weights
}

// Oracle is the fixed allocation with the least utility among the feasible ones, or the one that misses the agreement
// least when none is feasible. ok is false when the job can run nowhere. A run that moves can still beat it where a limit
// binds: part of the work on four devices and part on five may just meet a deadline for which four are too slow.
func (t *Truth) Oracle(p plan.Preference) (best Static, ok bool) {
	least := math.Inf(1)
	for _, o := range t.Statics {
		u := t.Utility(p, o.objectives())
		if !t.Feasible {
			u = o.excess
		}
		if o.Feasible == t.Feasible && u < least {
			best, least, ok = o, u, true
		}
	}
	return best, ok
}

// Floor is the regret of somebody who begins at the user's own configuration, does one unit of work there, and then knows
// everything: what measuring first costs even then. NaN when the agreement cannot be kept from there.
func (t *Truth) Floor(p plan.Preference) float64 {
	oracle, ok := t.Oracle(p)
	least := math.NaN()
	for _, o := range t.after {
		if u := t.Utility(p, o.objectives()); ok && o.Feasible && !(least <= u) {
			least = u
		}
	}
	return least/t.Utility(p, oracle.objectives()) - 1
}

// Regret is by how much an outcome exceeds the oracle's utility, relative, and why: Total is the sum of the others.
type Regret struct {
	Total float64
	// Choice is for work at allocations that were planned and are not the oracle's (and for starting at one).
	Choice float64
	// Probe is for work that was done elsewhere in order to measure; Move for restarts by choice.
	Probe, Move float64
	// Lost is for interruptions, over those that the oracle meets.
	Lost float64
}

// Regret of an outcome under a preference; all NaN for a job that was not finished or that no allocation can do as
// agreed.
//
// The pieces of the run are compared with what the oracle takes for the same work: a piece of u units is charged its
// seconds and USD less u/units of the oracle's (start-up and interruptions set apart); of the share of the limits,
// its part of the time at the difference of the shares.
func (t *Truth) Regret(p plan.Preference, o *Outcome) Regret {
	nan := math.NaN()
	oracle, ok := t.Oracle(p)
	if !ok || !t.Feasible || !o.Finished {
		return Regret{nan, nan, nan, nan, nan}
	}
	reference := t.Utility(p, oracle.objectives())
	var out Regret
	start, work := oracle.start, oracle.work
	lost := spent{oracle.Seconds - start.seconds - work.seconds, oracle.USD - start.usd - work.usd}
	out.Lost = -t.Utility(p, [3]float64{lost.seconds, lost.usd, 0}) / reference
	for _, q := range o.Pieces {
		share := perf.ResourceShare(q.Allocation, o.limits) - oracle.Resource
		d := [3]float64{q.Seconds - q.Units/o.Done*work.seconds, q.USD - q.Units/o.Done*work.usd, q.Seconds / o.Seconds * share}
		if q.Kind == Start {
			d[0], d[1] = d[0]-start.seconds, d[1]-start.usd
		}
		v := t.Utility(p, d) / reference
		switch q.Kind {
		case Probe:
			out.Probe += v
		case Move, Refused:
			out.Move += v
		case Lost:
			out.Lost += v
		default:
			out.Choice += v
		}
	}
	out.Total = t.Utility(p, [3]float64{o.Seconds, o.USD, o.Resource})/reference - 1
	return out
}
