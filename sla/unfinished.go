package sla

// Unfinished returns the verdicts of a run that ended before its work was complete: stopped, refused, killed or
// failed. A limit on incomplete work cannot be met, so met and at-risk become unknown. A violation is kept, because
// it was measured. The limit that ended the run, cause, is violated even though the guard acts shortly before the
// limit is reached; its severity is then unknown. An empty cause names no limit. Projections are removed, because
// such a run has no projected end. The input is not modified.
func Unfinished(verdicts []Verdict, cause Objective) []Verdict {
	out := make([]Verdict, len(verdicts))
	for i, v := range verdicts {
		v.Projected = nil
		switch {
		case v.Status == Violated:
		case v.Objective == cause && cause != "":
			v.Status, v.Severity = Violated, nil
		default:
			v.Status, v.Severity = Unknown, nil
		}
		out[i] = v
	}
	return out
}
