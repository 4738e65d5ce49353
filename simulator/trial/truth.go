package trial

import (
	"math"

	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// fixedRun is the result of one allocation kept from start to end, with the job's own noise and interruptions.
type fixedRun struct {
	Allocation  resources.Allocation
	Seconds     float64
	USD         float64
	Joules      float64 // NaN if unknown
	Resource    float64 // share of the limits, 0…1
	Feasible    bool    // meets the SLA: time, cost and throughput
	start, work spent   `cells:"-"` // before the first unit; of the units, without the cost of interruptions
	lost        spent   `cells:"-"` // due to interruptions
	excess      float64 `cells:"-"` // relative excess over the limits
}

type spent struct{ seconds, usd float64 }

// jobTruth is the result of an exhaustive search over the fixed allocations of a job, in hindsight. Every candidate runs
// with the same noise as the planners, so that the reference contains neither search cost nor luck.
type jobTruth struct {
	// Statics contains all allocations that can run, in the scenario's order.
	Statics []fixedRun
	// Feasible is true if at least one of them meets the SLA.
	Feasible bool
	// Reachable is true if a run that has to measure first can meet the SLA: it does one unit of work at the baseline,
	// spends a tenth of its time and money on measurements (the allowance of probes), and then moves to the allocation
	// that turns out best, early enough for the guard, which stops a run before a limit by the time of an orderly
	// exit.
	Reachable bool
	// Own is the baseline, run without guard.
	Own fixedRun

	after []fixedRun `cells:"-"` // as Statics, with the first unit of work at the baseline

	// Best contains the lowest seconds, USD and share of the limits, without interruptions, among the feasible
	// allocations, or among all if none is.
	Best [3]float64
}

// search runs every allocation of a scenario twice with one seed. O(candidates × units).
func search(scenario *training.Scenario, seed uint64) *jobTruth {
	s := withMemory(scenario)
	t := &jobTruth{Best: [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}}
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
				t.Best[i] = min(t.Best[i], v)
			}
		}
	}
	return t
}

// allowance is the share of a run's time and money that probes may use.
const allowance = 0.10

// keeps reports whether the allocation meets the SLA with a share of the run spent on measurements and an exit with a
// checkpoint.
func (o *fixedRun) keeps(s *training.Scenario, share float64) bool {
	exit := s.Restart + 1.5*max(1, s.Restart-s.Startup)
	usd := exit / 3600 * float64(s.Rates.Hourly(o.Allocation))
	t, c := s.Spec.TimeMax.Seconds(), s.Spec.CostMaxUSD
	return o.Feasible && (t <= 0 || o.Seconds*(1+share)+exit <= t) && (c <= 0 || o.USD*(1+share)+usd <= c)
}

// static runs the whole job at an allocation.
func static(s *training.Scenario, a resources.Allocation, seed uint64) fixedRun {
	return finish(s, a, s.Start(seed), 0, spent{s.Startup, s.Startup / 3600 * float64(s.Rates.Hourly(a))})
}

// afterOne runs the first unit at the baseline and the rest at an allocation.
func afterOne(s *training.Scenario, a resources.Allocation, seed uint64) fixedRun {
	x := s.Start(seed)
	per := x.Run(s.Baseline, 1)
	begun := s.Startup + per[0]*x.Done
	before := spent{begun, begun / 3600 * float64(s.Rates.Hourly(s.Baseline))}
	if !a.SameShape(s.Baseline) && x.Done < s.Units {
		before.seconds, before.usd = before.seconds+s.Restart, before.usd+s.Restart/3600*float64(s.Rates.Hourly(a))
	}
	o := finish(s, a, x, x.Done, before)
	o.Resource += begun / (o.Seconds - o.lost.seconds) * (perf.ResourceShare(s.Baseline, s.Limits) - o.Resource)
	return o
}

// finish completes an execution at an allocation and returns its result; done is the number of units completed before,
// start what they and all starts take without interruptions.
func finish(s *training.Scenario, a resources.Allocation, x *training.Execution, done float64, start spent) fixedRun {
	per := x.Run(a, s.Units)
	work := 0.0
	for i, unit := range per {
		work += unit * min(1, s.Units-done-float64(i)) // the last unit may be partial
	}
	hourly := float64(s.Rates.Hourly(a))
	o := fixedRun{Allocation: a, Seconds: x.Elapsed, USD: x.SpentUSD, Joules: x.Joules, Resource: perf.ResourceShare(a, s.Limits),
		start: start, work: spent{work, work / 3600 * hourly}}
	o.lost = spent{o.Seconds - start.seconds - o.work.seconds, o.USD - start.usd - o.work.usd}
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

// objectives returns seconds, USD and share of the limits without what interruptions cost: they strike at random in
// proportion to the running time, so that in expectation they lengthen every run alike; one draw of them is luck that
// hindsight would exploit. The SLA is judged with them.
func (o *fixedRun) objectives() [3]float64 {
	return [3]float64{o.Seconds - o.lost.seconds, o.USD - o.lost.usd, o.Resource}
}

// Utility returns the utility of an outcome under a preference; lower is better: Σ wᵢ·xᵢ/xᵢ*, with x the seconds, USD
// and share of the limits held, and xᵢ* the lowest value of each among the feasible fixed allocations. For a
// preference of time or cost alone it is proportional to that objective. The definition is one of several: that of
// plan.Select, with the lowest values of the truth instead of the predicted ones.
func (t *jobTruth) Utility(p plan.Preference, x [3]float64) float64 {
	sum, weights := 0.0, 0.0
	for i, w := range [3]float64{p.Time, p.Cost, p.Resource} {
		if w > 0 && t.Best[i] > 0 && !math.IsInf(t.Best[i], 0) {
			sum, weights = sum+w*x[i]/t.Best[i], weights+w
		}
	}
	return sum / weights
}

// Oracle returns the fixed allocation with the lowest utility among the feasible ones, or the one with the smallest
// excess if none is feasible. ok is false if the job cannot run at all. A run that moves can still beat the oracle
// where a limit binds: part of the work on four devices and part on five may just meet a deadline for which four are
// too slow.
func (t *jobTruth) Oracle(p plan.Preference) (best fixedRun, ok bool) {
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

// MinRegret returns the regret of a run that does one unit of work at the baseline and then has perfect information: the
// minimum cost of measuring first. NaN if the SLA cannot be met from there.
func (t *jobTruth) MinRegret(p plan.Preference) float64 {
	oracle, ok := t.Oracle(p)
	least := math.NaN()
	for _, o := range t.after {
		if u := t.Utility(p, o.objectives()); ok && o.Feasible && !(least <= u) {
			least = u
		}
	}
	return least/t.Utility(p, oracle.objectives()) - 1
}

// regret is the relative excess of an outcome over the oracle's utility, both without what interruptions cost; Total is
// the sum of Choice, Probe and Move.
type regret struct {
	Total float64
	// Choice is caused by work at planned allocations other than the oracle's, including the start at one.
	Choice float64
	// Probe is caused by work done elsewhere for measurements; Move by restarts by choice.
	Probe, Move float64
	// Lost is the excess due to interruptions over those of the oracle, not part of Total.
	Lost float64
}

// Regret returns the regret of an outcome under a preference. All fields are NaN for an unfinished job and for a job
// whose SLA no allocation meets.
//
// The pieces of the run are compared with the oracle's consumption for the same work: a piece of u units is charged
// its seconds and USD minus u/units of the oracle's (start-up and interruptions are treated separately) and, for the
// share of the limits, its fraction of the time multiplied by the difference of the shares.
func (t *jobTruth) Regret(p plan.Preference, o *outcome) regret {
	nan := math.NaN()
	oracle, ok := t.Oracle(p)
	if !ok || !t.Feasible || !o.Finished {
		return regret{nan, nan, nan, nan, nan}
	}
	reference := t.Utility(p, oracle.objectives())
	var out regret
	start, work := oracle.start, oracle.work
	out.Lost = t.Utility(p, [3]float64{o.lost.seconds - oracle.lost.seconds, o.lost.usd - oracle.lost.usd, 0}) / reference
	for _, q := range o.Pieces {
		if q.Kind == pieceLost {
			continue
		}
		share := perf.ResourceShare(q.Allocation, o.limits) - oracle.Resource
		d := [3]float64{q.Seconds - q.Units/o.Done*work.seconds, q.USD - q.Units/o.Done*work.usd, q.Seconds / (o.Seconds - o.lost.seconds) * share}
		if q.Kind == pieceStart {
			d[0], d[1] = d[0]-start.seconds, d[1]-start.usd
		}
		v := t.Utility(p, d) / reference
		switch q.Kind {
		case pieceProbe:
			out.Probe += v
		case pieceMove, refused:
			out.Move += v
		default:
			out.Choice += v
		}
	}
	out.Total = t.Utility(p, o.objectives())/reference - 1
	return out
}
