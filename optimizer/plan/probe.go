package plan

import (
	"trainopt/resources"
	"trainopt/simulator/training"
)

// NextProbe says which of the affordable allocations to measure next, and why; nil when nothing is worth measuring. A
// probe must be expected to improve the choice, in the preference's regret and with missed limits counted, by more
// than it costs itself (two restarts and three units of work).
func NextProbe(s Snapshot, measured []training.Observation, affordable []resources.Allocation) (*resources.Allocation, string) {
	if s.Model == nil || len(affordable) == 0 {
		return nil, ""
	}
	b := newBoard(s)
	among := where(b.cs, feasible)
	if len(among) == 0 {
		among = where(b.cs, finite)
	}
	if len(among) == 0 {
		return nil, ""
	}
	sc := scaleOf(b.cs, frontAmong(b.cs, among))
	options := training.ProbeOptions{MinGain: max(0.005, b.probeRegret(sc)), Loss: b.expectedLoss(sc), Choices: Allocations(s)}
	var at []resources.Allocation
	for _, o := range measured {
		at = append(at, o.Allocation)
	}
	probe := training.NextProbe(s.Model, affordable, at, options)
	if probe == nil {
		return nil, ""
	}
	return &probe.Allocation, probe.Reason
}

// expectedLoss is the regret of a run at given seconds per unit, with three times the relative excess over its limits.
func (b *board) expectedLoss(sc scale) func(resources.Allocation, float64) float64 {
	s := b.forecast.s
	return func(a resources.Allocation, unit float64) float64 {
		seconds, money := unit, unit/3600*float64(s.Rates.Hourly(a))
		over := 0.0
		if !b.forecast.perUnit {
			left := max(0, s.Total-s.Done)
			seconds, money = s.Elapsed.Seconds()+left*seconds, float64(s.Spent)+left*money
			over = excess(seconds, s.Spec.TimeMax.Seconds()) + excess(money, s.Spec.CostMaxUSD)
		}
		return sc.regret([3]float64{seconds, money, training.ResourceShare(a, s.Limits)}, b.preference) + 3*over
	}
}

// probeRegret is what a probe costs, in regret.
func (b *board) probeRegret(sc scale) float64 {
	s := b.forecast.s
	if b.forecast.perUnit {
		return 0
	}
	unit := s.Model.UnitSeconds(s.Baseline).P50
	seconds := 2*s.Restart.P50 + 3*unit
	x := sc.best
	x[0] += seconds
	x[1] += seconds / 3600 * float64(s.Rates.Hourly(s.Baseline))
	return sc.regret(x, b.preference)
}
