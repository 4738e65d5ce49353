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

// rate returns the expense of a unit of work in the preference: the weighted sum of the logarithms of seconds, USD
// and resource share. Differences of rates are relative changes.
func rate(s Snapshot, a resources.Allocation, pace float64) float64 {
	w := s.Preference.normalised()
	sum := (w.Time + w.Cost) * math.Log(pace)
	if hourly := float64(s.Rates.Hourly(a)); hourly > 0 {
		sum += w.Cost * math.Log(hourly)
	}
	if share := perf.ResourceShare(a, s.Limits); share > 0 {
		sum += w.Resource * math.Log(share)
	}
	return sum
}

// worse reports whether a measured stay is significantly worse than another in the preference, and better in no
// objective that the SLA limits.
func worse(s Snapshot, a, than mergedSegment) bool {
	w := s.Preference.normalised()
	noise := surely * math.Hypot(a.sd, than.sd)
	if !(rate(s, a.at, a.pace)-rate(s, than.at, than.pace) > max(noise*(w.Time+w.Cost), wander)) {
		return false
	}
	slower := math.Log(a.pace / than.pace)
	dearer := slower + math.Log(float64(s.Rates.Hourly(a.at))/float64(s.Rates.Hourly(than.at)))
	timed := s.Spec.TimeMax > 0 || s.Spec.ThroughputMin > 0
	return !(timed && slower < -noise) && !(s.Spec.CostMaxUSD > 0 && dearer < -noise)
}

// moves returns the number of moves of the run so far, probes and reverts included.
func moves(s Snapshot) int { return max(0, len(mergeSegments(s))-1) }

// MovesLeft reports whether a run may still move. If not, Worth, StayUnlessWorth, Revert, RescueProbe and NextProbe all
// refuse.
func MovesLeft(s Snapshot) bool { return movesLeft(s) > 0 }

// MayProbe reports whether a running job may be probed again: a further move must remain to use the result.
func MayProbe(s Snapshot) bool { return movesLeft(s) > 1 }

// movesLeft returns the number of moves that are left to a run; a measured gain adds one.
func movesLeft(s Snapshot) int {
	all := mergeSegments(s)
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
	all := mergeSegments(s)
	if len(all) < 2 || s.Current == nil || !MovesLeft(s) {
		return nil, ""
	}
	here := all[len(all)-1]
	if !here.at.SameShape(*s.Current) || math.IsNaN(here.pace) {
		return nil, ""
	}
	f := newForecast(s)
	var best *mergedSegment
	for i, meets := range f.meeting(all) {
		if x := all[i]; meets && !x.at.SameShape(here.at) && (best == nil || rate(s, x.at, x.pace) < rate(s, best.at, best.pace)) {
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
		gain := left * best.pace * math.Expm1(rate(s, here.at, here.pace)-rate(s, best.at, best.pace))
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
