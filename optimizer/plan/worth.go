package plan

import (
	"fmt"
	"math"
)

const (
	restartWeight = 1.5  // a move must win back this multiple of its cost
	leastGain     = 0.02 // and this fraction of the best run, in regret
	chanceGain    = 0.05 // or raise the probability of meeting the limits by this much, and by more than the relative loss
)

// Worth reports whether a move of the running job from Current to the plan's allocation pays for the restart, with
// the reason. The test uses paired draws over the remaining work and the regret of the preference. A move is worth it
// in either of two cases:
//
//   - it is better with a probability of at least minBetterProbability, and on average by at least 2 % even with the restart cost
//     multiplied by 1.5;
//   - the probability of meeting the limits rises by at least 5 points from below 95 % and, if the job is more likely
//     than not to meet them at Current, by more than the relative loss in the preference: 20 points for a fifth of
//     the cost.
//
// A move that endangers limits which Current meets is not worth it unless the plan has a Recourse. A move with an
// unmeasured restart cost or unknown remaining work is only recommended. A job without a checkpoint is not
// restarted. A run moves at most three times, probes and reverts included.
func Worth(s Snapshot, p Plan) (bool, string) {
	switch {
	case s.Current == nil:
		return true, "nothing runs yet"
	case s.Current.SameShape(p.Allocation):
		return false, "it runs there already"
	case s.Model == nil:
		return false, "nothing is measured yet"
	case !(s.Total > 0):
		return false, "the remaining work is unknown, so the gain cannot be weighed against a restart"
	}
	f := newForecast(s)
	if f.moveTo(p.Allocation) == again {
		return false, s.stays() + ", and is not started again by choice"
	}
	if !MovesLeft(s) {
		return false, fmt.Sprintf("it was moved %d times, and is not moved again by choice", moves(s))
	}
	if f.moveTo(p.Allocation) == restart && s.Restart.P50 <= 0 && s.Startup.P50 <= 0 {
		return false, "what a restart costs is not measured yet"
	}
	here, there := f.outcome(*s.Current), f.outcome(p.Allocation)
	if !finite(there.Candidate) {
		return false, "it cannot be predicted"
	}
	if more := there.Chance - here.Chance; here.Chance < feasibleProbability && more >= chanceGain &&
		(here.Chance < likelyChance || more >= loss(objectives(there.Candidate), objectives(here.Candidate), s.Preference.normalised())) {
		return true, fmt.Sprintf("the probability of meeting the SLA rises from %.0f %% to %.0f %% at %s", 100*here.Chance, 100*there.Chance, p.Allocation)
	}
	if p.Recourse == nil && (there.Chance < min(feasibleProbability, here.Chance) || here.Feasible && !there.Feasible) {
		return false, fmt.Sprintf("the probability of meeting the SLA would be %.0f %%, it is now %.0f %%", 100*there.Chance, 100*here.Chance)
	}
	return f.gain(s, p, here, there)
}

// StayUnlessWorth returns the plan of a running job after its measurements: the planner's, or the current allocation
// when the move is not Worth it.
func StayUnlessWorth(s Snapshot, p Plan) Plan {
	if s.Current == nil || s.Model == nil || s.Current.SameShape(p.Allocation) {
		return p
	}
	worth, why := Worth(s, p)
	if free := s.Resumable && s.Total > 0 && s.Restart.P50 <= 0 && s.Startup.P50 <= 0 && MovesLeft(s); worth || free { // restarts without cost
		return p
	}
	stayed := p.Chosen
	stayed.Allocation = *s.Current
	for _, c := range p.Candidates {
		if c.Allocation.SameShape(*s.Current) {
			stayed = c
		}
	}
	p.Reason = fmt.Sprintf("it stays at %s: %s", *s.Current, why)
	p.Allocation, p.Chosen, p.Recourse = stayed.Allocation, stayed, nil
	return p
}

// gain compares the remaining work at two allocations, draw by draw, and returns the verdict with its reason. The share
// of better draws, at the real restart cost, must reach minBetterProbability; the mean gain uses the cost multiplied by restartWeight.
func (f *forecast) gain(s Snapshot, p Plan, here, there outcome) (bool, string) {
	w := s.Preference.normalised()
	cs := append([]Candidate{here.Candidate, there.Candidate}, p.Candidates...)
	sc := scaleOf(pointsOf(cs), frontAmong(cs, where(cs, feasible)))
	if math.IsInf(sc[0], 0) {
		sc = scaleOf(pointsOf(cs), []int{0, 1})
	}
	slowSeconds, slowUSD := f.spend(p.Allocation, s.Model.Draws(p.Allocation), restartWeight)
	better, mean := 0, 0.0
	n := len(here.seconds)
	for k := range n {
		now := sc.regret([3]float64{here.seconds[k], here.usd[k], here.Resource}, w)
		if sc.regret([3]float64{there.seconds[k], there.usd[k], there.Resource}, w) < now {
			better++
		}
		mean += (now - sc.regret([3]float64{slowSeconds[k], slowUSD[k], there.Resource}, w)) / float64(n)
	}
	share := float64(better) / float64(n)
	words := fmt.Sprintf("%s instead of %s for the rest, the move included: %s, %s (better with %.0f %% probability)", p.Allocation, *s.Current,
		change(there.Seconds.P50-here.Seconds.P50, duration), change(there.CostUSD.P50-here.CostUSD.P50, usd), 100*share)
	switch {
	case share < minBetterProbability:
		return false, "not sure enough: " + words
	case mean < leastGain:
		return false, "the gain does not pay the restart: " + words
	}
	return true, words
}

// change formats a difference as "… less" or "… more".
func change(by float64, words func(float64) string) string {
	if by <= 0 {
		return words(-by) + " less"
	}
	return words(by) + " more"
}
