package run

import (
	"cmp"
	"errors"
	"fmt"

	"trainopt/optimizer/plan"
)

// dryRun plans without starting anything. Without an earlier run, or without a known total, it reports what a run
// would measure: a plan compares whole runs, and the pace of a single unit of work does not determine a deadline or a
// budget.
func (r *run) dryRun() Result {
	if r.model == nil {
		r.event(Warning, "no prediction: no earlier run of this training on this machine, and a dry run measures nothing")
		r.event(Info, "%s", r.wouldMeasure())
		r.View.Planned(r.rec)
		return Result{Code: CodeDone, Record: r.rec}
	}
	if r.progress.knownTotal(r.recalledUnit) == 0 {
		r.event(Warning, "no prediction: the total amount of work is unknown (--epochs N or --steps N sets it)")
		r.rateEvents()
		r.event(Info, "%s", r.wouldMeasure())
		r.rec.Plan = nil
		r.View.Planned(r.rec)
		return Result{Code: CodeDone, Record: r.rec}
	}
	p, err := r.decide()
	r.rec.Plan = r.planRecord(p, 0)
	var no *plan.Infeasible
	if errors.As(err, &no) && len(r.recalled()) == 0 {
		r.event(Warning, "%s; that is known of similar runs only, and refuses nothing", no.Why)
	} else if errors.As(err, &no) {
		return Result{Code: CodeInfeasible, Record: r.rec, Err: no}
	}
	if len(r.recalled()) == 0 {
		r.event(Info, "%s", r.wouldMeasure())
	}
	r.View.Planned(r.rec)
	return Result{Code: CodeDone, Record: r.rec}
}

// rateEvents shows the pace of each allocation that earlier runs measured.
func (r *run) rateEvents() {
	unit := cmp.Or(r.progress.Unit, r.recalledUnit, "unit")
	for _, a := range r.model.Measured() {
		t := r.model.UnitSeconds(a)
		r.event(Info, "measured earlier at %s: %.3g s per %s (90 %% interval %.3g to %.3g s)", a, t.P50, unit, t.P5, t.P95)
	}
}

// wouldMeasure describes the measurements of a run before its plan.
func (r *run) wouldMeasure() string {
	if r.Config.Samples < 0 || r.Config.Planner == "static" {
		return fmt.Sprintf("a run would start at %s and stay there: probes are off", r.baseline)
	}
	text := fmt.Sprintf("a run would first measure the baseline, %s", r.baseline)
	n := len(plan.Allocations(r.snapshot()))
	if n <= 1 {
		return text + ", the only allowed allocation"
	}
	if r.progress.knownTotal(r.recalledUnit) == 0 {
		return text + fmt.Sprintf("; up to %d of the other %d allowed allocations follow once the total amount of work is known, for at most %.0f %% of the predicted cost",
			min(n-1, r.Config.Samples-1), n-1, 100*r.Config.Ratio)
	}
	return text + fmt.Sprintf(", then up to %d of the other %d allowed allocations, for at most %.0f %% of the predicted cost",
		min(n-1, r.Config.Samples-1), n-1, 100*r.Config.Ratio)
}
