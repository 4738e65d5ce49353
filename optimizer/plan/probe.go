package plan

import (
	"errors"
	"math"
	"slices"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// NextProbe returns the affordable allocation to measure next, with the reason; nil when no probe pays. A probe must
// be expected to improve the choice by more than its own cost, in the preference's regret including missed limits.
// Its cost is the restarts and a few units of work done at the probe instead of at the best known choice.
func NextProbe(s Snapshot, measured []perf.Observation, affordable []resources.Allocation) (*resources.Allocation, string) {
	switch {
	case s.Model == nil || len(affordable) == 0:
		return nil, ""
	case s.Current != nil && !s.Resumable:
		return nil, "" // the job would have to start from the beginning
	case !MayProbe(s):
		return nil, "" // no move would remain to use the result
	}
	b := newEvaluation(s)
	fallback := b.fallback()
	affordable = slices.DeleteFunc(slices.Clone(affordable), func(a resources.Allocation) bool { return !b.probeKeepsFallback(a, fallback) })
	among := b.comparable()
	if len(among) == 0 {
		return nil, ""
	}
	sc := scaleOf(pointsOf(b.cs), frontAmong(b.cs, among))
	options := perf.ProbeOptions{MinGain: 0.005, Choices: Allocations(s),
		Loss: func(a resources.Allocation, unit float64) float64 { return b.runLoss(sc, a, unit, 0, 0) }}
	if !b.forecast.perUnit {
		plan := b.withoutProbe()
		without := b.expectedLoss(sc, plan, b.delayTo(plan))
		for _, x := range mergeSegments(s) { // a return is possible with and without a probe
			if x.at.Memory = memoryFor(s); !math.IsNaN(x.pace) {
				without = min(without, b.expectedLoss(sc, x.at, b.delayTo(x.at)))
			}
		}
		options.Without, options.Cost = &without, b.probeCost(sc, plan)
		options.Onward = func(a resources.Allocation, unit float64) float64 {
			return b.runLoss(sc, a, unit, s.Restart.P50, s.Restart.P50/3600*float64(s.Rates.Hourly(a)))
		}
	}
	var at []resources.Allocation
	for _, o := range measured {
		at = append(at, o.Allocation)
	}
	probe := s.Model.NextProbe(affordable, at, options)
	if probe == nil {
		return nil, ""
	}
	return &probe.Allocation, probe.Reason
}

// fallback returns the position of the allocation to which the job returns after a probe without benefit: the
// baseline if it is likely to meet the SLA, otherwise the choice among the feasible candidates, -1 when none exists.
func (b *evaluation) fallback() int {
	if b.baseline >= 0 && finite(b.cs[b.baseline]) && b.outcomes[b.baseline].odds() >= likelyChance {
		return b.baseline
	}
	return choose(b.cs, where(b.cs, feasible), b.preference, b.current)
}

// runLoss returns the regret of a run that continues at an allocation with the given seconds per unit, after a
// further delay and expense, plus three times the relative excess over its limits.
func (b *evaluation) runLoss(sc scale, a resources.Allocation, unit, seconds, usd float64) float64 {
	s := b.forecast.s
	seconds, usd = seconds+unit, usd+unit/3600*float64(s.Rates.Hourly(a))
	over := 0.0
	if !b.forecast.perUnit {
		left := max(0, s.Total-s.Done-1)
		seconds, usd = seconds+s.Elapsed.Seconds()+left*unit, usd+float64(s.Spent)+left*unit/3600*float64(s.Rates.Hourly(a))
		over = excess(seconds, lessReserve(s.Spec.TimeMax.Seconds(), s.Reserve.Seconds())) +
			excess(usd, lessReserve(s.Spec.CostMaxUSD, s.Reserve.Hours()*float64(s.Rates.Hourly(a))))
	}
	return sc.regret([3]float64{seconds, usd, b.forecast.heldShare(a)}, b.preference) + 3*over
}

// withoutProbe returns the allocation at which the job continues without a further measurement.
func (b *evaluation) withoutProbe() resources.Allocation {
	s := b.forecast.s
	p, err := b.decide("")
	var no *Infeasible
	if errors.As(err, &no) {
		p = no.Plan
	} else if err != nil {
		p = Plan{Allocation: s.Baseline}
	}
	return StayUnlessWorth(s, p).Allocation
}

// delayTo returns the expected time to reach an allocation, in seconds.
func (b *evaluation) delayTo(a resources.Allocation) float64 {
	switch b.forecast.moveTo(a) {
	case begin, again:
		return b.forecast.s.Startup.P50
	case restart:
		return b.forecast.s.Restart.P50
	}
	return 0
}

// expectedLoss returns the mean of runLoss at an allocation where work begins after the given delay, in seconds.
func (b *evaluation) expectedLoss(sc scale, a resources.Allocation, seconds float64) float64 {
	draws, usd := b.forecast.s.Model.Draws(a), seconds/3600*float64(b.forecast.s.Rates.Hourly(a))
	sum := 0.0
	for _, u := range draws {
		sum += b.runLoss(sc, a, u, seconds, usd)
	}
	return sum / float64(len(draws))
}

// probeCost returns a function that computes how much a probe adds to the loss of a run that works at plan: the
// restart, a few units of work done at the probe instead of at plan and, for a job that cannot be resumed, the
// repeated work.
func (b *evaluation) probeCost(sc scale, plan resources.Allocation) func(resources.Allocation) float64 {
	s := b.forecast.s
	draws := s.Model.Draws(plan)
	loss := func(seconds, usd float64) float64 {
		sum := 0.0
		for _, u := range draws {
			sum += b.runLoss(sc, plan, u, seconds, usd)
		}
		return sum / float64(len(draws))
	}
	here := loss(0, 0)
	there, hourlyThere := s.Model.UnitSeconds(plan).P50, float64(s.Rates.Hourly(plan))
	return func(a resources.Allocation) float64 {
		unit, hourly := s.Model.UnitSeconds(a).P50, float64(s.Rates.Hourly(a))
		seconds := s.Restart.P50 + s.probeUnits(unit)*(unit-there)
		usd := (s.Restart.P50*hourly + s.probeUnits(unit)*(unit*hourly-there*hourlyThere)) / 3600
		if !s.Resumable { // completed work is repeated
			again := s.Done + s.probeUnits(unit)
			seconds, usd = seconds+again*there, usd+again*there*hourlyThere/3600
		}
		return probeWeight * (loss(seconds, usd) - here)
	}
}

// MeasuredInterval returns an interval for a few measurements: their range, widened for a small number of them.
func MeasuredInterval(v []float64) sla.Interval {
	if len(v) == 0 {
		return sla.Interval{}
	}
	m, n := stat.Median(v), float64(len(v))
	lo, hi, widen := slices.Min(v), slices.Max(v), 1+1/n
	return sla.Interval{P5: math.Max(0, m-(m-lo)*widen-0.1*m/n), P50: m, P95: m + (hi-m)*widen + 0.5*m/n}
}

// LongUnit is the duration from which one measured unit of work suffices.
const LongUnit = 30 * time.Second

// probeUnits returns the units of work of a probe, given the seconds of a unit: one to warm up, and one long unit or two
// short ones, or as many as fill ProbeTime.
func (s Snapshot) probeUnits(seconds float64) float64 {
	timed := 2.0
	if seconds >= LongUnit.Seconds() {
		timed = 1
	}
	return 1 + max(timed, s.ProbeTime.Seconds()/seconds)
}

// probeWeight is the multiple of its cost that a probe must be expected to win back, since expected gains are
// optimistic.
const probeWeight = 2
