package optimizer

import (
	"errors"
	"fmt"

	"trainopt/optimizer/plan"
)

// dryRun plans without starting anything.
func (r *run) dryRun() Result {
	if r.model == nil {
		r.event(Warning, "no basis for a prediction: no earlier run of this training is known on this machine, and a dry run measures nothing; "+
			"a real run would first measure %s%s", r.baseline, r.wouldProbe())
		r.View.Planned(r.rec)
		return Result{Code: CodeDone, Record: r.rec}
	}
	if r.snapshot().Total == 0 {
		r.event(Warning, "the job does not say how long it is (--epochs N does): times are for one unit of work")
	}
	p, err := r.decide()
	r.rec.Plan = r.planRecord(p, 0)
	var no *plan.Infeasible
	if errors.As(err, &no) {
		return Result{Code: CodeInfeasible, Record: r.rec, Err: no}
	}
	r.View.Planned(r.rec)
	return Result{Code: CodeDone, Record: r.rec}
}

func (r *run) wouldProbe() string {
	n := len(plan.Allocations(r.snapshot()))
	if n <= 1 || r.Config.Samples < 0 {
		return ""
	}
	return fmt.Sprintf(", then up to %d of the other %d allowed allocations, for at most %.0f %% of the job's cost", min(n-1, r.Config.Samples-1), n-1, 100*r.Config.Ratio)
}
