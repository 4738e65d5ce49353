package plan

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/floats"

	"trainopt/resources"
)

// slack is the relative slowdown against the baseline that a choice may have while the baseline is held.
const slack = 0.02

// minBetterProbability is the probability with which a plan must be better than the baseline.
const minBetterProbability = 0.65

// holdMinChance is the chance of meeting the SLA from which the baseline is held against slower candidates.
const holdMinChance = 0.8

// baselineHeld reports whether candidates slower than the baseline are excluded: the baseline meets the SLA with a
// probability of at least odds, and either the snapshot requests it (HoldBaseline) or the preference is time alone.
func (b *evaluation) baselineHeld(odds float64) bool {
	return b.baseline >= 0 && finite(b.cs[b.baseline]) && b.outcomes[b.baseline].odds() >= odds &&
		(b.forecast.s.HoldBaseline || b.preference == Preference{Time: 1})
}

// excludeSlower excludes candidates that are slower than the baseline for the rest of the run. Meeting the SLA takes
// precedence: if only slower candidates meet it, none is excluded. O(candidates).
func (b *evaluation) excludeSlower() {
	if !b.baselineHeld(holdMinChance) {
		return
	}
	elapsed := b.forecast.s.Elapsed.Seconds()
	if b.forecast.perUnit {
		elapsed = 0
	}
	own := b.cs[b.baseline].Seconds.P50 - elapsed
	slower := func(c Candidate) bool { return c.Seconds.P50-elapsed > (1+slack)*own }
	safe := where(b.cs, feasible)
	if len(safe) > 0 && !slices.ContainsFunc(safe, func(i int) bool { return !slower(b.cs[i]) }) {
		return
	}
	for i := range b.cs {
		if slower(b.cs[i]) {
			b.cs[i].Slower, b.cs[i].Feasible = true, false
			b.outcomes[i].Slower, b.outcomes[i].Feasible = true, false
		}
	}
}

// eligible returns the positions of the feasible candidates that may be chosen: reachable by a running job, not measured
// as worse in this run, and likely better than the baseline in the preference if the baseline meets the SLA. With an
// unknown total, only allocations measured in this run or before, and the baseline, are open. The baseline and the
// current allocation are open whenever feasible.
func (b *evaluation) eligible() []int {
	s, all := b.forecast.s, b.segments()
	safe := where(b.cs, feasible)
	sc := scaleOf(pointsOf(b.cs), frontAmong(b.cs, safe))
	var out []int
	for _, i := range safe {
		a := b.cs[i].Allocation
		switch {
		case i == b.baseline || i == b.current:
		case !b.reachable(a) || measuredWorse(s, all, a) || (b.forecast.perUnit || a.Threads > 0 || a.NumWorkers != s.Baseline.NumWorkers) && !b.wasMeasured(a):
			continue // the effect of threads and workers is not predicted, only measured
		case b.baseline >= 0 && feasible(b.cs[b.baseline]) && !b.beats(sc, i, b.baseline):
			continue
		}
		if b.reachable(a) {
			out = append(out, i)
		}
	}
	if len(out) == 0 && b.baselineHeld(holdMinChance) {
		return nil // no slower candidate may be chosen: see infeasible
	}
	if len(out) == 0 { // meeting the SLA takes precedence
		out = where(b.cs, func(c Candidate) bool { return feasible(c) && b.reachable(c.Allocation) })
	}
	return out
}

// beats reports whether i is likely better than j in the preference, or ties with j there and is likely better in the
// objective that breaks ties.
func (b *evaluation) beats(sc scale, i, j int) bool {
	if b.better(sc, i, j, b.preference) >= minBetterProbability {
		return true
	}
	ties := Preference{Cost: 1}
	if b.preference == ties {
		ties = Preference{Time: 1}
	}
	return loss(objectives(b.cs[i]), objectives(b.cs[j]), b.preference) <= tie && b.better(sc, i, j, ties) >= minBetterProbability
}

// wasMeasured reports whether an allocation was measured, in this run or before.
func (b *evaluation) wasMeasured(a resources.Allocation) bool {
	return slices.ContainsFunc(b.forecast.s.Model.Measured(), func(m resources.Allocation) bool {
		return m.SameShape(a)
	})
}

// reachable reports whether a running job may move to an allocation.
func (b *evaluation) reachable(a resources.Allocation) bool {
	return b.forecast.moveTo(a) != again
}

// better returns the probability that i is better than j in a preference.
func (b *evaluation) better(sc scale, i, j int, w Preference) float64 {
	x, y := &b.outcomes[i], &b.outcomes[j]
	n := 0.0
	for k := range x.seconds {
		if sc.regret([3]float64{x.seconds[k], x.usd[k], x.Resource}, w) < sc.regret([3]float64{y.seconds[k], y.usd[k], y.Resource}, w) {
			n++
		}
	}
	return n / float64(len(x.seconds))
}

// probeKeepsFallback reports whether a probe at an allocation leaves the fallback (see evaluation.fallback) at least 95
// % likely to meet the SLA, or as likely as now if that is less. If the baseline is held, the probe must also
// stay within the delay allowed to probes.
func (b *evaluation) probeKeepsFallback(a resources.Allocation, fallback int) bool {
	f, s := b.forecast, b.forecast.s
	if f.perUnit || fallback < 0 {
		return true
	}
	to := b.cs[fallback].Allocation
	there, back := s.Model.Draws(a), s.Model.Draws(to)
	units := min(s.probeUnits(s.Model.UnitSeconds(a).P50), s.Total-s.Done)
	hourly, hourlyBack := float64(s.Rates.Hourly(a))/3600, float64(s.Rates.Hourly(to))/3600
	timeMax, costMax := lessReserve(s.Spec.TimeMax.Seconds(), s.Reserve.Seconds()), lessReserve(s.Spec.CostMaxUSD, s.Reserve.Hours()*3600*hourlyBack)
	kept, delay := 0.0, 0.0
	for k := range there {
		probe, rest := units*there[k], (s.Total-s.Done-units)*back[k]
		if s.Current == nil || !s.Current.SameShape(a) {
			probe += f.restart[k]
		}
		if !a.SameShape(to) {
			rest += f.restart[k]
		}
		repeated, away := f.interrupted(k, probe+rest, back[k])
		seconds, usd := s.Elapsed.Seconds()+probe+rest+repeated+away, float64(s.Spent)+probe*hourly+(rest+repeated)*hourlyBack
		kept += asChance((timeMax <= 0 || seconds <= timeMax) && (costMax <= 0 || usd <= costMax))
		delay += probe + rest - (s.Total-s.Done)*back[k]
	}
	n := float64(len(there))
	if kept/n < min(feasibleProbability, b.cs[fallback].Chance) {
		return false
	}
	if !s.HoldBaseline || !b.baselineHeld(likelyChance) {
		return true
	}
	own := s.Model.UnitSeconds(s.Baseline).P50
	return behind(s, own)+delay/n <= heldDelay*s.Total*own
}

// heldDelay is the share of a run by which probes may put it behind the baseline if the caller holds the baseline.
const heldDelay = 0.02

// behind returns the seconds by which moves, and work away from the baseline, have delayed a run whose unit takes own
// seconds at the baseline. Interruptions do not count.
func behind(s Snapshot, own float64) float64 {
	seconds := float64(moves(s)) * s.Restart.P50
	for _, t := range s.Trials {
		if n := float64(len(t.UnitSeconds)); n > 0 && !t.Allocation.SameShape(s.Baseline) {
			seconds += cmp.Or(t.Units, n) * (floats.Sum(t.UnitSeconds)/n - own)
		}
	}
	return max(0, seconds)
}
