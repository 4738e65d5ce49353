package bandit

import "math"

// try is how one pull went: whether the arm failed, and whether that also tells of the arms beyond it. It does not before
// anything has succeeded, as the good arms may then lie beyond.
type try struct{ failed, beyond bool }

// prune replays the pruning phase on what was observed (Zeus, section 4.4): in every round arms are tried from the start
// outwards, first down, then up; one that fails is dropped, with all beyond it. The first round starts at the default,
// each later one at the cheapest arm so far. It returns the arms that are kept and the pull that is asked for, of round 0
// when pruning is over. Observations in any other order, of other users of the same history, do no harm: round r
// judges an arm by its r-th observation. O(observations + rounds × arms).
func (t *Thompson) prune(obs []Observation) (kept []bool, next Pull) {
	tries := make([][]try, t.arms)
	least, best := math.Inf(1), t.settings.Default
	for _, o := range obs {
		failed := o.Stopped || o.Cost >= t.settings.Beta*least
		tries[o.Arm] = append(tries[o.Arm], try{failed, failed && !math.IsInf(least, 1)})
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
	kept[best] = true // everything failed: the cheapest known, or the default
	return kept, Pull{}
}

// walk is one round: it drops what failed and returns the first arm that was not tried yet.
func walk(tries [][]try, kept []bool, start, round int) (next int, asked bool) {
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
