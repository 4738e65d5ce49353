package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// adaptStep searches, every few units of work, for an allocation that is better for the remaining work. It refits the
// model, lets the planner decide, and moves the job if the gain is worth the move.
func (r *run) adaptStep(ctx context.Context) {
	if r.Progress.Rewound && r.Resumable && r.hasSaved() {
		r.Resumable = false
		r.event(Warning, "after the restart the log began again from %s %g: the job does not resume; it will not be restarted again", r.Progress.Unit, r.Progress.Done)
	}
	if r.Progress.Done-r.AdaptedAt < float64(r.Config.Every) || r.Progress.Finished() || r.Config.Planner == "static" || r.retryAt > 0 || !r.mayPlan() {
		return
	}
	r.AdaptedAt = r.Progress.Done
	if seg := r.Progress.Current(); seg.PeakGiB > 0 {
		r.learnMemory(seg.PeakGiB)
	}
	var p plan.Plan
	var err error
	r.runPlanning(func() {
		r.refit()
		r.checkAgent(ctx)
		if r.model != nil {
			p, err = r.decide()
		}
	})
	if r.model == nil {
		return
	}
	if to, why := plan.Revert(r.snapshot()); to != nil && r.Progress.MeasuredEnough(r.Progress.Current()) {
		r.moveTo(plan.Plan{Allocation: r.withMemory(*to), Planner: p.Planner, Reason: why})
		return
	}
	var no *plan.Infeasible
	if errors.As(err, &no) {
		r.eventOnce(Warning, "infeasible", "%s", no.Why)
	}
	if p.Allocation.SameShape(r.Current) {
		if p.Allocation.Memory > r.Current.Memory {
			r.applyLive(p.Allocation, "measured need with a margin of 25 %")
		} else {
			r.probeAgain("nothing allowed is better")
		}
		return
	}
	worth, why := plan.Worth(r.snapshot(), p)
	if !worth {
		r.probeAgain(why)
		return
	}
	p.Reason = why
	r.setDecision(p)
	r.moveTo(p)
}

// setDecision makes p, a later decision of the run, its plan.
func (r *run) setDecision(p plan.Plan) {
	r.plan = p
	before := r.rec.Plan
	r.rec.Plan = r.planRecord(p, r.elapsed().Seconds())
	if before != nil && before.Prediction != nil { // the outcome is compared with the first prediction
		r.rec.Plan.Prediction = before.Prediction
	}
	r.writeFront(p)
}

// probeAgain starts another probe during the work if that is worthwhile, and otherwise records the decision to stay.
func (r *run) probeAgain(why string) {
	var next *resources.Allocation
	var reason string
	if r.Resumable {
		r.runPlanning(func() { next, reason = r.nextProbe() })
	}
	if next == nil {
		r.stay(why)
		return
	}
	r.event(Info, "probing %s: %s", *next, reason)
	r.Phase = probing
	r.leaveFor(&pendingStop{Why: "restart", Next: next, Label: "probe"})
}

// moveTo brings the job to the plan's allocation by the least intrusive way that is allowed: no change, a live
// change, or a restart. If none is allowed, the allocation is recommended only.
func (r *run) moveTo(p plan.Plan) {
	to, s := p.Allocation, r.snapshot()
	if to.SameShape(r.Current) {
		if to.Memory != r.Current.Memory && r.fitsMemory(to.Memory) {
			r.applyLive(to, "measured need with a margin of 25 %")
		} else {
			r.stay(p.Reason)
		}
		r.Progress.Current().Label = "run"
		return
	}
	switch {
	case s.LiveWorkers && r.workersAlone(to):
		if r.observer.workers.id == 0 {
			r.moveWorkers(to, p.Reason)
		}
	case s.Resumable:
		r.act(to, p.Reason, "restart")
		r.leaveFor(&pendingStop{Why: "restart", Next: &to, Label: "run"})
	case s.LiveCPU && to.GPUs == r.Current.GPUs && to.BatchSize == r.Current.BatchSize && to.Threads == r.Current.Threads && to.CPUs < r.Current.CPUs:
		r.applyLive(to, p.Reason)
	default:
		r.advise(to, p.Reason+"; "+cmp.Or(s.Stays, "the job cannot be resumed")+", so it stays where it is")
	}
}

func (r *run) fitsMemory(g resources.GiB) bool {
	used := r.sampler.last.Tree.MemoryGiB
	return math.IsNaN(used) || used < float64(g)
}

// advise recommends an allocation, once.
func (r *run) advise(to resources.Allocation, why string) {
	if key := to.String(); !r.advised[key] {
		r.advised[key] = true
		r.act(to, why, "recommended")
	}
}

// growMemory raises the memory of a job that has nearly used its allocation, up to limits.MemoryMax: the estimate was
// too low, and the training must not suffer for it.
func (r *run) growMemory() {
	used := r.sampler.last.Tree.MemoryGiB
	if math.IsNaN(used) || used < 0.9*float64(r.Current.Memory) || r.Current.Memory >= r.Limits.MemoryMax {
		return
	}
	to := r.Current
	to.Memory = min(roundMemory(resources.GiB(used)*memoryMargin), r.Limits.MemoryMax)
	if to.Memory > r.Current.Memory {
		r.applyLive(to, fmt.Sprintf("uses %.2f of %.2f GiB", used, float64(r.Current.Memory)))
	}
}

// applyLive changes the allocation of the running job without a restart.
func (r *run) applyLive(to resources.Allocation, why string) {
	to.GPUs, to.GPUIDs = r.Current.GPUs, r.Current.GPUIDs
	if r.resizer == nil {
		r.advise(to, why+"; a running job cannot be resized here")
		return
	}
	notApplied, err := r.resizer.Apply(r.enforced(to))
	if errors.Is(err, os.ErrProcessDone) { // its exit is about to arrive
		return
	}
	if err != nil {
		r.event(Warning, "change the running job to %s: %v", to, err)
		return
	}
	for _, n := range notApplied {
		r.warnOnce(n)
	}
	r.rec.Enforced = r.job.Enforced()
	now := r.elapsed()
	r.meter.Change(now, cost.Label(r.Progress.Current().Label), to)
	if to.CPUs != r.Current.CPUs || to.BatchSize != r.Current.BatchSize {
		r.beginSegment(now, to, "run", false)
	} else {
		r.Progress.Current().Allocation = to
	}
	r.act(to, why, "live")
	r.Current = to
	r.moveTimeLimit()
}

// act records a change of allocation, or the recommendation of one, with further changes.
func (r *run) act(to resources.Allocation, why, applied string, changes ...string) {
	r.checkBatch(to)
	index, ok := r.actions().IndexOf(r.Current, to)
	if !ok {
		index = -1
	}
	a := journal.Action{AtS: journal.Number(r.elapsed().Seconds()), Action: index, From: r.Current, To: to, Reason: why, Applied: applied,
		Description: describeChange(r.Current, to)}
	if len(changes) > 0 {
		a.Description = strings.TrimPrefix(strings.Join(append([]string{a.Description}, changes...), ", "), "no change, ")
	}
	r.rec.Actions = append(r.rec.Actions, a)
	r.lastAction = a.Description
	r.event(Info, "%s (%s): %s", a.Description, applied, why)
	r.writeDecision(a)
	if applied == "live" {
		r.noteAllocation(to, applied, why)
	}
}

// stay records the decision to change nothing.
func (r *run) stay(why string) {
	r.writeDecision(journal.Action{Action: r.actions().Stay(), Description: "no change", From: r.Current, To: r.Current, Reason: why})
}

// describeChange lists the differing resources of two allocations, such as "CPUs 4 → 2"; "no change" if they are
// equal.
func describeChange(from, to resources.Allocation) string {
	var parts []string
	add := func(name string, a, b float64, unit string) {
		if a != b {
			parts = append(parts, fmt.Sprintf("%s %g → %g%s", name, a, b, unit))
		}
	}
	add("GPUs", float64(from.GPUs), float64(to.GPUs), "")
	add("CPUs", float64(from.CPUs), float64(to.CPUs), "")
	add("memory", float64(from.Memory), float64(to.Memory), " GiB")
	if from.Threads != to.Threads {
		count := func(n int) string {
			if n == 0 {
				return "default"
			}
			return strconv.Itoa(n)
		}
		parts = append(parts, "threads "+count(from.Threads)+" → "+count(to.Threads))
	}
	add("loader workers", float64(from.NumWorkers), float64(to.NumWorkers), "")
	add("batch", float64(from.BatchSize), float64(to.BatchSize), "")
	return cmp.Or(strings.Join(parts, ", "), "no change")
}

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
	all := r.dir.Requests()
	if len(all) == 0 {
		return
	}
	if q, a := all[0], &r.answer; a.ID != q.ID {
		*a = journal.Answer{ID: q.ID, Text: "the request contains no known change"}
		if q.Prefer != nil {
			a.Text = "the optimizer failed: the preference is kept for later decisions"
			r.safely(func() { a.Changed, a.Text = r.prefer(*q.Prefer) })
		}
	}
	if err := r.dir.Answer(r.answer); err != nil {
		r.warnDiskOnce(err)
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

// arrive makes another kind of node the place of the next launch: limits and prices become its own, what was timed on the
// earlier one is kept as a measurement of that kind, and what the probe measured counts from now on.
func (r *run) arrive(ctx context.Context, kind engine.Kind, next resources.Allocation) error {
	from, old, hourly := r.Current, r.site, r.Rates.Hourly(r.withMemory(r.Current))
	if r.model != nil {
		r.keepBaseline()
		unit := r.model.UnitSeconds(from)
		left := &siteProbe{Spread: math.Log(unit.P95/unit.P5) / 3.29}
		left.Place, left.Allocation, left.Outcome, left.Confirmed = old.Place, from, probeMeasured, true
		left.USDHour = journal.Number(hourly)
		left.Unit, left.UnitSeconds = r.Progress.Unit, []journal.Number{journal.Number(unit.P50)}
		r.SiteProbes = append(r.SiteProbes, left)
	}
	target := r.siteFor(&kind)
	r.Config.Place = kind
	if target.Place == kind {
		others := []Site{old}
		for _, o := range old.Others {
			if o.Place != kind {
				others = append(others, o)
			}
		}
		others[0].Others, target.Others = nil, others
		r.site, r.Launcher = target, target.Launcher
	} else if err := r.openSite(ctx); err != nil { // of an agent that has died meanwhile
		return err
	}
	r.Host = r.site.Host
	r.resolveSiteRates()
	if err := r.resolveLimits(); err != nil {
		return err
	}
	r.Left = true
	r.Progress.leave()
	if p := r.probeOf(kind); p != nil && p.Outcome == probeMeasured {
		now := r.elapsed()
		s := r.Progress.Begin(now, p.Allocation, "probe", true)
		s.Blocks, s.EndedAt, s.Launch = p.paces(), now, false // of another job
	}
	r.rec.Host, r.rec.Prices = journal.Host{Host: r.Host}, journal.Prices{Rates: r.Rates}
	r.recall()
	if r.model != nil {
		r.setDecision(plan.Plan{Allocation: next, Planner: r.plan.Planner, Reason: "moved to " + kind.String(), Binding: "none"})
	}
	return nil
}
