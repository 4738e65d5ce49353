// Package bandit chooses, again and again, among a few options whose cost is only learned by paying it: multi-armed
// bandits by Thompson sampling, with failures, early stopping and forgetting.
//
// It is for jobs that recur, where each recurrence can try one arm. It knows nothing of jobs, and it is not for choices
// within one episode, where what is done now changes what comes later (morl is).
//
// The state of a bandit is the list of what was observed and nothing else, so it can be rebuilt from any history.
//
// Example:
//
//	b, err := bandit.New(5, bandit.Settings{Default: 3})
//	if err != nil { … }
//	rng := rand.New(rand.NewPCG(1, 2))
//	for range 50 {
//		pull := b.Next(rng)
//		cost, stopped := try(pull.Arm, b.Threshold(pull.Arm)) // gives up when the cost reaches the threshold
//		err = b.Observe(bandit.Observation{Arm: pull.Arm, Cost: cost, Stopped: stopped})
//	}
//	arm, ok := b.Best()
package bandit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// Observation is what one pull of an arm cost.
type Observation struct {
	Arm int `json:"arm"`
	// Cost is positive, in any unit, the same for all.
	Cost float64 `json:"cost"`
	// Stopped says that the pull did not succeed: it was given up when it had cost Cost, so its true cost is more.
	Stopped bool `json:"stopped,omitempty"`
}

// Settings tune a bandit; the zero value is that of Zeus (You, Chung and Chowdhury, NSDI 2023, section 4.4).
type Settings struct {
	// Default is the arm that would be taken without a bandit: it is pulled first, and pruning goes outwards from it.
	Default int
	// Rounds is how often every arm is tried, from the default outwards, before sampling begins, and arms that fail are
	// dropped; 0 is 2, negative is none. Arms must be in an order in which failure is likely to spread (batch sizes).
	Rounds int
	// Beta is the multiple of the least cost known at which a pull is given up; 0 is 2, else it must be above 1.
	Beta float64
	// Window is how many of the latest observations count, failures and pruning included; 0 is all of them. With a window,
	// arms that left it are unknown again and are tried again, which is what follows a drift and what it costs.
	Window int
	// Spread is the standard deviation of one arm's costs, relative to their mean, that is expected before anything is
	// known; it weighs as one observation an arm. 0 is 0.1.
	Spread float64
	// Positions, one an arm, place the arms on a line: arms that are near have similar costs, so that a pull tells of its
	// neighbours too. nil keeps the arms independent. See smooth.go.
	Positions []float64
	// Length is the distance between positions over which costs stay similar; 0 is 3.
	Length float64
}

// Pull is the choice of an arm.
type Pull struct {
	Arm int
	// Round is the pruning round (from 1) that asks for it, 0 when it was sampled.
	Round int
}

// Thompson is a Thompson-sampling bandit (Thompson 1933) that minimises cost. Make one with New or Load.
// It is not safe for concurrent use.
type Thompson struct {
	arms     int
	settings Settings
	history  []Observation
	beliefs  []Belief // of the history; nil: not worked out yet
}

// New makes a bandit of the given number of arms (at least 1) that has seen nothing.
func New(arms int, s Settings) (*Thompson, error) {
	var errs []error
	if arms < 1 {
		errs = append(errs, fmt.Errorf("%d arms, want at least 1", arms))
	}
	if s.Default < 0 || s.Default >= max(arms, 1) {
		errs = append(errs, fmt.Errorf("the default is arm %d of %d", s.Default, arms))
	}
	if s.Beta != 0 && !(s.Beta > 1) || math.IsInf(s.Beta, 1) {
		errs = append(errs, fmt.Errorf("beta is %g, want more than 1", s.Beta))
	}
	if s.Window < 0 || !(s.Spread >= 0) || !(s.Length >= 0) || math.IsInf(s.Spread, 1) || math.IsInf(s.Length, 1) {
		errs = append(errs, fmt.Errorf("window %d, spread %g and length %g must be finite and not negative", s.Window, s.Spread, s.Length))
	}
	if s.Positions != nil && len(s.Positions) != arms {
		errs = append(errs, fmt.Errorf("%d positions for %d arms", len(s.Positions), arms))
	}
	for _, x := range s.Positions {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			errs = append(errs, fmt.Errorf("position %g is not a number on a line", x))
		}
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

func orElse(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// Observe takes note of a pull. It refuses an arm that does not exist and a cost that is not positive and finite.
func (t *Thompson) Observe(o Observation) error {
	if o.Arm < 0 || o.Arm >= t.arms {
		return fmt.Errorf("observe arm %d: there are %d", o.Arm, t.arms)
	}
	if !(o.Cost > 0) || math.IsInf(o.Cost, 1) {
		return fmt.Errorf("observe arm %d: cost %g, want a positive number", o.Arm, o.Cost)
	}
	t.history, t.beliefs = append(t.history, o), nil
	return nil
}

// History is a copy of everything observed, in order.
func (t *Thompson) History() []Observation { return slices.Clone(t.history) }

// Arms is the number of arms.
func (t *Thompson) Arms() int { return t.arms }

// recent are the observations that count.
func (t *Thompson) recent() []Observation {
	if w := t.settings.Window; w > 0 && len(t.history) > w {
		return t.history[len(t.history)-w:]
	}
	return t.history
}

// Threshold is the cost at which a pull of an arm should be given up; +Inf before any pull has succeeded. Independent arms:
// Beta times the least cost of a pull that succeeded, as published. With positions: Beta times the cost believed of the
// best arm, or of the arm itself where it has succeeded before and is dearer, as giving up what is known to succeed gains
// nothing.
func (t *Thompson) Threshold(arm int) float64 {
	if t.settings.Positions == nil {
		return t.settings.Beta * leastCost(t.recent())
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

// leastCost is that of the pulls that succeeded; +Inf when none did.
func leastCost(obs []Observation) float64 {
	least := math.Inf(1)
	for _, o := range obs {
		if !o.Stopped {
			least = min(least, o.Cost)
		}
	}
	return least
}

// Next chooses the arm to pull: what pruning still asks for, else the arm with the least cost in one joint draw from the
// beliefs. The same history and generator state choose the same arm. O(observations + arms); O(arms³) with positions.
func (t *Thompson) Next(rng *rand.Rand) Pull {
	obs := t.recent()
	if len(obs) == 0 {
		return Pull{Arm: t.settings.Default, Round: min(1, t.settings.Rounds)}
	}
	kept, next := t.prune(obs)
	if next.Round > 0 {
		return next
	}
	return Pull{Arm: argmin(t.draw(obs, kept, rng), kept)}
}

// argmin is the first least value among the arms that are kept.
func argmin(v []float64, kept []bool) int {
	best := -1
	for a, x := range v {
		if kept[a] && (best < 0 || x < v[best]) {
			best = a
		}
	}
	return best
}

// Best is the arm whose expected cost is least by what is known now: what to settle on. ok is false while no pull has
// succeeded; the arm is then the default.
func (t *Thompson) Best() (arm int, ok bool) {
	best, least := t.settings.Default, math.Inf(1)
	for a, b := range t.believed() {
		if b.Pulls > b.Stopped && !b.Dropped && b.Mean < least {
			best, least = a, b.Mean
		}
	}
	return best, !math.IsInf(least, 1)
}

// MarshalJSON writes the observations, a list of {arm, cost, stopped}: all the state there is.
func (t *Thompson) MarshalJSON() ([]byte, error) {
	if t.history == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(t.history)
}

// Save writes the state as JSON; see MarshalJSON.
func (t *Thompson) Save(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(t); err != nil {
		return fmt.Errorf("save a bandit of %d observations: %w", len(t.history), err)
	}
	return nil
}

// Load makes a bandit from what Save wrote.
func Load(r io.Reader, arms int, s Settings) (*Thompson, error) {
	t, err := New(arms, s)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var obs []Observation
	if err := d.Decode(&obs); err != nil {
		return nil, fmt.Errorf("load a bandit: %w", err)
	}
	for i, o := range obs {
		if err := t.Observe(o); err != nil {
			return nil, fmt.Errorf("load a bandit: observation %d: %w", i+1, err)
		}
	}
	return t, nil
}
