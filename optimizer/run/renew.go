package run

import (
	"context"
	"fmt"
	"math"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// doubt collects the evidence against a learning agent's critics: an agreement that is projected to be missed look
// after look, and a pace that the critics foresaw worse than the performance model alone did.
type doubt struct {
	missing int     // looks in a row at which a severe violation was projected
	looks   int     // at which the critics' correction could be checked
	worse   float64 // sum of how much further off they were than the model, in log seconds
	// said is what was expected at the last decision, seconds per unit of work: by the model, and as corrected.
	model, corrected float64
	// rest is how many looks must pass before the next attempt.
	rest int
}

const (
	severeViolation = 0.3
	missingLooks    = 3
	worseBy         = 0.05 // mean log error beyond the model's
	renewCooldown   = 20   // looks
)

// expect takes note of what a decision of the agent expects at the place where the job then runs.
func (d *doubt) expect(p plan.Plan, remaining float64) {
	d.model, d.corrected = math.NaN(), math.NaN()
	if p.Learned == nil || p.Learned.Agent == "" || !(remaining > 0) || !(p.Learned.Shift > 0) {
		return
	}
	d.model = p.Learned.UnitSeconds
	d.corrected = d.model * p.Learned.Shift
}

// look judges the last decision by the measured seconds per unit of work, and the agreement by its verdicts. It returns
// the trigger of a renewal in words, empty when there is none.
func (d *doubt) look(measured float64, verdicts []sla.Verdict) string {
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
	return fmt.Sprintf("a limit of the SLA is projected to be missed by %.0f %% at %d checks in a row, and the critics foresaw the pace %.0f %% worse than the model alone",
		100*severe, d.missing, 100*(math.Exp(d.worse/float64(d.looks))-1))
}

// renewing is a renewal under way, beside the agent's loop: it takes seconds, and guard, signals and samples do not wait.
type renewing struct {
	trigger string
	done    chan renewed // of one, so that nobody waits for a run that has ended
}

type renewed struct {
	agent *plan.Agent
	how   plan.Renewal
	err   error
}

// checkAgent renews the critics of a learning planner when the evidence is against them; every attempt is recorded.
func (r *run) checkAgent(ctx context.Context) {
	if r.Config.Planner != "morl" || r.model == nil {
		return
	}
	if r.renewing != nil {
		select {
		case got := <-r.renewing.done:
			r.finishRenewal(r.renewing.trigger, got)
			r.renewing = nil
		default:
		}
		return
	}
	measured := math.NaN()
	if seg := r.progress.Current(); seg != nil && len(seg.Blocks) > 0 {
		measured = median(seg.Blocks)
	}
	trigger := r.doubt.look(measured, r.verdicts)
	planner, ok := r.planner().(plan.MORL)
	if trigger == "" || !ok || r.Simulate == nil {
		return
	}
	agent, err := planner.Current()
	if err != nil {
		return
	}
	r.doubt = doubt{rest: renewCooldown}
	r.makeHeavy()
	r.renewing = &renewing{trigger: trigger, done: make(chan renewed, 1)}
	snapshot, simulate, seed, done := r.snapshot(), r.Simulate, uint64(r.Config.Seed)+uint64(len(r.rec.CriticResets))+1, r.renewing.done
	go func() {
		var got renewed
		defer func() {
			if x := recover(); x != nil { // the optimiser may fail; the training never fails because of it (P8)
				got.err = fmt.Errorf("renew the agent: %v", x)
			}
			done <- got
		}()
		got.agent, got.how, got.err = agent.Renew(ctx, snapshot, simulate, seed)
	}()
}

// finishRenewal takes the better critics and records the attempt.
func (r *run) finishRenewal(trigger string, got renewed) {
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
	r.criticReset = got.how.Swapped
}
