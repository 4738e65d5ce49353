package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// feasibleProbability is the probability with which a limit must be met to count as met.
const feasibleProbability = 0.95

// Ending is what the prediction of a whole run adds to that of its units of work. The zero value adds nothing.
type Ending struct {
	// Exit is the time from the last unit of work to the exit, in seconds.
	Exit sla.Interval
	// Drift is the relative slow drift of the remaining time, as its 5 and 95 % quantile.
	Drift float64
	// Load is the relative change of pace by other programs, independent of the error of the prediction: the remaining
	// time is 1/(1+Load) to 1+Load times as long at its 5 and 95 % quantile.
	Load float64
	// Unseen is the time of work that no measured unit contains, such as a final test, in seconds, as its 95 % quantile.
	Unseen float64
}

// Extend extends an interval of the completion time of the last unit of work to the end of the run. Both are in seconds
// since its start, of which now have passed.
func (e Ending) Extend(work sla.Interval, now float64) sla.Interval {
	rest, lower := max(0, work.P50-now), work.P50-work.P5
	below := min(math.Hypot(lower, e.Load/(1+e.Load)*rest)+e.Drift*rest, max(rest, lower))
	above := math.Hypot(math.Hypot(work.P95-work.P50, e.Load*rest), e.Unseen) + e.Drift*rest
	return sla.Interval{P5: work.P50 - below + e.Exit.P5, P50: work.P50 + e.Exit.P50, P95: work.P50 + above + e.Exit.P95}
}

// extend is Extend for draws of the seconds and of the cost in USD at the price of an hour, in place.
func (e Ending) extend(seconds, usd []float64, now, hourly float64) {
	work := quantiles(seconds)
	run := e.Extend(work, now)
	ratio := func(whole, part float64) float64 {
		if part <= 0 {
			return 1
		}
		return whole / part
	}
	below, above := ratio(run.P50-run.P5, work.P50-work.P5), ratio(run.P95-run.P50, work.P95-work.P50)
	for k, t := range seconds {
		to := run.P50 + (t-work.P50)*above
		if t < work.P50 {
			to = run.P50 + (t-work.P50)*below
		}
		seconds[k] = max(now, to)
		usd[k] = max(0, usd[k]+(seconds[k]-t)/3600*hourly)
	}
}

// forecast predicts the whole run at any allocation, draw by draw. Draws of different allocations are paired.
type forecast struct {
	s Snapshot
	// perUnit is true when the total work is unknown. All values are then per unit of work, and limits on the whole
	// run count as broken only when they already are.
	perUnit bool
	restart []float64 // seconds, by draw
	startup []float64
	scatter []float64  // standard normal, by draw: noise of the remaining units
	reclaim []reclaims // by draw; nil without interruptions
}

// newForecast draws restart, startup and noise once from a fixed seed, so that equal snapshots yield equal forecasts.
func newForecast(s Snapshot) *forecast {
	f := &forecast{s: s, perUnit: !(s.Total > 0)}
	n := 0
	if s.Model != nil {
		n = len(s.Model.Draws(s.Baseline))
	}
	rng := rand.New(rand.NewPCG(1, 0x51ab17))
	f.restart = spreadDraws(s.Restart, n, rng)
	f.startup = spreadDraws(s.Startup, n, rng)
	f.scatter = normals(n, rng)
	if s.Interruptions.PerHour > 0 {
		f.reclaim = make([]reclaims, n)
		for k := range f.reclaim {
			f.reclaim[k].rng = rand.New(rand.NewPCG(uint64(k), 0x5b07))
		}
	}
	return f
}

// normals returns n standard normal numbers, one from each n-quantile, in random order.
func normals(n int, rng *rand.Rand) []float64 {
	out := make([]float64, n)
	for i, k := range rng.Perm(n) {
		out[i] = math.Sqrt2 * math.Erfinv(2*(float64(k)+0.5)/float64(n)-1)
	}
	return out
}

// spreadDraws draws n values of an interval as a split normal distribution, never negative.
func spreadDraws(v sla.Interval, n int, rng *rand.Rand) []float64 {
	const z95 = 1.6449
	out := normals(n, rng)
	for i, z := range out {
		side := v.P95 - v.P50
		if z < 0 {
			side = v.P50 - v.P5
		}
		out[i] = max(0, v.P50+z*side/z95)
	}
	return out
}

// move is the transition from the current allocation to another one.
type move int

const (
	unmoved move = iota
	begin        // first start
	live         // in the running job
	restart      // checkpoint, exit, start
	again        // the job cannot be resumed: all work is repeated
)

// moveTo returns the transition that leads to an allocation.
func (f *forecast) moveTo(a resources.Allocation) move {
	c := f.s.Current
	switch {
	case c == nil:
		return begin
	case c.SameShape(a):
		return unmoved
	case f.s.LiveWorkers && a.GPUs == c.GPUs && a.BatchSize == c.BatchSize && a.Threads == c.Threads && a.CPUs == c.CPUs:
		return live
	case f.s.Resumable:
		return restart
	case f.s.LiveCPU && a.GPUs == c.GPUs && a.BatchSize == c.BatchSize && a.Threads == c.Threads && a.NumWorkers == c.NumWorkers && a.CPUs < c.CPUs:
		return live
	default:
		return again
	}
}

// outcome is a candidate with its draws.
type outcome struct {
	Candidate
	seconds []float64 // of the whole run, by draw (of one unit with perUnit)
	usd     []float64
	excess  float64 // relative excess over the limits, 0 when all are met
	chances map[sla.Objective]float64
}

// outcome predicts the whole run at an allocation. O(draws).
func (f *forecast) outcome(a resources.Allocation) outcome {
	unit := f.s.Model.Draws(a)
	o := outcome{Candidate: Candidate{Allocation: a, Resource: f.heldShare(a), Again: !f.perUnit && f.moveTo(a) == again}}
	o.Throughput = f.throughput(f.s.Model.UnitSeconds(a))
	o.seconds, o.usd = f.spend(a, unit, 1)
	o.Seconds, o.CostUSD = quantiles(o.seconds), quantiles(o.usd)
	f.judge(&o, unit)
	return o
}

// heldShare returns the share of the limits held over the work of the run when the remaining work runs at a.
func (f *forecast) heldShare(a resources.Allocation) float64 {
	share := perf.ResourceShare(a, f.s.Limits)
	if c := f.s.Current; c != nil && !f.perUnit && f.s.Done > 0 && f.moveTo(a) != again {
		done := min(1, f.s.Done/f.s.Total)
		share = done*perf.ResourceShare(*c, f.s.Limits) + (1-done)*share
	}
	return share
}

// spend returns seconds and USD of the whole run by draw. The duration of the move is multiplied by moveWeight. The
// draws of the remaining work include the noise of single units, which decreases with the square root of their
// number.
func (f *forecast) spend(a resources.Allocation, unit []float64, moveWeight float64) (seconds, usd []float64) {
	seconds, usd = make([]float64, len(unit)), make([]float64, len(unit))
	hourly := float64(f.s.Rates.Hourly(a))
	if f.perUnit {
		for k, u := range unit {
			seconds[k], usd[k] = u, u/3600*hourly
		}
		return seconds, usd
	}
	remaining := max(0, f.s.Total-f.s.Done)
	var delay []float64
	switch f.moveTo(a) {
	case begin:
		delay = f.startup
	case restart:
		delay = f.restart
	case again:
		delay, remaining = f.startup, f.s.Total
	}
	noise := f.s.Model.UnitNoise() / math.Sqrt(max(remaining, 1))
	for k, u := range unit {
		t := remaining * u * max(0.1, 1+noise*f.scatter[k])
		if delay != nil {
			t += moveWeight * delay[k]
		}
		repeated, away := f.interrupted(k, t, u)
		t += repeated
		seconds[k] = f.s.Elapsed.Seconds() + t + away
		usd[k] = float64(f.s.Spent) + t/3600*hourly
	}
	if f.s.Ending != (Ending{}) {
		f.s.Ending.extend(seconds, usd, f.s.Elapsed.Seconds(), hourly)
	}
	return seconds, usd
}

// throughput returns samples/s, or units/s when the samples per unit are unknown. The pace changes as that of the whole run.
func (f *forecast) throughput(work sla.Interval) sla.Interval {
	per := cmp.Or(f.s.Model.UnitSamples(), 1)
	e := Ending{Drift: f.s.Ending.Drift, Load: f.s.Ending.Load}
	t := e.Extend(work, 0)
	t.P5 = max(t.P5, work.P5/(1+e.Load+e.Drift)) // above 0
	return sla.Interval{P5: per / t.P95, P50: per / t.P50, P95: per / t.P5}
}

// judge sets the chances, Breaks, Feasible and excess of an outcome.
func (f *forecast) judge(o *outcome, unit []float64) {
	spec := f.s.Spec
	n := float64(len(unit))
	o.chances = make(map[sla.Objective]float64)
	both := 0.0
	timeMax, costMax := spec.TimeMax.Seconds(), spec.CostMaxUSD
	if f.perUnit { // only limits that are already broken count
		late := timeMax > 0 && f.s.Elapsed.Seconds() > timeMax
		dear := costMax > 0 && float64(f.s.Spent) > costMax
		o.chances[sla.Time], o.chances[sla.Cost] = asChance(!late), asChance(!dear)
		both = asChance(!late && !dear) * n
		o.excess += (1 - o.chances[sla.Time]) + (1 - o.chances[sla.Cost])
	} else {
		inTime, inCost := 0.0, 0.0
		// The guard stops the run by Reserve before a limit.
		timeMax, costMax = lessReserve(timeMax, f.s.Reserve.Seconds()), lessReserve(costMax, f.s.Reserve.Hours()*float64(f.s.Rates.Hourly(o.Allocation)))
		for k := range unit {
			t, c := asChance(timeMax <= 0 || o.seconds[k] <= timeMax), asChance(costMax <= 0 || o.usd[k] <= costMax)
			inTime, inCost, both = inTime+t, inCost+c, both+t*c
		}
		o.chances[sla.Time], o.chances[sla.Cost] = inTime/n, inCost/n
		o.excess += excess(o.Seconds.P95, timeMax) + excess(o.CostUSD.P95, costMax)
	}
	o.Chance = both / n
	f.judgeRest(o, unit)
	for _, objective := range []sla.Objective{sla.Time, sla.Cost, sla.Throughput, sla.Memory, sla.GPUUtil, sla.CPUUtil} {
		if c, ok := o.chances[objective]; ok && c < feasibleProbability-1e-9 {
			o.Breaks = append(o.Breaks, objective)
		}
	}
	if len(o.Breaks) == 0 && o.Chance < feasibleProbability-1e-9 { // each limit holds, but not both together
		o.Breaks = []sla.Objective{sla.Time, sla.Cost}
	}
	o.Feasible = len(o.Breaks) == 0 && finite(o.Candidate)
}

// judgeRest adds the chances of the limits that do not concern the whole run. Limits without data are skipped.
func (f *forecast) judgeRest(o *outcome, unit []float64) {
	spec, m := f.s.Spec, f.s.Model
	if samples := m.UnitSamples(); spec.ThroughputMin > 0 && samples > 0 {
		o.chances[sla.Throughput] = shareOf(unit, func(u float64) bool { return samples/u >= spec.ThroughputMin })
		o.excess += excess(spec.ThroughputMin, o.Throughput.P5)
	}
	need := m.PeakMemoryGiB()
	if math.IsNaN(need) {
		need = float64(f.s.Memory) / 1.25 // without its usual margin
	}
	if need > 0 && o.Allocation.Memory > 0 && need > float64(o.Allocation.Memory)*(1+1e-9) {
		o.chances[sla.Memory] = 0
		o.excess += excess(need, float64(o.Allocation.Memory))
	}
	if c := f.s.Current; c != nil {
		f.judgeUtil(o, sla.GPUUtil, f.s.GPUUtil, spec.GPUUtilMinPct, float64(c.GPUs), float64(o.Allocation.GPUs), unit)
		f.judgeUtil(o, sla.CPUUtil, f.s.CPUUtil, spec.CPUUtilMinPct, float64(c.CPUs), float64(o.Allocation.CPUs), unit)
	}
}

// judgeUtil predicts utilization at the candidate from the measured one. The busy device-seconds of a unit of work
// are assumed constant, so util ∝ 1 / (devices × seconds per unit), at most 100 %.
func (f *forecast) judgeUtil(o *outcome, objective sla.Objective, measured, least, devicesHere, devices float64, unit []float64) {
	if least <= 0 || math.IsNaN(measured) || devicesHere <= 0 {
		return
	}
	if devices <= 0 {
		return // no device of the kind is held
	}
	hold, here, p50 := 0.0, f.s.Model.Draws(*f.s.Current), make([]float64, len(unit))
	for k := range unit {
		util := min(100, measured*devicesHere*here[k]/(devices*unit[k]))
		p50[k] = util
		hold += asChance(util >= least)
	}
	o.chances[objective] = hold / float64(len(unit))
	o.excess += excess(least, quantiles(p50).P5)
}

// lessReserve returns a limit less a reserve, at least 1 % of the limit; 0, no limit, is kept.
func lessReserve(limit, reserve float64) float64 { return max(limit-reserve, 0.01*limit) }

func asChance(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// shareOf returns the share of the values that satisfy ok.
func shareOf[T any](v []T, ok func(T) bool) float64 {
	return float64(stat.Count(v, ok)) / float64(len(v))
}

// excess returns the relative excess of value over limit; 0 without a limit or when it is met.
func excess(value, limit float64) float64 {
	if limit <= 0 || value <= limit {
		return 0
	}
	return value/limit - 1
}

func finite(c Candidate) bool {
	values := []float64{c.Seconds.P5, c.Seconds.P50, c.Seconds.P95, c.CostUSD.P5, c.CostUSD.P50, c.CostUSD.P95, c.Resource, c.Chance}
	return !slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

// quantiles returns the interval of draws, whose order is kept.
func quantiles(draws []float64) sla.Interval { return sla.Quantiles(slices.Clone(draws)) }
