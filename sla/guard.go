package sla

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// Never is the time to a transition that will not come at the present rate.
const Never = time.Duration(math.MaxInt64)

// The guard kills at latest when a limit is exceeded by killShare, and asks for nothing that could end
// beyond hardShare.
const (
	killShare  = 1.005
	hardShare  = 1.01
	resolution = time.Millisecond // a transition nearer than this is due
)

// GuardOptions tunes a guard. The zero value warns at 80 and 95 %.
type GuardOptions struct {
	// WarnAt are the shares of a limit at whose use a warning is given, once each; nil means 0.8 and 0.95, an empty
	// slice none.
	WarnAt []float64
	// WarnProjectedAt are the shares of a limit at whose *projected* use (P50 at completion) a warning is
	// given, once each; nil means 1 (it will not fit), an empty slice none.
	WarnProjectedAt []float64
	// Latency is the longest delay between the moment for which a tick was due and the death of the job after a Kill; the
	// guard kills that much earlier where it would otherwise let the limit be exceeded by more than 1 %. 0 counts on an exact timer.
	Latency time.Duration
}

// Tick is what the guard is told. Elapsed and SpentUSD count from the first start of the run, over all restarts and probes.
type Tick struct {
	Elapsed time.Duration // monotonic; a step back is ignored
	// SpentUSD so far; NaN or a step back: the last known amount, carried on at the last known price.
	SpentUSD float64
	// USDPerHour is what the run costs now; NaN, infinite or negative: the last known price.
	USDPerHour float64
	// Reserve is the time that a checkpoint and an orderly exit are expected to take; 0 asks at the limit itself.
	Reserve time.Duration
	// Stopping says that the job is already on its way out, for whatever reason (a restart, the user): it has been
	// asked to save, and must not be asked again.
	Stopping bool
	// ProjectedUSD and ProjectedTime at completion (P50); 0 or NaN is unknown. They only ever lead to warnings.
	ProjectedUSD  float64
	ProjectedTime time.Duration
}

// Action is what the caller must do now.
type Action string

const (
	KeepGoing Action = "keep-going"
	// Checkpoint: ask the job to save and exit, and do not start it again. It is said once in the life of a run.
	Checkpoint Action = "checkpoint"
	// Kill: SIGKILL whatever is left, at once. It is said once.
	Kill Action = "kill"
)

// Warning says that a share of a limit has been reached.
type Warning struct {
	Objective Objective // Time or Cost
	Share     float64   // the threshold, as a share of the limit
	Projected bool      // by the projection; otherwise by what is used
	Words     string    // one sentence for people
}

// Decision is the guard's answer to one tick.
type Decision struct {
	Action Action
	// Limit is the limit that is the reason of a stop, Cost or Time; empty while there is none. It stays what it was
	// when the stop began.
	Limit Objective
	// AlreadyStopping goes with Checkpoint: the job was on its way out already, so send it nothing; only do not start it again.
	AlreadyStopping bool
	// Next is the time until the next transition at the present rate (Never: none): arm a timer for it, and tick again then or
	// when the rate, the reserve or the state changes.
	Next time.Duration
	// Warnings are those that became due with this tick.
	Warnings []Warning
	// Words says why, one sentence, when Action is not KeepGoing.
	Words string
}

// guardState is all that the guard remembers.
type guardState struct {
	Elapsed time.Duration   `json:"elapsed_ns"`
	Spent   float64         `json:"spent_usd"`    // best estimate
	Told    float64         `json:"told_usd"`     // the last amount that was told
	Rate    float64         `json:"usd_per_hour"` // −1: never known
	Reason  Objective       `json:"reason,omitempty"`
	Killed  bool            `json:"killed,omitempty"`
	Warned  map[string]bool `json:"warned,omitempty"`
}

// Guard decides by itself when a run must be stopped because its budget or its deadline is used up. It is a step machine without
// clock or goroutine: the caller ticks it, at the latest when Decision.Next has passed.
//
// For a limit L (USD or time), use u, use per second r and reserve R, it says
//
//	checkpoint  when u + r·R ≥ L, so that the job has saved and gone when L is reached
//	kill        when u ≥ min(1.005 L, 1.01 L − r·Latency), whether or not it is still saving
//
// so the limit is never exceeded by more than 1 % when ticks come in time. A run that is already there at its first tick is
// killed without a checkpoint. Each is said once, whatever crosses while the job is saving or restarting.
// Missing telemetry never delays it: what is not known is carried on from what was known last.
type Guard struct {
	budget   float64
	deadline time.Duration
	options  GuardOptions
	state    guardState
}

// NewGuard makes a guard for the deadline and the budget of an agreement (the other objectives stop nothing). A
// guard without either never stops anything. The error joins what is wrong with the agreement and the options.
func NewGuard(spec Spec, o GuardOptions) (*Guard, error) {
	problems := []error{spec.Validate()}
	if o.WarnAt == nil {
		o.WarnAt = []float64{0.8, 0.95}
	}
	if o.WarnProjectedAt == nil {
		o.WarnProjectedAt = []float64{1}
	}
	for _, list := range [][]float64{o.WarnAt, o.WarnProjectedAt} {
		for _, share := range list {
			if !finite(share) || share <= 0 {
				problems = append(problems, fmt.Errorf("warning threshold %g is not a share above 0", share))
			}
		}
	}
	if o.Latency < 0 {
		problems = append(problems, fmt.Errorf("guard latency %v is negative", o.Latency))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard{budget: spec.CostMaxUSD, deadline: spec.TimeMax, options: o, state: guardState{Rate: -1}}, nil
}

// State is what a restarted agent needs to go on with this guard: JSON, small.
func (g *Guard) State() []byte {
	data, err := json.Marshal(g.state)
	if err != nil {
		panic(fmt.Sprintf("guard state %+v: %v", g.state, err)) // all numbers in it are finite
	}
	return data
}

// Restore continues from State: what was used, what was warned of, and a stop once begun stays begun. Nothing
// changes when it returns an error.
func (g *Guard) Restore(state []byte) error {
	s := guardState{Rate: -1}
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("restore the guard: %w", err)
	}
	if s.Elapsed < 0 || s.Spent < 0 || s.Told < 0 || (s.Reason != "" && s.Reason != Time && s.Reason != Cost) || (s.Killed && s.Reason == "") {
		return fmt.Errorf("restore the guard: state %q makes no sense", state)
	}
	g.state = s
	return nil
}

// Stopped returns the limit for which the guard has asked the run to stop; empty when it has not.
func (g *Guard) Stopped() Objective { return g.state.Reason }

// Step takes one tick and decides.
func (g *Guard) Step(t Tick) Decision {
	g.observe(t)
	reserve := max(0, t.Reserve)
	d := Decision{Action: KeepGoing, Next: Never, Warnings: g.warnings(t)}
	uses := g.uses()
	kill, killDue := firstDue(uses, use.untilKill, g.options.Latency)
	save, saveDue := firstDue(uses, use.untilCheckpoint, reserve)
	switch {
	case g.state.Killed:
	case killDue:
		if g.state.Reason == "" {
			g.state.Reason = kill.objective
		}
		g.state.Killed = true
		d.Action, d.Words = Kill, kill.words("is reached", "killing the remaining processes")
	case g.state.Reason == "" && saveDue:
		g.state.Reason = save.objective
		d.Action, d.AlreadyStopping = Checkpoint, t.Stopping
		d.Words = save.words("is about to be reached", fmt.Sprintf("stopping now to leave %s for an orderly exit", span(reserve.Seconds())))
	}
	d.Limit = g.state.Reason
	d.Next = g.next(uses, reserve)
	return d
}

// observe takes what the tick knows and carries on what it does not.
func (g *Guard) observe(t Tick) {
	s := &g.state
	step := max(0, t.Elapsed-s.Elapsed)
	s.Elapsed += step
	if finite(t.SpentUSD) && t.SpentUSD >= s.Told {
		s.Spent, s.Told = t.SpentUSD, t.SpentUSD
	} else if s.Rate > 0 {
		s.Spent = min(s.Spent+s.Rate*step.Hours(), math.MaxFloat64)
	}
	if finite(t.USDPerHour) && t.USDPerHour >= 0 {
		s.Rate = t.USDPerHour
	} else if mean := s.Spent / s.Elapsed.Hours(); s.Rate < 0 && finite(mean) && mean > 0 {
		s.Rate = mean // no price was ever given: the mean so far
	}
}

// use is one limit and how much of it is gone, in its own unit.
type use struct {
	objective Objective
	limit     float64
	used      float64
	perSecond float64
}

func (g *Guard) uses() []use {
	var list []use
	if g.budget > 0 {
		list = append(list, use{Cost, g.budget, g.state.Spent, max(0, g.state.Rate) / 3600})
	}
	if g.deadline > 0 {
		list = append(list, use{Time, g.deadline.Seconds(), g.state.Elapsed.Seconds(), 1})
	}
	return list
}

// until is the time until the use reaches an amount; 0 when it has, Never when it will not.
func (u use) until(amount float64) time.Duration {
	left := amount - u.used
	switch {
	case left <= 0:
		return 0
	case u.perSecond <= 0:
		return Never
	}
	return seconds(left / u.perSecond)
}

func (u use) untilCheckpoint(reserve time.Duration) time.Duration {
	return u.until(u.limit - u.perSecond*reserve.Seconds())
}

func (u use) untilKill(latency time.Duration) time.Duration {
	return u.until(min(killShare*u.limit, hardShare*u.limit-u.perSecond*latency.Seconds()))
}

func (u use) words(state, then string) string {
	if u.objective == Time {
		return fmt.Sprintf("the deadline of %s %s (%s elapsed): %s", span(u.limit), state, span(u.used), then)
	}
	return fmt.Sprintf("the budget of $%g %s ($%.3g spent, at $%.3g/h): %s", u.limit, state, u.used, u.perSecond*3600, then)
}

// projectionWords compares a projection to completion with the limit.
func (u use) projectionWords(projected float64) string {
	text := fmt.Sprintf("projected finish after %s: ", span(projected))
	limit := "the deadline of " + span(u.limit)
	if u.objective == Cost {
		text, limit = fmt.Sprintf("projected cost $%.3g: ", projected), fmt.Sprintf("the budget of $%g", u.limit)
	}
	switch ratio := projected / u.limit; {
	case ratio >= 2:
		return text + fmt.Sprintf("%.1f times %s", ratio, limit)
	case ratio > 1:
		return text + fmt.Sprintf("%.0f %% over %s", 100*(ratio-1), limit)
	default:
		return text + fmt.Sprintf("%.0f %% of %s", 100*ratio, limit)
	}
}

// firstDue returns the first limit, the budget before the deadline, whose transition is due.
func firstDue(uses []use, until func(use, time.Duration) time.Duration, margin time.Duration) (use, bool) {
	for _, u := range uses {
		if until(u, margin) <= resolution {
			return u, true
		}
	}
	return use{}, false
}

// next is the time to the earliest transition still to come.
func (g *Guard) next(uses []use, reserve time.Duration) time.Duration {
	next := Never
	if g.state.Killed {
		return next
	}
	for _, u := range uses {
		next = min(next, u.untilKill(g.options.Latency))
		if g.state.Reason != "" {
			continue
		}
		next = min(next, u.untilCheckpoint(reserve))
		for _, share := range g.options.WarnAt {
			if !g.state.Warned[warnKey(u.objective, share, false)] {
				next = min(next, u.until(share*u.limit))
			}
		}
	}
	return next
}

func warnKey(o Objective, share float64, projected bool) string {
	return fmt.Sprintf("%s %g %t", o, share, projected)
}

// warnings returns those that are due and not yet given; none once the run is being stopped.
func (g *Guard) warnings(t Tick) []Warning {
	if g.state.Reason != "" {
		return nil
	}
	var due []Warning
	add := func(u use, share float64, projected bool, format string, args ...any) {
		key := warnKey(u.objective, share, projected)
		if g.state.Warned[key] {
			return
		}
		if g.state.Warned == nil {
			g.state.Warned = map[string]bool{}
		}
		g.state.Warned[key] = true
		due = append(due, Warning{u.objective, share, projected, fmt.Sprintf(format, args...)})
	}
	for _, u := range g.uses() {
		name, projected := "budget", t.ProjectedUSD
		if u.objective == Time {
			name, projected = "deadline", t.ProjectedTime.Seconds()
		}
		for _, share := range g.options.WarnAt {
			if u.until(share*u.limit) <= resolution {
				add(u, share, false, "%.3g %% of the %s is used", 100*u.used/u.limit, name)
			}
		}
		for _, share := range g.options.WarnProjectedAt {
			if finite(projected) && projected > share*u.limit {
				add(u, share, true, "%s", u.projectionWords(projected))
			}
		}
	}
	return due
}
