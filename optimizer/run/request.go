package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
)

// answerPoll is the interval at which Prefer looks for the agent's answer.
const answerPoll = 100 * time.Millisecond

// ErrNoAgent reports that a request has no agent to carry it out.
var ErrNoAgent = errors.New("no agent is working on it")

// Prefer asks the agent of a run for another preference and returns its answer. The error wraps ErrNoAgent if the run has
// no agent, or ended before the answer, and is that of ctx if the agent has not answered by its end; the agent may then
// still carry out the request.
func Prefer(ctx context.Context, dir string, preference plan.Preference) (*journal.Answer, error) {
	fail := func(err error) (*journal.Answer, error) {
		return nil, fmt.Errorf("change the preference of %s: %w", filepath.Base(dir), err)
	}
	if journal.HolderOf(dir) == nil {
		return fail(ErrNoAgent)
	}
	id, err := journal.Ask(dir, preference)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(answerPoll)
	defer poll.Stop()
	for {
		gone := journal.HolderOf(dir) == nil // before the answer is read, so that its last one is seen
		if a, err := journal.ReadAnswer(dir, id); a != nil || err != nil {
			return a, err
		}
		if gone {
			return fail(fmt.Errorf("the run ended first: %w", ErrNoAgent))
		}
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-poll.C:
		}
	}
}

// answerRequests carries out the requests of users, one per call. A request waits while the job moves or stops.
func (r *run) answerRequests() {
	if r.ended != nil || r.Pending != nil || r.moving != nil || r.retryAt > 0 {
		return
	}
	for _, q := range r.dir.Requests() {
		a := journal.Answer{ID: q.ID, Text: "the request contains no known change"}
		if q.Prefer != nil {
			a.Text = "the optimizer failed: the preference is kept for later decisions"
			r.safely(func() { a.Changed, a.Text = r.prefer(*q.Prefer) })
		}
		if err := r.dir.Answer(a); err != nil {
			r.warnDiskOnce(err)
		}
		return
	}
}

// prefer replaces the preference, decides again, and reports whether the allocation changes, with the reason.
func (r *run) prefer(wish plan.Preference) (changed bool, text string) {
	preference, err := plan.ParsePreference(wish.String())
	if err != nil {
		return false, err.Error()
	}
	before := r.Config.Preference
	r.Config.Preference, r.Config.PreferenceGiven = preference, true
	r.rec.Preference = preference
	r.event(Info, "preference %s instead of %s, requested by the user", preference, before)
	changed, text = r.decideAgain()
	r.event(Info, "%s", text)
	r.rec.PreferenceChanges = append(r.rec.PreferenceChanges, journal.PreferenceChange{AtS: journal.Number(r.elapsed().Seconds()), From: before, To: preference, Changed: changed, Answer: text})
	r.save(true)
	return changed, text
}

// decideAgain decides for a changed preference and moves the job if the move is worth it.
func (r *run) decideAgain() (changed bool, text string) {
	switch {
	case r.Config.Planner == "static":
		return false, "the static planner keeps the baseline under any preference"
	case r.Phase != working:
		return false, "the plan follows after the measurements, with the new preference"
	case r.job == nil || r.queued != nil:
		return false, "the job waits to start: the next decision uses the new preference"
	}
	var p plan.Plan
	var err error
	r.runPlanning(func() {
		r.refit()
		if r.model != nil {
			p, err = r.decide()
		}
	})
	var no *plan.Infeasible
	switch {
	case r.model == nil:
		return false, "nothing is measured yet: the next decision uses the new preference"
	case errors.As(err, &no):
		r.eventOnce(Warning, "infeasible", "%s", no.Why)
	}
	worth, why := plan.Worth(r.snapshot(), p)
	if p.Allocation.SameShape(r.Current) {
		r.setDecision(p)
		r.stay(p.Reason)
		return false, fmt.Sprintf("the plan stays at %s: %s", r.Current, p.Reason)
	}
	if !worth {
		r.stay(why)
		return false, fmt.Sprintf("the preference selects %s, but the job stays at %s: %s", p.Allocation, r.Current, why)
	}
	p.Reason = why
	before := len(r.rec.Actions)
	r.setDecision(p)
	r.moveTo(p)
	if len(r.rec.Actions) == before || r.rec.Actions[len(r.rec.Actions)-1].Applied == "recommended" {
		return false, fmt.Sprintf("%s is recommended only, the running job cannot move: %s", p.Allocation, why)
	}
	return true, fmt.Sprintf("the plan changes to %s: %s", p.Allocation, why)
}
