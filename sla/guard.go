package sla

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"trainopt/internal/wording"
)

// Never is the time until a transition that does not occur at the present rate.
const Never = time.Duration(math.MaxInt64)

// A run is killed at the latest when a limit is exceeded by the factor killShare, and earlier if the latency could
// carry it beyond the factor hardShare.
const (
	killShare  = 1.005
	hardShare  = 1.01
	resolution = time.Millisecond // a transition closer than this is due
)

// GuardOptions configures a guard. The zero value warns at 80 and 95 %.
type GuardOptions struct {
	// WarnAt contains the used shares of a limit that cause a warning, once each; nil means 0.8 and 0.95, an empty
	// slice none.
	WarnAt []float64
	// WarnProjectedAt contains the projected shares of a limit (P50 at completion) that cause a warning, once each;
	// nil means 1, the limit itself, an empty slice none.
	WarnProjectedAt []float64
	// Latency is the maximum delay between the due time of a tick and the death of the job after a Kill. The guard
	// kills earlier by this amount where the limit would otherwise be exceeded by more than 1 %. 0 assumes an exact
	// timer.
	Latency time.Duration
}

// Tick is the input of one step. Elapsed and SpentUSD count from the first start of the run, over all restarts and
// probes.
type Tick struct {
	Elapsed time.Duration // monotonic; a decrease is ignored
	// SpentUSD is the cost so far. If it is NaN or decreases, the last known amount is extrapolated at the last known
	// price.
	SpentUSD float64
	// USDPerHour is the current price of the run; if NaN, infinite or negative, the last known price applies.
	USDPerHour float64
	// Reserve is the expected duration of a checkpoint and an orderly exit; 0 requests the checkpoint at the limit
	// itself.
	Reserve time.Duration
	// Stopping is true if the job is already stopping for another reason, such as a restart or a request of the user.
	// It has then been asked to save and must not be asked again.
	Stopping bool
	// ProjectedUSD and ProjectedTime are the P50 at completion; 0 or NaN means unknown. They affect only warnings.
	ProjectedUSD  float64
	ProjectedTime time.Duration
}

// action is the action required of the caller.
type action string

const (
	KeepGoing action = "keep-going"
	// Checkpoint: ask the job to save and exit, and do not restart it. Returned at most once per run.
	Checkpoint action = "checkpoint"
	// Kill: send SIGKILL to all remaining processes immediately. Returned at most once per run.
	Kill action = "kill"
)

// decision is the result of one tick.
type decision struct {
	Action action
	// Limit is the objective that causes a stop, Cost or Time; empty before a stop. It does not change after the stop
	// has begun.
	Limit Objective
	// AlreadyStopping accompanies Checkpoint if the job was already stopping: do not signal it, only prevent its
	// restart.
	AlreadyStopping bool
	// Next is the time until the next transition at the present rate, or Never. Set a timer for it, and tick again
	// when it fires or when the rate, the reserve or the state changes.
	Next time.Duration
	// Warnings are those that became due with this tick: a share of a limit was reached, by use or by projection. Each is a
	// sentence for the user.
	Warnings []string
	// Explanation explains an Action other than KeepGoing in one sentence.
	Explanation string
}

// guardState is the persistent state of a guard.
type guardState struct {
	Elapsed      time.Duration   `json:"elapsed_ns"`
	Spent        float64         `json:"spent_usd"`    // best estimate
	LastReported float64         `json:"told_usd"`     // last reported amount
	Rate         float64         `json:"usd_per_hour"` // −1: never known
	Reason       Objective       `json:"reason,omitempty"`
	Killed       bool            `json:"killed,omitempty"`
	Warned       map[string]bool `json:"warned,omitempty"`
}

// Guard decides when a run must be stopped because its budget or its deadline is used up. It is a state machine
// without clock or goroutine: the caller ticks it no later than Next of the previous decision after the previous tick. It is not safe
// for concurrent use.
//
// For a limit L (USD or time), with usage u, rate of use r and reserve R, the action is
//
//	checkpoint  if u + r·R ≥ L, so that the job has saved and exited when L is reached
//	kill        if u ≥ min(1.005 L, 1.01 L − r·Latency), even during a checkpoint
//
// so the limit is never exceeded by more than 1 % if ticks are on time. A run that has reached the kill threshold at
// its first tick is killed without a checkpoint. Each action is returned once, even if the other limit is crossed
// while the job saves or restarts. Missing telemetry does not delay the guard: unknown values are extrapolated from
// the last known ones.
type Guard struct {
	budget   float64
	deadline time.Duration
	options  GuardOptions
	state    guardState
}

// NewGuard returns a guard for the deadline and the budget of an SLA; the other objectives stop nothing. A guard
// without either limit never stops a run. The error joins all problems of the SLA and the options.
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

// State returns the state that a restarted agent passes to Restore, as a small JSON document.
func (g *Guard) State() []byte {
	data, err := json.Marshal(g.state)
	if err != nil {
		panic(fmt.Sprintf("guard state %+v: %v", g.state, err)) // all its numbers are finite
	}
	return data
}

// Restore continues from the result of State: usage, warnings given and a stop already begun. On error the guard is
// unchanged.
func (g *Guard) Restore(state []byte) error {
	s := guardState{Rate: -1}
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("restore the guard: %w", err)
	}
	if s.Elapsed < 0 || s.Spent < 0 || s.LastReported < 0 || (s.Reason != "" && s.Reason != Time && s.Reason != Cost) || (s.Killed && s.Reason == "") {
		return fmt.Errorf("restore the guard: state %q makes no sense", state)
	}
	g.state = s
	return nil
}

// Step processes one tick and returns the decision.
func (g *Guard) Step(t Tick) decision {
	g.observe(t)
	reserve := max(0, t.Reserve)
	d := decision{Action: KeepGoing, Next: Never, Warnings: g.warnings(t)}
	uses := g.uses()
	kill, killDue := firstDue(uses, limitUsage.untilKill, g.options.Latency)
	save, saveDue := firstDue(uses, limitUsage.untilCheckpoint, reserve)
	switch {
	case g.state.Killed:
	case killDue:
		if g.state.Reason == "" {
			g.state.Reason = kill.objective
		}
		g.state.Killed = true
		d.Action, d.Explanation = Kill, kill.words("is reached", "killing the remaining processes")
	case g.state.Reason == "" && saveDue:
		g.state.Reason = save.objective
		d.Action, d.AlreadyStopping = Checkpoint, t.Stopping
		d.Explanation = save.words("is about to be reached", fmt.Sprintf("stopping now to leave %s for an orderly exit", wording.Duration(reserve.Seconds())))
	}
	d.Limit = g.state.Reason
	d.Next = g.next(uses, reserve)
	return d
}

// observe updates the state with the known values of a tick and extrapolates the unknown ones.
func (g *Guard) observe(t Tick) {
	s := &g.state
	step := max(0, t.Elapsed-s.Elapsed)
	s.Elapsed += step
	if finite(t.SpentUSD) && t.SpentUSD >= s.LastReported {
		s.Spent, s.LastReported = t.SpentUSD, t.SpentUSD
	} else if s.Rate > 0 {
		s.Spent = min(s.Spent+s.Rate*step.Hours(), math.MaxFloat64)
	}
	if finite(t.USDPerHour) && t.USDPerHour >= 0 {
		s.Rate = t.USDPerHour
	} else if mean := s.Spent / s.Elapsed.Hours(); s.Rate < 0 && finite(mean) && mean > 0 {
		s.Rate = mean // no price was ever reported: the mean so far
	}
}

// use is the usage of one limit in the limit's unit, and its rate.
type limitUsage struct {
	objective Objective
	limit     float64
	used      float64
	perSecond float64
}

// uses returns the usage of the limits that are set, the budget first.
func (g *Guard) uses() []limitUsage {
	var list []limitUsage
	if g.budget > 0 {
		list = append(list, limitUsage{Cost, g.budget, g.state.Spent, max(0, g.state.Rate) / 3600})
	}
	if g.deadline > 0 {
		list = append(list, limitUsage{Time, g.deadline.Seconds(), g.state.Elapsed.Seconds(), 1})
	}
	return list
}

// until returns the time until the usage reaches an amount; 0 if it already has, Never if it will not.
func (u limitUsage) until(amount float64) time.Duration {
	left := amount - u.used
	switch {
	case left <= 0:
		return 0
	case u.perSecond <= 0:
		return Never
	}
	return seconds(left / u.perSecond)
}

// untilCheckpoint returns the time until the checkpoint must be requested.
func (u limitUsage) untilCheckpoint(reserve time.Duration) time.Duration {
	return u.until(u.limit - u.perSecond*reserve.Seconds())
}

// untilKill returns the time until the job must be killed.
func (u limitUsage) untilKill(latency time.Duration) time.Duration {
	return u.until(min(killShare*u.limit, hardShare*u.limit-u.perSecond*latency.Seconds()))
}

// words describes a stop and its reason in one sentence.
func (u limitUsage) words(state, then string) string {
	if u.objective == Time {
		return fmt.Sprintf("the deadline of %s %s (%s elapsed): %s", wording.Duration(u.limit), state, wording.Duration(u.used), then)
	}
	return fmt.Sprintf("the budget of $%g %s ($%.3g spent, at $%.3g/h): %s", u.limit, state, u.used, u.perSecond*3600, then)
}

// projectionWords describes a projection to completion relative to the limit.
func (u limitUsage) projectionWords(projected float64) string {
	text := fmt.Sprintf("projected finish after %s: ", wording.Duration(projected))
	limit := "the deadline of " + wording.Duration(u.limit)
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
func firstDue(uses []limitUsage, until func(limitUsage, time.Duration) time.Duration, margin time.Duration) (limitUsage, bool) {
	for _, u := range uses {
		if until(u, margin) <= resolution {
			return u, true
		}
	}
	return limitUsage{}, false
}

// next returns the time until the earliest pending transition.
func (g *Guard) next(uses []limitUsage, reserve time.Duration) time.Duration {
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

// warnKey identifies a warning in the persistent state.
func warnKey(o Objective, share float64, projected bool) string {
	return fmt.Sprintf("%s %g %t", o, share, projected)
}

// warnings returns the warnings that are due and not yet given; none once the run is being stopped.
func (g *Guard) warnings(t Tick) []string {
	if g.state.Reason != "" {
		return nil
	}
	var due []string
	add := func(u limitUsage, share float64, projected bool, format string, args ...any) {
		key := warnKey(u.objective, share, projected)
		if g.state.Warned[key] {
			return
		}
		if g.state.Warned == nil {
			g.state.Warned = map[string]bool{}
		}
		g.state.Warned[key] = true
		due = append(due, fmt.Sprintf(format, args...))
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
