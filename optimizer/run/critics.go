package run

import (
	"context"
	"fmt"
	"math"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// critics is the supervision of a learning agent's critics.
type critics struct {
	evidence criticEvidence // against them
	renewal  *criticRenewal // in progress; nil if none
	replaced bool           // after the last logged decision
}

// criticEvidence accumulates the evidence against a learning agent's critics: consecutive checks with a severe projected
// violation of the SLA, and a pace that the critics predicted worse than the performance model alone.
type criticEvidence struct {
	missing int     // consecutive checks with a severe projected violation
	looks   int     // checks of the critics' correction
	worse   float64 // sum of their additional error over the model's, in log seconds
	// model and corrected are the seconds per unit of work expected at the last decision: by the model, and as
	// corrected by the critics.
	model, corrected float64
	// rest is the number of checks before the next attempt.
	rest int
}

const (
	severeViolation = 0.3
	missingLooks    = 3
	worseBy         = 0.05 // mean log error in excess of the model's
	renewCooldown   = 20   // in checks
)

// expect stores the pace that an agent's decision predicts at its allocation.
func (d *criticEvidence) expect(p plan.Plan, remaining float64) {
	d.model, d.corrected = math.NaN(), math.NaN()
	if p.Learned == nil || p.Learned.Agent == "" || !(remaining > 0) || !(p.Learned.Shift > 0) {
		return
	}
	d.model = p.Learned.UnitSeconds
	d.corrected = d.model * p.Learned.Shift
}

// look compares the last decision with the measured seconds per unit of work, and evaluates the verdicts. It returns
// the reason for a renewal, empty if none is due.
func (d *criticEvidence) look(measured float64, verdicts []sla.Verdict) string {
	severe := 0.0
	for _, v := range verdicts {
		if (v.Objective == sla.Time || v.Objective == sla.Cost) && v.Severity != nil {
			severe = math.Max(severe, *v.Severity)
		}
	}
	d.missing++
	if severe <= severeViolation {
		d.missing = 0
	}
	if measured > 0 && d.model > 0 && d.corrected > 0 {
		d.looks++
		d.worse += math.Abs(math.Log(measured/d.corrected)) - math.Abs(math.Log(measured/d.model))
	}
	if d.rest > 0 {
		d.rest--
		return ""
	}
	if d.missing < missingLooks || d.looks == 0 || d.worse/float64(d.looks) < worseBy {
		return ""
	}
	return fmt.Sprintf("a limit of the SLA is projected to be missed by %.0f %% at %d checks in a row, and the critics predicted the pace %.0f %% worse than the model alone",
		100*severe, d.missing, 100*(math.Exp(d.worse/float64(d.looks))-1))
}

// criticRenewal is a renewal in progress. It runs beside the agent's loop: it takes seconds, and guard, signals and
// samples must not wait.
type criticRenewal struct {
	trigger string
	done    chan renewalResult // buffered, so that the goroutine does not block if the run has ended
}

// renewalResult is the result of a renewal.
type renewalResult struct {
	agent *plan.Agent
	how   plan.Renewal
	err   error
}

// checkAgent renews the critics of a learning planner if the evidence is against them. The renewal runs in a
// goroutine and is collected by a later call; every attempt is recorded.
func (r *run) checkAgent(ctx context.Context) {
	if r.Config.Planner != "morl" || r.model == nil {
		return
	}
	if r.critics.renewal != nil {
		select {
		case got := <-r.critics.renewal.done:
			r.finishRenewal(r.critics.renewal.trigger, got)
			r.critics.renewal = nil
		default:
		}
		return
	}
	measured := math.NaN()
	if seg := r.Progress.Current(); seg != nil && len(seg.Blocks) > 0 {
		measured = stat.Median(seg.Blocks)
	}
	trigger := r.critics.evidence.look(measured, r.verdicts)
	planner, ok := r.planner().(plan.MORL)
	if trigger == "" || !ok || r.Simulate == nil {
		return
	}
	agent, err := planner.Current()
	if err != nil {
		return
	}
	r.critics.evidence = criticEvidence{rest: renewCooldown}
	r.restoreFootprint()
	r.critics.renewal = &criticRenewal{trigger: trigger, done: make(chan renewalResult, 1)}
	snapshot, simulate, seed, done := r.snapshot(), r.Simulate, uint64(r.Config.Seed)+uint64(len(r.rec.CriticResets))+1, r.critics.renewal.done
	go func() {
		var got renewalResult
		defer func() {
			if x := recover(); x != nil { // a panic of the optimizer must not stop the training
				got.err = fmt.Errorf("renew the agent: %v", x)
			}
			done <- got
		}()
		got.agent, got.how, got.err = agent.Renew(ctx, snapshot, simulate, seed)
	}()
}

// finishRenewal adopts the better critics and records the attempt.
func (r *run) finishRenewal(trigger string, got renewalResult) {
	if got.err != nil {
		r.event(Warning, "%v", got.err)
		return
	}
	words := fmt.Sprintf("%s; fresh critics, trained on the run's own measurements, err by %.3f, the old ones by %.3f: ", trigger, got.how.After, got.how.Before)
	if got.how.Swapped {
		r.learner = &plan.MORL{Agent: got.agent}
		words += "replaced"
	} else {
		words += "kept"
	}
	r.event(Warning, "critic reset: %s", words)
	r.rec.CriticResets = append(r.rec.CriticResets, journal.CriticReset{AtS: journal.Number(r.elapsed().Seconds()), Policy: "morl", Trigger: words})
	r.critics.replaced = got.how.Swapped
}
