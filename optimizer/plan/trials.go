package plan

import (
	"fmt"
	"math"

	"trainopt/internal/stat"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// Trial is a segment of a run: its allocation and the measured seconds of each unit of work (or timed block), warm-up
// excluded. UnitSeconds is empty when the segment ended before a measurement.
type Trial struct {
	Allocation  resources.Allocation
	UnitSeconds []float64
	// Units are the units of work of the segment; 0 means as many as UnitSeconds.
	Units float64
}

const (
	// maxMoves is the maximum number of moves in a run none of which has gained, probes and reverts included. A measured
	// gain allows one more.
	maxMoves = 3
	// surely is the number of standard errors by which two paces must differ to count as different.
	surely = 2
	// wander is the relative standard deviation of the pace of a segment against the long run.
	wander = 0.02
)

// mergedSegment is a part of a run without a move; it may span several segments.
type mergedSegment struct {
	at   resources.Allocation
	pace float64 // median seconds per unit, NaN when not measured
	sd   float64 // of log pace
	rate float64 // see setRates
	// paced is the share of the weighted sum that is proportional to the pace: the relative change of the sum by that of the pace.
	paced float64
}

// mergeSegments merges consecutive trials at the same allocation.
func mergeSegments(s Snapshot) []mergedSegment {
	var out []mergedSegment
	var units []float64
	for _, t := range s.Trials {
		if n := len(out); n == 0 || !out[n-1].at.SameShape(t.Allocation) {
			out, units = append(out, mergedSegment{at: t.Allocation, pace: math.NaN()}), nil
		}
		for _, u := range t.UnitSeconds {
			if u > 0 && !math.IsInf(u, 0) {
				units = append(units, u)
			}
		}
		if len(units) == 0 {
			continue
		}
		last := &out[len(out)-1]
		last.pace = stat.Median(units)
		last.sd = math.Hypot(unitNoise(s)/math.Sqrt(float64(len(units))), wander)
	}
	return out
}

// unitNoise returns the relative noise of one unit of work, 5 % without a model.
func unitNoise(s Snapshot) float64 {
	if s.Model == nil {
		return 0.05
	}
	return s.Model.UnitNoise()
}

// rated returns the merged segments with their rates; see setRates.
func rated(s Snapshot) []mergedSegment {
	all := mergeSegments(s)
	if w := s.Preference.normalised(); s.Model != nil && len(all) > 1 && max(w.Time, w.Cost, w.Resource) < 1 {
		setRates(s, all, newEvaluation(s))
	} else {
		setRates(s, all, nil) // the scale of a single objective does not matter
	}
	return all
}

// segments returns the merged segments of the run with their rates.
func (b *evaluation) segments() []mergedSegment {
	if b.rated == nil {
		b.rated = mergeSegments(b.forecast.s)
		setRates(b.forecast.s, b.rated, b)
	}
	return b.rated
}

// setRates sets the rates of measured segments: the logarithm of the weighted sum of the seconds, USD and resource share of a
// unit of work, each relative to its least value among the feasible candidates of b, as in Select; without b, among the
// segments. Differences of rates are relative changes of what is preferred.
func setRates(s Snapshot, all []mergedSegment, b *evaluation) {
	if len(all) < 2 {
		return // nothing is compared
	}
	w := s.Preference.normalised()
	best := scale{math.Inf(1), math.Inf(1), math.Inf(1)}
	point := func(a resources.Allocation, pace float64) [3]float64 {
		return [3]float64{pace, pace * float64(s.Rates.Hourly(a)), perf.ResourceShare(a, s.Limits)}
	}
	extend := func(a resources.Allocation, pace float64) {
		for d, v := range point(a, pace) {
			if v < best[d] { // false for NaN
				best[d] = v
			}
		}
	}
	if b != nil {
		for _, i := range b.comparable() {
			extend(b.cs[i].Allocation, s.Model.UnitSeconds(b.cs[i].Allocation).P50)
		}
	}
	if math.IsInf(best[0], 1) {
		for _, x := range all {
			extend(x.at, x.pace)
		}
	}
	if w.Cost == 1 && best[1] == 0 { // without prices the time decides, as in Select
		w = Preference{Time: 1}
	}
	for i := range all {
		x := &all[i]
		p := point(x.at, x.pace)
		x.rate = math.Log1p(best.regret(p, w))
		for d, weight := range [2]float64{w.Time, w.Cost} {
			if best[d] > 0 {
				x.paced += weight * p[d] / best[d] / math.Exp(x.rate)
			}
		}
	}
}

// worse reports whether a measured stay is significantly worse than another in the preference, and better in no
// objective that the SLA limits.
func worse(s Snapshot, a, than mergedSegment) bool {
	if !(a.rate-than.rate > max(surely*math.Hypot(a.paced*a.sd, than.paced*than.sd), wander)) {
		return false
	}
	noise := surely * math.Hypot(a.sd, than.sd)
	slower := math.Log(a.pace / than.pace)
	dearer := slower + math.Log(float64(s.Rates.Hourly(a.at))/float64(s.Rates.Hourly(than.at)))
	timed := s.Spec.TimeMax > 0 || s.Spec.ThroughputMin > 0
	return !(timed && slower < -noise) && !(s.Spec.CostMaxUSD > 0 && dearer < -noise)
}

// moves returns the number of moves of the run so far, probes and reverts included.
func moves(s Snapshot) int { return max(0, len(mergeSegments(s))-1) }

// MovesLeft reports whether a run may still move. If not, Worth, StayUnlessWorth, Revert, RescueProbe and NextProbe all
// refuse.
func MovesLeft(s Snapshot) bool { return moves(s) < maxMoves || movesLeft(s, rated(s)) > 0 }

// MayProbe reports whether a running job may be probed again: a further move must remain to use the result.
func MayProbe(s Snapshot) bool { return moves(s) < maxMoves-1 || movesLeft(s, rated(s)) > 1 }

// movesLeft returns the number of moves that are left to a run with the given rated segments; a measured gain adds one.
func movesLeft(s Snapshot, all []mergedSegment) int {
	for _, x := range all {
		if worse(s, all[0], x) { // a gain
			return maxMoves + 2 - len(all)
		}
	}
	return maxMoves + 1 - len(all)
}

// measuredWorse reports whether this run measured an allocation as worse than another one; it is then not chosen again.
// The baseline and the current allocation are never excluded.
func measuredWorse(s Snapshot, all []mergedSegment, a resources.Allocation) bool {
	if a.SameShape(s.Baseline) || s.Current != nil && a.SameShape(*s.Current) {
		return false
	}
	for _, x := range all {
		if !x.at.SameShape(a) || math.IsNaN(x.pace) {
			continue
		}
		for _, y := range all {
			if !math.IsNaN(y.pace) && !y.at.SameShape(a) && worse(s, x, y) {
				return true
			}
		}
	}
	return false
}

// Revert returns the allocation to return to, with the reason, when the job runs significantly worse since its latest
// move; nil otherwise. It compares measured paces only and therefore needs no total. When the total is known, the
// remaining work must win back the restart, and of the measured allocations only those qualify that meet the SLA with
// 95 % probability, or as probably as the best of them. Revert also returns nil when no move is left.
func Revert(s Snapshot) (*resources.Allocation, string) {
	all := rated(s)
	if len(all) < 2 || s.Current == nil || movesLeft(s, all) < 1 {
		return nil, ""
	}
	here := all[len(all)-1]
	if !here.at.SameShape(*s.Current) || math.IsNaN(here.pace) {
		return nil, ""
	}
	f := newForecast(s)
	var best *mergedSegment
	for i, meets := range f.meeting(all) {
		if x := all[i]; meets && !x.at.SameShape(here.at) && (best == nil || x.rate < best.rate) {
			best = &all[i]
		}
	}
	if best == nil || !worse(s, here, *best) {
		return nil, ""
	}
	way := f.moveTo(best.at)
	if way == again {
		return nil, ""
	}
	if left := s.Total - s.Done; s.Total > 0 {
		gain := left * best.pace * math.Expm1(here.rate-best.rate)
		if way == restart && gain < s.Restart.P50 {
			return nil, ""
		}
	}
	return &best.at, fmt.Sprintf("going back: %s a unit measured at %s, %s at %s before", duration(here.pace), here.at, duration(best.pace), best.at)
}

// meeting marks the measured segments of a run at which the rest of the work meets the SLA with 95 % probability, or as
// probably as at the best of them. Without a model or a total it marks all measured ones.
func (f *forecast) meeting(all []mergedSegment) []bool {
	chances, least := make([]float64, len(all)), 0.0
	for i, x := range all {
		switch {
		case math.IsNaN(x.pace):
			chances[i] = -1
		case f.s.Model != nil && f.s.Total > 0:
			chances[i] = f.outcome(x.at).Chance
			least = max(least, chances[i])
		}
	}
	out := make([]bool, len(all))
	for i, c := range chances {
		out[i] = c >= min(feasibleProbability, least)
	}
	return out
}
