package journal

import (
	"slices"

	"trainopt/sla"
)

// The values of Comparison.Basis.
const (
	BasisThisRun   = "this-run"  // both sides were measured in this run
	BasisSame      = "same"      // the run never left the baseline
	BasisEarlier   = "earlier"   // the baseline was measured in an earlier run, under unknown conditions
	BasisDisturbed = "disturbed" // other programs used the machine in one of the two measurements
	BasisUnsteady  = "unsteady"  // the speed of the machine, or of the training at one allocation, changed during the run
)

// Over reports whether the run has ended, so that its record is final.
func (r *Record) Over() bool { return r.State == Done || r.State == Failed || r.State == Stopped }

// EndedEarly reports whether the training ended normally with at least one unit of work fewer than its total, such as
// by early stopping. Predictions of its time and cost were of more work.
func (r *Record) EndedEarly() bool {
	done := r.Outcome.Epochs
	if r.Training.Unit == "step" {
		done = r.Outcome.Steps
	}
	return r.State == Done && r.Training.TotalUnits-done >= 1 // false if one is unknown
}

// EndedBy returns the limit that ended the run early; empty if none did.
func (r *Record) EndedBy() sla.Objective {
	if r.State != Stopped || r.Exit == nil {
		return ""
	}
	return map[string]sla.Objective{"deadline": sla.Time, "budget": sla.Cost}[r.Exit.Reason]
}

// Settle removes from a record the statements that its end does not support; it also corrects records of earlier
// versions:
//
//   - a limit is met by a finished run only (see [sla.Unfinished]);
//   - a comparison with the baseline is kept for a finished run only, and only if the allocations differ and both sides
//     were measured in the run (Comparison.Basis states the reason);
//   - a prediction is kept only if the total amount of work is known: otherwise it applied to one unit of work.
//   - the time and money of restarts are removed if some count as nothing because they were not timed.
//
// It is idempotent.
func (r *Record) Settle() {
	timed := Number(0)
	for _, v := range r.Overheads.RestartSeconds {
		timed += v
	}
	if len(r.Overheads.RestartSeconds) < r.Outcome.Restarts && r.Outcome.OverheadSeconds <= timed {
		r.Outcome.OverheadSeconds, r.Waste.Restarts = Unknown(), Unknown()
	}
	if r.State != Done {
		r.Comparison = Blank[Comparison]()
	} else if basis := r.comparisonBasis(); basis != BasisThisRun {
		r.Comparison = Blank[Comparison]()
		r.Comparison.Basis = basis
	} else {
		r.Comparison.Basis = basis
	}
	if !r.Over() {
		return
	}
	if r.State != Done {
		r.SLA.Verdicts = sla.Unfinished(r.SLA.Verdicts, r.EndedBy())
		r.SLA.Compliance = Unknown()
		if share, ok := sla.Compliance(r.SLA.Verdicts); ok {
			r.SLA.Compliance = Number(share)
		}
	}
	if r.Plan != nil && !r.Training.TotalUnits.Known() && r.Handed.Epochs == 0 {
		r.Plan.withoutTotal()
	}
}

// withoutTotal removes the statements about the whole run.
func (p *Plan) withoutTotal() {
	p.Prediction = nil
	p.Options = p.Options[:0]
	p.Candidates = p.Candidates[:0]
}

// comparisonBasis returns the basis for the comparison of a finished run; empty if the baseline was not measured.
func (r *Record) comparisonBasis() string {
	if r.Baseline == nil {
		return r.Comparison.Basis
	}
	timed := r.Measured
	if len(timed) == 0 {
		timed = r.Probes
	}
	here, elsewhere := false, false
	for _, m := range timed {
		if m.Allocation.SameShape(r.Baseline.Allocation) && !m.LiveCut {
			here = true
		} else {
			elsewhere = true
		}
	}
	switch {
	case r.Comparison.Basis == BasisDisturbed || r.Comparison.Basis == BasisUnsteady:
		return r.Comparison.Basis
	case here && elsewhere || slices.ContainsFunc(r.SiteProbes, func(p SiteProbe) bool { return p.Key == "" }): // it moved
		return BasisThisRun
	case here:
		return BasisSame
	case elsewhere:
		return BasisEarlier
	}
	return ""
}
