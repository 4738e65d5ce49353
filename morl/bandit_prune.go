package morl

import "math"

// try is the outcome of one pull: whether the arm failed, and whether the failure implies that the arms beyond it
// fail too. It does not before any pull has succeeded, since the good arms may then lie beyond.
type pullResult struct{ failed, beyond bool }

// prune replays the pruning phase on the observations (Zeus, section 4.4): in every round arms are tried outwards
// from the start, first down, then up; a failing arm is dropped together with all arms beyond it. The first round
// starts at the default, each later one at the cheapest arm so far. It returns the arms that are kept and the next
// required pull, of round 0 when pruning is complete. Observations in another order, from other users of the same
// history, are valid: round r evaluates an arm by its r-th observation. O(observations + rounds × arms).
func (t *Thompson) prune(obs []PullOutcome) (kept []bool, next Pull) {
	tries := make([][]pullResult, t.arms)
	least, best := math.Inf(1), t.settings.Default
	for _, o := range obs {
		failed := o.Stopped || o.Cost >= t.settings.Beta*least
		tries[o.Arm] = append(tries[o.Arm], pullResult{failed, failed && !math.IsInf(least, 1)})
		if !o.Stopped && o.Cost < least {
			least, best = o.Cost, o.Arm
		}
	}
	kept = make([]bool, t.arms)
	for a := range kept {
		kept[a] = true
	}
	start := t.settings.Default
	for round := range t.settings.Rounds {
		if next, asked := walk(tries, kept, start, round); asked {
			return kept, Pull{Arm: next, Round: round + 1}
		}
		start = best
	}
	for _, k := range kept {
		if k {
			return kept, Pull{}
		}
	}
	kept[best] = true // all arms failed: keep the cheapest known one, or the default
	return kept, Pull{}
}

// walk replays one round: it drops failed arms and returns the first arm that was not tried yet.
func walk(tries [][]pullResult, kept []bool, start, round int) (next int, asked bool) {
	if kept[start] {
		if len(tries[start]) <= round {
			return start, true
		}
		kept[start] = !tries[start][round].failed
	}
	for _, step := range [2]int{-1, 1} {
		ended := false
		for a := start + step; a >= 0 && a < len(kept); a += step {
			switch {
			case !kept[a]:
			case ended:
				kept[a] = false
			case len(tries[a]) <= round:
				return a, true
			case tries[a][round].failed:
				kept[a], ended = false, tries[a][round].beyond
			}
		}
	}
	return 0, false
}
