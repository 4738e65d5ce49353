package plan

import (
	"errors"
	"slices"
	"time"

	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// NextProbe says which of the affordable allocations to measure next, and why; nil when nothing is worth measuring. A
// probe must be expected to improve the choice, in the preference's regret and with missed limits counted, by more
// than it costs itself: the restarts, and a few units of work done there and not at the best choice known.
func NextProbe(s Snapshot, measured []perf.Observation, affordable []resources.Allocation) (*resources.Allocation, string) {
	switch {
	case s.Model == nil || len(affordable) == 0:
		return nil, ""
	case s.Current != nil && !s.Resumable && !s.Restartable:
		return nil, "" // it would have to be started again
	case !MayProbe(s):
		return nil, "" // the last move is kept for the way back
	}
	b := newBoard(s)
	fallback := b.fallback()
	affordable = slices.DeleteFunc(slices.Clone(affordable), func(a resources.Allocation) bool { return !b.spared(a, fallback) })
	among := where(b.cs, feasible)
	if len(among) == 0 {
		among = where(b.cs, finite)
	}
	if len(among) == 0 {
		return nil, ""
	}
	sc := scaleOf(pointsOf(b.cs), frontAmong(b.cs, among))
	options := perf.ProbeOptions{MinGain: 0.005, Choices: b.afterProbe(),
		Loss: func(a resources.Allocation, unit float64) float64 { return b.runLoss(sc, a, unit, 0, 0) }}
	if !b.forecast.perUnit {
		plan := b.withoutProbe()
		without := b.expectedLoss(sc, plan, b.delayTo(plan))
		options.Without, options.Cost = &without, b.probeCost(sc, plan)
		options.Onward = func(a resources.Allocation, unit float64) float64 {
			return b.runLoss(sc, a, unit, s.Restart.P50, s.Restart.P50/3600*float64(s.Rates.Hourly(a)))
		}
	}
	var at []resources.Allocation
	for _, o := range measured {
		at = append(at, o.Allocation)
	}
	probe := perf.NextProbe(s.Model, affordable, at, options)
	if probe == nil {
		return nil, ""
	}
	return &probe.Allocation, probe.Reason
}

// fallback is the position of what the job returns to when a probe shows nothing: the user's own configuration where it
// is likely to keep the agreement, else the choice among what does, -1 when nothing does.
func (b *board) fallback() int {
	if b.baseline >= 0 && finite(b.cs[b.baseline]) && b.outcomes[b.baseline].odds() >= likely {
		return b.baseline
	}
	return choose(b.cs, where(b.cs, feasible), b.preference, b.current)
}

// runLoss is the regret of a run with a given rest at an allocation, at given seconds per unit and after a further delay
// and expense, with three times the relative excess over its limits.
func (b *board) runLoss(sc scale, a resources.Allocation, unit, seconds, usd float64) float64 {
	s := b.forecast.s
	seconds, usd = seconds+unit, usd+unit/3600*float64(s.Rates.Hourly(a))
	over := 0.0
	if !b.forecast.perUnit {
		left := max(0, s.Total-s.Done-1)
		seconds, usd = seconds+s.Elapsed.Seconds()+left*unit, usd+float64(s.Spent)+left*unit/3600*float64(s.Rates.Hourly(a))
		over = excess(seconds, short(s.Spec.TimeMax.Seconds(), s.Reserve.Seconds())) +
			excess(usd, short(s.Spec.CostMaxUSD, s.Reserve.Hours()*float64(s.Rates.Hourly(a))))
	}
	return sc.regret([3]float64{seconds, usd, b.forecast.heldShare(a)}, b.preference) + 3*over
}

// withoutProbe is where the job works if nothing more is measured.
func (b *board) withoutProbe() resources.Allocation {
	s := b.forecast.s
	p, err := b.decide("")
	var no *Infeasible
	if errors.As(err, &no) {
		p = no.Plan
	} else if err != nil {
		p = Plan{Allocation: s.Baseline}
	}
	return Settle(s, p).Allocation
}

// afterProbe are the allocations that a job may go on to from one more measurement: any while a move remains for the way
// back, else only what this run has measured.
func (b *board) afterProbe() []resources.Allocation {
	s := b.forecast.s
	all := Allocations(s)
	if moves(s)+1 < maxMoves-1 {
		return all
	}
	return slices.DeleteFunc(all, func(a resources.Allocation) bool { return !measuredAt(s, a) })
}

// delayTo is the expected time to get to an allocation, seconds.
func (b *board) delayTo(a resources.Allocation) float64 {
	switch b.forecast.moveTo(a) {
	case begin, again:
		return b.forecast.s.Startup.P50
	case restart:
		return b.forecast.s.Restart.P50
	}
	return 0
}

// expectedLoss is the mean of runLoss at an allocation where work begins after a delay, seconds.
func (b *board) expectedLoss(sc scale, a resources.Allocation, seconds float64) float64 {
	draws, usd := b.forecast.s.Model.Draws(a), seconds/3600*float64(b.forecast.s.Rates.Hourly(a))
	sum := 0.0
	for _, u := range draws {
		sum += b.runLoss(sc, a, u, seconds, usd)
	}
	return sum / float64(len(draws))
}

// probeCost is what measuring at an allocation adds to the loss of a run that works at plan: the restart to go there, a
// few units of work done there and not at the plan, and, where the job cannot be resumed, all that is done again.
func (b *board) probeCost(sc scale, plan resources.Allocation) func(resources.Allocation) float64 {
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
		seconds := s.Restart.P50 + probeUnits(unit)*(unit-there)
		usd := (s.Restart.P50*hourly + probeUnits(unit)*(unit*hourly-there*hourlyThere)) / 3600
		if !s.Resumable { // what is done until then is done again
			again := s.Done + probeUnits(unit)
			seconds, usd = seconds+again*there, usd+again*there*hourlyThere/3600
		}
		return probeWeight * (loss(seconds, usd) - here)
	}
}

// LongUnit is the length from which one unit of work is measurement enough.
const LongUnit = 30 * time.Second

// probeUnits is how many units of work tell the pace: one to warm up, and one that is long, or two.
func probeUnits(seconds float64) float64 {
	if seconds >= LongUnit.Seconds() {
		return 2
	}
	return 3
}

// probeWeight is how many times a probe must be expected to win back what it costs: expected gains are optimistic.
const probeWeight = 2
