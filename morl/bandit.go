package morl

// Thompson is a multi-armed bandit with Thompson sampling: repeated choices among a few options whose
// cost is only observed by paying it, with failures, early stopping and a sliding window for drift.
//
// It is for recurring jobs, where each recurrence can try one arm, but it is independent of jobs. It is not for
// decisions within one episode that affect later ones; the agents are.
//
// The only state of a bandit is the list of its observations, so it can be rebuilt from any history.
//
// Example:
//
//	b, err := morl.NewThompson(5, morl.ThompsonSettings{Default: 3})
//	if err != nil { … }
//	rng := rand.New(rand.NewPCG(1, 2))
//	for range 50 {
//		pull := b.Next(rng)
//		cost, stopped := try(pull.Arm, b.Threshold(pull.Arm)) // stops when the cost reaches the threshold
//		err = b.Observe(morl.PullOutcome{Arm: pull.Arm, Cost: cost, Stopped: stopped})
//	}
//	arm, ok := b.Best()

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/internal/wording"
)

// PullOutcome is the result of one pull of an arm.
type PullOutcome struct {
	Arm int
	// Cost is positive, in a unit common to all observations.
	Cost float64
	// Stopped reports that the pull was stopped without success after it had cost Cost, so its true cost is higher.
	Stopped bool
}

// ThompsonSettings tune a bandit; the zero value is that of Zeus (You, Chung and Chowdhury, NSDI 2023, section 4.4).
type ThompsonSettings struct {
	// Default is the arm used without a bandit: it is pulled first, and pruning proceeds outwards from it.
	Default int
	// Rounds is the number of pruning rounds, in which every arm is tried outwards from the default and failing arms
	// are dropped, before sampling starts; 0 means 2, negative none. Arms must be ordered so that failures are likely
	// to spread to outer arms (batch sizes).
	Rounds int
	// Beta is the multiple of the smallest known cost at which a pull is stopped; 0 means 2, else it must be above 1.
	Beta float64
	// Spread is the prior standard deviation of the costs of one arm, relative to their mean; it has the weight of
	// one observation per arm. 0 means 0.1.
	Spread float64
	// Positions, one per arm, place the arms on a line: nearby arms have similar costs, so a pull also carries
	// information about its neighbours. nil keeps the arms independent. See smooth.go.
	Positions []float64
	// Length is the distance between positions over which costs remain similar; 0 means 3.
	Length float64
}

// Pull is the choice of an arm.
type Pull struct {
	Arm int
	// Round is the pruning round (from 1) that requires the pull, 0 if it was sampled.
	Round int
}

// Thompson is a Thompson-sampling bandit (Thompson 1933) that minimises cost. It is created by New and not
// safe for concurrent use.
type Thompson struct {
	arms     int
	settings ThompsonSettings
	history  []PullOutcome
	beliefs  []armBelief // derived from history; nil: not computed yet
}

// NewThompson returns a bandit with the given number of arms (at least 1) and no observations.
func NewThompson(arms int, s ThompsonSettings) (*Thompson, error) {
	var errs wording.Problems
	errs.If(arms < 1, "%d arms, want at least 1", arms)
	errs.If(s.Default < 0 || s.Default >= max(arms, 1), "the default is arm %d of %d", s.Default, arms)
	errs.If(s.Beta != 0 && !(s.Beta > 1) || math.IsInf(s.Beta, 1), "beta is %g, want more than 1", s.Beta)
	errs.If(!(s.Spread >= 0) || !(s.Length >= 0) || math.IsInf(s.Spread, 1) || math.IsInf(s.Length, 1), "spread %g and length %g must be finite and not negative", s.Spread, s.Length)
	errs.If(s.Positions != nil && len(s.Positions) != arms, "%d positions for %d arms", len(s.Positions), arms)
	for _, x := range s.Positions {
		errs.If(math.IsNaN(x) || math.IsInf(x, 0), "position %g is not a number on a line", x)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("make a bandit: %w", errors.Join(errs...))
	}
	s.Rounds = map[bool]int{true: 2, false: max(s.Rounds, 0)}[s.Rounds == 0]
	s.Beta = orElse(s.Beta, 2)
	s.Spread = orElse(s.Spread, 0.1)
	s.Length = orElse(s.Length, 3)
	s.Positions = slices.Clone(s.Positions)
	return &Thompson{arms: arms, settings: s}, nil
}

// orElse returns v, or otherwise if v is 0.
func orElse(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// Observe records a pull. An arm that does not exist, or a cost that is not positive and finite, is an error.
func (t *Thompson) Observe(o PullOutcome) error {
	if o.Arm < 0 || o.Arm >= t.arms {
		return fmt.Errorf("observe arm %d: there are %d", o.Arm, t.arms)
	}
	if !(o.Cost > 0) || math.IsInf(o.Cost, 1) {
		return fmt.Errorf("observe arm %d: cost %g, want a positive number", o.Arm, o.Cost)
	}
	t.history, t.beliefs = append(t.history, o), nil
	return nil
}

// Threshold returns the cost at which a pull of an arm should be stopped; +Inf before any pull has succeeded. With
// independent arms it is Beta times the smallest cost of a successful pull, as published. With positions it is Beta
// times the believed cost of the best arm, or of the arm itself if that has succeeded before and is more expensive,
// since stopping a pull that is known to succeed gains nothing.
func (t *Thompson) Threshold(arm int) float64 {
	if t.settings.Positions == nil {
		return t.settings.Beta * leastCost(t.history)
	}
	best, ok := t.Best()
	if !ok {
		return math.Inf(1)
	}
	beliefs := t.believed()
	worth := beliefs[best].Mean
	if own := beliefs[arm]; own.Pulls > own.Stopped {
		worth = max(worth, own.Mean)
	}
	return t.settings.Beta * worth
}

// leastCost returns the smallest cost of a successful pull; +Inf if none succeeded.
func leastCost(obs []PullOutcome) float64 {
	least := math.Inf(1)
	for _, o := range obs {
		if !o.Stopped {
			least = min(least, o.Cost)
		}
	}
	return least
}

// Next returns the arm to pull: the one that pruning requires, else the arm with the smallest cost in one joint draw
// from the beliefs. It is deterministic given the history and the state of rng. O(observations + arms); O(arms³) with
// positions.
func (t *Thompson) Next(rng *rand.Rand) Pull {
	obs := t.history
	if len(obs) == 0 {
		return Pull{Arm: t.settings.Default, Round: min(1, t.settings.Rounds)}
	}
	kept, next := t.prune(obs)
	if next.Round > 0 {
		return next
	}
	return Pull{Arm: argmin(t.draw(obs, rng), kept)}
}

// argmin returns the index of the smallest value among the arms that are kept, the first of equals.
func argmin(v []float64, kept []bool) int {
	best := -1
	for a, x := range v {
		if kept[a] && (best < 0 || x < v[best]) {
			best = a
		}
	}
	return best
}

// caution is the number of standard deviations by which Best moves beliefs up with positions: an arm with one lucky pull
// does not replace one that is well known. Of 0, 1/2, 1 and 2 it settles soonest on the jobs of Zeus.
const caution = 2

// Best returns the arm with the smallest expected cost according to the current beliefs; with positions, with the
// smallest upper bound of it. ok is false, and the arm the default, while no pull has succeeded.
func (t *Thompson) Best() (arm int, ok bool) {
	best, least := t.settings.Default, math.Inf(1)
	for a, b := range t.believed() {
		worst := b.Mean
		if t.settings.Positions != nil {
			worst += caution * b.SD
		}
		if b.Pulls > b.Stopped && !b.Dropped && worst < least {
			best, least = a, worst
		}
	}
	return best, !math.IsInf(least, 1)
}
